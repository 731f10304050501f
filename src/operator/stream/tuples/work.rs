//! The changes a call makes to slices, key by key.

use super::fresh::{Fresh, Own};
use crate::aggregate::Run;
use crate::operator::stream::options::Stats;

/// No group.
pub(super) const NONE: u32 = u32::MAX;

/// A slice that is new, or takes over other slices' partials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: u32,
    /// Places of its rows.
    pub(super) lo: usize,
    pub(super) hi: usize,
    /// Slots that it takes over, slice by slice in the order of time.
    pub(super) bases: Vec<u32>,
    /// Places of rows that it does not take over.
    pub(super) added: Vec<usize>,
    /// Rows of `bases` that it does not contain: arrival numbers and times.
    pub(super) removed: Vec<(u64, i64)>,
    /// Whether its rows go to an additional slot of a slice that keeps its own slots.
    pub(super) chained: bool,
    /// Whether all added rows come after those of the bases.
    pub(super) appended: bool,
    /// Whether rows that were in other slices are added.
    pub(super) folds_again: bool,
    /// Whether rows that were folded before must be folded again where the order of folding matters: rows with equal
    /// times must be folded in order of arrival.
    pub(super) refolds: bool,
    /// Whether some of its rows were in slices before.
    pub(super) known: bool,
}

/// The outcome of a call.
///
/// Each changed slice gets a slot. Most contain only rows that came after all others of their key: these are folded in
/// order of arrival, all keys in one pass. The others are [`Change`]s.
pub(super) struct Work {
    /// What happened to slices.
    pub(super) did: Stats,
    pub(super) changes: Vec<Change>,
    /// The slot of each change, of those of this call.
    pub(super) of_changes: Vec<u32>,
    /// Rows at the end of a key's rows, one group per slice: its slot among those of this call, and the time of its
    /// first row.
    pub(super) groups: Vec<(u32, i64)>,
    /// The group of each of the call's rows; [`NONE`] of those in changes.
    pub(super) group_of: Vec<u32>,
    /// The groups as runs of consecutive rows, if the rows are of one key and came in order.
    pub(super) runs: Vec<Run>,
    /// Rows that have a group.
    pub(super) grouped: usize,
    /// The number of the first slot.
    base: u32,
}

impl Work {
    /// No changes yet, for so many rows; slots count from `base`.
    pub(super) fn new(rows: usize, base: usize) -> Self {
        Self {
            did: Stats::default(),
            changes: Vec::new(),
            of_changes: Vec::new(),
            groups: Vec::new(),
            group_of: vec![NONE; rows],
            runs: Vec::new(),
            grouped: 0,
            base: base as u32,
        }
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.changes.len() + self.groups.len()
    }

    /// Assigns a slot to a change.
    pub(super) fn change(&mut self, slot: u32, change: Change) -> u32 {
        self.changes.push(change);
        self.of_changes.push(slot - self.base);
        slot
    }

    /// Assigns a slot to a group: rows `lo..hi` of a key's rows in this call.
    pub(super) fn group(&mut self, slot: u32, fresh: &Fresh, own: Own, (lo, hi): (usize, usize), first: i64) {
        let group = self.groups.len() as u32;
        self.groups.push((slot - self.base, first));
        self.grouped += hi - lo;
        if fresh.is_plain() {
            self.group_of[lo..hi].fill(group);
            self.runs.push(Run { slot: group, from: lo, to: hi });
        } else {
            fresh.rows_in(own, lo..hi).for_each(|row| self.group_of[row] = group);
        }
    }
}
