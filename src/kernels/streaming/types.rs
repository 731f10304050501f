//! How values of a type are read, and made of answers again.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::Result;

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
