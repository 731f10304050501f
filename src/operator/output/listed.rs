//! Windows as ranges over sorted slices, listed type by type, until a batch is full.

use super::BATCH_ROWS;
use crate::kernels::Ranges;
use crate::slice::SliceTable;
use crate::window::{Band, Landmark, Sliding, Window};

/// Windows on their way out, as columns.
pub(in crate::operator) struct Windows {
    pub(super) keys: Vec<u32>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) ranges: Ranges,
    /// First and last ranks; none if there are none to tell.
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

    /// Adds the ranks of the rows of the window that was added last.
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

    #[inline]
    fn is_full(&self) -> bool {
        self.keys.len() >= BATCH_ROWS
    }
}

/// A place in the list of windows of sorted slices.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Cursor {
    /// End of the current key's slices.
    to: usize,
    /// The current window's slices are `lo..hi`, or will be.
    lo: usize,
    hi: usize,
    /// Start of the current sliding window.
    start: i64,
}

impl Cursor {
    /// Steps to the next key; whether there is one.
    pub(super) fn next_key(&mut self, keys: &[u32]) -> bool {
        let from = self.to;
        let Some(&key) = keys.get(from) else { return false };
        self.to = keys[from..].iter().position(|&k| k != key).map_or(keys.len(), |len| from + len);
        (self.lo, self.hi) = (from, from);
        true
    }

    /// Lists windows with at least one slice, key by key, in the order of time, until the batch is full or all are
    /// listed. O(slices + windows).
    pub(super) fn list(&mut self, window: &Window, slices: &SliceTable, windows: &mut Windows) {
        match window {
            Window::Sliding(sliding) => self.list_sliding(sliding, slices, windows),
            Window::Session(session) => {
                let joins = |last, next| session.joins(last, next);
                self.list_joined(joins, |first, last| session.extent(first, last), slices, windows);
            }
            Window::Global(global) => {
                self.list_joined(|_, _| true, |first, last| global.extent(first, last), slices, windows);
            }
            Window::Band(band) => self.list_band(band, slices, windows),
            Window::Landmark(landmark) => self.list_landmark(landmark, slices, windows),
            Window::Counted(_)
            | Window::LastRows(_)
            | Window::LastTime(_)
            | Window::Punctuation(_)
            | Window::User(_) => unreachable!("a plan with such windows keeps rows"),
        }
    }

    fn list_sliding(&mut self, sliding: &Sliding, slices: &SliceTable, windows: &mut Windows) {
        let (keys, starts) = (slices.keys(), slices.starts());
        while !windows.is_full() {
            if self.lo == self.to {
                if !self.next_key(keys) {
                    return;
                }
                self.start = sliding.first_covering(starts[self.lo]);
            }
            let Cursor { to, mut lo, mut hi, mut start } = *self;
            while !windows.is_full() {
                let extent = sliding.extent(start);
                while lo < to && starts[lo] < extent.0 {
                    lo += 1;
                }
                if lo == to {
                    break;
                }
                while hi < to && starts[hi] < extent.1 {
                    hi += 1;
                }
                if lo == hi {
                    // Nothing in this window: on to the first that has something.
                    start = sliding.first_covering(starts[lo]);
                    continue;
                }
                windows.push(keys[lo], extent, lo, hi);
                start += sliding.slide();
            }
            *self = Cursor { to, lo, hi, start };
        }
    }

    /// Lists sessions: fragments that come near enough to each other are one. O(slices).
    fn list_joined(
        &mut self,
        joins: impl Fn(i64, i64) -> bool,
        extent: impl Fn(i64, i64) -> (i64, i64),
        slices: &SliceTable,
        windows: &mut Windows,
    ) {
        let (keys, starts) = (slices.keys(), slices.starts());
        let lasts = slices.lasts().expect("a plan with sessions keeps last times");
        while !windows.is_full() {
            if self.lo == self.to && !self.next_key(keys) {
                return;
            }
            let (lo, mut hi, mut last) = (self.lo, self.lo + 1, lasts[self.lo]);
            while hi < self.to && joins(last, starts[hi]) {
                last = last.max(lasts[hi]);
                hi += 1;
            }
            windows.push(keys[lo], extent(starts[lo], last), lo, hi);
            self.lo = hi;
        }
    }

    /// Lists the band of each key that has rows in it. O(keys · log slices).
    fn list_band(&mut self, band: &Band, slices: &SliceTable, windows: &mut Windows) {
        let (keys, starts) = (slices.keys(), slices.starts());
        let (start, end) = band.extent();
        while !windows.is_full() && self.next_key(keys) {
            let own = &starts[self.lo..self.to];
            let lo = self.lo + own.partition_point(|&at| at < start);
            let hi = self.lo + own.partition_point(|&at| at < end);
            if lo < hi {
                windows.push(keys[lo], (start, end), lo, hi);
            }
        }
    }

    /// Lists landmark windows that have a slice since the one before. O(slices).
    fn list_landmark(&mut self, landmark: &Landmark, slices: &SliceTable, windows: &mut Windows) {
        let (keys, starts) = (slices.keys(), slices.starts());
        while !windows.is_full() {
            // `lo` is the first slice of the landmark at `start`, and `hi` the first that is not listed yet.
            if self.hi == self.to {
                if !self.next_key(keys) {
                    return;
                }
                self.start = i64::MIN;
            }
            let Some((start, end)) = landmark.first_wid(starts[self.hi]) else {
                self.hi += 1;
                continue;
            };
            if start != self.start {
                (self.start, self.lo) = (start, self.hi);
            }
            while self.hi < self.to && starts[self.hi] < end {
                self.hi += 1;
            }
            windows.push(keys[self.lo], (start, end), self.lo, self.hi);
        }
    }
}
