//! Slots put in order: the values of all are sorted at once, and distributed to their slots by rank.

use std::sync::Arc;

use super::{Held, Multiset};
use crate::Result;
use crate::aggregate::by_slot::grouped;
use crate::aggregate::order::Codes;
use crate::aggregate::tally::Runs;
use crate::poll::{Pieces, filled, sort_by_key};

/// Runs, and the ranges of them that make up slots.
pub(super) type View<K> = (Arc<Ranked<K>>, Vec<(u32, u32)>);

/// Runs of ranks, and the codes that have these ranks.
pub(super) struct Ranked<K> {
    pub(super) runs: Runs,
    pub(super) codes: Vec<K>,
}

/// A value to be written to its slot.
#[derive(Clone, Copy)]
struct Item<K> {
    key: K,
    group: u32,
    count: u32,
}

impl<C: Codes> Multiset<C> {
    /// The runs of these groups of slots.
    pub(super) fn ranked(&self, slots: &[u32], groups: &[u32]) -> Result<Ranked<C::Key>> {
        if let Held::Rows(entries) = &self.held {
            entries.put_in_order(self.poll)?;
        }
        let mut pieces = Pieces::new(self.poll);
        let mut items = Vec::new();
        let mut offsets = Vec::with_capacity(groups.len() + 1);
        offsets.push(0);
        for (group, slots) in grouped(slots, groups).enumerate() {
            for &slot in slots {
                self.visit(slot as usize, |code, count| {
                    items.push(Item { key: self.codes.rank_key(code), group: group as u32, count });
                });
            }
            pieces.count(items.len() - offsets[group])?;
            offsets.push(items.len());
        }
        // A sort that uses existing runs: slots that were put in order before are merged, not sorted again.
        sort_by_key(&mut items, |item| item.key, self.poll)?;
        let total = items.iter().map(|item| u64::from(item.count)).sum();
        let (mut ranks, mut counts): (Vec<u32>, Vec<u32>) =
            (filled(items.len(), 0, self.poll)?, filled(items.len(), 0, self.poll)?);
        let mut next = offsets[..groups.len()].to_vec();
        let mut codes = Vec::new();
        let mut last = None;
        for item in items {
            pieces.count(1)?;
            if last != Some(item.key) {
                last = Some(item.key);
                codes.push(self.codes.of_key(item.key));
            }
            let (rank, group) = (codes.len() as u32 - 1, item.group as usize);
            let at = next[group];
            if at > offsets[group] && ranks[at - 1] == rank {
                // A count that would not fit begins another run of the same value.
                if let Some(sum) = counts[at - 1].checked_add(item.count) {
                    counts[at - 1] = sum;
                    continue;
                }
            }
            (ranks[at], counts[at]) = (rank, item.count);
            next[group] += 1;
        }
        // Close the gaps left by equal values.
        let mut to = 0;
        for group in 0..groups.len() {
            let (from, end) = (offsets[group], next[group]);
            if from != to {
                ranks.copy_within(from..end, to);
                counts.copy_within(from..end, to);
            }
            offsets[group] = to;
            to += end - from;
        }
        offsets[groups.len()] = to;
        ranks.truncate(to);
        counts.truncate(to);
        let counts = counts.iter().any(|&count| count != 1).then_some(counts);
        Ok(Ranked { runs: Runs { distinct: codes.len(), offsets, ranks, counts, total }, codes })
    }

    /// The runs, and which of them make up each slot.
    pub(super) fn view(&self) -> Result<View<C::Key>> {
        let each = |slots: usize| (0..slots as u32).map(|slot| (slot, slot + 1)).collect();
        Ok(match &self.held {
            Held::View(ranked, ranges) => (ranked.clone(), ranges.clone()),
            Held::Ranked(ranked) => (ranked.clone(), each(ranked.runs.len())),
            Held::Rows(_) | Held::Merged { .. } => {
                let slots: Vec<u32> = (0..self.len() as u32).collect();
                (Arc::new(self.ranked(&slots, &slots)?), each(slots.len()))
            }
        })
    }
}
