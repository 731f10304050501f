//! Which slices are dropped or merged, and how slots and keys are numbered anew: between calls, so nothing is logged.

use super::{NONE, Slice, Timelines};
use crate::keys::keep;
use crate::window::Spans;

/// Slices of a key that may accumulate before those between which no edge is needed are merged.
const MANY: usize = 8;

impl Timelines {
    /// How many of a key's slices no later row and no window needs: those before `cutoff`, unless `gap` ties them to
    /// later ones.
    pub fn expired(&self, key: u32, cutoff: i64, gap: Option<i64>) -> usize {
        let Spans { firsts, lasts } = self.of(key);
        if firsts.first().is_none_or(|&first| first >= cutoff) {
            return 0;
        }
        let mut expired = firsts.partition_point(|&first| first < cutoff);
        if let Some(gap) = gap {
            // A row at the cutoff may still join a fragment within the gap.
            let mut reach = cutoff;
            while expired > 0 && lasts[expired - 1].saturating_add(gap) >= reach {
                expired -= 1;
                reach = firsts[expired];
            }
        }
        expired
    }

    /// The least cutoff at which a slice of a key expires ([`Timelines::expired`]): the first of them, with those that `gap`
    /// ties to it.
    pub fn expires_at(&self, key: u32, gap: i64) -> Option<i64> {
        let Spans { firsts, lasts } = self.of(key);
        let is_tied = |&at: &usize| lasts[at - 1].saturating_add(gap) >= firsts[at];
        let tied = (1..firsts.len()).take_while(is_tied).count();
        lasts.get(tied).map(|last| last.saturating_add(gap).saturating_add(1))
    }

    /// Drops the first slices of a key, which have `rows` rows, where slices know the places of rows.
    pub fn forget(&mut self, key: u32, slices: usize, rows: u32) {
        if slices == 0 {
            return;
        }
        self.keys[key as usize].drop_first(slices, rows);
        self.slices -= slices;
    }

    /// Frees all memory that a key's slices do not take.
    pub fn shrink(&mut self, key: u32) {
        self.keys[key as usize].shrink();
    }

    /// Each slice now has a single slot, numbered slice by slice and key by key. Where memory runs out, that is all done.
    pub fn renumber(&mut self) {
        let mut slot = 0;
        for timeline in &mut self.keys {
            for chain in timeline.chains_mut() {
                *chain = (slot, slot);
                slot += 1;
            }
        }
        self.next.clear();
        self.next.resize(slot as usize, NONE);
        self.settle();
        // Each slice had a slot, so that so far nothing was allocated.
        self.next.shrink_to(2 * slot as usize);
    }

    /// Merges slices between which there is no edge any longer: `slice_of` returns the slice of a time.
    pub fn remerge(
        &mut self,
        mut slice_of: impl FnMut(i64) -> (i64, i64),
        gap_at: impl Fn(i64) -> Option<i64>,
    ) {
        for key in 0..self.keys.len() {
            let merged = self.merge_pairs(key, |one, next| {
                let (start, end) = slice_of(next.first);
                let within = gap_at(next.first).is_none_or(|gap| next.first <= one.last.saturating_add(gap));
                within && one.first >= start && next.last < end && one.last < end
            });
            self.merges += merged as u64;
            self.keys[key].begin_anew();
        }
    }

    /// Merges slices where there are many, before all rows that can still change: `is_settled` says whether a time lies
    /// there, `is_needed` whether an edge after the earlier and not after the later time is needed. Returns the keys
    /// whose slices changed. Amortised O(1) per slice.
    pub fn merge_settled(
        &mut self,
        mut is_settled: impl FnMut(i64) -> bool,
        is_needed: impl Fn(i64, i64) -> bool,
        gap: Option<i64>,
    ) -> Vec<u32> {
        let mut changed = Vec::new();
        for key in 0..self.keys.len() {
            let timeline = &self.keys[key];
            if timeline.len() < 2 * timeline.merged() + MANY {
                continue;
            }
            // Not counted as a merge of the stream: its time is a matter of upkeep, which a restart may delay.
            let merged = self.merge_pairs(key, |one, next| {
                let within = gap.is_none_or(|gap| next.first <= one.last.saturating_add(gap));
                within && is_settled(one.last.max(next.last)) && !is_needed(one.last, next.first)
            });
            let timeline = &mut self.keys[key];
            timeline.note_merge();
            if merged > 0 {
                changed.push(key as u32);
            }
        }
        changed
    }

    /// Keeps those slices for which `is_kept` says so, key by key in order; returns how many are dropped. Where slices do not
    /// know the places of rows.
    pub fn retain(&mut self, mut is_kept: impl FnMut() -> bool) -> usize {
        let mut dropped = 0;
        for timeline in &mut self.keys {
            let mut kept = 0;
            for place in 0..timeline.len() {
                if is_kept() {
                    timeline.set(kept, timeline.get(place));
                    kept += 1;
                }
            }
            dropped += timeline.len() - kept;
            timeline.truncate(kept);
            timeline.begin_anew();
        }
        self.slices -= dropped;
        dropped
    }

    /// Merges neighbouring slices of a key where `joins` says so; returns how many fewer there are.
    fn merge_pairs(&mut self, key: usize, mut joins: impl FnMut(&Slice, &Slice) -> bool) -> usize {
        let timeline = &mut self.keys[key];
        let mut kept = 0;
        for place in 1..timeline.len() {
            let (one, next) = (timeline.get(kept), timeline.get(place));
            if joins(&one, &next) {
                self.next[one.chain.1 as usize] = next.chain.0;
                let chain = (one.chain.0, next.chain.1);
                timeline.set(kept, Slice { last: one.last.max(next.last), chain, ..one });
            } else {
                kept += 1;
                timeline.set(kept, next);
            }
        }
        let merged = timeline.len().saturating_sub(kept + 1);
        timeline.truncate(kept + 1);
        self.slices -= merged;
        merged
    }

    /// Keeps these keys, which ascend, and drops the others, which have no slices: the n-th of them becomes key n.
    pub fn keep_keys(&mut self, kept: &[u32]) {
        keep(&mut self.keys, kept);
    }
}
