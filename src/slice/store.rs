//! The aggregate store of a stream: partials of slices, in slots (Traub et al. 2019, §5.2).
//!
//! A call folds its rows into columns of its own, a [`Delta`]; they are linked to the others only after everything that
//! can fail has succeeded. So a call that fails has changed nothing, and a user-defined function may raise at any time.
//! The slots of one slice are merged when they are read, and compacted once their number has doubled.

use std::cell::OnceCell;
use std::ops::Range;

use super::cells::{Cut, slots_of};
use super::parting::Parts;
use super::timeline::Timelines;
use arrow_array::ArrayRef;

use crate::Result;
use crate::aggregate::{Input, Partials, Rows, Upkeep};
use crate::poll::{PIECE, Pieces, Poll};

/// Slots that may accumulate before any are moved.
const FIRST: usize = 4096;

/// Rows that may arrive before the contents of slots are rebuilt.
const ROWS: usize = 1 << 20;

/// Slices of a key: places in [`Timelines::of`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The key.
    pub key: u32,
    /// The range of its slices.
    pub slices: Range<usize>,
}

/// The partials of one call's rows, a slot per cell.
#[derive(Default)]
pub struct Delta {
    partials: Vec<Box<dyn Partials>>,
    slots: usize,
    rows: usize,
}

impl Delta {
    /// Folds rows into their cells, of which there are `cells` now. `inputs[i]` is what partial i reads.
    pub fn update(&mut self, inputs: &[Input], times: &[i64], cut: &Cut<'_>, cells: usize) -> Result<()> {
        let mut expanded: Vec<u32> = Vec::new();
        let mut parts = Parts::default();
        for (partial, input) in self.partials.iter_mut().zip(inputs) {
            let slots: &[u32] = match cut {
                Cut::Slots(slots) => slots,
                Cut::Parted(parted) => {
                    if parts.fold(&mut **partial, input, parted, cells)? {
                        continue;
                    }
                    if expanded.is_empty() {
                        expanded = parted.slots(times.len());
                    }
                    &expanded
                }
                Cut::Runs(runs) => {
                    if input.taken.is_none() && partial.update_runs(&input.columns, runs, cells)? {
                        continue;
                    }
                    if expanded.is_empty() {
                        expanded = slots_of(runs);
                    }
                    &expanded
                }
            };
            input.feed(&mut **partial, Rows::all(slots, times), cells)?;
        }
        (self.slots, self.rows) = (cells, self.rows + times.len());
        Ok(())
    }

    /// Merges slices into the last cells, of which there are `cells` now. `states[i]` is what partial i has of each, and
    /// `times` are their first times.
    pub fn merge(&mut self, states: &[&[ArrayRef]], times: &[i64], cells: usize) -> Result<()> {
        let slots: Vec<u32> = ((cells - times.len()) as u32..cells as u32).collect();
        let rows = Rows::all(&slots, times);
        let mut each = self.partials.iter_mut().zip(states);
        each.try_for_each(|(partial, state)| partial.merge(state, rows, cells))?;
        (self.slots, self.rows) = (cells, self.rows + times.len());
        Ok(())
    }

    /// Slots built from changed slices: their partials, and how many rows were folded for them.
    pub fn of(partials: Vec<Box<dyn Partials>>, slots: usize, rows: usize) -> Self {
        Self { partials, slots, rows }
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The partials; none before rows arrived.
    pub(super) fn partials(&self) -> &[Box<dyn Partials>] {
        &self.partials
    }

    /// Makes functions raise now instead of later.
    pub fn settle(&mut self) -> Result<()> {
        self.partials.iter_mut().try_for_each(|partial| partial.keep_up(Upkeep::Settle))
    }
}

/// Slots of the store and of a call, and where each is in the two lists, placed end to end.
struct Both {
    own: Vec<u32>,
    fresh: Vec<u32>,
    places: Vec<u32>,
}

impl Both {
    /// These slots, of which the store has those before `known`.
    fn of(slots: &[u32], known: usize) -> Self {
        let is_own = |&&slot: &&u32| (slot as usize) < known;
        let own: Vec<u32> = slots.iter().filter(is_own).copied().collect();
        let fresh: Vec<u32> =
            slots.iter().filter(|slot| !is_own(slot)).map(|slot| slot - known as u32).collect();
        let (mut next, mut next_fresh) = (0.., own.len() as u32..);
        let place = |slot| if is_own(&slot) { next.next() } else { next_fresh.next() };
        let places = slots.iter().filter_map(place).collect();
        Self { own, fresh, places }
    }
}

/// Partials of all slices.
pub struct Store {
    partials: Vec<Box<dyn Partials>>,
    /// Which partials need the slots of a slice sorted before they are merged, as these may lie in any order; none
    /// where rows are not kept.
    ordered: Vec<bool>,
    slots: usize,
    /// Rows that arrived since slots were last moved.
    rows: usize,
}

impl Store {
    /// A store of these partials; each has `slots` slots. `ordered` says which depend on the order of a slice's slots,
    /// where these may lie in any order.
    pub fn new(partials: Vec<Box<dyn Partials>>, ordered: &[bool], slots: usize) -> Self {
        Self { partials, ordered: ordered.to_vec(), slots, rows: 0 }
    }

    /// The partials.
    pub fn partials(&self) -> &[Box<dyn Partials>] {
        &self.partials
    }

    /// Number of slots; those of a call's delta come after them.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.partials.iter().map(|partials| partials.bytes()).sum()
    }

    /// Columns for the rows of a call.
    pub fn delta(&self) -> Delta {
        Delta { partials: self.partials.iter().map(|partials| partials.empty()).collect(), slots: 0, rows: 0 }
    }

    /// The partials `which` of these slices, a slot each, in the given order; [`Timelines`] already has the slots of
    /// `delta`. O(slots of these slices); `poll` is called between pieces of them, and before each partial.
    pub fn gather(
        &self,
        delta: &Delta,
        timelines: &Timelines,
        (wanted, which): (&[Wanted], &[usize]),
        poll: Poll,
    ) -> Result<Vec<Box<dyn Partials>>> {
        let slices = wanted.iter().map(|wanted| wanted.slices.len()).sum();
        let (mut slots, mut groups) = (Vec::with_capacity(slices), Vec::with_capacity(slices));
        let mut pieces = Pieces::new(poll);
        for Wanted { key, slices } in wanted {
            for chain in timelines.chains(*key, slices.clone()) {
                let group = slots.len();
                groups.push(group as u32);
                slots.extend(chain);
                pieces.count(1 + slots.len() - group)?;
            }
        }
        let has_fresh = slots.iter().any(|&slot| slot as usize >= self.slots);
        let all = OnceCell::new();
        let gathered = which.iter().map(|&which| {
            poll()?;
            let own = &*self.partials[which];
            if let Some(states) = own.states().filter(|states| states.is_plain()) {
                return in_pieces((&slots, &groups), (PIECE, poll), |slots, groups| match has_fresh {
                    true => states.regroup_both(&*delta.partials[which], slots, groups),
                    false => own.regroup(slots, groups),
                });
            }
            if !has_fresh {
                return self.merged(which, own, &slots, &groups);
            }
            let fresh = &*delta.partials[which];
            let Both { own: known, fresh: new, places } = all.get_or_init(|| Both::of(&slots, self.slots));
            if known.is_empty() {
                return self.merged(which, fresh, new, &groups);
            }
            let mut both = copied(own, known)?;
            poll()?;
            let new = copied(fresh, new)?;
            poll()?;
            both.append(new);
            poll()?;
            self.merged(which, both.as_ref(), places, &groups)
        });
        gathered.collect()
    }

    /// All partials of all slices, slice by slice and key by key.
    ///
    /// # Errors
    /// Errors of [`Store::gather`].
    pub fn gather_all(&self, timelines: &Timelines, poll: Poll) -> Result<Vec<Box<dyn Partials>>> {
        let all = |key| Wanted { key, slices: 0..timelines.of(key).len() };
        let wanted: Vec<Wanted> = (0..timelines.keys() as u32).map(all).collect();
        let which: Vec<usize> = (0..self.partials.len()).collect();
        self.gather(&Delta::default(), timelines, (&wanted, &which), poll)
    }

    /// Merges each group of slots of a column of partial `which` into one slot, in their order.
    pub fn merged(
        &self,
        which: usize,
        partials: &dyn Partials,
        slots: &[u32],
        groups: &[u32],
    ) -> Result<Box<dyn Partials>> {
        if slots.is_empty() {
            return Ok(partials.empty());
        }
        if slots.len() == 1 || !self.ordered.get(which).copied().unwrap_or_default() {
            return partials.regroup(slots, groups);
        }
        // A multiset lists entries of equal time in the order in which they lie, or were folded.
        let mut each = copied(partials, slots)?;
        each.keep_up(Upkeep::Renumber)?;
        let own: Vec<u32> = (0..slots.len() as u32).collect();
        each.regroup(&own, groups)
    }

    /// Takes over a call's partials.
    pub fn append(&mut self, delta: Delta) {
        for (own, partials) in self.partials.iter_mut().zip(delta.partials) {
            own.append(partials);
        }
        self.slots += delta.slots;
        self.rows += delta.rows;
    }

    /// Replaces the partials of all slots.
    pub fn replace(&mut self, partials: Vec<Box<dyn Partials>>) {
        self.partials = partials;
    }

    /// Drops values that no slot refers to, where they are the majority.
    ///
    /// # Errors
    /// Only those of memory; nothing is changed then.
    pub fn drop_values(&mut self) -> Result<()> {
        self.partials.iter_mut().try_for_each(|partials| partials.keep_up(Upkeep::Compact))
    }

    /// Whether compacting slots pays off: they have doubled, or many rows arrived. Where rows are stored, `kept` of them,
    /// rows may have been folded several times.
    pub fn is_loose(&self, timelines: &Timelines, kept: Option<usize>) -> bool {
        let (least, rows) = match kept {
            Some(kept) => (FIRST / 4, (ROWS / 64).max(2 * kept)),
            None => (FIRST, ROWS.max(4 * self.slots)),
        };
        self.slots > least + 2 * timelines.len() || self.rows > rows
    }

    /// Compacts slots so that each slice has a single one.
    ///
    /// # Errors
    /// Errors of [`Store::gather`]; nothing is changed then.
    pub fn compact(&mut self, timelines: &mut Timelines, poll: Poll) -> Result<()> {
        let mut moved = self.gather_all(timelines, poll)?;
        for partials in &mut moved {
            partials.keep_up(Upkeep::Shrink)?;
            poll()?;
        }
        self.partials = moved;
        (self.slots, self.rows) = (timelines.len(), 0);
        timelines.renumber();
        Ok(())
    }
}

/// A column of groups of slots, of which `regroup` makes those of some `piece` slots at a time.
fn in_pieces(
    (slots, groups): (&[u32], &[u32]),
    (piece, poll): (usize, Poll),
    regroup: impl Fn(&[u32], &[u32]) -> Result<Box<dyn Partials>>,
) -> Result<Box<dyn Partials>> {
    if slots.len() <= piece {
        return regroup(slots, groups);
    }
    let mut all: Option<Box<dyn Partials>> = None;
    let mut left = groups;
    while let Some(&first) = left.first() {
        poll()?;
        let (own, others) = left.split_at(left.partition_point(|&group| ((group - first) as usize) < piece));
        let end = others.first().map_or(slots.len(), |&group| group as usize);
        let own: Vec<u32> = own.iter().map(|group| group - first).collect();
        let made = regroup(&slots[first as usize..end], &own)?;
        match &mut all {
            Some(all) => all.append(made),
            None => all = Some(made),
        }
        left = others;
    }
    all.map_or_else(|| regroup(slots, groups), Ok)
}

/// These slots of a column, as separate groups.
pub fn copied(partials: &dyn Partials, slots: &[u32]) -> Result<Box<dyn Partials>> {
    if slots.is_empty() {
        return Ok(partials.empty());
    }
    let each: Vec<u32> = (0..slots.len() as u32).collect();
    partials.regroup(slots, &each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Partial;
    use crate::poll::never;
    use arrow_array::Int64Array;
    use arrow_schema::DataType;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        /// Groups that are made some slots at a time are those that are made at once.
        #[test]
        fn pieces_make_the_same_column(
            values in prop::collection::vec(prop::option::of(-9i64..9), 1..60),
            sizes in prop::collection::vec(1usize..9, 0..30),
            from in any::<prop::sample::Index>(),
            piece in 1usize..20,
        ) {
            let count = values.len();
            for partial in [Partial::Sum, Partial::Max, Partial::First] {
                let mut column = partial.column(&[DataType::Int64], never).unwrap();
                let times: Vec<i64> = (0..count as i64).collect();
                let own: Vec<u32> = (0..count as u32).collect();
                let inputs: ArrayRef = Arc::new(Int64Array::from(values.clone()));
                column.update(&[inputs], Rows::all(&own, &times), count).unwrap();
                // Any slots, also several times, in any order.
                let (mut slots, mut groups) = (Vec::new(), Vec::new());
                for size in &sizes {
                    groups.push(slots.len() as u32);
                    let first = from.index(count) + 7 * slots.len();
                    slots.extend((0..*size).map(|at| ((first + at) % count) as u32));
                }
                let regroup = |slots: &[u32], groups: &[u32]| column.regroup(slots, groups);
                let pieces = in_pieces((&slots, &groups), (piece, never), regroup).unwrap();
                prop_assert_eq!(pieces.state().unwrap(), regroup(&slots, &groups).unwrap().state().unwrap());
            }
        }
    }
}
