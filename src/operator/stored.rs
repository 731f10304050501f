//! What slices store of a query, bound to columns: partials, which rows they are of, and what is lowered from them.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, cast::AsArray, new_empty_array, types::Int64Type,
};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};

use crate::aggregate::{Function, Input, Partial, Partials, Rows, Term};
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
    /// Errors of `read`.
    pub(super) fn input(&self, mut read: impl FnMut(usize) -> Result<ArrayRef>) -> Result<Input> {
        let columns = self.inputs.iter().map(|&position| read(position)).collect::<Result<_>>()?;
        let filter = self.filter.map(&mut read).transpose()?;
        let nothing = |filter: &ArrayRef| BooleanArray::new_null(filter.len());
        let filter =
            filter.map(|filter| filter.as_boolean_opt().cloned().unwrap_or_else(|| nothing(&filter)));
        let taken = match self.weight {
            None => filter,
            Some((column, sign)) => Some(sign.taken(&read(column)?, filter.as_ref())?),
        };
        Ok(Input { columns, taken })
    }
}

impl Stored {
    /// Has each of the `rows` rows of an input stand for `weight` rows.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn weigh(&self, input: &mut Input, rows: usize, weight: f64) -> Result<()> {
        if let Partial::Term(term) = self.partial {
            input.columns = vec![term.of(input.columns.first(), rows, weight)?];
        }
        Ok(())
    }

    /// Columns that it reads of no rows.
    pub(super) fn nothing(&self, input: &Schema) -> Vec<ArrayRef> {
        match self.partial {
            Partial::Term(_) => vec![new_empty_array(&DataType::Float64)],
            _ => self.inputs.iter().map(|&at| new_empty_array(input.field(at).data_type())).collect(),
        }
    }
}

/// The partials of slots each of which was kept with a probability of 1/2, where all partials are sums of a sample.
///
/// # Errors
/// `Internal` for other partials.
pub(super) fn doubled(stored: &[Stored], partials: &[Box<dyn Partials>]) -> Result<Vec<Box<dyn Partials>>> {
    let sums = partials.iter().map(|partials| partials.lower()).collect::<Result<Vec<ArrayRef>>>()?;
    let sums: Vec<&Float64Array> = sums.iter().filter_map(|sums| sums.as_primitive_opt()).collect();
    let other = || Error::Internal("slices of a sample hold sums".into());
    let one = |at: usize| -> Result<Box<dyn Partials>> {
        let (own, Partial::Term(term)) = (&stored[at], &stored[at].partial) else { return Err(other()) };
        let sum = |at: usize, slot: usize| if sums[at].is_valid(slot) { sums[at].value(slot) } else { 0.0 };
        let place = |term: Term| {
            let wanted = Stored { partial: Partial::Term(term), ..own.clone() };
            stored.iter().position(|other| *other == wanted).ok_or_else(other)
        };
        let others = match term.others() {
            None => None,
            Some([a, b]) => Some([place(a)?, place(b)?]),
        };
        let slots = sums[at].len();
        let value =
            |slot: usize| Term::doubled(sum(at, slot), others.map(|others| others.map(|at| sum(at, slot))));
        let values: ScalarBuffer<f64> = (0..slots).map(value).collect::<Vec<f64>>().into();
        let values: ArrayRef = Arc::new(Float64Array::new(values, sums[at].nulls().cloned()));
        let (own, times): (Vec<u32>, Vec<i64>) = ((0..slots as u32).collect(), vec![0; slots]);
        let mut doubled = partials[at].empty();
        doubled.update(&[values], Rows::all(&own, &times), slots)?;
        Ok(doubled)
    };
    match sums.len() == stored.len() {
        true => (0..stored.len()).map(one).collect(),
        false => Err(other()),
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
