//! The types of numbers: what values are computed in, what sums and means are, as in Spark, and integers as values of these.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Decimal128Array, Int64Array, UInt64Array, cast::AsArray,
    new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use super::Keyed;
use crate::{Error, Result};

/// Whether values of a type are integers, floats or decimals; as in Spark, nulls without a type are those of floats.
pub fn is_number(input: &DataType) -> bool {
    input.is_integer() || input.is_floating() || matches!(input, DataType::Decimal128(..) | DataType::Null)
}

/// The type of a sum, if values of type `input` have one; unsigned integers stay unsigned.
pub fn sum_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        // How many are true.
        _ if input.is_signed_integer() || *input == DataType::Boolean => DataType::Int64,
        _ if input.is_unsigned_integer() => DataType::UInt64,
        _ if input.is_floating() || *input == DataType::Null => DataType::Float64,
        DataType::Decimal128(precision, scale) => DataType::Decimal128((precision + 10).min(38), *scale),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// The type of a mean, if values of type `input` have one.
pub fn mean_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        // Of booleans, the share that is true.
        DataType::Boolean => DataType::Float64,
        _ if input.is_integer() || input.is_floating() || *input == DataType::Null => DataType::Float64,
        DataType::Decimal128(p, s) => DataType::Decimal128((p + 4).min(38), (s + 4).min(38)),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// The factor for the digits that a mean has beyond those of its values: 1 except for decimals.
pub fn mean_unit(input: &DataType, output: &DataType) -> i128 {
    match (input, output) {
        (DataType::Decimal128(_, given), DataType::Decimal128(_, scale)) => {
            10i128.pow((scale - given).unsigned_abs().into())
        }
        _ => 1,
    }
}

/// Integers as values of type `output`: integers, decimals or durations; or the error of the first that does not fit.
pub fn integers(
    values: impl Iterator<Item = i128>,
    nulls: Option<NullBuffer>,
    output: &DataType,
    error: impl Fn(i128) -> Error,
) -> Result<ArrayRef> {
    Ok(match output {
        DataType::Decimal128(precision, scale) => {
            let bound = 10i128.pow(u32::from(*precision));
            let fits =
                |value: i128| if -bound < value && value < bound { Ok(value) } else { Err(error(value)) };
            let decimals: Vec<i128> = values.map(fits).collect::<Result<_>>()?;
            Arc::new(
                Decimal128Array::new(decimals.into(), nulls).with_precision_and_scale(*precision, *scale)?,
            )
        }
        DataType::UInt64 => Arc::new(UInt64Array::new(narrowed(values, error)?.into(), nulls)),
        DataType::Int64 => Arc::new(Int64Array::new(narrowed(values, error)?.into(), nulls)),
        _ => cast(&Int64Array::new(narrowed(values, error)?.into(), nulls), output)?,
    })
}

/// Integers of fewer bits, or the error of the first that does not fit.
fn narrowed<T: TryFrom<i128>>(
    values: impl Iterator<Item = i128>,
    error: impl Fn(i128) -> Error,
) -> Result<Vec<T>> {
    // `collect` makes no room for what an error may end early, and grows the list again and again.
    let mut narrowed = Vec::with_capacity(values.size_hint().0);
    for value in values {
        narrowed.push(T::try_from(value).map_err(|_| error(value))?);
    }
    Ok(narrowed)
}

/// The type that values of type `input` are computed in, if they are numbers or times: one of a few.
pub fn physical(input: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match input {
        Boolean | Int8 | Int16 | Int32 | Int64 | Null => Int64,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Int64,
        UInt8 | UInt16 | UInt32 | UInt64 => UInt64,
        Float16 | Float32 | Float64 => Float64,
        Decimal128(..) => input.clone(),
        _ => return None,
    })
}

/// Values as those of their physical type, without loss.
pub fn physical_of(values: &ArrayRef) -> Result<ArrayRef> {
    use DataType::*;
    let physical = physical(values.data_type()).unwrap_or(Null);
    // These have no direct conversion.
    let narrow = matches!(values.data_type(), Date32 | Time32(_));
    let values = if narrow { &cast(values, &Int32)? } else { values };
    Ok(if *values.data_type() == physical { values.clone() } else { cast(values, &physical)? })
}

/// The inverse of [`physical_of`], as `output` again.
pub fn of_physical(values: &ArrayRef, output: &DataType) -> Result<ArrayRef> {
    use DataType::*;
    if *output == Null {
        return Ok(new_null_array(output, values.len()));
    }
    let narrow = matches!(output, Date32 | Time32(_));
    let values = if narrow { &cast(values, &Int32)? } else { values };
    Ok(if values.data_type() == output { values.clone() } else { cast(values, output)? })
}

/// Values of at most 64 bits as integers with their order ([`Keyed`]); those of nulls are arbitrary.
pub fn ordinals(values: &ArrayRef) -> Result<Vec<u64>> {
    fn of<T: ArrowPrimitiveType<Native: Keyed<Key = u64>>>(values: &ArrayRef) -> Vec<u64> {
        values.as_primitive::<T>().values().iter().map(|&value| value.ordinal()).collect()
    }
    let values = physical_of(values)?;
    Ok(match values.data_type() {
        DataType::Float64 => of::<Float64Type>(&values),
        DataType::UInt64 => of::<UInt64Type>(&values),
        _ => of::<Int64Type>(&values),
    })
}
