//! Gaps of sessions that a column has, row by row.

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use serde::Serialize;

use crate::{Error, Result};

/// A column of gaps, and how its values become lengths of the measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GapColumn {
    /// Its position.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// What one of its units is, in units of which...
    pub unit: i64,
    /// ... the measure's unit has so many,
    pub per: i64,
    /// and of which gaps are multiples.
    pub step: i64,
}

impl GapColumn {
    /// Which rows have a gap: those of others are in no session. As in Spark, that needs a value above zero.
    ///
    /// # Errors
    /// `Overflow` for values above the range of int64.
    pub fn valid(&self, column: &ArrayRef) -> Result<BooleanBuffer> {
        let values = self.values(column)?;
        let above = BooleanBuffer::collect_bool(values.len(), |row| values[row] > 0);
        Ok(match column.logical_nulls() {
            Some(nulls) => &above & nulls.inner(),
            None => above,
        })
    }

    /// The column's values; those under nulls are arbitrary.
    fn values(&self, column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
        let values = cast(column, &DataType::Int64)?;
        if values.null_count() > column.logical_null_count() {
            return Err(Error::Overflow(format!(
                "windows: column '{}' holds a gap above the range of int64; allowed are values up to {}",
                self.name,
                i64::MAX
            )));
        }
        Ok(values.as_primitive::<Int64Type>().values().clone())
    }

    /// The gaps in units of the measure.
    ///
    /// # Errors
    /// `InvalidValue` for one that is not a whole number of these.
    pub(super) fn lengths(&self, column: &ArrayRef) -> Result<Vec<i64>> {
        let length = |&value: &i64| {
            let exact = i128::from(value) * i128::from(self.unit);
            if value > 0 && exact % i128::from(self.step) != 0 {
                return Err(Error::InvalidValue(format!(
                    "windows: column '{}' holds a gap of {value} of its units, which is finer than the time column; \
                     allowed are multiples of that one's unit",
                    self.name
                )));
            }
            // One beyond this range is beyond every time, too.
            Ok(i64::try_from(exact / i128::from(self.per)).unwrap_or(i64::MAX))
        };
        self.values(column)?.iter().map(length).collect()
    }
}
