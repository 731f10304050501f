//! The eager aggregate store: what is kept above the slices, so that a window need not combine all of its own (Traub et
//! al. 2019, §5.2). Running totals where the stream is in order and the function invertible, else trees.

use super::forest::Forest;
use super::store::{Delta, Store, Wanted};
use super::timeline::Timelines;
use super::totals::KeyTotals;
use crate::Result;
use crate::aggregate::Partials;

/// Totals and trees above the slices.
pub struct Eager {
    totals: KeyTotals,
    forest: Forest,
    /// What answers for each partial of the store.
    above: Vec<Above>,
}

/// What is above the slices of a partial, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    Totals(usize),
    Trees(usize),
    Nothing,
}

impl Eager {
    /// Nothing yet above the slices of this store; `appends` says that slices only ever change at the end.
    pub fn new(store: &Store, appends: bool) -> Self {
        let (mut with_totals, mut with_trees) = (Vec::new(), Vec::new());
        let above = store.partials().iter().enumerate().map(|(at, partials)| {
            if appends && partials.totals().is_some() {
                with_totals.push(at);
                Above::Totals(with_totals.len() - 1)
            } else if partials.is_plain() {
                with_trees.push(at);
                Above::Trees(with_trees.len() - 1)
            } else {
                Above::Nothing
            }
        });
        let above = above.collect();
        Self { totals: KeyTotals::new(store, with_totals), forest: Forest::new(store, with_trees), above }
    }

    /// Whether it answers for this partial of the store.
    pub fn has(&self, partial: usize) -> bool {
        self.above[partial] != Above::Nothing
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.totals.bytes() + self.forest.bytes()
    }

    /// Computes what it knows of these keys anew before it is asked next.
    pub fn distrust(&mut self, keys: impl Iterator<Item = u32> + Clone) {
        self.totals.distrust(keys.clone());
        self.forest.distrust(keys);
    }

    /// Takes in what a call changed.
    pub fn update(&mut self, store: &Store, delta: &Delta, timelines: &Timelines) -> Result<()> {
        self.totals.update(store, delta, timelines)?;
        self.forest.update(store, delta, timelines)
    }

    /// The partials `wanted` of windows, each slices of a key; those that it has not are left out.
    pub fn answer(
        &self,
        timelines: &Timelines,
        wanted: &[usize],
        windows: impl Iterator<Item = Wanted> + Clone,
    ) -> Result<Vec<Box<dyn Partials>>> {
        let (mut ranges, mut nodes) = (None, None);
        let mut answers = Vec::with_capacity(wanted.len());
        for &partial in wanted {
            match self.above[partial] {
                Above::Totals(at) => {
                    let ranges = ranges.get_or_insert_with(|| self.totals.ranges(timelines, windows.clone()));
                    answers.push(self.totals.answer(at, ranges));
                }
                Above::Trees(at) => {
                    let nodes = nodes.get_or_insert_with(|| self.forest.nodes(timelines, windows.clone()));
                    answers.push(self.forest.answer(at, nodes)?);
                }
                Above::Nothing => {}
            }
        }
        Ok(answers)
    }
}
