//! The rows of all keys in the order they came, column by column.
//!
//! A row is known by its arrival number, which grows from row to row: so it also says which of two rows of one time comes
//! first. Chunks next to each other become one while they are small; rows that no key has any longer are dropped once
//! they are most of what is held.

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array, new_null_array};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::Result;

/// Rows of a chunk, at most, that was put together from others.
const CHUNK: usize = 1 << 20;

/// Rows without a key that may gather.
const SLACK: usize = 4096;

/// Rows that came one after the other.
#[derive(Debug, Clone)]
struct Chunk {
    first: u64,
    rows: usize,
    columns: Vec<ArrayRef>,
}

/// Rows, by arrival.
#[derive(Debug, Clone)]
pub(super) struct Heap {
    /// Positions of the columns in the schema of the stream, ascending.
    read: Vec<usize>,
    types: Vec<DataType>,
    chunks: Vec<Chunk>,
    next: u64,
}

impl Heap {
    /// No rows, of the columns at these positions, of these types.
    pub(super) fn new(read: Vec<usize>, types: Vec<DataType>) -> Self {
        Self { read, types, chunks: Vec::new(), next: 0 }
    }

    /// The positions of its columns in the schema of the stream.
    pub(super) fn read(&self) -> &[usize] {
        &self.read
    }

    /// The types of its columns.
    pub(super) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The arrival number of the next row.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Rows held.
    pub(super) fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.chunks.iter().flat_map(|chunk| &chunk.columns);
        columns.map(|column| column.get_array_memory_size()).sum()
    }

    /// Takes in rows: its columns, in the order of `read`.
    pub(super) fn push(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let columns = columns.iter().zip(&self.types).map(|(column, wanted)| {
            Ok(if column.data_type() == wanted { column.clone() } else { cast(column, wanted)? })
        });
        let columns = columns.collect::<Result<_>>()?;
        if rows > 0 {
            self.chunks.push(Chunk { first: self.next, rows, columns });
            self.next += rows as u64;
        }
        Ok(())
    }

    /// The same rows with the columns of another heap; those that these rows have not are null.
    pub(super) fn with(&self, other: &Self) -> Self {
        let column =
            |chunk: &Chunk, position: &usize, wanted: &DataType| match self.read.binary_search(position) {
                Ok(at) => chunk.columns[at].clone(),
                Err(_) => new_null_array(wanted, chunk.rows),
            };
        let chunks = self.chunks.iter().map(|chunk| Chunk {
            columns: other
                .read
                .iter()
                .zip(&other.types)
                .map(|(at, wanted)| column(chunk, at, wanted))
                .collect(),
            ..chunk.clone()
        });
        Self { chunks: chunks.collect(), next: self.next, ..other.clone() }
    }

    /// Takes back the rows from arrival number `from` on, which is that of a chunk's first row, or of the next row.
    pub(super) fn take_back(&mut self, from: u64) {
        self.chunks.retain(|chunk| chunk.first < from);
        self.next = from;
    }

    /// The column at a position of the stream's schema, of these rows.
    pub(super) fn column(&self, position: usize, ats: &[u64]) -> Result<ArrayRef> {
        let Ok(at) = self.read.binary_search(&position) else {
            return Err(crate::Error::Internal(format!("column {position} is not kept")));
        };
        self.picked(at, ats)
    }

    fn picked(&self, column: usize, ats: &[u64]) -> Result<ArrayRef> {
        let (Some(&least), Some(&most)) = (ats.iter().min(), ats.iter().max()) else {
            return Ok(new_empty_array(&self.types[column]));
        };
        let (from, to) = (self.chunk_of(least), self.chunk_of(most));
        if from == to {
            let chunk = &self.chunks[from];
            let array = &chunk.columns[column];
            let follows = |pair: &[u64]| pair[1] == pair[0] + 1;
            if ats.windows(2).all(follows) {
                return Ok(array.slice((least - chunk.first) as usize, ats.len()));
            }
            let places: UInt32Array = ats.iter().map(|&at| Some((at - chunk.first) as u32)).collect();
            return Ok(take(array, &places, None)?);
        }
        let arrays: Vec<&dyn Array> =
            self.chunks[from..=to].iter().map(|chunk| chunk.columns[column].as_ref()).collect();
        let places: Vec<(usize, usize)> = ats
            .iter()
            .map(|&at| {
                let chunk = self.chunk_of(at);
                (chunk - from, (at - self.chunks[chunk].first) as usize)
            })
            .collect();
        Ok(interleave(&arrays, &places)?)
    }

    fn chunk_of(&self, at: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= at) - 1
    }

    /// Joins small chunks; amortised O(log n) per row. Should Arrow not be able to, they stay as they are.
    pub(super) fn join(&mut self) {
        while let [.., a, b] = &self.chunks[..] {
            if a.rows > 2 * b.rows || a.rows + b.rows > CHUNK {
                return;
            }
            let columns = a.columns.iter().zip(&b.columns).map(|(a, b)| concat(&[a.as_ref(), b.as_ref()]));
            let Ok(columns) = columns.collect() else { return };
            let joined = Chunk { first: a.first, rows: a.rows + b.rows, columns };
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push(joined);
        }
    }

    /// Whether rows without a key are most of the rows, if `live` have one.
    pub(super) fn is_loose(&self, live: usize) -> bool {
        self.rows() > 2 * live + SLACK
    }

    /// The same rows without those that are not among `live`, which ascend: the n-th of them gets number n.
    pub(super) fn squeezed(&self, live: &[u64]) -> Result<Self> {
        let mut squeezed = Self::new(self.read.clone(), self.types.clone());
        for ats in live.chunks(CHUNK) {
            let columns =
                (0..self.types.len()).map(|column| self.picked(column, ats)).collect::<Result<Vec<_>>>()?;
            squeezed.push(&columns, ats.len())?;
        }
        Ok(squeezed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
    use std::sync::Arc;

    fn column(values: std::ops::Range<i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    /// Whatever is joined, taken back and dropped, a row is found by its number.
    #[test]
    fn rows_are_found_by_their_numbers() {
        let mut heap = Heap::new(vec![3], vec![DataType::Int64]);
        let mut end = 0;
        for rows in [5, 1, 1, 1, 7, 30, 2, 2] {
            heap.push(&[column(end..end + rows)], rows as usize).unwrap();
            end += rows;
            heap.join();
        }
        let before = heap.next();
        heap.push(&[column(900..903)], 3).unwrap();
        heap.take_back(before);
        assert_eq!((heap.next(), heap.rows()), (49, 49));
        let read = |heap: &Heap, ats: &[u64]| {
            heap.column(3, ats).unwrap().as_primitive::<Int64Type>().values().to_vec()
        };
        assert_eq!(read(&heap, &[48, 0, 6, 7, 8]), [48, 0, 6, 7, 8]);
        assert_eq!(read(&heap, &[10, 11, 12]), [10, 11, 12]);
        assert_eq!(read(&heap, &[]), [0i64; 0]);
        let odd: Vec<u64> = (0..49).filter(|at| at % 2 == 1).collect();
        let squeezed = heap.squeezed(&odd).unwrap();
        assert_eq!((squeezed.next(), squeezed.rows()), (24, 24));
        assert_eq!(read(&squeezed, &[23, 0, 5]), [47, 1, 11]);
        assert!(heap.column(2, &[0]).is_err());
    }
}
