//! Tuple buckets: a list of rows per window; a window is computed from its list when it ends (Traub et al. 2019, §3.3).
//!
//! | | |
//! |---|---|
//! | needs | any function; any order; windows over time, of a number of rows and sessions |
//! | time | O(o) per row that o windows have; of windows of a number of rows also the rows behind the first late one of a batch, for each bucket that has them; O(n log n) per window of n rows out of order, O(n) of rows in order |
//! | space | a time and a place (16 bytes) per row and window it is in, and each row's values once (Table 1, row 4) |
//! | refuses | nothing but windows that no technique takes |
//! | source | Li et al., SIGMOD 2005; Traub et al. 2019, §3.3 |
//!
//! The paper's buckets hold copies of whole rows; here values lie once, in the arrays that they came in, which favours
//! the technique where rows are wide.

use crate::buckets::{Buckets, Contents};
use crate::lists::Lists;
use crate::row_store::Row;
use crate::{Setting, Technique};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};

/// Buckets without rows.
///
/// # Errors
/// `InvalidValue` for a window type that no technique knows, or a lateness below zero.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    Ok(Box::new(Buckets::new("tuple_buckets", setting, Lists::new)?))
}

impl Contents for Lists {
    fn batch(&mut self, inputs: &[Input]) {
        self.base = self.store.push(inputs);
    }

    fn open(&mut self) -> u32 {
        self.open_list()
    }

    fn lists(&mut self) -> Option<&mut Lists> {
        Some(self)
    }

    fn fill(&mut self, _: &[Input], rows: Rows<'_>, kept: Option<&[u32]>) -> Result<u64> {
        for (at, (&slot, &t)) in rows.slots.iter().zip(rows.times).enumerate() {
            let place = self.place(kept.map_or(at as u32, |kept| kept[at]));
            self.store.hold(place);
            self.buckets[slot as usize].push((t, place));
        }
        Ok(0)
    }

    fn answer(&mut self, slots: &[u32], groups: &[u32]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let ends = groups.iter().skip(1).map(|&end| end as usize).chain([slots.len()]);
        let mut rows = 0;
        let mut windows: Vec<(Vec<i64>, Vec<u64>)> = Vec::with_capacity(groups.len());
        for (&from, to) in groups.iter().zip(ends) {
            let mut own: Vec<Row> = Vec::new();
            for &slot in &slots[from as usize..to] {
                own.extend_from_slice(&self.buckets[slot as usize]);
            }
            if !own.is_sorted() {
                own.sort_unstable();
            }
            rows += own.len();
            windows.push(own.into_iter().unzip());
        }
        let windows = windows.iter().map(|(times, places)| (times.as_slice(), places.as_slice()));
        Ok((self.store.aggregate(windows)?, (rows * self.store.width()) as u64))
    }

    fn free(&mut self, slots: &[u32]) {
        for &slot in slots {
            let rows = std::mem::take(&mut self.buckets[slot as usize]);
            self.store.release(rows.into_iter().map(|(_, place)| place));
        }
        self.free.extend_from_slice(slots);
    }

    fn settle(&mut self) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }

    fn clear(&mut self) {
        let rows = std::mem::take(&mut self.buckets);
        self.store.release(rows.into_iter().flatten().map(|(_, place)| place));
        self.free = Vec::new();
    }

    fn held(&self) -> (usize, usize, usize) {
        let lists: usize = self.buckets.iter().map(|rows| rows.capacity() * size_of::<Row>()).sum();
        let buckets = self.buckets.capacity() * size_of::<Vec<Row>>() + self.free.capacity() * 4;
        (self.store.held(), 0, lists + buckets + self.store.bytes())
    }
}
