//! The eager aggregate store: what is kept above the slices, so that a window need not combine all of its slices (Traub
//! et al. 2019, §5.2). For plain states these are running totals, where the stream is in order and the function
//! invertible, or otherwise trees; for multisets, sorted runs.

mod flat_fat;
mod rings;
mod run_tree;
mod running_totals;
#[cfg(test)]
mod trial;

use std::collections::VecDeque;
use std::ops::Range;

use super::store::{Delta, Store, Wanted};
use super::timeline::Timelines;
use crate::Result;
use crate::aggregate::Partials;
use crate::poll::Poll;
use flat_fat::FlatFat;
use run_tree::RunTree;
use running_totals::RunningTotals;

/// What should be kept above the slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Nothing: windows are combined from their slices.
    Nothing,
    /// Sorted runs of multisets.
    Runs,
    /// Sorted runs, and totals of plain states, where there are any.
    Totals,
    /// Sorted runs, and for all plain states totals or trees.
    All,
}

/// What is kept above the slices.
pub struct Eager {
    wants: Wants,
    totals: RunningTotals,
    flat_fat: FlatFat,
    run_tree: Option<RunTree>,
    /// The structure that answers for each partial of the store.
    above: Vec<Above>,
}

/// The structure above the slices of a partial, and the partial's number in it.
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
        let run_tree = if wants == Wants::Nothing { None } else { RunTree::new(store) };
        let (mut with_totals, mut with_trees) = (Vec::new(), Vec::new());
        let above = store.partials().iter().enumerate().map(|(at, partials)| {
            if run_tree.as_ref().is_some_and(|run_tree| run_tree.which().contains(&at)) {
                Above::Runs
            } else if !matches!(wants, Wants::Totals | Wants::All) || !partials.is_plain() {
                Above::Nothing
            } else if appends && partials.totals().is_some() {
                with_totals.push(at);
                Above::Totals(with_totals.len() - 1)
            } else if wants == Wants::All {
                with_trees.push(at);
                Above::Trees(with_trees.len() - 1)
            } else {
                Above::Nothing
            }
        });
        let above = above.collect();
        let (totals, flat_fat) = (RunningTotals::new(store, with_totals), FlatFat::new(store, with_trees));
        Self { wants, totals, flat_fat, run_tree, above }
    }

    /// What was asked for.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// How many partials have totals.
    pub fn totals(&self) -> usize {
        self.above.iter().filter(|above| matches!(above, Above::Totals(_))).count()
    }

    /// How many partials are sorted runs.
    pub fn runs(&self) -> usize {
        self.run_tree.as_ref().map_or(0, |run_tree| run_tree.which().len())
    }

    /// Whether it can answer for this partial of the store.
    pub fn has(&self, partial: usize) -> bool {
        self.above[partial] != Above::Nothing
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.totals.bytes() + self.flat_fat.bytes() + self.run_tree.as_ref().map_or(0, RunTree::bytes)
    }

    /// Invalidates what it holds of these keys: it is recomputed before it is next used.
    pub fn invalidate(&mut self, keys: impl Iterator<Item = u32> + Clone) {
        self.totals.invalidate(keys.clone());
        self.flat_fat.invalidate(keys.clone());
        if let Some(run_tree) = &mut self.run_tree {
            run_tree.invalidate(keys);
        }
    }

    /// Applies the changes of a call.
    ///
    /// # Errors
    /// That of `poll`; what was invalid stays so.
    pub fn update(&mut self, given: (&Store, &Delta), timelines: &Timelines, poll: Poll) -> Result<()> {
        self.totals.update(given, timelines, poll)?;
        if self.run_tree.is_none() && self.flat_fat.is_empty() {
            return Ok(());
        }
        let dirty = timelines.dirty();
        if let Some(run_tree) = &mut self.run_tree {
            run_tree.update(&dirty, timelines);
        }
        self.flat_fat.update(dirty, given, timelines, poll)
    }

    /// Drops what covers dropped slices of these keys.
    pub fn forget(&mut self, timelines: &Timelines, keys: Range<u32>) {
        if let Some(run_tree) = &mut self.run_tree {
            run_tree.forget(timelines, keys);
        }
    }

    /// The partials `wanted` of windows, each a range of a key's slices; partials that it does not hold are left out.
    /// [`Timelines`] already has the slots of `delta`.
    pub fn answer(
        &mut self,
        (store, delta): (&Store, &Delta),
        timelines: &Timelines,
        wanted: &[usize],
        windows: impl Iterator<Item = Wanted> + Clone,
        poll: Poll,
    ) -> Result<VecDeque<Box<dyn Partials>>> {
        let (mut ranges, mut nodes, mut runs) = (None, None, VecDeque::new());
        if let Some(run_tree) =
            self.run_tree.as_mut().filter(|_| wanted.iter().any(|&at| self.above[at] == Above::Runs))
        {
            runs = run_tree.answer((store, delta), timelines, windows.clone(), wanted, poll)?;
        }
        let mut answers = VecDeque::with_capacity(wanted.len());
        for &partial in wanted {
            match self.above[partial] {
                Above::Totals(at) => {
                    let ranges = ranges.get_or_insert_with(|| self.totals.ranges(timelines, windows.clone()));
                    answers.push_back(self.totals.answer(at, ranges));
                }
                Above::Trees(at) => {
                    let nodes = nodes.get_or_insert_with(|| self.flat_fat.nodes(timelines, windows.clone()));
                    answers.push_back(self.flat_fat.answer(at, nodes)?);
                }
                Above::Runs => answers.extend(runs.pop_front()),
                Above::Nothing => {}
            }
        }
        Ok(answers)
    }
}
