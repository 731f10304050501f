//! Buckets that are lists of rows.

use crate::row_store::{Row, RowStore};
use windowkit::aggregate::Partials;

/// Rows of buckets.
pub(crate) struct Lists {
    pub(crate) store: RowStore,
    /// Place of the first row of the batch.
    pub(crate) base: u64,
    pub(crate) buckets: Vec<Vec<Row>>,
    pub(crate) free: Vec<u32>,
}

impl Lists {
    /// No buckets, for rows that these partials read.
    pub(crate) fn new(partials: Vec<Box<dyn Partials>>) -> Self {
        Self { store: RowStore::new(partials), base: 0, buckets: Vec::new(), free: Vec::new() }
    }

    /// The place of a row of the batch.
    pub(crate) fn place(&self, row: u32) -> u64 {
        self.base + u64::from(row)
    }

    /// A new bucket.
    pub(crate) fn open_list(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.buckets.push(Vec::new());
            self.buckets.len() as u32 - 1
        })
    }

    /// The rows of a bucket, ascending if they were put there.
    pub(crate) fn list(&self, slot: u32) -> &[Row] {
        &self.buckets[slot as usize]
    }

    /// Puts rows into a bucket in place of those from `at` on.
    pub(crate) fn put(&mut self, slot: u32, at: usize, rows: &[Row]) {
        let list = &mut self.buckets[slot as usize];
        rows.iter().for_each(|&(_, place)| self.store.hold(place));
        self.store.release(list.drain(at..).map(|(_, place)| place));
        list.extend_from_slice(rows);
    }

    /// Holds rows while they go from bucket to bucket: what nothing holds is dropped.
    pub(crate) fn hold(&mut self, rows: &[Row]) {
        rows.iter().for_each(|&(_, place)| self.store.hold(place));
    }

    /// Holds them no longer.
    pub(crate) fn release(&mut self, rows: &[Row]) {
        self.store.release(rows.iter().map(|&(_, place)| place));
    }
}
