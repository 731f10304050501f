//! A fixed band `[start, end)`: one window, context free (Traub et al. 2019, §4.4).
//!
//! | | |
//! |---|---|
//! | class | context free: both edges are given |
//! | stored | slices, cut at its two edges |
//! | time | O(1) per row |
//! | source | Li 2008, §5.1.1: windows() = {0}, extent(0) = {t: start <= t < end} |

use super::listing::Listed;

/// The window `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    start: i64,
    end: i64,
}

impl Band {
    /// The window `[start, end)`.
    ///
    /// # Panics
    /// Unless `start < end`; plans check it with a proper error before.
    pub fn new(start: i64, end: i64) -> Self {
        assert!(start < end, "start < end");
        Self { start, end }
    }

    /// `[start, end)`, of the only window there is.
    pub fn extent(&self) -> (i64, i64) {
        (self.start, self.end)
    }

    /// Whether a row at `t` belongs to it.
    #[inline]
    pub fn wids(&self, t: i64) -> bool {
        self.start <= t && t < self.end
    }

    /// Lists it, if it has a row of rank `since` or after. O(log rows).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        let at = |edge| times.partition_point(|&t| t < edge);
        let (lo, hi) = (at(self.start), at(self.end));
        if lo < hi && since < hi {
            out.push(Listed::new(lo, hi, self.extent()));
        }
    }
}
