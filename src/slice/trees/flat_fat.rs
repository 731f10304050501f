//! The eager aggregate store: a tree over each key's slices, so that a window is O(log n) combinations (Traub et al.
//! 2019, §5.2).
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine` over plain states |
//! | time | O(log n) combinations per changed slice and per window, of n slices; O(n) for a slice inserted among others |
//! | space | two states per leaf, and room for twice the leaves |
//! | first appeared | FlatFAT, Tangwongsan et al., VLDB 2015 |
//!
//! A tree is an array: node 1 is the root, the children of node i are 2i and 2i + 1, and the leaves are the last level,
//! used as a ring: the n-th slice that a key ever had is leaf n modulo their number, so that dropping slices costs
//! nothing. A node that spans the ring's seam is meaningless, and no window reads it.

use std::ops::Range;

use super::super::store::{Delta, Store, Wanted};
use super::super::timeline::{Dirty, Timelines};
use super::rings::Rooms;
use crate::Result;
use crate::aggregate::Partials;
use crate::poll::Poll;

/// The least number of leaves.
const LEAST: usize = 4;

/// A key's tree: nodes `base..base + 2 * leaves`.
#[derive(Debug, Clone, Copy)]
struct Tree {
    base: usize,
    leaves: usize,
}

/// The trees of all keys.
pub struct FlatFat {
    /// The partials that are plain states: their numbers, and a slot per node.
    which: Vec<usize>,
    nodes: Vec<Box<dyn Partials>>,
    rooms: Rooms,
    /// Keys whose trees must be rebuilt.
    stale: Vec<u32>,
}

impl FlatFat {
    /// No trees yet, of these partials of a store, which are plain states.
    pub fn new(store: &Store, which: Vec<usize>) -> Self {
        let nodes = which.iter().map(|&at| store.partials()[at].empty()).collect();
        Self { which, nodes, rooms: Rooms::default(), stale: Vec::new() }
    }

    /// Whether no partial has trees.
    pub fn is_empty(&self) -> bool {
        self.which.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.bytes()).sum::<usize>() + self.rooms.bytes()
    }

    /// Invalidates the trees of these keys: they are rebuilt before they are next used.
    pub fn invalidate(&mut self, keys: impl Iterator<Item = u32>) {
        if !self.which.is_empty() {
            self.stale.extend(keys);
        }
    }

    /// Recomputes the leaves of changed slices and the nodes above them.
    ///
    /// # Errors
    /// That of `poll`; what was invalid stays so.
    pub fn update(
        &mut self,
        dirty: Vec<Dirty>,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        poll: Poll,
    ) -> Result<()> {
        if self.which.is_empty() {
            return Ok(());
        }
        self.stale.sort_unstable();
        self.stale.dedup();
        let stale = self.stale.iter().map(|&key| Dirty { key, ..Dirty::default() });
        let mut dirty: Vec<Dirty> = stale.chain(dirty).collect();
        // One entry per key, the most extensive one first.
        dirty.sort_by_key(|dirty| (dirty.key, dirty.from));
        dirty.dedup_by(|later, kept| {
            later.key == kept.key && {
                kept.places.append(&mut later.places);
                true
            }
        });
        let (mut wanted, mut leaves) = (Vec::new(), Vec::new());
        for Dirty { key, mut places, mut from } in dirty {
            let slices = timelines.of(key).len();
            if self.rooms.make(key, 2 * slices, 2 * LEAST).is_some() {
                from = 0;
            }
            places.retain(|&place| place < from.min(slices));
            places.sort_unstable();
            places.dedup();
            let mut add = |slices: Range<usize>| {
                leaves.extend(slices.clone().map(|place| self.leaf(timelines, key, place)));
                wanted.push(Wanted { key, slices });
            };
            for run in places.chunk_by(|a, b| a + 1 == *b) {
                add(run[0]..run[run.len() - 1] + 1);
            }
            if from < slices {
                add(from..slices);
            }
        }
        if leaves.is_empty() {
            self.stale.clear();
            return Ok(());
        }
        let values = store.gather(delta, timelines, (&wanted, &self.which), poll)?;
        let slots: Vec<u32> = leaves.iter().map(|(base, node)| (base + node) as u32).collect();
        let program = above(leaves);
        for (nodes, values) in self.nodes.iter_mut().zip(&values) {
            if let Some(states) = nodes.states_mut() {
                states.write(&slots, values.as_ref(), self.rooms.slots());
                states.combine(&program);
            }
        }
        self.stale.clear();
        Ok(())
    }

    /// The nodes that make up windows, each a range of a key's slices, and where each window's nodes begin.
    pub fn nodes(
        &self,
        timelines: &Timelines,
        windows: impl Iterator<Item = Wanted>,
    ) -> (Vec<u32>, Vec<u32>) {
        let (mut slots, mut groups) = (Vec::new(), Vec::with_capacity(windows.size_hint().0));
        for Wanted { key, slices } in windows {
            groups.push(slots.len() as u32);
            let (tree, first) = (self.tree(key), timelines.gone(key) as usize);
            let (lo, hi) = (first + slices.start, first + slices.end);
            // Up to the seam of the ring, and from there on.
            let seam = (lo | (tree.leaves - 1)) + 1;
            let from = lo & (tree.leaves - 1);
            self.cover(tree, from, from + hi.min(seam) - lo, &mut slots);
            if hi > seam {
                self.cover(tree, 0, hi - seam, &mut slots);
            }
        }
        (slots, groups)
    }

    /// One of the partials that have trees, of windows given by [`FlatFat::nodes`].
    pub fn answer(&self, which: usize, (slots, groups): &(Vec<u32>, Vec<u32>)) -> Result<Box<dyn Partials>> {
        self.nodes[which].regroup(slots, groups)
    }

    /// The nodes that make up leaves `lo..hi`, in their order.
    fn cover(&self, tree: Tree, lo: usize, hi: usize, slots: &mut Vec<u32>) {
        let (mut lo, mut hi) = (lo + tree.leaves, hi + tree.leaves);
        let mut right = [0u32; usize::BITS as usize];
        let mut rights = 0;
        while lo < hi {
            if lo & 1 == 1 {
                slots.push((tree.base + lo) as u32);
                lo += 1;
            }
            if hi & 1 == 1 {
                hi -= 1;
                right[rights] = (tree.base + hi) as u32;
                rights += 1;
            }
            (lo, hi) = (lo / 2, hi / 2);
        }
        slots.extend(right[..rights].iter().rev());
    }

    /// The leaf of a slice: the base of its tree, and its node.
    fn leaf(&self, timelines: &Timelines, key: u32, place: usize) -> (usize, usize) {
        let tree = self.tree(key);
        (tree.base, tree.leaves + (timelines.gone(key) as usize + place) % tree.leaves)
    }

    fn tree(&self, key: u32) -> Tree {
        let room = self.rooms.of(key);
        Tree { base: room.base, leaves: room.len / 2 }
    }
}

/// What to combine once these leaves, given by the bases of their trees, have changed: node, left and right child,
/// level by level.
fn above(mut level: Vec<(usize, usize)>) -> Vec<(u32, u32, u32)> {
    let mut program = Vec::new();
    while !level.is_empty() {
        level.iter_mut().for_each(|(_, node)| *node /= 2);
        level.retain(|&(_, node)| node > 0);
        if !level.is_sorted() {
            level.sort_unstable();
        }
        level.dedup();
        program.extend(level.iter().map(|&(base, node)| {
            ((base + node) as u32, (base + 2 * node) as u32, (base + 2 * node + 1) as u32)
        }));
    }
    program
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Above, out_of_order, sum, tried};
    use super::*;
    use crate::aggregate::Partial;
    use arrow_array::{cast::AsArray, types::Int64Type};
    use proptest::prelude::*;

    impl Above for FlatFat {
        type Answer = Option<i64>;
        const PARTIAL: Partial = Partial::Sum;

        fn new(store: &Store) -> Self {
            FlatFat::new(store, vec![0])
        }

        fn update(&mut self, given: (&Store, &Delta), timelines: &Timelines, poll: Poll) -> Result<()> {
            self.update(timelines.dirty(), given, timelines, poll)
        }

        fn answers(
            &mut self,
            _: (&Store, &Delta),
            timelines: &Timelines,
            windows: &[Wanted],
        ) -> Vec<Option<i64>> {
            let sums =
                self.answer(0, &self.nodes(timelines, windows.iter().cloned())).unwrap().lower().unwrap();
            sums.as_primitive::<Int64Type>().iter().collect()
        }

        fn defined(values: &[i64]) -> Option<i64> {
            sum(values)
        }

        fn invalidate(&mut self, keys: Vec<u32>) {
            self.invalidate(keys.into_iter());
        }

        /// Trees are updated with the changes of the next call.
        fn forget(&mut self, _: &Timelines) {}
    }

    proptest! {
        /// Whatever is added, dropped, rolled back, or inserted, a window is the sum of its slices, null if they have
        /// no value.
        #[test]
        fn windows_are_sums_of_their_slices(calls in out_of_order()) {
            tried::<FlatFat>(calls)?;
        }
    }
}
