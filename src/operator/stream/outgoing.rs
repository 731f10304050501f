//! Windows to be emitted, query by query, and their results.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;

use crate::Result;
use crate::operator::plan::Plan;
use crate::select::filter_record_batch;
use crate::window::Listed;

/// A window to be emitted: slices `lo..hi` of a key, or none if the window is withdrawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoer {
    pub(super) window: u32,
    pub(super) key: u32,
    pub(super) found: Listed,
    pub(super) update: bool,
    /// Place of its ranks and its number among [`Outgoing::of_rows`]; [`NONE`] for a window by time.
    pub(super) of_rows: u32,
}

/// Results of windows of one query.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// The place of the query in the operator.
    pub(super) entry: usize,
    pub(super) batch: RecordBatch,
    /// Which results update earlier ones.
    pub(super) updates: BooleanBuffer,
    /// The window of each, if the query has an emission policy.
    pub(super) windows: Vec<Answered>,
}

/// The window of a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) key: u32,
    /// Its number among all windows of the query.
    pub(super) window: u32,
    /// `None` of a window that is withdrawn.
    pub(super) extent: Option<(i64, i64)>,
    /// What distinguishes it from others of its key and type.
    pub(super) identity: (i64, i64),
}

impl Answer {
    /// These of the results.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn only(&self, these: &BooleanBuffer) -> Result<Self> {
        let kept = |row: usize| self.windows.get(row).copied();
        Ok(Self {
            entry: self.entry,
            batch: filter_record_batch(&self.batch, &BooleanArray::new(these.clone(), None))?,
            updates: these.set_indices().map(|row| self.updates.value(row)).collect(),
            windows: these.set_indices().filter_map(kept).collect(),
        })
    }
}

/// No ranks and no number.
pub(super) const NONE: u32 = u32::MAX;

/// A window determined by rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfRows {
    pub(super) window: u32,
    /// Its slices are `lo..hi`.
    pub(super) lo: usize,
    pub(super) hi: usize,
    pub(super) extent: (i64, i64),
    /// The ranks of its rows.
    pub(super) ranks: (u64, u64),
    pub(super) number: i64,
    pub(super) update: bool,
}

/// The ranks of a window's rows, and its number.
pub(super) type Ranks = ((u64, u64), i64);

/// Windows of a query to be emitted.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) windows: Vec<Outgoer>,
    /// Ranks and numbers of the windows determined by rows.
    pub(super) of_rows: Vec<Ranks>,
    /// How many of the windows are updates.
    pub(super) updates: u64,
    /// How many more windows of the query other engines emit in the same call.
    elsewhere: u64,
}

impl Outgoing {
    /// No windows yet, beside so many that other engines emit.
    pub(super) fn beside(elsewhere: u64) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// Checks that there may be `more` windows with this number, which may be an estimate: `count` then says how many
    /// there are.
    ///
    /// # Errors
    /// `InvalidValue` if the plan does not allow so many in one call.
    pub(super) fn check(
        &self,
        plan: &Plan,
        window: usize,
        more: u64,
        count: impl FnOnce() -> u64,
    ) -> Result<()> {
        let Some(most) = plan.max_windows() else { return Ok(()) };
        let known = self.elsewhere + self.windows.len() as u64;
        if known.saturating_add(more) <= most {
            return Ok(());
        }
        let total = known.saturating_add(count());
        if total <= most { Ok(()) } else { Err(plan.too_many("this call", total, window)) }
    }

    /// Adds a window determined by rows.
    pub(super) fn push_of_rows(&mut self, key: u32, window: OfRows) {
        let OfRows { window, lo, hi, extent: (start, end), ranks, number, update } = window;
        let found = Listed { lo: lo as u32, hi: hi as u32, start, end };
        self.windows.push(Outgoer { window, key, found, update, of_rows: self.of_rows.len() as u32 });
        self.of_rows.push((ranks, number));
        self.updates += u64::from(update);
    }

    /// Adds windows by time, whose slices are counted from `offset` on.
    pub(super) fn extend(&mut self, window: usize, key: u32, offset: usize, found: &[Listed], update: bool) {
        self.windows.reserve(found.len());
        let known = self.windows.len();
        let (window, offset) = (window as u32, offset as u32);
        // Each has slices, unless a snapshot was forged so that one of them lies across an edge.
        let found = found.iter().filter(|found| found.lo < found.hi);
        self.windows.extend(found.map(|&found| Outgoer {
            window,
            key,
            found: Listed { lo: found.lo + offset, hi: found.hi + offset, ..found },
            update,
            of_rows: NONE,
        }));
        self.updates += if update { self.windows.len() - known } else { 0 } as u64;
    }
}
