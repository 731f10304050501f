//! Entries by slot, and slots by group: for columns that keep their input, with the slot of each entry, and put it in
//! order once that is needed.

use std::ops::Range;
use std::sync::OnceLock;

use crate::Result;
use crate::poll::{PIECE, Poll, never};

/// Entries by slot, in the order in which they came: those of slot s are `offsets[s]..offsets[s + 1]` in `order`, or
/// these themselves.
#[derive(Debug, Clone)]
pub(crate) struct BySlot {
    pub(super) offsets: Vec<usize>,
    order: Option<Vec<u32>>,
}

impl BySlot {
    /// Groups entries by slot: `slots` has the slot of each, and there are `len` slots.
    pub(crate) fn new(slots: &[u32], len: usize) -> Self {
        Self::polled(slots, len, never).expect("nothing ends it")
    }

    /// As [`BySlot::new`], for many entries.
    ///
    /// # Errors
    /// That of `poll`.
    pub(crate) fn polled(slots: &[u32], len: usize, poll: Poll) -> Result<Self> {
        let mut offsets = vec![0; len + 1];
        for piece in slots.chunks(PIECE) {
            poll()?;
            piece.iter().for_each(|&slot| offsets[slot as usize + 1] += 1);
        }
        for slot in 0..len {
            offsets[slot + 1] += offsets[slot];
        }
        if slots.is_sorted() {
            return Ok(Self { offsets, order: None });
        }
        let mut next = offsets.clone();
        let mut order = vec![0; slots.len()];
        let mut entry = 0;
        for piece in slots.chunks(PIECE) {
            poll()?;
            for &slot in piece {
                let place = &mut next[slot as usize];
                order[*place] = entry;
                *place += 1;
                entry += 1;
            }
        }
        Ok(Self { offsets, order: Some(order) })
    }

    /// The entries of some slots, slot by slot.
    pub(crate) fn entries(&self, slots: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        let places = self.offsets[slots.start]..self.offsets[slots.end];
        places.map(|at| self.order.as_ref().map_or(at as u32, |order| order[at]))
    }

    /// Adds entries that come after the existing ones and have other slots.
    pub(super) fn append(&mut self, others: &Self) {
        let rows = *self.offsets.last().expect("one more than slots");
        self.offsets.extend(others.offsets[1..].iter().map(|offset| rows + offset));
        if self.order.is_some() || others.order.is_some() {
            let own = self.order.get_or_insert_with(|| (0..rows as u32).collect());
            own.extend(others.entries(0..others.offsets.len() - 1).map(|at| rows as u32 + at));
        }
    }
}

/// The slots of each group: `slots[groups[g]..groups[g + 1]]`.
pub(super) fn grouped<'a>(slots: &'a [u32], groups: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
    let ends = groups.iter().skip(1).map(|&end| end as usize).chain([slots.len()]);
    groups.iter().zip(ends).map(|(&from, to)| &slots[from as usize..to])
}

/// What was made before, or is made now. An error is not kept, as the same call may succeed when it is made again.
pub(super) fn once<T>(made: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = made.get() {
        return Ok(made);
    }
    let new = make()?;
    Ok(made.get_or_init(|| new))
}
