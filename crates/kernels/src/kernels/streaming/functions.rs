//! The functions of a window: which monoid, over which values, and how its partials become results.
//!
//! None of them subtracts, so a value that has left a window cannot affect its result. Nulls are removed beforehand.
//! Code is compiled per width rather than per type, where a function only compares or returns values.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Int8Array, PrimitiveArray, UInt64Array, cast::AsArray, make_array,
    types::*,
};
use arrow_buffer::{NullBuffer, i256};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::rows::{Algorithm, Function, Rows, Typed};
use super::{Daba, TwoStacksLite};
use crate::algebra::{
    Arg, At, Count, End, ExactSum, Extremum, FloatSum, Lift, Ordered, Placed, Total, Twofold, Variance,
    divided, integers, mean_unit, of_physical, ordinals, physical, physical_of,
};
use crate::kernels;
use crate::simd::Moments;
use crate::types::named;
use crate::{Error, Result};

/// A window of a function over values of type `input`, with answers of type `output`; `None` if it does not support
/// them.
pub(super) fn rows(
    function: kernels::Function,
    input: &DataType,
    output: &DataType,
    algorithm: Algorithm,
) -> Option<Box<dyn Rows>> {
    let mean = function == kernels::Function::Mean;
    match function {
        kernels::Function::Count => return Some(count(algorithm)),
        kernels::Function::Variance { ddof, root } => return Some(variance(ddof, root, algorithm)),
        kernels::Function::Sum | kernels::Function::Mean => {
            return Some(match physical(input)? {
                DataType::Float64 => floats(mean, algorithm),
                DataType::UInt64 => exact::<UInt64Type, i128>(mean, input, output, algorithm),
                DataType::Int64 => exact::<Int64Type, i128>(mean, input, output, algorithm),
                _ => exact::<Decimal128Type, i256>(mean, input, output, algorithm),
            });
        }
        _ => {}
    }
    let wide = matches!(input, DataType::Decimal128(..));
    Some(match (function, physical(input)?) {
        (kernels::Function::First | kernels::Function::Last, _) => {
            let last = function == kernels::Function::Last;
            if wide {
                end::<Decimal128Type>(last, output, algorithm)
            } else {
                end::<Int64Type>(last, output, algorithm)
            }
        }
        (kernels::Function::ArgMin, _) if wide => arg::<Decimal128Type>(physical_of, algorithm),
        (kernels::Function::ArgMax, _) if wide => arg::<Decimal128Type>(reversed_decimals, algorithm),
        (kernels::Function::ArgMin, _) => arg::<UInt64Type>(keys, algorithm),
        (kernels::Function::ArgMax, _) => arg::<UInt64Type>(reversed_keys, algorithm),
        (_, DataType::Int64) => extreme::<Int64Type>(function, output, algorithm),
        (_, DataType::UInt64) => extreme::<UInt64Type>(function, output, algorithm),
        (_, DataType::Float64) => extreme::<Float64Type>(function, output, algorithm),
        _ => extreme::<Decimal128Type>(function, output, algorithm),
    })
}

fn window<T, M, L, A>(monoid: M, function: Function<L, A>, algorithm: Algorithm) -> Box<dyn Rows>
where
    T: ArrowPrimitiveType,
    M: Lift<T::Native, State: Send> + Send + 'static,
    L: Fn(M::State, u64) -> Option<A> + Send + 'static,
    A: Copy + Default + Send + 'static,
{
    match algorithm {
        Algorithm::Daba => Box::new(Typed::<T, M, Daba<M>, L, A>::new(monoid, function)),
        Algorithm::TwoStacks => Box::new(Typed::<T, M, TwoStacksLite<M>, L, A>::new(monoid, function)),
    }
}

/// A function whose answers are of one Arrow type.
fn with_answers_of<R: ArrowPrimitiveType, L>(
    read: fn(&ArrayRef) -> Result<ArrayRef>,
    lower: L,
) -> Function<L, R::Native> {
    let finish = |answers: Vec<R::Native>, nulls: Option<NullBuffer>| -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<R>::new(answers.into(), nulls)))
    };
    Function { read, lower, finish: Box::new(finish), of_none: None }
}

fn count(algorithm: Algorithm) -> Box<dyn Rows> {
    // Only the nulls are read.
    let read = |values: &ArrayRef| -> Result<ArrayRef> {
        Ok(Arc::new(Int8Array::new(vec![0; values.len()].into(), values.logical_nulls())))
    };
    let function = with_answers_of::<Int64Type, _>(read, |_, count| Some(count as i64));
    window::<Int8Type, _, _, _>(Count, Function { of_none: Some(0), ..function }, algorithm)
}

fn variance(ddof: u32, root: bool, algorithm: Algorithm) -> Box<dyn Rows> {
    let function = with_answers_of::<Float64Type, _>(doubles, move |moments: Moments, _| {
        moments.variance(ddof.into(), root)
    });
    window::<Float64Type, _, _, _>(Variance, function, algorithm)
}

fn floats(mean: bool, algorithm: Algorithm) -> Box<dyn Rows> {
    let function = with_answers_of::<Float64Type, _>(doubles, move |sum: Twofold, count| {
        Some(if mean { sum.value() / count as f64 } else { sum.value() })
    });
    window::<Float64Type, _, _, _>(FloatSum { vectors: false }, function, algorithm)
}

/// Sums or means of integers, durations and decimals.
fn exact<T, S>(mean: bool, input: &DataType, output: &DataType, algorithm: Algorithm) -> Box<dyn Rows>
where
    T: ArrowPrimitiveType,
    S: Total + Send + 'static,
    ExactSum<S>: Lift<T::Native, State = S>,
{
    if *output == DataType::Float64 {
        let lower = |sum: S, count| sum.narrow().map(|sum| sum as f64 / count as f64);
        return window::<T, _, _, _>(
            ExactSum::<S>::new(),
            with_answers_of::<Float64Type, _>(physical_of, lower),
            algorithm,
        );
    }
    let unit = mean_unit(input, output);
    let lower = move |sum: S, count| {
        let answer = if mean { divided(sum, unit, count as i64) } else { sum.narrow() };
        // No answer can be this large.
        Some(answer.unwrap_or(i128::MAX))
    };
    let (output, name) = (output.clone(), if mean { "mean" } else { "sum" });
    let finish = move |answers: Vec<i128>, nulls: Option<NullBuffer>| {
        integers(answers.into_iter(), nulls, &output, |answer| {
            Error::Overflow(match output {
                DataType::Decimal128(..) => {
                    format!("the {name} of a window does not fit {output}", output = named(&output))
                }
                _ => format!(
                    "the {name} of a window is {answer}, which does not fit {output}",
                    output = named(&output)
                ),
            })
        })
    };
    let function = Function { read: physical_of, lower, finish: Box::new(finish), of_none: None };
    window::<T, _, _, _>(ExactSum::<S>::new(), function, algorithm)
}

fn extreme<T: ArrowPrimitiveType<Native: Ordered>>(
    function: kernels::Function,
    output: &DataType,
    algorithm: Algorithm,
) -> Box<dyn Rows> {
    let function_of = || returned::<T, _>(physical_of, output, |value: T::Native, _| Some(value));
    match function {
        kernels::Function::Min => {
            window::<T, _, _, _>(Extremum::<_, false>::new(false), function_of(), algorithm)
        }
        _ => window::<T, _, _, _>(Extremum::<_, true>::new(false), function_of(), algorithm),
    }
}

/// The place of an extremum: of the least of the keys that `read` makes of values.
fn arg<T: ArrowPrimitiveType<Native: Ord>>(
    read: fn(&ArrayRef) -> Result<ArrayRef>,
    algorithm: Algorithm,
) -> Box<dyn Rows> {
    let row = |placed: Placed<T::Native, usize>, _| Some(placed.place as i64);
    window::<T, _, _, _>(Arg::new(()), with_answers_of::<Int64Type, _>(read, row), algorithm)
}

fn end<T: ArrowPrimitiveType>(last: bool, output: &DataType, algorithm: Algorithm) -> Box<dyn Rows> {
    let function = returned::<T, _>(words, output, |at: At<T::Native>, _| Some(at.value));
    window::<T, _, _, _>(End::new(last), function, algorithm)
}

/// A function whose answers are some of its values.
fn returned<T: ArrowPrimitiveType, L>(
    read: fn(&ArrayRef) -> Result<ArrayRef>,
    output: &DataType,
    lower: L,
) -> Function<L, T::Native> {
    let output = output.clone();
    let finish = move |answers: Vec<T::Native>, nulls: Option<NullBuffer>| {
        let answers: ArrayRef = Arc::new(PrimitiveArray::<T>::new(answers.into(), nulls));
        let physical = physical(&output).unwrap_or_else(|| output.clone());
        of_physical(&as_type(&answers, physical)?, &output)
    };
    Function { read, lower, finish: Box::new(finish), of_none: None }
}

/// Values with these bits.
fn as_type(values: &ArrayRef, kind: DataType) -> Result<ArrayRef> {
    Ok(make_array(values.to_data().into_builder().data_type(kind).build()?))
}

/// Decimals and integers too, for variances.
fn doubles(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::Float64)?)
}

/// Values by their bits.
fn words(values: &ArrayRef) -> Result<ArrayRef> {
    let values = physical_of(values)?;
    match values.data_type() {
        DataType::Decimal128(..) => Ok(values),
        _ => as_type(&values, DataType::Int64),
    }
}

fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(UInt64Array::new(ordinals(values)?.into(), values.logical_nulls())))
}

/// In the reverse order.
fn reversed_keys(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(keys(values)?.as_primitive::<UInt64Type>().unary::<_, UInt64Type>(|key| !key)))
}

fn reversed_decimals(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(values.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|key| !key)))
}
