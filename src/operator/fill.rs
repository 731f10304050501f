//! What aggregates are in windows without rows, where results have these.

use arrow_array::{ArrayRef, Int8Array, Int64Array, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};

use crate::types::named;
use crate::{Error, Result};

/// What an aggregate is in a window without rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Null, whatever the function makes of no rows: a count, too.
    Null,
    /// Zero.
    Zero,
    /// What it is in the key's last window of this type that has rows.
    Previous,
}

impl Fill {
    /// # Errors
    /// `InvalidValue` for another name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "null" => Ok(Fill::Null),
            "zero" => Ok(Fill::Zero),
            "previous" => Ok(Fill::Previous),
            _ => Err(Error::InvalidValue(format!(
                "fill: '{name}' is unknown; allowed are null, zero and previous"
            ))),
        }
    }

    /// The field of an aggregate that is filled.
    ///
    /// # Errors
    /// `InvalidType` if its type has no zero.
    pub(super) fn of(self, field: &Field) -> Result<Field> {
        if self == Fill::Zero && !has_zero(field.data_type()) {
            return Err(Error::InvalidType(format!(
                "fill: 'zero' is given for '{}', which is {}; zeros are of integers, floats, decimals and durations, and \
                 allowed for all are 'null' and 'previous', for each aggregate by fill={{'{}': ...}}",
                field.name(),
                named(field.data_type()),
                field.name()
            )));
        }
        Ok(field.clone().with_nullable(field.is_nullable() || self == Fill::Null))
    }
}

/// Whether a type has a zero: a column of nothing but nulls has one, too, once it is known which.
fn has_zero(kind: &DataType) -> bool {
    kind.is_numeric() || matches!(kind, DataType::Duration(_) | DataType::Null)
}

/// One zero of a type that has one; null of nothing but nulls.
pub(super) fn zero(kind: &DataType) -> Result<ArrayRef> {
    let zero: ArrayRef = match kind {
        DataType::Null => return Ok(new_null_array(kind, 1)),
        DataType::Duration(_) => std::sync::Arc::new(Int64Array::from(vec![0])),
        _ => std::sync::Arc::new(Int8Array::from(vec![0])),
    };
    Ok(cast(&zero, kind)?)
}
