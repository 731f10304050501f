//! When stored rows can have no partner any more: the rows of a side by time.
//!
//! Rows that come in order of time take O(1) each; one that does not takes O(log n), with n such rows held.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Result;

/// A stored row: its place, its number in order of arrival, and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::operator) struct Item {
    pub(in crate::operator) place: i64,
    pub(in crate::operator) order: u64,
    pub(in crate::operator) key: u32,
}

/// Stored rows by place and arrival.
#[derive(Debug, Default)]
pub(in crate::operator) struct Agenda {
    /// Rows that no earlier one is behind of.
    ordered: VecDeque<Item>,
    rest: BinaryHeap<Reverse<Item>>,
    /// What the step that was attempted has removed.
    popped: Vec<Item>,
}

impl Agenda {
    /// Makes room for so many more, so that [`Agenda::push`] cannot fail.
    pub(in crate::operator) fn reserve(&mut self, more: usize) {
        self.ordered.reserve(more);
        self.rest.reserve(more);
    }

    pub(in crate::operator) fn push(&mut self, item: Item) {
        match self.ordered.back() {
            Some(last) if *last > item => self.rest.push(Reverse(item)),
            _ => self.ordered.push_back(item),
        }
    }

    /// Removes the first row if its place is such, until [`Agenda::take_back`].
    pub(in crate::operator) fn pop(
        &mut self,
        is_due: impl FnOnce(i64) -> Result<bool>,
    ) -> Result<Option<Item>> {
        let (front, other) = (self.ordered.front().copied(), self.rest.peek().map(|item| item.0));
        let Some(first) = front.into_iter().chain(other).min() else { return Ok(None) };
        if !is_due(first.place)? {
            return Ok(None);
        }
        self.popped.reserve(1);
        // What is taken back comes first.
        self.ordered.reserve(self.popped.len() + 1);
        if front == Some(first) {
            self.ordered.pop_front();
        } else {
            self.rest.pop();
        }
        self.popped.push(first);
        Ok(Some(first))
    }

    /// What was removed and not taken back.
    pub(in crate::operator) fn popped(&self) -> &[Item] {
        &self.popped
    }

    /// Drops what was removed.
    pub(in crate::operator) fn keep(&mut self) {
        self.popped.clear();
    }

    /// Puts what was removed back: it was the first, in this order.
    pub(in crate::operator) fn take_back(&mut self) {
        while let Some(item) = self.popped.pop() {
            self.ordered.push_front(item);
        }
    }

    /// Gives keys other numbers.
    pub(in crate::operator) fn renumber(&mut self, numbers: &[u32]) {
        self.ordered.iter_mut().for_each(|item| item.key = numbers[item.key as usize]);
        // Keys come last in the order of items, of which no two have one number: the heap remains one.
        let mut rest = std::mem::take(&mut self.rest).into_vec();
        rest.iter_mut().for_each(|item| item.0.key = numbers[item.0.key as usize]);
        self.rest = rest.into();
    }

    pub(in crate::operator) fn bytes(&self) -> usize {
        (self.ordered.capacity() + self.rest.capacity() + self.popped.capacity()) * size_of::<Item>()
    }
}
