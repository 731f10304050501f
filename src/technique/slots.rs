//! Slots of partials that come and go: what techniques with states per row, node, slice or window allocate from.

use crate::Result;
use crate::aggregate::{Input, Partials, Rows};

/// Columns of partials with a list of slots that are free.
pub(super) struct Slots {
    partials: Vec<Box<dyn Partials>>,
    free: Vec<u32>,
    len: usize,
}

/// A slot whose states never change from identity.
pub(super) const IDENTITY: u32 = 0;

impl Slots {
    /// Slots of these empty columns, all of plain states ([`super::plain_states`]).
    pub(super) fn new(partials: Vec<Box<dyn Partials>>) -> Self {
        Self { partials, free: Vec::new(), len: IDENTITY as usize + 1 }
    }

    /// A slot with identities.
    pub(super) fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len as u32 - 1
        })
    }

    /// Makes slots free again.
    pub(super) fn free(&mut self, slots: &[u32]) {
        self.each(|nodes| nodes.reset(slots));
        self.free.extend_from_slice(slots);
    }

    /// Folds rows into their slots.
    pub(super) fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<()> {
        self.each(|_| ());
        let len = self.len;
        self.partials
            .iter_mut()
            .zip(inputs)
            .try_for_each(|(partials, input)| input.feed(&mut **partials, rows, len))
    }

    /// For each `(to, earlier, later)` in this order, slot `to` becomes `earlier` combined with `later`.
    pub(super) fn combine(&mut self, program: &[(u32, u32, u32)]) {
        self.each(|nodes| nodes.combine(program));
    }

    /// A column of each partial with a slot per group: `slots[groups[g]..groups[g + 1]]`, combined in that order.
    pub(super) fn regroup(&mut self, slots: &[u32], groups: &[u32]) -> Result<Vec<Box<dyn Partials>>> {
        self.each(|_| ());
        self.partials.iter().map(|partials| partials.regroup(slots, groups)).collect()
    }

    /// Number of partials of a slot.
    pub(super) fn width(&self) -> usize {
        self.partials.len()
    }

    /// Slots in use.
    pub(super) fn used(&self) -> usize {
        self.len - 1 - self.free.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let partials: usize = self.partials.iter().map(|partials| partials.bytes()).sum();
        partials + self.free.capacity() * size_of::<u32>()
    }

    /// Calls `each` with all columns, grown to all slots.
    fn each(&mut self, mut each: impl FnMut(&mut dyn crate::aggregate::Nodes)) {
        for nodes in self.partials.iter_mut().filter_map(|partials| partials.nodes()) {
            nodes.grow(self.len);
            each(nodes);
        }
    }
}
