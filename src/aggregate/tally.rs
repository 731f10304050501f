//! Counts of ranks in a window that slides over slots.
//!
//! | | |
//! |---|---|
//! | needs | ranks of values, dense within a block of keys |
//! | time | O(log distinct) per value that enters or leaves a window, and per answer; logarithms are to base 64 |
//! | space | 4 bytes per distinct value of the block (8 beyond 2^32 values), and a 64th of that |
//!
//! A multiset is invertible, so that a window is the previous one, less the slots that left and plus those that entered
//! (Subtract-on-Evict). Counts are in levels of a tree in which a node has 64 children: adding touches one counter of
//! each level, and selecting the k-th value sums up to 64 neighbouring counters of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Result;
use crate::poll::{PIECE, Poll};

/// Children of a node: as many counters as make four cache lines.
const FAN: usize = 64;

/// A run of ranks, ascending, per slot.
pub(super) struct Runs {
    /// Ranks are below this.
    pub(super) distinct: usize,
    /// Slot s has `ranks[offsets[s]..offsets[s + 1]]`.
    pub(super) offsets: Vec<usize>,
    pub(super) ranks: Vec<u32>,
    /// How often each occurs; `None` if all occur once.
    pub(super) counts: Option<Vec<u32>>,
    /// All values; no window has more.
    pub(super) total: u64,
}

impl Runs {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let counts = self.counts.as_ref().map_or(0, Vec::capacity);
        self.offsets.capacity() * size_of::<usize>() + (self.ranks.capacity() + counts) * size_of::<u32>()
    }
}

/// A number of values: 32 bits where all of a block fit, as that is less memory to touch.
pub(super) trait Counter:
    Copy + Default + Ord + From<u32> + Into<u64> + std::ops::AddAssign + std::ops::SubAssign
{
}
impl Counter for u32 {}
impl Counter for u64 {}

impl Runs {
    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Calls `each` with the ranks of slots `from..to` and how often they occur.
    #[inline]
    pub(super) fn visit(&self, from: usize, to: usize, mut each: impl FnMut(u32, u32)) {
        let runs = self.offsets[from]..self.offsets[to];
        match &self.counts {
            None => {
                self.ranks[runs].iter().for_each(|&rank| each(rank, 1));
            }
            Some(counts) => {
                let runs = self.ranks[runs.clone()].iter().zip(&counts[runs]);
                runs.for_each(|(&rank, &count)| each(rank, count));
            }
        }
    }
}

/// A summary of the values in a window.
pub(super) trait Tally {
    /// A value enters, `count` times.
    fn add(&mut self, rank: u32, count: u32);
    /// A value leaves, `count` times.
    fn remove(&mut self, rank: u32, count: u32);
}

/// Calls `each` with the tally of every range of slots. O(1) additions and removals per run of a slot, whether or not
/// ranges overlap.
///
/// # Errors
/// That of `poll`.
pub(super) fn slide<T: Tally>(
    runs: &Runs,
    ranges: &[(u32, u32)],
    tally: &mut T,
    poll: Poll,
    mut each: impl FnMut(&T),
) -> Result<()> {
    let (mut from, mut to, mut steps) = (0, 0, 0);
    for &(lo, hi) in ranges {
        let (lo, hi) = (lo as usize, hi as usize);
        let entering = runs.offsets[hi] - runs.offsets[lo.max(to).min(hi)];
        // As many will leave; an answer takes longer than a value that enters.
        steps += 16 + 2 * entering;
        if steps >= PIECE {
            poll()?;
            steps = 0;
        }
        runs.visit(from, lo.min(to), |rank, count| tally.remove(rank, count));
        runs.visit(lo.max(to), hi, |rank, count| tally.add(rank, count));
        (from, to) = (lo, hi);
        each(tally);
    }
    Ok(())
}

/// The number of distinct values.
pub(super) struct Distinct<N> {
    counts: Vec<N>,
    present: i64,
}

impl<N: Counter> Distinct<N> {
    pub(super) fn new(distinct: usize) -> Self {
        Self { counts: vec![N::default(); distinct], present: 0 }
    }

    pub(super) fn distinct(&self) -> i64 {
        self.present
    }
}

impl<N: Counter> Tally for Distinct<N> {
    #[inline]
    fn add(&mut self, rank: u32, count: u32) {
        let counter = &mut self.counts[rank as usize];
        self.present += i64::from(*counter == N::default());
        *counter += count.into();
    }

    #[inline]
    fn remove(&mut self, rank: u32, count: u32) {
        let counter = &mut self.counts[rank as usize];
        *counter -= count.into();
        self.present -= i64::from(*counter == N::default());
    }
}

/// Levels of counters over this many ranks, the top first.
fn levels<N: Counter>(distinct: usize) -> Vec<Vec<N>> {
    let mut levels = vec![vec![N::default(); distinct]];
    while levels[0].len() > FAN {
        levels.insert(0, vec![N::default(); levels[0].len().div_ceil(FAN)]);
    }
    levels
}

/// The counters below counter `at` of the level above.
#[inline]
fn children<N>(level: &[N], at: usize) -> &[N] {
    &level[at * FAN..level.len().min((at + 1) * FAN)]
}

/// Values in order.
pub(super) struct Ordered<N> {
    /// The last level counts single ranks; a counter of each other one is the sum of up to 64 of the next.
    levels: Vec<Vec<N>>,
    len: u64,
}

impl<N: Counter> Ordered<N> {
    pub(super) fn new(distinct: usize) -> Self {
        Self { levels: levels(distinct), len: 0 }
    }

    /// How many values there are.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The rank of value `k`, counted from 0 and below `len`, in ascending order.
    #[inline]
    pub(super) fn select(&self, k: u64) -> u32 {
        let mut rest = k;
        let mut at = 0;
        for level in &self.levels {
            let counters = children(level, at);
            let mut child = 0;
            // The last child need not be checked: the requested value is there.
            while child + 1 < counters.len() && rest >= counters[child].into() {
                rest -= counters[child].into();
                child += 1;
            }
            at = at * FAN + child;
        }
        at as u32
    }

    /// Calls `each` with the ranks that occur, ascending, and how often they do.
    pub(super) fn visit(&self, mut each: impl FnMut(u32, u64)) {
        self.visit_below(0, 0, &mut each);
    }

    fn visit_below(&self, level: usize, at: usize, each: &mut impl FnMut(u32, u64)) {
        for (child, &count) in children(&self.levels[level], at).iter().enumerate() {
            if count == N::default() {
                continue;
            }
            let child = at * FAN + child;
            if level + 1 == self.levels.len() {
                each(child as u32, count.into());
            } else {
                self.visit_below(level + 1, child, each);
            }
        }
    }
}

impl<N: Counter> Tally for Ordered<N> {
    #[inline]
    fn add(&mut self, rank: u32, count: u32) {
        let mut at = rank as usize;
        for level in self.levels.iter_mut().rev() {
            level[at] += count.into();
            at /= FAN;
        }
        self.len += u64::from(count);
    }

    #[inline]
    fn remove(&mut self, rank: u32, count: u32) {
        let mut at = rank as usize;
        for level in self.levels.iter_mut().rev() {
            level[at] -= count.into();
            at /= FAN;
        }
        self.len -= u64::from(count);
    }
}

/// The most frequent values.
pub(super) struct Modes<N> {
    /// The last level counts single ranks; a counter of each other one is the greatest of up to 64 of the next.
    levels: Vec<Vec<N>>,
    len: u64,
}

impl<N: Counter> Modes<N> {
    pub(super) fn new(distinct: usize) -> Self {
        Self { levels: levels(distinct), len: 0 }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The ranks that occur, with how often they do: the most frequent first, of equally frequent ones the least. The
    /// first k take O(k log distinct) steps, whatever comes after them.
    pub(super) fn most_frequent(&self) -> impl Iterator<Item = (u32, u64)> {
        // Counters to be looked below, by the greatest count there, then from the left. Ranks below two of them never
        // interleave, so that whatever is taken out first has the next rank below it, or is it.
        let mut heap = BinaryHeap::new();
        self.push_children(0, 0, &mut heap);
        std::iter::from_fn(move || {
            loop {
                let (count, Reverse(first), level) = heap.pop()?;
                if level + 1 == self.levels.len() {
                    return Some((first as u32, count.into()));
                }
                let at = first / self.ranks_below(level);
                self.push_children(level + 1, at, &mut heap);
            }
        })
    }

    /// Adds the children of counter `at` that are not zero: their counts, the first rank below each, their level.
    fn push_children(&self, level: usize, at: usize, heap: &mut BinaryHeap<(N, Reverse<usize>, usize)>) {
        let some = children(&self.levels[level], at).iter().enumerate();
        let below = self.ranks_below(level);
        let some = some.filter(|&(_, &count)| count > N::default());
        heap.extend(some.map(|(child, &count)| (count, Reverse((at * FAN + child) * below), level)));
    }

    /// How many ranks a counter of a level is for.
    fn ranks_below(&self, level: usize) -> usize {
        FAN.pow((self.levels.len() - 1 - level) as u32)
    }

    /// The least of the most frequent ranks.
    pub(super) fn mode(&self) -> Option<u32> {
        let most = self.levels[0].iter().copied().max().filter(|&most| most > N::default())?;
        let mut at = 0;
        for level in &self.levels {
            at = at * FAN + children(level, at).iter().position(|&count| count == most)?;
        }
        Some(at as u32)
    }
}

impl<N: Counter> Tally for Modes<N> {
    #[inline]
    fn add(&mut self, rank: u32, count: u32) {
        let mut at = rank as usize;
        let mut levels = self.levels.iter_mut().rev();
        let Some(own) = levels.next() else { return };
        own[at] += count.into();
        self.len += u64::from(count);
        let most = own[at];
        for level in levels {
            at /= FAN;
            if level[at] >= most {
                return;
            }
            level[at] = most;
        }
    }

    #[inline]
    fn remove(&mut self, rank: u32, count: u32) {
        let mut at = rank as usize;
        let last = self.levels.len() - 1;
        let before = self.levels[last][at];
        self.levels[last][at] -= count.into();
        self.len -= u64::from(count);
        for above in (0..last).rev() {
            at /= FAN;
            if self.levels[above][at] != before {
                return;
            }
            let most = children(&self.levels[above + 1], at).iter().copied().max().unwrap_or_default();
            if most == before {
                return;
            }
            self.levels[above][at] = most;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::never;
    use proptest::prelude::*;

    proptest! {
        /// Windows over slots of values below 5,000, which makes three levels, compared with sorting each window.
        #[test]
        fn every_window_is_as_if_it_were_counted_alone(
            slots in prop::collection::vec(prop::collection::vec((0u32..5000, 1u32..4), 0..6), 1..40),
            steps in prop::collection::vec((0usize..4, 0usize..5), 0..60),
        ) {
            let mut runs = Runs { distinct: 5000, offsets: vec![0], ranks: vec![], counts: Some(vec![]), total: 0 };
            for slot in &slots {
                for &(rank, count) in slot {
                    // Ranks that are sometimes near each other.
                    runs.ranks.push(rank % if count == 3 { 70 } else { 5000 });
                    runs.counts.as_mut().unwrap().push(count);
                }
                runs.offsets.push(runs.ranks.len());
            }
            let needed = (slots.len() + 1) * size_of::<usize>() + 2 * runs.ranks.len() * size_of::<u32>();
            prop_assert!((needed..=4 * needed + 64).contains(&runs.bytes()), "{} of {needed}", runs.bytes());
            let mut ranges = Vec::new();
            let (mut lo, mut hi) = (0, 0);
            for (step_lo, step_hi) in steps {
                lo += step_lo;
                hi = (hi + step_hi).max(lo);
                if hi > slots.len() {
                    break;
                }
                ranges.push((lo as u32, hi as u32));
            }
            let windows: Vec<Vec<u32>> = ranges.iter().map(|&(lo, hi)| {
                let mut values = Vec::new();
                runs.visit(lo as usize, hi as usize, |rank, count| values.extend(vec![rank; count as usize]));
                values.sort_unstable();
                values
            }).collect();
            let mut at = 0;
            slide(&runs, &ranges, &mut Ordered::<u32>::new(5000), never, |tally| {
                let got: Vec<u32> = (0..tally.len()).map(|k| tally.select(k)).collect();
                assert_eq!(got, windows[at]);
                let mut visited = Vec::new();
                tally.visit(|rank, count| visited.extend(vec![rank; count as usize]));
                assert_eq!(visited, windows[at]);
                at += 1;
            }).unwrap();
            at = 0;
            slide(&runs, &ranges, &mut Distinct::<u64>::new(5000), never, |tally| {
                let mut distinct = windows[at].clone();
                distinct.dedup();
                assert_eq!(tally.distinct(), distinct.len() as i64);
                at += 1;
            }).unwrap();
            at = 0;
            slide(&runs, &ranges, &mut Modes::<u32>::new(5000), never, |tally| {
                let often = |rank: &u32| windows[at].iter().filter(|&other| other == rank).count();
                let mode = windows[at].iter().max_by_key(|rank| (often(rank), std::cmp::Reverse(**rank)));
                assert_eq!(tally.mode(), mode.copied());
                let mut ranked: Vec<(u32, u64)> =
                    windows[at].iter().map(|rank| (*rank, often(rank) as u64)).collect();
                ranked.dedup();
                ranked.sort_by_key(|&(rank, count)| (std::cmp::Reverse(count), rank));
                assert_eq!(tally.most_frequent().collect::<Vec<_>>(), ranked);
                assert_eq!(tally.len(), windows[at].len() as u64);
                at += 1;
            }).unwrap();
        }
    }
}
