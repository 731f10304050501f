//! Dictionary-encoded columns: the types of their values, and of results over them.

use arrow_cast::can_cast_types;
use arrow_schema::DataType;

/// The type of a dictionary's values; any other type as it is.
pub(crate) fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The type of a result that holds values of a column of this type.
///
/// A dictionary stays one, with codes of 32 bits: a result combines the dictionaries of all batches, which may have
/// more values than the code type of one batch can number.
pub(crate) fn widened(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => {
            let wide = DataType::Dictionary(DataType::Int32.into(), values.clone());
            if can_cast_types(values, &wide) { wide } else { values.as_ref().clone() }
        }
        other => other.clone(),
    }
}
