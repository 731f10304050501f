//! Values that partials point to: for functions whose result is one of the values they saw.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray, new_null_array};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use crate::Result;

/// Where a value lies: chunk in the upper half, row in the lower.
pub(super) type Position = u64;

/// No value.
pub(super) const NOWHERE: Position = u64::MAX;

/// Rows that may pile up before those which no slot points to are dropped.
const SLACK: usize = 4096;

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
        if self.rows <= 4 * live + SLACK {
            return Ok(());
        }
        self.squeeze(positions)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        held_bytes(self.chunks.iter())
    }

    /// Keeps the values at these positions alone, each after those before it. O(positions).
    pub(super) fn renumber<'a>(&mut self, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        let positions: Vec<&mut Position> = positions.filter(|position| **position != NOWHERE).collect();
        let kept = self.take(positions.iter().map(|position| **position))?;
        (self.rows, self.chunks) = (kept.len(), Arc::new(vec![kept]));
        positions.into_iter().zip(0..).for_each(|(position, at)| *position = at);
        Ok(())
    }

    /// Drops values that none of the positions points to. O(positions + values).
    pub(super) fn squeeze<'a>(&mut self, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        let positions: Vec<&mut Position> = positions.filter(|position| **position != NOWHERE).collect();
        // Positions are also arrival numbers: their order must stay. So each becomes its rank among those there are.
        let starts = before(self.chunks.iter().map(|chunk| chunk.len()));
        let rows: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
        let number =
            |position: Position| starts[(position >> 32) as usize] + (position & 0xffff_ffff) as usize;
        let mut live = vec![0u64; rows.div_ceil(64)];
        for position in &positions {
            let number = number(**position);
            live[number / 64] |= 1 << (number % 64);
        }
        let ranks = before(live.iter().map(|word| word.count_ones() as usize));
        let is_live = |number: usize| live[number / 64] >> (number % 64) & 1 == 1;
        let each = (0..).zip(&starts).zip(self.chunks.iter()).flat_map(|((chunk, &start), values)| {
            let rows = (0..values.len()).filter(move |row| is_live(start + row));
            rows.map(move |row| (chunk as Position) << 32 | row as Position)
        });
        let kept = unshared(self.take(each)?);
        (self.rows, self.chunks) = (kept.len(), Arc::new(vec![kept]));
        for position in positions {
            let number = number(*position);
            let lower = live[number / 64] & ((1 << (number % 64)) - 1);
            *position = ranks[number / 64] as Position + Position::from(lower.count_ones());
        }
        Ok(())
    }
}

/// The sum of the counts before each.
fn before(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    let sums = counts.scan(0, |sum, count| {
        *sum += count;
        Some(*sum - count)
    });
    sums.collect()
}

/// Views that hold no bytes but their own: taken from others they hold all that these did.
fn unshared(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}

/// Bytes that arrays hold. A buffer of which several hold a part is counted once, and whole, since it is held whole.
pub(crate) fn held_bytes<'a>(arrays: impl Iterator<Item = &'a ArrayRef>) -> usize {
    fn count(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let own = data.buffers().iter().chain(nulls);
        let own: usize = own
            .filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize))
            .map(|buffer| buffer.capacity())
            .sum();
        own + data.child_data().iter().map(|child| count(child, seen)).sum::<usize>()
    }
    let mut seen = HashSet::new();
    arrays.map(|array| size_of_val(&**array) + count(&array.to_data(), &mut seen)).sum()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn a_buffer_that_pieces_share_is_counted_once() {
        let whole: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let mut store = Store::new(DataType::Int64);
        for from in (0..10_000).step_by(100) {
            store.push(whole.slice(from, 100));
        }
        let bytes = store.bytes();
        assert!((80_000..100_000).contains(&bytes), "{bytes} bytes of 80,000");
    }

    #[test]
    fn what_is_kept_of_views_holds_no_more_than_its_own_bytes() {
        let long: Vec<String> =
            (0..10_000).map(|n| format!("a text that is too long for a view: {n}")).collect();
        let mut store = Store::new(DataType::Utf8View);
        let base = store.push(Arc::new(StringViewArray::from_iter_values(&long)));
        let mut kept = [base + 7, NOWHERE, base + 9_000];
        store.compact(2, kept.iter_mut()).unwrap();
        assert!(store.bytes() < 2_000, "{} bytes of two texts", store.bytes());
        let values = store.take(kept.into_iter()).unwrap();
        let values: Vec<Option<&str>> = values.as_string_view().iter().collect();
        assert_eq!(values, [Some(long[7].as_str()), None, Some(long[9_000].as_str())]);
    }
}
