//! Sums: exact for integers, decimals and durations, and an error, never a wrap, where a result does not fit.
//!
//! Integers are summed in 128 bits, so that only a window's true sum decides about overflow, in whatever order rows
//! came. Distributive and commutative; integers are invertible, floats are not (their error would drift).

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, cast::AsArray, types::*,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

use super::column::{Column, Monoid};
use super::lift::{Aggregate, LONG, Partials, Rows, Run, cast_to, columns, fold_primitive, fold_runs};
use super::properties::{Kind, Properties};
use crate::dictionary::plain;
use crate::kernels::simd;
use crate::{Error, Result};

/// An empty column of sums over values of type `input`, if those can be summed.
///
/// With `inverts` false they are answered as sums of floats are, for comparison (Traub et al. 2019, §6.3.2).
pub(super) fn sums(input: &DataType, inverts: bool) -> Option<Box<dyn Partials>> {
    let output = sum_type(input)?;
    Some(match output {
        DataType::Float64 => Box::new(Column::new(FloatSum)),
        _ => Box::new(Column::new(ExactSum::new(input, output, inverts))),
    })
}

/// The type of a sum, as in Spark; unsigned integers stay unsigned.
pub(super) fn sum_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        _ if input.is_signed_integer() => DataType::Int64,
        _ if input.is_unsigned_integer() => DataType::UInt64,
        _ if input.is_floating() => DataType::Float64,
        DataType::Decimal128(precision, scale) => DataType::Decimal128((precision + 10).min(38), *scale),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// Sum of floats, in float64.
#[derive(Clone)]
pub struct FloatSum;

impl Monoid for FloatSum {
    type State = f64;

    fn identity(&self) -> f64 {
        // The one zero that leaves a sum of negative zeros negative.
        -0.0
    }

    #[inline]
    fn combine(&self, earlier: f64, later: f64) -> f64 {
        earlier + later
    }
}

impl Aggregate for FloatSum {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        fold_primitive::<Float64Type, _>(
            column,
            &columns::<1>(inputs)?[0],
            &DataType::Float64,
            rows,
            len,
            |value| value,
        )
    }

    fn update_runs(
        column: &mut Column<Self>,
        inputs: &[ArrayRef],
        runs: &[Run],
        _: &[i64],
        len: usize,
    ) -> Result<bool> {
        let [input] = columns(inputs)?;
        // Floats have no sum that they cannot hold.
        let sum = |values: &[f64]| simd::reduce_sum(simd::Column::from(values)).unwrap_or(f64::NAN);
        fold_runs::<Float64Type, _>(column, input, &DataType::Float64, runs, len, (|value| value, LONG, sum))
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::new(column.states().to_vec().into(), column.nulls())))
    }
}

/// Sum of integers, unscaled decimals or durations, in 128 bits.
#[derive(Clone)]
pub struct ExactSum {
    output: DataType,
    /// Whether a sum travels as two halves, as that of 64-bit integers does.
    halves: bool,
    /// Whether windows may be answered by the inverse.
    inverts: bool,
    /// Whether values are of 64 bits, so that no sum of them leaves 128.
    bounded: bool,
}

/// A decimal sum that left even 128 bits; it absorbs what follows.
const OVERFLOWN: i128 = i128::MIN;

impl ExactSum {
    pub(super) fn new(input: &DataType, output: DataType, inverts: bool) -> Self {
        let bounded = !matches!(output, DataType::Decimal128(..));
        Self { halves: matches!(input, DataType::Int64 | DataType::UInt64), output, inverts, bounded }
    }
}

impl Monoid for ExactSum {
    type State = i128;

    fn identity(&self) -> i128 {
        0
    }

    #[inline]
    fn combine(&self, earlier: i128, later: i128) -> i128 {
        if self.bounded {
            return earlier.wrapping_add(later);
        }
        if earlier == OVERFLOWN || later == OVERFLOWN {
            return OVERFLOWN;
        }
        earlier.checked_add(later).unwrap_or(OVERFLOWN)
    }

    fn invert(&self) -> Option<fn(i128, i128) -> i128> {
        // Decimals may leave 128 bits and cannot be taken back out.
        match self.bounded && self.inverts {
            true => Some(|whole, part| whole - part),
            false => None,
        }
    }
}

impl Aggregate for ExactSum {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive).inverted(self.invert().is_some())
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        let output = column.monoid().output.clone();
        match &output {
            DataType::UInt64 => {
                fold_primitive::<UInt64Type, _>(column, input, &output, rows, len, i128::from)
            }
            DataType::Decimal128(..) => {
                // The unscaled values of any precision are summed as they stand.
                let physical = plain(input.data_type()).clone();
                fold_primitive::<Decimal128Type, _>(column, input, &physical, rows, len, |value| value)
            }
            _ => fold_primitive::<Int64Type, _>(column, input, &DataType::Int64, rows, len, i128::from),
        }
    }

    fn update_runs(
        column: &mut Column<Self>,
        inputs: &[ArrayRef],
        runs: &[Run],
        _: &[i64],
        len: usize,
    ) -> Result<bool> {
        let [input] = columns(inputs)?;
        match column.monoid().output.clone() {
            DataType::Decimal128(..) => Ok(false),
            output @ DataType::UInt64 => {
                let sum = |values: &[u64]| match values.len() < LONG {
                    true => values.iter().map(|&value| i128::from(value)).sum(),
                    false => halves(values.iter().copied()),
                };
                fold_runs::<UInt64Type, _>(column, input, &output, runs, len, (i128::from, 2, sum))
            }
            _ => {
                // Values shifted to be positive, and the shifts taken off their sum.
                let shifted = |value: &i64| *value as u64 ^ (1 << 63);
                let sum = |values: &[i64]| match values.len() < LONG {
                    true => values.iter().map(|&value| i128::from(value)).sum(),
                    false => halves(values.iter().map(shifted)) - ((values.len() as i128) << 63),
                };
                fold_runs::<Int64Type, _>(column, input, &DataType::Int64, runs, len, (i128::from, 2, sum))
            }
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
        let output = &column.monoid().output;
        if !column.monoid().halves {
            return Ok(vec![Self::lower(column)?]);
        }
        // A sum that no window may have can still be part of one.
        let high =
            column.states().iter().map(|&sum| i64::try_from(sum >> 32).map_err(|_| overflow(sum, output)));
        let high = Int64Array::new(high.collect::<Result<Vec<_>>>()?.into(), column.nulls());
        let low = column.states().iter().map(|&sum| (sum & 0xffff_ffff) as i64);
        let low = Int64Array::new(low.collect::<Vec<_>>().into(), column.nulls());
        Ok(vec![Arc::new(high), Arc::new(low)])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let (sums, nulls, output) = (column.states(), column.nulls(), &column.monoid().output);
        Ok(match output {
            DataType::Int64 => fitting::<Int64Type>(sums, nulls, output)?,
            DataType::UInt64 => fitting::<UInt64Type>(sums, nulls, output)?,
            DataType::Duration(TimeUnit::Second) => fitting::<DurationSecondType>(sums, nulls, output)?,
            DataType::Duration(TimeUnit::Millisecond) => {
                fitting::<DurationMillisecondType>(sums, nulls, output)?
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                fitting::<DurationMicrosecondType>(sums, nulls, output)?
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                fitting::<DurationNanosecondType>(sums, nulls, output)?
            }
            DataType::Decimal128(precision, scale) => {
                let bound = 10i128.pow(u32::from(*precision));
                if let Some(sum) = sums.iter().find(|&&sum| sum == OVERFLOWN || sum.abs() >= bound) {
                    return Err(overflow(*sum, output));
                }
                let array = Decimal128Array::new(sums.to_vec().into(), nulls);
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            other => return Err(Error::Internal(format!("no exact sum has type {other}"))),
        })
    }
}

/// The sum of fewer than 2^32 values, as the sums of their upper and lower halves: what a vector can add up.
fn halves(values: impl Iterator<Item = u64>) -> i128 {
    let (high, low) =
        values.fold((0u64, 0u64), |(high, low), value| (high + (value >> 32), low + (value & 0xffff_ffff)));
    (i128::from(high) << 32) + i128::from(low)
}

fn fitting<T: ArrowPrimitiveType>(
    sums: &[i128],
    nulls: Option<NullBuffer>,
    output: &DataType,
) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128>,
{
    let values: Result<Vec<T::Native>> =
        sums.iter().map(|&sum| T::Native::try_from(sum).map_err(|_| overflow(sum, output))).collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values?.into(), nulls)))
}

fn overflow(sum: i128, output: &DataType) -> Error {
    match sum {
        OVERFLOWN => Error::Overflow(format!("the sum of a window does not fit {output}")),
        _ => Error::Overflow(format!("the sum of a window is {sum}, which does not fit {output}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_true_sum_of_a_window_overflows() {
        let values: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![i64::MAX, 5, -6]));
        let mut column = Column::new(ExactSum::new(&DataType::Int64, DataType::Int64, true));
        let rows = Rows::all(&[0, 0, 0], &[0, 0, 0]);
        ExactSum::update(&mut column, std::slice::from_ref(&values), rows, 1).unwrap();
        assert_eq!(ExactSum::lower(&column).unwrap().as_primitive::<Int64Type>().value(0), i64::MAX - 1);
        let rows = Rows::all(&[0], &[0]);
        ExactSum::update(&mut column, &[values.slice(1, 1)], rows, 1).unwrap();
        assert!(matches!(ExactSum::lower(&column), Err(Error::Overflow(_))));
    }
}
