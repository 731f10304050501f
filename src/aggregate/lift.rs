//! From Arrow columns to columns of partials and back.

use std::any::Any;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use crate::kernels::Ranges;
use crate::{Error, Result};

/// Rows on their way into slots, one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Slot of each row.
    pub slots: &'a [u32],
    /// Time of each row, in units of the measure.
    pub times: &'a [i64],
}

/// A monoid over Arrow columns: lift and lower.
pub trait Aggregate: Monoid {
    /// Lifts rows and folds them into their slots, growing to `len` slots. `input` is the function's column, if any.
    fn update(column: &mut Column<Self>, input: Option<&ArrayRef>, rows: Rows<'_>, len: usize) -> Result<()>;

    /// Folds partials, given as the columns of [`super::Partial::state_columns`], into slots.
    ///
    /// Partials of many functions look like values, so that this is `update` with another name.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        Self::update(column, Some(only(state)?), rows, len)
    }

    /// Appends another column's slots.
    fn append(column: &mut Column<Self>, other: Column<Self>) {
        column.append(other);
    }

    /// Results of all slots.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type.
    fn lower(column: &Column<Self>) -> Result<ArrayRef>;
}

/// A column of partial aggregates of any kind: the dynamic face of `Column<impl Aggregate>`.
pub trait Partials: Send + Sync {
    /// See [`Aggregate::update`].
    fn update(&mut self, input: Option<&ArrayRef>, rows: Rows<'_>, len: usize) -> Result<()>;

    /// See [`Aggregate::merge`].
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// Appends the slots of a column of the same kind.
    fn append(&mut self, other: Box<dyn Partials>);

    /// A column of this kind without slots.
    fn empty(&self) -> Box<dyn Partials>;

    /// See [`Column::regroup`].
    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Box<dyn Partials>;

    /// See [`Column::answer`].
    fn answer(&self, ranges: &Ranges) -> Box<dyn Partials>;

    /// See [`Aggregate::lower`].
    fn lower(&self) -> Result<ArrayRef>;

    /// For functions lowered from several partials.
    fn as_any(&self) -> &dyn Any;

    /// For [`Partials::append`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<A: Aggregate> Partials for Column<A> {
    fn update(&mut self, input: Option<&ArrayRef>, rows: Rows<'_>, len: usize) -> Result<()> {
        A::update(self, input, rows, len)
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

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Box<dyn Partials> {
        Box::new(self.regroup(slots, groups))
    }

    fn answer(&self, ranges: &Ranges) -> Box<dyn Partials> {
        Box::new(self.answer(ranges))
    }

    fn lower(&self) -> Result<ArrayRef> {
        A::lower(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The only column of a state.
pub(super) fn only(state: &[ArrayRef]) -> Result<&ArrayRef> {
    match state {
        [column] => Ok(column),
        _ => Err(Error::Internal(format!("a partial of one column came with {}", state.len()))),
    }
}

/// The column of a function that needs one.
pub(super) fn required(input: Option<&ArrayRef>) -> Result<&ArrayRef> {
    input.ok_or_else(|| Error::Internal("a function came without its column".into()))
}

/// `array` as `wanted`; itself if it is that already.
pub(super) fn cast_to(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    Ok(if array.data_type() == wanted { array.clone() } else { cast(array, wanted)? })
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
    column.fold(rows.slots, array.nulls(), len, |row| lift(values[row]));
    Ok(())
}
