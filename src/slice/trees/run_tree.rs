//! The eager aggregate store of multisets: levels of sorted runs over each key's slices, merged when a window first
//! needs them (Traub et al. 2019, §§5.2, 5.4.1).
//!
//! | | |
//! |---|---|
//! | needs | values ordered by themselves: numbers, times, decimals |
//! | time | O(log n) merges of a row over all windows, of n slices; O(log n) runs a window |
//! | space | a run per level for the windows queried: at most O(log n) times the values |
//! | first appeared | here: the nodes of FlatFAT (Tangwongsan et al., VLDB 2015), which are states, made sorted runs |
//!
//! Node i of level l covers slices i * 2^l to (i + 1) * 2^l (exclusive), counted from the first that the key ever had,
//! so that slices are dropped and added without rebuilding the tree. A node exists only if both of its children do: a
//! changed slice invalidates the nodes above it up to the first missing one.

use std::collections::VecDeque;
use std::ops::Range;

use super::super::store::{Delta, Store, Wanted};
use super::super::timeline::{Dirty, Timelines};
use crate::Result;
use crate::aggregate::{Partials, RunNodes};
use crate::poll::Poll;

/// No node.
const NONE: u32 = u32::MAX;

/// The nodes of one level: entry i is node `first + i`.
#[derive(Debug, Clone, Default)]
struct Level {
    first: u64,
    nodes: VecDeque<u32>,
}

impl Level {
    fn get(&self, at: u64) -> Option<u32> {
        let place = at.checked_sub(self.first)?;
        self.nodes.get(place as usize).copied().filter(|&node| node != NONE)
    }

    fn put(&mut self, at: u64, node: u32) {
        if self.nodes.is_empty() {
            self.first = at;
        }
        while at < self.first {
            self.nodes.push_front(NONE);
            self.first -= 1;
        }
        let place = (at - self.first) as usize;
        if self.nodes.len() <= place {
            self.nodes.resize(place + 1, NONE);
        }
        self.nodes[place] = node;
    }

    fn take(&mut self, at: u64) -> Option<u32> {
        let node = self.get(at)?;
        self.nodes[(at - self.first) as usize] = NONE;
        Some(node)
    }
}

/// The levels of all keys.
pub struct RunTree {
    /// Which partials have nodes, and their nodes, numbered alike for all.
    which: Vec<usize>,
    nodes: Vec<Box<dyn RunNodes>>,
    keys: Vec<Vec<Level>>,
    /// Free node numbers below `len`.
    free: Vec<u32>,
    len: u32,
    /// The node that is being built, or was when building ended early.
    unfinished: Option<u32>,
}

impl RunTree {
    /// No nodes yet, for those partials of a store that can be sorted runs; `None` if no partial can.
    pub fn new(store: &Store) -> Option<Self> {
        let runs = store.partials().iter().enumerate();
        let runs = runs.filter_map(|(at, partials)| Some((at, partials.run_nodes()?)));
        let (which, nodes): (Vec<usize>, Vec<Box<dyn RunNodes>>) = runs.unzip();
        (!which.is_empty()).then(|| Self {
            which,
            nodes,
            keys: Vec::new(),
            free: Vec::new(),
            len: 0,
            unfinished: None,
        })
    }

    /// Which partials have nodes.
    pub fn which(&self) -> &[usize] {
        &self.which
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let level = |level: &Level| size_of::<Level>() + level.nodes.capacity() * size_of::<u32>();
        self.nodes.iter().map(|nodes| nodes.bytes()).sum::<usize>()
            + self.keys.iter().flatten().map(level).sum::<usize>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Invalidates all nodes of these keys.
    pub fn invalidate(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            for level in self.keys.get_mut(key as usize).map(std::mem::take).into_iter().flatten() {
                self.release(level.nodes);
            }
        }
    }

    /// Drops nodes that cover dropped slices of these keys.
    pub fn forget(&mut self, timelines: &Timelines, keys: Range<u32>) {
        let mut dropped = Vec::new();
        let known = self.keys.len();
        let own = &mut self.keys[(keys.start as usize).min(known)..(keys.end as usize).min(known)];
        for (key, levels) in (keys.start..).zip(own).filter(|(_, levels)| !levels.is_empty()) {
            let gone = timelines.gone(key);
            for (height, level) in levels.iter_mut().enumerate() {
                let first = gone.div_ceil(1 << height);
                while level.first < first
                    && let Some(node) = level.nodes.pop_front()
                {
                    dropped.push(node);
                    level.first += 1;
                }
            }
        }
        self.release(dropped);
    }

    /// Invalidates nodes that cover changed slices.
    pub fn update(&mut self, dirty: &[Dirty], timelines: &Timelines) {
        for Dirty { key, places, from } in dirty {
            let Some(levels) = self.keys.get_mut(*key as usize) else { continue };
            let gone = timelines.gone(*key);
            let mut dropped = Vec::new();
            for (height, level) in levels.iter_mut().enumerate() {
                if *from != usize::MAX {
                    let kept = ((gone + *from as u64) >> height).saturating_sub(level.first) as usize;
                    dropped.extend(level.nodes.drain(kept.min(level.nodes.len())..));
                }
            }
            for &place in places {
                let at = gone + place as u64;
                let above =
                    levels.iter_mut().enumerate().map_while(|(height, level)| level.take(at >> height));
                dropped.extend(above);
            }
            self.release(dropped);
        }
    }

    /// The partials of windows, each a range of a key's slices: those of `which` that have nodes, in this order.
    /// [`Timelines`] already has the slots of `delta`.
    ///
    /// # Errors
    /// That of `poll`, which is called before each node is built; nodes that were built stay.
    pub fn answer(
        &mut self,
        given: (&Store, &Delta),
        timelines: &Timelines,
        windows: impl Iterator<Item = Wanted>,
        which: &[usize],
        poll: Poll,
    ) -> Result<VecDeque<Box<dyn Partials>>> {
        let unfinished = self.unfinished.take();
        self.release(unfinished);
        let (nodes, offsets) = self.cover(given, timelines, windows, poll)?;
        let own = which.iter().filter_map(|which| self.which.iter().position(|own| own == which));
        Ok(own.map(|own| self.nodes[own].answer(&nodes, &offsets)).collect())
    }

    /// The nodes that together are each window, and where those of each begin.
    fn cover(
        &mut self,
        given: (&Store, &Delta),
        timelines: &Timelines,
        windows: impl Iterator<Item = Wanted>,
        poll: Poll,
    ) -> Result<(Vec<u32>, Vec<usize>)> {
        let (mut nodes, mut offsets) = (Vec::new(), vec![0]);
        for Wanted { key, slices } in windows {
            if self.keys.len() <= key as usize {
                self.keys.resize(key as usize + 1, Vec::new());
            }
            let gone = timelines.gone(key);
            let (mut lo, hi) = (gone + slices.start as u64, gone + slices.end as u64);
            while lo < hi {
                // The largest node that begins here and does not end too late.
                let height = lo.trailing_zeros().min((hi - lo).ilog2()) as usize;
                nodes.push(self.node(given, timelines, (key, height, lo >> height), poll)?);
                lo += 1 << height;
            }
            offsets.push(nodes.len());
        }
        Ok((nodes, offsets))
    }

    /// A node of a key, by its height and number, which is built if it does not exist.
    fn node(
        &mut self,
        given: (&Store, &Delta),
        timelines: &Timelines,
        (key, height, at): (u32, usize, u64),
        poll: Poll,
    ) -> Result<u32> {
        if let Some(node) = self.keys[key as usize].get(height).and_then(|level| level.get(at)) {
            return Ok(node);
        }
        let below = match height.checked_sub(1) {
            None => None,
            Some(below) => Some((
                self.node(given, timelines, (key, below, 2 * at), poll)?,
                self.node(given, timelines, (key, below, 2 * at + 1), poll)?,
            )),
        };
        poll()?;
        let node = self.reserve();
        self.unfinished = Some(node);
        match below {
            None => self.lift(given, timelines, key, (at - timelines.gone(key)) as usize, node),
            Some((earlier, later)) => {
                self.nodes.iter_mut().for_each(|nodes| nodes.merge(node, earlier, later));
            }
        }
        let levels = &mut self.keys[key as usize];
        if levels.len() <= height {
            levels.resize(height + 1, Level::default());
        }
        levels[height].put(at, node);
        self.unfinished = None;
        Ok(node)
    }

    /// Builds a node from a slice.
    fn lift(
        &mut self,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        key: u32,
        place: usize,
        node: u32,
    ) {
        let chain: Vec<u32> = timelines.chain(&timelines.get(key, place)).collect();
        for (&which, nodes) in self.which.iter().zip(&mut self.nodes) {
            let slot = |slot: &u32| match (*slot as usize).checked_sub(store.slots()) {
                None => (store.partials()[which].as_ref(), *slot),
                Some(slot) => (delta.partials()[which].as_ref(), slot as u32),
            };
            nodes.lift(node, &chain.iter().map(slot).collect::<Vec<_>>());
        }
    }

    fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        })
    }

    fn release(&mut self, dropped: impl IntoIterator<Item = u32>) {
        for node in dropped.into_iter().filter(|&node| node != NONE) {
            self.nodes.iter_mut().for_each(|nodes| nodes.drop_node(node));
            self.free.push(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Above, out_of_order, tried};
    use super::*;
    use crate::aggregate::Partial;
    use crate::poll::never;
    use arrow_array::{
        cast::AsArray,
        types::{Int64Type, UInt64Type},
    };
    use proptest::prelude::*;

    impl Above for RunTree {
        type Answer = Vec<i64>;
        const PARTIAL: Partial = Partial::Values;

        fn new(store: &Store) -> Self {
            RunTree::new(store).unwrap()
        }

        fn update(&mut self, _: (&Store, &Delta), timelines: &Timelines, poll: Poll) -> Result<()> {
            self.update(&timelines.dirty(), timelines);
            poll()
        }

        fn answers(
            &mut self,
            state: (&Store, &Delta),
            timelines: &Timelines,
            windows: &[Wanted],
        ) -> Vec<Vec<i64>> {
            let lists = self.answer(state, timelines, windows.iter().cloned(), &[0], never).unwrap()[0]
                .state()
                .unwrap();
            let values_of = |at: usize| {
                let [values, counts] = [0, 1].map(|list| lists[list].as_list::<i32>().value(at));
                let values = values.as_primitive::<Int64Type>().values().iter();
                let counts = counts.as_primitive::<UInt64Type>().values().iter();
                values.zip(counts).flat_map(|(&value, &count)| vec![value; count as usize]).collect()
            };
            (0..lists[0].len()).map(values_of).collect()
        }

        fn defined(values: &[i64]) -> Vec<i64> {
            let mut values = values.to_vec();
            values.sort_unstable();
            values
        }

        fn invalidate(&mut self, keys: Vec<u32>) {
            self.invalidate(keys.into_iter());
        }

        fn forget(&mut self, timelines: &Timelines) {
            self.forget(timelines, 0..timelines.keys() as u32);
        }
    }

    proptest! {
        /// Whatever is added, dropped, rolled back, or inserted, a window has the values of its slices, and no node
        /// leaks.
        #[test]
        fn windows_have_the_values_of_their_slices(calls in out_of_order()) {
            let run_tree: RunTree = tried(calls)?;
            prop_assert_eq!(run_tree.free.len(), run_tree.len as usize);
        }
    }
}
