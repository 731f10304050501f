//! How results are divided: into blocks of keys, and into batches, whose rows are fewer where answers or keys are of variable
//! size.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::slice::KeyOrder;
use crate::{Error, Result};

/// Rows in a batch of results, at most: what crosses a boundary fastest.
pub const BATCH_ROWS: usize = 65_536;

/// Approximate bytes of a batch of results where answers or keys are of variable size: far below what 32-bit offsets
/// can hold.
pub(super) const BATCH_BYTES: usize = 64 << 20;

/// Rows of the first batch of a block, while the size of its answers is unknown: one may list millions of values.
const FIRST_ROWS: usize = 4;

/// By how much a batch may have more rows than the one before it, as later answers may be larger.
const GROWTH: usize = 16;

/// How many rows the next batch may have, by the size of those before.
pub(super) struct Size(usize);

impl Size {
    /// The size of the first batch.
    #[allow(
        clippy::new_without_default,
        reason = "a default suggests a value, and this changes with each batch"
    )]
    pub(super) fn new() -> Self {
        Self(FIRST_ROWS)
    }

    /// At least 1.
    pub(super) fn rows(&self) -> usize {
        self.0
    }

    /// After a batch of so many rows, whose columns of variable size have so many bytes.
    pub(super) fn follow(&mut self, rows: usize, bytes: usize) {
        let each = bytes / rows + 1;
        self.0 = (BATCH_BYTES / each).clamp(1, BATCH_ROWS).min(rows.saturating_mul(GROWTH));
    }

    /// After an overflow of so many rows, at least two: a single answer may be much larger than those before it, and a
    /// sum may overflow; a batch of one row shows which.
    pub(super) fn halve(&mut self, rows: usize) {
        self.0 = rows / 2;
    }
}

/// Makes results of some rows at once or, where one array cannot hold these, half of them at a time.
///
/// # Errors
/// Errors of `make`; `Overflow` only for a single row.
pub(super) fn in_parts(rows: Range<usize>, make: &mut impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
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
pub(super) fn varies(kind: &DataType) -> bool {
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
pub(super) fn bytes(columns: &[ArrayRef]) -> usize {
    let columns = columns.iter().filter(|column| varies(column.data_type()));
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX >> 8)).sum()
}

/// Blocks of keys of at least so many slots each in all of these orders of the same keys, but for the last: their first
/// keys, and the end.
pub(super) fn cut(orders: &[&KeyOrder], slots: usize) -> Vec<usize> {
    let keys = orders[0].bounds.len() - 1;
    let mut blocks = vec![0];
    let before = |key: usize| orders.iter().map(|order| order.bounds[key]).sum::<usize>();
    for key in 0..keys {
        if before(key + 1) - before(*blocks.last().expect("begins with 0")) >= slots || key + 1 == keys {
            blocks.push(key + 1);
        }
    }
    blocks
}
