//! The tuple store: the rows of all keys in order of arrival, column by column.
//!
//! A row is identified by its arrival number, which increases from row to row and so also orders rows with equal times.
//! Small neighbouring chunks are merged; rows that no key needs any longer are dropped once they are the majority.

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray, new_empty_array, new_null_array};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::Result;
use crate::memory::attempted;
use crate::operator::plan::Stored;
use crate::select::{concat, interleave, take};
use crate::window::ReadRows;

/// Largest number of rows of a merged chunk.
const CHUNK: usize = 1 << 20;

/// Rows without a key that may accumulate.
const SLACK: usize = 4096;

/// Rows that arrived one after the other.
#[derive(Debug, Clone)]
struct Chunk {
    first: u64,
    rows: usize,
    columns: Vec<ArrayRef>,
}

/// Rows, by arrival.
#[derive(Debug, Clone)]
pub(super) struct TupleStore {
    /// Positions of the columns in the schema of the stream, ascending.
    read: Vec<usize>,
    types: Vec<DataType>,
    chunks: Vec<Chunk>,
    next: u64,
}

impl TupleStore {
    /// No rows, of the columns at these positions, of these types.
    pub(super) fn new(read: Vec<usize>, types: Vec<DataType>) -> Self {
        Self { read, types, chunks: Vec::new(), next: 0 }
    }

    /// The positions of its columns in the schema of the stream.
    pub(super) fn read_columns(&self) -> &[usize] {
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

    /// Adds rows: the columns of each batch, in the order of `read`; all batches become one chunk.
    pub(super) fn push(&mut self, batches: &[Vec<ArrayRef>], rows: usize) -> Result<()> {
        let one = |(column, wanted): (usize, &DataType)| -> Result<ArrayRef> {
            let own = batches.iter().map(|batch| match &batch[column] {
                own if own.data_type() == wanted => Ok(own.clone()),
                own => Ok(cast(own, wanted)?),
            });
            let own = own.collect::<Result<Vec<ArrayRef>>>()?;
            match &own[..] {
                [one] => Ok(one.clone()),
                all => Ok(concat(&all.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
            }
        };
        if rows > 0 {
            let columns = self.types.iter().enumerate().map(one).collect::<Result<_>>()?;
            self.chunks.push(Chunk { first: self.next, rows, columns });
            self.next += rows as u64;
        }
        Ok(())
    }

    /// These rows with the columns of another store; columns missing from these rows are null.
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

    /// Removes the rows from arrival number `from` on, which is that of a chunk's first row, or of the next row.
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

    /// The column at a position of the stream's schema, of `rows` rows that were taken in together.
    pub(super) fn stretch(&self, position: usize, from: u64, rows: usize) -> Result<ArrayRef> {
        let known = self.read.binary_search(&position).ok();
        let chunk = self.chunks.last().filter(|chunk| chunk.first <= from && from + rows as u64 <= self.next);
        match (known, chunk) {
            (Some(at), Some(chunk)) => Ok(chunk.columns[at].slice((from - chunk.first) as usize, rows)),
            _ => Err(crate::Error::Internal(format!("column {position} of rows from {from} on is not kept"))),
        }
    }

    /// Whether a partial takes a row, and no column that it reads is null there.
    pub(super) fn has_values(&self, stored: &Stored, at: u64) -> bool {
        let chunk = &self.chunks[self.chunk_of(at)];
        let row = (at - chunk.first) as usize;
        let column = |position: &usize| self.read.binary_search(position).ok().map(|at| &chunk.columns[at]);
        let is_valid = |column: &ArrayRef| column.slice(row, 1).logical_null_count() == 0;
        stored.inputs.iter().all(|position| column(position).is_some_and(is_valid))
            && stored.filter.is_none_or(|position| {
                column(&position).is_some_and(|taken| is_valid(taken) && taken.as_boolean().value(row))
            })
            && stored.weight.is_none_or(|(position, sign)| {
                let taken = column(&position).map(|weights| sign.taken(&weights.slice(row, 1), None));
                taken.is_some_and(|taken| taken.is_ok_and(|taken| taken.value(0)))
            })
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

    /// Merges small chunks; amortised O(log n) per row. If Arrow fails to do so, they stay as they are.
    pub(super) fn join(&mut self) {
        while let [.., a, b] = &self.chunks[..] {
            if a.rows > 2 * b.rows || a.rows + b.rows > CHUNK {
                return;
            }
            let columns = a.columns.iter().zip(&b.columns).map(|(a, b)| concat(&[a.as_ref(), b.as_ref()]));
            // Where memory runs out in a commit, the chunks stay apart.
            let Ok(columns) = attempted(|| Ok(columns.collect::<std::result::Result<_, _>>()?)) else {
                return;
            };
            let joined = Chunk { first: a.first, rows: a.rows + b.rows, columns };
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push(joined);
        }
    }

    /// Whether most rows are without a key, if `live` have one.
    pub(super) fn is_loose(&self, live: usize) -> bool {
        self.rows() > 2 * live + SLACK
    }

    /// The new number of each row, and of the next one, once rows missing from `ats` are dropped; a dropped row maps to
    /// the number of the next remaining one.
    pub(super) fn renumbered(&self, ats: impl Iterator<Item = u64>) -> Renumbered {
        let first = self.chunks.first().map_or(self.next, |chunk| chunk.first);
        let mut numbers = vec![0; (self.next - first) as usize + 1];
        ats.for_each(|at| numbers[(at - first) as usize] = 1);
        let mut next = 0;
        for number in &mut numbers {
            next += std::mem::replace(number, next);
        }
        Renumbered { first, numbers, live: next }
    }

    /// These rows with their new numbers, without those that are dropped.
    pub(super) fn squeezed(&self, renumbered: &Renumbered) -> Result<Self> {
        let Renumbered { first, numbers, live } = renumbered;
        let ends = numbers.iter().skip(1).chain([live]);
        let is_live =
            |(at, (number, end)): (usize, (&u64, &u64))| (number < end).then_some(first + at as u64);
        let live: Vec<u64> = numbers.iter().zip(ends).enumerate().filter_map(is_live).collect();
        let mut squeezed = Self::new(self.read.clone(), self.types.clone());
        for ats in live.chunks(CHUNK) {
            let columns =
                (0..self.types.len()).map(|column| self.picked(column, ats)).collect::<Result<Vec<_>>>()?;
            squeezed.push(&[columns], ats.len())?;
        }
        Ok(squeezed)
    }
}

impl ReadRows for TupleStore {
    fn read(&self, positions: &[usize], ats: &[u64]) -> Result<Vec<ArrayRef>> {
        positions.iter().map(|&position| self.column(position, ats)).collect()
    }
}

/// New numbers of rows.
#[derive(Debug)]
pub(super) struct Renumbered {
    /// The old number of the first.
    first: u64,
    numbers: Vec<u64>,
    /// How many rows there are.
    live: u64,
}

impl Renumbered {
    /// The new number of a row.
    pub(super) fn of(&self, at: u64) -> u64 {
        at.checked_sub(self.first).map_or(0, |at| self.numbers.get(at as usize).copied().unwrap_or(self.live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, types::Int64Type};
    use std::sync::Arc;

    fn column(values: std::ops::Range<i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    /// Rows are found by their numbers after any sequence of merges, rollbacks and drops.
    #[test]
    fn rows_are_found_by_their_numbers() {
        let mut store = TupleStore::new(vec![3], vec![DataType::Int64]);
        let mut end = 0;
        for rows in [5, 1, 1, 1, 7, 30, 2, 2] {
            store.push(&[vec![column(end..end + rows)]], rows as usize).unwrap();
            end += rows;
            store.join();
        }
        let before = store.next();
        store.push(&[vec![column(900..902)], vec![column(902..903)]], 3).unwrap();
        store.take_back(before);
        assert_eq!((store.next(), store.rows()), (49, 49));
        let read = |store: &TupleStore, ats: &[u64]| {
            store.column(3, ats).unwrap().as_primitive::<Int64Type>().values().to_vec()
        };
        assert_eq!(read(&store, &[48, 0, 6, 7, 8]), [48, 0, 6, 7, 8]);
        assert_eq!(read(&store, &[10, 11, 12]), [10, 11, 12]);
        assert_eq!(read(&store, &[]), [0i64; 0]);
        let odd: Vec<u64> = (0..49).filter(|at| at % 2 == 1).collect();
        let renumbered = store.renumbered(odd.iter().copied());
        assert_eq!([0, 1, 2, 3, 47, 48, 49, 60].map(|at| renumbered.of(at)), [0, 0, 1, 1, 23, 24, 24, 24]);
        let squeezed = store.squeezed(&renumbered).unwrap();
        assert_eq!((squeezed.next(), squeezed.rows()), (24, 24));
        assert_eq!(read(&squeezed, &[23, 0, 5]), [47, 1, 11]);
        assert!(store.column(2, &[0]).is_err());
    }
}
