//! Rows spread over parts of their keys, where these are so many that looking one up misses the caches: a part's keys,
//! cursors and slices stay in the cache while its rows are folded, and each part is a thread's own.
//!
//! | | |
//! |---|---|
//! | needs | keys that can be hashed |
//! | time | O(rows): a hash, and a copy of each column that is read |
//! | space | a copy of what is read of a round of batches |
//! | first appeared | radix partitioning: Manegold, Boncz & Kersten, *Optimizing Main-Memory Join on Modern Hardware*, TKDE 2002; for aggregation: Ye, Ross & Vesdapunt, *Scalable Aggregation on Multicore Processors*, DaMoN 2011 |

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};

use super::buckets::split_rows;
use super::parts::each;
use super::plan::Plan;
use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::keys::{hash_rows, hashable};

/// Parts: of a few million keys, those of one fit the second-level cache.
pub(super) const PARTS: usize = 64;

/// Rows that are sorted by part at a time, so that their columns stay in the second-level cache.
const ROWS: usize = 1 << 16;

/// A batch of nothing but keys, of so many rows.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn of_keys(columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

/// Batches, some rows at a time.
pub(super) fn chunks(batches: &[RecordBatch]) -> impl Iterator<Item = RecordBatch> {
    batches.iter().flat_map(|batch| {
        let from = (0..batch.num_rows()).step_by(ROWS);
        from.map(|from| batch.slice(from, ROWS.min(batch.num_rows() - from)))
    })
}

/// When rows are spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spreading {
    /// Once so many come at a time...
    pub(super) rows: usize,
    /// ... of whose first ones, so many, three in four have a key of their own.
    pub(super) sample: usize,
}

impl Spreading {
    /// By default: below these, lookups do not miss the caches, or too few rows share the cost of a part.
    pub(super) const DEFAULT: Self = Self { rows: 1 << 19, sample: 1 << 14 };

    /// Whether so many rows are worth it, which have these keys. O(sample).
    ///
    /// # Errors
    /// Those with which keys are read.
    pub(super) fn is_worthwhile(
        self,
        rows: usize,
        keys: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<bool> {
        if rows < self.rows {
            return Ok(false);
        }
        let mut hashes = Vec::with_capacity(self.sample);
        for keys in keys {
            let keys = keys?;
            let mut types = keys.columns().iter().map(|column| column.data_type());
            // Values of a dictionary are looked up once, and not row by row.
            if keys.num_columns() == 0 || types.any(|kind| plain(kind) != kind || hashable(kind).is_err()) {
                return Ok(false);
            }
            let some = keys.slice(0, keys.num_rows().min(self.sample - hashes.len()));
            hash_rows(some.columns(), some.num_rows(), 0, &mut hashes)?;
        }
        let sampled = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        Ok(hashes.len() * 4 >= sampled * 3)
    }
}

/// Passes rows on, each to the worker of its key's part, in the order in which they come. Every worker is one thread's at a
/// time.
pub(super) fn spread<W: Send>(
    plan: &Plan,
    batches: &[RecordBatch],
    workers: &mut [W],
    threads: usize,
    push: impl Fn(&mut W, &RecordBatch) -> Result<()> + Sync,
) -> Result<()> {
    let mut chunks: Vec<(RecordBatch, Vec<Option<RecordBatch>>)> =
        chunks(batches).map(|chunk| (chunk, vec![None; workers.len()])).collect();
    let buckets = workers.len() as u32;
    each(chunks.iter_mut().collect(), threads, |(chunk, parts)| {
        check()?;
        for (part, rows) in split_rows(plan, chunk, buckets)? {
            parts[part as usize] = Some(rows);
        }
        Ok(())
    })?;
    each(workers.iter_mut().enumerate().collect(), threads, |(part, worker)| {
        let rows = chunks.iter().filter_map(|(_, parts)| parts[part].as_ref());
        rows.into_iter().try_for_each(|rows| {
            check()?;
            push(worker, rows)
        })
    })
}
