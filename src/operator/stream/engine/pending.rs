//! Rows that no result of a query contains yet: their times, by which changed windows are found.
//!
//! | moment | what happens |
//! |---|---|
//! | a key fires | [`Pending::of`] has the times of its rows, for `early` |
//! | a call is committed | [`Pending::settle`]: its rows are pending, and those of keys that fired no longer are |
//! | slices have expired, or were dropped | [`Pending::forget`], [`Pending::keep_those_in`] |

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array, cast::AsArray, types::*};

use super::slice_manager::SliceManager;
use crate::Result;
use crate::keys::keep;
use crate::operator::stream::queries::Queries;
use crate::slice::Timelines;
use crate::state::{Reader, Writer, broken};

/// Times of a key that may accumulate before only one is kept for each slice.
const MANY: usize = 16;

/// The rows of a query, key by key.
type Times = Vec<Vec<i64>>;

/// Times of rows by query and key; where slices are not cut by rows, at least one in each slice with such rows.
#[derive(Clone)]
pub(super) struct Pending {
    /// `None` of queries without a policy.
    queries: Vec<Option<Times>>,
    /// Whether rows are dropped once a result has contained them.
    discards: bool,
}

impl Pending {
    /// No rows yet; `None` if no query has a policy.
    pub(super) fn new(queries: &Queries, discards: bool) -> Option<Self> {
        let registered = queries.registered().iter();
        let queries: Vec<_> = registered.map(|each| each.plan.policy().map(|_| Vec::new())).collect();
        queries.iter().any(Option::is_some).then_some(Self { queries, discards })
    }

    /// These rows for other queries: `place` maps a query to its new place.
    pub(super) fn changed(
        self,
        (queries, discards): (&Queries, bool),
        place: impl Fn(usize) -> Option<usize>,
    ) -> Option<Self> {
        let mut changed = Self::new(queries, discards)?;
        for (at, times) in self.queries.into_iter().enumerate() {
            if let (Some(at), Some(times)) = (place(at), times) {
                changed.queries[at] = Some(times);
            }
        }
        Some(changed)
    }

    /// The times of a query's key, in any order.
    pub(super) fn of(&self, query: usize, key: u32) -> &[i64] {
        let times = self.queries[query].as_ref().and_then(|keys| keys.get(key as usize));
        times.map(Vec::as_slice).unwrap_or_default()
    }

    /// Commits a call: rows of these keys and times, and the keys that fired of each query.
    pub(super) fn settle(
        &mut self,
        (queries, slices): (&Queries, &mut SliceManager),
        rows: &[(u32, i64)],
        fired: &[(usize, Vec<u32>)],
    ) {
        self.add(rows, &slices.timelines, slices.keeps_rows());
        for (query, keys) in fired {
            self.clear(*query, keys);
        }
        if self.discards {
            slices.discard(queries, fired.iter().flat_map(|(_, keys)| keys.iter().copied()));
        }
    }

    /// Adds the keys and times of rows.
    fn add(&mut self, rows: &[(u32, i64)], slices: &Timelines, keeps_rows: bool) {
        for keys in self.queries.iter_mut().flatten() {
            for of_key in rows.chunk_by(|a, b| a.0 == b.0) {
                let key = of_key[0].0 as usize;
                if keys.len() <= key {
                    keys.resize_with(key + 1, Vec::new);
                }
                let times = &mut keys[key];
                times.extend(of_key.iter().map(|&(_, time)| time));
                let spans = slices.of(key as u32);
                if times.len() > MANY && (keeps_rows || times.len() > 2 * spans.len() + MANY) {
                    times.sort_unstable();
                    times.dedup();
                    if !keeps_rows {
                        times.dedup_by_key(|time| spans.firsts.partition_point(|first| first <= time));
                    }
                }
            }
        }
    }

    /// Drops those of these keys.
    fn clear(&mut self, query: usize, fired: &[u32]) {
        for keys in self.queries[query].iter_mut() {
            for &key in fired {
                if let Some(times) = keys.get_mut(key as usize) {
                    times.clear();
                }
            }
        }
    }

    /// Drops those of these keys before the slices that are left, except for the last one if a row may change windows after
    /// it.
    pub(super) fn forget(&mut self, slices: &Timelines, keys: Range<u32>, keeps_rows: bool) {
        for known in self.queries.iter_mut().flatten() {
            let places = (keys.start as usize).min(known.len())..(keys.end as usize).min(known.len());
            let own = (keys.start..).zip(&mut known[places]);
            for (key, times) in own.filter(|(_, times)| !times.is_empty()) {
                let first = slices.of(key).firsts.first().copied();
                let is_there = |time: i64| first.is_some_and(|first| first <= time);
                let gone = times.iter().copied().filter(|&time| !is_there(time));
                let last = if keeps_rows { gone.max() } else { None };
                times.retain(|&time| is_there(time));
                times.extend(last.filter(|_| first.is_some()));
                if times.is_empty() {
                    *times = Vec::new();
                }
            }
        }
    }

    /// Drops those that are in none of the slices that are left.
    pub(super) fn keep_those_in(&mut self, slices: &Timelines) {
        for keys in self.queries.iter_mut().flatten() {
            for (key, times) in (0..).zip(keys) {
                let spans = slices.of(key);
                times.retain(|&time| {
                    let after = spans.firsts.partition_point(|&first| first <= time);
                    after > 0 && time <= spans.lasts[after - 1]
                });
            }
        }
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        self.queries.iter_mut().flatten().for_each(|keys| keep(keys, kept));
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let all = self.queries.iter().flatten().flatten();
        all.map(|times| size_of::<Vec<i64>>() + times.capacity() * size_of::<i64>()).sum()
    }

    /// Writes them.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        for keys in self.queries.iter().flatten() {
            let each = || (0..).zip(keys).flat_map(|(key, times)| times.iter().map(move |&t| (key, t)));
            let ids: UInt32Array = each().map(|(key, _)| key).collect();
            let times: Int64Array = each().map(|(_, time)| time).collect();
            let count = ids.len();
            to.columns(vec![Arc::new(ids) as ArrayRef, Arc::new(times)], count)?;
        }
        Ok(())
    }

    /// Reads what [`Pending::save`] wrote.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, key_count: usize) -> Result<()> {
        for keys in self.queries.iter_mut().flatten() {
            let (columns, _) = from.columns()?;
            let [ids, times] = columns.as_slice() else { return broken() };
            let (Some(ids), Some(times)) =
                (ids.as_primitive_opt::<UInt32Type>(), times.as_primitive_opt::<Int64Type>())
            else {
                return broken();
            };
            for (&key, &time) in ids.values().iter().zip(times.values()) {
                if key as usize >= key_count {
                    return broken();
                }
                if keys.len() <= key as usize {
                    keys.resize_with(key as usize + 1, Vec::new);
                }
                keys[key as usize].push(time);
            }
        }
        Ok(())
    }
}
