//! The slices of a stream, key by key: as few as the windows' edges allow, in whatever order rows arrive (Traub et al.
//! 2019, §5.2).
//!
//! A slice knows the times of its first and last row and the slots that hold its partials, as a chain: a batch's slots
//! are linked in when they arrive and merged when slots are compacted. Where windows are determined by rows, it also
//! knows the place of its first row. Every change of a call is written to an undo log, so that a call that fails can be
//! rolled back.
//!
//! `of_key` has the slices of one key, and `many` those of one that has more than a few; `edit` changes them in a call, and
//! `undo` knows what was changed and rolls it back; `upkeep` drops and merges slices between calls.

mod edit;
mod log;
mod many;
mod of_key;
mod undo;
mod upkeep;

use std::ops::Range;

use self::log::Log;
use self::of_key::Timeline;
use self::undo::Change;
pub use self::undo::Dirty;
use super::cells::Cell;
use crate::Result;
use crate::poll::{Pieces, Poll};
use crate::window::Spans;

/// No slot.
const NONE: u32 = u32::MAX;

/// A slice that holds rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Time of its first row.
    pub first: i64,
    /// Time of its last row.
    pub last: i64,
    /// Place of its first row among those of its key in slices, where windows are determined by rows.
    pub lo: u32,
    /// The first and the last of its slots.
    chain: (u32, u32),
}

impl Slice {
    /// A slice of one slot.
    pub fn new(lo: u32, slot: u32) -> Self {
        Self { first: 0, last: 0, lo, chain: (slot, slot) }
    }

    /// This slice from the time of its first row to that of its last.
    pub fn over(self, (first, last): (i64, i64)) -> Self {
        Self { first, last, ..self }
    }

    /// This slice with its first row at another place.
    pub fn at(self, lo: u32) -> Self {
        Self { lo, ..self }
    }
}

/// The slices of all keys.
#[derive(Default)]
pub struct Timelines {
    keys: Vec<Timeline>,
    /// Whether slices know the places of their first rows.
    has_los: bool,
    /// The slot that follows each slot in its chain.
    next: Vec<u32>,
    undo: Log<Change>,
    /// The key among whose slices others are being put.
    open: Option<u32>,
    /// Number of slots when the call began.
    settled: usize,
    slices: usize,
    /// How many slices were merged, and the number when the call began.
    merges: u64,
}

impl Timelines {
    /// No slices yet.
    pub fn new(has_los: bool) -> Self {
        Self { has_los, ..Self::default() }
    }

    /// No slices any longer.
    pub fn emptied(&self) -> Self {
        Self { merges: self.merges, ..Self::new(self.has_los) }
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
        timeline.get(place)
    }

    /// The places of the first rows of a key's slices, where windows are determined by rows.
    pub fn los(&self, key: u32) -> &[u32] {
        let timeline = self.keys.get(key as usize);
        timeline.map(Timeline::los).unwrap_or_default()
    }

    /// How many slices of a key were dropped so far.
    pub fn gone(&self, key: u32) -> u64 {
        self.keys[key as usize].gone()
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
        self.keys[key as usize].chains(slices).iter().map(|chain| self.chain_from(chain.0))
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

    /// Restores slices from a snapshot: slot s is a slice, of ascending keys and times.
    ///
    /// # Errors
    /// That of `poll`.
    pub fn restore(cells: &[Cell], los: Option<&[u32]>, poll: Poll) -> Result<Self> {
        let mut this = Self::new(los.is_some());
        let mut pieces = Pieces::new(poll);
        for (at, &Cell { key, first, last }) in cells.iter().enumerate() {
            pieces.count(1)?;
            this.make_room(key as usize + 1);
            let slot = this.open();
            let lo = los.map_or(0, |los| los[at]);
            this.keys[key as usize].push(Slice { first, last, lo, chain: (slot, slot) }, this.has_los);
            this.slices += 1;
        }
        this.settle();
        Ok(this)
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
        timelines.close();
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
