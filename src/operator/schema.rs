//! Columns of schemas: those that a query names, and those that results have besides keys and aggregates.

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::window::Measure;
use crate::{Error, Result};

/// The position of the column that an argument names.
pub(crate) fn find(schema: &Schema, argument: &str, name: &str) -> Result<usize> {
    let mut matching = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (matching.next(), matching.next()) {
        (Some((position, _)), None) => Ok(position),
        (Some(_), Some(_)) => Err(Error::InvalidValue(format!(
            "{argument}: column '{name}' occurs more than once; names must be unique"
        ))),
        (None, _) => {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Err(Error::UnknownColumn(format!(
                "{argument}: no column '{name}'; there are {}",
                names.join(", ")
            )))
        }
    }
}

/// The fields `start` and `end` of a window column.
pub(crate) fn extent_fields(measure: &Measure) -> Fields {
    Fields::from(vec![
        Field::new("start", measure.data_type(), false),
        Field::new("end", measure.data_type(), false),
    ])
}

/// The fields `start` and `end` of a column of windows' ranks.
pub(super) fn rank_fields() -> Fields {
    Fields::from(vec![Field::new("start", DataType::Int64, false), Field::new("end", DataType::Int64, false)])
}
