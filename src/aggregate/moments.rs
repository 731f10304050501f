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
use super::sum::twofold;
use crate::algebra::{Lift, Moment, Moments, Twofold};
use crate::{Error, Result};

impl Aggregate for Moments {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        fold_primitive::<Float64Type, _>(column, input, &DataType::Float64, rows, len, |v| Moments.lift(0, v))
    }

    /// The count, both parts of the mean ([`Twofold`]), and the squared deviations.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [counts, means @ .., m2s] = columns::<4>(state)?;
        let counts = cast_to(counts, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let [high, low] = means;
        let [high, low, m2s] = [high, low, m2s].map(|floats| floats.as_primitive::<Float64Type>());
        let moment = |row| Moment {
            count: counts.value(row) as f64,
            mean: Twofold { high: high.value(row), low: low.value(row) },
            m2: m2s.value(row),
        };
        column.fold(rows, high.nulls(), len, moment);
        Ok(())
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let (states, nulls) = (column.states(), column.nulls());
        let counts: Int64Array = states.iter().map(|moment| moment.count as i64).collect();
        let [high, low] = twofold(states.iter().map(|moment| moment.mean), nulls.clone());
        let m2s: Vec<f64> = states.iter().map(|moment| moment.m2).collect();
        Ok(vec![Arc::new(counts), high, low, Arc::new(Float64Array::new(m2s.into(), nulls))])
    }

    /// The means, which no function asks for: variances are lowered by [`variance`].
    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let means: Vec<f64> = column.states().iter().map(|moment| moment.mean.value()).collect();
        Ok(Arc::new(Float64Array::new(means.into(), column.nulls())))
    }
}

/// Variances (or their roots) of all slots: null for fewer than one value, or two if `sample`.
pub(super) fn variance(moments: &dyn Partials, sample: bool, root: bool) -> Result<ArrayRef> {
    let moments = moments.downcast_ref::<Column<Moments>>();
    let moments = moments.ok_or_else(|| Error::Internal("a variance is made of moments".into()))?;
    let ddof = if sample { 1.0 } else { 0.0 };
    let variances = moments.states().iter().map(|moment| moment.variance(ddof, root));
    Ok(Arc::new(variances.collect::<Float64Array>()))
}
