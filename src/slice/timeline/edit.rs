//! How slices come, join and are replaced, each change written to the undo log.

use super::undo::Change;
use super::{NONE, Slice, Timelines};
use crate::slice::cells::Cell;

impl Timelines {
    /// Adds a slot.
    pub fn open(&mut self) -> u32 {
        self.next.push(NONE);
        self.next.len() as u32 - 1
    }

    /// Adds a slot that was opened, with the cell it holds, where it belongs: to the slices within `[start, end)` (and within
    /// `gap` of the rows, if it is given), which it merges into one, or else as a new slice. Returns how many slices were
    /// moved. O(log n) of n slices of the key; for a new slice among them, and where some are merged, also those between
    /// it and the last one of the key to which that happened, or up to the nearer end.
    ///
    /// [`Timelines::close`] ends a call's additions.
    pub fn add(&mut self, (cell, slot): (Cell, u32), (start, end): (i64, i64), gap: Option<i64>) -> usize {
        let Cell { key, first, last } = cell;
        self.make_room(key as usize + 1);
        let timeline = &mut self.keys[key as usize];
        // Usually it is the last one.
        let (after, count) = (timeline.upto(first), timeline.len());
        let joins = |place: usize| {
            let (own_first, own_last) = timeline.times(place);
            let within = own_first >= start
                && own_last < end
                && gap.is_none_or(|gap| {
                    first <= own_last.saturating_add(gap) && own_first <= last.saturating_add(gap)
                });
            // A slice that was merged from several, between which no edge was needed, has rows on both sides.
            within || (own_first <= last && first <= own_last)
        };
        let is_last = after == count && after.checked_sub(1).is_none_or(|last| !joins(last));
        if is_last {
            // So it is for nearly all slices of rows in order.
            self.undo.reserve(1);
            timeline.reserve(false);
            timeline.push(Slice { first, last, lo: 0, chain: (slot, slot) }, false);
            self.slices += 1;
            self.undo.push(Change::Added { key, place: after });
            return 0;
        }
        let from = after - (0..after).rev().take_while(|&place| joins(place)).count();
        let to = after + (after..count).take_while(|&place| joins(place)).count();
        // Room first: a change that was made is in the undo log.
        self.undo.reserve(2 * (to - from) + 1);
        let mut moved = if to == from + 1 { 0 } else { self.open_only(key) };
        let timeline = &mut self.keys[key as usize];
        if from == to {
            moved += timeline.insert(from, Slice { first, last, lo: 0, chain: (slot, slot) });
            self.slices += 1;
            self.undo.push(Change::Added { key, place: from });
            return moved;
        }
        for place in (from + 1..to).rev() {
            let (old, own_moved) = timeline.remove(place);
            moved += own_moved;
            self.undo.push(Change::Removed { key, place, old });
            let one = timeline.get(place - 1);
            self.undo.push(Change::Widened { key, place: place - 1, old: one });
            self.next[one.chain.1 as usize] = old.chain.0;
            let chain = (one.chain.0, old.chain.1);
            timeline.set(place - 1, Slice { last: one.last.max(old.last), chain, ..one });
            self.slices -= 1;
            self.merges += 1;
        }
        let one = timeline.get(from);
        self.undo.push(Change::Widened { key, place: from, old: one });
        self.next[one.chain.1 as usize] = slot;
        let (first, last) = (one.first.min(first), one.last.max(last));
        timeline.set(from, Slice { first, last, chain: (one.chain.0, slot), ..one });
        moved
    }

    /// Lets slices of this key alone be put among others; returns how many of another key were moved for it.
    pub(super) fn open_only(&mut self, key: u32) -> usize {
        let moved = if self.open == Some(key) { 0 } else { self.close() };
        self.open = Some(key);
        moved
    }

    /// Ends the additions of a call; returns how many slices were moved.
    pub fn close(&mut self) -> usize {
        self.open.take().map_or(0, |key| self.keys[key as usize].close())
    }

    /// Removes the slices of a key from this place on, to be replaced by others.
    pub fn split_off(&mut self, key: u32, place: usize) -> Vec<Slice> {
        let timeline = &mut self.keys[key as usize];
        let old: Vec<Slice> = (place..timeline.len()).map(|place| timeline.get(place)).collect();
        self.undo.push(Change::Replaced { key, place, old: old.clone() });
        timeline.truncate(place);
        self.slices -= old.len();
        old
    }

    /// Appends a slice to those of a key, with slots of its own or of removed slices.
    pub fn push(&mut self, key: u32, slice: Slice) {
        let timeline = &mut self.keys[key as usize];
        let place = timeline.len();
        self.undo.reserve(1);
        timeline.reserve(self.has_los);
        timeline.push(slice, self.has_los);
        self.slices += 1;
        // Slices that replace others are rolled back with them.
        if !matches!(self.undo.last(), Some(Change::Replaced { key: own, .. }) if *own == key) {
            self.undo.push(Change::Added { key, place });
        }
    }

    /// A removed slice with an additional slot.
    pub fn linked(&mut self, slice: Slice, slot: u32) -> Slice {
        self.next[slice.chain.1 as usize] = slot;
        Slice { chain: (slice.chain.0, slot), ..slice }
    }

    /// Adds a slot to the last slice of a key, whose last row is then at this time.
    pub fn grow(&mut self, key: u32, slot: u32, last: i64) {
        let timeline = &mut self.keys[key as usize];
        let place = timeline.len() - 1;
        let old = timeline.get(place);
        self.undo.push(Change::Widened { key, place, old });
        self.next[old.chain.1 as usize] = slot;
        timeline.set(place, Slice { last, chain: (old.chain.0, slot), ..old });
    }

    /// Sets the first and last times of a key's slices from this place on; `times` are those of its rows so far.
    pub fn retime(&mut self, key: u32, place: usize, times: &[i64]) {
        self.keys[key as usize].retime(place, times);
    }
}
