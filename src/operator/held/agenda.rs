//! When stored rows can have no partner any more: the rows of a side by time.
//!
//! Rows that come in order of time take O(1) each; one that does not takes O(log n), with n such rows held.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Result;

/// A stored row: its place, its number in order of arrival, and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::operator) struct Item {
    pub(in crate::operator) place: i64,
    pub(in crate::operator) order: u64,
    pub(in crate::operator) key: u32,
}

/// Rows in order, which are removed from the front.
#[derive(Debug, Default)]
struct Run {
    items: Vec<Item>,
    /// How many were removed by steps that took effect.
    gone: usize,
    /// How many were removed, also by the step that is attempted.
    at: usize,
}

impl Run {
    fn first(&self) -> Option<Item> {
        self.items.get(self.at).copied()
    }

    fn popped(&self) -> &[Item] {
        &self.items[self.gone..self.at]
    }

    fn keep(&mut self) {
        self.gone = self.at;
        // Not each time: a row is moved only if one was removed for it.
        if 2 * self.gone >= self.items.len() {
            self.items.drain(..self.gone);
            (self.gone, self.at) = (0, 0);
        }
    }
}

/// Stored rows by place and arrival.
#[derive(Debug, Default)]
pub(in crate::operator) struct Agenda {
    /// Rows that no earlier one is behind of.
    ordered: Run,
    rest: BinaryHeap<Reverse<Item>>,
    /// What the step that is attempted has removed of `rest`.
    popped: Vec<Item>,
    /// What earlier ones had removed of it, and was taken back. There are few: one for each such step.
    returned: Vec<Run>,
}

impl Agenda {
    /// Makes room for these, so that [`Agenda::push`] of them, in this order, cannot fail.
    pub(in crate::operator) fn reserve<'a>(&mut self, items: impl Iterator<Item = &'a Item>) {
        let (mut last, mut ordered, mut rest) = (self.ordered.items.last(), 0, 0);
        for item in items {
            if last.is_some_and(|last| last > item) {
                rest += 1;
            } else {
                (last, ordered) = (Some(item), ordered + 1);
            }
        }
        self.ordered.items.reserve(ordered);
        self.rest.reserve(rest);
    }

    pub(in crate::operator) fn push(&mut self, item: Item) {
        match self.ordered.items.last() {
            Some(last) if *last > item => self.rest.push(Reverse(item)),
            _ => self.ordered.items.push(item),
        }
    }

    /// Removes the first row if its place is such, until [`Agenda::take_back`].
    pub(in crate::operator) fn pop(
        &mut self,
        is_due: impl FnOnce(i64) -> Result<bool>,
    ) -> Result<Option<Item>> {
        let runs = std::iter::once(&mut self.ordered).chain(&mut self.returned);
        let run = runs.filter(|run| run.first().is_some()).min_by_key(|run| run.first());
        let front = run.as_ref().and_then(|run| run.first());
        let other = self.rest.peek().map(|item| item.0);
        let Some(first) = front.into_iter().chain(other).min() else { return Ok(None) };
        if !is_due(first.place)? {
            return Ok(None);
        }
        match run {
            Some(run) if front == Some(first) => run.at += 1,
            _ => {
                self.popped.reserve(1);
                // To take back cannot fail.
                self.returned.reserve(1);
                self.rest.pop();
                self.popped.push(first);
            }
        }
        Ok(Some(first))
    }

    /// What was removed and not taken back.
    pub(in crate::operator) fn popped(&self) -> impl Iterator<Item = &Item> {
        let runs = std::iter::once(&self.ordered).chain(&self.returned);
        runs.flat_map(Run::popped).chain(&self.popped)
    }

    /// Drops what was removed.
    pub(in crate::operator) fn keep(&mut self) {
        self.ordered.keep();
        self.returned.iter_mut().for_each(Run::keep);
        self.returned.retain(|run| !run.items.is_empty());
        self.popped.clear();
    }

    /// Puts what was removed back. O(1) for each step that was taken back.
    pub(in crate::operator) fn take_back(&mut self) {
        self.ordered.at = self.ordered.gone;
        self.returned.iter_mut().for_each(|run| run.at = run.gone);
        if !self.popped.is_empty() {
            self.returned.push(Run { items: std::mem::take(&mut self.popped), gone: 0, at: 0 });
        }
    }

    /// Gives keys other numbers, and drops the rows of those that have none.
    pub(in crate::operator) fn renumber(&mut self, numbers: &[u32]) {
        // Keys come last in the order of items, of which no two have one number: the heap remains one.
        self.retain(|item| {
            item.key = numbers[item.key as usize];
            item.key != u32::MAX
        });
    }

    /// Drops all rows but these, whose keys alone may be changed; no step is attempted.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&mut Item) -> bool) {
        let runs = std::iter::once(&mut self.ordered).chain(&mut self.returned);
        for run in runs {
            // What is gone may be of keys that are, too.
            run.items.drain(..run.gone);
            (run.gone, run.at) = (0, 0);
            run.items.retain_mut(&mut is_kept);
        }
        let mut rest = std::mem::take(&mut self.rest).into_vec();
        rest.retain_mut(|item| is_kept(&mut item.0));
        self.rest = rest.into();
    }

    /// How many rows it has, those included that were dropped before their time.
    pub(super) fn len(&self) -> usize {
        let runs = std::iter::once(&self.ordered).chain(&self.returned);
        runs.map(|run| run.items.len() - run.gone).sum::<usize>() + self.rest.len()
    }

    /// Frees room for rows that are gone.
    pub(super) fn shrink(&mut self) {
        self.ordered.items.shrink_to_fit();
        self.returned.iter_mut().for_each(|run| run.items.shrink_to_fit());
        self.rest.shrink_to_fit();
    }

    pub(in crate::operator) fn bytes(&self) -> usize {
        let runs = std::iter::once(&self.ordered).chain(&self.returned);
        let items: usize = runs.map(|run| run.items.capacity()).sum();
        (items + self.rest.capacity() + self.popped.capacity()) * size_of::<Item>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Steps that add rows and remove those up to a place, and take effect or are taken back, of a set that is sorted.
        #[test]
        fn rows_leave_in_order_and_come_back(
            steps in prop::collection::vec((prop::collection::vec(-9i64..9, 0..6), -9i64..9, 0..5u8), 0..40)
        ) {
            let (mut agenda, mut model, mut order) = (Agenda::default(), BTreeSet::new(), 0);
            for (places, reached, what) in steps {
                let mut new: Vec<Item> = places.into_iter().map(|place| {
                    order += 1;
                    Item { place, order, key: order as u32 % 3 }
                }).collect();
                new.sort_unstable();
                agenda.reserve(new.iter());
                for item in new {
                    agenda.push(item);
                    model.insert(item);
                }
                agenda.keep();
                let mut due: BTreeSet<Item> = model.iter().copied().filter(|item| item.place <= reached).collect();
                while let Some(item) = agenda.pop(|place| Ok(place <= reached)).unwrap() {
                    prop_assert_eq!(due.pop_first(), Some(item));
                }
                prop_assert!(due.is_empty());
                let popped: BTreeSet<Item> = agenda.popped().copied().collect();
                if what < 2 {
                    agenda.take_back();
                } else {
                    prop_assert_eq!(popped.len(), model.len() - model.iter().filter(|item| item.place > reached).count());
                    model.retain(|item| !popped.contains(item));
                    agenda.keep();
                }
                if what == 4 {
                    agenda.renumber(&[0, 1, 2]);
                }
            }
            let mut left = Vec::new();
            while let Some(item) = agenda.pop(|_| Ok(true)).unwrap() {
                left.push(item);
            }
            prop_assert_eq!(left, model.into_iter().collect::<Vec<_>>());
        }
    }
}
