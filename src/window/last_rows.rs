//! The last n rows every so often: a multi-measure window, whose end is a time and whose start a rank.
//!
//! | | |
//! |---|---|
//! | class | forward context aware: the rows up to a window's end determine where it begins |
//! | stored | rows in order |
//! | time | O(1) per row and per window |
//! | source | Traub et al. 2019, §4.4: "output the last 10 tuples (count-measure) every 5 seconds (time-measure)" |
//!
//! If no row came since the previous edge, the window would equal the previous one, so it does not exist.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::memory::Memory;
use super::rules::{ByRows, Rules};
use super::sliding::Sliding;
use super::spans::{Listed, gallop};
use super::view::{KeyRows, Ready, RowCuts, View, earlier};
use crate::Result;

/// At each edge `offset + k·every`, the last `rows` rows before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LastRows {
    rows: usize,
    /// Distance from one edge to the next.
    between: Sliding,
}

impl LastRows {
    /// The last `rows` rows before each edge `offset + k·every`.
    ///
    /// # Panics
    /// Unless both are above zero; plans check this first and return a proper error.
    pub fn new(rows: usize, every: i64, offset: i64) -> Self {
        assert!(rows > 0, "rows > 0");
        Self { rows, between: Sliding::new(every, every, offset) }
    }

    /// Rows of a window, unless a key has fewer.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Distance from one edge to the next.
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

    /// The place after the rows of the stretch that contains the row at `from`.
    fn stretch_end(&self, times: &[i64], from: usize) -> usize {
        let edge = self.edge_after(times[from]);
        from + gallop(&times[from..], |&time| time < edge)
    }
}

impl Rules for LastRows {
    fn traits(&self) -> WindowTraits {
        WindowTraits { count: true, ..WindowTraits::of(Class::ForwardContextAware) }
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §4.4"
    }

    fn reach(&self) -> i64 {
        self.every()
    }

    fn is_ranked(&self) -> bool {
        true
    }

    fn identity(&self, (_, end): (i64, i64), _: (i64, i64), _: i64) -> (i64, i64) {
        (self.edge_after(end), 0)
    }

    fn takes_from(&self, horizon: i64, (least, most): (i64, i64)) -> i64 {
        // The stretch of time that has not ended yet.
        if horizon > most { horizon } else { self.edge_after(horizon.max(least)) - self.every() }
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }
}

impl ByRows for LastRows {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        let mut hi = 0;
        while hi < rows.times.len() {
            hi = self.stretch_end(rows.times, hi);
            out.push(Listed::by_rows(hi.saturating_sub(self.rows), hi, rows.times));
        }
        Ok(())
    }

    fn ready(&self, view: &View<'_>, _: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        let (times, changed) = (view.times, view.changed());
        if !view.is_appended {
            out.looks_from(changed.saturating_sub(self.rows));
        }
        // The stretch of the first row that changed, or that was not final.
        let was_final = |time: i64| view.call.before.is_some_and(|before| self.edge_after(time) <= before);
        let first = changed.min(times.partition_point(|&time| was_final(time)));
        let mut row = times.get(first).map_or(first, |&time| {
            let edge = self.edge_after(time);
            times.partition_point(|&other| self.edge_after(other) < edge)
        });
        let mut next = None;
        while let Some(&time) = times.get(row) {
            let (edge, first) = (self.edge_after(time), row);
            row = self.stretch_end(times, row);
            if !view.call.now.is_some_and(|now| edge <= now) {
                next = earlier(next, Some(edge));
                continue;
            }
            let lo = row.saturating_sub(self.rows);
            out.edges.push(lo);
            let was_final = was_final(time);
            let update = was_final && view.new_before(row) - view.new_before(first) < row - first;
            // An inserted row shifts the ranks of all later rows.
            if !was_final || row > changed {
                out.emit(lo, row, (times[lo], times[row - 1]), update);
            }
        }
        Ok(next)
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        let mut place = from.max(1);
        while place < view.len() {
            let edge = self.edge_after(view.times[place - 1]);
            if view.times[place] < edge {
                place += gallop(&view.times[place..], |&time| time < edge);
                continue;
            }
            cuts.by_edge.push(place);
            place += 1;
        }
    }

    fn final_edges(&self, view: &View<'_>, _: &Memory, from: usize, edges: &mut Vec<usize>) -> Result<()> {
        let mut row = from;
        while let Some(&time) = view.times.get(row) {
            row = self.stretch_end(view.times, row);
            if view.call.now.is_some_and(|now| self.edge_after(time) <= now) {
                edges.push(row.saturating_sub(self.rows));
            }
        }
        Ok(())
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        view.fixed_rows().saturating_sub(self.rows)
    }
}
