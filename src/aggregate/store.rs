//! Values that partials point to: for functions whose result is one of the values they saw.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, OffsetSizeTrait, StructArray, cast::AsArray, new_null_array};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::partials::Upkeep;
use crate::Result;
use crate::poll::{PIECE, Poll, never};
use crate::select::{concat, interleave};

/// Where a value is stored: chunk in the upper half, row in the lower.
pub(super) type Position = u64;

/// No value.
pub(super) const NOWHERE: Position = u64::MAX;

/// Rows that may accumulate before those that no slot points to are dropped.
const SLACK: usize = 4096;

/// Bytes of values of variable width that may accumulate before the same is done, however few the rows.
const SLACK_BYTES: usize = 32 << 20;

/// Chunks of values. Clones share them.
#[derive(Clone)]
pub(super) struct Store {
    data_type: DataType,
    chunks: Arc<Vec<ArrayRef>>,
    rows: usize,
    /// Bytes of values of variable width: those remaining after the last drop, and those added since.
    kept: usize,
    fresh: usize,
}

impl Store {
    pub(super) fn new(data_type: DataType) -> Self {
        Self { data_type, chunks: Arc::default(), rows: 0, kept: 0, fresh: 0 }
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn chunks(&self) -> &[ArrayRef] {
        &self.chunks
    }

    /// Adds a chunk; returns the position of its first row.
    pub(super) fn push(&mut self, chunk: ArrayRef) -> Position {
        let base = (self.chunks.len() as Position) << 32;
        self.rows += chunk.len();
        self.fresh += variable_bytes(&chunk);
        Arc::make_mut(&mut self.chunks).push(chunk);
        base
    }

    /// Adds another store's chunks; returns the offset to add to its positions.
    pub(super) fn append(&mut self, other: Store) -> Position {
        let base = (self.chunks.len() as Position) << 32;
        self.rows += other.rows;
        self.fresh += other.kept + other.fresh;
        Arc::make_mut(&mut self.chunks).extend(other.chunks.iter().cloned());
        base
    }

    /// The values at these positions; null at [`NOWHERE`].
    pub(super) fn take(&self, positions: impl Iterator<Item = Position>) -> Result<ArrayRef> {
        self.take_polling(positions, never)
    }

    /// As [`Store::take`], of any number of positions: `poll` is called before each piece.
    pub(super) fn take_polling(
        &self,
        positions: impl Iterator<Item = Position>,
        poll: Poll,
    ) -> Result<ArrayRef> {
        let nothing = new_null_array(&self.data_type, 1);
        let arrays: Vec<&dyn Array> = self.chunks.iter().chain([&nothing]).map(AsRef::as_ref).collect();
        let mut places = positions.map(|position| match position {
            NOWHERE => (arrays.len() - 1, 0),
            _ => ((position >> 32) as usize, (position & 0xffff_ffff) as usize),
        });
        let mut pieces = Vec::new();
        loop {
            poll()?;
            let indices: Vec<(usize, usize)> = places.by_ref().take(PIECE).collect();
            pieces.push(interleave(&arrays, &indices)?);
            if indices.len() < PIECE {
                break;
            }
        }
        match &pieces[..] {
            [only] => Ok(only.clone()),
            _ => Ok(concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        }
    }

    /// Compacts the values, given the positions in use, of which there are about `live`.
    pub(super) fn keep_up<'a>(
        &mut self,
        what: Upkeep,
        live: usize,
        positions: impl Iterator<Item = &'a mut Position>,
    ) -> Result<()> {
        match what {
            Upkeep::Settle => Ok(()),
            Upkeep::Compact => self.compact(live, positions),
            Upkeep::Shrink => self.squeeze(positions),
            Upkeep::Renumber => self.renumber(positions),
        }
    }

    /// Drops values that none of the `live` positions points to, once they are most of the store, by rows or, where
    /// they are wide, by bytes. Amortised O(1) per row, or byte, pushed.
    fn compact<'a>(&mut self, live: usize, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        if self.rows <= 4 * live + SLACK && self.fresh <= self.kept + SLACK_BYTES {
            return Ok(());
        }
        self.squeeze(positions)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        held_bytes(self.chunks.iter())
    }

    /// Keeps only the values at these positions, which ascend. O(positions).
    fn renumber<'a>(&mut self, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        let positions: Vec<&mut Position> = positions.filter(|position| **position != NOWHERE).collect();
        let kept = self.take(positions.iter().map(|position| **position))?;
        self.hold(kept);
        positions.into_iter().zip(0..).for_each(|(position, at)| *position = at);
        Ok(())
    }

    /// Drops values that none of the positions points to. O(positions + values).
    fn squeeze<'a>(&mut self, positions: impl Iterator<Item = &'a mut Position>) -> Result<()> {
        let positions: Vec<&mut Position> = positions.filter(|position| **position != NOWHERE).collect();
        // Positions are also arrival numbers, so their order must be preserved: each becomes its rank among the
        // existing ones.
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
        self.hold(kept);
        for position in positions {
            let number = number(*position);
            let lower = live[number / 64] & ((1 << (number % 64)) - 1);
            *position = ranks[number / 64] as Position + Position::from(lower.count_ones());
        }
        Ok(())
    }

    /// Holds only these values.
    fn hold(&mut self, kept: ArrayRef) {
        (self.kept, self.fresh) = (variable_bytes(&kept), 0);
        (self.rows, self.chunks) = (kept.len(), Arc::new(vec![kept]));
    }
}

/// Bytes of values of variable width, of a slice its own; 0 of values of a fixed width, which rows count well enough.
fn variable_bytes(values: &ArrayRef) -> usize {
    let lengths = |views: &[u128]| views.iter().map(|&view| size_of::<u128>() + view as u32 as usize).sum();
    match values.data_type() {
        DataType::Utf8View => lengths(values.as_string_view().views()),
        DataType::BinaryView => lengths(values.as_binary_view().views()),
        DataType::List(_) => list_bytes::<i32>(values),
        DataType::LargeList(_) => list_bytes::<i64>(values),
        DataType::Struct(_) => values.as_struct().columns().iter().map(variable_bytes).sum(),
        other if other.primitive_width().is_some() => 0,
        _ => {
            let data = values.to_data();
            data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size())
        }
    }
}

/// Including the items, as a slice of lists keeps all of them.
fn list_bytes<O: OffsetSizeTrait>(values: &ArrayRef) -> usize {
    let lists = values.as_list::<O>();
    let (from, to) = (lists.offsets()[0].as_usize(), lists.offsets()[lists.len()].as_usize());
    let items = lists.values().slice(from, to - from);
    let fixed = items.data_type().primitive_width().map_or(0, |width| width * items.len());
    size_of_val(&lists.offsets()[..]) + fixed + variable_bytes(&items)
}

/// The sum of the counts before each.
fn before(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    let sums = counts.scan(0, |sum, count| {
        *sum += count;
        Some(*sum - count)
    });
    sums.collect()
}

/// Views that hold only their own bytes: views taken from others would keep everything those referred to.
fn unshared(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let structs = values.as_struct();
            let columns = structs.columns().iter().cloned().map(unshared).collect();
            Arc::new(StructArray::new(fields.clone(), columns, structs.nulls().cloned()))
        }
        _ => values,
    }
}

/// Bytes held by arrays. A buffer shared by several is counted once, and in full, since it is held in full.
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
    use arrow_array::{Int64Array, ListArray, StringArray, StringViewArray, types::Int64Type};
    use arrow_schema::Field;

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
    fn wide_values_are_dropped_by_bytes() {
        // 100 pushes of 8 texts of 1 MiB each, only the last of which is in use.
        let mut store = Store::new(DataType::Utf8);
        let mut last = NOWHERE;
        for push in 0..100 {
            let wide = |n: i32| format!("{n}{}", " ".repeat(1 << 20));
            let texts = StringArray::from_iter_values((8 * push..8 * push + 8).map(wide));
            last = store.push(Arc::new(texts)) + 7;
            store.compact(1, [&mut last].into_iter()).unwrap();
            assert!(store.bytes() < 3 * SLACK_BYTES, "{} bytes of one text", store.bytes());
        }
        let value = store.take([last].into_iter()).unwrap();
        assert_eq!(value.as_string::<i32>().value(0).trim_end(), "799");
    }

    #[test]
    fn a_slice_has_its_own_bytes() {
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>((0..100).map(|n| Some(vec![Some(n); 9])));
        let lists: ArrayRef = Arc::new(lists);
        assert_eq!(variable_bytes(&lists.slice(50, 10)), 10 * 9 * 8 + 11 * 4);
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values(["long enough to be elsewhere", "", "b"]));
        assert_eq!(variable_bytes(&texts.slice(0, 1)), 27 + 2 * 4);
        let views: ArrayRef =
            Arc::new(StringViewArray::from_iter_values(["long enough to be elsewhere", "b"]));
        assert_eq!(variable_bytes(&views.slice(0, 1)), 27 + 16);
        let fixed: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        assert_eq!(variable_bytes(&fixed), 0);
        let fields = [&fixed, &lists].map(|each| Field::new("field", each.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::new(fields.to_vec().into(), vec![fixed, lists], None));
        assert_eq!(variable_bytes(&rows.slice(50, 10)), 10 * 9 * 8 + 11 * 4);
    }

    #[test]
    fn what_is_kept_of_views_holds_no_more_than_its_own_bytes() {
        let long: Vec<String> =
            (0..10_000).map(|n| format!("a text that is too long for a view: {n}")).collect();
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&long));
        let field = Arc::new(Field::new("text", DataType::Utf8View, true));
        let rows: ArrayRef = Arc::new(StructArray::from(vec![(field, views.clone())]));
        for values in [views, rows] {
            let mut store = Store::new(values.data_type().clone());
            let base = store.push(values);
            let mut kept = [base + 7, NOWHERE, base + 9_000];
            store.compact(2, kept.iter_mut()).unwrap();
            assert!(store.bytes() < 2_000, "{} bytes of two texts", store.bytes());
            let values = store.take(kept.into_iter()).unwrap();
            let values = values.as_struct_opt().map_or(&values, |rows| rows.column(0));
            let values: Vec<Option<&str>> = values.as_string_view().iter().collect();
            assert_eq!(values, [Some(long[7].as_str()), None, Some(long[9_000].as_str())]);
        }
    }
}
