//! From Arrow columns to columns of partials and back.

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, cast::AsArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::column::Column;
use super::partials::Upkeep;
use super::properties::Properties;
use super::rows::{Rows, Run};
use crate::algebra::{Lift, Monoid};
use crate::{Error, Result};

/// A [`Monoid`] over Arrow columns: lift and lower.
pub trait Aggregate: Monoid<State: Send + Sync> + Send + Sync + 'static {
    /// The function's properties, which the property tests check.
    fn properties(&self) -> Properties;

    /// Lifts rows and folds them into their slots, growing to `len` slots. `inputs` are the function's columns.
    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// Folds partials, given as the columns of [`super::Partial::state_columns`], into slots.
    ///
    /// Defaults to `update`, since partials of many functions look like values.
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

    /// Results of all slots.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type.
    fn lower(column: &Column<Self>) -> Result<ArrayRef>;

    /// As [`Aggregate::update`] for rows in runs, if that is any faster; returns whether it was done.
    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        let _ = (column, inputs, runs, len);
        Ok(false)
    }

    /// Whether states refer to no context, so that states of one column can be written to another.
    fn is_plain(&self) -> bool {
        true
    }

    /// This function without the context of any state.
    fn emptied(&self) -> Self {
        self.clone()
    }

    /// Takes over another's context, which `states` refer to.
    fn adopt(&mut self, other: Self, states: &mut [Self::State]) {
        let _ = (other, states);
    }

    /// Compacts the context, given all existing `states`.
    ///
    /// # Errors
    /// Errors of Arrow.
    fn keep_up(&mut self, states: &mut [Self::State], what: Upkeep) -> Result<()> {
        let _ = (states, what);
        Ok(())
    }

    /// Bytes of the context.
    fn bytes(&self) -> usize {
        0
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
    Ok(match wanted {
        wanted if array.data_type() == wanted => array.clone(),
        // Values of a column of nulls are nulls.
        DataType::Null => new_null_array(wanted, array.len()),
        _ => cast(array, wanted)?,
    })
}

/// Folds values that are not null, read as `physical`, into their slots.
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

/// Folds runs of values, read as `physical` and reduced by `by`, into their slots; not if some are null.
pub(super) fn fold_runs<T: ArrowPrimitiveType, M: Monoid>(
    column: &mut Column<M>,
    input: &ArrayRef,
    physical: &DataType,
    runs: &[Run],
    len: usize,
    by: &impl Lift<T::Native, State = M::State>,
) -> Result<bool> {
    if input.is_nullable() {
        return Ok(false);
    }
    let array = cast_to(input, physical)?;
    let values = array.as_primitive::<T>().values();
    let (monoid, states) = column.slots_of_runs(runs, len);
    for run in runs {
        // The rows of a slot are in no particular order, so positions say nothing about time.
        monoid.absorb(&mut states[run.slot as usize], by.reduce(0, &values[run.from..run.to]));
    }
    Ok(true)
}
