//! A column of partial aggregates, one slot per slice, for any monoid.

use arrow_buffer::NullBuffer;

use super::by_slot::grouped;
use super::rows::{Rows, Run};
use crate::algebra::{ExactSum, Monoid};
use crate::kernels::{Ranges, recalculate, subtract_on_evict, two_stacks};

/// Slots of partial aggregates.
#[derive(Clone)]
pub struct Column<M: Monoid> {
    monoid: M,
    states: Vec<M::State>,
    /// Which slots saw a value; `None` while all did. A slot without values lowers to null.
    seen: Option<Vec<bool>>,
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
        self.states.resize(len, self.monoid.identity());
        let (monoid, states) = (&self.monoid, &mut self.states[..]);
        match (nulls, &mut self.seen) {
            (Some(nulls), Some(seen)) => {
                seen.resize(len, false);
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
                    seen.resize(len, false);
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
        self.states.extend(other.states);
    }

    /// A column with one slot per group: `slots[groups[g]..groups[g + 1]]`, combined in that order.
    pub fn regroup(&self, slots: &[u32], groups: &[u32]) -> Self {
        let one_to_one = groups.len() == slots.len();
        let each = || grouped(slots, groups);
        let states = if one_to_one {
            slots.iter().map(|&slot| self.states[slot as usize]).collect()
        } else {
            let combine = |state, &slot: &u32| self.monoid.combine(state, self.states[slot as usize]);
            each().map(|group| group[1..].iter().fold(self.states[group[0] as usize], combine)).collect()
        };
        let seen = self
            .seen
            .as_ref()
            .map(|seen| each().map(|group| group.iter().any(|&s| seen[s as usize])).collect());
        Self { monoid: self.monoid.clone(), states, seen }
    }

    /// A column with one slot per range of slots: the windows' aggregates.
    pub fn answer(&self, ranges: &Ranges) -> Self {
        let monoid = &self.monoid;
        let states = if !ranges.overlap() {
            recalculate(&self.states, ranges, monoid)
        } else if monoid.inverts() {
            subtract_on_evict(&self.states, ranges, monoid)
        } else {
            two_stacks(&self.states, ranges, monoid)
        };
        let seen = self.seen.as_ref().map(|seen| {
            let counts: Vec<i64> = seen.iter().map(|&seen| seen.into()).collect();
            let counts = subtract_on_evict(&counts, ranges, &ExactSum::new());
            counts.into_iter().map(|count| count > 0).collect()
        });
        Self { monoid: monoid.clone(), states, seen }
    }

    /// As [`Column::answer`] for ranges in any order: where that takes fewer combinations than to go through each range, from
    /// running totals if there is an inverse, else from a tree over the slots (FlatFAT: Tangwongsan et al., VLDB 2015).
    pub fn answer_any(&self, ranges: &[(u32, u32)]) -> Self {
        let monoid = &self.monoid;
        let combine = |a, b| monoid.combine(a, b);
        let slots = self.states.len();
        let each: usize = ranges.iter().map(|&(lo, hi)| (hi - lo) as usize).sum();
        let height = (usize::BITS - slots.leading_zeros()) as usize;
        let steps = if monoid.inverts() { 1 } else { 2 * height };
        let states = if each <= slots + steps * ranges.len() {
            let range = |&(lo, hi): &(u32, u32)| {
                self.states[lo as usize..hi as usize].iter().copied().reduce(combine)
            };
            ranges.iter().map(|each| range(each).unwrap_or(monoid.identity())).collect()
        } else if monoid.inverts() {
            let mut totals = Vec::with_capacity(slots + 1);
            totals.push(monoid.identity());
            totals.extend(self.states.iter().scan(monoid.identity(), |total, &state| {
                *total = combine(*total, state);
                Some(*total)
            }));
            ranges.iter().map(|&(lo, hi)| monoid.invert(totals[hi as usize], totals[lo as usize])).collect()
        } else {
            let tree = tree(&self.states, monoid);
            ranges.iter().map(|&(lo, hi)| within(&tree, lo, hi, monoid)).collect()
        };
        let seen = self.seen.as_ref().map(|seen| {
            let mut before = Vec::with_capacity(slots + 1);
            before.push(0u32);
            before.extend(seen.iter().scan(0, |count, &seen| {
                *count += u32::from(seen);
                Some(*count)
            }));
            ranges.iter().map(|&(lo, hi)| before[hi as usize] > before[lo as usize]).collect()
        });
        Self { monoid: monoid.clone(), states, seen }
    }

    /// Writes another column's slots to slots `at`; there are `len` then.
    pub fn write(&mut self, at: &[u32], from: &Self, len: usize) {
        self.states.resize(len.max(self.states.len()), self.monoid.identity());
        if from.seen.is_some() {
            self.track_seen();
        }
        for (&at, &state) in at.iter().zip(&from.states) {
            self.states[at as usize] = state;
        }
        if let Some(seen) = &mut self.seen {
            seen.resize(self.states.len(), true);
            for (slot, &at) in at.iter().enumerate() {
                seen[at as usize] = from.seen.as_ref().is_none_or(|seen| seen[slot]);
            }
        }
    }

    /// Combines slots, one after the other: which, the earlier and the later.
    pub fn combine_slots(&mut self, program: &[(u32, u32, u32)]) {
        for &(to, earlier, later) in program {
            let (earlier, later) = (earlier as usize, later as usize);
            self.states[to as usize] = self.monoid.combine(self.states[earlier], self.states[later]);
            if let Some(seen) = &mut self.seen {
                seen[to as usize] = seen[earlier] || seen[later];
            }
        }
    }

    /// Takes out of slots what those of another column hold; whether that could be done, slot by slot. `left` says in
    /// which of them a value is left.
    pub fn take_out(&mut self, slots: &[u32], lost: &Self, left: &[bool]) -> Vec<bool> {
        if left.contains(&false) {
            self.track_seen();
        }
        let (monoid, states) = (&self.monoid, &mut self.states);
        let mut done = Vec::with_capacity(slots.len());
        for (n, (&slot, &is_left)) in slots.iter().zip(left).enumerate() {
            let (whole, part) = (&mut states[slot as usize], lost.states[n]);
            if lost.seen.as_ref().is_some_and(|seen| !seen[n]) {
                done.push(true);
                continue;
            }
            if !is_left {
                *whole = monoid.identity();
                if let Some(seen) = &mut self.seen {
                    seen[slot as usize] = false;
                }
                done.push(true);
                continue;
            }
            let rest = monoid.evict(*whole, part);
            *whole = rest.unwrap_or(*whole);
            done.push(rest.is_some());
        }
        done
    }

    /// Bytes held, but for what states refer to.
    pub fn bytes(&self) -> usize {
        self.states.capacity() * size_of::<M::State>() + self.seen.as_ref().map_or(0, Vec::capacity)
    }

    /// Grows to `len` slots; new ones are identities, without values.
    pub fn grow(&mut self, len: usize) {
        self.track_seen();
        self.states.resize(len, self.monoid.identity());
        if let Some(seen) = &mut self.seen {
            seen.resize(len, false);
        }
    }

    /// Makes slots identities again.
    pub fn reset(&mut self, slots: &[u32]) {
        self.track_seen();
        let identity = self.monoid.identity();
        slots.iter().for_each(|&slot| self.states[slot as usize] = identity);
        if let Some(seen) = &mut self.seen {
            slots.iter().for_each(|&slot| seen[slot as usize] = false);
        }
    }

    /// The slot's state, to fold values into that are not null; grows to `len` slots.
    pub(super) fn slots_of_runs(&mut self, runs: &[Run], len: usize) -> (&M, &mut [M::State]) {
        self.states.resize(len, self.monoid.identity());
        if let Some(seen) = &mut self.seen {
            seen.resize(len, false);
            runs.iter().for_each(|run| seen[run.slot as usize] = true);
        }
        (&self.monoid, &mut self.states)
    }

    /// From now on `seen` is kept; so far every slot saw a value.
    fn track_seen(&mut self) {
        if self.seen.is_none() {
            self.seen = Some(vec![true; self.states.len()]);
        }
    }
}

/// A complete binary tree over `states`, which are its last level, filled up with identities; node 1 is the root, and the
/// children of node i are 2i and 2i + 1.
fn tree<M: Monoid>(states: &[M::State], monoid: &M) -> Vec<M::State> {
    let leaves = states.len().next_power_of_two();
    let mut tree = vec![monoid.identity(); 2 * leaves];
    tree[leaves..leaves + states.len()].copy_from_slice(states);
    for node in (1..leaves).rev() {
        tree[node] = monoid.combine(tree[2 * node], tree[2 * node + 1]);
    }
    tree
}

/// The aggregate of leaves `lo..hi` of a [`tree`].
fn within<M: Monoid>(tree: &[M::State], lo: u32, hi: u32, monoid: &M) -> M::State {
    let leaves = tree.len() / 2;
    let (mut left, mut right) = (monoid.identity(), monoid.identity());
    let (mut lo, mut hi) = (leaves + lo as usize, leaves + hi as usize);
    while lo < hi {
        if lo & 1 == 1 {
            left = monoid.combine(left, tree[lo]);
            lo += 1;
        }
        if hi & 1 == 1 {
            hi -= 1;
            right = monoid.combine(tree[hi], right);
        }
        (lo, hi) = (lo / 2, hi / 2);
    }
    monoid.combine(left, right)
}
