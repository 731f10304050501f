//! The eager aggregate store: what is kept above the slices, so that a window need not combine all of its own (Traub et
//! al. 2019, §5.2). Of plain states running totals, where the stream is in order and the function invertible, or else
//! trees; of multisets sorted runs.

use std::collections::VecDeque;

use super::forest::Forest;
use super::grove::Grove;
use super::store::{Delta, Store, Wanted};
use super::timeline::Timelines;
use super::totals::KeyTotals;
use crate::Result;
use crate::aggregate::Partials;

/// What is to be kept above the slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Nothing: windows are combined from slices.
    Nothing,
    /// Sorted runs of multisets.
    Runs,
    /// These, and totals or trees of plain states.
    All,
}

/// What is kept above the slices.
pub struct Eager {
    wants: Wants,
    totals: KeyTotals,
    forest: Forest,
    grove: Option<Grove>,
    /// What answers for each partial of the store.
    above: Vec<Above>,
}

/// What is above the slices of a partial, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    Totals(usize),
    Trees(usize),
    Runs,
    Nothing,
}

impl Eager {
    /// Nothing yet above the slices of this store; `appends` says that slices only ever change at the end.
    pub fn new(store: &Store, wants: Wants, appends: bool) -> Self {
        let grove = if wants == Wants::Nothing { None } else { Grove::new(store) };
        let (mut with_totals, mut with_trees) = (Vec::new(), Vec::new());
        let above = store.partials().iter().enumerate().map(|(at, partials)| {
            if grove.as_ref().is_some_and(|grove| grove.which().contains(&at)) {
                Above::Runs
            } else if wants != Wants::All || !partials.is_plain() {
                Above::Nothing
            } else if appends && partials.totals().is_some() {
                with_totals.push(at);
                Above::Totals(with_totals.len() - 1)
            } else {
                with_trees.push(at);
                Above::Trees(with_trees.len() - 1)
            }
        });
        let above = above.collect();
        let (totals, forest) = (KeyTotals::new(store, with_totals), Forest::new(store, with_trees));
        Self { wants, totals, forest, grove, above }
    }

    /// Whether totals or trees are kept where partials are plain states.
    pub fn has_states(&self) -> bool {
        self.wants == Wants::All
    }

    /// How many partials are sorted runs.
    pub fn runs(&self) -> usize {
        self.grove.as_ref().map_or(0, |grove| grove.which().len())
    }

    /// Whether it answers for this partial of the store.
    pub fn has(&self, partial: usize) -> bool {
        self.above[partial] != Above::Nothing
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.totals.bytes() + self.forest.bytes() + self.grove.as_ref().map_or(0, Grove::bytes)
    }

    /// Has what it knows of these keys computed anew before it is asked next.
    pub fn distrust(&mut self, keys: impl Iterator<Item = u32> + Clone) {
        self.totals.distrust(keys.clone());
        self.forest.distrust(keys.clone());
        if let Some(grove) = &mut self.grove {
            grove.distrust(keys);
        }
    }

    /// Takes in what a call changed.
    pub fn update(&mut self, store: &Store, delta: &Delta, timelines: &Timelines) -> Result<()> {
        self.totals.update(store, delta, timelines)?;
        if self.grove.is_none() && self.forest.is_empty() {
            return Ok(());
        }
        let dirty = timelines.dirty();
        if let Some(grove) = &mut self.grove {
            grove.update(&dirty, timelines);
        }
        self.forest.update(dirty, store, delta, timelines)
    }

    /// Drops what slices that were forgotten have part in.
    pub fn forget(&mut self, timelines: &Timelines) {
        if let Some(grove) = &mut self.grove {
            grove.forget(timelines);
        }
    }

    /// The partials `wanted` of windows, each slices of a key; those that it has not are left out. [`Timelines`] has the slots
    /// of `delta` already.
    pub fn answer(
        &mut self,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        wanted: &[usize],
        windows: impl Iterator<Item = Wanted> + Clone,
    ) -> Result<VecDeque<Box<dyn Partials>>> {
        let (mut ranges, mut nodes, mut runs) = (None, None, VecDeque::new());
        if let Some(grove) =
            self.grove.as_mut().filter(|_| wanted.iter().any(|&at| self.above[at] == Above::Runs))
        {
            runs = grove.answer((store, delta), timelines, windows.clone(), wanted);
        }
        let mut answers = VecDeque::with_capacity(wanted.len());
        for &partial in wanted {
            match self.above[partial] {
                Above::Totals(at) => {
                    let ranges = ranges.get_or_insert_with(|| self.totals.ranges(timelines, windows.clone()));
                    answers.push_back(self.totals.answer(at, ranges));
                }
                Above::Trees(at) => {
                    let nodes = nodes.get_or_insert_with(|| self.forest.nodes(timelines, windows.clone()));
                    answers.push_back(self.forest.answer(at, nodes)?);
                }
                Above::Runs => answers.extend(runs.pop_front()),
                Above::Nothing => {}
            }
        }
        Ok(answers)
    }
}
