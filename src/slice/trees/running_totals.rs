//! The eager aggregate store of streams in order: running totals over each key's slices, so that a window of an
//! invertible function takes a single inversion, however many slices it has.
//!
//! | | |
//! |---|---|
//! | needs | plain states with an exact inverse; slices that only change at the end |
//! | time | O(1) per slice and per window |
//! | space | room for a total per slice, up to the next power of two, and again as much where rooms have grown |
//! | first appeared | prefix sums, over the slices of Traub et al. 2019, §5.2 |
//!
//! Total n of a key covers all slices before the n-th it ever had, so that dropping slices costs nothing. Totals are
//! used as a ring: total n lies at n modulo the length of the key's room.

use super::super::store::{Delta, Store, Wanted};
use super::super::timeline::Timelines;
use super::rings::{Room, Rooms};
use crate::Result;
use crate::aggregate::{Partials, Totals};
use crate::poll::Poll;

/// The least length of a ring.
const LEAST: usize = 4;

/// The running totals of all keys.
pub struct RunningTotals {
    /// The partials that have totals, and their totals, a slot each.
    which: Vec<usize>,
    totals: Vec<Box<dyn Totals>>,
    rooms: Rooms,
    /// Keys whose totals must be recomputed.
    stale: Vec<u32>,
    /// The additions to be made: the total, the one before it, and the slot.
    program: Vec<(u32, u32, u32)>,
}

impl RunningTotals {
    /// No totals yet, of these partials of a store, which are plain states with an inverse.
    pub fn new(store: &Store, which: Vec<usize>) -> Self {
        let totals = which.iter().filter_map(|&at| store.partials()[at].totals()).collect();
        Self { which, totals, rooms: Rooms::default(), stale: Vec::new(), program: Vec::new() }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.totals.iter().map(|totals| totals.bytes()).sum::<usize>() + self.rooms.bytes()
    }

    /// Invalidates the totals of these keys: they are recomputed before they are next used.
    pub fn invalidate(&mut self, keys: impl Iterator<Item = u32>) {
        if !self.which.is_empty() {
            self.stale.extend(keys);
        }
    }

    /// Adds the slots of a call to the totals.
    ///
    /// # Errors
    /// That of `poll`; what was invalid stays so.
    pub fn update(
        &mut self,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        poll: Poll,
    ) -> Result<()> {
        if self.which.is_empty() {
            return Ok(());
        }
        self.program.clear();
        self.stale.sort_unstable();
        self.stale.dedup();
        self.compute_anew((store, delta), timelines, poll)?;
        debug_assert_eq!(timelines.appended().count(), delta.slots(), "slices change at the end only");
        for (key, number, is_new, slot) in timelines.appended() {
            if self.stale.binary_search(&key).is_ok() {
                continue;
            }
            if is_new {
                let slices = timelines.of(key).len();
                if let Some(old) = self.rooms.make(key, slices + 1, LEAST) {
                    self.add_up(delta);
                    self.totals.iter_mut().for_each(|totals| totals.grow(self.rooms.slots()));
                    self.move_in(old, self.rooms.of(key), timelines.gone(key)..number);
                }
            }
            let room = self.rooms.of(key);
            let (to, own) = (place(room, number + 1), place(room, number));
            self.program.push((to, if is_new { own } else { to }, slot));
        }
        self.add_up(delta);
        self.stale.clear();
        Ok(())
    }

    /// Runs the additions of a call.
    fn add_up(&mut self, delta: &Delta) {
        if self.program.is_empty() {
            return;
        }
        for (totals, &which) in self.totals.iter_mut().zip(&self.which) {
            totals.extend(&self.program, delta.partials()[which].as_ref());
        }
        self.program.clear();
    }

    /// Copies the totals before these slices, and the one after them, to another room.
    fn move_in(&mut self, old: Room, new: Room, slices: std::ops::Range<u64>) {
        if old.len == 0 {
            let first = [place(new, slices.start)];
            return self.totals.iter_mut().for_each(|totals| totals.reset(&first));
        }
        let moves: Vec<(u32, u32)> =
            (slices.start..=slices.end).map(|number| (place(new, number), place(old, number))).collect();
        self.totals.iter_mut().for_each(|totals| totals.copy(&moves));
    }

    /// Computes the totals of invalid keys from all their slices.
    fn compute_anew(
        &mut self,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        poll: Poll,
    ) -> Result<()> {
        if self.stale.is_empty() {
            return Ok(());
        }
        let (mut wanted, mut firsts, mut program) = (Vec::new(), Vec::new(), Vec::new());
        for &key in &self.stale {
            let slices = timelines.of(key).len();
            self.rooms.make(key, slices + 1, LEAST);
            let (room, gone) = (self.rooms.of(key), timelines.gone(key));
            firsts.push(place(room, gone));
            for number in gone..gone + slices as u64 {
                program.push((place(room, number + 1), place(room, number), program.len() as u32));
            }
            wanted.push(Wanted { key, slices: 0..slices });
        }
        let values = if program.is_empty() {
            Vec::new()
        } else {
            store.gather(delta, timelines, (&wanted, &self.which), poll)?
        };
        for (at, totals) in self.totals.iter_mut().enumerate() {
            totals.grow(self.rooms.slots());
            totals.reset(&firsts);
            if let Some(values) = values.get(at) {
                totals.extend(&program, values.as_ref());
            }
        }
        Ok(())
    }

    /// The totals up to the start and up to the end of windows, each slices of a key.
    pub fn ranges(&self, timelines: &Timelines, windows: impl Iterator<Item = Wanted>) -> Vec<(u32, u32)> {
        let range = |Wanted { key, slices }| {
            let (room, gone) = (self.rooms.of(key), timelines.gone(key));
            (place(room, gone + slices.start as u64), place(room, gone + slices.end as u64))
        };
        windows.map(range).collect()
    }

    /// One of the partials that have totals, of windows given by [`RunningTotals::ranges`].
    pub fn answer(&self, which: usize, ranges: &[(u32, u32)]) -> Box<dyn Partials> {
        self.totals[which].between(ranges)
    }
}

/// Where total `number` of a room is.
fn place(room: Room, number: u64) -> u32 {
    (room.base + (number as usize & (room.len - 1))) as u32
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Above, in_order, sum, tried};
    use super::*;
    use crate::aggregate::Partial;
    use arrow_array::{cast::AsArray, types::Int64Type};
    use proptest::prelude::*;

    impl Above for RunningTotals {
        type Answer = Option<i64>;
        const PARTIAL: Partial = Partial::Sum;

        fn new(store: &Store) -> Self {
            RunningTotals::new(store, vec![0])
        }

        fn update(&mut self, given: (&Store, &Delta), timelines: &Timelines, poll: Poll) -> Result<()> {
            self.update(given, timelines, poll)
        }

        fn answers(
            &mut self,
            _: (&Store, &Delta),
            timelines: &Timelines,
            windows: &[Wanted],
        ) -> Vec<Option<i64>> {
            let sums = self.answer(0, &self.ranges(timelines, windows.iter().cloned())).lower().unwrap();
            sums.as_primitive::<Int64Type>().iter().collect()
        }

        fn defined(values: &[i64]) -> Option<i64> {
            sum(values)
        }

        fn invalidate(&mut self, keys: Vec<u32>) {
            self.invalidate(keys.into_iter());
        }

        /// Totals of dropped slices are removed by the next call.
        fn forget(&mut self, _: &Timelines) {}
    }

    proptest! {
        /// Whatever is added in order, dropped, or rolled back, a window is the sum of its slices, null if they have no
        /// value.
        #[test]
        fn windows_are_sums_of_their_slices(calls in in_order()) {
            tried::<RunningTotals>(calls)?;
        }
    }
}
