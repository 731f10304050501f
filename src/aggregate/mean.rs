//! Mean: the sum over the count, rounded once. Algebraic; its partials are those of sum and count.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, PrimitiveArray, types::*};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};

use super::column::Column;
use super::count::Count;
use super::lift::Partials;
use super::sum::{ExactSum, FloatSum};
use crate::{Error, Result};

/// The type of a mean, as in Spark, if values of type `input` have one.
pub(super) fn mean_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        _ if input.is_integer() || input.is_floating() => DataType::Float64,
        DataType::Decimal128(p, s) => DataType::Decimal128((p + 4).min(38), (s + 4).min(38)),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// Means of all slots from their sums and counts of values.
pub(super) fn mean(sums: &dyn Partials, counts: &dyn Partials, input: &DataType) -> Result<ArrayRef> {
    let mismatch = || Error::Internal("a mean is made of a sum and a count".into());
    let counts = counts.as_any().downcast_ref::<Column<Count>>().ok_or_else(mismatch)?.states();
    let nulls = Some(NullBuffer::from_iter(counts.iter().map(|&count| count > 0)));
    if let Some(sums) = sums.as_any().downcast_ref::<Column<FloatSum>>() {
        let means: Vec<f64> =
            sums.states().iter().zip(counts).map(|(&sum, &count)| sum / count as f64).collect();
        return Ok(Arc::new(Float64Array::new(means.into(), nulls)));
    }
    let sums = sums.as_any().downcast_ref::<Column<ExactSum>>().ok_or_else(mismatch)?.states();
    let output = mean_type(input).ok_or_else(mismatch)?;
    Ok(match (&output, input) {
        (DataType::Float64, _) => {
            let means: Vec<f64> =
                sums.iter().zip(counts).map(|(&sum, &count)| sum as f64 / count as f64).collect();
            Arc::new(Float64Array::new(means.into(), nulls))
        }
        (DataType::Decimal128(precision, scale), DataType::Decimal128(_, given)) => {
            let quotients = quotients(sums, counts, 10i128.pow((scale - given).unsigned_abs().into()));
            let bound = 10i128.pow(u32::from(*precision));
            let means: Option<Vec<i128>> =
                quotients.map(|mean| mean.to_i128().filter(|mean| mean.abs() < bound)).collect();
            let means = means.ok_or_else(|| {
                Error::Overflow(format!("the mean of a window of {input} does not fit {output}"))
            })?;
            Arc::new(Decimal128Array::new(means.into(), nulls).with_precision_and_scale(*precision, *scale)?)
        }
        (DataType::Duration(unit), _) => {
            // A mean lies between the least and the greatest value, so that it fits.
            let means: Vec<i64> = quotients(sums, counts, 1).map(|mean| mean.as_i128() as i64).collect();
            match unit {
                TimeUnit::Second => Arc::new(PrimitiveArray::<DurationSecondType>::new(means.into(), nulls)),
                TimeUnit::Millisecond => {
                    Arc::new(PrimitiveArray::<DurationMillisecondType>::new(means.into(), nulls))
                }
                TimeUnit::Microsecond => {
                    Arc::new(PrimitiveArray::<DurationMicrosecondType>::new(means.into(), nulls))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(PrimitiveArray::<DurationNanosecondType>::new(means.into(), nulls))
                }
            }
        }
        _ => return Err(mismatch()),
    })
}

/// `sum · unit / count`, halves rounded away from zero (Spark's HALF_UP); 0 where nothing was counted.
fn quotients(sums: &[i128], counts: &[i64], unit: i128) -> impl Iterator<Item = i256> {
    sums.iter().zip(counts).map(move |(&sum, &count)| {
        let (sum, count) = (i256::from_i128(sum), i256::from_i128(count.max(1).into()));
        let scaled = sum.wrapping_mul(i256::from_i128(unit));
        let (quotient, rest) = (scaled.wrapping_div(count), scaled.wrapping_rem(count));
        let half_reached = rest.wrapping_abs().wrapping_add(rest.wrapping_abs()) >= count;
        let away = if scaled.is_negative() { i256::MINUS_ONE } else { i256::ONE };
        if half_reached { quotient.wrapping_add(away) } else { quotient }
    })
}
