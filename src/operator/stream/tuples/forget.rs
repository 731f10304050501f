//! Which rows are stored, and for how long: rows that no later row and no window needs are dropped, slice by slice.

use super::Tuples;
use super::rows::KeyTuples;
use crate::keys::keep;
use crate::operator::stream::queries::{Queries, Registered, windows};
use crate::slice::Timelines;
use crate::window::{Call, New};

impl Tuples {
    /// Whether looking for rows that are no longer needed pays off: it takes at most as much work as there are keys and
    /// rows. The call returned so many windows. One of none drops all that it can, unless rows came right before.
    pub(in crate::operator::stream) fn is_worth_sweeping(&mut self, emitted: u64) -> bool {
        self.unswept += emitted;
        let has_time = emitted == 0 && self.calls_without_rows > 1;
        if !has_time && 8 * self.unswept < self.kept.max(self.keys.len()) as u64 {
            return false;
        }
        self.unswept = 0;
        (self.idle, self.swept) = (self.swept, self.store.next());
        true
    }

    /// Drops what is no longer needed of a key, but at most its first `expired` slices.
    pub(in crate::operator::stream) fn forget(
        &mut self,
        (queries, slices): (&Queries, &mut Timelines),
        key: u32,
        expired: usize,
        call: Call,
    ) {
        let Some(tuples) = self.keys.get_mut(key as usize) else { return };
        if tuples.len() == 0 {
            return;
        }
        let mut tuples = std::mem::take(tuples);
        let needed = self.first_needed(queries, key, &mut tuples, call);
        // Whole slices, and many at a time, as the rest is moved.
        let los = slices.los(key);
        let of_rows = match los.partition_point(|&lo| lo as usize <= needed) {
            all if needed == tuples.len() => all,
            after => after.saturating_sub(1),
        };
        let count = of_rows.min(expired);
        let rows = los.get(count).map_or(tuples.len(), |&lo| lo as usize);
        if rows > 0 && 4 * rows >= tuples.len() {
            tuples.forget(rows, own(queries));
            slices.forget(key, count, rows as u32);
            self.kept -= rows;
        }
        if tuples.ats.last().is_some_and(|&last| last < self.idle) {
            tuples.shrink();
            slices.shrink(key);
        }
        self.keys[key as usize] = tuples;
    }

    /// Drops the rows of a key's first slices, or of all windows that were emitted, if their number is not given.
    pub(in crate::operator::stream) fn seal(
        &mut self,
        slices: &mut Timelines,
        key: u32,
        count: Option<usize>,
    ) {
        let Some(tuples) = self.keys.get_mut(key as usize) else { return };
        let los = slices.los(key);
        let count = count.unwrap_or_else(|| {
            let emitted = tuples.memories.iter().filter_map(|(_, memory)| memory.emitted.last());
            let ends = emitted.map(|last| tuples.place_from((last.time, last.first)) + last.rows as usize);
            let rows = ends.max().unwrap_or_default();
            los.partition_point(|&lo| (lo as usize) < rows)
        });
        if count > 0 {
            let rows = los.get(count).map_or(tuples.len(), |&lo| lo as usize);
            // Windows that are sealed have no ranks.
            tuples.forget(rows, std::iter::empty());
            slices.forget(key, count, rows as u32);
            self.kept -= rows;
        }
    }

    /// Drops all rows of a key.
    pub(in crate::operator::stream) fn discard(
        &mut self,
        (queries, slices): (&Queries, &mut Timelines),
        key: u32,
    ) {
        let Some(tuples) = self.keys.get_mut(key as usize) else { return };
        let (rows, waiting) = (tuples.len(), std::mem::take(&mut tuples.waiting).len());
        tuples.next.map(|next| self.waiting.remove(&(next, key)));
        tuples.forget(rows, own(queries));
        slices.forget(key, slices.of(key).len(), rows as u32);
        (self.kept, self.aside) = (self.kept - rows - waiting, self.aside - waiting);
    }

    /// Drops what is known of a key without rows: its numbers and punctuations.
    pub(in crate::operator::stream) fn end_key(&mut self, key: u32) {
        let Some(tuples) = self.keys.get_mut(key as usize) else { return };
        *tuples = KeyTuples::default();
        self.points.retain(|point| point.key != Some(key));
    }

    /// The first of a key's rows that a window determined by rows still needs.
    fn first_needed(&self, queries: &Queries, key: u32, tuples: &mut KeyTuples, call: Call) -> usize {
        let mut needed = tuples.len();
        for (query, registered) in queries.registered().iter().enumerate() {
            let offset = tuples.first_of(registered.since);
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(rules) = window.by_rows() else { continue };
                let mut memory = match window.is_numbered() {
                    true => std::mem::take(tuples.memory((query, number))),
                    false => Default::default(),
                };
                let call = Call { since: registered.since, ..call };
                let view = self.view(tuples, (key, query, offset), New::From(tuples.len()), true, call);
                let from = rules.needed(&view, &memory);
                memory.settle(&view, from);
                if window.is_numbered() {
                    *tuples.memory((query, number)) = memory;
                }
                needed = needed.min(offset + from);
            }
        }
        needed
    }

    /// Drops punctuations before all remaining rows, if no row can still arrive before them.
    pub(in crate::operator::stream) fn forget_points(&mut self, floor: i64) {
        if self.points.is_empty() {
            return;
        }
        let first = |tuples: &KeyTuples| tuples.times.first().copied();
        let all = self.keys.iter().filter_map(first).min().unwrap_or(i64::MAX).min(floor);
        let keys = &self.keys;
        self.points.retain(|point| {
            let least = |tuples: &KeyTuples| first(tuples).map_or(floor, |own| own.min(floor));
            point.time >= point.key.and_then(|key| keys.get(key as usize)).map_or(all, least)
        });
    }

    /// Sets the marks of the keys that have rows, or whose earlier ones say where windows end; with `numbered`, also those
    /// whose next rows or windows have a number that goes on from earlier ones.
    pub(in crate::operator::stream) fn mark_live(
        &self,
        queries: &Queries,
        is_live: &mut [bool],
        numbered: bool,
    ) {
        let gone = |tuples: &KeyTuples, query: usize| tuples.gone.get(query).copied().unwrap_or_default();
        let counts_on = |tuples: &KeyTuples| {
            windows(queries.registered()).any(|(query, window)| window.counts_on(gone(tuples, query)))
        };
        let has_any = |tuples: &KeyTuples| {
            !tuples.has_no_rows() || if numbered { !tuples.is_done() } else { counts_on(tuples) }
        };
        self.keys.iter().zip(&mut *is_live).for_each(|(tuples, is_live)| *is_live |= has_any(tuples));
        self.points.iter().filter_map(|point| point.key).for_each(|key| is_live[key as usize] = true);
    }

    /// Keeps these keys, which ascend, and drops the others: the n-th of them becomes key n.
    pub(in crate::operator::stream) fn keep_keys(&mut self, live: &[u32]) {
        keep(&mut self.keys, live);
        self.points.retain(|point| point.key.is_none_or(|key| live.binary_search(&key).is_ok()));
        let number = |key: u32| live.partition_point(|&live| live < key) as u32;
        for key in self.points.iter_mut().filter_map(|point| point.key.as_mut()) {
            *key = number(*key);
        }
        self.wait();
    }
}

/// After which time each query's rows begin, and whether its windows have ranks.
fn own(queries: &Queries) -> impl Iterator<Item = (Option<i64>, bool)> + '_ {
    let is_ranked =
        |registered: &Registered| registered.plan.windows().iter().any(|(_, window)| window.is_ranked());
    queries.registered().iter().map(move |registered| (registered.since, is_ranked(registered)))
}
