//! Incoming rows: which may come, and in what order.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::Schema;

use super::key_numbers::KeyNumbers;
use crate::operator::parts::out_of_bounds;
use crate::operator::plan::Plan;
use crate::select::filter_record_batch;
use crate::simd;
use crate::slice::strategy::Order;
use crate::types::named;
use crate::window::Measure;
use crate::{Error, Result};

/// Which rows may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    /// Whether rows may come out of order.
    pub(super) order: Order,
    /// In order, no row comes before this.
    pub(super) latest: Option<i64>,
    /// The time of the latest row.
    pub(super) latest_row: Option<i64>,
    /// The least and the greatest time whose windows' edges fit int64.
    pub(super) bounds: (i64, i64),
}

/// Rows with times.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    pub(super) rows: RecordBatch,
    pub(super) times: ScalarBuffer<i64>,
    /// Whether times never decrease.
    pub(super) is_sorted: bool,
    /// The earliest and the latest time.
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) kind: InputKind,
    /// How many rows each stands for.
    pub(super) weight: f64,
    /// Their keys, once they are numbered.
    pub(super) keys: KeyNumbers,
}

/// What the rows of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputKind {
    /// Rows of the stream.
    Rows,
    /// Pre-aggregated slices: see `slices`.
    Slices,
}

impl Accepted {
    /// The keys of the rows of all these batches, one after the other.
    pub(super) fn joined_keys(batches: &[Self]) -> KeyNumbers {
        let mut with_rows = batches.iter().filter(|batch| !batch.times.is_empty());
        match (with_rows.next(), with_rows.next()) {
            (None, _) => KeyNumbers::NONE,
            (Some(only), None) => only.keys.clone(),
            // Without key columns, all rows have the one key.
            (Some(Self { keys: KeyNumbers::One(key), .. }), _) => KeyNumbers::One(*key),
            _ => {
                let each =
                    batches.iter().flat_map(|batch| (0..batch.times.len()).map(|row| batch.keys.of(row)));
                KeyNumbers::Each(each.collect())
            }
        }
    }

    /// The rows that are not before `cutoff`.
    pub(super) fn since(&self, cutoff: i64) -> Result<Self> {
        if cutoff <= self.least {
            return Ok(self.clone());
        }
        let taken = BooleanBuffer::collect_bool(self.times.len(), |row| self.times[row] >= cutoff);
        self.only(&BooleanArray::new(taken, None))
    }

    /// Some of these rows.
    pub(super) fn only(&self, these: &BooleanArray) -> Result<Self> {
        let times: Vec<i64> = these.values().set_indices().map(|row| self.times[row]).collect();
        let (least, most) = simd::span(&times).unwrap_or((i64::MAX, i64::MIN));
        let (rows, keys) = (filter_record_batch(&self.rows, these)?, self.keys.only(these.values()));
        Ok(Self { rows, times: times.into(), least, most, keys, ..*self })
    }
}

/// Rejects a call after the end of the stream.
pub(super) fn check_open(closed: bool, call: &str) -> Result<()> {
    match closed {
        false => Ok(()),
        true => {
            Err(Error::InvalidValue(format!("{call}: the operator is closed; no call may follow close()")))
        }
    }
}

/// Rejects a watermark before the last one.
pub(in crate::operator) fn check_watermark(
    measure: &Measure,
    last: Option<i64>,
    watermark: i64,
) -> Result<()> {
    match last.filter(|&last| watermark < last) {
        None => Ok(()),
        Some(last) => Err(Error::InvalidValue(format!(
            "watermark: {} is before the last one, {} (both {} '{}'); a watermark must not decrease",
            measure.shown(watermark),
            measure.shown(last),
            if measure.is_calendar() {
                "times of".to_owned()
            } else {
                format!("in {} of", measure.unit_name())
            },
            measure.column()
        ))),
    }
}

/// Rejects a batch of another schema.
pub(super) fn check_schema(input: &Schema, batch: &RecordBatch) -> Result<()> {
    let (own, given) = (input.fields(), batch.schema_ref().fields());
    if own.len() != given.len() {
        return Err(Error::InvalidValue(format!(
            "batch: it has {} columns, but earlier batches had {}; the schema of a stream must not change",
            given.len(),
            own.len()
        )));
    }
    for (own, given) in own.iter().zip(given) {
        if own.name() != given.name() || own.data_type() != given.data_type() {
            return Err(Error::InvalidType(format!(
                "batch: its column '{}' of {} was '{}' of {} in earlier batches; the schema of a stream must not \
                 change",
                given.name(),
                named(given.data_type()),
                own.name(),
                named(own.data_type())
            )));
        }
    }
    Ok(())
}

impl Gate {
    /// The rows of a batch, and those without a time, if there are any. `before` rows of the same call come before it.
    pub(super) fn accept(
        &self,
        plan: &Plan,
        (batch, before): (&RecordBatch, usize),
        kind: InputKind,
    ) -> Result<(Accepted, Option<RecordBatch>)> {
        let (mut rows, mut untimed) = (batch.clone(), None);
        let time = batch.column(plan.time());
        if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            let null = BooleanArray::new(!nulls.inner(), None);
            untimed = Some(filter_record_batch(batch, &null)?);
            rows = filter_record_batch(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
        }
        let times = plan.measure().read(rows.column(plan.time()))?;
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
            let (least, most, keys) = (i64::MAX, i64::MIN, KeyNumbers::NONE);
            let none = Accepted { rows, times, is_sorted: true, least, most, kind, weight: 1.0, keys };
            return Ok((none, untimed));
        };
        let (mut least, mut most, keys) = (first, last, KeyNumbers::NONE);
        let is_sorted = simd::is_ascending(&times);
        if !is_sorted {
            (least, most) = simd::span(&times).unwrap_or((first, first));
        }
        if self.order == Order::InOrder {
            check_order(plan, &times, is_sorted, self.latest, |row| before + nth_valid(time, row))?;
        }
        if let Some(&outside) = [least, most].iter().find(|&&t| t < self.bounds.0 || t > self.bounds.1) {
            return Err(out_of_bounds(plan, outside));
        }
        Ok((Accepted { rows, times, is_sorted, least, most, kind, weight: 1.0, keys }, untimed))
    }

    /// Takes note of rows that came.
    pub(super) fn see(&mut self, rows: &Accepted) {
        if !rows.times.is_empty() {
            self.latest = Some(rows.most).max(self.latest);
            self.latest_row = Some(rows.most).max(self.latest_row);
        }
    }
}

/// Which row of a column is row `row` of those that are not null.
pub(super) fn nth_valid(column: &ArrayRef, row: usize) -> usize {
    match column.logical_nulls() {
        Some(nulls) => nulls.inner().set_indices().nth(row).unwrap_or(row),
        None => row,
    }
}

/// Rejects times that decrease from row to row, or from `last` on; `place` is where the caller of the operator finds a
/// row.
fn check_order(
    plan: &Plan,
    times: &[i64],
    sorted: bool,
    last: Option<i64>,
    place: impl Fn(usize) -> usize,
) -> Result<()> {
    let first = last.filter(|&last| times[0] < last).map(|last| (0, last));
    let back = first.or_else(|| {
        (!sorted)
            .then(|| times.windows(2).position(|pair| pair[1] < pair[0]).unwrap_or(0) + 1)
            .map(|row| (row, times[row - 1]))
    });
    match back {
        None => Ok(()),
        Some((row, before)) => Err(Error::InvalidValue(format!(
            "batch: row {} has time {} in column '{}', which is before {}, the latest so far; rows come in \
             order unless order='out-of-order' is given",
            place(row),
            plan.measure().shown(times[row]),
            plan.measure().column(),
            plan.measure().shown(before)
        ))),
    }
}
