//! Aggregate buckets: a partial per window, into which each of its rows is folded (Traub et al. 2019, §3.3).
//!
//! | | |
//! |---|---|
//! | needs | any function of rows in order, commutative ones of rows out of order; sessions by merging their buckets |
//! | time | O(o) per row that o windows have; O(1) per window |
//! | space | a partial and two times per window that has not expired (Table 1, row 3) |
//! | refuses | of rows out of order: functions that do not commute, as a bucket takes rows as they come, and windows of a number of rows, as a late row moves others from bucket to bucket |
//! | source | Li et al., *Semantics and Evaluation Techniques for Window Aggregates in Data Streams*, SIGMOD 2005: what Flink does |
//!
//! Sessions that become one keep their buckets, which are combined when the session is emitted.

use crate::buckets::{Buckets, Contents};
use crate::{Setting, Technique, refused};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};
use windowkit::slice::strategy::Order;
use windowkit::window::Window;

const NAME: &str = "aggregate_buckets";

/// Dropped slots that may gather before they are cleared away.
const SLACK: usize = 64;

/// Buckets without rows.
///
/// # Errors
/// `InvalidValue` for a window type that no technique knows, a lateness below zero, and of rows out of order for functions
/// that do not commute and windows of a number of rows.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let counted = setting.windows.iter().any(|window| matches!(window, Window::Counted(_)));
    if setting.order == Order::OutOfOrder && counted {
        return Err(refused(
            NAME,
            "window of a number of rows, of rows out of order",
            "a late row moves the last row of each later bucket to the next, and a bucket keeps no rows (Traub et al. \
             2019, §3.3)",
            "windows over time, or rows in order",
        ));
    }
    let commutative = setting.partials.iter().all(|partials| partials.properties().commutative);
    if setting.order == Order::OutOfOrder && !commutative {
        return Err(refused(
            NAME,
            "function that does not commute, of rows out of order",
            "a bucket takes rows as they come",
            "functions that commute, or rows in order",
        ));
    }
    let aggregates = |partials| Aggregates { partials, live: Vec::new(), dropped: 0 };
    Ok(Box::new(Buckets::new(NAME, setting, aggregates)?))
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

    fn clear(&mut self) {
        let partials = self.partials.iter().map(|partials| partials.empty()).collect();
        (self.partials, self.live, self.dropped) = (partials, Vec::new(), 0);
    }

    fn held(&self) -> (usize, usize, usize) {
        let bytes: usize = self.partials.iter().map(|partials| partials.bytes()).sum();
        (0, self.live.len() - self.dropped, bytes + self.live.capacity())
    }
}
