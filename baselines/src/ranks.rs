//! A key's rows as a measure: each advances it by one, so that slices can be cut between them.

use std::collections::VecDeque;

use crate::edges::{Ahead, Families};

/// How far a key's rows are counted, in order.
pub(crate) struct Ranked {
    rows: u64,
    /// Time of the last row.
    last: i64,
    next: Ahead,
    /// Edges that rows have reached, and the time of the row before each: it is final once that row is.
    ends: VecDeque<(u64, i64)>,
    /// The last edge that is final.
    emitted: u64,
}

/// Edges that became final, after `emitted` and up to `until`.
pub(crate) struct FinalEnds {
    pub(crate) emitted: u64,
    pub(crate) until: u64,
    ends: Vec<(u64, i64)>,
}

impl FinalEnds {
    /// The time of the last row before an edge.
    pub(crate) fn time(&self, edge: u64) -> i64 {
        let at = self.ends.partition_point(|&(other, _)| other < edge);
        self.ends[at].1
    }
}

impl Ranked {
    /// No row yet.
    pub(crate) fn new(edges: &Families) -> Self {
        Self { rows: 0, last: i64::MIN, next: Ahead::of(edges, 0), ends: VecDeque::new(), emitted: 0 }
    }

    /// Counts a row. Returns its rank, and whether a window starts with it if there is an edge before it.
    pub(crate) fn count(&mut self, edges: &Families, t: i64) -> (u64, Option<bool>) {
        let rank = self.rows;
        let edge = self.next.pass(edges, rank as i64);
        self.rows += 1;
        self.last = t;
        if self.next.edge() == self.rows as i64 {
            self.ends.push_back((self.rows, t));
        }
        (rank, edge)
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Time of the last row.
    pub(crate) fn last(&self) -> i64 {
        self.last
    }

    /// The last edge that is final.
    pub(crate) fn emitted(&self) -> u64 {
        self.emitted
    }

    /// The edges that are final and were not.
    pub(crate) fn reach(&mut self, is_final: impl Fn(i64) -> bool) -> FinalEnds {
        let ends = self.ends.partition_point(|&(_, t)| is_final(t));
        let ends: Vec<(u64, i64)> = self.ends.drain(..ends).collect();
        let until = ends.last().map_or(self.emitted, |&(edge, _)| edge);
        FinalEnds { emitted: std::mem::replace(&mut self.emitted, until), until, ends }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.ends.capacity() * size_of::<(u64, i64)>() + self.next.bytes()
    }
}
