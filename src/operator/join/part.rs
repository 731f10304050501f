//! A batch of a side: which keys its rows have, when they are, and what the result has of them.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::kind::Which;
use super::plan::{JoinPlan, SidePlan};
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::operator::held::contents;
use crate::operator::numbered::NONE;
use crate::operator::spread::of_keys;
use crate::operator::weights::weights_of;
use crate::select::filter;
use crate::types::named;
use crate::{Error, Result};

/// Rows of a batch of a side: the keys by which they meet others, their times, and the columns that are held of them.
pub(super) struct Part {
    /// [`NONE`] of rows that meet no others, as a key is null.
    pub(super) keys: Vec<u32>,
    pub(super) times: ScalarBuffer<i64>,
    /// Which rows have a time.
    pub(super) timed: Option<NullBuffer>,
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    /// Which rows have places: a time, and a window if they are joined by these.
    placed: Option<NullBuffer>,
    /// 1, or -1 for rows that retract others; all are 1 without them.
    weights: Option<ScalarBuffer<i64>>,
    /// Of rows with weights, what they mostly differ in; see [`contents`].
    contents: Vec<u32>,
}

impl Part {
    /// Reads a batch, which comes after `before` other rows. New keys are added to `index`.
    ///
    /// # Errors
    /// As [`Part::read`].
    pub(super) fn of(
        plan: &JoinPlan,
        which: Which,
        batch: (&RecordBatch, usize),
        index: &mut KeyIndex,
    ) -> Result<Self> {
        let (part, keys) = Self::read(plan, which, batch)?;
        let mut numbers = Vec::with_capacity(part.rows);
        index.assign_all(keys.columns(), part.rows, &mut numbers, check)?;
        Ok(part.numbered(numbers, &keys))
    }

    /// Reads a batch, which comes after `before` other rows, and whose keys have no numbers yet; returns these, too.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` for a batch of another schema, and for times beyond int64; `Overflow` for times
    /// that are too far away for their windows.
    pub(super) fn read(
        plan: &JoinPlan,
        which: Which,
        (batch, before): (&RecordBatch, usize),
    ) -> Result<(Self, RecordBatch)> {
        let side = plan.side(which);
        side.check(which, batch)?;
        let rows = batch.num_rows();
        let times = side.measure.read(batch.column(side.time))?;
        let timed = batch.column(side.time).logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let keys = of_keys(keys_of(plan, which, batch)?, rows)?;
        let placed = plan.condition.placed(&times, timed.as_ref())?;
        let held = side.held.iter().map(|(position, kind)| as_type(batch.column(*position), kind));
        let held = held.collect::<Result<Vec<ArrayRef>>>()?;
        let weights = side.weight.map(|weight| {
            let (argument, name) = (format!("{}_weight", which.name()), side.input.field(weight).name());
            weights_of(&argument, name, batch.column(weight), before)
        });
        let weights = weights.transpose()?;
        let contents = if weights.is_some() { contents(&held, rows)? } else { Vec::new() };
        let part = Self { keys: Vec::new(), times, timed, columns: held, rows, placed, weights, contents };
        Ok((part, keys))
    }

    /// This with the numbers of its keys.
    pub(super) fn numbered(mut self, numbers: Vec<u32>, keys: &RecordBatch) -> Self {
        self.keys = numbers;
        for column in keys.columns() {
            hide(&mut self.keys, column.logical_nulls().as_ref());
        }
        self
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a row has a time.
    pub(super) fn is_timed(&self, row: usize) -> bool {
        self.timed.as_ref().is_none_or(|timed| timed.is_valid(row))
    }

    /// 1, or -1 for a row that retracts another.
    pub(super) fn weight(&self, row: usize) -> i8 {
        self.weights.as_ref().map_or(1, |weights| weights[row] as i8)
    }

    /// See [`contents`]; 0 where rows have no weights.
    pub(super) fn content(&self, row: usize) -> u32 {
        self.contents.get(row).copied().unwrap_or_default()
    }

    /// What rows share that are equal in all columns but weights, and others mostly do not.
    pub(super) fn alike(&self, row: usize) -> (u32, Option<i64>, u32) {
        (self.keys[row], self.is_timed(row).then_some(self.times[row]), self.content(row))
    }

    /// Whether a row is equal to another one in all held columns.
    pub(super) fn is_equal(&self, row: usize, others: &[ArrayRef], other: usize) -> bool {
        let mut columns = self.columns.iter().zip(others);
        columns.all(|(own, others)| own.slice(row, 1).as_ref() == others.slice(other, 1).as_ref())
    }

    /// The rows that remain.
    pub(super) fn only(self, remain: Vec<bool>) -> Result<Self> {
        let rows = remain.iter().filter(|&&remains| remains).count();
        let remain = BooleanArray::from(remain);
        let kept = || (0..remain.len()).filter(|&row| remain.value(row));
        let columns = self.columns.iter().map(|column| Ok(filter(column, &remain)?));
        Ok(Self {
            keys: kept().map(|row| self.keys[row]).collect(),
            times: kept().map(|row| self.times[row]).collect(),
            timed: self.timed.as_ref().map(|timed| kept().map(|row| timed.is_valid(row)).collect()),
            columns: columns.collect::<Result<_>>()?,
            rows,
            placed: None,
            weights: None,
            contents: Vec::new(),
        })
    }

    /// This with [`NONE`] as the key of rows without places, too.
    pub(super) fn meeting(mut self) -> Self {
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

/// The key columns of a batch in the types in which they are compared.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn keys_of(plan: &JoinPlan, which: Which, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let side = plan.side(which);
    let keys = side.by.iter().zip(plan.keys());
    keys.map(|(&position, kind)| as_key(batch.column(position), kind, side.by.len() == 1)).collect()
}

/// Sets the keys of all rows but these to [`NONE`].
fn hide(keys: &mut [u32], rows: Option<&NullBuffer>) {
    if let Some(rows) = rows.filter(|rows| rows.null_count() > 0) {
        keys.iter_mut().zip(rows.iter()).filter(|(_, is_one)| !is_one).for_each(|(key, _)| *key = NONE);
    }
}

impl SidePlan {
    pub(super) fn check(&self, which: Which, batch: &RecordBatch) -> Result<()> {
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
