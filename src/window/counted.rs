//! Windows over a number of rows: tumbling and sliding by rank.
//!
//! | | |
//! |---|---|
//! | class | context free on the count measure; on a stream out of order a late row shifts all later rows |
//! | stored | rows in order; in an ordered stream slices only |
//! | time | O(1) per row and per window |
//! | source | Li 2008, Eq. 5.4-5.6 (partitioned by key, over the rank by time); Traub et al. 2019, §4.3 |
//!
//! Li's windows end every `slide` rows, the first ones being incomplete; ours begin every `slide` rows, the last ones
//! being incomplete, as windows over time do here. Both have the same complete windows if `slide` divides `size`.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::memory::Memory;
use super::rules::{Accepts, ByRows, Rules};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View};
use crate::Result;

/// Windows of ranks `[k·slide, k·slide + size)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counted {
    size: usize,
    slide: usize,
    partial: bool,
}

impl Counted {
    /// Windows of `size` rows, one beginning every `slide` rows; incomplete ones only if `partial`.
    ///
    /// # Panics
    /// Unless `0 < slide <= size`; plans check this first and return a proper error.
    pub fn new(size: usize, slide: usize, partial: bool) -> Self {
        assert!(0 < slide && slide <= size, "0 < slide <= size");
        Self { size, slide, partial }
    }

    /// Rows of a window.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Rows from one window's beginning to the next.
    pub fn slide(&self) -> usize {
        self.slide
    }

    /// Whether windows are listed that are still incomplete.
    pub fn partial(&self) -> bool {
        self.partial
    }

    /// How many windows there are over `rows` rows.
    pub fn windows(&self, rows: usize) -> usize {
        if self.partial {
            rows.div_ceil(self.slide)
        } else {
            (rows + self.slide).saturating_sub(self.size) / self.slide
        }
    }

    /// Ranks of window `k`, whether or not there are that many rows.
    pub fn extent(&self, k: usize) -> (usize, usize) {
        (k * self.slide, k * self.slide + self.size)
    }

    /// The windows, complete or not, of a row.
    pub fn wids(&self, rank: usize) -> std::ops::RangeInclusive<usize> {
        self.first_ending_after(rank as u64) as usize..=rank / self.slide
    }

    /// Ranks of the windows that end after `since` rows, but not after `until`.
    pub fn ending(&self, since: u64, until: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        self.ending_after(since).take_while(move |&(_, hi)| hi <= until)
    }

    /// Ranks of the windows that have begun but not ended after this many rows.
    pub fn unfinished(&self, rows: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        self.ending_after(rows).take_while(move |&(lo, _)| lo < rows)
    }

    /// Rank of the first row needed by a window that ends after this many rows.
    pub fn first_needed(&self, rows: u64) -> u64 {
        self.first_ending_after(rows) * self.slide as u64
    }

    fn ending_after(&self, rows: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (size, slide) = (self.size as u64, self.slide as u64);
        (self.first_ending_after(rows)..).map(move |k| (k * slide, k * slide + size))
    }

    /// The first window that ends after this many rows.
    fn first_ending_after(&self, rows: u64) -> u64 {
        let (size, slide) = (self.size as u64, self.slide as u64);
        if rows < size { 0 } else { (rows - size) / slide + 1 }
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

    fn identity(&self, _: (i64, i64), ranks: (i64, i64), _: i64) -> (i64, i64) {
        (ranks.0, 0)
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
}

impl ByRows for Counted {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        let rows = rows.times;
        out.extend((0..self.windows(rows.len())).map(|k| {
            let (lo, hi) = self.extent(k);
            Listed::by_rows(lo, hi.min(rows.len()), rows)
        }));
        Ok(())
    }

    /// An inserted row shifts all later rows, and so changes every window that ends after it.
    fn ready(&self, view: &View<'_>, _: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        let (final_before, changed) = (view.rank(view.final_before()), view.rank(view.changed()));
        let (final_end, end) = (view.rank(view.final_rows()), view.rank(view.len()));
        for (lo, hi) in self.ending_after(final_before.min(changed)) {
            let is_partial = hi > end && lo < end && view.call.closing && self.partial;
            if hi > final_end && !is_partial {
                break;
            }
            let (lo, last) = ((lo - view.base) as usize, (hi.min(end) - view.base) as usize);
            let update = !is_partial && hi <= final_before;
            out.emit(lo, last, (view.times[lo], view.times[last - 1]), update);
        }
        Ok(view.next_row())
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        cuts.every(view, from, (0, self.slide));
        if !self.size.is_multiple_of(self.slide) {
            cuts.every(view, from, (self.size, self.slide));
        }
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

    proptest! {
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(size in 1usize..20, slide in 1usize..20, rank in 0usize..100) {
            let window = Counted::new(size.max(slide), slide, true);
            let covering: Vec<usize> = (0..101)
                .filter(|&k| { let (lo, hi) = window.extent(k); lo <= rank && rank < hi })
                .collect();
            prop_assert_eq!(window.wids(rank).collect::<Vec<_>>(), covering);
        }

        #[test]
        fn windows_are_those_that_fit(size in 1usize..20, slide in 1usize..20, rows in 0usize..100) {
            let (size, of) = (size.max(slide), |partial| Counted::new(size.max(slide), slide, partial));
            let complete = (0..100).filter(|k| k * slide + size <= rows).count();
            let begun = (0..100).filter(|k| k * slide < rows).count();
            prop_assert_eq!((of(false).windows(rows), of(true).windows(rows)), (complete, begun));
        }

        #[test]
        fn windows_end_where_they_are_full(size in 1usize..20, slide in 1usize..20, since in 0u64..60, more in 0u64..60) {
            let window = Counted::new(size.max(slide), slide, false);
            let extents = (0..130).map(|k| window.extent(k)).map(|(lo, hi)| (lo as u64, hi as u64));
            let ending: Vec<_> = extents.clone().filter(|&(_, hi)| since < hi && hi <= since + more).collect();
            prop_assert_eq!(window.ending(since, since + more).collect::<Vec<_>>(), ending);
            let unfinished: Vec<_> = extents.clone().filter(|&(lo, hi)| lo < since && since < hi).collect();
            prop_assert_eq!(window.unfinished(since).collect::<Vec<_>>(), unfinished);
            let needed = extents.into_iter().find(|&(_, hi)| since < hi).map(|(lo, _)| lo);
            prop_assert_eq!(Some(window.first_needed(since)), needed);
        }
    }
}
