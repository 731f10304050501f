//! Windows as ranges over sorted slices, listed type by type, until a batch is full.

use crate::kernels::Ranges;
use crate::operator::batching::BATCH_ROWS;
use crate::slice::SliceTable;
use crate::window::{self, ByTime, Ending, Listed, Spans};

/// Windows of a key that are added column by column rather than one by one.
const MANY: usize = 16;

/// Windows to be emitted, as columns.
pub(in crate::operator) struct Windows {
    pub(super) keys: Vec<u32>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) ranges: Ranges,
    /// First and last ranks; empty if no window is measured by rows.
    pub(super) ranks: (Vec<i64>, Vec<i64>),
}

impl Windows {
    /// Windows `from..to` of these.
    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        let ranks = |ranks: &Vec<i64>| ranks.get(from..to).map(<[i64]>::to_vec).unwrap_or_default();
        Self {
            keys: self.keys[from..to].to_vec(),
            starts: self.starts[from..to].to_vec(),
            ends: self.ends[from..to].to_vec(),
            ranges: self.ranges.part(from..to),
            ranks: (ranks(&self.ranks.0), ranks(&self.ranks.1)),
        }
    }

    pub(in crate::operator) fn with_capacity(rows: usize) -> Self {
        Self {
            keys: Vec::with_capacity(rows),
            starts: Vec::with_capacity(rows),
            ends: Vec::with_capacity(rows),
            ranges: Ranges::with_capacity(rows),
            ranks: Default::default(),
        }
    }

    /// Adds the ranks of the rows of the last window added.
    #[inline]
    pub(in crate::operator) fn push_ranks(&mut self, ranks: (i64, i64)) {
        self.ranks.0.push(ranks.0);
        self.ranks.1.push(ranks.1);
    }

    #[inline]
    pub(in crate::operator) fn push(&mut self, key: u32, extent: (i64, i64), lo: usize, hi: usize) {
        self.keys.push(key);
        self.starts.push(extent.0);
        self.ends.push(extent.1);
        self.ranges.push(lo as u32, hi as u32);
    }

    /// Adds windows of a key whose slices begin at place `from`: many column by column, which compilers vectorise.
    fn extend(&mut self, key: u32, from: usize, listed: &[Listed]) {
        if listed.len() < MANY {
            for &Listed { lo, hi, start, end } in listed {
                self.push(key, (start, end), from + lo as usize, from + hi as usize);
            }
            return;
        }
        let from = from as u32;
        self.keys.resize(self.keys.len() + listed.len(), key);
        self.starts.extend(listed.iter().map(|each| each.start));
        self.ends.extend(listed.iter().map(|each| each.end));
        self.ranges.append(listed.iter().map(|each| (from + each.lo, from + each.hi)));
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.keys.len() >= BATCH_ROWS
    }
}

/// A place in the list of windows of sorted slices.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The current key's slices.
    from: usize,
    to: usize,
    /// Where its listing goes on.
    cursor: window::Cursor,
    listed: Vec<Listed>,
}

impl Cursor {
    /// Moves to the next key; returns whether there is one.
    fn next_key(&mut self, keys: &[u32]) -> bool {
        let from = self.to;
        let Some(&key) = keys.get(from) else { return false };
        self.from = from;
        self.to = keys[from..].iter().position(|&k| k != key).map_or(keys.len(), |len| from + len);
        self.cursor = window::Cursor::default();
        true
    }

    /// Lists windows with at least one slice, key by key, in the order of time, until the batch is full or all are
    /// listed. O(slices + windows).
    pub(super) fn list(&mut self, window: &dyn ByTime, slices: &SliceTable, windows: &mut Windows) {
        let (keys, firsts) = (slices.keys(), slices.starts());
        // Without sessions nothing reads the last times.
        let lasts = slices.lasts().unwrap_or(firsts);
        while !windows.is_full() {
            if self.from == self.to && !self.next_key(keys) {
                return;
            }
            let spans = Spans { firsts: &firsts[self.from..self.to], lasts: &lasts[self.from..self.to] };
            let most = BATCH_ROWS - windows.keys.len();
            self.listed.clear();
            window.list(spans, &Ending::ALL, &mut self.cursor, most, &mut self.listed);
            windows.extend(keys[self.from], self.from, &self.listed);
            if self.listed.len() < most {
                self.from = self.to;
            }
        }
    }
}
