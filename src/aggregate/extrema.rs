//! Min and max of primitive values. Distributive, commutative, not invertible.
//!
//! NaN is greatest, as in Spark: the max of a window is NaN if any value is, its min only if all are.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, types::*};
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, LONG, Partials, Rows, Run, cast_to, columns, fold_primitive, fold_runs};
use super::properties::{Kind, Properties};
use crate::Result;
use crate::dictionary::{plain, widened};
use crate::kernels::simd;

/// An empty column of minima (or maxima) over values of type `input`, if those are ordered primitives.
pub(super) fn extrema(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    use DataType::*;
    fn column<T: ArrowPrimitiveType<Native: Ordered>>(
        physical: DataType,
        output: &DataType,
        max: bool,
    ) -> Box<dyn Partials> {
        let output = output.clone();
        if max {
            Box::new(Column::new(Extremum::<T, true> { physical, output, value: std::marker::PhantomData }))
        } else {
            Box::new(Column::new(Extremum::<T, false> { physical, output, value: std::marker::PhantomData }))
        }
    }
    let (values, output) = (plain(input), &widened(input));
    Some(match values {
        Boolean | UInt8 => column::<UInt8Type>(UInt8, output, max),
        Int8 => column::<Int8Type>(Int8, output, max),
        Int16 => column::<Int16Type>(Int16, output, max),
        Int32 | Date32 | Time32(_) => column::<Int32Type>(Int32, output, max),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => column::<Int64Type>(Int64, output, max),
        UInt16 => column::<UInt16Type>(UInt16, output, max),
        UInt32 => column::<UInt32Type>(UInt32, output, max),
        UInt64 => column::<UInt64Type>(UInt64, output, max),
        Float16 | Float32 => column::<Float32Type>(Float32, output, max),
        Float64 => column::<Float64Type>(Float64, output, max),
        Decimal128(..) => column::<Decimal128Type>(values.clone(), output, max),
        _ => return None,
    })
}

/// A total order with ends, in which NaN is greatest.
pub trait Ordered: Copy {
    /// Nothing is below.
    const LEAST: Self;
    /// Nothing is above.
    const GREATEST: Self;
    /// Whether `self` comes before `other`.
    fn is_below(self, other: Self) -> bool;
    /// The least or greatest of values.
    fn extreme(values: &[Self], max: bool) -> Option<Self>;
}

/// By vectors, for types that have kernels.
fn by_vectors<T: simd::Element>(values: &[T], max: bool) -> Option<T> {
    let column = simd::Column::from(values);
    if max { simd::reduce_max(column) } else { simd::reduce_min(column) }
}

macro_rules! ordered_integers {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
            #[inline]
            fn is_below(self, other: Self) -> bool { self < other }
            fn extreme(values: &[Self], max: bool) -> Option<Self> { by_vectors(values, max) }
        }
    )*};
}
ordered_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Ordered for i128 {
    const LEAST: Self = i128::MIN;
    const GREATEST: Self = i128::MAX;
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
    fn extreme(values: &[Self], max: bool) -> Option<Self> {
        if max { values.iter().max().copied() } else { values.iter().min().copied() }
    }
}

macro_rules! ordered_floats {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::NAN;
            #[inline]
            fn is_below(self, other: Self) -> bool { self < other || (other.is_nan() && !self.is_nan()) }
            fn extreme(values: &[Self], max: bool) -> Option<Self> { by_vectors(values, max) }
        }
    )*};
}
ordered_floats!(f32, f64);

/// The least (or greatest) of primitive values, read as `T`.
pub struct Extremum<T, const MAX: bool> {
    physical: DataType,
    output: DataType,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T, const MAX: bool> Clone for Extremum<T, MAX> {
    fn clone(&self) -> Self {
        Self { physical: self.physical.clone(), output: self.output.clone(), value: self.value }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Extremum<T, MAX> {
    #[inline]
    fn wins(value: T::Native, over: T::Native) -> bool {
        if MAX { over.is_below(value) } else { value.is_below(over) }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Monoid for Extremum<T, MAX> {
    type State = T::Native;

    fn identity(&self) -> T::Native {
        if MAX { T::Native::LEAST } else { T::Native::GREATEST }
    }

    #[inline]
    fn combine(&self, earlier: T::Native, later: T::Native) -> T::Native {
        if Self::wins(later, earlier) { later } else { earlier }
    }

    #[inline]
    fn absorb(&self, state: &mut T::Native, later: T::Native) {
        if Self::wins(later, *state) {
            *state = later;
        }
    }

    fn outlasts(&self, whole: T::Native, part: T::Native) -> bool {
        Self::wins(whole, part)
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Aggregate for Extremum<T, MAX> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let physical = column.monoid().physical.clone();
        fold_primitive::<T, _>(column, &columns::<1>(inputs)?[0], &physical, rows, len, |value| value)
    }

    fn update_runs(
        column: &mut Column<Self>,
        inputs: &[ArrayRef],
        runs: &[Run],
        _: &[i64],
        len: usize,
    ) -> Result<bool> {
        let physical = column.monoid().physical.clone();
        let identity = column.monoid().identity();
        let extreme = |values: &[T::Native]| T::Native::extreme(values, MAX).unwrap_or(identity);
        fold_runs::<T, _>(
            column,
            &columns::<1>(inputs)?[0],
            &physical,
            runs,
            len,
            (|value| value, LONG, extreme),
        )
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let Extremum { physical, output, .. } = column.monoid();
        let values = PrimitiveArray::<T>::new(column.states().to_vec().into(), column.nulls());
        let values: ArrayRef = Arc::new(values.with_data_type(physical.clone()));
        cast_to(&values, output)
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
