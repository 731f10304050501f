//! Sliding windows `[offset + k·slide, offset + k·slide + size)`: context free (Li 2008, 5.1–5.3).

use super::class::{Class, WindowTraits};
use super::cuts::{Cuts, next};
use super::rules::{Accepts, ByTime, Rules};
use super::spans::{Cursor, Ending, Listed, Spans};

/// Sliding windows of `size`, one starting every `slide`, aligned to `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    fn takes_from(&self, horizon: i64, (least, most): (i64, i64)) -> i64 {
        if horizon > most { i64::MAX } else { self.first_covering(horizon.max(least)) }
    }

    fn accepts(&self) -> Accepts {
        Accepts::Any
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl Sliding {
    /// Start of the first requested window among those that cover `first` or begin later.
    fn first_start(&self, ending: &Ending, first: i64) -> i64 {
        let mut start = self.first_covering(first);
        if let Some(after) = ending.after {
            start = start.max(self.first_covering(ending.within(after)));
        }
        self.begins_since(ending, start)
    }

    /// The same, or the start of the first window that begins after `since`, if that is later.
    fn begins_since(&self, ending: &Ending, start: i64) -> i64 {
        let since = ending.since.map(|since| self.last_start(ending.within(since)) + self.slide);
        since.map_or(start, |since| start.max(since))
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

    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    ) {
        let Cursor { mut lo, mut hi, .. } = *cursor;
        let Some(&first) = spans.firsts.first() else { return };
        let mut start = match cursor.resume {
            Some(start) => self.begins_since(ending, start),
            None => self.first_start(ending, first),
        };
        let mut near = lo;
        let full = out.len().saturating_add(most);
        let mut is_first = true;
        while out.len() < full {
            let end = start + self.size;
            if end > ending.upto {
                break;
            }
            lo = if is_first { spans.before(start, lo) } else { spans.advance(lo, start) };
            let Some(&next) = spans.firsts.get(lo) else {
                near = lo;
                break;
            };
            if next >= end {
                // Nothing in this window: skip to the first one with rows.
                start = self.first_covering(next);
                continue;
            }
            hi = hi.max(lo);
            hi = match is_first {
                // Any of a few spans: a branchless search.
                true => hi + spans.firsts[hi..].partition_point(|&first| first < end),
                false => spans.advance(hi, end),
            };
            is_first = false;
            near = if self.size == self.slide { hi } else { lo };
            if ending.holds(start, end) {
                out.push(Listed::new(lo, hi, (start, end)));
            }
            start += self.slide;
        }
        *cursor = Cursor { resume: Some(start), lo: near, hi };
    }

    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        let (mut lo, mut hi, mut next) = (0, 0, i64::MIN);
        for &t in changed {
            let mut start = self.first_start(ending, t).max(next);
            while start <= t && start + self.size <= ending.upto {
                let end = start + self.size;
                if ending.holds(start, end) {
                    lo = spans.advance(lo, start);
                    hi = spans.advance(hi.max(lo), end);
                    out.push(Listed::new(lo, hi, (start, end)));
                }
                start += self.slide;
            }
            next = next.max(start);
        }
    }

    fn windows_per_span(&self) -> i64 {
        self.size / self.slide + i64::from(self.size % self.slide != 0)
    }

    fn at_most(&self, spans: usize, ending: &Ending) -> u64 {
        let by_spans = (spans as u64).saturating_mul(self.windows_per_span() as u64);
        // Ends between two watermarks.
        let by_ends = ending.after.map(|after| ending.upto.abs_diff(after) / self.slide as u64 + 1);
        by_ends.map_or(by_spans, |by_ends| by_ends.min(by_spans))
    }

    fn count(&self, spans: Spans<'_>, ending: &Ending) -> u64 {
        let (mut count, mut next) = (0u64, i64::MIN);
        for &first in spans.firsts {
            // Each span lies between edges: all its rows are in the same windows.
            let from = self.first_start(ending, first).max(next);
            let mut last = self.last_start(first);
            if last + self.size > ending.upto && from + self.size <= ending.upto {
                last = last.min(self.last_start(ending.upto - self.size));
            }
            if from <= last && from + self.size <= ending.upto {
                count = count.saturating_add(((last - from) / self.slide + 1) as u64);
                next = last + self.slide;
            }
        }
        count
    }

    fn is_long(&self) -> bool {
        false
    }

    fn keeps_apart(&self, (earlier, later): (i64, i64), _: Option<i64>, horizon: i64) -> bool {
        let start = self.last_start(later);
        earlier < start && start > horizon.saturating_sub(self.size)
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
