//! Index ranges of windows over a column.

/// Half-open index ranges `[lo, hi)`, one per window, both ends non-decreasing. A range may be empty, like that of a
/// window that ends before its first row.
#[derive(Debug, Default, Clone)]
pub struct Ranges {
    lo: Vec<u32>,
    hi: Vec<u32>,
    overlap: bool,
}

impl Ranges {
    /// An empty list with room for `capacity` ranges.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { lo: Vec::with_capacity(capacity), hi: Vec::with_capacity(capacity), overlap: false }
    }

    /// Adds `[lo, hi)`. Both ends must be at least those of the range before.
    #[inline]
    pub fn push(&mut self, lo: u32, hi: u32) {
        debug_assert!(lo <= hi, "a range ends after it begins");
        if let (Some(&last_lo), Some(&last_hi)) = (self.lo.last(), self.hi.last()) {
            debug_assert!(last_lo <= lo && last_hi <= hi, "ranges must not step back");
            self.overlap |= lo < last_hi;
        }
        self.lo.push(lo);
        self.hi.push(hi);
    }

    /// Adds ranges, as [`Ranges::push`] does one after the other.
    pub fn append(&mut self, ranges: impl Iterator<Item = (u32, u32)> + Clone) {
        let known = self.len().saturating_sub(1);
        self.lo.extend(ranges.clone().map(|(lo, _)| lo));
        self.hi.extend(ranges.map(|(_, hi)| hi));
        let (lo, hi) = (&self.lo[known..], &self.hi[known..]);
        debug_assert!(lo.iter().zip(hi).all(|(lo, hi)| lo <= hi), "a range ends after it begins");
        debug_assert!(lo.is_sorted() && hi.is_sorted(), "ranges must not step back");
        self.overlap = self.overlap || lo.iter().skip(1).zip(hi).any(|(lo, last_hi)| lo < last_hi);
    }

    /// Removes all ranges.
    pub(super) fn clear(&mut self) {
        self.lo.clear();
        self.hi.clear();
        self.overlap = false;
    }

    /// The ranges `which` of these.
    pub fn part(&self, which: std::ops::Range<usize>) -> Self {
        let mut part = Self::default();
        part.extend(self, which);
        part
    }

    /// Appends the ranges of the windows `which` of another list.
    pub(super) fn extend(&mut self, other: &Self, which: std::ops::Range<usize>) {
        self.lo.extend_from_slice(&other.lo[which.clone()]);
        self.hi.extend_from_slice(&other.hi[which]);
        self.overlap |= other.overlap;
    }

    /// Maps both ends of all ranges by `ranks`, which never decreases.
    pub(super) fn rank(&mut self, ranks: &[u32]) {
        for end in self.lo.iter_mut().chain(&mut self.hi) {
            *end = ranks[*end as usize];
        }
    }

    /// Moves both ends of all ranges to where the first ends.
    pub(super) fn empty(&mut self) {
        if let Some(&end) = self.hi.first() {
            self.lo.fill(end);
            self.hi.fill(end);
        }
    }

    /// Counts both ends of all ranges from `first` on.
    pub(super) fn rank_from(&mut self, first: u32) {
        self.lo.iter_mut().chain(&mut self.hi).for_each(|end| *end -= first);
    }

    /// Number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.lo.len()
    }

    /// Whether there are no ranges.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lo.is_empty()
    }

    /// Whether two neighbouring ranges share an index.
    #[inline]
    pub fn overlap(&self) -> bool {
        self.overlap
    }

    /// Whether a range has no index.
    pub fn some_are_empty(&self) -> bool {
        // Without an early end, which would keep the compiler from comparing several at once.
        self.lo.iter().zip(&self.hi).fold(false, |some, (lo, hi)| some | (lo == hi))
    }

    /// The range of window `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(usize, usize)> {
        Some((*self.lo.get(index)? as usize, *self.hi.get(index)? as usize))
    }

    /// The ranges in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone + '_ {
        self.lo.iter().zip(&self.hi).map(|(&lo, &hi)| (lo as usize, hi as usize))
    }
}

/// A column and ranges over it with steps, gaps, repeats and empty ranges, for the kernels' property tests.
#[cfg(test)]
pub(super) fn arbitrary_ranges() -> impl proptest::strategy::Strategy<Value = (Vec<i64>, Ranges)> {
    use proptest::prelude::*;
    (prop::collection::vec(-1000i64..1000, 1..200), prop::collection::vec((0usize..6, 0usize..6), 0..100))
        .prop_map(|(column, steps)| {
            let mut ranges = Ranges::default();
            let (mut lo, mut hi) = (0, 1);
            for (step_lo, step_hi) in steps {
                lo += step_lo;
                hi = (hi + step_hi).max(lo);
                if hi > column.len() {
                    break;
                }
                ranges.push(lo as u32, hi as u32);
            }
            (column, ranges)
        })
}
