//! Columns of states as partials of any kind.

use arrow_array::ArrayRef;

use super::by_slot::grouped;
use super::column::Column;
use super::lift::Aggregate;
use super::partials::{Partials, States, Totals, Upkeep, without_inverse};
use super::properties::Properties;
use super::rows::{Rows, Run};
use super::totals::RunningTotals;
use crate::Result;
use crate::algebra::ExactSum;
use crate::kernels::{Ranges, over_any_ranges, over_ranges};

impl<A: Aggregate> Partials for Column<A> {
    fn properties(&self) -> Properties {
        self.monoid().properties()
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::update(self, inputs, rows, len)
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::merge(self, state, rows, len)
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let mut other: Self = other.into_alike();
        let context = other.monoid().clone();
        self.monoid_mut().adopt(context, other.parts_mut().1);
        self.append(other);
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(Column::new(self.monoid().emptied()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        self.regrouped(&Self::new(self.monoid.emptied()), slots, groups)
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let states = over_ranges(&self.states, ranges, &self.monoid);
        let seen = match self.seen() {
            Some(seen) => Some(above_none(over_ranges(&counts(seen), ranges, &ExactSum::new()))),
            None => ranges.some_are_empty().then(|| ranges.iter().map(|(lo, hi)| lo < hi).collect()),
        };
        Ok(Box::new(Self::with(self.monoid.clone(), states, seen)))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        A::state(self)
    }

    fn lower(&self) -> Result<ArrayRef> {
        A::lower(self)
    }

    fn bytes(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, Vec::capacity);
        self.states.capacity() * size_of::<A::State>() + seen + self.monoid.bytes()
    }

    fn states(&self) -> Option<&dyn States> {
        Some(self)
    }

    fn states_mut(&mut self) -> Option<&mut dyn States> {
        Some(self)
    }

    fn takes_out(&self) -> bool {
        self.monoid().inverts()
    }

    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        let lost: &Self = lost.alike();
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
        Ok(done)
    }

    fn subtracts(&self) -> bool {
        self.monoid().subtracts()
    }

    fn without(&self, lost: &dyn Partials, left: &[bool]) -> Result<Box<dyn Partials>> {
        let lost: &Self = lost.alike();
        let sees = |seen: &Option<Vec<bool>>, slot: usize| seen.as_ref().is_none_or(|seen| seen[slot]);
        let rest = |slot: usize| match (left[slot], sees(&lost.seen, slot)) {
            (false, _) => Some(self.monoid.identity()),
            (true, false) => Some(self.states[slot]),
            (true, true) => self.monoid.subtract(self.states[slot], lost.states[slot]),
        };
        let Some(states) = (0..left.len()).map(rest).collect::<Option<Vec<A::State>>>() else {
            return Err(without_inverse());
        };
        let seen = (0..left.len()).map(|slot| left[slot] && sees(&self.seen, slot)).collect();
        Ok(Box::new(Self::with(self.monoid.clone(), states, Some(seen))))
    }

    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        let (monoid, states) = self.parts_mut();
        monoid.keep_up(states, what)
    }
}

impl<A: Aggregate> Column<A> {
    /// The groups of these slots, which are those of this column, followed by those of a later one.
    fn regrouped(&self, later: &Self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let own = self.states.len();
        let state = |&slot: &u32| match (slot as usize).checked_sub(own) {
            None => self.states[slot as usize],
            Some(slot) => later.states[slot],
        };
        let was_seen = |&slot: &u32| match (slot as usize).checked_sub(own) {
            None => self.seen.as_ref().is_none_or(|seen| seen[slot as usize]),
            Some(slot) => later.seen.as_ref().is_none_or(|seen| seen[slot]),
        };
        let states = if groups.len() == slots.len() {
            slots.iter().map(state).collect()
        } else {
            let mut states = Vec::with_capacity(groups.len());
            for (at, &from) in groups.iter().enumerate() {
                let (from, to) = (from as usize, groups.get(at + 1).map_or(slots.len(), |&to| to as usize));
                let mut whole = state(&slots[from]);
                // Most have one slot.
                if to - from > 1 {
                    slots[from + 1..to]
                        .iter()
                        .for_each(|slot| whole = self.monoid.combine(whole, state(slot)));
                }
                states.push(whole);
            }
            states
        };
        let seen = (self.seen.is_some() || later.seen.is_some())
            .then(|| grouped(slots, groups).map(|group| group.iter().any(was_seen)).collect());
        Ok(Box::new(Self::with(self.monoid.clone(), states, seen)))
    }
}

impl<A: Aggregate> States for Column<A> {
    fn is_plain(&self) -> bool {
        self.monoid().is_plain()
    }

    fn regroup_both(&self, later: &dyn Partials, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        self.regrouped(later.alike(), slots, groups)
    }

    fn answer_any(&self, ranges: &[(u32, u32)]) -> Box<dyn Partials> {
        let states = over_any_ranges(&self.states, ranges, &self.monoid);
        let seen = self.seen().map(|seen| over_any_ranges(&counts(seen), ranges, &ExactSum::new()));
        Box::new(Self::with(self.monoid.clone(), states, seen.map(above_none)))
    }

    fn totals(&self) -> Option<Box<dyn Totals>> {
        RunningTotals::of(self)
    }

    fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        A::update_runs(self, inputs, runs, len)
    }

    fn grow(&mut self, len: usize) {
        self.track_seen();
        self.states.resize(len, self.monoid.identity());
        if let Some(seen) = &mut self.seen {
            seen.resize(len, false);
        }
    }

    fn reset(&mut self, slots: &[u32]) {
        self.track_seen();
        let identity = self.monoid.identity();
        slots.iter().for_each(|&slot| self.states[slot as usize] = identity);
        if let Some(seen) = &mut self.seen {
            slots.iter().for_each(|&slot| seen[slot as usize] = false);
        }
    }

    fn combine(&mut self, program: &[(u32, u32, u32)]) {
        for &(to, earlier, later) in program {
            let (earlier, later) = (earlier as usize, later as usize);
            self.states[to as usize] = self.monoid.combine(self.states[earlier], self.states[later]);
            if let Some(seen) = &mut self.seen {
                seen[to as usize] = seen[earlier] || seen[later];
            }
        }
    }

    fn write(&mut self, at: &[u32], from: &dyn Partials, len: usize) {
        let from: &Self = from.alike();
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
}

/// 1 for each slot that saw a value.
fn counts(seen: &[bool]) -> Vec<i64> {
    seen.iter().map(|&seen| seen.into()).collect()
}

fn above_none(counts: Vec<i64>) -> Vec<bool> {
    counts.into_iter().map(|count| count > 0).collect()
}
