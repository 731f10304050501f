//! The slices of one key. There may be a million keys, most of which have a slice or two: so these are in place, with all that
//! there is of them in one line of the cache.

use std::num::NonZeroU64;
use std::ops::Range;

use super::many::Many;
use super::{NONE, Slice};
use crate::window::Spans;

/// How many slices of a key are in place.
const FEW: usize = 2;

/// The slices of one key, ascending.
#[derive(Debug, Clone)]
pub(super) enum Timeline {
    Few(Few),
    /// More of them.
    Many(Box<Many>),
}

impl Default for Timeline {
    fn default() -> Self {
        Self::Few(Few::after(0))
    }
}

/// Up to [`FEW`] slices, a column per property.
#[derive(Debug, Clone)]
pub(super) struct Few {
    firsts: [i64; FEW],
    lasts: [i64; FEW],
    /// [`NONE`] where there is no slice.
    chains: [(u32, u32); FEW],
    los: [u32; FEW],
    /// The number of the first slice, of all that the key ever had, from 1 on: as it is never 0, [`Timeline`] has room for its tag.
    number: NonZeroU64,
}

impl Few {
    /// No slices, after so many were dropped.
    fn after(gone: u64) -> Self {
        let number = NonZeroU64::MIN.saturating_add(gone);
        Self { firsts: [0; FEW], lasts: [0; FEW], chains: [(NONE, NONE); FEW], los: [0; FEW], number }
    }

    fn gone(&self) -> u64 {
        self.number.get() - 1
    }

    fn len(&self) -> usize {
        self.chains.iter().take_while(|chain| chain.0 != NONE).count()
    }

    fn get(&self, place: usize) -> Slice {
        let (first, last) = (self.firsts[place], self.lasts[place]);
        Slice { first, last, lo: self.los[place], chain: self.chains[place] }
    }

    fn set(&mut self, place: usize, slice: Slice) {
        (self.firsts[place], self.lasts[place]) = (slice.first, slice.last);
        (self.los[place], self.chains[place]) = (slice.lo, slice.chain);
    }

    /// Puts a slice at a place, where there is room for one; returns how many were moved.
    fn insert(&mut self, place: usize, slice: Slice) -> usize {
        let len = self.len();
        (place..len).rev().for_each(|at| self.set(at + 1, self.get(at)));
        self.set(place, slice);
        len - place
    }

    /// Removes slices, given by their places; returns how many were moved.
    fn remove(&mut self, places: Range<usize>) -> usize {
        let len = self.len();
        (places.end..len).for_each(|at| self.set(at - places.len(), self.get(at)));
        self.chains[len - places.len()..].fill((NONE, NONE));
        len - places.end
    }
}

impl Timeline {
    /// The slices apart, with room for more.
    fn many(&mut self, has_los: bool) -> &mut Many {
        if let Self::Few(few) = self {
            let mut many = Box::new(Many::default());
            many.gone = few.gone();
            (0..few.len()).for_each(|place| many.push(few.get(place), has_los));
            *self = Self::Many(many);
        }
        match self {
            Self::Many(many) => many,
            Self::Few(_) => unreachable!("they are apart now"),
        }
    }

    pub(super) fn spans(&self) -> Spans<'_> {
        match self {
            Self::Few(few) => {
                let len = few.len();
                Spans { firsts: &few.firsts[..len], lasts: &few.lasts[..len] }
            }
            Self::Many(many) => many.spans(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    /// How many slices begin at or before this time.
    pub(super) fn upto(&mut self, time: i64) -> usize {
        match self {
            Self::Few(few) => few.firsts[..few.len()].iter().filter(|&&first| first <= time).count(),
            Self::Many(many) => many.upto(time),
        }
    }

    /// The first and the last time of a slice.
    pub(super) fn times(&self, place: usize) -> (i64, i64) {
        match self {
            Self::Few(few) => (few.firsts[place], few.lasts[place]),
            Self::Many(many) => many.times(place),
        }
    }

    /// The slots of slices, given by their places.
    pub(super) fn chains(&self, places: Range<usize>) -> &[(u32, u32)] {
        match self {
            Self::Few(few) => &few.chains[places],
            Self::Many(many) => many.chains(places),
        }
    }

    /// The slots of all slices.
    pub(super) fn chains_mut(&mut self) -> &mut [(u32, u32)] {
        match self {
            Self::Few(few) => {
                let len = few.len();
                &mut few.chains[..len]
            }
            Self::Many(many) => many.chains_mut(),
        }
    }

    /// The places of the slices' first rows, where slices know them.
    pub(super) fn los(&self) -> &[u32] {
        match self {
            Self::Few(few) => &few.los[..few.len()],
            Self::Many(many) => many.los(),
        }
    }

    pub(super) fn get(&self, place: usize) -> Slice {
        match self {
            Self::Few(few) => few.get(place),
            Self::Many(many) => many.get(place),
        }
    }

    pub(super) fn set(&mut self, place: usize, slice: Slice) {
        match self {
            Self::Few(few) => few.set(place, slice),
            Self::Many(many) => many.set(place, slice),
        }
    }

    /// Puts a slice at a place, where rows are not kept; returns how many were moved. Where memory runs out, nothing has
    /// changed.
    pub(super) fn insert(&mut self, place: usize, slice: Slice) -> usize {
        match self {
            Self::Few(few) if few.len() < FEW => few.insert(place, slice),
            _ => self.many(false).insert(place, slice),
        }
    }

    /// Removes the slice at a place; returns how many were moved, too.
    pub(super) fn remove(&mut self, place: usize) -> (Slice, usize) {
        match self {
            Self::Few(few) => (few.get(place), few.remove(place..place + 1)),
            Self::Many(many) => many.remove(place),
        }
    }

    /// Ends the additions of a call; returns how many slices were moved.
    pub(super) fn close(&mut self) -> usize {
        match self {
            Self::Few(_) => 0,
            Self::Many(many) => many.close(),
        }
    }

    pub(super) fn push(&mut self, slice: Slice, has_los: bool) {
        match self {
            Self::Few(few) if few.len() < FEW => few.set(few.len(), slice),
            _ => self.many(has_los).push(slice, has_los),
        }
    }

    /// Makes room for a slice at the end.
    pub(super) fn reserve(&mut self, has_los: bool) {
        match self {
            Self::Few(few) if few.len() < FEW => {}
            _ => self.many(has_los).reserve(has_los),
        }
    }

    /// Keeps the first `count` slices.
    pub(super) fn truncate(&mut self, count: usize) {
        match self {
            Self::Few(few) => few.chains[count..].fill((NONE, NONE)),
            Self::Many(many) => many.truncate(count),
        }
    }

    /// Sets the times of the slices from this place on; `times` are those of the rows so far.
    pub(super) fn retime(&mut self, place: usize, times: &[i64]) {
        match self {
            Self::Few(few) => {
                let len = few.len();
                for at in place..len {
                    let hi = if at + 1 < len { few.los[at + 1] as usize } else { times.len() };
                    (few.firsts[at], few.lasts[at]) = (times[few.los[at] as usize], times[hi - 1]);
                }
            }
            Self::Many(many) => many.retime(place, times),
        }
    }

    /// How many slices were dropped so far.
    pub(super) fn gone(&self) -> u64 {
        match self {
            Self::Few(few) => few.gone(),
            Self::Many(many) => many.gone,
        }
    }

    /// Drops the first slices, which have `rows` rows, where slices know the places of rows.
    pub(super) fn drop_first(&mut self, slices: usize, rows: u32) {
        match self {
            Self::Few(few) => {
                few.number = few.number.saturating_add(slices as u64);
                few.remove(0..slices);
                let len = few.len();
                few.los[..len].iter_mut().for_each(|lo| *lo -= rows);
            }
            Self::Many(many) => {
                many.drop_first(slices, rows);
                self.tidy();
            }
        }
    }

    /// Frees what the slices do not take, once that is the larger part.
    fn tidy(&mut self) {
        let Self::Many(many) = self else { return };
        match many.len() {
            // There may be many keys, most of them idle.
            0 => *self = Self::Few(Few::after(many.gone)),
            _ => many.tidy(),
        }
    }

    /// Frees all memory that the slices do not take.
    pub(super) fn shrink(&mut self) {
        let Self::Many(many) = self else { return };
        if many.len() > FEW {
            return many.shrink();
        }
        let mut few = Few::after(many.gone);
        (0..many.len()).for_each(|place| few.set(place, many.get(place)));
        *self = Self::Few(few);
    }

    /// How many slices remained after the last merge of slices that were no longer needed.
    pub(super) fn merged(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.merged,
        }
    }

    /// Takes note of such a merge.
    pub(super) fn note_merge(&mut self) {
        if let Self::Many(many) = self {
            many.merged = many.len();
        }
    }

    /// Begins to count slices, and to search for places, anew.
    pub(super) fn begin_anew(&mut self) {
        match self {
            Self::Few(few) => few.number = NonZeroU64::MIN,
            Self::Many(many) => many.begin_anew(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let apart = if let Self::Many(many) = self { many.bytes() } else { 0 };
        size_of::<Self>() + apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_a_line_of_the_cache() {
        assert_eq!(size_of::<Timeline>(), 64);
    }
}
