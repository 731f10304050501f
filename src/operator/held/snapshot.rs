//! Held rows in snapshots.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, UInt64Array, cast::AsArray};
use arrow_schema::DataType;

use super::contents;
use super::entry::{Address, Entry};
use super::store::Store;
use crate::Result;
use crate::interrupt::{Pace, check};
#[cfg(test)]
use crate::state::Envelope;
use crate::state::{PART, Reader, Writer, broken};

impl Store {
    /// Writes the stored rows.
    pub(in crate::operator) fn write(&self, writer: &mut Writer) -> Result<()> {
        // In parts, so that none takes long to write.
        let parts = |rows: usize| rows.div_ceil(PART).max(1);
        writer.value(&self.chunks().map(|(_, chunk)| parts(chunk.rows)).sum::<usize>());
        let (mut numbers, mut number) = (vec![0; self.next_chunk()], 0);
        for (at, chunk) in self.chunks() {
            numbers[at] = number as u32;
            for part in 0..parts(chunk.rows) {
                check()?;
                let from = part * PART;
                let rows = PART.min(chunk.rows - from);
                writer
                    .columns(chunk.columns.iter().map(|column| column.slice(from, rows)).collect(), rows)?;
            }
            number += parts(chunk.rows);
        }
        let (mut keys, mut places, mut orders) = (Vec::new(), Vec::new(), Vec::new());
        let (mut chunks, mut rows, mut met) = (Vec::new(), Vec::new(), Vec::new());
        let mut pace = Pace::new();
        for (key, Entry { place, order, at, met: partners, .. }) in self.entries() {
            pace.check(1)?;
            keys.push(key);
            places.push(*place);
            orders.push(*order);
            chunks.push(numbers[at.chunk as usize] + at.row / PART as u32);
            rows.push(at.row % PART as u32);
            met.push(*partners);
        }
        let count = keys.len();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(keys)),
            Arc::new(Int64Array::from(places)),
            Arc::new(UInt64Array::from(orders)),
            Arc::new(UInt32Array::from(chunks)),
            Arc::new(UInt32Array::from(rows)),
            Arc::new(UInt32Array::from(met)),
        ];
        writer.columns(columns, count)
    }

    /// Reads stored rows, whose columns have these types, of so many keys; `by_content` if they are looked up by their
    /// columns.
    pub(in crate::operator) fn read(
        reader: &mut Reader<'_>,
        kinds: &[&DataType],
        keys: usize,
        by_content: bool,
    ) -> Result<Self> {
        let (mut store, mut hashes) = (Self::default(), Vec::new());
        let parts: usize = reader.value()?;
        for _ in 0..parts {
            let (columns, rows) = reader.columns()?;
            let own = columns.iter().map(|column| column.data_type());
            if !own.eq(kinds.iter().copied()) {
                return broken();
            }
            if by_content {
                hashes.push(contents(&columns, rows)?);
            }
            store.push_chunk(columns, rows);
        }
        let (columns, rows) = reader.columns()?;
        let types = [
            DataType::UInt32,
            DataType::Int64,
            DataType::UInt64,
            DataType::UInt32,
            DataType::UInt32,
            DataType::UInt32,
        ];
        let own = columns.iter().map(|column| column.data_type());
        if !own.eq(types.iter()) || columns.iter().any(|column| column.null_count() > 0) {
            return broken();
        }
        let (mut entries, mut pace) = (Vec::with_capacity(rows), Pace::new());
        for row in 0..rows {
            pace.check(1)?;
            let number = |at: usize| columns[at].as_primitive::<UInt32Type>().value(row);
            let place = columns[1].as_primitive::<Int64Type>().value(row);
            let order = columns[2].as_primitive::<UInt64Type>().value(row);
            let at = Address { chunk: number(3), row: number(4) };
            let content = match by_content {
                true => hashes.get(at.chunk as usize).and_then(|hashes| hashes.get(at.row as usize)).copied(),
                false => Some(0),
            };
            let Some(content) = content else { return broken() };
            entries.push((number(0), Entry { place, order, at, met: number(5), content }));
        }
        store.restore(entries, keys)?;
        Ok(store)
    }
}

/// A snapshot some bytes of whose body were changed, with a checksum that fits.
#[cfg(test)]
pub(in crate::operator) fn forged(
    envelope: &Envelope,
    snapshot: Vec<u8>,
    damage: &[(proptest::sample::Index, u8)],
) -> Vec<u8> {
    let mut bytes = Envelope::room();
    bytes.extend_from_slice(envelope.open(&snapshot).expect("a snapshot").rest());
    let room = Envelope::room().len();
    damage.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes[room..]) = *byte);
    envelope.seal(bytes)
}
