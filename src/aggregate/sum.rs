//! Sums: exact for integers, decimals and durations, and an error, never a wrap, where a result does not fit.
//!
//! Integers are summed in 128 bits and decimals in 256, so that only a window's true sum decides about overflow, in
//! whatever order rows arrive. Floats are summed together with their rounding errors ([`FloatSum`]). Distributive and
//! commutative; integers and decimals are invertible, floats are not (their error would drift).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Decimal256Array, Float64Array, Int64Array, cast::AsArray, types::*};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};

use super::column::Column;
use super::lift::{Aggregate, cast_to, columns, fold_primitive, fold_runs};
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::rows::{Rows, Run};
use crate::algebra::{ExactSum, FloatSum, Monoid, Total, Twofold, integers, monoid_of, sum_type};
use crate::dictionary::plain;
use crate::types::named;
use crate::{Error, Result};

/// An empty column of sums over values of type `input`, if those can be summed.
pub(super) fn sums(input: &DataType) -> Option<Box<dyn Partials>> {
    let output = sum_type(input)?;
    Some(match output {
        DataType::Float64 => Box::new(Column::new(Floats::new(false))),
        DataType::Decimal128(..) => Box::new(Column::new(Integers::<i256>::new(input, output))),
        _ => Box::new(Column::new(Integers::<i128>::new(input, output))),
    })
}

/// Sums of floats, or of their natural logarithms.
#[derive(Clone)]
pub(super) struct Floats {
    sum: FloatSum,
    logarithms: bool,
}

impl Floats {
    pub(super) fn new(logarithms: bool) -> Self {
        Self { sum: FloatSum { vectors: true }, logarithms }
    }
}

impl Monoid for Floats {
    type State = Twofold;
    monoid_of!(sum);
}

impl Aggregate for Floats {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        // Two loops: a function chosen at run time would be a call per row.
        let double = DataType::Float64;
        match column.monoid().logarithms {
            false => fold_primitive::<Float64Type, _>(column, input, &double, rows, len, Twofold::new),
            true => {
                let logarithm = |value: f64| Twofold::new(value.ln());
                fold_primitive::<Float64Type, _>(column, input, &double, rows, len, logarithm)
            }
        }
    }

    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        let ([input], Self { sum, logarithms }) = (columns(inputs)?, column.monoid().clone());
        if logarithms {
            return Ok(false);
        }
        fold_runs::<Float64Type, _>(column, input, &DataType::Float64, runs, len, &sum)
    }

    /// Both parts; see [`Twofold`].
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [high, low] = columns(state)?;
        let (high, low) = (cast_to(high, &DataType::Float64)?, cast_to(low, &DataType::Float64)?);
        let (high, low) = (high.as_primitive::<Float64Type>(), low.as_primitive::<Float64Type>());
        let sum = |row| Twofold { high: high.value(row), low: low.value(row) };
        column.fold(rows, high.nulls(), len, sum);
        Ok(())
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let (high, low): (Vec<f64>, Vec<f64>) =
            column.states().iter().map(|state| (state.high, state.low)).unzip();
        let part = |half: Vec<f64>| Arc::new(Float64Array::new(half.into(), column.nulls())) as ArrayRef;
        Ok(vec![part(high), part(low)])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let sums: Vec<f64> = column.states().iter().map(|sum| sum.value()).collect();
        Ok(Arc::new(Float64Array::new(sums.into(), column.nulls())))
    }
}

/// Sums of integers or durations, in 128 bits, or of unscaled decimals, in 256.
#[derive(Clone)]
pub(super) struct Integers<T> {
    sum: ExactSum<T>,
    input: DataType,
    output: DataType,
}

impl<T: Total> Integers<T> {
    pub(super) fn new(input: &DataType, output: DataType) -> Self {
        Self { input: input.clone(), output, sum: ExactSum::new() }
    }
}

impl<T: Total> Monoid for Integers<T> {
    type State = T;
    monoid_of!(sum);
}

impl Aggregate for Integers<i128> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive).inverted(true)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        let as_type = physical(&column.monoid().output);
        match as_type {
            DataType::UInt64 => {
                fold_primitive::<UInt64Type, _>(column, input, &as_type, rows, len, i128::from)
            }
            _ => fold_primitive::<Int64Type, _>(column, input, &as_type, rows, len, i128::from),
        }
    }

    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        let ([input], sum) = (columns(inputs)?, column.monoid().sum);
        let as_type = physical(&column.monoid().output);
        match as_type {
            DataType::UInt64 => fold_runs::<UInt64Type, _>(column, input, &as_type, runs, len, &sum),
            _ => fold_runs::<Int64Type, _>(column, input, &as_type, runs, len, &sum),
        }
    }

    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        match state {
            // sum(v >> 32) and sum(v & 0xffffffff): see `Partial::state_columns`.
            [high, low] => {
                let (high, low) = (cast_to(high, &DataType::Int64)?, cast_to(low, &DataType::Int64)?);
                let (high, low) = (high.as_primitive::<Int64Type>(), low.as_primitive::<Int64Type>());
                let nulls = NullBuffer::union(high.nulls(), low.nulls());
                let sum = |row| (i128::from(high.value(row)) << 32) + i128::from(low.value(row));
                column.fold(rows, nulls.as_ref(), len, sum);
                Ok(())
            }
            [sum] => Self::update(column, std::slice::from_ref(sum), rows, len),
            _ => Err(Error::Internal(format!("a sum of one or two columns came with {}", state.len()))),
        }
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let Self { input, output, .. } = column.monoid();
        if !is_halved(input) {
            return Ok(vec![Self::lower(column)?]);
        }
        // A sum too large for any window can still be part of one.
        let high =
            column.states().iter().map(|&sum| i64::try_from(sum >> 32).map_err(|_| overflow(sum, output)));
        let high = Int64Array::new(high.collect::<Result<Vec<_>>>()?.into(), column.nulls());
        let low = column.states().iter().map(|&sum| (sum & 0xffff_ffff) as i64);
        let low = Int64Array::new(low.collect::<Vec<_>>().into(), column.nulls());
        Ok(vec![Arc::new(high), Arc::new(low)])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let (sums, output) = (column.states().iter().copied(), &column.monoid().output);
        integers(sums, column.nulls(), output, |sum| overflow(sum, output))
    }
}

impl Aggregate for Integers<i256> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive).inverted(true)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        // The unscaled values of any precision are summed as they stand.
        let as_type = plain(input.data_type()).clone();
        fold_primitive::<Decimal128Type, _>(column, input, &as_type, rows, len, i256::from_i128)
    }

    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [sum] = columns(state)?;
        match plain(sum.data_type()) {
            wide @ DataType::Decimal256(..) => {
                let wide = wide.clone();
                fold_primitive::<Decimal256Type, _>(column, sum, &wide, rows, len, |sum| sum)
            }
            _ => Self::update(column, state, rows, len),
        }
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let DataType::Decimal128(precision, scale) = column.monoid().input else {
            return Err(Error::Internal(format!("{} is not decimal128", column.monoid().input)));
        };
        if precision <= HELD_DIGITS {
            return Ok(vec![Self::lower(column)?]);
        }
        // A sum too large for any window can still be part of one.
        let sums = Decimal256Array::new(column.states().to_vec().into(), column.nulls());
        Ok(vec![Arc::new(sums.with_precision_and_scale(DECIMAL256_MAX_PRECISION, scale)?)])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let output = &column.monoid().output;
        // No sum can be this large.
        let sums = column.states().iter().map(|sum| sum.to_i128().unwrap_or(i128::MAX));
        integers(sums, column.nulls(), output, |_| {
            Error::Overflow(format!("the sum of a window does not fit {}", named(output)))
        })
    }
}

/// Most digits of decimals whose sums a decimal128 holds, for up to 10^10 rows.
const HELD_DIGITS: u8 = 28;

/// Whether sums of a type travel as two halves, so that an engine without 128-bit integers can sum them without
/// overflow.
pub(super) fn is_halved(input: &DataType) -> bool {
    matches!(input, DataType::Int64 | DataType::UInt64 | DataType::Duration(_))
}

/// The type as which integers and durations are read, for sums of a type.
fn physical(output: &DataType) -> DataType {
    if *output == DataType::UInt64 { DataType::UInt64 } else { DataType::Int64 }
}

fn overflow(sum: i128, output: &DataType) -> Error {
    Error::Overflow(format!(
        "the sum of a window is {sum}, which does not fit {output}",
        output = named(output)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_true_sum_of_a_window_overflows() {
        let values: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![i64::MAX, 5, -6]));
        let mut column = Column::new(Integers::<i128>::new(&DataType::Int64, DataType::Int64));
        let rows = Rows::all(&[0, 0, 0], &[0, 0, 0]);
        Integers::<i128>::update(&mut column, std::slice::from_ref(&values), rows, 1).unwrap();
        assert_eq!(
            Integers::<i128>::lower(&column).unwrap().as_primitive::<Int64Type>().value(0),
            i64::MAX - 1
        );
        let rows = Rows::all(&[0], &[0]);
        Integers::<i128>::update(&mut column, &[values.slice(1, 1)], rows, 1).unwrap();
        assert!(matches!(Integers::<i128>::lower(&column), Err(Error::Overflow(_))));
    }
}
