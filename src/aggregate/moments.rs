//! Count, mean and sum of squared deviations: what variances are lowered from. Algebraic and commutative.
//!
//! Partials are joined by the parallel update of Chan, Golub and LeVeque (1979), which neither cancels nor drifts; it
//! is also what Spark's own functions do, so that results agree.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array,
    cast::AsArray,
    types::{Float64Type, Int64Type},
};
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Partials, Rows, cast_to, columns, fold_primitive};
use super::properties::{Kind, Properties};
use crate::{Error, Result};

/// The partial of variances.
#[derive(Clone)]
pub struct Moments;

/// Number of values, their mean, and the sum of their squared deviations from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    count: f64,
    mean: f64,
    m2: f64,
}

impl Monoid for Moments {
    type State = Moment;

    fn identity(&self) -> Moment {
        Moment { count: 0.0, mean: 0.0, m2: 0.0 }
    }

    #[inline]
    fn combine(&self, earlier: Moment, later: Moment) -> Moment {
        // Not only a shortcut: an empty side must not touch a mean that is infinite or NaN.
        if earlier.count == 0.0 {
            return later;
        }
        if later.count == 0.0 {
            return earlier;
        }
        let count = earlier.count + later.count;
        let delta = later.mean - earlier.mean;
        let share = later.count / count;
        Moment {
            count,
            mean: earlier.mean + delta * share,
            m2: earlier.m2 + later.m2 + delta * delta * earlier.count * share,
        }
    }
}

impl Aggregate for Moments {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        // The deviation of a value from itself is 0, but of an infinity or NaN it is NaN, as in Spark.
        let from_itself = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
        let lift = |value| Moment { count: 1.0, mean: value, m2: from_itself(value) };
        fold_primitive::<Float64Type, _>(
            column,
            &columns::<1>(inputs)?[0],
            &DataType::Float64,
            rows,
            len,
            lift,
        )
    }

    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [counts, means, m2s] = state else {
            return Err(Error::Internal(format!("moments of three columns came with {}", state.len())));
        };
        let counts = cast_to(counts, &DataType::Int64)?;
        let (counts, means, m2s) = (
            counts.as_primitive::<Int64Type>(),
            means.as_primitive::<Float64Type>(),
            m2s.as_primitive::<Float64Type>(),
        );
        let moment =
            |row| Moment { count: counts.value(row) as f64, mean: means.value(row), m2: m2s.value(row) };
        column.fold(rows, means.nulls(), len, moment);
        Ok(())
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let states = column.states();
        let counts: Int64Array = states.iter().map(|moment| moment.count as i64).collect();
        let m2s: Vec<f64> = states.iter().map(|moment| moment.m2).collect();
        let m2s = Float64Array::new(m2s.into(), column.nulls());
        Ok(vec![Arc::new(counts), Self::lower(column)?, Arc::new(m2s)])
    }

    /// The means, which no function asks for: variances are lowered by [`variance`].
    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let means: Vec<f64> = column.states().iter().map(|moment| moment.mean).collect();
        Ok(Arc::new(Float64Array::new(means.into(), column.nulls())))
    }
}

/// Variances (or their roots) of all slots: null for fewer than one value, or two if `sample`.
pub(super) fn variance(moments: &dyn Partials, sample: bool, root: bool) -> Result<ArrayRef> {
    let moments = moments.as_any().downcast_ref::<Column<Moments>>();
    let moments = moments.ok_or_else(|| Error::Internal("a variance is made of moments".into()))?;
    let lost = if sample { 1.0 } else { 0.0 };
    let variances = moments.states().iter().map(|moment| {
        let variance = moment.m2 / (moment.count - lost);
        (moment.count > lost).then_some(if root { variance.sqrt() } else { variance })
    });
    Ok(Arc::new(variances.collect::<Float64Array>()))
}
