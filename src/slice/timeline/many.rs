//! The slices of a key that has more than a few.
//!
//! | | |
//! |---|---|
//! | technique | a gap buffer: where slices are put among others, there is room for more of them |
//! | time | O(1) for a slice at either end, amortised, and for each that follows another one of the same call; a move of as many slices as lie between it and the last one, or the nearer end |

use std::ops::Range;

use super::Slice;
use crate::window::{Spans, place};

/// The slices of one key, ascending, a column per property. What is before `from` is room: slices that were dropped were there,
/// or others will be.
#[derive(Debug, Clone, Default)]
pub(super) struct Many {
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    chains: Vec<(u32, u32)>,
    /// Empty where slices do not know them.
    los: Vec<u32>,
    from: usize,
    /// Room among the slices, while a call puts some there.
    gap: Range<usize>,
    /// How much room was made there at last.
    room: usize,
    /// Where the last search ended: the next one usually ends near it.
    near: usize,
    /// How many slices were dropped so far.
    pub(super) gone: u64,
    /// How many slices remained after the last merge of slices that were no longer needed.
    pub(super) merged: usize,
}

/// Of n slices, room for n / SHARE is made before them at a time.
const SHARE: usize = 8;

impl Many {
    pub(super) fn spans(&self) -> Spans<'_> {
        debug_assert!(self.gap.is_empty(), "a call closes it");
        Spans { firsts: &self.firsts[self.from..], lasts: &self.lasts[self.from..] }
    }

    /// Where a slice is in the columns.
    fn at(&self, place: usize) -> usize {
        let at = self.from + place;
        if at < self.gap.start { at } else { at + self.gap.len() }
    }

    /// How many slices begin at or before this time.
    pub(super) fn upto(&mut self, time: i64) -> usize {
        let count = self.len();
        // Usually all.
        if count.checked_sub(1).is_none_or(|last| self.firsts[self.at(last)] <= time) {
            return count;
        }
        let (before, behind) = match self.gap.is_empty() {
            true => (&[][..], &self.firsts[self.from..]),
            false => (&self.firsts[self.from..self.gap.start], &self.firsts[self.gap.end..]),
        };
        let is_before = |&first: &i64| first <= time;
        self.near = match behind.first().is_some_and(is_before) || before.is_empty() {
            true => before.len() + place(behind, self.near.saturating_sub(before.len()), is_before),
            false => place(before, self.near.min(before.len()), is_before),
        };
        self.near
    }

    /// The slots of slices, given by their places.
    pub(super) fn chains(&self, places: Range<usize>) -> &[(u32, u32)] {
        &self.chains[self.from + places.start..self.from + places.end]
    }

    /// The slots of all slices.
    pub(super) fn chains_mut(&mut self) -> &mut [(u32, u32)] {
        &mut self.chains[self.from..]
    }

    /// The places of the slices' first rows, where slices know them.
    pub(super) fn los(&self) -> &[u32] {
        self.los.get(self.from..).unwrap_or_default()
    }

    /// The first and the last time of a slice.
    pub(super) fn times(&self, place: usize) -> (i64, i64) {
        let at = self.at(place);
        (self.firsts[at], self.lasts[at])
    }

    pub(super) fn get(&self, place: usize) -> Slice {
        let at = self.at(place);
        let lo = self.los.get(at).copied().unwrap_or_default();
        Slice { first: self.firsts[at], last: self.lasts[at], lo, chain: self.chains[at] }
    }

    pub(super) fn set(&mut self, place: usize, slice: Slice) {
        self.put(self.at(place), slice);
    }

    fn put(&mut self, at: usize, slice: Slice) {
        (self.firsts[at], self.lasts[at], self.chains[at]) = (slice.first, slice.last, slice.chain);
    }

    /// Puts a slice at a place, where rows are not kept; returns how many were moved. Where memory runs out, nothing has changed.
    pub(super) fn insert(&mut self, place: usize, slice: Slice) -> usize {
        let moved = if self.gap.is_empty() { self.open(place) } else { self.move_gap(place) };
        self.put(self.gap.start, slice);
        self.gap.start += 1;
        moved
    }

    /// Removes the slice at a place; returns how many were moved, too.
    pub(super) fn remove(&mut self, place: usize) -> (Slice, usize) {
        let slice = self.get(place);
        let moved = self.move_gap(place);
        self.gap.end += 1;
        (slice, moved)
    }

    /// Moves these slices, given by their places in the columns.
    fn move_slices(&mut self, slices: Range<usize>, to: usize) -> usize {
        self.firsts.copy_within(slices.clone(), to);
        self.lasts.copy_within(slices.clone(), to);
        self.chains.copy_within(slices.clone(), to);
        slices.len()
    }

    /// Moves the gap to a place.
    fn move_gap(&mut self, place: usize) -> usize {
        let (to, Range { start, end }) = (self.from + place, self.gap.clone());
        self.gap = to..to + (end - start);
        if start == end {
            0
        } else if to < start {
            self.move_slices(to..start, self.gap.end)
        } else {
            self.move_slices(end..end + (to - start), start)
        }
    }

    /// Makes room at a place: twice as much as the last time in this call.
    fn open(&mut self, place: usize) -> usize {
        let (count, mut moved) = (self.len(), 0);
        let room = (2 * self.room).max(1);
        if place < count - place {
            if self.from < room {
                let more = room.max(count / SHARE);
                moved += self.lengthen(more, self.from);
                self.from += more;
            }
            moved += self.move_slices(self.from..self.from + place, self.from - room);
            self.from -= room;
        } else {
            moved += self.lengthen(room, self.from + place);
        }
        self.room = room;
        self.gap = self.from + place..self.from + place + room;
        moved
    }

    /// Makes room for so many slices before all from `at` on.
    fn lengthen(&mut self, more: usize, at: usize) -> usize {
        let len = self.firsts.len();
        self.firsts.reserve(more);
        self.lasts.reserve(more);
        self.chains.reserve(more);
        self.firsts.resize(len + more, 0);
        self.lasts.resize(len + more, 0);
        self.chains.resize(len + more, (0, 0));
        self.move_slices(at..len, at + more)
    }

    /// Closes the gap, from the nearer end; returns how many slices were moved.
    pub(super) fn close(&mut self) -> usize {
        let (Range { start, end }, len) = (std::mem::take(&mut self.gap), self.firsts.len());
        self.room = 0;
        if start == end {
            return 0;
        }
        let (before, behind) = (self.from..start, end..len);
        if before.len() < behind.len() {
            let moved = self.move_slices(before, self.from + (end - start));
            self.from += end - start;
            return moved;
        }
        let moved = self.move_slices(behind, start);
        self.cut(len - (end - start));
        moved
    }

    pub(super) fn push(&mut self, slice: Slice, has_los: bool) {
        self.firsts.push(slice.first);
        self.lasts.push(slice.last);
        self.chains.push(slice.chain);
        if has_los {
            self.los.push(slice.lo);
        }
    }

    /// Makes room for a slice at the end.
    pub(super) fn reserve(&mut self, has_los: bool) {
        self.firsts.reserve(1);
        self.lasts.reserve(1);
        self.chains.reserve(1);
        self.los.reserve(usize::from(has_los));
    }

    /// Keeps the first `count` slices.
    pub(super) fn truncate(&mut self, count: usize) {
        debug_assert!(self.gap.is_empty(), "nothing is put among slices that are replaced");
        self.cut(self.from + count);
    }

    fn cut(&mut self, len: usize) {
        self.firsts.truncate(len);
        self.lasts.truncate(len);
        self.chains.truncate(len);
        self.los.truncate(len);
    }

    /// Drops the first slices, which have `rows` rows, where slices know the places of rows.
    pub(super) fn drop_first(&mut self, slices: usize, rows: u32) {
        self.from += slices;
        self.gone += slices as u64;
        self.merged = self.merged.saturating_sub(slices);
        if rows > 0 {
            self.los[self.from..].iter_mut().for_each(|lo| *lo -= rows);
        }
    }

    /// Sets the times of the slices from this place on; `times` are those of the rows so far.
    pub(super) fn retime(&mut self, place: usize, times: &[i64]) {
        for at in self.from + place..self.firsts.len() {
            let hi = self.los.get(at + 1).map_or(times.len(), |&next| next as usize);
            self.firsts[at] = times[self.los[at] as usize];
            self.lasts[at] = times[hi - 1];
        }
    }

    /// Begins to count slices, and to search for places, anew.
    pub(super) fn begin_anew(&mut self) {
        (self.gone, self.merged, self.near) = (0, 0, 0);
    }

    pub(super) fn len(&self) -> usize {
        self.firsts.len() - self.from - self.gap.len()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.firsts.capacity() + self.lasts.capacity()) * size_of::<i64>()
            + self.chains.capacity() * size_of::<(u32, u32)>()
            + self.los.capacity() * size_of::<u32>()
    }

    /// Removes the slices before `from` from memory, once they are the majority.
    pub(super) fn tidy(&mut self) {
        if self.from <= self.firsts.len() / 2 {
            return;
        }
        if self.firsts.capacity() > 4 * self.len().max(4) {
            return self.shrink();
        }
        self.drain();
    }

    /// Removes the slices before `from` from memory.
    fn drain(&mut self) {
        let from = std::mem::take(&mut self.from);
        for times in [&mut self.firsts, &mut self.lasts] {
            times.drain(..from);
        }
        self.chains.drain(..from);
        self.los.drain(..from.min(self.los.len()));
    }

    /// Removes these slices, and frees all memory that the others do not take.
    pub(super) fn shrink(&mut self) {
        self.drain();
        self.firsts.shrink_to_fit();
        self.lasts.shrink_to_fit();
        self.chains.shrink_to_fit();
        self.los.shrink_to_fit();
    }
}
