//! How many rows a batch of results has where answers or keys are of variable size.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::BATCH_ROWS;
use crate::{Error, Result};

/// Approximate bytes of a batch of results where answers or keys are of variable size: far below what 32-bit offsets
/// can hold.
pub(in crate::operator) const BATCH_BYTES: usize = 64 << 20;

/// Rows of the first batch of a block, while the size of its answers is unknown: one may list millions of values.
const FIRST_ROWS: usize = 4;

/// By how much a batch may have more rows than the one before it, as later answers may be larger.
const GROWTH: usize = 16;

/// How many rows the next batch may have, by the size of those before.
pub(in crate::operator) struct Size(usize);

impl Size {
    /// Of the first batch.
    #[allow(
        clippy::new_without_default,
        reason = "a default suggests a value, and this changes with each batch"
    )]
    pub(in crate::operator) fn new() -> Self {
        Self(FIRST_ROWS)
    }

    /// At least 1.
    pub(in crate::operator) fn rows(&self) -> usize {
        self.0
    }

    /// After a batch of so many rows, whose columns of variable size have so many bytes.
    pub(in crate::operator) fn follow(&mut self, rows: usize, bytes: usize) {
        let each = bytes / rows + 1;
        self.0 = (BATCH_BYTES / each).clamp(1, BATCH_ROWS).min(rows.saturating_mul(GROWTH));
    }

    /// After an overflow of so many rows, at least two: a single answer may be much larger than those before it, and a
    /// sum may overflow; a batch of one row shows which.
    pub(in crate::operator) fn halve(&mut self, rows: usize) {
        self.0 = rows / 2;
    }
}

/// Makes results of some rows at once or, where one array cannot hold these, half of them at a time.
///
/// # Errors
/// Errors of `make`; `Overflow` only for a single row.
pub(in crate::operator) fn in_parts(
    rows: Range<usize>,
    make: &mut impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    match make(rows.clone()) {
        Err(Error::Overflow(_)) if rows.len() > 1 => {
            let middle = rows.start + rows.len() / 2;
            in_parts(rows.start..middle, make)?;
            in_parts(middle..rows.end, make)
        }
        made => made,
    }
}

/// Whether values of a type are of variable size.
pub(in crate::operator) fn varies(kind: &DataType) -> bool {
    match kind {
        DataType::Struct(fields) => fields.iter().any(|field| varies(field.data_type())),
        DataType::FixedSizeList(item, _) => varies(item.data_type()),
        // A key's values are shared.
        DataType::Dictionary(..) => false,
        DataType::FixedSizeBinary(_) | DataType::Boolean | DataType::Null => false,
        other => other.primitive_width().is_none(),
    }
}

/// Bytes of the columns of variable size; arrays shared with others are not counted.
pub(in crate::operator) fn bytes(columns: &[ArrayRef]) -> usize {
    let columns = columns.iter().filter(|column| varies(column.data_type()));
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX >> 8)).sum()
}
