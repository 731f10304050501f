//! Running totals of partials that have an inverse: any range of them in O(1).
//!
//! | | |
//! |---|---|
//! | needs | an exact inverse, so that the part before a range can be removed from the total up to its end |
//! | time | one `combine` per slot added, one `invert` per range |
//! | space | a state and a count per slot |
//! | first appeared | prefix sums; the inverse is the one of Traub et al. 2019, §4.2 |

use super::column::Column;
use super::lift::Aggregate;
use super::partials::{Partials, Totals};
use crate::algebra::Monoid;

/// The total up to a place.
#[derive(Clone, Copy)]
struct Total<S> {
    state: S,
    /// How many slots with values it includes: those without lower to null, and so does a range of such slots.
    seen: u64,
}

/// Running totals of a monoid with an inverse.
pub(super) struct RunningTotals<M: Monoid> {
    monoid: M,
    totals: Vec<Total<M::State>>,
}

impl<M: Aggregate> RunningTotals<M> {
    /// Totals for columns like this one, if they can exist.
    pub(super) fn of(column: &Column<M>) -> Option<Box<dyn Totals>> {
        let monoid = column.monoid().emptied();
        let can_be = monoid.is_plain() && monoid.inverts();
        can_be.then(|| Box::new(Self { monoid, totals: Vec::new() }) as Box<dyn Totals>)
    }
}

impl<M: Aggregate> Totals for RunningTotals<M> {
    fn grow(&mut self, len: usize) {
        self.totals.resize(len, Total { state: self.monoid.identity(), seen: 0 });
    }

    fn reset(&mut self, at: &[u32]) {
        let nothing = Total { state: self.monoid.identity(), seen: 0 };
        at.iter().for_each(|&at| self.totals[at as usize] = nothing);
    }

    fn extend(&mut self, program: &[(u32, u32, u32)], from: &dyn Partials) {
        let from = from.alike::<Column<M>>();
        let (states, seen) = (from.states(), from.seen());
        for &(to, before, slot) in program {
            let Total { state, seen: count } = self.totals[before as usize];
            let has_values = seen.is_none_or(|seen| seen[slot as usize]);
            self.totals[to as usize] = Total {
                state: self.monoid.combine(state, states[slot as usize]),
                seen: count.wrapping_add(u64::from(has_values)),
            };
        }
    }

    fn copy(&mut self, program: &[(u32, u32)]) {
        program.iter().for_each(|&(to, from)| self.totals[to as usize] = self.totals[from as usize]);
    }

    fn between(&self, ranges: &[(u32, u32)]) -> Box<dyn Partials> {
        let mut all = true;
        let state = |&(start, end): &(u32, u32)| {
            let (part, whole) = (self.totals[start as usize], self.totals[end as usize]);
            all &= part.seen != whole.seen;
            self.monoid.invert(whole.state, part.state)
        };
        let states = ranges.iter().map(state).collect();
        let has_values =
            |&(start, end): &(u32, u32)| self.totals[start as usize].seen != self.totals[end as usize].seen;
        let seen = (!all).then(|| ranges.iter().map(has_values).collect());
        Box::new(Column::with(self.monoid.clone(), states, seen))
    }

    fn bytes(&self) -> usize {
        self.totals.capacity() * size_of::<Total<M::State>>()
    }
}
