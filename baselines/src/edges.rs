//! Edges on a measure, and which of them come next.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Windows whose edges are known before rows come: the interface of user-defined windows (Traub et al. 2019, §5.4.2).
pub trait ContextFree: Send + Sync {
    /// The least edge, start or end of a window, after `t`.
    fn next_edge(&self, t: i64) -> i64;

    /// Whether a window starts after `t` and not after `until`.
    fn starts_within(&self, t: i64, until: i64) -> bool;

    /// Start and end of the windows with `since < end <= until`, by their ends.
    fn windows(&self, since: i64, until: i64) -> Vec<(i64, i64)>;

    /// The least start of all windows that end after `t`.
    fn first_open(&self, t: i64) -> i64;
}

/// The edges of windows on one measure.
pub(crate) struct Families {
    /// Period and offset of edges, and whether they are starts.
    regular: Vec<(i64, i64, bool)>,
    /// User-defined windows.
    own: Vec<Arc<dyn ContextFree>>,
}

impl Families {
    /// The families of windows whose starts and ends have these periods and offsets, and of user-defined windows.
    pub(crate) fn new(
        windows: impl Iterator<Item = [(i64, i64); 2]>,
        own: Vec<Arc<dyn ContextFree>>,
    ) -> Self {
        let (starts, ends): (BTreeSet<_>, BTreeSet<_>) = windows.map(|[start, end]| (start, end)).unzip();
        let ends = ends.difference(&starts).map(|&(period, offset)| (period, offset, false));
        let starts = starts.iter().map(|&(period, offset)| (period, offset, true));
        Self { regular: starts.chain(ends).collect(), own }
    }

    fn len(&self) -> usize {
        self.regular.len() + self.own.len()
    }

    /// The edge after `t` of one of them.
    fn after(&self, which: usize, t: i64) -> i64 {
        match self.regular.get(which) {
            Some(&(period, offset, _)) => t - (t - offset).rem_euclid(period) + period,
            None => self.own[which - self.regular.len()].next_edge(t),
        }
    }

    /// Whether a window starts at an edge of one of them, or after it and not after `t`.
    fn starts(&self, which: usize, edge: i64, t: i64) -> bool {
        match self.regular.get(which) {
            Some(&(_, _, starts)) => starts,
            None => self.own[which - self.regular.len()].starts_within(edge - 1, t),
        }
    }
}

/// The next edge of each family.
pub(crate) struct Ahead(BinaryHeap<Reverse<(i64, usize)>>);

impl Ahead {
    /// The edges after `t`.
    pub(crate) fn of(families: &Families, t: i64) -> Self {
        Self((0..families.len()).map(|which| Reverse((families.after(which, t), which))).collect())
    }

    /// The next one.
    pub(crate) fn edge(&self) -> i64 {
        self.0.peek().map_or(i64::MAX, |&Reverse((edge, _))| edge)
    }

    /// Passes the edges up to `t`: whether a window starts at one of them, if there is any.
    ///
    /// O(log n) per edge of n families.
    pub(crate) fn pass(&mut self, families: &Families, t: i64) -> Option<bool> {
        let mut passed = None;
        while let Some(&Reverse((edge, which))) = self.0.peek().filter(|Reverse((edge, _))| *edge <= t) {
            passed = Some(passed.unwrap_or(false) || families.starts(which, edge, t));
            self.0.pop();
            self.0.push(Reverse((families.after(which, t), which)));
        }
        passed
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(i64, usize)>()
    }
}
