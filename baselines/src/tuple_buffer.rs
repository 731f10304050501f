//! Tuple buffer: rows in order; each window is computed from its rows when it ends (Traub et al. 2019, §3.1).
//!
//! | | |
//! |---|---|
//! | needs | any function; any order; windows over time, of a number of rows and sessions |
//! | time | O(1) per row in order, and a copy of the rows behind it per row out of order; O(n) per window of n rows |
//! | space | each row once: its values, time and place (Table 1, row 1) |
//! | refuses | nothing but windows that no technique takes |
//! | source | Traub et al. 2019, §3.1: "a sorted ring buffer"; here an array per key that leaves room in front |
//!
//! Nothing is shared: windows that overlap fold their rows again. What moves when a row comes late is its place and time
//! (16 bytes a row), not its values, which stay in the arrays that they came in.

use crate::by_rows::{ByRows, SortedRows};
use crate::row_store::RowStore;
use crate::{Setting, Technique};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials};

/// A buffer without rows.
///
/// # Errors
/// `InvalidValue` for a window type that no technique knows, or a lateness below zero.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let buffer = |partials| Ok(Buffer { store: RowStore::new(partials), base: 0, keys: Vec::new() });
    Ok(Box::new(ByRows::new("tuple_buffer", setting, buffer)?))
}

/// Rows of all keys.
struct Buffer {
    store: RowStore,
    /// Place of the first row of the batch.
    base: u64,
    keys: Vec<KeyRows>,
}

/// Rows of one key, those before `head` dropped.
#[derive(Default)]
struct KeyRows {
    times: Vec<i64>,
    places: Vec<u64>,
    head: usize,
}

impl KeyRows {
    fn add(&mut self, t: i64, place: u64) {
        if self.times.len() == self.head || self.times.last().is_some_and(|&last| last <= t) {
            self.times.push(t);
            self.places.push(place);
            return;
        }
        let at = self.head + self.times[self.head..].partition_point(|&other| other <= t);
        self.times.insert(at, t);
        self.places.insert(at, place);
    }

    fn drop_first(&mut self, rows: usize) {
        self.head += rows;
        if self.head > self.times.len() / 2 {
            self.times.drain(..self.head);
            self.places.drain(..self.head);
            self.head = 0;
        }
    }
}

impl SortedRows for Buffer {
    fn batch(&mut self, _: &[i64], inputs: &[Input]) -> Result<()> {
        self.base = self.store.push(inputs);
        Ok(())
    }

    fn keep(&mut self, key: u32, t: i64, row: usize) {
        if self.keys.len() <= key as usize {
            self.keys.resize_with(key as usize + 1, KeyRows::default);
        }
        let place = self.base + row as u64;
        self.store.hold(place);
        self.keys[key as usize].add(t, place);
    }

    fn settle(&mut self) -> Result<u64> {
        Ok(0)
    }

    fn times(&self, key: u32) -> &[i64] {
        self.keys.get(key as usize).map_or(&[], |rows| &rows.times[rows.head..])
    }

    fn keys(&self) -> usize {
        self.keys.len()
    }

    fn drop_first(&mut self, key: u32, rows: usize) -> Result<()> {
        let own = &mut self.keys[key as usize];
        self.store.release(own.places[own.head..own.head + rows].iter().copied());
        own.drop_first(rows);
        Ok(())
    }

    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let rows = |&(key, lo, hi): &(u32, usize, usize)| {
            let own = &self.keys[key as usize];
            (&own.times[own.head + lo..own.head + hi], &own.places[own.head + lo..own.head + hi])
        };
        let folded: usize = ranges.iter().map(|&(_, lo, hi)| hi - lo).sum();
        let combines = (folded * self.store.width()) as u64;
        Ok((self.store.aggregate(ranges.iter().map(rows))?, combines))
    }

    fn held(&self) -> (usize, usize, usize) {
        let capacity = |own: &KeyRows| (own.times.capacity() + own.places.capacity()) * size_of::<u64>();
        let bytes: usize = self.keys.iter().map(|own| size_of::<KeyRows>() + capacity(own)).sum();
        (self.store.held(), 0, bytes + self.store.bytes())
    }
}
