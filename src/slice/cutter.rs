//! The stream slicer: rows of one call to cells, the parts of slices that the call brings (Traub et al. 2019, §5.3.1).
//!
//! Rows of one key in order are runs: a slice's rows are found by galloping to its end, so that a row costs nothing but
//! its part of a vector pass. Other rows cost a comparison with their key's latest cell. A row that misses it looks into
//! a small cache, and one that misses that opens another cell of the same slice; [`super::Timelines`] makes them one.

use super::calendar::Calendar;
use super::timeline::Cell;
use crate::aggregate::Run;

/// Entries of the cache (a power of two).
const CACHE: usize = 1 << 12;

/// Where rows go.
#[derive(Debug)]
pub enum Cut<'a> {
    /// Rows in order, run by run.
    Runs(&'a [Run]),
    /// The cell of each row.
    Slots(&'a [u32]),
}

/// Rows that are so few are cut one by one.
const SHORT: usize = 64;

/// No cell.
const NONE: u32 = u32::MAX;

/// The slices of some rows, found by where in their stretch of time a row lies.
#[derive(Default)]
struct Grid {
    edges: Vec<i64>,
    /// The slice in which each part of the stretch begins.
    parts: Vec<u32>,
    /// The cell of each slice.
    cells: Vec<u32>,
}

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

/// Gives rows the cells of one call after the other.
pub struct Cutter {
    calendar: Calendar,
    cursors: Vec<Cursor>,
    cache: Vec<Remembered>,
    call: u32,
    cells: Vec<Cell>,
    runs: Vec<Run>,
    slots: Vec<u32>,
    grid: Grid,
    by_runs: bool,
}

impl Cutter {
    /// A cutter at these edges. With sessions they include one family as wide as the gap: what lies in one such pane is
    /// never further apart.
    pub fn new(calendar: Calendar) -> Self {
        Self {
            calendar,
            cursors: Vec::new(),
            cache: Vec::new(),
            call: 0,
            cells: Vec::new(),
            runs: Vec::new(),
            slots: Vec::new(),
            grid: Grid::default(),
            by_runs: false,
        }
    }

    /// Begins a call: without cells.
    pub fn begin(&mut self) {
        self.cells.clear();
        self.call = self.call.wrapping_add(1);
        if self.call == 0 {
            // Once in 2^32 calls: nothing may look like being of this one.
            self.cursors.clear();
            self.cache.clear();
            self.call = 1;
        }
    }

    /// The cells of this call.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Where the rows went that were cut last.
    pub fn rows(&self) -> Cut<'_> {
        if self.by_runs { Cut::Runs(&self.runs) } else { Cut::Slots(&self.slots) }
    }

    /// Finds the cells of rows with these times and keys, which are below `key_count`. `sorted` says that times never
    /// step back.
    pub fn cut(&mut self, times: &[i64], keys: Keys<'_>, key_count: usize, sorted: bool) {
        if self.cursors.len() < key_count {
            self.cursors.resize(key_count, Cursor { start: 0, end: 0, cell: 0, call: 0 });
        }
        self.by_runs = sorted && matches!(keys, Keys::One(_));
        match keys {
            Keys::One(key) if sorted => self.cut_runs(times, key),
            Keys::One(key) => {
                if !self.cut_by_grid(times, key) {
                    self.cut_rows(times.iter().map(|&t| (t, key)));
                }
            }
            Keys::Each(keys) => self.cut_rows(times.iter().copied().zip(keys.iter().copied())),
        }
    }

    fn cut_runs(&mut self, times: &[i64], key: u32) {
        self.runs.clear();
        let mut from = 0;
        while let Some(&first) = times.get(from) {
            let cursor = self.cursor(first, key);
            let to = from + gallop(&times[from..], |&t| t < cursor.end);
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

    /// Cuts rows of one key out of order, if their slices are not more than they are; whether it did.
    ///
    /// The stretch of time that they lie in is divided evenly, into as many parts as there are slices or some more: a
    /// row's part says its slice, or one not far before it.
    fn cut_by_grid(&mut self, times: &[i64], key: u32) -> bool {
        let Self { calendar, cells, slots, grid, .. } = self;
        let (least, most) =
            times.iter().fold((i64::MAX, i64::MIN), |(least, most), &t| (t.min(least), t.max(most)));
        if times.len() < SHORT || !calendar.list(least, most, times.len(), &mut grid.edges) {
            return false;
        }
        let edges = &grid.edges;
        let (span, parts) = (most.wrapping_sub(least) as u64, 2 * edges.len() as u64);
        let shift = u64::BITS - (span / parts).leading_zeros();
        grid.parts.clear();
        let mut slice = 0;
        for part in 0..=span >> shift {
            let begin = least.wrapping_add((part << shift) as i64);
            while edges[slice + 1] <= begin {
                slice += 1;
            }
            grid.parts.push(slice as u32);
        }
        grid.cells.clear();
        grid.cells.resize(edges.len(), NONE);
        slots.clear();
        slots.extend(times.iter().map(|&t| {
            let mut slice = grid.parts[(t.wrapping_sub(least) as u64 >> shift) as usize] as usize;
            while edges[slice + 1] <= t {
                slice += 1;
            }
            let slot = &mut grid.cells[slice];
            if *slot == NONE {
                *slot = cells.len() as u32;
                cells.push(Cell { key, first: t, last: t });
            }
            let cell = &mut cells[*slot as usize];
            (cell.first, cell.last) = (cell.first.min(t), cell.last.max(t));
            *slot
        }));
        true
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

/// The keys of rows.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// All have this one.
    One(u32),
    /// One each.
    Each(&'a [u32]),
}

/// How many of the first items `holds` of, where it holds of no item after one that it does not hold of. O(log n) of
/// an answer n; it holds of the first.
pub fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step < items.len() && holds(&items[step]) {
        step *= 2;
    }
    let from = step / 2;
    from + items[from..items.len().min(step)].partition_point(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn galloping_is_searching(mut items in prop::collection::vec(0i64..50, 1..100), at in 0usize..100) {
            items.sort_unstable();
            let bound = items[at % items.len()];
            prop_assert_eq!(gallop(&items, |&item| item <= bound), items.partition_point(|&item| item <= bound));
        }

        /// Every row is in a cell of its key and its slice, whether by runs or row by row; cells know their rows.
        #[test]
        fn rows_are_in_cells_of_their_slice(
            rows in prop::collection::vec((0u32..3, -50i64..50), 1..400), one in any::<bool>(), ordered in any::<bool>(),
        ) {
            let mut rows = rows;
            if ordered {
                rows.sort_by_key(|row| row.1);
            }
            let families = vec![(7, 0), (5, 2), (11, 3), (3, 1)];
            let bounds = (-1_000_000, 1_000_000);
            let mut calendar = Calendar::new(families.clone(), vec![-20, 13], bounds);
            let mut cutter = Cutter::new(Calendar::new(families, vec![-20, 13], bounds));
            for chunk in rows.chunks(150) {
                cutter.begin();
                let times: Vec<i64> = chunk.iter().map(|row| row.1).collect();
                let keys: Vec<u32> = chunk.iter().map(|row| if one { 0 } else { row.0 }).collect();
                let given = if one { Keys::One(0) } else { Keys::Each(&keys) };
                cutter.cut(&times, given, 3, times.is_sorted());
                let slots: Vec<u32> = match cutter.rows() {
                    Cut::Slots(slots) => slots.to_vec(),
                    Cut::Runs(runs) => {
                        runs.iter().flat_map(|run| std::iter::repeat_n(run.slot, run.to - run.from)).collect()
                    }
                };
                for (slot, cell) in cutter.cells().iter().enumerate() {
                    let own: Vec<usize> = (0..times.len()).filter(|&row| slots[row] == slot as u32).collect();
                    prop_assert!(own.iter().all(|&row| keys[row] == cell.key));
                    prop_assert_eq!(own.iter().map(|&row| times[row]).min(), Some(cell.first));
                    prop_assert_eq!(own.iter().map(|&row| times[row]).max(), Some(cell.last));
                    prop_assert_eq!(calendar.slice_of(cell.first), calendar.slice_of(cell.last));
                }
            }
        }
    }
}
