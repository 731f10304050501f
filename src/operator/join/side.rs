//! The rows of one side, as they come and then in order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray, new_null_array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::kind::Which;
use super::plan::{JoinPlan, SidePlan};
use super::windows::Span;
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::operator::batching::{BATCH_ROWS, cut};
use crate::operator::parts::{each, share_out};
use crate::poll::sort_unstable;
use crate::select::{interleave, take};
use crate::slice::KeyOrder;
use crate::types::named;
use crate::{Error, Result};

/// The number of no row, and of the key of rows without one.
pub(super) const NONE: u32 = u32::MAX;

/// Rows of a batch of a side: the keys by which they meet others, their times, and the columns that are held of them.
pub(super) struct Part {
    /// [`NONE`] of rows that meet no others, as a key is null.
    pub(super) keys: Vec<u32>,
    pub(super) times: ScalarBuffer<i64>,
    /// Which rows have a time.
    pub(super) timed: Option<NullBuffer>,
    pub(super) columns: Vec<ArrayRef>,
    rows: usize,
    /// Which rows have places: a time, and a window if they are joined by these.
    placed: Option<NullBuffer>,
}

/// Rows of a side, as they came.
pub(super) struct Gathering {
    plan: Arc<JoinPlan>,
    which: Which,
    parts: Vec<Part>,
    rows: usize,
}

/// All rows of a side.
pub(super) struct Side {
    plan: Arc<JoinPlan>,
    which: Which,
    parts: Vec<Part>,
    /// Number of the first row of each part, and of all rows.
    firsts: Vec<usize>,
    /// Times and numbers of the rows that meet others, by key, time and number.
    pub(super) order: KeyOrder,
}

impl Part {
    /// Reads a batch. New keys are added to `index`.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` for a batch of another schema, and for times beyond int64; `Overflow` for times
    /// that are too far away for their windows.
    pub(super) fn of(
        plan: &JoinPlan,
        which: Which,
        batch: &RecordBatch,
        index: &mut KeyIndex,
    ) -> Result<Self> {
        let side = plan.side(which);
        side.check(which, batch)?;
        let rows = batch.num_rows();
        let times = side.measure.read(batch.column(side.time))?;
        let timed = batch.column(side.time).logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let columns: Vec<ArrayRef> = side
            .by
            .iter()
            .zip(plan.keys())
            .map(|(&position, kind)| as_key(batch.column(position), kind, side.by.len() == 1))
            .collect::<Result<_>>()?;
        let placed = plan.condition.placed(&times, timed.as_ref())?;
        let mut meeting = None;
        for column in &columns {
            meeting = NullBuffer::union(meeting.as_ref(), column.logical_nulls().as_ref());
        }
        let mut keys = Vec::with_capacity(rows);
        index.assign_all(&columns, rows, &mut keys, check)?;
        hide(&mut keys, meeting.as_ref());
        let held = side.held.iter().map(|(position, kind)| as_type(batch.column(*position), kind));
        Ok(Self { keys, times, timed, columns: held.collect::<Result<_>>()?, rows, placed })
    }

    /// This with [`NONE`] as the key of rows without places, too.
    fn meeting(mut self) -> Self {
        hide(&mut self.keys, self.placed.take().as_ref());
        self
    }

    /// The number of a key of a side, which columns of one row have.
    ///
    /// # Errors
    /// `InvalidValue` for a key with a null.
    pub(super) fn key(
        plan: &JoinPlan,
        which: Which,
        columns: &[ArrayRef],
        index: &mut KeyIndex,
    ) -> Result<u32> {
        let keys = columns.iter().zip(plan.keys());
        let keys = keys.map(|(column, kind)| as_key(column, kind, columns.len() == 1));
        let (keys, mut number) = (keys.collect::<Result<Vec<_>>>()?, Vec::new());
        if let Some(at) = keys.iter().position(|column| column.logical_null_count() > 0) {
            let side = plan.side(which);
            return Err(Error::InvalidValue(format!(
                "key: column '{}' of it is null; a null key equals nothing in a join, so allowed are keys without nulls",
                side.input.field(side.by[at]).name()
            )));
        }
        index.assign_all(&keys, 1, &mut number, check)?;
        Ok(number[0])
    }
}

/// Sets the keys of all rows but these to [`NONE`].
fn hide(keys: &mut [u32], rows: Option<&NullBuffer>) {
    if let Some(rows) = rows.filter(|rows| rows.null_count() > 0) {
        keys.iter_mut().zip(rows.iter()).filter(|(_, is_one)| !is_one).for_each(|(key, _)| *key = NONE);
    }
}

impl SidePlan {
    fn check(&self, which: Which, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema_ref();
        if schema.fields().len() != self.input.fields().len() {
            return Err(Error::InvalidValue(format!(
                "{}: its schema is not the one that the join was bound to",
                which.name()
            )));
        }
        let mut fields = schema.fields().iter().zip(self.input.fields());
        match fields.find(|(own, bound)| own.data_type() != bound.data_type()) {
            None => Ok(()),
            Some((own, bound)) => Err(Error::InvalidType(format!(
                "{}: column '{}' is {}; the join was bound to {}",
                which.name(),
                bound.name(),
                named(own.data_type()),
                named(bound.data_type())
            ))),
        }
    }
}

/// A key column in the type in which it is compared; a dictionary with values of this type stays one if it is the only
/// key, as few values are looked up then.
fn as_key(column: &ArrayRef, kind: &DataType, is_only: bool) -> Result<ArrayRef> {
    match column.as_any_dictionary_opt() {
        Some(dictionary) if is_only && dictionary.values().data_type() == kind => Ok(column.clone()),
        _ => as_type(column, kind),
    }
}

fn as_type(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    if column.data_type() == kind { Ok(column.clone()) } else { Ok(cast(column, kind)?) }
}

impl Gathering {
    pub(super) fn new(plan: Arc<JoinPlan>, which: Which) -> Self {
        Self { plan, which, parts: Vec::new(), rows: 0 }
    }

    /// Adds rows, on up to `threads` threads, and their keys to `index`.
    pub(super) fn push(
        &mut self,
        index: &mut KeyIndex,
        batches: &[RecordBatch],
        threads: usize,
    ) -> Result<()> {
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if self.rows >= NONE as usize {
            return Err(Error::InvalidValue(format!(
                "{}: more than {} rows; join in parts",
                self.which.name(),
                NONE - 1
            )));
        }
        let (plan, which, parts) = (&self.plan, self.which, &mut self.parts);
        // To read integer keys takes less time than to translate those of several threads.
        let threads = if plan.keys().iter().all(DataType::is_integer) { 1 } else { threads };
        let others = share_out(
            batches,
            threads,
            |own| {
                for batch in own {
                    parts.push(Part::of(plan, which, batch, index)?.meeting());
                }
                Ok(())
            },
            |own| {
                let mut index = KeyIndex::new(plan.keys().to_vec())?;
                let part = |batch| Ok(Part::of(plan, which, batch, &mut index)?.meeting());
                let parts = own.iter().map(part);
                let parts = parts.collect::<Result<Vec<Part>>>()?;
                Ok((index, parts))
            },
        )?;
        for (keys, mut parts) in others {
            let translate = index.absorb(&keys)?;
            for part in &mut parts {
                check()?;
                let meeting = part.keys.iter_mut().filter(|key| **key != NONE);
                meeting.for_each(|key| *key = translate[*key as usize]);
            }
            self.parts.append(&mut parts);
        }
        Ok(())
    }

    /// The rows in order, of which the sides have so many keys.
    pub(super) fn finish(self, key_count: usize, threads: usize) -> Result<Side> {
        let Self { plan, which, mut parts, .. } = self;
        parts.retain(|part| part.rows > 0);
        let mut firsts = vec![0];
        for part in &mut parts {
            check()?;
            firsts.push(firsts[firsts.len() - 1] + part.rows);
            part.keys.iter_mut().filter(|key| **key == NONE).for_each(|key| *key = key_count as u32);
        }
        let columns = parts.iter().map(|part| (&part.keys[..], &part.times[..]));
        // The last key is that of the rows that meet no others.
        let mut order = KeyOrder::of(columns, key_count + 1, check)?;
        order.bounds.pop();
        order.slots.truncate(order.bounds[key_count]);
        parts.iter_mut().for_each(|part| part.keys = Vec::new());
        sort(&mut order, threads)?;
        Ok(Side { plan, which, parts, firsts, order })
    }
}

/// Sorts the rows of each key by time and number.
fn sort(order: &mut KeyOrder, threads: usize) -> Result<()> {
    let blocks = cut(&[order], BATCH_ROWS);
    let KeyOrder { slots, bounds } = order;
    let mut rest = &mut slots[..];
    let mut work = Vec::new();
    for keys in blocks.windows(2) {
        let (own, others) = rest.split_at_mut(bounds[keys[1]] - bounds[keys[0]]);
        work.push((&bounds[keys[0]..=keys[1]], own));
        rest = others;
    }
    each(work, threads, |(bounds, slots)| {
        let mut pace = Pace::new();
        for key in bounds.windows(2) {
            let own = &mut slots[key[0] - bounds[0]..key[1] - bounds[0]];
            pace.check(own.len())?;
            if !own.is_sorted_by_key(|&(time, _)| time) {
                sort_unstable(own, check)?;
            }
        }
        Ok(())
    })
}

impl Side {
    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.firsts[self.firsts.len() - 1]
    }

    /// Part of a row, and its place there.
    fn place(&self, row: u32) -> (usize, usize) {
        let part = self.firsts.partition_point(|&first| first <= row as usize) - 1;
        (part, row as usize - self.firsts[part])
    }

    /// The windows of a row, in whichever order it is asked for.
    ///
    /// # Errors
    /// Errors of the condition, which a row that was taken in does not have.
    pub(super) fn windows(&self, row: u32) -> Result<Option<Span>> {
        let (part, at) = self.place(row);
        let part = &self.parts[part];
        let is_timed = part.timed.as_ref().is_none_or(|timed| timed.is_valid(at));
        if is_timed { self.plan.condition.places(part.times[at]) } else { Ok(None) }
    }

    /// The values of a held column in some rows, null for [`NONE`].
    pub(super) fn values(&self, column: usize, rows: &[u32]) -> Result<ArrayRef> {
        let kind = &self.plan.side(self.which).held[column].1;
        let arrays: Vec<&dyn Array> = self.parts.iter().map(|part| part.columns[column].as_ref()).collect();
        match arrays[..] {
            [] => Ok(new_null_array(kind, rows.len())),
            [only] => Ok(take(only, &numbers(rows), None)?),
            _ => {
                let null = new_null_array(kind, 1);
                let arrays: Vec<&dyn Array> = arrays.iter().copied().chain([null.as_ref()]).collect();
                let place = |&row: &u32| if row == NONE { (arrays.len() - 1, 0) } else { self.place(row) };
                Ok(interleave(&arrays, &rows.iter().map(place).collect::<Vec<_>>())?)
            }
        }
    }
}

/// Numbers of rows as Arrow takes them.
fn numbers(rows: &[u32]) -> UInt32Array {
    let nulls = rows.contains(&NONE).then(|| rows.iter().map(|&row| row != NONE).collect());
    UInt32Array::new(rows.to_vec().into(), nulls)
}
