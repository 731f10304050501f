//! The slices of a stream, key by key: as few as the windows' edges allow, in whatever order rows arrive (Traub et al.
//! 2019, §5.2).
//!
//! A slice knows the times of its first and last row and the slots that hold its partials, as a chain: a batch's slots
//! are linked in when they arrive and merged when slots are compacted. Where rows are stored under the slices, it also
//! knows the place of its first row. Every change of a call is written to an undo log, so that a call that fails can be
//! rolled back.

mod log;
mod upkeep;

use std::ops::Range;

use self::log::Log;
use super::cells::Cell;
use crate::window::{Spans, place};

/// No slot.
const NONE: u32 = u32::MAX;

/// A slice that holds rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Time of its first row.
    pub first: i64,
    /// Time of its last row.
    pub last: i64,
    /// Place of its first row, where rows are stored.
    pub lo: u32,
    /// The first and the last of its slots.
    chain: (u32, u32),
}

impl Slice {
    /// A slice of one slot.
    pub fn new(lo: u32, slot: u32) -> Self {
        Self { first: 0, last: 0, lo, chain: (slot, slot) }
    }

    /// This slice with its first row at another place.
    pub fn at(self, lo: u32) -> Self {
        Self { lo, ..self }
    }
}

/// The slices of one key, ascending, a column per property; those before `from` were dropped.
#[derive(Debug, Clone, Default)]
struct Timeline {
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    chains: Vec<(u32, u32)>,
    /// Empty where rows are not kept.
    los: Vec<u32>,
    from: usize,
    /// Where the last search ended: the next one usually ends near it.
    near: usize,
    /// How many slices were dropped so far.
    gone: u64,
    /// How many slices remained after the last merge of slices that were no longer needed.
    merged: usize,
}

impl Timeline {
    fn spans(&self) -> Spans<'_> {
        Spans { firsts: &self.firsts[self.from..], lasts: &self.lasts[self.from..] }
    }

    fn get(&self, at: usize) -> Slice {
        let lo = self.los.get(at).copied().unwrap_or_default();
        Slice { first: self.firsts[at], last: self.lasts[at], lo, chain: self.chains[at] }
    }

    fn set(&mut self, at: usize, slice: Slice) {
        (self.firsts[at], self.lasts[at], self.chains[at]) = (slice.first, slice.last, slice.chain);
    }

    fn insert(&mut self, at: usize, slice: Slice) {
        self.firsts.insert(at, slice.first);
        self.lasts.insert(at, slice.last);
        self.chains.insert(at, slice.chain);
    }

    fn remove(&mut self, at: usize) -> Slice {
        let slice = self.get(at);
        self.firsts.remove(at);
        self.lasts.remove(at);
        self.chains.remove(at);
        slice
    }

    fn push(&mut self, slice: Slice, keeps_rows: bool) {
        self.firsts.push(slice.first);
        self.lasts.push(slice.last);
        self.chains.push(slice.chain);
        if keeps_rows {
            self.los.push(slice.lo);
        }
    }

    /// Makes room for a slice.
    fn reserve(&mut self, keeps_rows: bool) {
        self.firsts.reserve(1);
        self.lasts.reserve(1);
        self.chains.reserve(1);
        self.los.reserve(usize::from(keeps_rows));
    }

    fn truncate(&mut self, len: usize) {
        self.firsts.truncate(len);
        self.lasts.truncate(len);
        self.chains.truncate(len);
        self.los.truncate(len);
    }

    fn len(&self) -> usize {
        self.firsts.len() - self.from
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.firsts.capacity() + self.lasts.capacity()) * size_of::<i64>()
            + self.chains.capacity() * size_of::<(u32, u32)>()
            + self.los.capacity() * size_of::<u32>()
    }

    /// Removes the slices before `from` from memory, once they are the majority.
    fn tidy(&mut self) {
        if self.from == self.firsts.len() {
            // There may be many keys, most of them idle.
            let Self { gone, .. } = std::mem::take(self);
            self.gone = gone;
            return;
        }
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
    fn shrink(&mut self) {
        self.drain();
        self.firsts.shrink_to_fit();
        self.lasts.shrink_to_fit();
        self.chains.shrink_to_fit();
        self.los.shrink_to_fit();
    }
}

/// Changed slices of a key: single ones, and all from one place on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dirty {
    /// The key.
    pub key: u32,
    /// Places of single slices.
    pub places: Vec<usize>,
    /// The place from which on slices have changed.
    pub from: usize,
}

/// An entry of the undo log.
enum Change {
    Added {
        key: u32,
        at: usize,
    },
    Widened {
        key: u32,
        at: usize,
        old: Slice,
    },
    Removed {
        key: u32,
        at: usize,
        old: Slice,
    },
    /// All slices from `at` on were replaced.
    Replaced {
        key: u32,
        at: usize,
        old: Vec<Slice>,
    },
}

impl Change {
    /// The key, and the first slice that changed.
    fn place(&self) -> (u32, usize) {
        match *self {
            Change::Added { key, at }
            | Change::Widened { key, at, .. }
            | Change::Removed { key, at, .. }
            | Change::Replaced { key, at, .. } => (key, at),
        }
    }
}

/// The slices of all keys.
#[derive(Default)]
pub struct Timelines {
    keys: Vec<Timeline>,
    /// Whether rows are stored under the slices.
    keeps_rows: bool,
    /// The slot that follows each slot in its chain.
    next: Vec<u32>,
    undo: Log<Change>,
    /// Number of slots when the call began.
    settled: usize,
    slices: usize,
    /// How many slices were merged, and the number when the call began.
    merges: u64,
}

impl Timelines {
    /// No slices yet.
    pub fn new(keeps_rows: bool) -> Self {
        Self { keeps_rows, ..Self::default() }
    }

    /// A copy of the slices, with nothing to roll back and nothing done yet.
    pub fn copied(&self) -> Self {
        let (keys, next) = (self.keys.clone(), self.next.clone());
        Self { keys, next, undo: Log::default(), merges: 0, ..*self }
    }

    /// The slices of a key, ascending.
    pub fn of(&self, key: u32) -> Spans<'_> {
        self.keys.get(key as usize).map_or(Spans::of_rows(&[]), Timeline::spans)
    }

    /// The slice of a key at this place.
    pub fn get(&self, key: u32, place: usize) -> Slice {
        let timeline = &self.keys[key as usize];
        timeline.get(timeline.from + place)
    }

    /// The places of the first rows of a key's slices, where rows are stored.
    pub fn los(&self, key: u32) -> &[u32] {
        let timeline = self.keys.get(key as usize);
        timeline.and_then(|timeline| timeline.los.get(timeline.from..)).unwrap_or_default()
    }

    /// How many slices of a key were dropped so far.
    pub fn gone(&self, key: u32) -> u64 {
        self.keys[key as usize].gone
    }

    /// The changes that [`Timelines::add`] made since slices were settled, key by key: which slices have other rows,
    /// and the place from which on slices have changed.
    pub(super) fn dirty(&self) -> Vec<Dirty> {
        let mut dirty: Vec<Dirty> = Vec::new();
        for change in self.undo.iter() {
            let ((key, at), is_widened) = (change.place(), matches!(change, Change::Widened { .. }));
            let place = at - self.keys[key as usize].from;
            let known = match dirty.last_mut() {
                Some(last) if last.key == key => last,
                _ => {
                    dirty.push(Dirty { key, places: Vec::new(), from: usize::MAX });
                    dirty.last_mut().expect("one was added")
                }
            };
            // A slice added at the end, as most are, leaves all earlier ones unchanged.
            known.from = known.from.min(if is_widened { usize::MAX } else { place });
            known.places.push(place);
        }
        dirty
    }

    /// Where the slots went that were added since slices were settled, one by one, if all came after the existing
    /// slices: the key, the number of slices it ever had before the slot's, whether that slice is new, and which of these
    /// slots it is.
    pub(super) fn appended(&self) -> impl Iterator<Item = (u32, u64, bool, u32)> + '_ {
        self.undo.iter().map(|change| {
            let (key, at) = change.place();
            let timeline = &self.keys[key as usize];
            let number = timeline.gone + (at - timeline.from) as u64;
            let (is_new, slot) = match change {
                // It was put after the slots that the slice had.
                Change::Widened { old, .. } => (false, self.next[old.chain.1 as usize]),
                _ => (true, timeline.chains[at].0),
            };
            (key, number, is_new, slot - self.settled as u32)
        })
    }

    /// Keys with slices that were changed since slices were settled, possibly with duplicates.
    pub fn changed_keys(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.undo.iter().map(|change| change.place().0)
    }

    /// Number of keys that there is room for.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Makes room for keys.
    pub fn make_room(&mut self, keys: usize) {
        if self.keys.len() < keys {
            self.keys.resize(keys, Timeline::default());
        }
    }

    /// Number of slices.
    pub fn len(&self) -> usize {
        self.slices
    }

    /// Whether there is no slice.
    pub fn is_empty(&self) -> bool {
        self.slices == 0
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.next.len()
    }

    /// How many slices were merged.
    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(Timeline::bytes).sum::<usize>() + self.next.capacity() * size_of::<u32>()
    }

    /// The slots of some slices of a key, in the order they came: an iterator for each slice.
    pub fn chains(
        &self,
        key: u32,
        slices: Range<usize>,
    ) -> impl Iterator<Item = impl Iterator<Item = u32> + '_> + '_ {
        let timeline = &self.keys[key as usize];
        let chains = &timeline.chains[timeline.from + slices.start..timeline.from + slices.end];
        chains.iter().map(|chain| self.chain_from(chain.0))
    }

    /// The slots of a slice, in the order they came.
    pub fn chain(&self, slice: &Slice) -> impl Iterator<Item = u32> + '_ {
        self.chain_from(slice.chain.0)
    }

    fn chain_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = first;
        std::iter::from_fn(move || {
            let slot = at;
            at = *self.next.get(slot as usize)?;
            Some(slot)
        })
    }

    /// Adds a slot.
    pub fn open(&mut self) -> u32 {
        self.next.push(NONE);
        self.next.len() as u32 - 1
    }

    /// Adds a slot that was opened, with the cell it holds, where it belongs: to the slices within `[start, end)` (and within `gap` of the rows, if it is
    /// given), which it merges into one, or else as a new slice. O(log n) of n slices of the key, and O(n) for a new
    /// slice among them.
    pub fn add(&mut self, (cell, slot): (Cell, u32), (start, end): (i64, i64), gap: Option<i64>) {
        let Cell { key, first, last } = cell;
        self.make_room(key as usize + 1);
        let timeline = &mut self.keys[key as usize];
        let Spans { firsts, lasts } = timeline.spans();
        let joins = |at: usize| {
            let (own_first, own_last) = (firsts[at], lasts[at]);
            let within = own_first >= start
                && own_last < end
                && gap.is_none_or(|gap| {
                    first <= own_last.saturating_add(gap) && own_first <= last.saturating_add(gap)
                });
            // A slice that was merged from several, between which no edge was needed, has rows on both sides.
            within || (own_first <= last && first <= own_last)
        };
        // Usually it is the last one.
        let mut near = timeline.near;
        let after = match firsts.last() {
            Some(&own) if own > first => {
                near = place(firsts, near, |&own| own <= first);
                near
            }
            _ => firsts.len(),
        };
        let is_last = after == firsts.len() && after.checked_sub(1).is_none_or(|last| !joins(last));
        if is_last {
            // So it is for nearly all slices of rows in order.
            let at = timeline.from + after;
            timeline.near = near;
            self.undo.reserve(1);
            timeline.reserve(false);
            timeline.push(Slice { first, last, lo: 0, chain: (slot, slot) }, false);
            self.slices += 1;
            self.undo.push(Change::Added { key, at });
            return;
        }
        let from = after - (0..after).rev().take_while(|&at| joins(at)).count();
        let to = after + (after..firsts.len()).take_while(|&at| joins(at)).count();
        let (from, to) = (timeline.from + from, timeline.from + to);
        timeline.near = near;
        // Room first: a change that was made is in the undo log.
        self.undo.reserve(2 * (to - from) + 1);
        timeline.reserve(self.keeps_rows);
        if from == to {
            timeline.insert(from, Slice { first, last, lo: 0, chain: (slot, slot) });
            self.slices += 1;
            self.undo.push(Change::Added { key, at: from });
            return;
        }
        for at in (from + 1..to).rev() {
            let old = timeline.remove(at);
            self.undo.push(Change::Removed { key, at, old });
            let one = timeline.get(at - 1);
            self.undo.push(Change::Widened { key, at: at - 1, old: one });
            self.next[one.chain.1 as usize] = old.chain.0;
            let chain = (one.chain.0, old.chain.1);
            timeline.set(at - 1, Slice { last: one.last.max(old.last), chain, ..one });
            self.slices -= 1;
            self.merges += 1;
        }
        let one = timeline.get(from);
        self.undo.push(Change::Widened { key, at: from, old: one });
        self.next[one.chain.1 as usize] = slot;
        let (first, last) = (one.first.min(first), one.last.max(last));
        timeline.set(from, Slice { first, last, chain: (one.chain.0, slot), ..one });
    }

    /// Removes the slices of a key from this place on, to be replaced by others.
    pub fn split_off(&mut self, key: u32, place: usize) -> Vec<Slice> {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.from + place;
        let old: Vec<Slice> = (at..timeline.firsts.len()).map(|at| timeline.get(at)).collect();
        self.undo.push(Change::Replaced { key, at, old: old.clone() });
        timeline.truncate(at);
        self.slices -= old.len();
        old
    }

    /// Appends a slice to those of a key, with slots of its own or of removed slices.
    pub fn push(&mut self, key: u32, slice: Slice) {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.firsts.len();
        self.undo.reserve(1);
        timeline.reserve(self.keeps_rows);
        timeline.push(slice, self.keeps_rows);
        self.slices += 1;
        // Slices that replace others are rolled back with them.
        if !matches!(self.undo.last(), Some(Change::Replaced { key: own, .. }) if *own == key) {
            self.undo.push(Change::Added { key, at });
        }
    }

    /// A removed slice with an additional slot.
    pub fn linked(&mut self, slice: Slice, slot: u32) -> Slice {
        self.next[slice.chain.1 as usize] = slot;
        Slice { chain: (slice.chain.0, slot), ..slice }
    }

    /// Adds a slot to the last slice of a key.
    pub fn grow(&mut self, key: u32, slot: u32) {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.firsts.len() - 1;
        let old = timeline.get(at);
        self.undo.push(Change::Widened { key, at, old });
        self.next[old.chain.1 as usize] = slot;
        timeline.set(at, Slice { chain: (old.chain.0, slot), ..old });
    }

    /// Sets the first and last times of a key's slices from this place on; `times` are those of all its rows.
    pub fn retime(&mut self, key: u32, place: usize, times: &[i64]) {
        let timeline = &mut self.keys[key as usize];
        for at in timeline.from + place..timeline.firsts.len() {
            let hi = timeline.los.get(at + 1).map_or(times.len(), |&next| next as usize);
            timeline.firsts[at] = times[timeline.los[at] as usize];
            timeline.lasts[at] = times[hi - 1];
        }
    }

    /// Commits the changes since the last commit.
    pub fn settle(&mut self) {
        self.undo.clear();
        self.settled = self.next.len();
    }

    /// Rolls back the changes since the last [`Timelines::settle`].
    pub fn take_back(&mut self) {
        while let Some(change) = self.undo.pop() {
            match change {
                Change::Added { key, at } => {
                    let timeline = &mut self.keys[key as usize];
                    timeline.remove(at);
                    timeline.los.truncate(at);
                    self.slices -= 1;
                }
                Change::Widened { key, at, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].set(at, old);
                }
                Change::Removed { key, at, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].insert(at, old);
                    self.slices += 1;
                    self.merges -= 1;
                }
                Change::Replaced { key, at, old } => {
                    let timeline = &mut self.keys[key as usize];
                    self.slices -= timeline.firsts.len() - at;
                    self.slices += old.len();
                    timeline.truncate(at);
                    for slice in old {
                        self.next[slice.chain.1 as usize] = NONE;
                        timeline.push(slice, self.keeps_rows);
                    }
                }
            }
        }
        self.next.truncate(self.settled);
    }

    /// Restores slices from a snapshot: slot s is a slice, of ascending keys and times.
    pub fn restore(cells: impl Iterator<Item = Cell>, los: Option<&[u32]>, merges: u64) -> Self {
        let mut this = Self { merges, ..Self::new(los.is_some()) };
        for (at, Cell { key, first, last }) in cells.enumerate() {
            this.make_room(key as usize + 1);
            let slot = this.open();
            let lo = los.map_or(0, |los| los[at]);
            this.keys[key as usize].push(Slice { first, last, lo, chain: (slot, slot) }, this.keeps_rows);
            this.slices += 1;
        }
        this.settle();
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(timelines: &Timelines) -> Vec<Vec<(i64, i64, Vec<u32>)>> {
        let slices = |key| -> Vec<(i64, i64, Vec<u32>)> {
            let of = |place| timelines.get(key, place);
            (0..timelines.of(key).len())
                .map(of)
                .map(|slice| (slice.first, slice.last, timelines.chain(&slice).collect()))
                .collect()
        };
        (0..timelines.keys() as u32).map(slices).filter(|slices| !slices.is_empty()).collect()
    }

    fn add(timelines: &mut Timelines, rows: &[(u32, i64)], gap: Option<i64>) {
        for &(key, t) in rows {
            let start = t.div_euclid(16) * 16;
            let slot = timelines.open();
            timelines.add((Cell { key, first: t, last: t }, slot), (start, start + 16), gap);
        }
    }

    proptest! {
        /// Slices are the fragments of the rows, whatever order they arrived in, and a rollback leaves no trace.
        #[test]
        fn fragments_in_any_order(
            kept in prop::collection::vec((0u32..3, -60i64..60), 0..60),
            taken_back in prop::collection::vec((0u32..3, -60i64..60), 0..60),
            gap in prop::option::of(1i64..20),
        ) {
            let mut timelines = Timelines::default();
            add(&mut timelines, &kept, gap);
            timelines.settle();
            let before = (contents(&timelines), timelines.len(), timelines.merges(), timelines.slots());
            add(&mut timelines, &taken_back, gap);
            timelines.take_back();
            prop_assert_eq!(&before, &(contents(&timelines), timelines.len(), timelines.merges(), timelines.slots()));
            for key in 0..3 {
                let mut times: Vec<i64> = kept.iter().filter(|row| row.0 == key).map(|row| row.1).collect();
                times.sort_unstable();
                let mut want: Vec<(i64, i64)> = Vec::new();
                for t in times {
                    match want.last_mut() {
                        Some((first, last))
                            if first.div_euclid(16) == t.div_euclid(16) && gap.is_none_or(|gap| t <= *last + gap) =>
                        {
                            *last = t;
                        }
                        _ => want.push((t, t)),
                    }
                }
                let got: Vec<(i64, i64)> = {
                    let Spans { firsts, lasts } = timelines.of(key);
                    firsts.iter().copied().zip(lasts.iter().copied()).collect()
                };
                prop_assert_eq!(got, want);
            }
        }
    }
}
