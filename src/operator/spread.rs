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

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, builder::UInt32Builder};
use arrow_schema::{Field, Schema};

use super::buckets::split_rows;
use super::parts::each;
use super::plan::Plan;
use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::keys::{hash_rows, hashable, remix};
use crate::select::take_record_batch;

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
    /// ... of which so many, which lie evenly among them, ...
    pub(super) sample: usize,
    /// ... are of so many keys, as far as the sample tells.
    pub(super) keys: usize,
}

impl Spreading {
    /// By default: below these, lookups do not miss the caches, or too few rows share the cost of a part.
    pub(super) const DEFAULT: Self = Self { rows: 1 << 19, sample: 1 << 14, keys: 1 << 15 };
    /// Whatever the rows are.
    #[cfg(test)]
    pub(super) const ALWAYS: Self = Self { rows: 1, sample: 1, keys: 1 };

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
        // Not always as far apart, since keys may come in turns.
        let apart = (rows / self.sample).max(1);
        let place = |at: usize| at * apart + (remix(at as u64, 0) % apart as u64) as usize;
        let mut places = (0..rows / apart).map(place).peekable();
        let (mut before, mut hashes) = (0, Vec::with_capacity(2 * self.sample));
        for keys in keys {
            let keys = keys?;
            let mut types = keys.columns().iter().map(|column| column.data_type());
            // Values of a dictionary are looked up once, and not row by row.
            if keys.num_columns() == 0 || types.any(|kind| plain(kind) != kind || hashable(kind).is_err()) {
                return Ok(false);
            }
            let mut own = UInt32Builder::new();
            while let Some(place) = places.next_if(|&place| place < before + keys.num_rows()) {
                own.append_value((place - before) as u32);
            }
            before += keys.num_rows();
            let some = take_record_batch(&keys, &own.finish())?;
            hash_rows(some.columns(), some.num_rows(), 0, &mut hashes)?;
        }
        hashes.sort_unstable();
        let (mut once, mut twice, mut distinct, mut most) = (0, 0, 0, 0);
        for rows in hashes.chunk_by(|a, b| a == b) {
            once += usize::from(rows.len() == 1);
            twice += usize::from(rows.len() == 2);
            distinct += 1;
            most = most.max(rows.len());
        }
        // The keys that the sample has missed, at least (Chao, *Nonparametric Estimation of the Number of Classes in a
        // Population*, 1984).
        let missed = once * (once.max(1) - 1) / (2 * (twice + 1));
        // Rows of a key that comes again and again find it in the caches, and its part has as many more rows than others.
        let are_many = 4 * once >= hashes.len() && most <= hashes.len().div_ceil(2);
        Ok(are_many && distinct + missed >= self.keys)
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
