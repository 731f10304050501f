//! Values of a column of multisets in order of arrival: each with its slot, and how often it occurs.

use std::sync::OnceLock;

use crate::Result;
use crate::aggregate::by_slot::{BySlot, once};
use crate::poll::Poll;

/// Values with their slots.
pub(super) struct Entries<K> {
    pub(super) len: usize,
    pub(super) slots: Vec<u32>,
    pub(super) codes: Vec<K>,
    /// How often each value occurs; `None` while all occur once.
    pub(super) counts: Option<Vec<u32>>,
    pub(super) index: OnceLock<BySlot>,
}

impl<K: Copy> Entries<K> {
    pub(super) fn new() -> Self {
        Self::with_capacity(0)
    }

    /// No slots, with room for so many entries.
    pub(super) fn with_capacity(entries: usize) -> Self {
        let (slots, codes) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        Self { len: 0, slots, codes, counts: None, index: OnceLock::new() }
    }

    pub(super) fn push(&mut self, slot: u32, code: K, count: u32) {
        if count != 1 && self.counts.is_none() {
            self.counts = Some(vec![1; self.codes.len()]);
        }
        if let Some(counts) = &mut self.counts {
            counts.push(count);
        }
        self.slots.push(slot);
        self.codes.push(code);
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
            + self.codes.capacity() * size_of::<K>()
            + self.counts.as_ref().map_or(0, |counts| counts.capacity() * size_of::<u32>())
    }

    pub(super) fn count(&self, entry: usize) -> u32 {
        self.counts.as_ref().map_or(1, |counts| counts[entry])
    }

    /// Groups them by slot, however many they are.
    ///
    /// # Errors
    /// That of `poll`.
    pub(super) fn put_in_order(&self, poll: Poll) -> Result<()> {
        once(&self.index, || BySlot::polled(&self.slots, self.len, poll)).map(drop)
    }

    pub(super) fn index(&self) -> &BySlot {
        self.index.get_or_init(|| BySlot::new(&self.slots, self.len))
    }
}
