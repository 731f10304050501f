//! From Arrow columns to columns of partials and back.

use std::any::Any;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Int64Array, UInt32Array, cast::AsArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::filter::FilterBuilder;

use super::column::{Column, Monoid};
use super::nodes::Nodes;
use super::properties::Properties;
use super::sorted_runs::RunNodes;
use super::totals::{RunningTotals, Totals};
use crate::kernels::Ranges;
use crate::{Error, Result};

/// Rows on their way into slots, one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Slot of each row.
    pub slots: &'a [u32],
    /// Time of each row, in units of the measure.
    pub times: &'a [i64],
    /// Whether some of the slots that these rows opened may have none of them, as a filter took them away.
    pub sparse: bool,
}

impl<'a> Rows<'a> {
    /// All rows of a batch: each slot that is new has at least one.
    pub fn all(slots: &'a [u32], times: &'a [i64]) -> Self {
        Self { slots, times, sparse: false }
    }
}

/// Neighbouring rows of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Their slot.
    pub slot: u32,
    /// The first row.
    pub from: usize,
    /// The first row after them.
    pub to: usize,
}

/// What one column of partials reads of a batch.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its columns, one entry per row.
    pub columns: Vec<ArrayRef>,
    /// Which rows it takes; all if there is no filter. A null takes none.
    pub taken: Option<BooleanArray>,
}

impl Input {
    /// Folds the rows that are taken into `partials`.
    pub fn feed(&self, partials: &mut dyn Partials, rows: Rows<'_>, len: usize) -> Result<()> {
        let Some(taken) = &self.taken else { return partials.update(&self.columns, rows, len) };
        let taken = FilterBuilder::new(taken).optimize().build();
        let columns = self.columns.iter().map(|column| taken.filter(column));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        let slots = taken.filter(&UInt32Array::from(rows.slots.to_vec()))?;
        let times = taken.filter(&Int64Array::from(rows.times.to_vec()))?;
        let rows = Rows {
            slots: slots.as_primitive::<UInt32Type>().values(),
            times: times.as_primitive::<Int64Type>().values(),
            sparse: true,
        };
        partials.update(&columns, rows, len)
    }

    /// The same of `rows` rows from row `from`.
    pub fn slice(&self, from: usize, rows: usize) -> Self {
        Self {
            columns: self.columns.iter().map(|column| column.slice(from, rows)).collect(),
            taken: self.taken.as_ref().map(|taken| taken.slice(from, rows)),
        }
    }
}

/// A monoid over Arrow columns: lift and lower.
pub trait Aggregate: Monoid {
    /// What holds of the function; what is said here is what the property tests check.
    fn properties(&self) -> Properties;

    /// Lifts rows and folds them into their slots, growing to `len` slots. `inputs` are the function's columns.
    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// Folds partials, given as the columns of [`super::Partial::state_columns`], into slots.
    ///
    /// Partials of many functions look like values, so that this is `update` with another name.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        Self::update(column, state, rows, len)
    }

    /// The partials of all slots as columns, for [`Aggregate::merge`] elsewhere.
    ///
    /// # Errors
    /// `Overflow` where a partial does not fit the columns.
    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        Ok(vec![Self::lower(column)?])
    }

    /// Appends another column's slots.
    fn append(column: &mut Column<Self>, other: Column<Self>) {
        column.append(other);
    }

    /// See [`Partials::update_runs`].
    fn update_runs(
        column: &mut Column<Self>,
        inputs: &[ArrayRef],
        runs: &[Run],
        times: &[i64],
        len: usize,
    ) -> Result<bool> {
        let _ = (column, inputs, runs, times, len);
        Ok(false)
    }

    /// Drops values that no state points to.
    fn shrink(column: &mut Column<Self>) -> Result<()> {
        let _ = column;
        Ok(())
    }

    /// Results of all slots.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type.
    fn lower(column: &Column<Self>) -> Result<ArrayRef>;
}

/// A column of partial aggregates of any kind: the dynamic face of `Column<impl Aggregate>`.
pub trait Partials: Send + Sync {
    /// See [`Aggregate::properties`].
    fn properties(&self) -> Properties;

    /// Its slots as nodes of a tree, where partials are plain states.
    fn nodes(&mut self) -> Option<&mut dyn Nodes> {
        None
    }

    /// No nodes yet of trees whose nodes are sorted runs, where partials are multisets that can be such.
    fn run_nodes(&self) -> Option<Box<dyn RunNodes>> {
        None
    }

    /// See [`Aggregate::update`].
    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// See [`Aggregate::merge`].
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// Appends the slots of a column of the same kind.
    fn append(&mut self, other: Box<dyn Partials>);

    /// A column of this kind without slots.
    fn empty(&self) -> Box<dyn Partials>;

    /// See [`Column::regroup`].
    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>>;

    /// See [`Column::answer`].
    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>>;

    /// See [`Aggregate::state`].
    fn state(&self) -> Result<Vec<ArrayRef>>;

    /// See [`Aggregate::lower`].
    fn lower(&self) -> Result<ArrayRef>;

    /// As [`Partials::update`] for rows that come run by run, if that is any faster; whether it was done.
    fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], times: &[i64], len: usize) -> Result<bool> {
        let _ = (inputs, runs, times, len);
        Ok(false)
    }

    /// As [`Partials::answer`] for ranges in any order, where partials are plain states.
    fn answer_any(&self, ranges: &[(u32, u32)]) -> Option<Box<dyn Partials>> {
        let _ = ranges;
        None
    }

    /// Whether partials are plain states, which refer to nothing: only these can be written and combined in place.
    fn is_plain(&self) -> bool {
        false
    }

    /// Running totals of partials of this kind, none yet, where they are plain states with an exact inverse.
    fn totals(&self) -> Option<Box<dyn Totals>> {
        None
    }

    /// Writes the slots of a column of the same kind to slots `at`; there are `len` then. Of plain states only.
    fn write(&mut self, at: &[u32], from: &dyn Partials, len: usize) {
        let _ = (at, from, len);
    }

    /// Combines slots, one after the other: which, the earlier and the later. Of plain states only.
    fn combine(&mut self, program: &[(u32, u32, u32)]) {
        let _ = program;
    }

    /// Takes out of slots what the slots of `lost`, a column of the same kind, hold: slot n of it was combined into slot
    /// `slots[n]`, in which `left[n]` says whether a value is left. Says of each whether that could be done; the others
    /// are as they were (Traub et al. 2019, Fig. 6).
    ///
    /// # Errors
    /// What a user's function raises.
    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        let _ = (lost, left);
        Ok(vec![false; slots.len()])
    }

    /// Whether [`Partials::take_out`] can take out any value.
    fn takes_out(&self) -> bool {
        false
    }

    /// Calls whatever function is still to be called for the rows so far.
    ///
    /// # Errors
    /// What a user's function raises.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Drops values that no slot points to.
    fn shrink(&mut self) -> Result<()> {
        Ok(())
    }

    /// Bytes held.
    fn bytes(&self) -> usize;

    /// For functions lowered from several partials.
    fn as_any(&self) -> &dyn Any;

    /// For [`Partials::append`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<A: Aggregate> Partials for Column<A> {
    fn properties(&self) -> Properties {
        self.monoid().properties()
    }

    fn nodes(&mut self) -> Option<&mut dyn Nodes> {
        Some(self)
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::update(self, inputs, rows, len)
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::merge(self, state, rows, len)
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        A::append(self, *other.into_any().downcast::<Self>().expect("columns of one kind"));
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(Column::new(self.monoid().emptied()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        Ok(Box::new(self.regroup(slots, groups)))
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        Ok(Box::new(self.answer(ranges)))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        A::state(self)
    }

    fn lower(&self) -> Result<ArrayRef> {
        A::lower(self)
    }

    fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], times: &[i64], len: usize) -> Result<bool> {
        A::update_runs(self, inputs, runs, times, len)
    }

    fn answer_any(&self, ranges: &[(u32, u32)]) -> Option<Box<dyn Partials>> {
        Some(Box::new(self.answer_any(ranges)))
    }

    fn shrink(&mut self) -> Result<()> {
        A::shrink(self)
    }

    fn is_plain(&self) -> bool {
        self.monoid().is_plain()
    }

    fn totals(&self) -> Option<Box<dyn Totals>> {
        RunningTotals::of(self)
    }

    fn write(&mut self, at: &[u32], from: &dyn Partials, len: usize) {
        self.write(at, from.as_any().downcast_ref::<Self>().expect("columns of one kind"), len);
    }

    fn combine(&mut self, program: &[(u32, u32, u32)]) {
        self.combine_slots(program);
    }

    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        Ok(self.take_out(slots, lost.as_any().downcast_ref::<Self>().expect("columns of one kind"), left))
    }

    fn takes_out(&self) -> bool {
        self.monoid().invert().is_some()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The columns of a function, or of a state, that has `N` of them.
pub(super) fn columns<const N: usize>(given: &[ArrayRef]) -> Result<&[ArrayRef; N]> {
    given.try_into().map_err(|_| {
        Error::Internal(format!("a function or partial of {N} columns came with {}", given.len()))
    })
}

/// `array` as `wanted`; itself if it is that already.
pub(super) fn cast_to(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    Ok(if array.data_type() == wanted { array.clone() } else { cast(array, wanted)? })
}

/// Runs at least this long are worth a vector kernel.
pub(super) const LONG: usize = 32;

/// Folds runs of primitive values, read as `physical`, into their slots, those of at least `long` values by `reduce`; not if
/// some are null.
pub(super) fn fold_runs<T: ArrowPrimitiveType, M: Monoid>(
    column: &mut Column<M>,
    input: &ArrayRef,
    physical: &DataType,
    runs: &[Run],
    len: usize,
    (lift, long, reduce): (impl Fn(T::Native) -> M::State, usize, impl Fn(&[T::Native]) -> M::State),
) -> Result<bool> {
    if input.is_nullable() {
        return Ok(false);
    }
    let array = cast_to(input, physical)?;
    let values = array.as_primitive::<T>().values();
    let (monoid, states) = column.slots_of_runs(runs, len);
    for run in runs {
        let (values, state) = (&values[run.from..run.to], &mut states[run.slot as usize]);
        if values.len() < long {
            values.iter().for_each(|&value| monoid.absorb(state, lift(value)));
        } else {
            monoid.absorb(state, reduce(values));
        }
    }
    Ok(true)
}

/// Folds primitive values, read as `physical`, into their slots.
pub(super) fn fold_primitive<T: ArrowPrimitiveType, M: Monoid>(
    column: &mut Column<M>,
    input: &ArrayRef,
    physical: &DataType,
    rows: Rows<'_>,
    len: usize,
    lift: impl Fn(T::Native) -> M::State,
) -> Result<()> {
    let array = cast_to(input, physical)?;
    let array = array.as_primitive::<T>();
    let values = &array.values()[..rows.slots.len()];
    column.fold(rows, array.nulls(), len, |row| lift(values[row]));
    Ok(())
}
