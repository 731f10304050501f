//! The slices of one key.

use super::Slice;
use crate::window::Spans;

/// The slices of one key, ascending, a column per property; those before `from` were dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    pub(super) firsts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) chains: Vec<(u32, u32)>,
    /// Empty where rows are not kept.
    pub(super) los: Vec<u32>,
    pub(super) from: usize,
    /// Where the last search ended: the next one usually ends near it.
    pub(super) near: usize,
    /// How many slices were dropped so far.
    pub(super) gone: u64,
    /// How many slices remained after the last merge of slices that were no longer needed.
    pub(super) merged: usize,
}

impl Timeline {
    pub(super) fn spans(&self) -> Spans<'_> {
        Spans { firsts: &self.firsts[self.from..], lasts: &self.lasts[self.from..] }
    }

    pub(super) fn get(&self, at: usize) -> Slice {
        let lo = self.los.get(at).copied().unwrap_or_default();
        Slice { first: self.firsts[at], last: self.lasts[at], lo, chain: self.chains[at] }
    }

    pub(super) fn set(&mut self, at: usize, slice: Slice) {
        (self.firsts[at], self.lasts[at], self.chains[at]) = (slice.first, slice.last, slice.chain);
    }

    pub(super) fn insert(&mut self, at: usize, slice: Slice) {
        self.firsts.insert(at, slice.first);
        self.lasts.insert(at, slice.last);
        self.chains.insert(at, slice.chain);
    }

    pub(super) fn remove(&mut self, at: usize) -> Slice {
        let slice = self.get(at);
        self.firsts.remove(at);
        self.lasts.remove(at);
        self.chains.remove(at);
        slice
    }

    pub(super) fn push(&mut self, slice: Slice, keeps_rows: bool) {
        self.firsts.push(slice.first);
        self.lasts.push(slice.last);
        self.chains.push(slice.chain);
        if keeps_rows {
            self.los.push(slice.lo);
        }
    }

    /// Makes room for a slice.
    pub(super) fn reserve(&mut self, keeps_rows: bool) {
        self.firsts.reserve(1);
        self.lasts.reserve(1);
        self.chains.reserve(1);
        self.los.reserve(usize::from(keeps_rows));
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.firsts.truncate(len);
        self.lasts.truncate(len);
        self.chains.truncate(len);
        self.los.truncate(len);
    }

    pub(super) fn len(&self) -> usize {
        self.firsts.len() - self.from
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.firsts.capacity() + self.lasts.capacity()) * size_of::<i64>()
            + self.chains.capacity() * size_of::<(u32, u32)>()
            + self.los.capacity() * size_of::<u32>()
    }

    /// Removes the slices before `from` from memory, once they are the majority.
    pub(super) fn tidy(&mut self) {
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
    pub(super) fn shrink(&mut self) {
        self.drain();
        self.firsts.shrink_to_fit();
        self.lasts.shrink_to_fit();
        self.chains.shrink_to_fit();
        self.los.shrink_to_fit();
    }
}
