//! FlatFAT: a complete binary tree of partials over leaves in order (Tangwongsan et al., VLDB 2015, §4).
//!
//! | | |
//! |---|---|
//! | needs | an associative function whose partials do not grow with their rows |
//! | time | O(log n) combinations for a leaf at the end, O(n) for one between others: all behind it move by one; O(log n) per range |
//! | space | n slots of leaves and n - 1 of inner nodes |
//! | source | Tangwongsan et al., *General Incremental Sliding-Window Aggregation*, VLDB 2015 |
//!
//! Theirs is a ring; ours leaves dropped leaves where they are until there is no room at the end, and then begins anew,
//! which costs O(1) per leaf over time. Inner nodes above what changed are combined anew once per batch, level by level,
//! and not once per row, which favours the tree.

use crate::slots::{IDENTITY, Slots};

/// A tree over leaves; `T` distinguishes them.
pub(crate) struct FlatFat<T> {
    /// Leaves, with those that were dropped and have not been cleared away.
    tags: Vec<T>,
    slots: Vec<u32>,
    head: usize,
    /// Slots of inner nodes; 1 is the root, the children of node i are 2i and 2i + 1, and leaf l is node capacity + l.
    nodes: Vec<u32>,
    /// Leaves from here on have changed.
    dirty: usize,
    /// Leaves before here may be anything but the last that there were.
    clean: usize,
}

impl<T> Default for FlatFat<T> {
    fn default() -> Self {
        Self { tags: Vec::new(), slots: Vec::new(), head: 0, nodes: Vec::new(), dirty: usize::MAX, clean: 0 }
    }
}

impl<T: Copy> FlatFat<T> {
    /// What distinguishes the leaves, in order.
    pub(crate) fn tags(&self) -> &[T] {
        &self.tags[self.head..]
    }

    /// Slots of the leaves, in order.
    pub(crate) fn leaves(&self) -> &[u32] {
        &self.slots[self.head..]
    }

    /// Puts a leaf before the one at `at`.
    pub(crate) fn insert(&mut self, at: usize, tag: T, slot: u32) {
        let at = self.head + at;
        self.tags.insert(at, tag);
        self.slots.insert(at, slot);
        self.dirty = self.dirty.min(at);
    }

    /// The leaf at `at` and those behind it have changed.
    pub(crate) fn touch(&mut self, at: usize) {
        self.dirty = self.dirty.min(self.head + at);
    }

    /// Takes away the leaves from `at` on.
    pub(crate) fn cut(&mut self, at: usize) -> (Vec<T>, Vec<u32>) {
        let at = self.head + at;
        self.dirty = self.dirty.min(at);
        (self.tags.split_off(at), self.slots.split_off(at))
    }

    /// Drops the first leaves and frees their slots.
    pub(crate) fn drop_first(&mut self, leaves: usize, slots: &mut Slots) {
        slots.free(&self.slots[self.head..self.head + leaves]);
        // Nodes above them are never used again: ranges begin behind them.
        self.head += leaves;
        if self.head == self.slots.len() {
            let used: Vec<u32> = self.nodes.iter().copied().filter(|&slot| slot != IDENTITY).collect();
            slots.free(&used);
            *self = Self::default();
        }
    }

    /// Inner nodes.
    fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Adds to `program` what makes the inner nodes right again.
    pub(crate) fn settle(&mut self, slots: &mut Slots, program: &mut Vec<(u32, u32, u32)>) {
        if self.dirty == usize::MAX {
            return;
        }
        if self.slots.len() > self.capacity() {
            self.begin_anew(slots);
        }
        // Where leaves were taken away, their nodes are combined once more.
        let last = self.slots.len().max(self.clean.min(self.capacity()));
        let (mut from, mut to) = (self.capacity() + self.dirty, self.capacity() + last);
        while from > 1 {
            (from, to) = (from / 2, to.div_ceil(2));
            for node in from..to {
                let (left, right) = (self.slot(2 * node), self.slot(2 * node + 1));
                if right == IDENTITY && left == IDENTITY && self.nodes[node] == IDENTITY {
                    continue;
                }
                if self.nodes[node] == IDENTITY {
                    self.nodes[node] = slots.open();
                }
                program.push((self.nodes[node], left, right));
            }
        }
        (self.dirty, self.clean) = (usize::MAX, self.slots.len());
    }

    /// Clears dropped leaves away, and doubles the room if more than half of it is taken then.
    fn begin_anew(&mut self, slots: &mut Slots) {
        self.tags.drain(..self.head);
        self.slots.drain(..self.head);
        self.head = 0;
        let room = (2 * self.slots.len()).next_power_of_two();
        if room != self.capacity() {
            let used: Vec<u32> = self.nodes.iter().copied().filter(|&slot| slot != IDENTITY).collect();
            slots.free(&used);
            self.nodes = vec![IDENTITY; room];
        }
        (self.dirty, self.clean) = (0, self.capacity());
    }

    /// The slot of a node; identity if nothing is below it.
    fn slot(&self, node: usize) -> u32 {
        match node.checked_sub(self.capacity()) {
            None => self.nodes[node],
            Some(leaf) if leaf < self.head => IDENTITY,
            Some(leaf) => self.slots.get(leaf).copied().unwrap_or(IDENTITY),
        }
    }

    /// Adds to `slots` those of the nodes that make up leaves `lo..hi`, in order.
    pub(crate) fn range(&self, lo: usize, hi: usize, slots: &mut Vec<u32>) {
        let (mut from, mut to) = (self.capacity() + self.head + lo, self.capacity() + self.head + hi);
        let mut behind = Vec::new();
        while from < to {
            if from % 2 == 1 {
                slots.push(self.slot(from));
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                behind.push(self.slot(to));
            }
            (from, to) = (from / 2, to / 2);
        }
        slots.extend(behind.into_iter().rev());
    }

    /// Bytes of all but partials.
    pub(crate) fn bytes(&self) -> usize {
        self.tags.capacity() * size_of::<T>()
            + (self.slots.capacity() + self.nodes.capacity()) * size_of::<u32>()
    }
}
