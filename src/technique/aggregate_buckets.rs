//! Aggregate buckets: a partial per window, into which each of its rows is folded (Traub et al. 2019, §3.3).
//!
//! | | |
//! |---|---|
//! | needs | any function; any order; sessions by merging their buckets |
//! | time | O(o) per row that o windows have; O(1) per window |
//! | space | a partial and two times per window that has not expired (Table 1, row 3) |
//! | refuses | nothing |
//! | source | Li et al., *Semantics and Evaluation Techniques for Window Aggregates in Data Streams*, SIGMOD 2005: what Flink does |
//!
//! Sessions that become one keep their buckets, which are combined when the session is told.

use super::buckets::{Buckets, Contents};
use super::slots::bytes;
use super::{Setting, Technique};
use crate::Result;
use crate::aggregate::{Input, Partials, Rows};

/// Dropped slots that may gather before they are cleared away.
const SLACK: usize = 64;

/// Buckets without rows.
///
/// # Errors
/// `InvalidValue` for a window type that no technique knows, or a lateness below zero.
pub(super) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let aggregates = |partials| Aggregates { partials, live: Vec::new(), dropped: 0 };
    Ok(Box::new(Buckets::new("aggregate_buckets", setting, aggregates)?))
}

/// Partials of buckets.
struct Aggregates {
    partials: Vec<Box<dyn Partials>>,
    /// Which slots are buckets still.
    live: Vec<bool>,
    dropped: usize,
}

impl Contents for Aggregates {
    fn batch(&mut self, _: &[Input]) {}

    fn open(&mut self) -> u32 {
        self.live.push(true);
        self.live.len() as u32 - 1
    }

    fn fill(&mut self, inputs: &[Input], rows: Rows<'_>, _: Option<&[u32]>) -> Result<u64> {
        let len = self.live.len();
        // Sessions open buckets before the pass of theirs.
        let rows = Rows { sparse: true, ..rows };
        for (partials, input) in self.partials.iter_mut().zip(inputs) {
            input.feed(&mut **partials, rows, len)?;
        }
        Ok((rows.slots.len() * self.partials.len()) as u64)
    }

    fn answer(&mut self, slots: &[u32], groups: &[u32]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let partials = self.partials.iter().map(|partials| partials.regroup(slots, groups));
        Ok((partials.collect::<Result<_>>()?, ((slots.len() - groups.len()) * self.partials.len()) as u64))
    }

    fn free(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.live[slot as usize] = false);
        self.dropped += slots.len();
    }

    /// Dropped slots are cleared away once they are most of all.
    fn settle(&mut self) -> Result<Option<Vec<u32>>> {
        if self.dropped <= self.live.len() / 2 + SLACK {
            return Ok(None);
        }
        let slots: Vec<u32> = (0..self.live.len() as u32).filter(|&slot| self.live[slot as usize]).collect();
        let groups: Vec<u32> = (0..slots.len() as u32).collect();
        for partials in &mut self.partials {
            *partials = partials.regroup(&slots, &groups)?;
        }
        let mut numbers = vec![0; self.live.len()];
        slots.iter().zip(&groups).for_each(|(&old, &new)| numbers[old as usize] = new);
        (self.live, self.dropped) = (vec![true; slots.len()], 0);
        Ok(Some(numbers))
    }

    fn held(&self) -> (usize, usize, usize) {
        (0, self.live.len() - self.dropped, bytes(&self.partials) + self.live.capacity())
    }
}
