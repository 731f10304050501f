//! Windows over a number of rows: tumbling and sliding by rank.
//!
//! | | |
//! |---|---|
//! | class | context free on the count measure; on a stream out of order a late row shifts all later rows |
//! | stored | rows in order; in an ordered stream slices only |
//! | time | O(1) per row and per window |
//! | source | Li 2008, Eq. 5.4-5.6 (partitioned by key, over the rank by time), Eq. 5.7-5.9; Traub et al. 2019, §4.3 |
//!
//! Li's windows end every `slide` rows, so that those at the start of a key have fewer rows. Ours do so where these are
//! included; otherwise they begin every `slide` rows, as windows over time do here.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::in_order::{Edges as RowEdges, Ended, NO_RANK, OfKeys, OrderedRows, Position};
use super::memory::Memory;
use super::rules::{Accepts, ByRows, InOrder, Rules};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View, ranks_from};
use crate::{Error, Result};

/// Rows that a window other than a landmark's has at most.
const MOST: usize = u32::MAX as usize;

/// Which windows are included that have fewer rows than the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Partial {
    /// Those that would begin before the first row.
    pub start: bool,
    /// Those that would end after the last row.
    pub end: bool,
}

impl Partial {
    /// Only complete windows.
    pub const NONE: Self = Self { start: false, end: false };
    /// Also those at the end.
    pub const END: Self = Self { start: false, end: true };

    /// Reads its name.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "none" => Self::NONE,
            "start" => Self { start: true, end: false },
            "end" => Self::END,
            "both" => Self { start: true, end: true },
            _ => {
                return Err(Error::InvalidValue(format!(
                    "partial: '{name}' is unknown; allowed are 'none', 'start', 'end' and 'both'"
                )));
            }
        })
    }
}

/// Windows of ranks `[k·slide - lead, k·slide - lead + size)`, as far as there are rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counted {
    size: usize,
    slide: usize,
    partial: Partial,
}

impl Counted {
    /// Windows of `size` rows, one every `slide` rows: where those at the start are included one ends every `slide` rows,
    /// otherwise one begins.
    ///
    /// # Panics
    /// Unless `0 < slide <= size`; plans check this first and return a proper error.
    pub fn new(size: usize, slide: usize, partial: Partial) -> Self {
        assert!(0 < slide && slide <= size, "0 < slide <= size");
        Self { size, slide, partial }
    }

    /// All rows so far, every `every` rows: windows of more rows than there ever are.
    ///
    /// # Panics
    /// As [`Counted::new`].
    pub fn landmark(every: usize, partial: Partial) -> Self {
        let all = (1 << 62) / every * every;
        Self::new(all, every, Partial { start: true, ..partial })
    }

    /// Rows of a window.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Rows from one window to the next.
    pub fn slide(&self) -> usize {
        self.slide
    }

    /// Which windows are included that have fewer rows.
    pub fn partial(&self) -> Partial {
        self.partial
    }

    /// How many rows window 0 would have before the first one.
    fn lead(&self) -> u64 {
        if self.partial.start { (self.size - self.slide) as u64 } else { 0 }
    }

    /// Ranks of the windows over `rows` rows.
    pub fn windows(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let unfinished = self.unfinished(rows as u64).take_while({
            let includes_end = self.partial.end;
            move |_| includes_end
        });
        let all = self.ending(0, rows as u64).chain(unfinished);
        all.map(|(lo, hi)| (lo as usize, hi as usize))
    }

    /// The windows, complete or not, of a row.
    pub fn wids(&self, rank: usize) -> std::ops::RangeInclusive<usize> {
        let rank = rank as u64;
        self.first_ending_after(rank) as usize..=((rank + self.lead()) / self.slide as u64) as usize
    }

    /// Ranks of the windows that end after `since` rows, but not after `until`.
    pub fn ending(&self, since: u64, until: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        self.ending_after(since).take_while(move |&(_, hi)| hi <= until)
    }

    /// Ranks of the windows that have begun but not ended after this many rows, as far as there are rows. Of those that all
    /// rows are in, there is only the one that ends next, if it has a row more than the one before.
    pub fn unfinished(&self, rows: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (this, next) = (*self, self.first_ending_after(rows));
        let has_new = next.checked_sub(1).map_or(0, |before| self.extent(before).1) < rows;
        // The first window that does not begin with the first row; after a landmark all do.
        let other = if self.size > MOST { rows + 1 } else { self.lead() / self.slide as u64 + 1 };
        let growing = (next < other && has_new).then_some((0, rows));
        let others = (next.max(other)..).map(move |k| (this.extent(k).0, rows));
        growing.into_iter().chain(others.take_while(move |&(lo, _)| 0 < lo && lo < rows))
    }

    /// Rank of the first row needed by a window that ends after this many rows.
    pub fn first_needed(&self, rows: u64) -> u64 {
        self.extent(self.first_ending_after(rows)).0
    }

    /// Ranks of window `k`, whether or not there are that many rows.
    fn extent(&self, k: u64) -> (u64, u64) {
        let begin = k * self.slide as u64;
        (begin.saturating_sub(self.lead()), begin + self.size as u64 - self.lead())
    }

    /// Where slices are cut: at each of these ranks plus any multiple of the number beside it.
    fn cuts(&self) -> impl Iterator<Item = (u64, u64)> + Clone + use<> {
        let (size, slide) = (self.size as u64, self.slide as u64);
        let (begins, ends) = match self.partial.start {
            false => (0, size),
            true => (slide - size % slide, slide),
        };
        [(begins, slide)].into_iter().chain((!size.is_multiple_of(slide)).then_some((ends, slide)))
    }

    /// The first rank from this one on at which slices are cut.
    fn next_cut(&self, from: u64) -> i64 {
        let each = self.cuts().filter_map(|family| ranks_from(from, family).next());
        each.fold(i64::MAX, |least, rank| least.min(rank as i64))
    }

    /// The window of these ranks, where that of a key's first row is `origin`.
    fn ended(&self, origin: u64, (lo, hi): (u64, u64)) -> Ended {
        Ended { window: 0, key: 0, lo: origin + lo, hi: origin + hi, origin, end: None, number: 0 }
    }

    fn ending_after(&self, rows: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let this = *self;
        (self.first_ending_after(rows)..).map(move |k| this.extent(k))
    }

    /// The first window that ends after this many rows.
    fn first_ending_after(&self, rows: u64) -> u64 {
        let (first, slide) = (self.extent(0).1, self.slide as u64);
        if rows < first { 0 } else { (rows - first) / slide + 1 }
    }
}

impl Rules for Counted {
    fn traits(&self) -> WindowTraits {
        WindowTraits { count: true, ..WindowTraits::of(Class::ContextFree) }
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.4-5.6"
    }

    fn is_ranked(&self) -> bool {
        true
    }

    /// Windows at the start of a key all begin with its first row. An unfinished one of them is the one that ends next.
    fn identity(&self, _: (i64, i64), ranks: (i64, i64), _: i64) -> (i64, i64) {
        match ranks {
            (0, end) if self.partial.start => (0, (end as u64).div_ceil(self.slide as u64) as i64),
            (begin, _) => (begin, 0),
        }
    }

    fn reach(&self) -> i64 {
        0
    }

    fn accepts(&self) -> Accepts {
        Accepts::Since(0)
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }

    fn in_order(&self) -> Option<&dyn InOrder> {
        Some(self)
    }
}

impl InOrder for Counted {
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut RowEdges) -> Result<()> {
        for (row, count, key, rank) in rows.stretches() {
            let Position { number: next, edge: origin, .. } = positions.of(key);
            if *origin == NO_RANK {
                // Rows that are before it are in slices of other windows.
                *origin = rank;
                edges.cut(row);
            }
            let (origin, before) = (*origin, rank - *origin);
            let after = before + count as u64;
            if after < *next as u64 {
                continue;
            }
            *next = self.next_cut(after);
            for family in self.cuts() {
                let ranks = ranks_from(before, family).take_while(|&rank| rank < after);
                edges.cuts.extend(ranks.map(|rank| (row as u64 + rank - before) as u32));
            }
            let (window, ended) = (edges.window, self.ending(before, after));
            edges.ended.extend(ended.map(|ranks| Ended { window, key, ..self.ended(origin, ranks) }));
        }
        Ok(())
    }

    fn unfinished(&self, position: &Position, rows: u64) -> Vec<Ended> {
        if position.edge == NO_RANK || !self.partial.end {
            return Vec::new();
        }
        let own = self.unfinished(rows - position.edge);
        own.map(|ranks| self.ended(position.edge, ranks)).collect()
    }

    fn windows_per_row(&self) -> u64 {
        self.size.div_ceil(self.slide) as u64
    }

    fn needed(&self, position: &Position, rows: u64) -> u64 {
        if position.edge == NO_RANK { rows } else { position.edge + self.first_needed(rows - position.edge) }
    }

    fn is_sound(&self, position: &Position, rows: u64, begins: &dyn Fn(u64) -> bool) -> bool {
        let Position { number, edge: origin, is_open, .. } = *position;
        let is_cut = || {
            let own = rows - origin;
            let needed = self.first_needed(own);
            let is_next = number == self.next_cut(own);
            let cuts =
                self.cuts().flat_map(|family| ranks_from(needed, family).take_while(|&rank| rank < own));
            is_next && cuts.chain((needed < own).then_some(needed)).all(|rank| begins(origin + rank))
        };
        !is_open && (origin == NO_RANK || origin < rows && is_cut())
    }
}

impl ByRows for Counted {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        let rows = rows.times;
        out.extend(self.windows(rows.len()).map(|(lo, hi)| Listed::by_rows(lo, hi, rows)));
        Ok(())
    }

    /// With windows at both ends there may be more.
    fn has_few(&self) -> bool {
        !(self.partial.start && self.partial.end)
    }

    /// An inserted row shifts all later rows, and so changes every window that ends after it.
    fn ready(&self, view: &View<'_>, _: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        let (final_before, changed) = (view.rank(view.final_before()), view.rank(view.changed()));
        let (final_end, end) = (view.rank(view.final_rows()), view.rank(view.len()));
        let unfinished = self.unfinished(end).take_while(|_| view.call.closing && self.partial.end);
        let ended = self.ending(final_before.min(changed), final_end).map(|each| (each, false));
        for ((lo, hi), is_unfinished) in ended.chain(unfinished.map(|each| (each, true))) {
            let (lo, last) = ((lo - view.base) as usize, (hi - view.base) as usize);
            let update = !is_unfinished && hi <= final_before;
            out.emit(lo, last, (view.times[lo], view.times[last - 1]), update);
        }
        Ok(view.next_row())
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        self.cuts().for_each(|family| cuts.every(view, from, family));
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        let needed = self.first_needed(view.rank(view.fixed_rows()));
        needed.saturating_sub(view.base).min(view.len() as u64) as usize
    }

    /// Windows that were not emitted still have all their rows.
    fn is_sound(&self, view: &View<'_>, memory: &Memory) -> bool {
        memory.is_empty() && self.first_needed(view.rank(view.fixed_rows())) >= view.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranks of all windows that have begun after so many rows, or soon will, by the definition.
    fn extents(window: &Counted) -> Vec<(i64, i64)> {
        let (size, slide) = (window.size() as i64, window.slide() as i64);
        let first = if window.partial().start { slide - size } else { 0 };
        (0..130).map(|k| (first + k * slide, first + k * slide + size)).collect()
    }

    fn any_counted() -> impl Strategy<Value = Counted> {
        (1usize..20, 1usize..20, any::<bool>(), any::<bool>()).prop_map(|(size, slide, start, end)| {
            Counted::new(size.max(slide), slide, Partial { start, end })
        })
    }

    proptest! {
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(window in any_counted(), rank in 0usize..100) {
            let covers = |&(lo, hi): &(i64, i64)| lo <= rank as i64 && (rank as i64) < hi;
            let all = extents(&window);
            let covering: Vec<usize> = (0..all.len()).filter(|&k| covers(&all[k])).collect();
            prop_assert_eq!(window.wids(rank).collect::<Vec<_>>(), covering);
        }

        #[test]
        fn windows_are_those_that_fit_each_with_other_rows(window in any_counted(), rows in 0i64..100) {
            let Partial { end, .. } = window.partial();
            let has_rows = |&(lo, hi): &(i64, i64)| lo.max(0) < hi.min(rows);
            let fits = |extent: &(i64, i64)| has_rows(extent) && (extent.1 <= rows || end);
            let mut all: Vec<(usize, usize)> = extents(&window)
                .into_iter()
                .filter(fits)
                .map(|(lo, hi)| (lo.max(0) as usize, hi.min(rows) as usize))
                .collect();
            all.dedup();
            prop_assert_eq!(window.windows(rows as usize).collect::<Vec<_>>(), all);
        }

        #[test]
        fn windows_end_where_they_are_full(window in any_counted(), since in 0u64..60, more in 0u64..60) {
            let clipped = |(lo, hi): (i64, i64)| (lo.max(0) as u64, hi as u64);
            let extents: Vec<_> = extents(&window).into_iter().map(clipped).collect();
            let ending = extents.iter().copied().filter(|&(_, hi)| since < hi && hi <= since + more);
            prop_assert!(window.ending(since, since + more).eq(ending));
            let needed = extents.iter().find(|&&(_, hi)| since < hi).map(|&(lo, _)| lo);
            prop_assert_eq!(Some(window.first_needed(since)), needed);
        }

        /// However many rows of a window have come, it is the same window.
        #[test]
        fn a_window_keeps_its_identity(window in any_counted(), rows in 1u64..60, more in 0u64..20) {
            let of = |(lo, hi): (u64, u64)| window.identity((0, 0), (lo as i64, hi as i64), 0);
            let mut later: Vec<_> = window.ending(0, rows + more).map(of).collect();
            later.extend(window.unfinished(rows + more).map(of));
            prop_assert!(later.iter().is_sorted_by(|a, b| a < b), "{later:?}");
            for extent in window.unfinished(rows) {
                prop_assert!(later.contains(&of(extent)), "{extent:?}");
            }
        }
    }

    #[test]
    fn a_landmark_is_followed_by_ever_more_rows() {
        let windows = |partial, rows| Counted::landmark(3, partial).windows(rows).collect::<Vec<_>>();
        assert_eq!(windows(Partial::NONE, 8), [(0, 3), (0, 6)]);
        assert_eq!(windows(Partial::END, 8), [(0, 3), (0, 6), (0, 8)]);
        assert_eq!(windows(Partial::END, 9), [(0, 3), (0, 6), (0, 9)]);
        assert_eq!(windows(Partial::END, 0), []);
    }

    #[test]
    fn lis_windows_begin_with_those_that_are_not_full() {
        let window = Counted::new(5, 2, Partial { start: true, end: false });
        assert_eq!(window.windows(9).collect::<Vec<_>>(), [(0, 2), (0, 4), (1, 6), (3, 8)]);
    }
}
