//! Rows of weight -1, which retract rows of weight 1: what retracting queries emit, other queries read.
//!
//! Slices store each partial twice: of the rows of weight 1, and of those of weight -1. Both are sums that only grow, so
//! nothing else needs to know of weights: not slices, trees, snapshots or shuffles. What a window's rows amount to is the
//! difference of the two, and is computed once, when the window is emitted. So values that are retracted are held as long as
//! those that are not.

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};

use super::schema::find;
use super::stored::{Planned, Sign, Stored};
use crate::aggregate::{Function, Partial, Partials};
use crate::poll::never;
use crate::types::named;
use crate::window::Window;
use crate::{Error, Result};

/// How the partials of a query belong together whose rows have weights: the first half are those of rows of weight 1, the
/// second those of rows of weight -1, in the same order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights {
    /// Position of the column of weights.
    pub(super) column: usize,
    /// Which partial counts rows.
    rows: usize,
    /// For each partial, which one counts its values; `None` for counts.
    values: Vec<Option<usize>>,
}

/// What is left of windows.
pub(super) struct Left {
    pub(super) partials: Vec<Box<dyn Partials>>,
    /// How many rows each has.
    pub(super) rows: Vec<i64>,
}

impl Weights {
    /// Binds the column of weights, and doubles the partials.
    ///
    /// # Errors
    /// `UnknownColumn`; `InvalidType` unless it is of signed integers; `InvalidValue` for windows that rows determine, and for
    /// functions whose results do not tell what remains without a row.
    pub(super) fn bind(
        name: &str,
        input: &Schema,
        windows: &[(String, Window)],
        aggregates: &[Planned],
        partials: &mut Vec<Stored>,
    ) -> Result<Self> {
        let column = weight_column("weight", name, input)?;
        if let Some((window, _)) = windows.iter().find(|(_, window)| !window.traits().is_fixed()) {
            return Err(Error::InvalidValue(format!(
                "windows: a row of weight -1 would change where {window} begins or ends; with weight='{name}', allowed \
                 are tumbling and sliding windows by time, bands, landmark windows, the global window, and those of a \
                 windowkit.ContextFree"
            )));
        }
        let types = |stored: &Stored| -> Vec<DataType> {
            stored.inputs.iter().map(|&at| input.field(at).data_type().clone()).collect()
        };
        for aggregate in aggregates {
            for &at in &aggregate.partials {
                let stored = &partials[at];
                let is_own = matches!(aggregate.function, Function::User(..));
                if !stored.partial.column(&types(stored), never)?.subtracts()
                    || is_own && stored.inputs.len() > 1
                {
                    return Err(Error::InvalidValue(format!(
                        "aggs: {} does not support rows of weight -1, which retract others; with weight='{name}', allowed are count, sum, mean, \
                         geometric_mean, variances, standard deviations, median, quantile, mode, top_k, frequent, count_distinct, \
                         collect_set, and windowkit.aggregate(..., commutative=True, invert=...) of one column",
                        aggregate.name
                    )));
                }
            }
        }
        let place = |partials: &mut Vec<Stored>, stored: Stored| {
            partials.iter().position(|known| *known == stored).unwrap_or_else(|| {
                partials.push(stored);
                partials.len() - 1
            })
        };
        let count = Stored { partial: Partial::CountAll, inputs: Vec::new(), filter: None, weight: None };
        let rows = place(partials, count);
        let mut values = Vec::new();
        for at in 0..partials.len() {
            let Stored { partial, inputs, filter, .. } = partials[at].clone();
            let is_count = matches!(partial, Partial::CountAll | Partial::Count);
            let count = Stored { partial: Partial::Count, inputs, filter, weight: None };
            values.push((!is_count).then(|| place(partials, count)));
        }
        values.resize(partials.len(), None);
        let minus =
            partials.iter().map(|stored| Stored { weight: Some((column, Sign::Minus)), ..stored.clone() });
        let minus: Vec<Stored> = minus.collect();
        partials.iter_mut().for_each(|stored| stored.weight = Some((column, Sign::Plus)));
        partials.extend(minus);
        Ok(Self { column, rows, values })
    }

    /// The partials of windows without what was retracted, and how many rows each is of.
    ///
    /// # Errors
    /// `InvalidValue` if something is retracted that is not there; what a user-defined function raises.
    pub(super) fn difference(&self, answers: &[&dyn Partials]) -> Result<Left> {
        let (plus, minus) = answers.split_at(self.values.len());
        let counts = |at: usize| -> Result<Vec<i64>> {
            let (plus, minus) = (plus[at].lower()?, minus[at].lower()?);
            let (plus, minus) = (plus.as_primitive::<Int64Type>(), minus.as_primitive::<Int64Type>());
            let left: Vec<i64> =
                plus.values().iter().zip(minus.values()).map(|(plus, minus)| plus - minus).collect();
            match left.iter().any(|&left| left < 0) {
                false => Ok(left),
                true => Err(Error::InvalidValue(
                    "weight: a window has more rows, or values, of weight -1 than of weight 1; each retracts a row that \
                     came before, or comes in the same call, with the same key, time and values"
                        .into(),
                )),
            }
        };
        let rest = self.values.iter().enumerate().map(|(at, values)| {
            let left = counts(values.unwrap_or(at))?;
            plus[at].without(minus[at], &left.iter().map(|&left| left > 0).collect::<Vec<bool>>())
        });
        Ok(Left { partials: rest.collect::<Result<_>>()?, rows: counts(self.rows)? })
    }

    /// Rejects rows of other weights; `before` rows come before those of the batch.
    ///
    /// # Errors
    /// `InvalidValue`, with the row.
    pub(super) fn check(&self, batch: &RecordBatch, before: usize) -> Result<()> {
        let name = batch.schema_ref().field(self.column).name();
        weights_of("weight", name, batch.column(self.column), before).map(|_| ())
    }
}

/// The position of the column of weights that an argument names.
///
/// # Errors
/// `UnknownColumn`; `InvalidType` unless it is of signed integers.
pub(super) fn weight_column(argument: &str, name: &str, input: &Schema) -> Result<usize> {
    let column = find(input, argument, name)?;
    let kind = input.field(column).data_type();
    if !kind.is_signed_integer() && *kind != DataType::Null {
        return Err(Error::InvalidType(format!(
            "{argument}: column '{name}' is {kind}; allowed are columns of signed integers, each 1 or -1",
            kind = named(kind)
        )));
    }
    Ok(column)
}

/// The weights in a column, whose rows come after `before` others.
///
/// # Errors
/// `InvalidValue` for others than 1 and -1, with the row.
pub(super) fn weights_of(
    argument: &str,
    name: &str,
    column: &ArrayRef,
    before: usize,
) -> Result<ScalarBuffer<i64>> {
    let weights = cast(column, &DataType::Int64)?;
    let weights: &Int64Array = weights.as_primitive();
    let is_allowed = |weight: Option<i64>| matches!(weight, Some(1 | -1));
    let Some(row) = weights.iter().position(|weight| !is_allowed(weight)) else {
        return Ok(weights.values().clone());
    };
    let given = if weights.is_null(row) { "null".to_owned() } else { weights.value(row).to_string() };
    Err(Error::InvalidValue(format!(
        "{argument}: row {} has {given} in column '{name}'; allowed are 1, and -1 for a row that retracts another",
        before + row,
    )))
}
