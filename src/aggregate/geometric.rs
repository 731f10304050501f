//! Geometric mean: e to the mean of the logarithms. Algebraic and commutative; its count is that of `count`.
//!
//! It is 0 of values with a 0 among them, and NaN of any with a negative number, whose roots are not real.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, types::Float64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::count::Count;
use super::lift::{Aggregate, Partials, Rows, columns, fold_primitive};
use super::properties::{Kind, Properties};
use crate::{Error, Result};

/// Sum of natural logarithms.
#[derive(Clone)]
pub struct LogSum;

impl Monoid for LogSum {
    type State = f64;

    fn identity(&self) -> f64 {
        0.0
    }

    #[inline]
    fn combine(&self, earlier: f64, later: f64) -> f64 {
        earlier + later
    }
}

impl Aggregate for LogSum {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        fold_primitive::<Float64Type, _>(column, input, &DataType::Float64, rows, len, f64::ln)
    }

    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [sums] = columns(state)?;
        fold_primitive::<Float64Type, _>(column, sums, &DataType::Float64, rows, len, |sum| sum)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::new(column.states().to_vec().into(), column.nulls())))
    }
}

/// Geometric means of all slots from their sums of logarithms and counts of values.
pub(super) fn geometric_mean(logs: &dyn Partials, counts: &dyn Partials) -> Result<ArrayRef> {
    let mismatch = || Error::Internal("a geometric mean is made of logarithms and a count".into());
    let logs = logs.as_any().downcast_ref::<Column<LogSum>>().ok_or_else(mismatch)?.states();
    let counts = counts.as_any().downcast_ref::<Column<Count>>().ok_or_else(mismatch)?.states();
    let nulls = NullBuffer::from_iter(counts.iter().map(|&count| count > 0));
    let means: Vec<f64> = logs.iter().zip(counts).map(|(&sum, &count)| (sum / count as f64).exp()).collect();
    Ok(Arc::new(Float64Array::new(means.into(), Some(nulls))))
}
