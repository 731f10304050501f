//! The last n rows every so often: a multi-measure window, whose end is a time and whose start a rank.
//!
//! | | |
//! |---|---|
//! | class | forward context aware: where a window begins is told by the rows up to its end |
//! | stored | rows in order |
//! | time | O(1) per row and per window |
//! | source | Traub et al. 2019, §4.4: "output the last 10 tuples (count-measure) every 5 seconds (time-measure)" |
//!
//! At edges before which no row came since the edge before, the window would be the one before, and there is none.

use super::listing::Listed;
use super::sliding::Sliding;

/// At each edge `offset + k·every`, the last `rows` rows before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRows {
    rows: usize,
    /// From one edge to the next.
    between: Sliding,
}

impl LastRows {
    /// The last `rows` rows before each edge `offset + k·every`.
    ///
    /// # Panics
    /// Unless both are above zero; plans check it with a proper error before.
    pub fn new(rows: usize, every: i64, offset: i64) -> Self {
        assert!(rows > 0, "rows > 0");
        Self { rows, between: Sliding::new(every, every, offset) }
    }

    /// Rows of a window, unless a key has fewer.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Distance of one edge to the next.
    pub fn every(&self) -> i64 {
        self.between.size()
    }

    /// The edge after a row at `t`.
    #[inline]
    pub fn edge_after(&self, t: i64) -> i64 {
        self.between.extent(self.between.last_start(t)).1
    }

    /// Edges at which there is a window over these ascending times.
    pub fn windows(&self, times: &[i64]) -> Vec<i64> {
        let mut edges: Vec<i64> = times.iter().map(|&t| self.edge_after(t)).collect();
        edges.dedup();
        edges
    }

    /// Ranks of the window at an edge, over ascending times.
    pub fn extent(&self, edge: i64, times: &[i64]) -> (usize, usize) {
        let hi = times.partition_point(|&t| t < edge);
        (hi.saturating_sub(self.rows), hi)
    }

    /// Lists the windows with a row of rank `since` or after. O(rows from `since` on).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        let mut hi = since;
        while let Some(&t) = times.get(hi) {
            let edge = self.edge_after(t);
            hi += times[hi..].iter().take_while(|&&t| t < edge).count();
            out.push(Listed::by_rows(hi.saturating_sub(self.rows), hi, times));
        }
    }
}
