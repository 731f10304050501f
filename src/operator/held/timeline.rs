//! The rows of one key in the order of time, in blocks: one that comes anywhere moves those of its block alone.
//!
//! | | |
//! |---|---|
//! | time | O(log n) to find a row; O(log n) amortised to add one, and as many rows are moved as a block has at most |
//! | space | as much as the rows again at worst, where they came out of order |

use std::collections::VecDeque;

use super::entry::Entry;

/// Rows of a block. In tests few, so that there are many blocks.
const BLOCK: usize = if cfg!(test) { 4 } else { 128 };

/// Rows in order. They have ascending numbers, from which their blocks follow.
#[derive(Debug, Default)]
pub(in crate::operator) struct Timeline {
    /// None of them is empty, and each has room for [`BLOCK`] rows. Apart, as most keys have few rows.
    #[allow(clippy::box_collection, reason = "a deque takes four words, of each key")]
    earlier: Option<Box<VecDeque<Block>>>,
    /// Where most rows come; empty if there is no row.
    last: Block,
    len: usize,
}

type Block = VecDeque<Entry>;

/// Blocks for rows that are still to be added.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Block>);

impl Spare {
    fn reserve(&mut self, blocks: usize) {
        self.0.extend((0..blocks).map(|_| VecDeque::with_capacity(BLOCK)));
    }

    fn take(&mut self) -> Block {
        self.0.pop().unwrap_or_else(|| VecDeque::with_capacity(BLOCK))
    }
}

impl Timeline {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn earlier(&self) -> &VecDeque<Block> {
        static NONE: VecDeque<Block> = VecDeque::new();
        self.earlier.as_deref().unwrap_or(&NONE)
    }

    fn earlier_mut(&mut self) -> &mut VecDeque<Block> {
        self.earlier.get_or_insert_default()
    }

    fn block(&self, at: usize) -> Option<&Block> {
        if at == self.earlier().len() { Some(&self.last) } else { self.earlier().get(at) }
    }

    fn block_mut(&mut self, at: usize) -> Option<&mut Block> {
        let count = self.earlier().len();
        if at == count { Some(&mut self.last) } else { self.earlier.as_mut()?.get_mut(at) }
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.earlier().iter().chain([&self.last])
    }

    /// The number of the first row for which this does not hold, as it does for all before it and none after.
    pub(super) fn partition_point(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let begins_before = |block: &Block| block.front().is_some_and(&is_before);
        let after = match begins_before(&self.last) {
            true => self.earlier().len() + 1,
            false => self.earlier().partition_point(begins_before),
        };
        let Some(at) = after.checked_sub(1) else { return 0 };
        let block = self.block(at).unwrap_or(&self.last);
        let row = block.partition_point(is_before);
        if row < block.len() { at * BLOCK + row } else { after * BLOCK }
    }

    pub(super) fn get(&self, number: usize) -> Option<&Entry> {
        self.block(number / BLOCK)?.get(number % BLOCK)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Entry> {
        self.block_mut(number / BLOCK)?.get_mut(number % BLOCK)
    }

    /// The number of the row after that of this number.
    pub(super) fn after(&self, number: usize) -> usize {
        let (at, row) = (number / BLOCK, number % BLOCK + 1);
        let is_there = self.block(at).is_some_and(|block| row < block.len());
        if is_there { number + 1 } else { (at + 1) * BLOCK }
    }

    /// The row before that of this number, which may be the one after the last.
    pub(super) fn before(&self, number: usize) -> Option<&Entry> {
        match number % BLOCK {
            0 => self.block((number / BLOCK).checked_sub(1)?)?.back(),
            row => self.block(number / BLOCK)?.get(row - 1),
        }
    }

    /// The rows from this number on, with their numbers.
    pub(super) fn from(&self, number: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let (first, row) = (number / BLOCK, number % BLOCK);
        let from = move |at: usize| if at == first { row } else { 0 };
        let blocks = (first..).map_while(|at| Some((at, self.block(at)?)));
        blocks.flat_map(move |(at, block)| (at * BLOCK + from(at)..).zip(block.iter().skip(from(at))))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.blocks().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.earlier.iter_mut().flat_map(|blocks| blocks.iter_mut()).chain([&mut self.last]).flatten()
    }

    /// Whether a row comes after all others.
    fn is_next(&self, entry: &Entry) -> bool {
        self.last.back().is_none_or(|last| last.rank() < entry.rank())
    }

    /// Where a row belongs: a block, and a place in it.
    fn place(&self, entry: &Entry) -> (usize, usize) {
        if self.is_next(entry) {
            return (self.earlier().len(), self.last.len());
        }
        let is_behind = |block: &Block| block.back().is_some_and(|last| last.rank() > entry.rank());
        let earlier = self.earlier();
        let at = match earlier.back().is_some_and(is_behind) {
            true => earlier.partition_point(|block| !is_behind(block)),
            false => earlier.len(),
        };
        let block = self.block(at).unwrap_or(&self.last);
        (at, block.partition_point(|other| other.rank() < entry.rank()))
    }

    /// Makes room for these rows, which ascend, so that [`Timeline::insert`] of them cannot fail: in this order, or in any.
    pub(super) fn reserve(&mut self, rows: &[(u32, Entry)], in_order: bool, spare: &mut Spare) {
        if self.earlier.is_none() && self.last.len() + rows.len() <= BLOCK {
            // Nearly all timelines of many keys, whose rows are not looked at.
            self.last.reserve(rows.len());
            return;
        }
        let mut blocks = 0;
        let mut rest = rows;
        while let [(_, first), ..] = rest {
            let (is_next, (at, _)) = (self.is_next(first), self.place(first));
            let own = match is_next {
                true => rest.len(),
                false => rest.partition_point(|(_, entry)| self.place(entry).0 == at),
            };
            rest = &rest[own..];
            let known = self.block(at).map_or(0, VecDeque::len);
            blocks += match known + own > BLOCK {
                false => 0,
                true if is_next && in_order => (known + own - 1) / BLOCK,
                // Of one that is full there are two with half of its rows, beside those before and after it.
                true => own.min(2 + own.div_ceil(BLOCK / 2)),
            };
            if at == self.earlier().len() {
                self.last.reserve(own.min(BLOCK - known));
            }
        }
        if blocks > 0 {
            self.earlier_mut().reserve(blocks);
            spare.reserve(blocks);
        }
    }

    /// Adds a row.
    pub(super) fn insert(&mut self, entry: Entry, spare: &mut Spare) {
        self.len += 1;
        if self.is_next(&entry) {
            if self.last.len() == BLOCK {
                let full = std::mem::replace(&mut self.last, spare.take());
                self.earlier_mut().push_back(full);
            }
            self.last.push_back(entry);
            return;
        }
        let (mut at, mut row) = self.place(&entry);
        if self.block(at).is_some_and(|block| block.len() == BLOCK) {
            let (half, mut new) = (BLOCK / 2, spare.take());
            if (at, row) == (0, 0) {
                self.earlier_mut().push_front(new);
            } else if let Some(block) = self.earlier_mut().get_mut(at) {
                new.extend(block.drain(half..));
                self.earlier_mut().insert(at + 1, new);
            } else {
                new.extend(self.last.drain(half..));
                let first = std::mem::replace(&mut self.last, new);
                self.earlier_mut().push_back(first);
            }
            if row > half {
                (at, row) = (at + 1, row - half);
            }
        }
        self.block_mut(at).into_iter().for_each(|block| block.insert(row, entry));
    }

    /// Removes the first row if it is such.
    pub(super) fn pop_front_if(&mut self, is_such: impl FnMut(&mut Entry) -> bool) -> Option<Entry> {
        let earlier = self.earlier.as_mut().filter(|blocks| !blocks.is_empty());
        let popped = match earlier {
            None => self.last.pop_front_if(is_such)?,
            Some(blocks) => {
                let popped = blocks[0].pop_front_if(is_such)?;
                if blocks[0].is_empty() {
                    blocks.pop_front();
                }
                popped
            }
        };
        self.len -= 1;
        Some(popped)
    }

    /// Removes all rows but these.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Entry) -> bool) {
        self.last.retain(&mut is_kept);
        if let Some(blocks) = &mut self.earlier {
            blocks.iter_mut().for_each(|block| block.retain(&mut is_kept));
            let mut at = 1;
            while at < blocks.len() {
                if blocks[at - 1].len() + blocks[at].len() > BLOCK {
                    at += 1;
                } else if let Some(mut next) = blocks.remove(at) {
                    blocks[at - 1].append(&mut next);
                }
            }
            blocks.retain(|block| !block.is_empty());
            if self.last.is_empty() {
                self.last = blocks.pop_back().unwrap_or_default();
            }
        }
        self.len = self.blocks().map(VecDeque::len).sum();
    }

    pub(super) fn bytes(&self) -> usize {
        let rows: usize = self.blocks().map(VecDeque::capacity).sum();
        rows * size_of::<Entry>() + self.earlier().capacity() * size_of::<Block>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entry::Address;
    use super::*;

    fn entry(place: i64, order: u64) -> Entry {
        Entry { place, order, at: Address { chunk: 0, row: 0 }, is_met: false }
    }

    proptest! {
        /// Rows that are added in any order, and leave at the front or anywhere, of a vector that is sorted.
        #[test]
        fn rows_are_in_order(steps in prop::collection::vec((prop::collection::vec(-20i64..20, 0..12), 0..6u8), 0..40)) {
            let (mut timeline, mut spare, mut model) = (Timeline::default(), Spare::default(), Vec::new());
            let mut order = 0;
            for (places, what) in steps {
                let mut new: Vec<Entry> = places.into_iter().map(|place| {
                    order += 1;
                    entry(place, order)
                }).collect();
                new.sort_unstable_by_key(Entry::rank);
                let given: Vec<(u32, Entry)> = new.iter().map(|&entry| (0, entry)).collect();
                timeline.reserve(&given, true, &mut spare);
                let blocks = timeline.earlier().len() + spare.0.len();
                new.iter().for_each(|&entry| timeline.insert(entry, &mut spare));
                // All were there.
                prop_assert_eq!(timeline.earlier().len() + spare.0.len(), blocks);
                spare = Spare::default();
                model.extend(new.iter().map(Entry::rank));
                model.sort_unstable();
                match what {
                    0 => {
                        let first = timeline.pop_front_if(|entry| entry.place < 0);
                        let is_there = model.first().is_some_and(|rank| rank.0 < 0);
                        prop_assert_eq!(first.map(|entry| entry.rank()), is_there.then(|| model.remove(0)));
                    }
                    1 => {
                        timeline.retain(|entry| entry.order % 3 > 0);
                        model.retain(|rank| rank.1 % 3 > 0);
                    }
                    _ => {}
                }
                prop_assert!(timeline.iter().map(Entry::rank).eq(model.iter().copied()));
                prop_assert_eq!(timeline.len(), model.len());
                prop_assert!(timeline.is_empty() || timeline.blocks().all(|block| !block.is_empty()));
                for place in -21..21 {
                    let number = timeline.partition_point(|entry| entry.place < place);
                    let at = model.partition_point(|rank| rank.0 < place);
                    prop_assert!(timeline.from(number).map(|(_, entry)| entry.rank()).eq(model[at..].iter().copied()));
                    let before = at.checked_sub(1).map(|at| model[at]);
                    prop_assert_eq!(timeline.before(number).map(Entry::rank), before);
                    let (mut number, mut rest) = (number, &model[at..]);
                    while let Some(entry) = timeline.get(number) {
                        prop_assert_eq!(entry.rank(), rest[0]);
                        (number, rest) = (timeline.after(number), &rest[1..]);
                    }
                    prop_assert!(rest.is_empty());
                }
            }
        }
    }
}
