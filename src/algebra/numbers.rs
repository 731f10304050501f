//! The types of sums and means, as in Spark, and integers as values of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Int64Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::{Error, Result};

/// Whether values of a type are integers, floats or decimals.
pub fn is_number(input: &DataType) -> bool {
    input.is_integer() || input.is_floating() || matches!(input, DataType::Decimal128(..))
}

/// The type of a sum, if values of type `input` have one; unsigned integers stay unsigned.
pub fn sum_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        _ if input.is_signed_integer() => DataType::Int64,
        _ if input.is_unsigned_integer() => DataType::UInt64,
        _ if input.is_floating() => DataType::Float64,
        DataType::Decimal128(precision, scale) => DataType::Decimal128((precision + 10).min(38), *scale),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// The type of a mean, if values of type `input` have one.
pub fn mean_type(input: &DataType) -> Option<DataType> {
    Some(match input {
        _ if input.is_integer() || input.is_floating() => DataType::Float64,
        DataType::Decimal128(p, s) => DataType::Decimal128((p + 4).min(38), (s + 4).min(38)),
        DataType::Duration(_) => input.clone(),
        _ => return None,
    })
}

/// What the digits that a mean has beyond its values' are worth: 1 but for decimals.
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
        DataType::UInt64 => {
            let fits = |value: i128| u64::try_from(value).map_err(|_| error(value));
            Arc::new(UInt64Array::new(values.map(fits).collect::<Result<Vec<_>>>()?.into(), nulls))
        }
        _ => {
            let fits = |value: i128| i64::try_from(value).map_err(|_| error(value));
            let integers = Int64Array::new(values.map(fits).collect::<Result<Vec<_>>>()?.into(), nulls);
            cast(&integers, output)?
        }
    })
}
