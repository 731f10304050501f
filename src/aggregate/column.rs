//! A column of partial aggregates, one slot per slice, for any monoid.

use arrow_buffer::NullBuffer;

use super::rows::{Rows, Run};
use crate::algebra::Monoid;

/// Slots of partial aggregates.
#[derive(Clone)]
pub struct Column<M: Monoid> {
    pub(super) monoid: M,
    pub(super) states: Vec<M::State>,
    /// Which slots saw a value; `None` while all did. A slot without values lowers to null.
    pub(super) seen: Option<Vec<bool>>,
}

/// Lengthens a list to `len` values, the new ones all the same.
fn grow<T: Copy>(list: &mut Vec<T>, len: usize, value: T) {
    list.resize(len.max(list.len()), value);
}

impl<M: Monoid> Column<M> {
    /// A column without slots.
    pub fn new(monoid: M) -> Self {
        Self { monoid, states: Vec::new(), seen: None }
    }

    /// A column of these states; of some `seen` may say that they saw no value.
    pub(super) fn with(monoid: M, states: Vec<M::State>, seen: Option<Vec<bool>>) -> Self {
        Self { monoid, states, seen }
    }

    /// Which slots saw a value; `None` if all did.
    pub(super) fn seen(&self) -> Option<&[bool]> {
        self.seen.as_deref()
    }

    /// The monoid.
    pub fn monoid(&self) -> &M {
        &self.monoid
    }

    /// The monoid, to change its context.
    pub fn monoid_mut(&mut self) -> &mut M {
        &mut self.monoid
    }

    /// The states, one per slot.
    pub fn states(&self) -> &[M::State] {
        &self.states
    }

    /// The monoid and the states, to move what the states refer to.
    pub fn parts_mut(&mut self) -> (&mut M, &mut [M::State]) {
        (&mut self.monoid, &mut self.states)
    }

    /// Validity of the slots: null where no value was seen.
    pub fn nulls(&self) -> Option<NullBuffer> {
        self.seen.as_ref().map(|seen| NullBuffer::from(seen.as_slice()))
    }

    /// Grows to `len` slots and folds `lift(row)` into `rows.slots[row]` for each row that is not null.
    ///
    /// Unless rows are sparse, each new slot must have at least one row, null or not, among these.
    #[inline]
    pub fn fold(
        &mut self,
        rows: Rows<'_>,
        nulls: Option<&NullBuffer>,
        len: usize,
        lift: impl Fn(usize) -> M::State,
    ) {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let slots = rows.slots;
        if nulls.is_some() || rows.sparse {
            self.track_seen();
        }
        grow(&mut self.states, len, self.monoid.identity());
        let (monoid, states) = (&self.monoid, &mut self.states[..]);
        match (nulls, &mut self.seen) {
            (Some(nulls), Some(seen)) => {
                grow(seen, len, false);
                for row in nulls.valid_indices() {
                    let slot = slots[row] as usize;
                    monoid.absorb(&mut states[slot], lift(row));
                    seen[slot] = true;
                }
            }
            (_, seen) => {
                for (row, &slot) in slots.iter().enumerate() {
                    let slot = slot as usize;
                    monoid.absorb(&mut states[slot], lift(row));
                }
                if let Some(seen) = seen {
                    grow(seen, len, false);
                    slots.iter().for_each(|&slot| seen[slot as usize] = true);
                }
            }
        }
    }

    /// Appends another column's slots.
    pub fn append(&mut self, other: Self) {
        if other.seen.is_some() {
            self.track_seen();
        }
        if let Some(seen) = &mut self.seen {
            match other.seen {
                Some(others) => seen.extend(others),
                None => seen.resize(seen.len() + other.states.len(), true),
            }
        }
        // The states of the first call need not be copied.
        match self.states.is_empty() {
            true => self.states = other.states,
            false => self.states.extend(other.states),
        }
    }

    /// The monoid and the states, grown to `len` slots, to fold into the slots of these runs values of which none is null:
    /// for [`Aggregate::update_runs`](super::Aggregate::update_runs).
    pub fn slots_of_runs(&mut self, runs: &[Run], len: usize) -> (&M, &mut [M::State]) {
        grow(&mut self.states, len, self.monoid.identity());
        if let Some(seen) = &mut self.seen {
            grow(seen, len, false);
            runs.iter().for_each(|run| seen[run.slot as usize] = true);
        }
        (&self.monoid, &mut self.states)
    }

    /// Tracks `seen` from now on; so far every slot saw a value.
    pub(super) fn track_seen(&mut self) {
        if self.seen.is_none() {
            self.seen = Some(vec![true; self.states.len()]);
        }
    }
}
