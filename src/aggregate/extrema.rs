//! Min and max of primitive values. Distributive, commutative, not invertible.
//!
//! NaN is greatest, as in Spark: the max of a window is NaN if any value is, its min only if all are. Values are stored
//! in one of five types that preserve them and their order, so that no code is compiled for each Arrow type.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, types::*};
use arrow_schema::DataType;

use super::column::Column;
use super::lift::{Aggregate, cast_to, columns, fold_primitive, fold_runs};
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::rows::{Rows, Run};
use crate::Result;
use crate::algebra::{Extremum, Monoid, Ordered, monoid_of};
use crate::dictionary::{plain, widened};

/// An empty column of minima (or maxima) over values of type `input`, if those are ordered primitives.
pub(super) fn extrema(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    use DataType::*;
    fn column<T: ArrowPrimitiveType<Native: Ordered>>(
        input: &DataType,
        physical: DataType,
        max: bool,
    ) -> Box<dyn Partials> {
        let (values, output) = (plain(input).clone(), widened(input));
        if max {
            Box::new(Column::new(Extrema::<T, true> {
                monoid: Extremum::new(true),
                values,
                physical,
                output,
            }))
        } else {
            Box::new(Column::new(Extrema::<T, false> {
                monoid: Extremum::new(true),
                values,
                physical,
                output,
            }))
        }
    }
    Some(match plain(input) {
        Null | Boolean | Int8 | Int16 | Int32 | UInt8 | UInt16 | Date32 | Time32(_) => {
            column::<Int32Type>(input, Int32, max)
        }
        Int64 | UInt32 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => {
            column::<Int64Type>(input, Int64, max)
        }
        UInt64 => column::<UInt64Type>(input, UInt64, max),
        Float16 | Float32 | Float64 => column::<Float64Type>(input, Float64, max),
        decimal @ Decimal128(..) => column::<Decimal128Type>(input, decimal.clone(), max),
        _ => return None,
    })
}

/// The least (or greatest) of primitive values.
struct Extrema<T: ArrowPrimitiveType, const MAX: bool> {
    monoid: Extremum<T::Native, MAX>,
    /// The type of the values.
    values: DataType,
    /// The type they are stored as.
    physical: DataType,
    output: DataType,
}

// A derived implementation would require it of `T`.
impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Clone for Extrema<T, MAX> {
    fn clone(&self) -> Self {
        let Self { monoid, values, physical, output } = self;
        let (values, physical, output) = (values.clone(), physical.clone(), output.clone());
        Self { monoid: *monoid, values, physical, output }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Monoid for Extrema<T, MAX> {
    type State = T::Native;
    monoid_of!(monoid);
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Aggregate for Extrema<T, MAX> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let ([input], physical) = (columns(inputs)?, column.monoid().physical.clone());
        fold_primitive::<T, _>(column, input, &physical, rows, len, |value| value)
    }

    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        let ([input], Self { monoid, physical, .. }) = (columns(inputs)?, column.monoid().clone());
        fold_runs::<T, _>(column, input, &physical, runs, len, &monoid)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let Self { values, physical, output, .. } = column.monoid();
        let extrema = PrimitiveArray::<T>::new(column.states().to_vec().into(), column.nulls());
        let extrema: ArrayRef = Arc::new(extrema.with_data_type(physical.clone()));
        cast_to(&cast_to(&extrema, values)?, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, Float64Array, cast::AsArray};

    fn of(values: Vec<Option<f64>>, max: bool) -> Option<f64> {
        let (slots, times) = (vec![0; values.len()], vec![0; values.len()]);
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let mut column = extrema(&DataType::Float64, max).unwrap();
        column.update(std::slice::from_ref(&values), Rows::all(&slots, &times), 1).unwrap();
        let result = column.lower().unwrap();
        let result = result.as_primitive::<Float64Type>();
        result.is_valid(0).then(|| result.value(0))
    }

    #[test]
    fn nan_is_greatest_and_nulls_are_skipped() {
        assert_eq!(of(vec![Some(1.0), Some(f64::NAN), None], false), Some(1.0));
        assert!(of(vec![Some(f64::INFINITY), Some(f64::NAN)], true).unwrap().is_nan());
        assert!(of(vec![Some(f64::NAN), None], false).unwrap().is_nan());
        assert_eq!(of(vec![None, None], true), None);
        assert_eq!(of(vec![Some(f64::NEG_INFINITY)], true), Some(f64::NEG_INFINITY));
    }
}
