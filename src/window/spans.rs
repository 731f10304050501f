//! A key's rows or slices in the order of time, and which of the windows over them are requested.
//!
//! A slice is a stretch of time with rows: it has a first and a last time. A row is a slice of its own. So a window
//! type that lists its windows over spans works alike on rows, on the slices of bounded input, and on those of a
//! stream.

/// Stretches of time with rows, which do not overlap and ascend.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    /// The time of the first row of each.
    pub firsts: &'a [i64],
    /// The time of the last row of each.
    pub lasts: &'a [i64],
}

impl<'a> Spans<'a> {
    /// Rows at these ascending times.
    pub fn of_rows(times: &'a [i64]) -> Self {
        Self { firsts: times, lasts: times }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// The spans from this place on.
    pub fn from(&self, place: usize) -> Self {
        Self { firsts: &self.firsts[place..], lasts: &self.lasts[place..] }
    }

    /// How many begin before `t`, searched from place `near` on. O(log distance).
    pub fn before(&self, t: i64, near: usize) -> usize {
        place(self.firsts, near, |&first| first < t)
    }

    /// How many begin before `t`; those before `from` are known to. O(log distance).
    #[inline]
    pub(super) fn advance(&self, from: usize, t: i64) -> usize {
        // Usually few.
        let next = self.firsts.get(from..).unwrap_or_default();
        if let Some(at) = next.iter().take(PROBES).position(|&first| first >= t) {
            return from + at;
        }
        let from = from + PROBES;
        if from >= self.len() {
            return self.len();
        }
        match self.firsts[from] < t {
            true => from + gallop(&self.firsts[from..], |&first| first < t),
            false => from,
        }
    }
}

/// Spans that are examined one by one before galloping starts.
const PROBES: usize = 4;

/// Which windows are requested: those that become final after watermark `after`, if it is given, and not after `upto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Windows that were final at this watermark are left out.
    pub after: Option<i64>,
    /// Windows that are not final at this watermark are left out.
    pub upto: i64,
    /// Only windows that start after this are listed.
    pub since: Option<i64>,
    /// The least and the greatest time of a row; arithmetic beyond might overflow.
    pub bounds: (i64, i64),
}

impl Ending {
    /// Requests all windows.
    pub const ALL: Self = Self { after: None, upto: i64::MAX, since: None, bounds: (i64::MIN, i64::MAX) };

    /// Whether a window that starts at `start` and is final at watermark `last` is requested.
    #[inline]
    pub fn holds(&self, start: i64, last: i64) -> bool {
        self.after.is_none_or(|after| last > after)
            && last <= self.upto
            && self.since.is_none_or(|since| start > since)
    }

    /// Whether a window may be requested, if the first that ends after a time does so at `next_end` of it; none is
    /// known to if that returns `None`.
    pub(super) fn may_hold(&self, next_end: impl Fn(i64) -> Option<i64>) -> bool {
        let next = self.after.filter(|&after| self.within(after) == after).and_then(next_end);
        next.is_none_or(|end| end <= self.upto)
    }

    /// `t`, clamped to the bounds.
    pub fn within(&self, t: i64) -> i64 {
        t.clamp(self.bounds.0, self.bounds.1)
    }
}

/// Where a listing continues, or where to begin the search: unknown parts have their defaults.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    /// A time by which the type knows what to list next, `None` before anything is listed: the start of the next sliding
    /// window, the landmark of the last landmark window, or how many windows of a user's were listed. Other types only need
    /// to know that they have begun.
    pub resume: Option<i64>,
    /// A place near the first span of the next window.
    pub lo: usize,
    /// No window still to be listed ends before this span.
    pub hi: usize,
}

/// A window: the spans `lo..hi`, at least one, and its extent in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Place of the first span.
    pub lo: u32,
    /// Place after the last span.
    pub hi: u32,
    /// Start of the window on the measure.
    pub start: i64,
    /// End of the window on the measure.
    pub end: i64,
}

impl Listed {
    /// The window of spans `lo..hi` with this extent.
    #[inline]
    pub fn new(lo: usize, hi: usize, extent: (i64, i64)) -> Self {
        debug_assert!(lo < hi, "a window has rows");
        Self { lo: lo as u32, hi: hi as u32, start: extent.0, end: extent.1 }
    }

    /// The window of rows `lo..hi`, whose extent is the times of its first and last row.
    #[inline]
    pub fn by_rows(lo: usize, hi: usize, times: &[i64]) -> Self {
        Self::new(lo, hi, (times[lo], times[hi - 1]))
    }
}

/// The number of leading items for which `holds`, which must not hold for any item after one for which it does not.
/// O(log n) for an answer n; it holds for the first item.
pub fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step < items.len() && holds(&items[step]) {
        step *= 2;
    }
    let from = step / 2;
    from + items[from..items.len().min(step)].partition_point(holds)
}

/// How many items are `before` something, where none follows one that is not; searched from place `near` on. O(log
/// distance).
pub fn place<T>(items: &[T], near: usize, before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(items.len());
    if near == 0 || before(&items[near - 1]) {
        return match items.get(near) {
            Some(item) if before(item) => near + gallop(&items[near..], before),
            _ => near,
        };
    }
    let (mut hi, mut step) = (near - 1, 1);
    while step <= hi && !before(&items[hi - step]) {
        hi -= step;
        step *= 2;
    }
    let from = (hi + 1).saturating_sub(step);
    from + items[from..hi].partition_point(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn galloping_is_searching(mut items in prop::collection::vec(0i64..50, 1..100), at in 0usize..100) {
            items.sort_unstable();
            let bound = items[at % items.len()];
            prop_assert_eq!(gallop(&items, |&item| item <= bound), items.partition_point(|&item| item <= bound));
        }

        #[test]
        fn a_place_is_found_from_anywhere(
            mut times in prop::collection::vec(-50i64..50, 0..200), near in 0usize..250, t in -55i64..55,
        ) {
            times.sort_unstable();
            let want = times.iter().filter(|&&time| time < t).count();
            let spans = Spans::of_rows(&times);
            prop_assert_eq!(spans.before(t, near), want);
            prop_assert_eq!(spans.advance(near.min(want), t), want);
        }
    }
}
