//! Count, mean and sum of squared deviations: what variances are lowered from. Algebraic and commutative.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array,
    cast::AsArray,
    types::{Float64Type, Int64Type},
};
use arrow_schema::DataType;

use super::column::Column;
use super::lift::{Aggregate, cast_to, columns, fold_primitive};
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::rows::Rows;
use crate::algebra::Variance;
use crate::simd::Moments;
use crate::{Error, Result};

impl Aggregate for Variance {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        fold_primitive::<Float64Type, _>(column, input, &DataType::Float64, rows, len, Moments::of)
    }

    /// The count, both parts of the mean, and the squared deviations.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [counts, floats @ ..] = columns::<4>(state)?;
        let counts = cast_to(counts, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let [references, means, m2s] = floats.each_ref().map(|floats| floats.as_primitive::<Float64Type>());
        let moments = |row| Moments {
            count: counts.value(row) as f64,
            reference: references.value(row),
            mean: means.value(row),
            m2: m2s.value(row),
        };
        column.fold(rows, references.nulls(), len, moments);
        Ok(())
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let counts: Int64Array = column.states().iter().map(|moments| moments.count as i64).collect();
        let parts: [fn(&Moments) -> f64; 3] =
            [|moments| moments.reference, |moments| moments.mean, |moments| moments.m2];
        let mut state: Vec<ArrayRef> = vec![Arc::new(counts)];
        state.extend(parts.map(|part| floats(column, part)));
        Ok(state)
    }

    /// The means, which no function returns: variances are lowered by `variance`.
    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        Ok(floats(column, |moments| moments.reference + moments.mean))
    }
}

fn floats(column: &Column<Variance>, of: impl Fn(&Moments) -> f64) -> ArrayRef {
    let floats: Vec<f64> = column.states().iter().map(of).collect();
    Arc::new(Float64Array::new(floats.into(), column.nulls()))
}

/// Variances (or their roots) of all slots: null for fewer than one value, or two if `sample`.
pub(super) fn variance(moments: &dyn Partials, sample: bool, root: bool) -> Result<ArrayRef> {
    let moments = moments.downcast_ref::<Column<Variance>>();
    let moments = moments.ok_or_else(|| Error::Internal("a variance is made of moments".into()))?;
    let ddof = if sample { 1.0 } else { 0.0 };
    let variances = moments.states().iter().map(|moment| moment.variance(ddof, root));
    Ok(Arc::new(variances.collect::<Float64Array>()))
}
