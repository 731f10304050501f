//! Sliding windows `[offset + k·slide, offset + k·slide + size)`: context free (Li 2008, 5.1–5.3).

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::{Cuts, next};
use super::ids::{Beyond, Ids, Range, stepped, steps};
use super::rules::{Accepts, ByTime, Rules, listed_by};
use super::series::{self, Series};
use super::spans::{Ending, Spans};

/// Sliding windows of `size`, one starting every `slide`, aligned to `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sliding {
    size: i64,
    slide: i64,
    offset: i64,
}

impl Sliding {
    /// Windows `[offset + k·slide, offset + k·slide + size)` for every integer `k`.
    ///
    /// # Panics
    /// Unless `0 < slide <= size`; plans check this first and return a proper error.
    pub fn new(size: i64, slide: i64, offset: i64) -> Self {
        assert!(0 < slide && slide <= size, "0 < slide <= size");
        Self { size, slide, offset: offset.rem_euclid(slide) }
    }

    /// The length of a window.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// The distance from one window's start to the next one's.
    pub fn slide(&self) -> i64 {
        self.slide
    }

    /// The start of the windows nearest to zero from above.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Starts of all windows that meet `[from, to]`, ascending (5.1).
    pub fn windows(&self, from: i64, to: i64) -> impl Iterator<Item = i64> + use<> {
        let (first, slide) = (self.first_covering(from), self.slide);
        (0..).map(move |k| first + k * slide).take_while(move |&start| start <= to)
    }

    /// `[start, end)` of the window that starts at `start` (5.2).
    pub fn extent(&self, start: i64) -> (i64, i64) {
        (start, start + self.size)
    }

    /// Starts of the windows that a row at `t` belongs to, ascending (5.3).
    pub fn wids(&self, t: i64) -> impl Iterator<Item = i64> + use<> {
        self.windows(t, t)
    }

    /// Start of the last window at or before `t`: the greatest `offset + k·slide <= t`.
    #[inline]
    pub fn last_start(&self, t: i64) -> i64 {
        t - (t - self.offset).rem_euclid(self.slide)
    }

    /// Start of the first window whose extent covers `t`.
    #[inline]
    pub fn first_covering(&self, t: i64) -> i64 {
        self.last_start(t - self.size) + self.slide
    }

    /// Periods and offsets of all edges, starts and ends: where slices must be cut (Traub et al. 2019, §5.3.1).
    pub fn edges(&self) -> [(i64, i64); 2] {
        [(self.slide, self.offset), (self.slide, (self.offset + self.size % self.slide) % self.slide)]
    }
}

impl Rules for Sliding {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.1-5.3"
    }

    fn reach(&self) -> i64 {
        // Both the first window's start and, in between, `start + slide` are computed.
        self.size.saturating_add(self.slide)
    }

    fn takes_from(&self, horizon: i64, bounds: (i64, i64)) -> i64 {
        series::takes_from(self, horizon, bounds)
    }

    fn accepts(&self) -> Accepts {
        Accepts::Any
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

/// Numbered by their starts.
impl Series for Sliding {
    #[inline]
    fn step(&self) -> i64 {
        self.slide
    }

    #[inline]
    fn extent_at(&self, start: i64) -> (i64, i64) {
        self.extent(start)
    }

    #[inline]
    fn first_after(&self, t: i64) -> i64 {
        self.first_covering(t)
    }

    #[inline]
    fn last_begun(&self, t: i64) -> i64 {
        self.last_start(t)
    }

    #[inline]
    fn last_ended(&self, t: i64) -> i64 {
        self.last_start(t - self.size)
    }

    #[inline]
    fn lengths(&self) -> (i64, i64) {
        (self.size, self.slide)
    }
}

impl ByTime for Sliding {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        let Some(since) = since else { return cuts.families.extend(self.edges()) };
        if let Some(start) = next((self.slide, self.offset), since) {
            cuts.rays.push((self.slide, start));
            cuts.rays.extend(start.checked_add(self.size).map(|end| (self.slide, end)));
        }
    }

    listed_by!(series);

    fn count(&self, spans: Spans<'_>, ending: &Ending) -> u64 {
        series::count(self, spans, ending)
    }

    fn at_most(&self, spans: usize, ending: &Ending) -> u64 {
        let by_spans = (spans as u64).saturating_mul(self.windows_per_span() as u64);
        // Ends between two watermarks.
        let by_ends = ending.after.map(|after| ending.upto.abs_diff(after) / self.slide as u64 + 1);
        by_ends.map_or(by_spans, |by_ends| by_ends.min(by_spans))
    }
}

/// Window `id` is `[zero + id·slide, zero + id·slide + size)`.
impl Ids for Sliding {
    #[inline]
    fn ids_at(&self, t: i64, zero: i64) -> Range {
        let id = |start: i64| steps(zero, start, self.slide());
        Ok(Some((id(self.first_covering(t))?, id(self.last_start(t))?)))
    }

    #[inline]
    fn extent_of(&self, id: i64, zero: i64) -> Range {
        let start = stepped(zero, i128::from(id), self.slide())?;
        start.checked_add(self.size()).ok_or(Beyond)?;
        Ok(Some(self.extent(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `wids` is the inverse of `extent`.
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(
            size in 1i64..50, slide in 1i64..50, offset in -100i64..100, t in -500i64..500,
        ) {
            let window = Sliding::new(size.max(slide), slide, offset);
            let covering: Vec<i64> = (-700i64..700)
                .filter(|start| (start - offset).rem_euclid(slide) == 0)
                .filter(|&start| { let (from, to) = window.extent(start); from <= t && t < to })
                .collect();
            prop_assert_eq!(window.wids(t).collect::<Vec<_>>(), covering);
        }

        #[test]
        fn every_start_and_end_is_an_edge(size in 1i64..50, slide in 1i64..50, offset in -100i64..100, k in -20i64..20) {
            let window = Sliding::new(size.max(slide), slide, offset);
            let (start, end) = window.extent(offset + k * slide);
            for edge in [start, end] {
                prop_assert!(window.edges().iter().any(|&(period, at)| (edge - at).rem_euclid(period) == 0));
            }
        }
    }
}
