//! Dictionary-encoded columns: what they hold, and what results over them are.

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
/// A dictionary stays one, with codes of 32 bits: a result joins the dictionaries of all batches, which may have more
/// values than the codes of one batch can tell apart.
pub(crate) fn widened(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => {
            let wide = DataType::Dictionary(DataType::Int32.into(), values.clone());
            if can_cast_types(values, &wide) { wide } else { values.as_ref().clone() }
        }
        other => other.clone(),
    }
}
