//! M4: least, greatest, first and last value of a window, which is all that a line chart can show of it. Algebraic.
//!
//! Jugel et al., *M4: A Visualization-Oriented Time Series Data Aggregation*, VLDB 2014. A chart also needs the times
//! of the four values: with times, the extrema are those of arg-min and arg-max of the time.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray, cast::AsArray, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};

use super::lift::cast_to;
use super::partials::Partials;
use super::rows::TIMELESS;
use crate::dictionary::widened;
use crate::{Error, Result};

/// The fields of the result over values of type `input`, with times of type `time` if there is one.
pub(super) fn fields(input: &DataType, time: Option<&DataType>) -> Fields {
    let value = widened(input);
    ["min", "max", "first", "last"]
        .iter()
        .flat_map(|name| {
            let value = Field::new(*name, value.clone(), true);
            [Some(value), time.map(|time| Field::new(format!("{name}_time"), time.clone(), true))]
        })
        .flatten()
        .collect()
}

/// Structs of the minima, maxima, first and last values of all slots; null where there is no value.
pub(super) fn m4(partials: &[&dyn Partials], input: &DataType, time: Option<&DataType>) -> Result<ArrayRef> {
    let fields = fields(input, time);
    let columns: Vec<ArrayRef> = if time.is_some() {
        // Of arg-min and arg-max of the time: time and value; of first and last: value and time.
        let mut pairs = Vec::with_capacity(8);
        for (at, partial) in partials.iter().enumerate() {
            let state = partial.state()?;
            let [first, second, ..] = state.as_slice() else {
                return Err(Error::Internal(format!("M4 with times from {} columns", state.len())));
            };
            let (value, time) = if at < 2 { (second, first) } else { (first, second) };
            pairs.extend([value.clone(), if at < 2 { time.clone() } else { known(time) }]);
        }
        pairs
    } else {
        partials.iter().map(|partial| partial.lower()).collect::<Result<_>>()?
    };
    if columns.len() != fields.len() {
        return Err(Error::Internal(format!("M4 of {} fields from {} columns", fields.len(), columns.len())));
    }
    // By the last values: their rows need not have a time.
    let valid = columns[columns.len() - if time.is_some() { 2 } else { 1 }].logical_nulls();
    let valid = valid.map(|nulls| NullBuffer::new(nulls.inner().clone()));
    let columns: Vec<ArrayRef> = columns
        .iter()
        .zip(&fields)
        .map(|(column, field)| {
            // Dates of 32 bits have no direct way from int64.
            let narrow = *field.data_type() == DataType::Date32 && *column.data_type() == DataType::Int64;
            let column = if narrow { cast_to(column, &DataType::Int32)? } else { column.clone() };
            cast_to(&column, field.data_type())
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(StructArray::try_new(fields, columns, valid)?))
}

/// The times of first or last rows; null for rows that have none.
fn known(times: &ArrayRef) -> ArrayRef {
    match times.as_primitive_opt::<Int64Type>() {
        Some(known) if known.values().contains(&TIMELESS) => {
            Arc::new(known.unary_opt::<_, Int64Type>(|time| (time != TIMELESS).then_some(time)))
        }
        _ => times.clone(),
    }
}
