//! The stream slicer: assigns rows of one call to cells, the parts of slices that the call brings (Traub et al. 2019,
//! §5.3.1).
//!
//! Rows of one key in order are runs: a slice's rows are found by galloping to its end, so that a row costs nothing but
//! its part of a vector pass. Of rows out of order, those that are not preceded by a later time are in order among
//! themselves; the others, usually few, are looked up one by one in a grid over their stretch of time. Rows of many
//! keys cost a comparison with their key's latest cell. A row that misses it is looked up in a small cache, and one
//! that misses that opens another cell of the same slice; [`super::Timelines`] merges them.

use super::calendar::Calendar;
use super::cells::{Cell, Cut, Keys, Parted};
use super::grid::{Grid, run_to};
use crate::aggregate::Run;
use crate::simd;

/// Entries of the cache (a power of two).
const CACHE: usize = 1 << 12;

/// Up to this many rows are cut one by one.
const SHORT: usize = 64;

/// Chunks that are not separated after one in which most rows were late.
const PATIENCE: u32 = 8;

/// A key's latest cell.
#[derive(Clone, Copy)]
struct Cursor {
    start: i64,
    end: i64,
    cell: u32,
    call: u32,
}

/// A cell that was opened some time ago.
#[derive(Clone, Copy)]
struct Remembered {
    start: i64,
    key: u32,
    cell: u32,
    call: u32,
}

/// How rows were cut.
#[derive(Clone, Copy)]
enum How {
    Runs,
    Slots,
    Parted,
}

/// Assigns rows to cells, call by call.
pub struct Cutter {
    calendar: Calendar,
    /// Where slices are cut, if rows are cut at additional edges.
    slices: Option<Calendar>,
    cursors: Vec<Cursor>,
    cache: Vec<Remembered>,
    call: u32,
    cells: Vec<Cell>,
    runs: Vec<Run>,
    slots: Vec<u32>,
    parted: Parted,
    grid: Grid,
    how: How,
    /// Number of upcoming chunks that are not worth separating.
    unparted: u32,
}

impl Cutter {
    /// A cutter of rows at these edges, and of slices at those of another calendar, if it is given: with sessions, rows
    /// are also cut by a family as wide as the gap, as rows in one such pane are never further apart than the gap.
    pub fn new(calendar: Calendar, slices: Option<Calendar>) -> Self {
        Self {
            calendar,
            slices,
            cursors: Vec::new(),
            cache: Vec::new(),
            call: 0,
            cells: Vec::new(),
            runs: Vec::new(),
            slots: Vec::new(),
            parted: Parted::default(),
            grid: Grid::default(),
            how: How::Runs,
            unparted: 0,
        }
    }

    /// Begins a call, with no cells.
    pub fn begin(&mut self) {
        self.cells.clear();
        self.grid.forget();
        self.call = self.call.wrapping_add(1);
        if self.call == 0 {
            // Once in 2^32 calls: no old entry may look as if it belonged to this call.
            self.cursors.clear();
            self.cache.clear();
            self.call = 1;
        }
    }

    /// `[start, end)` of the slice that contains `t`: see [`Calendar::slice_of`].
    pub fn slice_of(&mut self, t: i64) -> (i64, i64) {
        self.slices.as_mut().unwrap_or(&mut self.calendar).slice_of(t)
    }

    /// Adds cells that were cut elsewhere.
    pub fn take(&mut self, cells: impl Iterator<Item = Cell>) {
        self.cells.extend(cells);
    }

    /// The cells of this call.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Where the last rows went.
    pub fn rows(&self) -> Cut<'_> {
        match self.how {
            How::Runs => Cut::Runs(&self.runs),
            How::Slots => Cut::Slots(&self.slots),
            How::Parted => Cut::Parted(&self.parted),
        }
    }

    /// Finds the cells of rows with these times and keys, which are below `key_count`. `sorted` says that times never
    /// decrease.
    pub fn cut(&mut self, times: &[i64], keys: Keys<'_>, key_count: usize, sorted: bool) {
        if self.cursors.len() < key_count {
            self.cursors.resize(key_count, Cursor { start: 0, end: 0, cell: 0, call: 0 });
        }
        match keys {
            Keys::One(key) if sorted => {
                self.how = How::Runs;
                if !self.cut_sorted(times, key) {
                    self.cut_runs(times, key);
                }
            }
            Keys::One(key) => {
                if !self.cut_parted(times, key) && !self.cut_by_grid(times, key) {
                    self.how = How::Slots;
                    self.cut_rows(times.iter().map(|&t| (t, key)));
                }
            }
            Keys::Each(keys) => {
                self.how = How::Slots;
                self.cut_rows(times.iter().copied().zip(keys.iter().copied()));
            }
        }
    }

    /// Cuts rows of one key in order, if there are fewer edges between them than rows; returns whether it did.
    fn cut_sorted(&mut self, times: &[i64], key: u32) -> bool {
        let Self { calendar, cells, runs, grid, .. } = self;
        let (&[least, ..], &[.., most]) = (times, times) else { return false };
        if times.len() < SHORT || !grid.lay(calendar, key, least, most, times.len()) {
            return false;
        }
        runs.clear();
        grid.cut_runs(times, cells, runs);
        grid.remember();
        true
    }

    /// Cuts rows of one key, most of them in order, if there are fewer edges between them than rows; returns whether it
    /// did.
    fn cut_parted(&mut self, times: &[i64], key: u32) -> bool {
        if self.unparted > 0 || times.len() < SHORT {
            self.unparted = self.unparted.saturating_sub(1);
            return false;
        }
        let Self { calendar, cells, parted, grid, .. } = self;
        let (least, most) = parted.part(times);
        if parted.late.len() > times.len() / 2 {
            self.unparted = PATIENCE;
            return false;
        }
        if !grid.lay(calendar, key, least, most, times.len()) {
            return false;
        }
        parted.runs.clear();
        grid.cut_runs(&parted.front_times, cells, &mut parted.runs);
        grid.divide(least, most);
        grid.cut_rows(&parted.late_times, cells, &mut parted.late_slots);
        grid.remember();
        self.how = How::Parted;
        true
    }

    /// Cuts rows of one key out of order, if there are fewer edges between them than rows; returns whether it did.
    fn cut_by_grid(&mut self, times: &[i64], key: u32) -> bool {
        let Self { calendar, cells, slots, grid, .. } = self;
        let Some((least, most)) = simd::span(times) else { return false };
        if times.len() < SHORT || !grid.lay(calendar, key, least, most, times.len()) {
            return false;
        }
        grid.divide(least, most);
        grid.cut_rows(times, cells, slots);
        grid.remember();
        self.how = How::Slots;
        true
    }

    fn cut_runs(&mut self, times: &[i64], key: u32) {
        self.runs.clear();
        let mut from = 0;
        while let Some(&first) = times.get(from) {
            let cursor = self.cursor(first, key);
            let to = from + run_to(&times[from..], cursor.end);
            let cell = &mut self.cells[cursor.cell as usize];
            (cell.first, cell.last) = (cell.first.min(first), cell.last.max(times[to - 1]));
            self.runs.push(Run { slot: cursor.cell, from, to });
            from = to;
        }
    }

    fn cut_rows(&mut self, rows: impl Iterator<Item = (i64, u32)>) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend(rows.map(|(t, key)| {
            let slot = self.cursor(t, key).cell;
            let cell = &mut self.cells[slot as usize];
            (cell.first, cell.last) = (cell.first.min(t), cell.last.max(t));
            slot
        }));
        self.slots = slots;
    }

    /// The key's cursor, at the cell of `t`.
    #[inline]
    fn cursor(&mut self, t: i64, key: u32) -> Cursor {
        let cursor = self.cursors[key as usize];
        if cursor.call == self.call && cursor.start <= t && t < cursor.end {
            return cursor;
        }
        self.move_cursor(t, key, cursor)
    }

    #[inline(never)]
    fn move_cursor(&mut self, t: i64, key: u32, old: Cursor) -> Cursor {
        let (start, end) = self.calendar.slice_of(t);
        if self.cache.is_empty() && old.call == self.call && t < old.start {
            self.cache = vec![Remembered { start: 0, key: 0, cell: 0, call: 0 }; CACHE];
        }
        let mut cell = None;
        if !self.cache.is_empty() {
            // Fibonacci hashing of both parts; the top bits index the cache.
            let hash = (start as u64 ^ (u64::from(key) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let entry = &mut self.cache[(hash >> 48) as usize % CACHE];
            let known = entry.call == self.call && entry.start == start && entry.key == key;
            if !known {
                *entry = Remembered { start, key, cell: self.cells.len() as u32, call: self.call };
            }
            cell = known.then_some(entry.cell);
        }
        let cell = cell.unwrap_or_else(|| {
            self.cells.push(Cell { key, first: t, last: t });
            self.cells.len() as u32 - 1
        });
        let cursor = Cursor { start, end, cell, call: self.call };
        self.cursors[key as usize] = cursor;
        cursor
    }
}

#[cfg(test)]
mod tests {
    use super::super::Edges;
    use super::*;
    use crate::window::{Sliding, Window};
    use proptest::prelude::*;

    proptest! {
        /// Every row is in a cell of its key and its slice, whether by runs or row by row; cells know their rows.
        #[test]
        fn rows_are_in_cells_of_their_slice(
            rows in prop::collection::vec((0u32..3, -50i64..50, 0u8..100), 1..900),
            one in any::<bool>(),
            single in any::<bool>(),
            disorder in 0u8..100,
        ) {
            // This many of a hundred rows are moved away from their place in order.
            let mut ordered: Vec<(u32, i64)> = rows.iter().map(|row| (row.0, row.1)).collect();
            ordered.sort_by_key(|row| row.1);
            let rows: Vec<(u32, i64)> = rows
                .iter()
                .zip(ordered)
                .map(|(row, ordered)| if row.2 < disorder { (row.0, row.1) } else { ordered })
                .collect();
            let tumbling = |(size, offset)| Window::Sliding(Sliding::new(size, size, offset));
            let edges = Edges::of(&[(7, 0), (5, 2), (11, 3), (3, 1)].map(tumbling));
            let cuts: &[i64] = if single { &[-20, 13] } else { &[] };
            let mut calendar = Calendar::new(&edges, cuts);
            let mut cutter = Cutter::new(Calendar::new(&edges, cuts), None);
            let mut before: Vec<(u32, i64, u32)> = Vec::new();
            for (at, chunk) in rows.chunks(150).enumerate() {
                if at % 2 == 0 {
                    cutter.begin();
                    before.clear();
                }
                let times: Vec<i64> = chunk.iter().map(|row| row.1).collect();
                let keys: Vec<u32> = chunk.iter().map(|row| if one { 0 } else { row.0 }).collect();
                let given = if one { Keys::One(0) } else { Keys::Each(&keys) };
                cutter.cut(&times, given, 3, times.is_sorted());
                let slots: Vec<u32> = match cutter.rows() {
                    Cut::Slots(slots) => slots.to_vec(),
                    Cut::Runs(runs) => {
                        runs.iter().flat_map(|run| std::iter::repeat_n(run.slot, run.to - run.from)).collect()
                    }
                    Cut::Parted(parted) => {
                        prop_assert_eq!(parted.front.len() + parted.late.len(), times.len());
                        parted.slots(times.len())
                    }
                };
                before.extend((0..times.len()).map(|row| (keys[row], times[row], slots[row])));
                for (slot, cell) in cutter.cells().iter().enumerate() {
                    let own = || before.iter().filter(|row| row.2 == slot as u32);
                    prop_assert!(own().all(|row| row.0 == cell.key));
                    prop_assert_eq!(own().map(|row| row.1).min(), Some(cell.first));
                    prop_assert_eq!(own().map(|row| row.1).max(), Some(cell.last));
                    prop_assert_eq!(calendar.slice_of(cell.first), calendar.slice_of(cell.last));
                }
            }
        }
    }
}
