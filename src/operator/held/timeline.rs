//! The rows of one key in the order of time, in blocks: one that comes anywhere moves those of its block alone.
//!
//! | | |
//! |---|---|
//! | time | O(log n) to find a row; O(log n) amortised to add one, and as many rows are moved as a block has at most |
//! | space | as much as the rows again at worst, where they came out of order; four words without rows |

use std::collections::VecDeque;

use super::entry::Entry;

/// Rows of a block. In tests few, so that there are many blocks.
const BLOCK: usize = if cfg!(test) { 4 } else { 512 };

type Block = VecDeque<Entry>;

/// Rows in order. They have ascending numbers, from which their blocks follow.
#[derive(Debug)]
pub(in crate::operator) enum Timeline {
    /// The rows of nearly every key, where there are many keys: in no more room than a deque needs.
    Few(Block),
    Many(Box<Many>),
}

/// Two blocks or more. None is empty, and all but the last have room for [`BLOCK`] rows.
#[derive(Debug)]
pub(in crate::operator) struct Many {
    blocks: VecDeque<Block>,
    len: usize,
}

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

/// Whether a row comes after all others of a block.
#[inline]
fn is_next(block: &Block, entry: &Entry) -> bool {
    block.back().is_none_or(|last| last.rank() < entry.rank())
}

/// Adds rows, which ascend, to a block, which has room for them.
#[inline]
fn extend(block: &mut Block, rows: &[(u32, Entry)]) {
    if rows.first().is_none_or(|(_, first)| is_next(block, first)) {
        block.extend(rows.iter().map(|&(_, entry)| entry));
        return;
    }
    for &(_, entry) in rows {
        block.insert(block.partition_point(|other| other.rank() < entry.rank()), entry);
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::Few(Block::new())
    }
}

impl Timeline {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(block) => block.len(),
            Self::Many(many) => many.len,
        }
    }

    #[inline]
    fn block(&self, at: usize) -> Option<&Block> {
        match self {
            Self::Few(block) => (at == 0).then_some(block),
            Self::Many(many) => many.blocks.get(at),
        }
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        (0..).map_while(|at| self.block(at))
    }

    /// The number of the first row for which this does not hold, as it does for all before it and none after.
    #[inline]
    pub(super) fn partition_point(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        match self {
            Self::Few(block) => block.partition_point(is_before),
            Self::Many(many) => many.partition_point(is_before),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Entry> {
        self.block(number / BLOCK)?.get(number % BLOCK)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Entry> {
        let block = match self {
            Self::Few(block) => (number < BLOCK).then_some(block),
            Self::Many(many) => many.blocks.get_mut(number / BLOCK),
        };
        block?.get_mut(number % BLOCK)
    }

    /// The number of the row after that of this number.
    #[inline]
    pub(super) fn after(&self, number: usize) -> usize {
        let Self::Many(many) = self else { return number + 1 };
        let (at, row) = (number / BLOCK, number % BLOCK + 1);
        let is_there = many.blocks.get(at).is_some_and(|block| row < block.len());
        if is_there { number + 1 } else { (at + 1) * BLOCK }
    }

    /// The rows from this number on, with their numbers.
    pub(super) fn from(&self, number: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let mut next = number;
        std::iter::from_fn(move || {
            let (number, entry) = (next, self.get(next)?);
            next = self.after(number);
            Some((number, entry))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.blocks().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let (few, many) = match self {
            Self::Few(block) => (Some(block), None),
            Self::Many(many) => (None, Some(&mut many.blocks)),
        };
        few.into_iter().chain(many.into_iter().flatten()).flatten()
    }

    /// Makes room for these rows, which ascend, so that [`Timeline::extend`] of them cannot fail: of all in this order, or in several.
    #[inline]
    pub(super) fn reserve(&mut self, rows: &[(u32, Entry)], in_order: bool, spare: &mut Spare) {
        match self {
            Self::Few(block) if block.len() + rows.len() <= BLOCK => block.reserve(rows.len()),
            _ => self.many().reserve(rows, in_order, spare),
        }
    }

    /// Its blocks, of which there may be one until rows are added.
    #[inline(never)]
    fn many(&mut self) -> &mut Many {
        if let Self::Few(block) = self {
            let many = Many { len: block.len(), blocks: VecDeque::from([std::mem::take(block)]) };
            *self = Self::Many(Box::new(many));
        }
        match self {
            Self::Many(many) => many,
            Self::Few(_) => unreachable!("it was just made many"),
        }
    }

    /// Adds rows, which ascend.
    #[inline]
    pub(super) fn extend(&mut self, rows: &[(u32, Entry)], spare: &mut Spare) {
        match self {
            Self::Few(block) if block.len() + rows.len() <= BLOCK => extend(block, rows),
            _ => self.many().extend(rows, spare),
        }
    }

    /// Removes the first row if it is such.
    #[inline]
    pub(super) fn pop_front_if(&mut self, is_such: impl FnMut(&mut Entry) -> bool) -> Option<Entry> {
        let popped = match self {
            Self::Few(block) => return block.pop_front_if(is_such),
            Self::Many(many) => many.pop_front_if(is_such),
        };
        self.shrink();
        popped
    }

    /// Removes the row of this number, if there is one.
    pub(super) fn remove(&mut self, number: usize) -> Option<Entry> {
        let removed = match self {
            Self::Few(block) => return block.remove(number),
            Self::Many(many) => many.remove(number),
        };
        self.shrink();
        removed
    }

    /// Removes all rows but these.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&Entry) -> bool) {
        match self {
            Self::Few(block) => block.retain(is_kept),
            Self::Many(many) => many.retain(is_kept),
        }
        self.shrink();
    }

    /// Keeps a block that is the only one as such.
    fn shrink(&mut self) {
        if let Self::Many(many) = self
            && many.blocks.len() < 2
        {
            *self = Self::Few(many.blocks.pop_front().unwrap_or_default());
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let rows: usize = self.blocks().map(VecDeque::capacity).sum();
        let blocks = match self {
            Self::Few(_) => 0,
            Self::Many(many) => size_of::<Many>() + many.blocks.capacity() * size_of::<Block>(),
        };
        rows * size_of::<Entry>() + blocks
    }
}

impl Many {
    #[inline(never)]
    fn partition_point(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let begins_before = |block: &Block| block.front().is_some_and(&is_before);
        let after = match self.blocks.back().is_some_and(begins_before) {
            true => self.blocks.len(),
            false => self.blocks.partition_point(begins_before),
        };
        let Some(at) = after.checked_sub(1) else { return 0 };
        let block = &self.blocks[at];
        let row = block.partition_point(is_before);
        if row < block.len() { at * BLOCK + row } else { after * BLOCK }
    }

    /// Whether a row comes after all others.
    fn is_next(&self, entry: &Entry) -> bool {
        self.blocks.back().is_none_or(|last| is_next(last, entry))
    }

    /// The block where a row belongs.
    fn place(&self, entry: &Entry) -> usize {
        let is_before = |block: &Block| is_next(block, entry);
        let last = self.blocks.len() - 1;
        match last.checked_sub(1).is_none_or(|at| is_before(&self.blocks[at])) {
            true => last,
            false => self.blocks.partition_point(is_before),
        }
    }

    #[inline(never)]
    fn reserve(&mut self, rows: &[(u32, Entry)], in_order: bool, spare: &mut Spare) {
        let mut blocks = 0;
        let mut rest = rows;
        while let [(_, first), ..] = rest {
            let (is_next, at) = (self.is_next(first), self.place(first));
            let own = match is_next {
                true => rest.len(),
                false => rest.partition_point(|(_, entry)| self.place(entry) == at),
            };
            rest = &rest[own..];
            let known = self.blocks[at].len();
            blocks += match known + own > BLOCK {
                false => 0,
                true if is_next && in_order => (known + own - 1) / BLOCK,
                // Of one that is full there are two with half of its rows, beside those before and after it.
                true => own.min(2 + own.div_ceil(BLOCK / 2)),
            };
            self.blocks[at].reserve(own.min(BLOCK - known));
        }
        self.blocks.reserve(blocks);
        spare.reserve(blocks);
    }

    #[inline(never)]
    fn extend(&mut self, mut rows: &[(u32, Entry)], spare: &mut Spare) {
        while let [(_, first), ..] = rows {
            let is_next = self.is_next(first);
            if is_next && self.blocks.back().is_some_and(|last| last.len() == BLOCK) {
                self.blocks.push_back(spare.take());
            }
            let own = match self.blocks.back_mut().filter(|_| is_next) {
                Some(last) => {
                    let own = rows.len().min(BLOCK - last.len());
                    extend(last, &rows[..own]);
                    self.len += own;
                    own
                }
                None => {
                    self.insert(first, spare);
                    1
                }
            };
            rows = &rows[own..];
        }
    }

    /// Adds a row that is not the next.
    fn insert(&mut self, entry: &Entry, spare: &mut Spare) {
        self.len += 1;
        let mut at = self.place(entry);
        if self.blocks[at].len() == BLOCK {
            let (half, mut new) = (BLOCK / 2, spare.take());
            if at == 0 && self.blocks[0].front().is_some_and(|first| entry.rank() < first.rank()) {
                self.blocks.push_front(new);
            } else {
                new.extend(self.blocks[at].drain(half..));
                self.blocks.insert(at + 1, new);
                at += usize::from(is_next(&self.blocks[at], entry));
            }
        }
        extend(&mut self.blocks[at], &[(0, *entry)]);
    }

    #[inline(never)]
    fn pop_front_if(&mut self, is_such: impl FnMut(&mut Entry) -> bool) -> Option<Entry> {
        let popped = self.blocks[0].pop_front_if(is_such)?;
        if self.blocks[0].is_empty() {
            self.blocks.pop_front();
        }
        self.len -= 1;
        Some(popped)
    }

    /// Removes a row; blocks that are small by then are joined.
    fn remove(&mut self, number: usize) -> Option<Entry> {
        let at = number / BLOCK;
        let removed = self.blocks.get_mut(at)?.remove(number % BLOCK)?;
        self.len -= 1;
        let next = self.blocks.get(at + 1).map_or(BLOCK, VecDeque::len);
        if self.blocks[at].is_empty() {
            self.blocks.remove(at);
        } else if self.blocks[at].len() + next <= BLOCK / 2
            && let Some(mut next) = self.blocks.remove(at + 1)
        {
            self.blocks[at].append(&mut next);
        }
        Some(removed)
    }

    fn retain(&mut self, mut is_kept: impl FnMut(&Entry) -> bool) {
        let blocks = &mut self.blocks;
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
        self.len = blocks.iter().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entry::Address;
    use super::*;

    fn entry(place: i64, order: u64) -> Entry {
        Entry { place, order, at: Address { chunk: 0, row: 0 }, met: 0, content: 0 }
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
                let blocks = timeline.blocks().count() + spare.0.len();
                timeline.extend(&given, &mut spare);
                // All were there.
                prop_assert_eq!(timeline.blocks().count() + spare.0.len(), blocks);
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
                        let (number, at) = (timeline.partition_point(|entry| entry.place < 0), model.partition_point(|rank| rank.0 < 0));
                        let removed = timeline.remove(number).map(|entry| entry.rank());
                        prop_assert_eq!(removed, (at < model.len()).then(|| model.remove(at)));
                    }
                    2 => {
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
