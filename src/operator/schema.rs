//! Columns of schemas: those that a query names, and those that results have besides keys and aggregates.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::dictionary::widened;
use crate::window::{Measure, Window, Zone};
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

/// Whether a column of this type says of rows that they are something; one of nothing but nulls says it of none.
pub(super) fn is_boolean(kind: &DataType) -> bool {
    matches!(kind, DataType::Boolean | DataType::Null)
}

/// What a window column shows: the times of a measure, in the zone of these windows if there is one.
pub(super) fn shown<'a>(measure: &Measure, windows: impl IntoIterator<Item = &'a Window>) -> Measure {
    let zones = windows.into_iter().filter_map(|window| window.calendar()?.zone()).map(Zone::name);
    let zones: HashSet<&str> = zones.collect();
    match zones.iter().next() {
        Some(zone) if zones.len() == 1 => measure.clone().in_zone(zone),
        _ => measure.clone(),
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

/// The schema of results over windows.
pub(super) fn output_schema(
    input: &Schema,
    by: &[usize],
    measure: &Measure,
    windows: &[(String, Window)],
    results: Vec<Field>,
) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = by
        .iter()
        .map(|&column| input.field(column))
        .map(|field| Field::new(field.name(), widened(field.data_type()), field.is_nullable()))
        .collect();
    if windows.len() > 1 {
        fields.push(Field::new("window_name", DataType::Utf8, false));
    }
    let all_sessions = windows.iter().all(|(_, window)| window.is_session());
    let window = if all_sessions { "session_window" } else { "window" };
    fields.push(Field::new(window, DataType::Struct(extent_fields(measure)), false));
    let ranked = windows.iter().filter(|(_, window)| window.is_ranked()).count();
    if ranked > 0 {
        fields.push(Field::new("window_rows", DataType::Struct(rank_fields()), ranked < windows.len()));
    }
    joined(fields, results, false)
}

/// The schema of rows with all their columns, and then of results.
pub(super) fn with_results(rows: &Schema, results: Vec<Field>) -> Result<SchemaRef> {
    joined(rows.fields().iter().map(|field| field.as_ref().clone()).collect(), results, true)
}

/// The schema of these columns and then of aggregates, whose names must differ from all others; the columns may repeat
/// names among themselves if that is `allowed`.
fn joined(mut fields: Vec<Field>, results: Vec<Field>, allowed: bool) -> Result<SchemaRef> {
    let own = fields.len();
    fields.extend(results);
    let mut names = HashSet::new();
    let mut each = fields.iter().enumerate();
    let twice = each.find(|(at, field)| !names.insert(field.name().as_str()) && !(allowed && *at < own));
    match twice.map(|(_, field)| field) {
        Some(twice) => Err(Error::InvalidValue(format!(
            "aggs: the result would have two columns '{}'; give one of them another name with .alias()",
            twice.name()
        ))),
        None => Ok(Arc::new(Schema::new(fields))),
    }
}

/// Whether a column is, or holds within others, a dictionary whose values have an order of their own.
pub(super) fn has_own_order(field: &Field) -> bool {
    field.dict_is_ordered() == Some(true)
        || match field.data_type() {
            DataType::Struct(fields) => fields.iter().any(|field| has_own_order(field)),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                has_own_order(item)
            }
            _ => false,
        }
}
