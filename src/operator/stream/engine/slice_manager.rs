//! The slice manager (Traub et al. 2019, §5.2): the slices of each key in order of time, their partials, what is kept above
//! them so that many windows need not read each slice, and the rows under them, if some query needs these.
//!
//! Calls change timelines and rows at once, and write what was there to undo logs; partials are linked in when a call is
//! committed. So a call that fails leaves no trace.

use std::ops::Range;

use super::horizon::Horizon;
use super::positions::Positions;
use super::slicer::StreamSlicer;
use super::store_form;
use crate::aggregate::Partials;
use crate::interrupt::{Pace, check, end_with};
use crate::memory::{attempted, spared};
use crate::operator::progress::Ahead;
use crate::operator::stream::options::{Options, Stats};
use crate::operator::stream::queries::{Queries, Registered, windows};
use crate::operator::stream::sharing::ClassGroup;
use crate::operator::stream::tuples::Tuples;
use crate::slice::{Cell, Delta, Eager, Store, Timelines};
use crate::window::{Point, Window};
use crate::{Error, Result};

/// Slices that are moved in the time of a simple step.
const MOVED: usize = 64;

/// What is held at the end of a stream: nothing, but columns of the right kinds.
pub(in crate::operator::stream) struct Emptied {
    store: Store,
    tuples: Option<Tuples>,
}

/// The slices of all keys, and what is stored of them.
pub(in crate::operator::stream) struct SliceManager {
    pub(super) options: Options,
    pub(in crate::operator::stream) timelines: Timelines,
    pub(super) store: Store,
    /// The aggregate store above the slices.
    pub(super) above: Eager,
    /// Rows under the slices, if some query needs them.
    pub(super) tuples: Option<Tuples>,
    /// Where keys are in windows determined by rows, if slices are cut by rows that are not stored.
    pub(super) positions: Option<Positions>,
}

impl SliceManager {
    /// No slices yet.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn new(queries: &Queries, options: Options, group: &ClassGroup) -> Result<Self> {
        let partials = queries.columns(None, 0)?;
        let tuples = group.keeps_rows().then(|| Tuples::new(queries, &partials)).transpose()?;
        let positions = group.follows_rows().then(|| Positions::new(queries));
        let store = store(tuples.as_ref(), partials, 0);
        let above = store_form::above(queries, options, &store, group.keeps_rows());
        let timelines = Timelines::new(tuples.is_some() || positions.is_some());
        Ok(Self { options, timelines, store, above, tuples, positions })
    }

    /// How slices are stored, and why.
    pub(in crate::operator::stream) fn form(&self) -> (&'static str, &'static str) {
        store_form::form(&self.store, &self.above, self.options.store)
    }

    /// Whether rows are stored under the slices.
    pub(super) fn keeps_rows(&self) -> bool {
        self.tuples.is_some()
    }

    /// Whether slices are cut by rows: several may have rows of one time, and they know the places of their first rows.
    pub(super) fn is_cut_by_rows(&self) -> bool {
        self.tuples.is_some() || self.positions.is_some()
    }

    /// Whether a key has slices, or rows that wait for their places in some.
    pub(super) fn has(&self, key: u32) -> bool {
        !self.timelines.of(key).is_empty()
            || self.tuples.as_ref().is_some_and(|tuples| tuples.has_waiting(key))
    }

    /// What is stored, and what calls have done; `did` is what was counted of the latter.
    pub(super) fn stats(&self, did: Stats) -> Stats {
        let slices = &self.timelines;
        let of_rows = self.tuples.as_ref().map_or(0, Tuples::bytes);
        let of_positions = self.positions.as_ref().map_or(0, Positions::bytes);
        Stats {
            keys: (0..slices.keys() as u32).filter(|&key| self.has(key)).count(),
            slices: slices.len(),
            rows_kept: self.tuples.as_ref().map_or(0, Tuples::len),
            bytes: slices.bytes() + self.store.bytes() + self.above.bytes() + of_rows + of_positions,
            merges: did.merges + slices.merges(),
            ..did
        }
    }

    /// Adds the cells of a call to slices: in this order, each with its place among them.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn add(
        &mut self,
        queries: &Queries,
        slicer: &mut StreamSlicer,
        sorted: Option<&[(Cell, u32)]>,
    ) -> Result<()> {
        let slices = &mut self.timelines;
        let base = slices.slots() as u32;
        let count = slicer.cutter.cells().len();
        (0..count).for_each(|_| {
            slices.open();
        });
        let mut pace = Pace::new();
        for place in 0..count {
            let (cell, at) =
                sorted.map_or_else(|| (slicer.cutter.cells()[place], place as u32), |sorted| sorted[place]);
            let moved = slices.add(
                (cell, base + at),
                slicer.cutter.slice_of(cell.first),
                queries.edges().gap_at(cell.first),
            );
            pace.check(8 + moved / MOVED)?;
        }
        pace.check(slices.close() / MOVED)
    }

    /// Commits a call, which brought so many rows.
    pub(super) fn settle(&mut self, queries: &Queries, delta: Delta, rows: u64) {
        self.store.append(delta);
        self.timelines.settle();
        if let Some(positions) = &mut self.positions {
            positions.settle(queries, &mut self.timelines, &mut self.above);
        }
        if let Some(tuples) = &mut self.tuples {
            tuples.settle(rows);
        }
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        self.above.invalidate(self.timelines.changed_keys());
        self.timelines.take_back();
        self.tuples.iter_mut().for_each(Tuples::take_back);
        self.positions.iter_mut().for_each(Positions::take_back);
    }

    /// Drops the slices of these keys that no later row and no window needs.
    pub(super) fn forget(&mut self, queries: &Queries, horizon: &Horizon, keys: Range<u32>, ahead: &Ahead) {
        if self.positions.is_some() {
            // Those that a call has changed no longer have such slices.
            return;
        }
        let base = self.tuples.as_ref().map_or(0, Tuples::next);
        let slices = &mut self.timelines;
        let calls = horizon.calls_at_rest(base, (queries, ahead));
        let keys = keys.start..keys.end.min(slices.keys() as u32);
        for key in keys.clone() {
            let Some(needed) = horizon.cutoff_at(queries, ahead.of(key)) else { continue };
            let expired = slices.expired(key, needed, queries.widest_gap());
            match &mut self.tuples {
                None => slices.forget(key, expired, 0),
                Some(tuples) => tuples.forget((queries, slices), key, expired, calls.of(key)),
            }
        }
        self.above.forget(slices, keys);
    }

    /// Drops the slices of these keys that are in sessions which are final at this watermark, and were emitted.
    pub(super) fn seal(
        &mut self,
        queries: &Queries,
        watermark: Option<i64>,
        keys: Range<u32>,
        ahead: &Ahead,
    ) {
        let slices = &mut self.timelines;
        for key in keys.clone() {
            let Some(watermark) = ahead.watermark_of(watermark, key) else { continue };
            // Those of one window: windows that are sealed share slices with no others.
            let by_time = windows(queries.registered()).find_map(|(_, window)| window.merging());
            let count = by_time.map(|session| session.count_final(slices.of(key), watermark));
            match (&mut self.tuples, count) {
                (None, count) => slices.forget(key, count.unwrap_or_default(), 0),
                (Some(tuples), count) => tuples.seal(slices, key, count),
            }
        }
        self.above.forget(slices, keys);
    }

    /// Drops the punctuations that no row to come can be around.
    pub(super) fn forget_points(&mut self, horizon: &Horizon) {
        if let (Some(tuples), Some(floor)) = (&mut self.tuples, horizon.floor()) {
            tuples.forget_points(floor);
        }
    }

    /// Drops all slices of these keys, with their rows.
    pub(super) fn discard(&mut self, queries: &Queries, keys: impl Iterator<Item = u32>) {
        let slices = &mut self.timelines;
        for key in keys {
            match (&mut self.tuples, &mut self.positions) {
                (Some(tuples), _) => tuples.discard((queries, slices), key),
                (None, Some(positions)) => positions.discard(slices, key),
                (None, None) if (key as usize) < slices.keys() => slices.forget(key, slices.of(key).len(), 0),
                (None, None) => {}
            }
            self.above.forget(slices, key..key + 1);
        }
    }

    /// Drops all that is held of a key.
    pub(super) fn end_key(&mut self, queries: &Queries, key: u32) {
        self.discard(queries, std::iter::once(key));
        self.tuples.iter_mut().for_each(|tuples| tuples.end_key(key));
    }

    /// Merges slices between which no window needs an edge, once there are many: windows that ended by `horizon` have expired.
    ///
    /// A window that began long ago, such as a landmark window, a long band or the global window, needs what lies
    /// between its start and its end, but none of the edges that other windows had there. So once those have expired,
    /// their slices are merged, and the number of slices is that of the edges in use (Traub et al. 2019, §5.2: "we
    /// merge slices").
    pub(super) fn merge_settled(&mut self, queries: &Queries, slicer: &mut StreamSlicer, horizon: i64) {
        if !queries.has_long() || self.keeps_rows() {
            return;
        }
        let registered = queries.registered();
        let is_needed = |earlier: i64, later: i64| {
            // No slice has rows from before and after a query was added.
            let comes_between = |registered: &Registered| {
                registered.since.is_some_and(|since| earlier <= since && since < later)
            };
            let keeps_apart = |(query, window): (usize, &Window)| {
                let rules = window.by_time();
                rules.is_some_and(|rules| {
                    rules.keeps_apart((earlier, later), registered[query].since, horizon)
                })
            };
            registered.iter().any(comes_between) || windows(registered).any(keeps_apart)
        };
        let gap = queries.edges().gap();
        let merged = self.timelines.merge_settled(|t| slicer.cutter.slice_of(t).1 <= horizon, is_needed, gap);
        self.above.invalidate(merged.into_iter());
    }

    /// Compacts slots and rows, once that pays off; what cannot be done now is left to the next call.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn tidy(&mut self, queries: &Queries) -> Result<()> {
        let kept = self.tuples.as_ref().map(Tuples::len);
        if self.store.is_loose(&self.timelines, kept) {
            interrupts_of(attempted(|| self.store.compact(&mut self.timelines, check)))?;
        }
        let _ = attempted(|| self.store.drop_values());
        spared(|| self.tuples.iter_mut().for_each(Tuples::tidy));
        self.positions.as_mut().map_or(Ok(()), |positions| positions.find_by_time(queries))
    }

    /// Frees all that belongs to no slice, which is otherwise only done once that is the larger part.
    pub(super) fn shrink(&mut self, queries: &Queries) {
        let compacted = attempted(|| self.store.compact(&mut self.timelines, check));
        interrupts_of(compacted).unwrap_or_else(end_with);
        let _ = attempted(|| self.store.drop_values());
        if let Some(tuples) = &mut self.tuples {
            let _ = attempted(|| {
                tuples.squeeze();
                Ok(())
            });
        }
        self.rebuild_above(queries);
    }

    /// Builds anew what is kept above the slices.
    pub(super) fn rebuild_above(&mut self, queries: &Queries) {
        self.above = store_form::above(queries, self.options, &self.store, self.keeps_rows());
        let slices = &self.timelines;
        self.above.invalidate((0..slices.keys() as u32).filter(|&key| !slices.of(key).is_empty()));
    }

    /// Sets the marks of the keys that have state.
    pub(super) fn mark_live(&self, queries: &Queries, is_live: &mut [bool], numbered: bool) {
        if let Some(tuples) = &self.tuples {
            tuples.mark_live(queries, is_live, numbered);
        }
        if let Some(positions) = self.positions.as_ref().filter(|_| numbered) {
            positions.mark_numbered(queries, is_live);
        }
        (0..).zip(is_live).for_each(|(key, is_live)| *is_live |= !self.timelines.of(key).is_empty());
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n. The others have no slices.
    pub(super) fn keep_keys(&mut self, queries: &Queries, kept: &[u32]) {
        self.timelines.keep_keys(kept);
        if let Some(tuples) = &mut self.tuples {
            tuples.keep_keys(kept);
        }
        self.positions.iter_mut().for_each(|positions| positions.keep_keys(kept));
        self.rebuild_above(queries);
    }

    /// The partials of all slices for other queries.
    ///
    /// # Errors
    /// `InvalidValue` for queries that are incompatible; what a user-defined function raises.
    pub(in crate::operator::stream) fn changing(
        &self,
        old: &Queries,
        new: &Queries,
    ) -> Result<Vec<Box<dyn Partials>>> {
        if self.keeps_rows() {
            Tuples::check_marks(new)?;
        }
        new.columns(Some((old, self.store.partials())), self.timelines.slots())
    }

    /// Stores `partials` for other queries, which [`SliceManager::changing`] returned; `places` has the new place of each
    /// former query, if it stays.
    pub(super) fn change(
        &mut self,
        queries: &Queries,
        places: &[Option<usize>],
        partials: Vec<Box<dyn Partials>>,
    ) {
        if let Some(tuples) = &mut self.tuples {
            tuples.change(queries, places, &partials);
        }
        self.positions.iter_mut().for_each(|positions| positions.change(queries, places));
        self.store = store(self.tuples.as_ref(), partials, self.timelines.slots());
    }

    /// Cuts slices where these queries need it. Returns how many were merged.
    pub(super) fn refit(
        &mut self,
        queries: &Queries,
        slicer: &mut StreamSlicer,
        (horizon, ahead): (&Horizon, &Ahead),
    ) -> u64 {
        if self.positions.is_some() {
            // Slices that are cut for windows that are gone stay so.
            return 0;
        }
        let Some(tuples) = &mut self.tuples else {
            let edges = queries.edges();
            self.timelines.remerge(|t| slicer.cutter.slice_of(t), |t| edges.gap_at(t));
            return 0;
        };
        let calls = horizon.calls_at_rest(tuples.next(), (queries, ahead));
        match tuples.refit((queries, &mut self.timelines), &self.store, &calls) {
            Ok(changed) => {
                self.settle(queries, changed.delta, 0);
                changed.did.merges
            }
            Err(error) => {
                interrupts_of(Err(error)).unwrap_or_else(end_with);
                self.take_back();
                0
            }
        }
    }

    /// What remains at the end of the stream, when nothing is needed any longer.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(in crate::operator::stream) fn emptied(&self, queries: &Queries) -> Result<Emptied> {
        let partials: Vec<_> = self.store.partials().iter().map(|partials| partials.empty()).collect();
        let tuples = self.tuples.as_ref().map(|_| Tuples::new(queries, &partials)).transpose()?;
        Ok(Emptied { store: store(tuples.as_ref(), partials, 0), tuples })
    }

    /// Drops all slices, as the stream has ended.
    pub(super) fn end(&mut self, queries: &Queries, emptied: Emptied) {
        self.timelines = self.timelines.emptied();
        (self.store, self.tuples) = (emptied.store, emptied.tuples);
        self.positions.iter_mut().for_each(|positions| *positions = Positions::new(queries));
        self.rebuild_above(queries);
    }

    /// The punctuations that rows to come may be around; none if no window is bounded by any.
    pub(in crate::operator::stream) fn points(&self) -> &[Point] {
        self.tuples.as_ref().map_or(&[], Tuples::points)
    }

    /// Takes over punctuations from elsewhere, before any row.
    pub(in crate::operator::stream) fn set_points(&mut self, points: &[Point]) {
        if let Some(tuples) = &mut self.tuples {
            points.iter().for_each(|point| tuples.hold_point(point.time, point.key));
        }
    }
}

/// The error of upkeep, if it is an interrupt: memory may be there the next time, and a user-defined function that fails
/// fails again in the call where a window needs its result.
fn interrupts_of(done: Result<()>) -> Result<()> {
    done.or_else(|error| if matches!(error, Error::Interrupted(_)) { Err(error) } else { Ok(()) })
}

/// A store of the partials of so many slots, above these rows.
pub(super) fn store(tuples: Option<&Tuples>, partials: Vec<Box<dyn Partials>>, slots: usize) -> Store {
    let ordered = tuples.map(Tuples::ordered).unwrap_or_default();
    Store::new(partials, &ordered, slots)
}
