//! Which functions mean something for which types, and how values of a type are read.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::{Error, Result};

/// The few types that values are computed in; the others are read as one of these, without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    /// Signed integers, booleans, dates, times, timestamps, durations.
    Int64,
    /// Unsigned integers.
    UInt64,
    /// Floats.
    Float64,
    /// decimal128.
    Decimal128,
}

/// How values of type `input` are read, if a window can hold them.
pub(super) fn physical(input: &DataType) -> Option<Physical> {
    use DataType::*;
    Some(match input {
        Boolean | Int8 | Int16 | Int32 | Int64 => Physical::Int64,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Physical::Int64,
        UInt8 | UInt16 | UInt32 | UInt64 => Physical::UInt64,
        Float16 | Float32 | Float64 => Physical::Float64,
        Decimal128(..) => Physical::Decimal128,
        _ => return None,
    })
}

/// `array` as the type it is computed in.
pub(super) fn to_physical(array: &ArrayRef) -> Result<ArrayRef> {
    use DataType::*;
    let input = array.data_type();
    Ok(match physical(input) {
        Some(Physical::Int64) if matches!(input, Date32 | Time32(_)) => cast(&cast(array, &Int32)?, &Int64)?,
        Some(Physical::Int64) => cast(array, &Int64)?,
        Some(Physical::UInt64) => cast(array, &UInt64)?,
        Some(Physical::Float64) => cast(array, &Float64)?,
        _ => array.clone(),
    })
}

/// What [`to_physical`] made, as `output` again.
pub(super) fn from_physical(array: &ArrayRef, output: &DataType) -> Result<ArrayRef> {
    use DataType::*;
    Ok(match output {
        Date32 | Time32(_) => cast(&cast(array, &Int32)?, output)?,
        Boolean => {
            let array = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(array);
            Arc::new(array.iter().map(|value| value.map(|value| value != 0)).collect::<BooleanArray>())
        }
        _ if array.data_type() == output => array.clone(),
        _ => cast(array, output)?,
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

/// The type of a mean, as in Spark.
pub(super) fn mean_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        _ if input.is_integer() || input.is_floating() => DataType::Float64,
        DataType::Decimal128(p, s) => DataType::Decimal128((p + 4).min(38), (s + 4).min(38)),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// Values with a variance.
pub(super) fn is_number(input: &DataType) -> bool {
    input.is_integer() || input.is_floating() || matches!(input, DataType::Decimal128(..))
}

/// A type that a function has no meaning for.
pub(super) fn refused(function: &str, input: &DataType, allowed: &str) -> Error {
    Error::InvalidType(format!("type: {function} of {input}; allowed are {allowed}"))
}
