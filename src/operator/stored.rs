//! What slices store of a query, bound to columns: partials, which rows they are of, and what is lowered from them.

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray, types::Int64Type};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::aggregate::{Function, Input, Partial, Partials};
use crate::{Error, Result};

/// A partial aggregate that slices store, bound to its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its kind.
    pub partial: Partial,
    /// Positions of the columns it reads.
    pub inputs: Vec<usize>,
    /// Position of the boolean column that says which rows it takes.
    pub filter: Option<usize>,
    /// Position of the column of weights, and that of the rows that it takes.
    pub weight: Option<(usize, Sign)>,
}

/// An aggregate bound to its column.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) function: Function,
    /// Which of the plan's partials it is lowered from.
    pub(super) partials: Vec<usize>,
    pub(super) inputs: Vec<DataType>,
}

impl Planned {
    /// The results, from columns of its partials.
    pub(super) fn lower(&self, partials: &[&dyn Partials], time: &DataType) -> Result<ArrayRef> {
        self.function.lower(partials, &self.inputs, time).map_err(|error| match error {
            Error::Overflow(why) => Error::Overflow(format!("{}: {why}", self.name)),
            other => other,
        })
    }
}

/// The weight of the rows that a partial is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// 1.
    Plus,
    /// -1.
    Minus,
}

impl Stored {
    /// Positions of all columns that it reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = usize> + '_ {
        let weight = self.weight.map(|(column, _)| column);
        self.inputs.iter().copied().chain(self.filter).chain(weight)
    }

    /// What it reads, of columns as `read` reads them.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn input(&self, mut read: impl FnMut(usize) -> Result<ArrayRef>) -> Result<Input> {
        let columns = self.inputs.iter().map(|&position| read(position)).collect::<Result<_>>()?;
        let filter = self.filter.map(&mut read).transpose()?;
        let filter = filter.map(|filter| filter.as_boolean().clone());
        let taken = match self.weight {
            None => filter,
            Some((column, sign)) => Some(sign.taken(&read(column)?, filter.as_ref())?),
        };
        Ok(Input { columns, taken })
    }
}

impl Sign {
    /// The rows of this weight that a filter takes.
    pub(super) fn taken(self, weights: &ArrayRef, filter: Option<&BooleanArray>) -> Result<BooleanArray> {
        let weights = cast(weights, &DataType::Int64)?;
        let (weights, own) = (weights.as_primitive::<Int64Type>(), if self == Sign::Plus { 1 } else { -1 });
        let passes = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let taken = |row: usize| weights.is_valid(row) && weights.value(row) == own && passes(row);
        Ok(BooleanBuffer::collect_bool(weights.len(), taken).into())
    }
}
