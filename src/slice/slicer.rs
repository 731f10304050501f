//! The stream slicer: assigns rows to slots.

use super::Edges;
use super::table::SliceTable;

/// "No slot" in the cache.
const NONE: u32 = u32::MAX;
/// A slice that contains no time, and whose start no slice has.
const NOWHERE: (i64, i64) = (i64::MIN, i64::MIN);
/// Slots cached once a stream turns out to be out of order (a power of two).
const CACHE: usize = 1 << 16;

/// Where a key stands: its latest slice.
#[derive(Clone, Copy)]
struct Cursor {
    start: i64,
    slot: u32,
}

/// Assigns to each row the slot of its slice.
///
/// Each key keeps a cursor to its latest slice, so that a row in order costs one comparison with the current slice's
/// edges and one with its key's cursor, whatever the number of windows. Once a row comes out of order, recent slots are
/// kept in a small direct-mapped cache; a row that misses it opens a new slot, to be merged later.
#[derive(Clone)]
pub struct Slicer {
    edges: Edges,
    cursors: Vec<Cursor>,
    current: (i64, i64),
    cache: Vec<u32>,
}

impl Slicer {
    /// A slicer for these edges.
    pub fn new(edges: Edges) -> Self {
        Self { edges, cursors: Vec::new(), current: NOWHERE, cache: Vec::new() }
    }

    /// Forgets all slots: the next rows go to a new table.
    pub fn reset(&mut self) {
        self.cursors.clear();
        self.cache.clear();
    }

    /// Writes the slot of each row into `slots`, opening slots in `table` as needed.
    ///
    /// `times` and `keys` have one entry per row; `keys` are below `key_count`. O(1) per row.
    ///
    /// # Errors
    /// A time outside [`Edges::bounds`], if there is one. The slots of other rows are opened anyway.
    pub fn assign(
        &mut self,
        times: &[i64],
        keys: &[u32],
        key_count: usize,
        table: &mut SliceTable,
        slots: &mut Vec<u32>,
    ) -> Result<(), i64> {
        slots.clear();
        if self.cursors.len() < key_count {
            self.cursors.resize(key_count, Cursor { start: i64::MAX, slot: 0 });
        }
        match self.edges.gap() {
            None => self.assign_context_free(times, keys, table, slots),
            Some(gap) => self.assign_sessions(gap, times, keys, table, slots),
        }
    }

    fn assign_context_free(
        &mut self,
        times: &[i64],
        keys: &[u32],
        table: &mut SliceTable,
        slots: &mut Vec<u32>,
    ) -> Result<(), i64> {
        let Self { edges, cursors, current, cache } = self;
        let (mut start, mut end) = *current;
        let mut outside = Ok(());
        let mut row = 0;
        while let Some(&t) = times.get(row) {
            if t < start || t >= end {
                if t < start && cache.is_empty() {
                    cache.resize(CACHE, NONE);
                }
                (start, end) = slice_within(edges, t, &mut outside);
            }
            // Rows of one slice, usually many: their times need not be checked again.
            let rest = &times[row..];
            let run =
                rest.iter().skip(1).position(|&t| t < start || t >= end).map_or(rest.len(), |more| more + 1);
            slots.extend(keys[row..row + run].iter().map(|&key| {
                let cursor = &mut cursors[key as usize];
                if cursor.start != start {
                    *cursor = Cursor { start, slot: find_or_open(cache, key, start, table) };
                }
                cursor.slot
            }));
            row += run;
        }
        *current = (start, end);
        outside
    }

    fn assign_sessions(
        &mut self,
        gap: i64,
        times: &[i64],
        keys: &[u32],
        table: &mut SliceTable,
        slots: &mut Vec<u32>,
    ) -> Result<(), i64> {
        let Self { edges, cursors, current, .. } = self;
        let (mut start, mut end) = *current;
        let mut outside = Ok(());
        slots.extend(times.iter().zip(keys).map(|(&t, &key)| {
            if t < start || t >= end {
                (start, end) = slice_within(edges, t, &mut outside);
            }
            let cursor = &mut cursors[key as usize];
            // A fragment takes the row if both lie in one slice and the row is within the gap of the fragment.
            if cursor.start != start || !table.extend(cursor.slot, t, gap) {
                *cursor = Cursor { start, slot: table.open(key, t) };
            }
            cursor.slot
        }));
        *current = (start, end);
        outside
    }
}

/// The slice of `t`, cut at the bounds, so that no row within it needs to be checked against them.
fn slice_within(edges: &Edges, t: i64, outside: &mut Result<(), i64>) -> (i64, i64) {
    let (least, most) = edges.bounds();
    if t < least || t > most {
        *outside = Err(t);
        return NOWHERE;
    }
    let (start, end) = edges.slice_of(t);
    (start.max(least), end.min(most + 1))
}

/// The slot of `(key, start)` if the cache has it, else a new one.
#[inline(never)]
fn find_or_open(cache: &mut [u32], key: u32, start: i64, table: &mut SliceTable) -> u32 {
    if cache.is_empty() {
        return table.open(key, start);
    }
    // Fibonacci hashing of both parts; the top bits index the cache.
    let hash = (start as u64 ^ (u64::from(key) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let entry = &mut cache[(hash >> 48) as usize % CACHE];
    if *entry == NONE || !table.is_at(*entry, key, start) {
        *entry = table.open(key, start);
    }
    *entry
}
