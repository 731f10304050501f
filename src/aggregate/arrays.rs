//! Functions over whole arrays of states: what users write in Python, and may write in Rust.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; an inverse helps |
//! | time | O(log n) calls for n slices and windows; O(1) combinations per row, O(log w) per window of w slices |
//! | space | a state per slice; per row too, and its time, if the function does not commute |
//! | first appeared | the tree over slices of Tangwongsan et al., VLDB 2015 (FlatFAT), here built level by level |
//!
//! A call is expensive, an entry cheap: so rows are lifted many at a time, those of one slot are combined pairwise, all
//! slots at once, and windows are assembled from aligned blocks of slices, one level of blocks after the other.

mod function;
mod ranges;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::by_slot::{BySlot, grouped, once};
use super::lift::columns;
use super::partials::{Partials, Upkeep};
use super::properties::Properties;
use super::rows::Rows;
use super::user::UserAggregate;
use crate::kernels::Ranges;
use crate::poll::{PIECE, Poll, sort_by_key};
use crate::select::{concat, filter, take};
use crate::types::named;
use crate::{Error, Result};
pub use function::ArrayFunction;
use function::{Signature, checked};

/// Rows that may accumulate before they become states of slots.
const ROUND: usize = 1 << 18;

/// An [`ArrayFunction`] as a function of a query.
pub struct Arrays<F>(pub Arc<F>);

impl<F: ArrayFunction> UserAggregate for Arrays<F> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn properties(&self) -> Properties {
        self.0.properties()
    }

    fn output_type(&self, inputs: &[DataType]) -> Result<DataType> {
        Ok(Signature::of(&*self.0, inputs)?.output)
    }

    fn column(&self, inputs: &[DataType], poll: Poll) -> Result<Box<dyn Partials>> {
        let signature = Arc::new(Signature::of(&*self.0, inputs)?);
        let (function, held) = (self.0.clone(), Held::default());
        Ok(Box::new(ArrayColumn { function, signature, len: 0, held, poll }))
    }
}

/// A column of states of an [`ArrayFunction`].
struct ArrayColumn<F> {
    function: Arc<F>,
    signature: Arc<Signature>,
    len: usize,
    held: Held,
    poll: Poll,
}

/// The contents of a column: batches in order of arrival, and all of them as entries once that was needed.
#[derive(Default)]
struct Held {
    chunks: Vec<Chunk>,
    rows: usize,
    /// Rows that may accumulate before they are reduced.
    round: usize,
    entries: OnceLock<Entries>,
    /// One entry per slot that has one.
    reduced: OnceLock<Entries>,
}

/// Some rows.
#[derive(Clone)]
struct Chunk {
    slots: Vec<u32>,
    times: Vec<i64>,
    values: Values,
}

#[derive(Clone)]
enum Values {
    Inputs(Vec<ArrayRef>),
    States(ArrayRef),
}

/// States with their slots and times, in the order of arrival.
#[derive(Clone)]
struct Entries {
    slots: Vec<u32>,
    times: Vec<i64>,
    states: ArrayRef,
    by_slot: BySlot,
}

impl Entries {
    fn new(slots: Vec<u32>, times: Vec<i64>, states: ArrayRef, len: usize, poll: Poll) -> Result<Self> {
        let by_slot = BySlot::polled(&slots, len, poll)?;
        Ok(Self { slots, times, states, by_slot })
    }

    /// The slot's state: its entry, if it has one.
    fn place(&self, slot: usize) -> Option<u32> {
        self.by_slot.entries(slot..slot + 1).next()
    }

    /// The places of the first `len` slots.
    fn places(&self, len: usize) -> Vec<Option<u32>> {
        (0..len).map(|slot| self.place(slot)).collect()
    }
}

fn picked(array: &ArrayRef, rows: Vec<u32>) -> Result<ArrayRef> {
    Ok(take(array, &UInt32Array::from(rows), None)?)
}

/// The arrays, one after the other.
fn joined(arrays: &[&dyn Array]) -> Result<ArrayRef> {
    Ok(concat(arrays)?)
}

/// All values of several lists, `len` in total.
fn all<'a, T: Copy + 'a>(lists: impl Iterator<Item = &'a Vec<T>>, len: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(len);
    for values in lists {
        all.extend_from_slice(values);
    }
    all
}

/// The values at these rows.
fn these<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|&row| values[row as usize]).collect()
}

impl<F: ArrayFunction> ArrayColumn<F> {
    fn with(&self, len: usize, held: Held) -> Self {
        let (function, signature) = (self.function.clone(), self.signature.clone());
        Self { function, signature, len, held, poll: self.poll }
    }

    fn of(&self, len: usize, slots: Vec<u32>, times: Vec<i64>, states: ArrayRef) -> Self {
        let rows = slots.len();
        let chunks = vec![Chunk { slots, times, values: Values::States(states) }];
        self.with(len, Held { chunks, rows, ..Held::default() })
    }

    fn combined(&self, earlier: &ArrayRef, later: &ArrayRef) -> Result<ArrayRef> {
        (self.poll)()?;
        let states = self.function.combine(earlier, later)?;
        checked(&*self.function, "combine", states, earlier.len(), Some(&self.signature.state))
    }

    /// All rows as states.
    fn entries(&self) -> Result<&Entries> {
        once(&self.held.entries, || {
            let mut states: Vec<ArrayRef> = Vec::new();
            // Consecutive rows are lifted in one call.
            let mut chunks = self.held.chunks.as_slice();
            while let Some(first) = chunks.first() {
                let Values::Inputs(inputs) = &first.values else {
                    if let Values::States(lifted) = &first.values {
                        states.push(lifted.clone());
                    }
                    chunks = &chunks[1..];
                    continue;
                };
                let raw = chunks.iter().map_while(|chunk| match &chunk.values {
                    Values::Inputs(inputs) => Some(inputs),
                    Values::States(_) => None,
                });
                let raw: Vec<&Vec<ArrayRef>> = raw.collect();
                let whole = (0..inputs.len()).map(|column| {
                    let parts: Vec<&dyn Array> = raw.iter().map(|inputs| inputs[column].as_ref()).collect();
                    joined(&parts)
                });
                let whole = whole.collect::<Result<Vec<ArrayRef>>>()?;
                (self.poll)()?;
                let lifted = self.function.lift(&whole)?;
                let rows = whole.first().map_or(0, |column| column.len());
                states.push(checked(&*self.function, "lift", lifted, rows, Some(&self.signature.state))?);
                chunks = &chunks[raw.len()..];
            }
            let states = match &states[..] {
                [] => new_empty_array(&self.signature.state),
                [one] => one.clone(),
                several => joined(&several.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
            };
            (self.poll)()?;
            let (chunks, rows) = (&self.held.chunks, self.held.rows);
            let slots = all(chunks.iter().map(|chunk| &chunk.slots), rows);
            let times = all(chunks.iter().map(|chunk| &chunk.times), rows);
            Entries::new(slots, times, states, self.len, self.poll)
        })
    }

    /// One entry per slot that has one, slots ascending.
    fn reduced(&self) -> Result<&Entries> {
        once(&self.held.reduced, || {
            let entries = self.entries()?;
            let (slots, times, mut states) = self.in_order(entries, 0..self.len)?;
            // Neighbours of one slot are combined until each slot has one entry.
            let mut slots = slots;
            let mut times = times;
            while slots.windows(2).any(|pair| pair[0] == pair[1]) {
                let (mut firsts, mut seconds, mut kept) = (Vec::new(), Vec::new(), Vec::new());
                let mut row = 0;
                while row < slots.len() {
                    if kept.len().is_multiple_of(PIECE) {
                        (self.poll)()?;
                    }
                    kept.push(row as u32);
                    let paired = row + 1 < slots.len() && slots[row + 1] == slots[row];
                    if paired {
                        firsts.push(row as u32);
                        seconds.push(row as u32 + 1);
                    }
                    row += 1 + usize::from(paired);
                }
                let pairs = self.combined(&picked(&states, firsts.clone())?, &picked(&states, seconds)?)?;
                (self.poll)()?;
                let both = joined(&[states.as_ref(), pairs.as_ref()])?;
                let mut place = kept.clone();
                let mut at = 0;
                for place in &mut place {
                    if firsts.get(at) == Some(place) {
                        *place = (states.len() + at) as u32;
                        at += 1;
                    }
                }
                (self.poll)()?;
                states = picked(&both, place)?;
                (self.poll)()?;
                slots = these(&slots, &kept);
                times = these(&times, &kept);
            }
            Entries::new(slots, times, states, self.len, self.poll)
        })
    }

    /// What [`ArrayColumn::reduced`] returns, taken from the column.
    fn take_reduced(&mut self) -> Result<Entries> {
        self.reduced()?;
        self.held.reduced.take().ok_or_else(|| Error::Internal("entries were not kept".into()))
    }

    /// Appends the places of a slot's entries.
    fn gather(&self, entries: &Entries, slot: usize, rows: &mut Vec<u32>) -> Result<()> {
        let pieces = rows.len() / PIECE;
        rows.extend(entries.by_slot.entries(slot..slot + 1));
        if rows.len() / PIECE > pieces { (self.poll)() } else { Ok(()) }
    }

    /// Entries of these slots, by slot, and of one slot by time unless the function commutes.
    #[allow(clippy::type_complexity, reason = "a name for three columns would hide that they are columns")]
    fn in_order(
        &self,
        entries: &Entries,
        slots: impl Iterator<Item = usize>,
    ) -> Result<(Vec<u32>, Vec<i64>, ArrayRef)> {
        let mut rows = Vec::new();
        for slot in slots {
            let first = rows.len();
            self.gather(entries, slot, &mut rows)?;
            self.sort(entries, &mut rows[first..])?;
        }
        let slots = these(&entries.slots, &rows);
        (self.poll)()?;
        let times = these(&entries.times, &rows);
        (self.poll)()?;
        Ok((slots, times, picked(&entries.states, rows)?))
    }

    /// Sorts entries by time, and by arrival where that is one, if their order matters.
    fn sort(&self, entries: &Entries, rows: &mut [u32]) -> Result<()> {
        if self.function.properties().commutative {
            return Ok(());
        }
        sort_by_key(rows, |&row| (entries.times[row as usize], row), self.poll)
    }

    /// Adds a chunk; rows become states of slots once there are many, if their order does not matter.
    fn push(&mut self, chunk: Chunk, len: usize) -> Result<()> {
        if let Some(entries) = self.held.entries.take() {
            let Entries { slots, times, states, .. } = entries;
            self.held.chunks = vec![Chunk { slots, times, values: Values::States(states) }];
        }
        self.held.reduced.take();
        self.len = len;
        self.held.rows += chunk.slots.len();
        self.held.chunks.push(chunk);
        if self.held.rows >= self.held.round.max(ROUND) && self.function.properties().commutative {
            let Entries { slots, times, states, .. } = self.take_reduced()?;
            *self = self.of(len, slots, times, states);
            self.held.round = 2 * self.held.rows;
        }
        Ok(())
    }
}

impl<F: ArrayFunction> Partials for ArrayColumn<F> {
    fn properties(&self) -> Properties {
        self.function.properties()
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let nulls = inputs.iter().map(|input| input.logical_nulls());
        let nulls = nulls.fold(None, |all, nulls| NullBuffer::union(all.as_ref(), nulls.as_ref()));
        let chunk = match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => Chunk {
                slots: rows.slots.to_vec(),
                times: rows.times.to_vec(),
                values: Values::Inputs(inputs.to_vec()),
            },
            Some(nulls) => {
                let valid = BooleanArray::new(nulls.inner().clone(), None);
                let inputs = inputs.iter().map(|input| filter(input, &valid));
                Chunk {
                    slots: nulls.valid_indices().map(|row| rows.slots[row]).collect(),
                    times: nulls.valid_indices().map(|row| rows.times[row]).collect(),
                    values: Values::Inputs(inputs.collect::<std::result::Result<_, _>>()?),
                }
            }
        };
        self.push(chunk, len)
    }

    /// States; null for no rows.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [states] = columns(state)?;
        if *states.data_type() != self.signature.state {
            return Err(Error::InvalidType(format!(
                "slices: states of {} are {}; allowed are {}",
                self.function.name(),
                named(states.data_type()),
                self.signature.state
            )));
        }
        let valid: Vec<u32> = (0..states.len() as u32).filter(|&row| states.is_valid(row as usize)).collect();
        let chunk = Chunk {
            slots: valid.iter().map(|&row| rows.slots[row as usize]).collect(),
            times: valid.iter().map(|&row| rows.times[row as usize]).collect(),
            values: Values::States(picked(states, valid)?),
        };
        self.push(chunk, len)
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let other = other.into_alike::<Self>();
        let base = self.len as u32;
        self.held.entries.take();
        self.held.reduced.take();
        self.held.rows += other.held.rows;
        self.held.chunks.extend(other.held.chunks.into_iter().map(|mut chunk| {
            chunk.slots.iter_mut().for_each(|slot| *slot += base);
            chunk
        }));
        self.len += other.len;
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(self.with(0, Held::default()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let entries = self.entries()?;
        let (mut rows, mut of) = (Vec::new(), Vec::new());
        for (group, slots) in grouped(slots, groups).enumerate() {
            let first = rows.len();
            for &slot in slots {
                self.gather(entries, slot as usize, &mut rows)?;
            }
            self.sort(entries, &mut rows[first..])?;
            of.resize(rows.len(), group as u32);
        }
        (self.poll)()?;
        let times = these(&entries.times, &rows);
        let mut grouped = self.of(groups.len(), of, times, picked(&entries.states, rows)?);
        if !self.function.properties().commutative {
            // Future rows may lie between these.
            return Ok(Box::new(grouped));
        }
        let Entries { slots, times, states, .. } = grouped.take_reduced()?;
        Ok(Box::new(self.of(groups.len(), slots, times, states)))
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let reduced = self.reduced()?;
        let offsets = &reduced.by_slot.offsets;
        // Ranges over those slots that have a state.
        let full: Vec<(u32, u32)> =
            ranges.iter().map(|(lo, hi)| (offsets[lo] as u32, offsets[hi] as u32)).collect();
        let slots: Vec<u32> =
            (0..full.len() as u32).filter(|&at| full[at as usize].0 < full[at as usize].1).collect();
        let full: Vec<(u32, u32)> = slots.iter().map(|&at| full[at as usize]).collect();
        let times = full.iter().map(|&(lo, _)| reduced.times[lo as usize]).collect();
        let by_inverse = match ranges.overlap() && !full.is_empty() && self.function.properties().invertible {
            true => self.differences(&reduced.states, &full)?,
            false => None,
        };
        let states = match by_inverse {
            Some(states) => states,
            None => self.blocks(&reduced.states, &full)?,
        };
        Ok(Box::new(self.of(ranges.len(), slots, times, states)))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let reduced = self.reduced()?;
        let places = UInt32Array::from(reduced.places(self.len));
        Ok(vec![take(&reduced.states, &places, None)?])
    }

    fn lower(&self) -> Result<ArrayRef> {
        let reduced = self.reduced()?;
        let mut states = reduced.states.clone();
        if let Some(identity) = &self.signature.identity {
            states = joined(&[states.as_ref(), identity.as_ref()])?;
        }
        let results = checked(
            &*self.function,
            "lower",
            self.function.lower(&states)?,
            states.len(),
            Some(&self.signature.output),
        )?;
        let nothing = self.signature.identity.is_some().then_some(reduced.states.len() as u32);
        let places = reduced.places(self.len).into_iter();
        let places: UInt32Array = places.map(|place| place.or(nothing)).collect();
        Ok(take(&results, &places, None)?)
    }

    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        if !self.takes_out() {
            return Ok(vec![false; slots.len()]);
        }
        let lost = lost.alike::<Self>().reduced()?.clone();
        let Entries { slots: own, times, states, .. } = self.reduced()?.clone();
        let places: HashMap<u32, u32> = own.iter().copied().zip(0..).collect();
        // The remaining state of slots that lost rows, as places of states; empty for those left without a value.
        let mut kept: Vec<Option<u32>> = (0..own.len() as u32).map(Some).collect();
        let (mut wholes, mut parts) = (Vec::new(), Vec::new());
        for (n, (slot, &is_left)) in slots.iter().zip(left).enumerate() {
            let (Some(&whole), Some(part)) = (places.get(slot), lost.place(n)) else { continue };
            kept[whole as usize] = is_left.then_some((own.len() + wholes.len()) as u32);
            if is_left {
                wholes.push(whole);
                parts.push(part);
            }
        }
        let (wholes, parts) = (picked(&states, wholes)?, picked(&lost.states, parts)?);
        let Some(rests) = self.function.invert(&wholes, &parts) else { return Ok(vec![false; slots.len()]) };
        let rests = checked(&*self.function, "invert", rests?, wholes.len(), Some(&self.signature.state))?;
        let both = joined(&[states.as_ref(), rests.as_ref()])?;
        let live = || (0..own.len()).filter(|&entry| kept[entry].is_some());
        let (slots_left, times) = (live().map(|at| own[at]).collect(), live().map(|at| times[at]).collect());
        let states = picked(&both, kept.iter().copied().flatten().collect())?;
        *self = self.of(self.len, slots_left, times, states);
        Ok(vec![true; slots.len()])
    }

    fn takes_out(&self) -> bool {
        let properties = self.function.properties();
        properties.commutative && properties.invertible
    }

    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        if what != Upkeep::Settle {
            return Ok(());
        }
        // Rows whose order matters stay rows.
        let commutes = self.function.properties().commutative;
        let Entries { slots, times, states, .. } =
            if commutes { self.reduced()? } else { self.entries()? }.clone();
        *self = self.of(self.len, slots, times, states);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let chunk = |chunk: &Chunk| {
            let values: usize = match &chunk.values {
                Values::Inputs(inputs) => inputs.iter().map(|input| input.get_array_memory_size()).sum(),
                Values::States(states) => states.get_array_memory_size(),
            };
            values + chunk.slots.capacity() * size_of::<u32>() + chunk.times.capacity() * size_of::<i64>()
        };
        self.held.chunks.iter().map(chunk).sum()
    }
}
