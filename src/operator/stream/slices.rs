//! Slices that were made elsewhere, of rows that a stream has not seen: taken in as if their rows had come.
//!
//! They are those of [`crate::operator::Bounded::slices`]. A slice lies between two neighbouring edges of the query's windows, so
//! that they accept all of its rows or none. Only sessions may tell rows of one slice apart; such a slice is refused.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, NullArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};

use super::Operator;
use super::engine::Engine;
use super::intake::Accepted;
use super::sparse::SparseRows;
use crate::aggregate::Partial;
use crate::interrupt::Pace;
use crate::operator::buckets::{check_types, schema, types};
use crate::operator::plan::Plan;
use crate::select::concat_batches;
use crate::slice::strategy::Order;
use crate::{Error, Result};

/// More rows than a slice has.
const MOST: i64 = 1 << 40;

/// The column of the last time of each slice, among those of [`as_rows`].
pub(super) fn last_column(plan: &Plan) -> usize {
    plan.input().fields().len()
}

/// The columns of the state of each partial, among those of [`as_rows`].
pub(super) fn state_columns(plan: &Plan) -> Vec<Range<usize>> {
    let mut from = last_column(plan) + 1;
    let ranges = plan.state_columns().into_iter().map(|width| {
        from += width;
        from - width..from
    });
    ranges.collect()
}

/// Slices as rows of the stream's columns, of which only keys and time have values; then come last times and states.
/// Whatever asks for keys and times of rows, or takes some of the rows, so takes slices.
///
/// Slices have last times only where the query has sessions. The columns are the same without them, as an engine may have
/// only some of the query's windows.
///
/// # Errors
/// `InvalidValue` for columns of other types, and for times that no slice of the query has.
fn as_rows(plan: &Plan, slices: &RecordBatch) -> Result<RecordBatch> {
    check_types(slices, &types(&*schema(plan)?))?;
    let (keys, rest) = slices.columns().split_at(plan.by().len());
    let (start, rest) = rest.split_first().ok_or_else(|| Error::Internal("slices without a start".into()))?;
    check_times(plan, start, rest)?;
    let null: ArrayRef = Arc::new(NullArray::new(slices.num_rows()));
    let of_input = (0..plan.input().fields().len()).map(|position| {
        if position == plan.time() {
            return start;
        }
        plan.by().iter().position(|&column| column == position).map_or(&null, |at| &keys[at])
    });
    let start_as_last = plan.edges().gap().is_none().then_some(start);
    let columns: Vec<ArrayRef> = of_input.chain(start_as_last).chain(rest).cloned().collect();
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(at, column)| Field::new(at.to_string(), column.data_type().clone(), true));
    let options = RecordBatchOptions::new().with_row_count(Some(slices.num_rows()));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

/// Rejects slices that do not begin where the query's slices do or, with sessions, do not end within them.
fn check_times(plan: &Plan, start: &ArrayRef, rest: &[ArrayRef]) -> Result<()> {
    let (edges, measure) = (plan.edges(), plan.measure());
    let last = rest.first().filter(|_| edges.gap().is_some());
    if start.null_count() > 0 || last.is_some_and(|last| last.null_count() > 0) {
        return Err(Error::InvalidValue("slices: a time is null; every slice has times".into()));
    }
    let (starts, lasts) = (measure.read(start)?, last.map(|last| measure.read(last)).transpose()?);
    let (low, high) = edges.bounds();
    let mut pace = Pace::new();
    for (at, &first) in starts.iter().enumerate() {
        pace.check(1)?;
        let last = lasts.as_ref().map_or(first, |lasts| lasts[at]);
        // Whoever takes times out of bounds for rows' times says so.
        if first < low || last > high {
            continue;
        }
        let (start, end) = edges.slice_of(first);
        let is_whole = lasts.is_some() || first == start;
        if !is_whole || last < first || last >= end {
            return Err(Error::InvalidValue(format!(
                "slices: slice {at} is from {} to {}; a slice of this query is within {} to {}",
                measure.shown(first),
                measure.shown(last),
                measure.shown(start),
                measure.shown(end)
            )));
        }
    }
    Ok(())
}

impl Operator {
    /// Slices as rows, if this operator takes slices.
    ///
    /// # Errors
    /// `InvalidValue` for columns of other types, for times that no slice of the query has, and if its results would not be those
    /// that the rows have.
    pub(super) fn slices_as_rows(&self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        if let Some(why) = self.refuses_slices() {
            return Err(Error::InvalidValue(format!("slices: {why}; push rows instead")));
        }
        batches.iter().map(|batch| as_rows(self.leader(), batch)).collect()
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`; those with rows under them come last.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        self.settle(true)?;
        let Self { engines, keys, .. } = self;
        let all =
            engines.iter_mut().map(|(_, engine)| engine.all_slices(keys)).collect::<Result<Vec<_>>>()?;
        match &all[..] {
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &all)?),
            [] => Err(Error::Internal("an operator without queries".into())),
        }
    }

    /// When the first slice ends, or the first window of rows that wait; `None` where there are none. No window ends before.
    pub fn first_end(&mut self) -> Option<i64> {
        let waiting = self.sparse.as_ref().and_then(SparseRows::first_end);
        self.engines_mut().filter_map(Engine::first_end).chain(waiting).min()
    }

    /// Why slices do not lead to the results that their rows have; `None` if they do.
    pub fn refuses_slices(&self) -> Option<String> {
        let [entry] = &self.entries[..] else {
            return Some(format!("the operator has {} queries, and slices are of one", self.entries.len()));
        };
        if self.options.order == Order::InOrder {
            return Some(
                "on a stream in order, the watermark follows rows; order='out-of-order' is allowed".into(),
            );
        }
        if self.progress.is_some() {
            return Some("progress= has the watermark follow rows, whose times slices do not have".into());
        }
        if entry.plan.needs_rows() || !self.queries_with_rows().is_empty() {
            return Some("a window or a function of the query needs the rows of a key in order".into());
        }
        if !entry.plan.edges().have_starts() {
            return Some("not every slice of the query's windows has a start".into());
        }
        if entry.plan.policy().is_some_and(|policy| policy.looks_at_rows()) {
            return Some("the emission policy counts rows, or looks at them".into());
        }
        (!self.keys.ahead.is_empty()).then(|| "a key is ahead of the stream, by advance(..., key=...)".into())
    }

    /// Rejects slices of whose rows only some are accepted.
    pub(super) fn check_whole(&self, slices: &[Accepted]) -> Result<()> {
        let plan = self.leader();
        let since = self.entries.iter().filter_map(|entry| entry.since).map(|since| since.saturating_add(1));
        for from in self.engines().filter_map(|engine| engine.horizon().cutoff()).chain(since) {
            for slices in slices.iter().filter(|slices| slices.least < from) {
                let has_lasts = plan.edges().gap().is_some();
                let lasts = has_lasts.then(|| plan.measure().read(slices.rows.column(last_column(plan))));
                let lasts = lasts.transpose()?;
                let last = |at: usize| match &lasts {
                    Some(lasts) => lasts[at],
                    None => plan.edges().slice_of(slices.times[at]).1 - 1,
                };
                let mut pace = Pace::new();
                for (at, &first) in slices.times.iter().enumerate() {
                    pace.check(1)?;
                    if first < from && from <= last(at) {
                        return Err(Error::InvalidValue(format!(
                            "slices: rows before {} are late, and the slice from {} to {} has rows before and \
                             after; push rows instead",
                            plan.measure().shown(from),
                            plan.measure().shown(first),
                            plan.measure().shown(last(at))
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// How many rows each of these slices is of; 1 if the query does not count rows.
pub(super) fn row_counts(plan: &Plan, slices: &RecordBatch) -> Vec<u64> {
    let each = plan.partials().iter().zip(state_columns(plan));
    let counts = each.filter(|(stored, _)| stored.partial == Partial::CountAll && stored.filter.is_none());
    // The counts of either weight, if rows have weights.
    let counts: Vec<&Int64Array> =
        counts.filter_map(|(_, range)| slices.column(range.start).as_primitive_opt()).collect();
    let of_slice = |at: usize| {
        // Not what is in the slots of nulls, nor numbers that no rows have.
        let count =
            |counts: &&Int64Array| if counts.is_valid(at) { counts.value(at).clamp(0, MOST) } else { 0 };
        counts.iter().map(count).sum::<i64>() as u64
    };
    (0..slices.num_rows()).map(|at| if counts.is_empty() { 1 } else { of_slice(at) }).collect()
}

/// Late rows that are counted and not held.
pub(super) fn counted(rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?)
}
