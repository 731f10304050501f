//! Rows spread over parts of their keys, where these are so many that looking one up misses the caches: a part's keys,
//! cursors and slices stay in the cache while its rows are folded, and each part is a thread's own.
//!
//! | | |
//! |---|---|
//! | needs | keys that can be hashed |
//! | time | O(rows): a hash, and a copy of each column that is read |
//! | space | a copy of what is read of a round of batches |
//! | first appeared | radix partitioning: Manegold, Boncz & Kersten, *Optimizing Main-Memory Join on Modern Hardware*, TKDE 2002; for aggregation: Ye, Ross & Vesdapunt, *Scalable Aggregation on Multicore Processors*, DaMoN 2011 |

use arrow_array::{ArrayRef, RecordBatch};

use super::buckets::split_rows;
use super::parts::{Timed, each};
use super::plan::Plan;
use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::keys::{hash_rows, hashable};

/// Parts: of a few million keys, those of one fit the second-level cache.
pub(super) const PARTS: usize = 64;

/// Rows that are sorted by part at a time, so that their columns stay in the second-level cache.
const ROWS: usize = 1 << 16;

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

    /// Whether these rows are worth it. O(sample).
    ///
    /// # Errors
    /// `InvalidType` for batches whose key columns have other types than the plan's.
    pub(super) fn is_worthwhile(self, plan: &Plan, batches: &[RecordBatch]) -> Result<bool> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let types = plan.by().iter().map(|&at| plan.input().field(at).data_type());
        // Values of a dictionary are looked up once, and not row by row.
        let are_plain = types.clone().all(|kind| plain(kind) == kind && hashable(kind).is_ok());
        // Those of another schema are refused as they are read.
        let fit = batches.iter().all(|batch| batch.num_columns() == plan.input().fields().len());
        if rows < self.rows || plan.by().is_empty() || !are_plain || !fit {
            return Ok(false);
        }
        let mut hashes = Vec::with_capacity(self.sample);
        for batch in batches {
            let batch = batch.slice(0, batch.num_rows().min(self.sample - hashes.len()));
            let keys: Vec<ArrayRef> = Timed::whole(plan, &batch).keys()?;
            hash_rows(&keys, batch.num_rows(), 0, &mut hashes)?;
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
    let chunks = batches.iter().flat_map(|batch| {
        let from = (0..batch.num_rows()).step_by(ROWS);
        from.map(|from| batch.slice(from, ROWS.min(batch.num_rows() - from)))
    });
    let mut chunks: Vec<(RecordBatch, Vec<Option<RecordBatch>>)> =
        chunks.map(|chunk| (chunk, vec![None; workers.len()])).collect();
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
