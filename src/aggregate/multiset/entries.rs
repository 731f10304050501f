//! Values of a column of multisets as they came: each with its slot, and how often it is there.

use std::sync::OnceLock;

/// Values with their slots.
pub(super) struct Entries<K> {
    pub(super) len: usize,
    pub(super) slots: Vec<u32>,
    pub(super) codes: Vec<K>,
    /// How often each value is there; `None` while all are once.
    pub(super) counts: Option<Vec<u32>>,
    pub(super) index: OnceLock<Index>,
}

/// Entries by slot: those of slot s are `order[offsets[s]..offsets[s + 1]]`, or without order these themselves.
pub(super) struct Index {
    pub(super) offsets: Vec<usize>,
    pub(super) order: Option<Vec<u32>>,
}

impl<K: Copy> Entries<K> {
    pub(super) fn new() -> Self {
        Self { len: 0, slots: Vec::new(), codes: Vec::new(), counts: None, index: OnceLock::new() }
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

    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut offsets = vec![0; self.len + 1];
            for &slot in &self.slots {
                offsets[slot as usize + 1] += 1;
            }
            for slot in 0..self.len {
                offsets[slot + 1] += offsets[slot];
            }
            if self.slots.is_sorted() {
                return Index { offsets, order: None };
            }
            let mut next = offsets.clone();
            let mut order = vec![0; self.slots.len()];
            for (entry, &slot) in self.slots.iter().enumerate() {
                order[next[slot as usize]] = entry as u32;
                next[slot as usize] += 1;
            }
            Index { offsets, order: Some(order) }
        })
    }

    /// Makes the index, if there is one, that of these entries and of others after them, whose slots are others.
    pub(super) fn index_with(&mut self, others: &Self) {
        let rows = self.codes.len();
        let Some(index) = self.index.get_mut() else { return };
        let Index { offsets, order } = others.index();
        index.offsets.extend(offsets[1..].iter().map(|offset| rows + offset));
        if index.order.is_some() || order.is_some() {
            let own = index.order.get_or_insert_with(|| (0..rows as u32).collect());
            let places = 0..others.codes.len();
            own.extend(places.map(|at| rows as u32 + order.as_ref().map_or(at as u32, |order| order[at])));
        }
    }
}
