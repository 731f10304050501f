//! The options of a stream, and the statistics of an operator.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::operator::plan::Plan;
use crate::operator::progress::Delay;
use crate::operator::shedding::{Shed, ShedStats};
use crate::slice::strategy::Order;
use crate::{Error, Result};

/// The order of a stream, how long late rows are accepted, and how slices are stored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Whether rows may come out of order.
    pub order: Order,
    /// For how long after its end a window is updated when late rows arrive, in units of the measure, unless its query has
    /// a time of its own.
    pub allowed_lateness: i64,
    /// How the watermark follows rows out of order, if it does.
    pub progress: Option<Delay>,
    /// How slices are stored.
    pub store: StoreKind,
    /// How many rows in no window are held until they are collected; any number if `None`.
    pub late_limit: Option<u64>,
    /// How much memory the state may take, if that is limited, and what is kept where it would take more.
    pub shed: Option<Shed>,
    /// Whether a window may be emitted again after it was final, as late rows changed it.
    pub updates: bool,
}

impl Options {
    /// The plan of a query of such a stream.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` for a query that cannot be answered from a sample, where state may be dropped, or
    /// not without updates, where there are none.
    pub(super) fn bind(&self, plan: Arc<Plan>) -> Result<Arc<Plan>> {
        let plan = self.shed.map_or(Ok(plan.clone()), |shed| shed.bind(plan))?;
        let plan = plan.sliced().map_or(plan, Arc::new);
        // In order, no row is late.
        if self.updates || self.order == Order::InOrder {
            return Ok(plan);
        }
        if plan.policy().is_some() {
            return Err(Error::InvalidValue(
                "updates: False is given for a query with an emission policy, whose early results are updated; leave out \
                 one of them"
                    .into(),
            ));
        }
        Ok(Arc::new(plan.sealed()?))
    }

    /// Rejects options that contradict each other, or a query's allowed lateness.
    ///
    /// # Errors
    /// `InvalidValue` for late rows or delays on a stream in order.
    pub(in crate::operator) fn check(&self, lateness: i64) -> Result<()> {
        if self.order == Order::InOrder && lateness != 0 {
            return Err(Error::InvalidValue(format!(
                "allowed_lateness: {lateness} is given for a stream in order, where no row is late; it requires \
                 order='out-of-order'"
            )));
        }
        if !self.updates && lateness != 0 {
            return Err(Error::InvalidValue(format!(
                "updates: False is given with an allowed_lateness of {lateness}, for which windows are updated; leave out \
                 one of them"
            )));
        }
        if self.order == Order::InOrder && self.progress.is_some() {
            return Err(Error::InvalidValue(
                "progress: it is given for a stream in order, where each row is a watermark; it requires \
                 order='out-of-order'"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// How slices are stored (Traub et al. 2019, §5.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreKind {
    /// Whichever suits the queries.
    #[default]
    Auto,
    /// In order of time; a window combines its slices when it is ready.
    Lazy,
    /// With a tree above them; a window combines O(log n) of n slices and of nodes.
    Eager,
}

/// What an operator holds and has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Keys with slices.
    pub keys: usize,
    /// Slices with rows.
    pub slices: usize,
    /// Rows kept.
    pub rows_kept: usize,
    /// Bytes of keys, slices and partials.
    pub bytes: usize,
    /// Rows accepted.
    pub rows: u64,
    /// Slices split.
    pub splits: u64,
    /// Slices merged.
    pub merges: u64,
    /// Rows moved from one slice to the next because a row was inserted earlier.
    pub shifts: u64,
    /// Slices recomputed from rows.
    pub recomputations: u64,
    /// Rows that came too late or without a time.
    pub late: u64,
    /// Late rows that were dropped, as too many were held.
    pub late_dropped: u64,
    /// Bytes of those that are held.
    pub late_bytes: usize,
    /// Keys that are complete further than the stream, by punctuation of their own.
    pub keys_ahead: usize,
    /// Windows emitted.
    pub windows: u64,
    /// Emitted windows that were updates.
    pub updates: u64,
    /// What was dropped for want of memory.
    pub shed: ShedStats,
}

impl Stats {
    /// What two engines hold and have done.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            keys: self.keys.max(other.keys),
            slices: self.slices + other.slices,
            rows_kept: self.rows_kept + other.rows_kept,
            bytes: self.bytes + other.bytes,
            ..self.and_did(other)
        }
    }

    /// These statistics, plus what another engine did.
    pub(super) fn and_did(self, other: Self) -> Self {
        Self {
            splits: self.splits + other.splits,
            merges: self.merges + other.merges,
            shifts: self.shifts + other.shifts,
            recomputations: self.recomputations + other.recomputations,
            windows: self.windows + other.windows,
            updates: self.updates + other.updates,
            ..self
        }
    }
}
