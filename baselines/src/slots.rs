//! Slots of partials that come and go: what techniques with states per row, node or slice allocate from.
//!
//! A plain state is written in place. Other partials, such as those of users' functions, only come to be by combining
//! others: of these a slot says where its state lies, and a combination is made behind all others, a level of a tree in
//! one call.

use std::collections::HashSet;

use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows, Upkeep};

/// Columns of partials with a list of slots that are free.
pub(crate) struct Slots {
    columns: Vec<States>,
    free: Vec<u32>,
    len: usize,
}

/// A slot whose states never change from identity.
pub(crate) const IDENTITY: u32 = 0;

/// The states of one partial.
enum States {
    InPlace(Box<dyn Partials>),
    Anew(Anew),
}

/// States that are not written in place.
struct Anew {
    partials: Box<dyn Partials>,
    /// Where each slot's state lies; [`NOWHERE`] if it is the identity.
    at: Vec<u32>,
    /// States there are, those of no slot included.
    places: usize,
    /// With so many states those of no slot are cleared away.
    limit: usize,
}

const NOWHERE: u32 = u32::MAX;

/// States of no slot that may gather.
const SLACK: usize = 64;

impl Slots {
    /// Slots of these empty columns ([`super::shared_states`]).
    pub(crate) fn new(partials: Vec<Box<dyn Partials>>) -> Self {
        let states = |mut partials: Box<dyn Partials>| match partials.states_mut() {
            Some(_) => States::InPlace(partials),
            None => States::Anew(Anew { partials, at: Vec::new(), places: 0, limit: SLACK }),
        };
        Self { columns: partials.into_iter().map(states).collect(), free: Vec::new(), len: 1 }
    }

    /// A slot with identities.
    pub(crate) fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len as u32 - 1
        })
    }

    /// Makes slots free again.
    pub(crate) fn free(&mut self, slots: &[u32]) {
        self.grow();
        for states in &mut self.columns {
            match states {
                States::InPlace(partials) => {
                    partials.states_mut().into_iter().for_each(|nodes| nodes.reset(slots));
                }
                States::Anew(anew) => slots.iter().for_each(|&slot| anew.at[slot as usize] = NOWHERE),
            }
        }
        self.free.extend_from_slice(slots);
    }

    /// Folds rows into their slots.
    pub(crate) fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<()> {
        self.grow();
        for (states, input) in self.columns.iter_mut().zip(inputs) {
            match states {
                States::InPlace(partials) => input.feed(&mut **partials, rows, self.len)?,
                States::Anew(anew) => anew.update(input, rows)?,
            }
        }
        Ok(())
    }

    /// For each `(to, earlier, later)` in this order, slot `to` becomes `earlier` combined with `later`.
    pub(crate) fn combine(&mut self, program: &[(u32, u32, u32)]) -> Result<()> {
        self.grow();
        for states in &mut self.columns {
            match states {
                States::InPlace(partials) => {
                    partials.states_mut().into_iter().for_each(|nodes| nodes.combine(program));
                }
                States::Anew(anew) => anew.combine(program)?,
            }
        }
        Ok(())
    }

    /// A column of each partial with a slot per group: `slots[groups[g]..groups[g + 1]]`, combined in that order.
    pub(crate) fn regroup(&mut self, slots: &[u32], groups: &[u32]) -> Result<Vec<Box<dyn Partials>>> {
        self.grow();
        let regrouped = self.columns.iter().map(|states| match states {
            States::InPlace(partials) => partials.regroup(slots, groups),
            States::Anew(anew) => anew.regroup(slots, groups),
        });
        regrouped.collect()
    }

    /// Number of partials of a slot.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> usize {
        self.len - 1 - self.free.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        let states = |states: &States| match states {
            States::InPlace(partials) => partials.bytes(),
            States::Anew(anew) => anew.partials.bytes() + anew.at.capacity() * size_of::<u32>(),
        };
        self.columns.iter().map(states).sum::<usize>() + self.free.capacity() * size_of::<u32>()
    }

    /// Grows all columns to all slots.
    fn grow(&mut self) {
        for states in &mut self.columns {
            match states {
                States::InPlace(partials) => {
                    partials.states_mut().into_iter().for_each(|nodes| nodes.grow(self.len));
                }
                States::Anew(anew) => anew.at.resize(self.len, NOWHERE),
            }
        }
    }
}

impl Anew {
    fn update(&mut self, input: &Input, rows: Rows<'_>) -> Result<()> {
        let Self { at, places, .. } = self;
        let place = |&slot: &u32| {
            let at = &mut at[slot as usize];
            if *at == NOWHERE {
                *at = *places as u32;
                *places += 1;
            }
            *at
        };
        let slots: Vec<u32> = rows.slots.iter().map(place).collect();
        input.feed(&mut *self.partials, Rows { slots: &slots, ..rows }, self.places)
    }

    fn combine(&mut self, mut program: &[(u32, u32, u32)]) -> Result<()> {
        while !program.is_empty() {
            // Those that read nothing that one of them writes: a level of a tree.
            let mut written = HashSet::new();
            let reads_old = |&&(to, earlier, later): &&(u32, u32, u32)| {
                let old = !written.contains(&earlier) && !written.contains(&later);
                written.insert(to);
                old
            };
            let (level, rest) = program.split_at(program.iter().take_while(reads_old).count());
            let (mut targets, mut places, mut groups) = (Vec::new(), Vec::new(), Vec::new());
            for &(to, earlier, later) in level {
                let from = [earlier, later].map(|slot| self.at[slot as usize]);
                let from = from.into_iter().filter(|&at| at != NOWHERE);
                groups.push(places.len() as u32);
                places.extend(from);
                if groups.last() == Some(&(places.len() as u32)) {
                    groups.pop();
                    self.at[to as usize] = NOWHERE;
                } else {
                    targets.push(to);
                }
            }
            // Values that it points to would otherwise be there once more with each combination.
            let mut made = self.partials.regroup(&places, &groups)?;
            made.keep_up(Upkeep::Shrink)?;
            self.partials.append(made);
            for to in targets {
                self.at[to as usize] = self.places as u32;
                self.places += 1;
            }
            program = rest;
        }
        self.sweep()
    }

    /// Clears away states of no slot, once they are most of all.
    fn sweep(&mut self) -> Result<()> {
        if self.places < self.limit {
            return Ok(());
        }
        let mut live: Vec<u32> = self.at.iter().copied().filter(|&at| at != NOWHERE).collect();
        live.sort_unstable();
        self.partials = self.partials.regroup(&live, &(0..live.len() as u32).collect::<Vec<_>>())?;
        self.partials.keep_up(Upkeep::Shrink)?;
        for at in self.at.iter_mut().filter(|at| **at != NOWHERE) {
            *at = live.partition_point(|&other| other < *at) as u32;
        }
        (self.places, self.limit) = (live.len(), 2 * live.len() + SLACK);
        Ok(())
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let ends = groups.iter().skip(1).map(|&end| end as usize).chain([slots.len()]);
        let (mut places, mut starts) = (Vec::with_capacity(slots.len()), Vec::with_capacity(groups.len()));
        for (&from, to) in groups.iter().zip(ends) {
            starts.push(places.len() as u32);
            let own = slots[from as usize..to].iter().map(|&slot| self.at[slot as usize]);
            places.extend(own.filter(|&at| at != NOWHERE));
        }
        self.partials.regroup(&places, &starts)
    }
}
