//! The last stretch of time every n rows: a multi-measure window, whose end is a rank and whose start a time.
//!
//! | | |
//! |---|---|
//! | class | forward context aware: the row that ends a window determines where it begins |
//! | stored | rows in order |
//! | time | O(1) per row and per window |
//! | source | Li 2008, Eq. 5.16-5.18, slide-by-tuple over the logical order; with n = 1 Eq. 5.10-5.12 |
//!
//! Li assumes unique times. Where rows tie, a window contains those up to the row that ends it, in the order of
//! arrival.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::memory::Memory;
use super::rules::{Accepts, ByRows, Rules};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View};
use crate::Result;

/// After every n-th row of a key, the rows up to it that are less than `size` older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastTime {
    size: i64,
    rows: usize,
}

impl LastTime {
    /// Windows `(t - size, t]` for the time t of every `rows`-th row.
    ///
    /// # Panics
    /// Unless both are above zero; plans check this first and return a proper error.
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

    /// Ranks of the rows that end windows, among `rows` rows.
    pub fn windows(&self, rows: usize) -> impl Iterator<Item = usize> + use<> {
        (self.rows - 1..rows).step_by(self.rows)
    }

    /// Ranks of the window that the row of rank `last` ends, over ascending times.
    pub fn extent(&self, last: usize, times: &[i64]) -> (usize, usize) {
        (times.partition_point(|&t| t <= times[last] - self.size), last + 1)
    }
}

/// Lists the windows `(t - size, t]` for the times t of the rows of these ranks, which ascend.
pub(super) fn list(size: i64, ends: impl Iterator<Item = usize>, times: &[i64], out: &mut Vec<Listed>) {
    let mut lo = 0;
    for last in ends {
        let (start, end) = (times[last] - size, times[last]);
        lo += times[lo..].iter().take_while(|&&t| t <= start).count();
        out.push(Listed::new(lo, last + 1, (start, end)));
    }
}

impl Rules for LastTime {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextAware)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.16-5.18"
    }

    fn reach(&self) -> i64 {
        self.size
    }

    fn is_ranked(&self) -> bool {
        true
    }

    fn identity(&self, _: (i64, i64), ranks: (i64, i64), _: i64) -> (i64, i64) {
        (ranks.1, 0)
    }

    fn accepts(&self) -> Accepts {
        Accepts::Since(0)
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }
}

impl ByRows for LastTime {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        list(self.size, self.windows(rows.times.len()), rows.times, out);
        Ok(())
    }

    fn ready(&self, view: &View<'_>, _: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        let rows = self.rows as u64;
        let final_before = view.rank(view.final_before());
        if !view.is_appended {
            out.looks_from(view.first_within(Some(self.size)));
        }
        let mut hi = (final_before.min(view.rank(view.changed())) / rows + 1) * rows;
        while hi <= view.rank(view.final_rows()) {
            let last = (hi - view.base) as usize - 1;
            let (lo, _) = self.extent(last, view.times);
            out.edges.push(lo);
            let extent = (view.times[last] - self.size, view.times[last]);
            out.emit(lo, last + 1, extent, hi <= final_before);
            hi += rows;
        }
        Ok(view.next_row())
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        cuts.every(view, from, (0, self.rows as u64));
    }

    fn final_edges(&self, view: &View<'_>, _: &Memory, from: usize, edges: &mut Vec<usize>) -> Result<()> {
        let rows = self.rows as u64;
        let first = (view.rank(from) / rows + 1) * rows;
        let ends = (first..=view.rank(view.final_rows())).step_by(self.rows);
        edges.extend(ends.map(|hi| self.extent((hi - view.base) as usize - 1, view.times).0));
        Ok(())
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        view.upto(view.call.floor.map(|floor| floor.saturating_sub(self.size)))
    }
}
