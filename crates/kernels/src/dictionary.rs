//! Dictionary-encoded columns: the types of their values, and of results over them.

use std::sync::Arc;

use arrow_cast::can_cast_types;
use arrow_schema::{DataType, FieldRef};

/// The type of a dictionary's values; any other type as it is.
pub fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The type of a result that holds values of a column of this type.
///
/// A dictionary stays one, also within other types, with codes of 32 bits: a result combines the dictionaries of all
/// batches, which may have more values than the code type of one batch can number.
pub fn widened(data_type: &DataType) -> DataType {
    let within = |field: &FieldRef| -> FieldRef {
        let wide = widened(field.data_type());
        if &wide == field.data_type() {
            field.clone()
        } else {
            Arc::new(field.as_ref().clone().with_data_type(wide))
        }
    };
    match data_type {
        DataType::Dictionary(_, values) => {
            let wide = DataType::Dictionary(DataType::Int32.into(), values.clone());
            if can_cast_types(values, &wide) { wide } else { values.as_ref().clone() }
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(within).collect()),
        DataType::List(item) => DataType::List(within(item)),
        DataType::LargeList(item) => DataType::LargeList(within(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(within(item), *size),
        other => other.clone(),
    }
}

/// The type in which values of two columns are compared: that of both or, of strings and of binaries of any layout, one
/// that holds both. Their row encoding is the same then. Nulls without a type are compared in that of the other.
pub fn compared(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (plain(&widened(one)), plain(&widened(other))) {
        (own, other) if own == other => Some(own.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(LargeUtf8),
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => Some(LargeBinary),
        _ => None,
    }
}
