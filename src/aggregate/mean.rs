//! Means: the sum over the count, rounded once, and e to the mean of the logarithms. Algebraic; their partials are those
//! of sums and count.
//!
//! A geometric mean is 0 if a value is 0, and NaN if a value is negative, as the root is not real.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::column::Column;
use super::partials::Partials;
use super::sum::{Floats, Integers};
use crate::algebra::{Count, Total, divided, integers, mean_type, mean_unit};
use crate::types::named;
use crate::{Error, Result};

/// Means of all slots from their sums and counts of values.
pub(super) fn mean(sums: &dyn Partials, counts: &dyn Partials, input: &DataType) -> Result<ArrayRef> {
    if sums.downcast_ref::<Column<Floats>>().is_some() {
        return float_means(sums, counts, |mean| mean);
    }
    match sums.downcast_ref::<Column<Integers<i256>>>() {
        Some(sums) => integer_means(sums.states(), counts, input),
        None => {
            let sums = sums.downcast_ref::<Column<Integers<i128>>>().ok_or_else(mismatch)?;
            integer_means(sums.states(), counts, input)
        }
    }
}

fn integer_means<T: Total>(sums: &[T], counts: &dyn Partials, input: &DataType) -> Result<ArrayRef> {
    let (counts, nulls) = counted(counts)?;
    let output = mean_type(input).ok_or_else(mismatch)?;
    // No mean can be this large.
    const NONE: i128 = i128::MAX;
    if output == DataType::Float64 {
        let sums = sums.iter().map(|sum| sum.narrow().unwrap_or(NONE));
        let means: Vec<f64> = sums.zip(counts).map(|(sum, &count)| sum as f64 / count as f64).collect();
        return Ok(Arc::new(Float64Array::new(means.into(), nulls)));
    }
    let unit = mean_unit(input, &output);
    let means = sums.iter().zip(counts).map(|(&sum, &count)| divided(sum, unit, count).unwrap_or(NONE));
    integers(means, nulls, &output, |_| {
        Error::Overflow(format!(
            "the mean of a window of {input} does not fit {output}",
            input = named(input),
            output = named(&output)
        ))
    })
}

/// Geometric means of all slots from their sums of logarithms and counts of values.
pub(super) fn geometric_mean(logs: &dyn Partials, counts: &dyn Partials) -> Result<ArrayRef> {
    float_means(logs, counts, f64::exp)
}

fn float_means(sums: &dyn Partials, counts: &dyn Partials, of: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let sums = sums.downcast_ref::<Column<Floats>>().ok_or_else(mismatch)?.states();
    let (counts, nulls) = counted(counts)?;
    let means: Vec<f64> =
        sums.iter().zip(counts).map(|(sum, &count)| of(sum.value() / count as f64)).collect();
    Ok(Arc::new(Float64Array::new(means.into(), nulls)))
}

/// Counts, and which of them are not 0.
fn counted(counts: &dyn Partials) -> Result<(&[i64], Option<NullBuffer>)> {
    let counts = counts.downcast_ref::<Column<Count>>().ok_or_else(mismatch)?.states();
    Ok((counts, Some(NullBuffer::from_iter(counts.iter().map(|&count| count > 0)))))
}

fn mismatch() -> Error {
    Error::Internal("a mean is made of a sum and a count".into())
}
