//! Sliding windows `[offset + k·slide, offset + k·slide + size)`: context free (Li 2008, 5.1–5.3).

use super::listing::Listed;

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
    /// Unless `0 < slide <= size`; plans check it with a proper error before.
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

    /// Lists the windows with a row of rank `since` or after. O(rows of these windows + windows).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        let Some(&first) = times.get(since) else { return };
        let mut start = self.first_covering(first);
        let mut lo = times.partition_point(|&t| t < start);
        let mut hi = lo;
        loop {
            let extent = self.extent(start);
            lo += times[lo..].iter().take_while(|&&t| t < extent.0).count();
            let Some(&next) = times.get(lo) else { return };
            hi += times[hi..].iter().take_while(|&&t| t < extent.1).count();
            if lo == hi {
                // Nothing in this window: on to the first that has something.
                start = self.first_covering(next);
                continue;
            }
            out.push(Listed::new(lo, hi, extent));
            start += self.slide;
        }
    }

    /// Periods and offsets of all edges, starts and ends: where slices must be cut (Traub et al. 2019, §5.3.1).
    pub fn edges(&self) -> [(i64, i64); 2] {
        [(self.slide, self.offset), (self.slide, (self.offset + self.size % self.slide) % self.slide)]
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
