//! A stretch of one key's timeline with the cells of its slices, for the rows of one call.
//!
//! | | |
//! |---|---|
//! | needs | times of one key, with fewer slices between them than there are rows |
//! | time | O(1) per row anywhere, if rows are distributed about evenly; O(log n) per slice of n rows in order |
//! | space | three numbers per slice of the stretch |
//! | first appeared | ours: interpolation by equal parts, as in bucket sort |

use super::calendar::Calendar;
use super::cells::Cell;
use crate::aggregate::Run;
use crate::window::gallop;

/// No cell.
const NONE: u32 = u32::MAX;

/// Slices of one key, and their cells.
#[derive(Default)]
pub(super) struct Grid {
    key: u32,
    /// All edges of the stretch, including the one before it and the one after it.
    edges: Vec<i64>,
    /// The cell of each slice.
    cells: Vec<u32>,
    /// The slice in which each part of the stretch begins; a part is `2^shift` long, from `least` on.
    parts: Vec<u32>,
    least: i64,
    shift: u32,
    /// Starts and cells of the slices of the previous stretch, for the rows that belong to these.
    known: Vec<(i64, u32)>,
    known_of: Option<u32>,
}

impl Grid {
    /// Forgets all cells: a call begins.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.known_of = None;
    }

    /// Lays out the slices from `least` to `most`, if there are at most `limit`; returns whether that is so.
    pub(super) fn lay(
        &mut self,
        calendar: &mut Calendar,
        key: u32,
        least: i64,
        most: i64,
        limit: usize,
    ) -> bool {
        if !calendar.list(least, most, limit, &mut self.edges) {
            return false;
        }
        self.cells.clear();
        self.cells.resize(self.edges.len(), NONE);
        if self.known_of == Some(key) {
            let mut slice = 0;
            for &(start, cell) in &self.known {
                while slice < self.edges.len() && self.edges[slice] < start {
                    slice += 1;
                }
                if self.edges.get(slice) == Some(&start) {
                    self.cells[slice] = cell;
                }
            }
        }
        self.key = key;
        true
    }

    /// Cuts rows in order, run by run.
    pub(super) fn cut_runs(&mut self, times: &[i64], cells: &mut Vec<Cell>, runs: &mut Vec<Run>) {
        let (mut from, mut slice) = (0, 0);
        while let Some(&first) = times.get(from) {
            while self.edges[slice + 1] <= first {
                slice += 1;
            }
            let to = from + run_to(&times[from..], self.edges[slice + 1]);
            let slot = self.cell(slice, first, cells);
            let cell = &mut cells[slot as usize];
            (cell.first, cell.last) = (cell.first.min(first), cell.last.max(times[to - 1]));
            runs.push(Run { slot, from, to });
            from = to;
        }
    }

    /// Divides the stretch evenly, into at least as many parts as there are slices: the part of a time determines its
    /// slice, or one shortly before it.
    pub(super) fn divide(&mut self, least: i64, most: i64) {
        let (span, parts) = (most.wrapping_sub(least) as u64, 2 * self.edges.len() as u64);
        self.least = least;
        self.shift = u64::BITS - (span / parts).leading_zeros();
        self.parts.clear();
        let mut slice = 0;
        for part in 0..=span >> self.shift {
            let begin = least.wrapping_add((part << self.shift) as i64);
            while self.edges[slice + 1] <= begin {
                slice += 1;
            }
            self.parts.push(slice as u32);
        }
    }

    /// Cuts rows of the divided stretch in any order, one by one: their cells are written to `slots`.
    pub(super) fn cut_rows(&mut self, times: &[i64], cells: &mut Vec<Cell>, slots: &mut Vec<u32>) {
        slots.clear();
        slots.extend(times.iter().map(|&t| {
            let part = t.wrapping_sub(self.least) as u64 >> self.shift;
            let mut slice = self.parts[part as usize] as usize;
            while self.edges[slice + 1] <= t {
                slice += 1;
            }
            let slot = self.cell(slice, t, cells);
            let cell = &mut cells[slot as usize];
            (cell.first, cell.last) = (cell.first.min(t), cell.last.max(t));
            slot
        }));
    }

    /// Keeps the cells for the stretch that follows.
    pub(super) fn remember(&mut self) {
        self.known.clear();
        self.known_of = Some(self.key);
        let known = self.edges.iter().zip(&self.cells).filter(|(_, cell)| **cell != NONE);
        self.known.extend(known.map(|(&start, &cell)| (start, cell)));
    }

    /// The cell of a slice; a new one has a row at `t`.
    #[inline]
    fn cell(&mut self, slice: usize, t: i64, cells: &mut Vec<Cell>) -> u32 {
        let slot = &mut self.cells[slice];
        if *slot == NONE {
            *slot = cells.len() as u32;
            cells.push(Cell { key: self.key, first: t, last: t });
        }
        *slot
    }
}

/// Rows of short runs are counted rather than galloped over.
const BLOCK: usize = 16;

/// How many rows there are before `end`; the first is one, and times ascend.
#[inline]
pub(super) fn run_to(times: &[i64], end: i64) -> usize {
    if let Some(block) = times.first_chunk::<BLOCK>() {
        // No branch to predict.
        let before = block.iter().map(|&t| usize::from(t < end)).sum();
        if before < BLOCK {
            return before;
        }
    }
    gallop(times, |&t| t < end)
}
