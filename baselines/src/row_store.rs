//! Rows as they came, in chunks, for techniques that keep them.
//!
//! A row is named by its time and its place; places ascend in the order of arrival. Values lie once, in the arrays that
//! were pushed, until no row of a chunk is held any more. Windows are aggregated from rows in the order of time and
//! arrival: rows that lie side by side are read where they lie, others are gathered first.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray};
use arrow_select::interleave::interleave;

use windowkit::aggregate::{Input, Partials, Rows};
use windowkit::{Error, Result};

/// When a row came, and where it lies: chunk in the upper half, row in the lower.
pub(crate) type Row = (i64, u64);

/// Runs of rows side by side at least this long on average are read where they lie.
const LONG: usize = 8;

/// Chunks of rows that are still held.
pub(crate) struct RowStore {
    /// Empty columns of the partials.
    partials: Vec<Box<dyn Partials>>,
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    held: usize,
}

struct Chunk {
    inputs: Vec<Input>,
    /// How often its rows are held.
    held: usize,
    bytes: usize,
}

impl RowStore {
    pub(crate) fn new(partials: Vec<Box<dyn Partials>>) -> Self {
        Self { partials, chunks: VecDeque::new(), first: 0, held: 0 }
    }

    /// How often rows are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn width(&self) -> usize {
        self.partials.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    /// Adds rows; row `r` lies at the place that is returned plus `r`. None is held yet.
    pub(crate) fn push(&mut self, inputs: &[Input]) -> u64 {
        self.drop_chunks();
        let mut buffers = HashSet::new();
        let arrays = |input: &Input| {
            let taken = input.taken.iter().map(|taken| Arc::new(taken.clone()) as ArrayRef);
            input.columns.iter().cloned().chain(taken).collect::<Vec<_>>()
        };
        let bytes = inputs.iter().flat_map(arrays).map(|array| {
            let data = array.to_data();
            let start = data.buffers().first().map(|buffer| buffer.as_ptr());
            // A column that several partials read is there once.
            if start.is_some_and(|start| !buffers.insert((start, data.offset()))) {
                return 0;
            }
            data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size())
        });
        let bytes = bytes.sum();
        self.chunks.push_back(Chunk { inputs: inputs.to_vec(), held: 0, bytes });
        (self.first + self.chunks.len() as u64 - 1) << 32
    }

    /// Holds a row once more.
    #[inline]
    pub(crate) fn hold(&mut self, place: u64) {
        self.held += 1;
        self.chunks[((place >> 32) - self.first) as usize].held += 1;
    }

    /// Holds rows once less.
    pub(crate) fn release(&mut self, places: impl Iterator<Item = u64>) {
        for place in places {
            self.held -= 1;
            self.chunks[((place >> 32) - self.first) as usize].held -= 1;
        }
        self.drop_chunks();
    }

    /// Drops the values of chunks that no row is held of.
    fn drop_chunks(&mut self) {
        while self.chunks.front().is_some_and(|chunk| chunk.held == 0) {
            self.chunks.pop_front();
            self.first += 1;
        }
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.held == 0 && chunk.bytes > 0) {
            (chunk.inputs, chunk.bytes) = (Vec::new(), 0);
        }
    }

    /// The aggregates of windows, each given as its rows in the order of time and arrival.
    ///
    /// O(rows), those of overlapping windows counted again and again.
    pub(crate) fn aggregate<'a>(
        &self,
        windows: impl Iterator<Item = (&'a [i64], &'a [u64])>,
    ) -> Result<Vec<Box<dyn Partials>>> {
        let mut partials: Vec<Box<dyn Partials>> =
            self.partials.iter().map(|partials| partials.empty()).collect();
        let mut slots = Vec::new();
        for (window, (times, places)) in windows.enumerate() {
            slots.clear();
            slots.resize(times.len(), window as u32);
            let rows = Rows::all(&slots, times);
            let breaks = places.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
            if places.len() < LONG * (breaks + 1) {
                self.gather(places, |at, input| input.feed(&mut *partials[at], rows, window + 1))?;
                continue;
            }
            let mut from = 0;
            while from < places.len() {
                let next = |at: usize| places.get(at + 1) == Some(&(places[at] + 1));
                let to = (from..).find(|&at| !next(at)).map_or(places.len(), |last| last + 1);
                let (chunk, row) = ((places[from] >> 32) - self.first, places[from] as u32);
                let rows = Rows::all(&slots[from..to], &times[from..to]);
                let inputs = &self.chunks[chunk as usize].inputs;
                for (partials, input) in partials.iter_mut().zip(inputs) {
                    input.slice(row as usize, to - from).feed(&mut **partials, rows, window + 1)?;
                }
                from = to;
            }
        }
        Ok(partials)
    }

    /// Calls `each` with what each partial reads of these rows.
    pub(crate) fn gather(
        &self,
        places: &[u64],
        mut each: impl FnMut(usize, &Input) -> Result<()>,
    ) -> Result<()> {
        let mut chunks: Vec<u64> = places.iter().map(|place| (place >> 32) - self.first).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let indices: Vec<(usize, usize)> = places
            .iter()
            .map(|place| {
                let chunk = chunks.partition_point(|&chunk| chunk < (place >> 32) - self.first);
                (chunk, *place as u32 as usize)
            })
            .collect();
        let chunks: Vec<&Chunk> = chunks.iter().map(|&chunk| &self.chunks[chunk as usize]).collect();
        let gathered = |arrays: Vec<&dyn Array>| -> Result<ArrayRef> { Ok(interleave(&arrays, &indices)?) };
        for at in 0..self.partials.len() {
            let inputs: Vec<&Input> = chunks.iter().map(|chunk| &chunk.inputs[at]).collect();
            let first = inputs.first().ok_or_else(|| Error::Internal("a window has rows".into()))?;
            let columns = (0..first.columns.len())
                .map(|column| gathered(inputs.iter().map(|input| &*input.columns[column]).collect()));
            let columns = columns.collect::<Result<_>>()?;
            let taken: Option<Vec<&BooleanArray>> = inputs.iter().map(|input| input.taken.as_ref()).collect();
            let taken = taken.map(|taken| gathered(taken.into_iter().map(|taken| taken as _).collect()));
            let taken = taken.transpose()?.map(|taken| taken.as_boolean().clone());
            each(at, &Input { columns, taken })?;
        }
        Ok(())
    }
}
