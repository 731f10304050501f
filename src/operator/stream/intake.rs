//! Rows on their way in: which are taken, and what they are folded into.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;
use arrow_select::filter::filter_record_batch;

use super::Stream;
use super::late::{Late, Reason};
use crate::kernels::simd;
use crate::operator::bounded::Columns;
use crate::operator::parts::out_of_bounds;
use crate::operator::plan::Plan;
use crate::slice::strategy::Order;
use crate::slice::{Delta, Keys};
use crate::window::Measure;
use crate::{Error, Result};

/// Rows that go through slicer and partials at a time: their columns stay in the cache.
const CHUNK_ROWS: usize = 16_384;

/// Which rows are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    /// Whether rows may come out of order.
    pub(crate) order: Order,
    /// How far the stream is complete.
    pub(crate) watermark: Option<i64>,
    /// The least time of a row that is taken; none while every row is.
    pub(crate) cutoff: Option<i64>,
    /// The least and the greatest time whose windows' edges fit int64.
    pub(crate) bounds: (i64, i64),
}

/// Refuses a call after the end of the stream.
pub(crate) fn check_open(closed: bool, call: &str) -> Result<()> {
    match closed {
        false => Ok(()),
        true => {
            Err(Error::InvalidValue(format!("{call}: the operator is closed; nothing comes after close()")))
        }
    }
}

/// Refuses a watermark before the last one.
pub(crate) fn check_watermark(measure: &Measure, last: Option<i64>, watermark: i64) -> Result<()> {
    match last.filter(|&last| watermark < last) {
        None => Ok(()),
        Some(last) => Err(Error::InvalidValue(format!(
            "watermark: {watermark} is before the last one, {last} (both in {} of '{}'); a watermark never goes back",
            measure.unit_name(),
            measure.column()
        ))),
    }
}

/// Refuses a batch of another schema.
pub(crate) fn check_schema(input: &Schema, batch: &RecordBatch) -> Result<()> {
    let (own, given) = (input.fields(), batch.schema_ref().fields());
    if own.len() != given.len() {
        return Err(Error::InvalidValue(format!(
            "batch: it has {} columns, and those before it {}; the schema of a stream does not change",
            given.len(),
            own.len()
        )));
    }
    for (own, given) in own.iter().zip(given) {
        if own.name() != given.name() || own.data_type() != given.data_type() {
            return Err(Error::InvalidType(format!(
                "batch: its column '{}' of {} is '{}' of {} in those before it; the schema of a stream does not change",
                given.name(),
                given.data_type(),
                own.name(),
                own.data_type()
            )));
        }
    }
    Ok(())
}

impl Gate {
    /// The rows of a batch that are taken, and whether they are in order; the others go to `refused`, if they are wanted.
    /// `before` rows of the same call come before it.
    pub(crate) fn accept(
        &self,
        plan: &Plan,
        (batch, before): (&RecordBatch, usize),
        latest: &mut Option<i64>,
        mut refused: Option<(&Late, &mut Vec<RecordBatch>)>,
    ) -> Result<(RecordBatch, bool)> {
        let mut refuse = |batch: &RecordBatch, which: BooleanBuffer, why: Reason| -> Result<()> {
            if let Some((late, refused)) = &mut refused {
                refused.push(late.batch(&filter_record_batch(batch, &BooleanArray::new(which, None))?, why)?);
            }
            Ok(())
        };
        let mut accepted = batch.clone();
        let time = batch.column(plan.time());
        if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            let valid = BooleanArray::new(nulls.inner().clone(), None);
            refuse(batch, !nulls.inner(), Reason::NullTime)?;
            accepted = filter_record_batch(batch, &valid)?;
        }
        let times = plan.measure().read(accepted.column(plan.time()))?;
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return Ok((accepted, true)) };
        let (mut least, mut most) = (first, last);
        let sorted = simd::is_ascending(&times);
        if !sorted {
            (least, most) = simd::span(&times).unwrap_or((first, first));
        }
        if self.order == Order::InOrder {
            check_order(plan, &times, sorted, (*latest).max(self.watermark), |row| {
                before + nth_valid(time, row)
            })?;
        }
        if let Some(&outside) = [least, most].iter().find(|&&t| t < self.bounds.0 || t > self.bounds.1) {
            return Err(out_of_bounds(plan, outside));
        }
        *latest = Some(most).max(*latest);
        if let Some(cutoff) = self.cutoff.filter(|&cutoff| least < cutoff) {
            let taken = BooleanBuffer::collect_bool(times.len(), |row| times[row] >= cutoff);
            refuse(&accepted, !&taken, Reason::TooLate)?;
            accepted = filter_record_batch(&accepted, &BooleanArray::new(taken, None))?;
        }
        Ok((accepted, sorted))
    }
}

/// Which row of a column is its row `row` of those that are not null.
fn nth_valid(column: &ArrayRef, row: usize) -> usize {
    match column.logical_nulls() {
        Some(nulls) => nulls.inner().set_indices().nth(row).unwrap_or(row),
        None => row,
    }
}

/// Refuses rows that step back behind each other, or behind `last`; `place` is where the caller of the operator finds one.
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
            "batch: row {} has time {} in column '{}', which is before {before}, the latest so far; rows come in \
             order unless order='out-of-order' is given",
            place(row),
            times[row],
            plan.measure().column()
        ))),
    }
}

impl Stream {
    /// Which rows are taken.
    pub(super) fn gate(&self) -> Gate {
        Gate {
            order: self.options.order,
            watermark: self.watermark,
            cutoff: self.cutoff(),
            bounds: self.queries.edges().bounds(),
        }
    }

    /// Folds rows into the call's cells.
    pub(super) fn fold(&mut self, batch: &RecordBatch, sorted: bool, delta: &mut Delta) -> Result<()> {
        let columns = Columns::of(self.queries.leader(), self.queries.stored(), batch)?;
        let rows = columns.times.len();
        let one_key = columns.keys.is_empty();
        if one_key {
            self.ids.clear();
            self.keys.assign(&[], rows.min(1), &mut self.ids)?;
        }
        for from in (0..rows).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(rows - from);
            let times = &columns.times[from..from + rows];
            let mut keys = Keys::One(0);
            if !one_key {
                self.ids.clear();
                let own: Vec<ArrayRef> = columns.keys.iter().map(|key| key.slice(from, rows)).collect();
                self.keys.assign(&own, rows, &mut self.ids)?;
                let first = self.ids[0];
                let same = self.ids.iter().all(|&id| id == first);
                keys = if same { Keys::One(first) } else { Keys::Each(&self.ids) };
            }
            self.cutter.cut(times, keys, self.keys.len(), sorted || simd::is_ascending(times));
            let inputs: Vec<_> = columns.inputs.iter().map(|input| input.slice(from, rows)).collect();
            delta.update(&inputs, times, &self.cutter.rows(), self.cutter.cells().len())?;
        }
        Ok(())
    }
}
