//! What is stored, for how long, and in what form.

use std::ops::Range;

use arrow_array::RecordBatch;

use super::pending::Pending;
use super::{Emptied, Engine};
use crate::Result;
use crate::aggregate::Partials;
use crate::operator::stream::ahead::Ahead;
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::options::{Options, StoreKind};
use crate::operator::stream::queries::{Queries, Registered, windows};
use crate::operator::stream::sharing::Shared;
use crate::operator::stream::tuples::Tuples;
use crate::slice::strategy::Order;
use crate::slice::{Calendar, Cutter, Eager, Store, Timelines, Wants};
use crate::window::{Point, Window};

/// This many window types read slices so often that a tree above them pays off.
const MANY_WINDOWS: usize = 16;

/// In so many windows at a time, slices are read so often that running totals pay off.
const OVERLAPPING: i64 = 4;

impl Engine {
    /// The partials of all slices for other queries.
    ///
    /// # Errors
    /// `InvalidValue` for queries that are incompatible; what a user-defined function raises.
    pub(in crate::operator::stream) fn changing(&self, queries: &Queries) -> Result<Vec<Box<dyn Partials>>> {
        if self.tuples.is_some() {
            Tuples::check_marks(queries)?;
        }
        queries.columns(Some((&self.queries, self.store.partials())), self.slices.slots())
    }

    /// An engine of its own for some of the windows, with the slices that there are, if it keeps no rows.
    ///
    /// # Errors
    /// As [`Engine::changing`].
    pub(in crate::operator::stream) fn part(
        &self,
        queries: Queries,
        shared: &Shared,
        ahead: &Ahead,
    ) -> Result<Self> {
        let partials = self.changing(&queries)?;
        let mut part = Self::new(self.queries.clone(), self.options, shared, self.horizon.watermark())?;
        part.slices = self.slices.copied();
        part.reopened.clone_from(&self.reopened);
        part.pending = self.pending.as_ref().map(Pending::copied);
        part.change(queries, shared, partials, ahead);
        Ok(part)
    }

    /// Changes the queries and keeps slices and rows; `partials` are what [`Engine::changing`] returned.
    pub(in crate::operator::stream) fn change(
        &mut self,
        queries: Queries,
        shared: &Shared,
        partials: Vec<Box<dyn Partials>>,
        ahead: &Ahead,
    ) {
        self.discards = shared.discards();
        let place = |name: &str| queries.registered().iter().position(|other| other.name == name);
        let places: Vec<Option<usize>> =
            self.queries.registered().iter().map(|registered| place(&registered.name)).collect();
        if let Some(tuples) = &mut self.tuples {
            tuples.change(&queries, &places, &partials);
        }
        let ordered = self.tuples.as_ref().map(Tuples::ordered).unwrap_or_default();
        self.store = Store::new(partials, &ordered, self.slices.slots());
        self.cutter = cutter(&queries);
        let place = |query: usize| places.get(query).copied().flatten();
        self.reopened.change((&self.queries, &queries), place);
        self.pending = match self.pending.take() {
            Some(pending) => pending.changed(&queries, place),
            None => Pending::new(&queries),
        };
        self.set_queries(queries, shared);
        if self.tuples.is_some() {
            self.refit(ahead);
        } else {
            let (cutter, edges) = (&mut self.cutter, self.queries.edges());
            self.slices.remerge(|t| cutter.slice_of(t), |t| edges.gap_at(t));
        }
        self.rebuild_eager();
        self.forget(0, ahead);
    }

    /// Takes over queries that are the same as before, but now among others.
    pub(in crate::operator::stream) fn set_queries(&mut self, queries: Queries, shared: &Shared) {
        self.queries = queries;
        self.horizon.change(&self.queries, shared);
    }

    /// Fits slices to the current windows, where rows are stored.
    fn refit(&mut self, ahead: &Ahead) {
        let Some(mut tuples) = self.tuples.take() else { return };
        let queries = &self.queries;
        let calls = self.horizon.calls_at_rest(tuples.next(), (queries, ahead));
        let done = tuples.refit((queries, &mut self.slices), &self.store, &calls);
        self.tuples = Some(tuples);
        match done {
            Ok(changed) => {
                self.store.append(changed.delta);
                self.slices.settle();
                self.counts.merges += changed.moves.merges;
                if let Some(tuples) = &mut self.tuples {
                    tuples.settle(0);
                }
            }
            // A user-defined function that fails here fails again in the call where a window needs the result.
            Err(_) => self.take_back(),
        }
    }

    /// Rebuilds the aggregate store above the slices, if it is eager.
    pub(super) fn rebuild_eager(&mut self) {
        self.eager = eager(&self.queries, self.options, &self.store, self.tuples.is_some());
        let slices = &self.slices;
        self.eager.invalidate((0..slices.keys() as u32).filter(|&key| !slices.of(key).is_empty()));
    }

    /// How slices are stored, and why.
    pub(in crate::operator::stream) fn store_form(&self) -> (&'static str, &'static str) {
        let all = self.store.partials().len();
        let plain = self.store.partials().iter().filter(|partials| partials.is_plain()).count();
        let (totals, runs) = (self.eager.totals(), self.eager.runs());
        match (self.eager.wants(), self.options.store) {
            (Wants::Nothing, StoreKind::Lazy) => ("lazy", "as requested"),
            (_, _) if runs == all => {
                ("eager", "values in order are kept as runs, which are merged when a window first needs them")
            }
            (Wants::Totals, _) if totals == all => (
                "eager",
                "windows overlap: each is the difference of two running totals, instead of many slices",
            ),
            (Wants::Totals, _) if totals > 0 => (
                "eager",
                "windows overlap: where a function has an inverse, each is the difference of two running totals; others \
                 are combined when a window is ready",
            ),
            (Wants::Nothing | Wants::Runs | Wants::Totals, _) if runs > 0 => (
                "lazy",
                "few window types; but values in order are kept as runs, which are merged when a window first needs \
                 them",
            ),
            (Wants::Nothing | Wants::Runs | Wants::Totals, _) => {
                ("lazy", "few window types: windows that are ready are combined from slices in one go")
            }
            (Wants::All, _) if plain + runs == 0 => {
                ("lazy", "no partial is a plain state or values in order, which trees are made of")
            }
            (Wants::All, _) if plain + runs < all => (
                "eager",
                "but for partials that are no plain states or values in order: those are combined when a window is ready",
            ),
            (Wants::All, StoreKind::Eager) => ("eager", "as requested"),
            (Wants::All, _) => (
                "eager",
                "many window types: each combines two running totals, or few nodes of a tree, instead of many slices",
            ),
        }
    }

    /// Drops slices that no later row and no window needs. `rows` came with the call.
    pub(super) fn forget(&mut self, rows: u64, ahead: &Ahead) {
        // Without rows under the slices, the cutoff alone says which are needed: it moves from window to window, and all
        // keys are visited only then. (A session keeps slices before it; those go when it moves again.)
        let is_worth_it = match &mut self.tuples {
            Some(tuples) => tuples.is_worth_sweeping(rows),
            None => self.horizon.is_unswept(),
        };
        if is_worth_it && self.horizon.cutoff().is_some() {
            self.horizon.sweep();
            let floor = self.forget_keys(0..self.slices.keys() as u32, ahead);
            if let (Some(tuples), Some(floor)) = (&mut self.tuples, floor) {
                tuples.forget_points(floor);
            }
        }
        self.merge_settled();
    }

    /// Drops what nothing needs any longer of these keys. Returns the time that rows of keys which are not ahead are not
    /// before.
    pub(super) fn forget_keys(&mut self, keys: Range<u32>, ahead: &Ahead) -> Option<i64> {
        let Self { queries, slices, tuples, horizon, .. } = self;
        let base = tuples.as_ref().map_or(0, Tuples::next);
        let calls = horizon.calls_at_rest(base, (queries, ahead));
        for key in keys.start..keys.end.min(slices.keys() as u32) {
            let Some(needed) = horizon.cutoff_at(queries, ahead.of(key)) else { continue };
            let expired = slices.expired(key, needed, queries.widest_gap());
            match tuples {
                None => slices.forget(key, expired, 0),
                Some(tuples) => tuples.forget((queries, slices), key, expired, calls.of(key)),
            }
        }
        self.eager.forget(slices);
        self.pending.iter_mut().for_each(|pending| pending.forget(slices, tuples.is_some()));
        self.reopened.forget(slices);
        calls.common.floor
    }

    /// Merges slices between which no window needs an edge, once there are many.
    ///
    /// A window that began long ago, such as a landmark window, a long band or the global window, needs what lies
    /// between its start and its end, but none of the edges that other windows had there. So once those have expired,
    /// their slices are merged, and the number of slices is that of the edges in use (Traub et al. 2019, §5.2: "we
    /// merge slices").
    fn merge_settled(&mut self) {
        let registered = self.queries.registered();
        let may_merge = self.queries.has_long() && self.tuples.is_none();
        let Some(horizon) = self.horizon.expired(None).filter(|_| may_merge) else { return };
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
        let (cutter, gap) = (&mut self.cutter, self.queries.edges().gap());
        let merged = self.slices.merge_settled(|t| cutter.slice_of(t).1 <= horizon, is_needed, gap);
        self.eager.invalidate(merged.into_iter());
    }

    /// What remains of the engine at the end of the stream, when nothing is needed any longer.
    pub(in crate::operator::stream) fn emptied(&self) -> Result<Emptied> {
        let partials: Vec<_> = self.store.partials().iter().map(|partials| partials.empty()).collect();
        let tuples = self.tuples.as_ref().map(|_| Tuples::new(&self.queries, &partials)).transpose()?;
        let ordered = tuples.as_ref().map(Tuples::ordered).unwrap_or_default();
        Ok(Emptied { store: Store::new(partials, &ordered, 0), tuples })
    }

    /// Ends the stream.
    pub(in crate::operator::stream) fn end(&mut self, emptied: Emptied) {
        let los = emptied.tuples.as_ref().map(|_| &[][..]);
        self.slices = Timelines::restore(std::iter::empty(), los, self.slices.merges());
        (self.store, self.tuples) = (emptied.store, emptied.tuples);
        self.rebuild_eager();
        self.reopened.clear();
        self.pending = None;
    }

    /// Compacts slots, once that pays off.
    pub(super) fn tidy(&mut self) {
        let kept = self.tuples.as_ref().map(Tuples::len);
        if self.store.is_loose(&self.slices, kept) {
            // A user-defined function that fails here fails again in the call where a window needs the result.
            let _ = self.store.compact(&mut self.slices);
        }
        // What could not be dropped now is dropped by the next call.
        let _ = self.store.drop_values();
        if let Some(tuples) = &mut self.tuples {
            tuples.tidy();
        }
    }

    /// Sets the marks of the keys that have state.
    pub(in crate::operator::stream) fn mark_live(&self, is_live: &mut [bool]) {
        if let Some(tuples) = &self.tuples {
            tuples.mark_live(is_live);
        }
        (0..).zip(is_live).for_each(|(key, is_live)| *is_live |= !self.slices.of(key).is_empty());
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n. The others have no slices.
    pub(in crate::operator::stream) fn keep_keys(&mut self, kept: &[u32]) {
        self.slices.keep_keys(kept);
        self.pending.iter_mut().for_each(|pending| pending.keep_keys(kept));
        if let Some(tuples) = &mut self.tuples {
            tuples.keep_keys(kept);
        }
        self.rebuild_eager();
        self.reopened.keep_keys(kept);
    }

    /// How many slices it holds.
    pub(in crate::operator::stream) fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The punctuations that rows to come may be around; none if windows of this engine are bounded by none.
    pub(in crate::operator::stream) fn points(&self) -> &[Point] {
        self.tuples.as_ref().map_or(&[], Tuples::points)
    }

    /// Takes over punctuations of another engine, before any row: rows to come may be around them, whether or not the query
    /// that they first meant shares its engine.
    pub(in crate::operator::stream) fn set_points(&mut self, points: &[Point]) {
        if let Some(tuples) = &mut self.tuples {
            points.iter().for_each(|point| tuples.hold_point(point.time, point.key));
        }
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`. Where a slice is cut by rank, or by a
    /// mark, it starts and ends with its first and last row.
    pub(in crate::operator::stream) fn all_slices(&mut self, of: &StreamKeys) -> Result<RecordBatch> {
        let (least, most) = self.queries.edges().bounds();
        let keeps_rows = self.tuples.is_some();
        let (mut keys, mut times) = (Vec::new(), [const { Vec::new() }; 4]);
        for key in 0..self.slices.keys() as u32 {
            let spans = self.slices.of(key);
            for at in 0..spans.len() {
                let (first, last) = (spans.firsts[at], spans.lasts[at]);
                let before = at.checked_sub(1).map(|at| spans.lasts[at]);
                let after = spans.firsts.get(at + 1).copied();
                let (mut start, end_of_slice) = self.cutter.slice_of(first);
                let mut end = self.cutter.slice_of(last).1.max(end_of_slice);
                let gap = self.queries.edges().gap_at(first);
                // Where there is no edge, the slice begins or ends with its rows.
                let is_open = end > most && gap.is_none_or(|gap| gap == i64::MAX);
                if start == least || keeps_rows && before.is_some_and(|before| before >= start) {
                    start = first;
                }
                if let Some(gap) = gap {
                    // A fragment begins with its session, or where a window cuts the session in two.
                    let joins = |a: i64, b: i64| b <= a.saturating_add(gap);
                    if before.is_none_or(|before| !joins(before, first)) {
                        start = first;
                    }
                    if after.is_none_or(|after| !joins(last, after)) {
                        end = end.min(last.saturating_add(gap));
                    }
                }
                if is_open || keeps_rows && after.is_some_and(|after| after < end) {
                    end = last;
                }
                keys.push(key);
                for (column, t) in times.iter_mut().zip([start, end, first, last]) {
                    column.push(t);
                }
            }
        }
        of.slices(self.queries.leader(), keys, times)
    }
}

/// What the aggregate store keeps above the slices of these queries. Unless nothing is wanted, sorted runs are kept:
/// without them each window would have to read all of its values.
pub(super) fn eager(queries: &Queries, options: Options, store: &Store, keeps_rows: bool) -> Eager {
    let windows = queries.registered().iter().flat_map(|registered| registered.plan.windows());
    let of_a_row = |(_, window): &(_, Window)| window.regular().map_or(1, |own| own.size() / own.slide());
    let above = match options.store {
        // Slices that are fitted to rows change anywhere.
        _ if keeps_rows => Wants::Nothing,
        StoreKind::Lazy => Wants::Nothing,
        StoreKind::Eager => Wants::All,
        StoreKind::Auto if windows.clone().count() >= MANY_WINDOWS => Wants::All,
        StoreKind::Auto
            if options.order == Order::InOrder && windows.map(of_a_row).any(|n| n >= OVERLAPPING) =>
        {
            Wants::Totals
        }
        StoreKind::Auto => Wants::Runs,
    };
    Eager::new(store, above, options.order == Order::InOrder)
}

/// What cuts slices and rows.
pub(super) fn cutter(queries: &Queries) -> Cutter {
    let edges = queries.edges();
    // Rows from before a query was added do not belong to it: no slice has rows from before and after.
    let cuts: Vec<i64> = queries
        .registered()
        .iter()
        .filter_map(|registered| registered.since)
        .map(|since| since.saturating_add(1))
        .collect();
    let slices = edges.gap().map(|_| Calendar::new(edges, &cuts));
    Cutter::new(Calendar::with_gap(edges, &cuts), slices)
}
