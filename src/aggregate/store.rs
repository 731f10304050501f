//! Values that partials point to: for functions whose result is one of the values they saw.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use crate::Result;

/// Where a value lies: chunk in the upper half, row in the lower.
pub(super) type Position = u64;

/// No value.
pub(super) const NOWHERE: Position = u64::MAX;

/// Rows that may pile up before those which no slot points to are dropped.
const SLACK: usize = 1 << 20;

/// Chunks of values. Clones share them.
#[derive(Clone)]
pub(super) struct Store {
    data_type: DataType,
    chunks: Arc<Vec<ArrayRef>>,
    rows: usize,
}

impl Store {
    pub(super) fn new(data_type: DataType) -> Self {
        Self { data_type, chunks: Arc::default(), rows: 0 }
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn chunks(&self) -> &[ArrayRef] {
        &self.chunks
    }

    /// Adds a chunk; its rows lie at the position returned and after.
    pub(super) fn push(&mut self, chunk: ArrayRef) -> Position {
        let base = (self.chunks.len() as Position) << 32;
        self.rows += chunk.len();
        Arc::make_mut(&mut self.chunks).push(chunk);
        base
    }

    /// Adds another store's chunks; its positions grow by what is returned.
    pub(super) fn append(&mut self, other: Store) -> Position {
        let base = (self.chunks.len() as Position) << 32;
        self.rows += other.rows;
        Arc::make_mut(&mut self.chunks).extend(other.chunks.iter().cloned());
        base
    }

    /// The values at these positions; null at [`NOWHERE`].
    pub(super) fn take(&self, positions: impl Iterator<Item = Position>) -> Result<ArrayRef> {
        let nothing = new_null_array(&self.data_type, 1);
        let arrays: Vec<&dyn Array> = self.chunks.iter().chain([&nothing]).map(AsRef::as_ref).collect();
        let indices: Vec<(usize, usize)> = positions
            .map(|position| match position {
                NOWHERE => (arrays.len() - 1, 0),
                _ => ((position >> 32) as usize, (position & 0xffff_ffff) as usize),
            })
            .collect();
        Ok(interleave(&arrays, &indices)?)
    }

    /// Drops values that none of the `live` positions points to, once they are most of the store. Amortised O(1) per
    /// row pushed.
    pub(super) fn compact<'a>(
        &mut self,
        live: usize,
        positions: impl Iterator<Item = &'a mut Position>,
    ) -> Result<()> {
        if self.rows < 2 * live + SLACK {
            return Ok(());
        }
        self.squeeze(positions)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.get_array_memory_size()).sum()
    }

    /// Drops values that none of the positions points to.
    pub(super) fn squeeze<'a>(&mut self, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        let mut positions: Vec<&mut Position> = positions.filter(|position| **position != NOWHERE).collect();
        // Positions are also arrival numbers: their order must stay.
        positions.sort_unstable_by_key(|position| **position);
        let kept = self.take(positions.iter().map(|position| **position))?;
        (self.rows, self.chunks) = (kept.len(), Arc::new(vec![kept]));
        for (row, position) in positions.into_iter().enumerate() {
            *position = row as Position;
        }
        Ok(())
    }
}
