//! The last so much time every n rows: a multi-measure window, whose end is a rank and whose start a time.
//!
//! | | |
//! |---|---|
//! | class | forward context aware: where a window begins is told by the row that ends it |
//! | stored | rows in order |
//! | time | O(1) per row and per window |
//! | source | Li 2008, Eq. 5.16-5.18, slide-by-tuple over the logical order; with n = 1 Eq. 5.10-5.12 |
//!
//! Li takes times for unique. Where rows tie, a window has those up to the row that ends it, in the order of arrival.

use super::listing::Listed;

/// After every n-th row of a key, the rows up to it that are less than `size` older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTime {
    size: i64,
    rows: usize,
}

impl LastTime {
    /// Windows `(t - size, t]` for the time t of every `rows`-th row.
    ///
    /// # Panics
    /// Unless both are above zero; plans check it with a proper error before.
    pub fn new(size: i64, rows: usize) -> Self {
        assert!(size > 0 && rows > 0, "size > 0 and rows > 0");
        Self { size, rows }
    }

    /// The length of a window.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Rows from one window's end to the next.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Ranks of the rows that end windows, of `rows` rows.
    pub fn windows(&self, rows: usize) -> impl Iterator<Item = usize> + use<> {
        (self.rows - 1..rows).step_by(self.rows)
    }

    /// Ranks of the window that the row of rank `last` ends, over ascending times.
    pub fn extent(&self, last: usize, times: &[i64]) -> (usize, usize) {
        (times.partition_point(|&t| t <= times[last] - self.size), last + 1)
    }

    /// Lists the windows with a row of rank `since` or after. O(rows of these windows).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        let mut hi = (since / self.rows + 1) * self.rows;
        let Some(&first) = times.get(hi - 1) else { return };
        let mut lo = times.partition_point(|&t| t <= first - self.size);
        while let Some(&t) = times.get(hi - 1) {
            let start = t - self.size;
            lo += times[lo..].iter().take_while(|&&t| t <= start).count();
            out.push(Listed::new(lo, hi, (start, t)));
            hi += self.rows;
        }
    }
}
