//! The stream engine: one timeline of slices per key, and rows under the slices only where some query needs them (Traub et
//! al. 2019, §5).
//!
//! Five nouns, and the owner of each:
//!
//! | noun | what it is | owner |
//! |---|---|---|
//! | key index | numbers of keys, and up to when keys are complete that are ahead of the stream | the operator (`keys`, `ahead`); every call lends it to its engines |
//! | timeline | the slices of a key, in order of time | [`SliceManager`] |
//! | store | the partials of slices, with what is kept above them and the rows under them | [`SliceManager`] |
//! | window type | where it cuts slices, which of its windows a watermark makes final, what it no longer needs | `crate::window`; `queries` has those of an engine |
//! | call | a [`WatermarkMove`] and rows in, an [`Outcome`] out, which is committed ([`Engine::keep`]) or rolled back ([`Engine::take_back`]) | [`Engine`] |
//!
//! A call passes through the pipeline of the paper. First comes all that can fail, then all that cannot: its changes are
//! written to undo logs, and partials are linked in last.
//!
//! 1. The [`StreamSlicer`] cuts rows into cells and folds them into partials. Where rows are stored, `tuples` does both.
//! 2. The [`SliceManager`] adds the cells to slices.
//! 3. The [`WindowManager`] lists the windows that are ready, and [`answer`] computes them from slices.
//! 4. Once it is committed, the [`SliceManager`] drops what has expired, and then compacts the rest ([`Engine::tidy`]).
//!
//! What only some queries have is a value of its own, which the engine calls at these moments:
//!
//! | feature | value | rows accepted | rows in slices | windows ready | committed | expired |
//! |---|---|---|---|---|---|---|
//! | lateness, keys that are ahead | [`Horizon`] | which rows are late, and where they count | | what was final before | the watermark moves | what nothing needs |
//! | sessions that late rows reopen | [`Reopened`] | which ones a row joins | which ones are open | which ones are updates | | those without slices |
//! | early results | [`Pending`], [`Early`] | | whose rows are pending | open windows of keys that fire | which rows are still pending | those without slices |
//! | sessions that are sealed | [`Rules::seals`](crate::window::Rules::seals) | | | | those that were emitted lose their slices | |
//! | retraction | [`Answers`] | | | windows without a row left | | |
//! | shedding | `shed` | | | | what is dropped, before the next call | |

mod answers;
mod call;
mod change;
mod due;
mod early;
mod horizon;
mod pending;
mod positions;
mod reopened;
mod shed;
mod slice_manager;
mod slicer;
mod snapshot;
mod store_form;
mod window_manager;

use std::ops::Range;

use arrow_array::RecordBatch;

use super::ahead::{Ends, Reach};
use super::intake::Accepted;
use super::keys::StreamKeys;
use super::options::{Options, Stats};
use super::outgoing::{Outgoer, Outgoing};
use super::queries::{Queries, Registered};
use super::sharing::ClassGroup;
use super::tuples::{Changed, Tuples};
use crate::interrupt::{Pace, check};
use crate::operator::progress::Ahead;
use crate::poll::{sort_by_key, sort_unstable};
use crate::slice::Cell;
use crate::{Error, Result};
use answers::{Answers, answer};
use call::Ingested;
pub(super) use call::Outcome;
use early::Early;
pub(super) use early::EarlyRequest;
use horizon::Horizon;
pub(super) use horizon::WatermarkMove;
use pending::Pending;
use reopened::Reopened;
pub(super) use slice_manager::Emptied;
use slice_manager::SliceManager;
use slicer::{StreamSlicer, sorted};
use window_manager::WindowManager;

/// The windows of some classes: what is stored for them, and which of them are ready.
pub(super) struct Engine {
    pub(super) queries: Queries,
    slicer: StreamSlicer,
    pub(super) slices: SliceManager,
    windows: WindowManager,
    /// Rows that no result contains yet, if a query has an emission policy.
    pending: Option<Pending>,
    /// Whether rows are dropped once a final result has contained them.
    seals: bool,
    /// Windows of each of the operator's queries that other engines emit in the same call.
    elsewhere: Vec<u64>,
    counts: Stats,
}

impl Engine {
    /// An engine for these queries, whose windows are of these classes; the watermark says how far the stream has come.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn new(
        queries: Queries,
        options: Options,
        group: &ClassGroup,
        watermark: Option<i64>,
    ) -> Result<Self> {
        Ok(Self {
            slicer: StreamSlicer::new(&queries),
            slices: SliceManager::new(&queries, options, group)?,
            windows: WindowManager::new(&queries, options.order, group, watermark),
            pending: Pending::new(&queries, group.discards()),
            seals: group.seals(),
            elsewhere: Vec::new(),
            counts: Stats::default(),
            queries,
        })
    }

    /// How far the stream has come for its windows.
    pub(super) fn horizon(&self) -> &Horizon {
        &self.windows.horizon
    }

    /// What it holds and has done.
    pub(super) fn stats(&self) -> Stats {
        let stats = self.slices.stats(self.counts);
        Stats {
            bytes: stats.bytes + self.windows.bytes() + self.pending.as_ref().map_or(0, Pending::bytes),
            ..stats
        }
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn all_slices(&mut self, keys: &StreamKeys) -> Result<RecordBatch> {
        let Self { queries, slicer, slices, .. } = self;
        slicer.all_slices(queries, (&slices.timelines, slices.is_cut_by_rows()), keys)
    }

    /// When the first slice ends. O(keys).
    pub(super) fn first_end(&mut self) -> Option<i64> {
        let Self { queries, slicer, slices, .. } = self;
        slicer.first_end(queries, (&slices.timelines, slices.is_cut_by_rows()))
    }

    /// Takes note of how many windows of each query other engines emit in this call.
    pub(super) fn begin(&mut self, elsewhere: &[u64]) {
        self.elsewhere.clear();
        self.elsewhere.extend_from_slice(elsewhere);
    }

    fn nothing_outgoing(&self) -> Vec<Outgoing> {
        let elsewhere = |query: &Registered| self.elsewhere.get(query.entry).copied().unwrap_or_default();
        self.queries.registered().iter().map(|query| Outgoing::beside(elsewhere(query))).collect()
    }

    /// Adds rows, and finds the windows that are ready once watermarks have moved.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type; what a user's function raises.
    pub(super) fn attempt(
        &mut self,
        rows: &[Accepted],
        moved: WatermarkMove,
        keys: &StreamKeys,
    ) -> Result<Box<Outcome>> {
        let moved = self.moved_on(moved);
        rows.iter().try_for_each(|batch| self.queries.edges().look_up(&batch.times))?;
        let mut outgoing = self.nothing_outgoing();
        let ingested = match (&self.slices.tuples, &self.slices.positions) {
            (Some(_), _) => self.put(rows, moved, keys, &mut outgoing)?,
            (None, Some(_)) => self.follow(rows, moved, None, keys, &mut outgoing)?,
            (None, None) if rows.is_empty() => Ingested::default(),
            (None, None) => self.cut(rows, keys)?,
        };
        self.outcome(ingested, moved, keys, outgoing)
    }

    /// Puts a punctuation, of one key or of all, after the rows up to its time that have arrived.
    ///
    /// # Errors
    /// As [`Engine::attempt`].
    pub(super) fn try_punctuate(
        &mut self,
        (time, key): (i64, Option<u32>),
        moved: WatermarkMove,
        keys: &StreamKeys,
    ) -> Result<Box<Outcome>> {
        // Windows of this engine may have expired where others, updated for longer, still accept it.
        let mark = key.and_then(|key| keys.ahead.of(key));
        let is_open = self.horizon().cutoff_at(&self.queries, mark).is_none_or(|cutoff| cutoff <= time);
        if let Some(tuples) = self.slices.tuples.as_mut().filter(|_| is_open) {
            tuples.punctuate(time, key);
        }
        if self.slices.positions.is_some() && is_open {
            let moved = self.moved_on(moved);
            let mut outgoing = self.nothing_outgoing();
            let ingested = self.follow(&[], moved, Some(key), keys, &mut outgoing)?;
            return self.outcome(ingested, moved, keys, outgoing);
        }
        self.attempt(&[], moved, keys)
    }

    /// How a call moves watermarks, that of the stream not back.
    fn moved_on(&self, moved: WatermarkMove) -> WatermarkMove {
        WatermarkMove { watermark: moved.watermark.max(self.horizon().watermark()), ..moved }
    }

    /// Folds rows in order into slices that are cut as they come, and lists the windows that end: also as watermarks move,
    /// and by a `point`, a punctuation of one key or of all.
    fn follow(
        &mut self,
        accepted: &[Accepted],
        moved: WatermarkMove,
        point: Option<Option<u32>>,
        keys: &StreamKeys,
        outgoing: &mut [Outgoing],
    ) -> Result<Ingested> {
        let Self {
            queries, slicer, slices: SliceManager { timelines, store, positions, .. }, windows, ..
        } = self;
        let Some(positions) = positions else { return Ok(Ingested::default()) };
        positions.begin();
        let own = (&*queries, &windows.horizon);
        let delta = slicer.cut(own, accepted, keys, store.delta(), Some(&mut *positions))?;
        positions.add_to(timelines)?;
        positions.end(queries, moved, point)?;
        positions.emit(queries, timelines, outgoing)?;
        let touched = self.pending.as_ref().map_or_else(Vec::new, |_| positions.touched());
        let rows = accepted.iter().map(|batch| batch.rows.num_rows() as u64).sum();
        Ok(Ingested {
            changed: Changed { delta, ..Changed::default() },
            touched,
            rows,
            ..Ingested::default()
        })
    }

    /// Folds rows into slices that are cut at edges known in advance.
    fn cut(&mut self, accepted: &[Accepted], keys: &StreamKeys) -> Result<Ingested> {
        let Self { queries, slicer, slices, windows, .. } = self;
        let delta = slicer.cut((queries, &windows.horizon), accepted, keys, slices.store.delta(), None)?;
        let (mut late, mut reopened) = (Vec::new(), Reopened::default());
        // Before any cell is added: the call's own rows do not belong to any emitted session yet.
        let mut pace = Pace::new();
        for &cell in slicer.cutter.cells() {
            pace.check(1)?;
            if let Some(watermark) = keys.ahead.watermark_of(windows.watermark(), cell.key)
                && cell.first < watermark
            {
                late.push((cell.key, cell.first));
                reopened.note((cell, watermark), queries, &slices.timelines);
            }
        }
        windows.see(queries, slicer.cutter.cells());
        sort_unstable(&mut late, check)?;
        let sorted = sorted(slicer.cutter.cells(), (slices.timelines.len(), keys.len()))?;
        let mut touched: Vec<(u32, i64)> = Vec::new();
        if self.pending.is_some() {
            let time = |cell: &Cell| (cell.key, cell.first);
            match &sorted {
                Some(sorted) => touched.extend(sorted.iter().map(|(cell, _)| time(cell))),
                None => touched.extend(slicer.cutter.cells().iter().map(time)),
            }
            sort_by_key(&mut touched, |&each| each, check)?;
        }
        slices.add(queries, slicer, sorted.as_deref())?;
        let rows = accepted.iter().map(|batch| batch.rows.num_rows() as u64).sum();
        let changed = Changed { delta, ..Changed::default() };
        Ok(Ingested { changed, late, touched, reopened, rows })
    }

    /// Puts rows under the slices, if rows are kept there, and fits slices to them.
    fn put(
        &mut self,
        accepted: &[Accepted],
        moved: WatermarkMove,
        keys: &StreamKeys,
        outgoing: &mut [Outgoing],
    ) -> Result<Ingested> {
        let Self { queries, slices: SliceManager { timelines, store, tuples, .. }, windows, .. } = self;
        let Some(tuples) = tuples else { return Ok(Ingested::default()) };
        let rows: usize = accepted.iter().map(|batch| batch.times.len()).sum();
        if u32::try_from(rows).is_err() {
            return Err(Error::InvalidValue(format!(
                "batch: {rows} rows at once; at most {} can be, so push in smaller batches",
                u32::MAX
            )));
        }
        let calls = windows.horizon.calls(moved, tuples.next(), (queries, &keys.ahead));
        let fresh = match rows {
            0 => tuples.nothing(),
            _ => {
                let batches = accepted.iter().map(|batch| (batch.rows.clone(), batch.times.to_vec()));
                tuples.put(batches.collect(), &Accepted::joined_keys(accepted), keys.len())?
            }
        };
        let fresh = tuples.sift(fresh, keys.len(), &calls, self.pending.is_none())?;
        let watermark = |key| keys.ahead.watermark_of(windows.watermark(), key);
        let late = tuples.late(&fresh, watermark);
        let touched = match self.pending {
            None => Vec::new(),
            Some(_) => tuples.touched(&fresh),
        };
        let mut reopened = Reopened::default();
        if queries.widest_gap().is_some() {
            for &(key, time) in &late {
                let Some(watermark) = watermark(key) else { continue };
                let cell = Cell { key, first: time, last: time };
                reopened.note((cell, watermark), queries, timelines);
            }
        }
        let changed = tuples.process((queries, timelines), store, &fresh, &calls, outgoing)?;
        Ok(Ingested { changed, late, touched, reopened, rows: rows as u64 })
    }

    /// The outcome of a call, with the windows that are ready once watermarks have moved.
    fn outcome(
        &mut self,
        mut ingested: Ingested,
        moved: WatermarkMove,
        keys: &StreamKeys,
        mut outgoing: Vec<Outgoing>,
    ) -> Result<Box<Outcome>> {
        let Self { queries, slices, windows, .. } = self;
        for (registered, outgoing) in queries.registered().iter().zip(&outgoing) {
            let last = outgoing.windows.last().map_or(0, |last| last.window as usize);
            outgoing.check(&registered.plan, last, 0, || 0)?;
        }
        let delta = &ingested.changed.delta;
        slices.above.update((&slices.store, delta), &slices.timelines, check)?;
        let over = (&*queries, &slices.timelines);
        windows.list_ready(over, &mut ingested, moved, &keys.ahead, &mut outgoing)?;
        let last_end = |(registered, outgoing): (&Registered, &Outgoing)| {
            let windows = registered.plan.windows();
            // A row at the end of a session would join it.
            let after = |each: &Outgoer| i64::from(windows[each.window as usize].1.is_session());
            let emitted = outgoing.windows.iter().filter(|each| each.found.lo < each.found.hi);
            emitted.map(|each| each.found.end.saturating_add(after(each))).max()
        };
        let is_end_of_key = moved.closing && moved.key_watermark.is_some();
        let each = queries.registered().iter().zip(&outgoing).filter(|_| is_end_of_key);
        let ended_at = each.filter_map(last_end).max();
        ingested.changed.did.updates = outgoing.iter().map(|outgoing| outgoing.updates).sum();
        let entries = queries.registered().iter().map(|query| query.entry);
        let emitted = entries.zip(outgoing.iter().map(|outgoing| outgoing.windows.len() as u64));
        let emitted = emitted.filter(|&(_, windows)| windows > 0).collect();
        let finals = answer(queries, slices, outgoing, &ingested.changed.delta, keys)?;
        let (early, fired) = (Answers::default(), Vec::new());
        Ok(Box::new(Outcome { ingested, moved, finals, early, fired, windows: emitted, ended_at }))
    }

    /// Adds the early results of queries to an outcome.
    ///
    /// # Errors
    /// `InvalidValue` for more windows than a query allows; `Overflow` where a result does not fit its type; what a user's
    /// function raises.
    pub(super) fn emit_early(
        &mut self,
        outcome: &mut Outcome,
        requests: &[EarlyRequest],
        keys: &StreamKeys,
    ) -> Result<()> {
        let (mut by_time, mut by_rows) = (self.nothing_outgoing(), self.nothing_outgoing());
        let Self { queries, slices, windows, pending: Some(pending), .. } = self else { return Ok(()) };
        let reach = Reach {
            before: windows.watermark(),
            after: outcome.moved.watermark,
            key_watermark: outcome.moved.key_watermark,
            ends: Ends::Nothing,
            ahead: &keys.ahead,
        };
        let early = Early {
            queries,
            slices,
            horizon: &windows.horizon,
            pending,
            touched: &outcome.ingested.touched,
            reach,
        };
        for (query, registered) in queries.registered().iter().enumerate() {
            let entry = registered.entry;
            let Some(request) = requests.iter().find(|request| request.entry == entry) else { continue };
            early.list(query, request, (&mut by_time[query], &mut by_rows[query]))?;
            let emitted = (by_time[query].windows.len() + by_rows[query].windows.len()) as u64;
            outcome.windows.push((entry, emitted));
            outcome.fired.push((query, request.keys.clone()));
        }
        let delta = &outcome.ingested.changed.delta;
        let by_slices = if slices.positions.is_some() { std::mem::take(&mut by_rows) } else { by_time };
        outcome.early = answer(queries, slices, by_slices, delta, keys)?;
        let SliceManager { store, tuples, .. } = slices;
        for (query, emitted) in by_rows.iter().enumerate().filter(|(_, emitted)| !emitted.windows.is_empty())
        {
            let Some(tuples) = &tuples else { continue };
            let own = &queries.registered()[query].partials;
            let folded = tuples.folded((queries, store), own, &emitted.windows)?;
            outcome.early.add(queries, query, (&emitted.windows, &emitted.of_rows), keys, Some(&folded))?;
        }
        Ok(())
    }

    /// Commits a call; the marks of keys are those after it.
    pub(super) fn keep(&mut self, outcome: Box<Outcome>, ahead: &Ahead) {
        let Self { queries, slices, windows, pending, counts, .. } = self;
        let Outcome { ingested, moved, fired, windows: emitted, .. } = *outcome;
        *counts = counts.and_did(ingested.changed.did);
        let emitted = emitted.iter().map(|&(_, windows)| windows).sum::<u64>();
        counts.windows += emitted;
        slices.settle(queries, ingested.changed.delta, ingested.rows);
        if let Some(pending) = pending {
            pending.settle((queries, slices), &ingested.touched, &fired);
        }
        let has_advanced = windows.keep(queries, ingested.reopened, moved.watermark);
        if self.seals && emitted > 0 {
            let all = 0..slices.timelines.keys() as u32;
            let mut seal = |keys: Range<u32>| slices.seal(queries, windows.watermark(), keys, ahead);
            match (moved.key_watermark, windows.keys_found()) {
                (Some((key, _)), _) => seal(key..key + 1),
                (None, Some(found)) => found.iter().for_each(|&key| seal(key..key + 1)),
                (None, None) => seal(all),
            }
        }
        windows.settle(queries, &slices.timelines, ahead);
        if has_advanced {
            windows.count(emitted, &slices.timelines);
            self.forget(emitted, ahead);
        }
        if let Some((key, _)) = moved.key_watermark {
            self.forget_keys(std::iter::once(key..key + 1), ahead);
        }
    }

    /// Compacts what is stored, once that pays off: after a call, whose results do not depend on it.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn tidy(&mut self) -> Result<()> {
        self.slices.tidy(&self.queries)?;
        if self.slices.is_cut_by_rows() {
            return Ok(());
        }
        self.windows.find_by_time(&self.queries, &self.slices.timelines)
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        self.slices.take_back();
        self.windows.take_back();
    }

    /// Drops slices that no later row and no window needs. The call returned so many windows.
    fn forget(&mut self, emitted: u64, ahead: &Ahead) {
        // Without rows under the slices, the cutoff alone says which are needed: it moves from window to window, and all
        // keys are visited only then. (A session keeps slices before it; those go when it moves again.)
        let is_worth_it = match (&mut self.slices.tuples, &self.slices.positions) {
            (Some(tuples), _) => tuples.is_worth_sweeping(emitted),
            // Their slices are dropped as windows end.
            (None, Some(_)) => self.pending.is_some(),
            (None, None) => self.windows.horizon.is_unswept(),
        };
        if is_worth_it && self.horizon().cutoff().is_some() {
            self.windows.horizon.sweep();
            // Times of rows that wait for early results are dropped with slices, whatever these were dropped for.
            let few =
                if self.pending.is_none() { self.windows.keys_expired(&self.slices.timelines) } else { None };
            match few {
                Some(few) => {
                    self.forget_keys(few.iter().map(|&key| key..key + 1), ahead);
                    self.windows.look_later_at(&self.queries, &self.slices.timelines, &few, ahead);
                }
                None => {
                    self.forget_keys(std::iter::once(0..self.slices.timelines.keys() as u32), ahead);
                }
            }
            self.slices.forget_points(&self.windows.horizon);
            self.forget_edges();
        }
        let Self { queries, slicer, slices, windows, .. } = self;
        if let Some(horizon) = windows.horizon.expired(None) {
            slices.merge_settled(queries, slicer, horizon);
        }
    }

    /// Forgets edges that users define, where nothing is cut any more: rows that are stored may be.
    fn forget_edges(&self) {
        let users = self.queries.edges().users();
        let Some(horizon) = self.horizon().expired(None).filter(|_| !users.is_empty()) else { return };
        let first_row = self.slices.tuples.as_ref().and_then(Tuples::first_time);
        let from = first_row.map_or(horizon, |first| first.min(horizon));
        users.iter().for_each(|(known, _)| known.forget(from));
    }

    /// Drops what nothing needs any longer of these keys.
    fn forget_keys(&mut self, ranges: impl Iterator<Item = Range<u32>>, ahead: &Ahead) {
        let Self { queries, slices, windows, pending, .. } = self;
        let keeps_rows = slices.keeps_rows();
        for keys in ranges {
            slices.forget(queries, &windows.horizon, keys.clone(), ahead);
            pending
                .iter_mut()
                .for_each(|pending| pending.forget(&slices.timelines, keys.clone(), keeps_rows));
        }
        windows.forget(&slices.timelines);
    }

    /// Drops all that is held of a key, which has ended.
    pub(super) fn end_key(&mut self, key: u32) {
        let Self { queries, slices, windows, pending, .. } = self;
        slices.end_key(queries, key);
        let (keys, keeps_rows) = (key..key + 1, slices.keeps_rows());
        pending.iter_mut().for_each(|pending| pending.forget(&slices.timelines, keys.clone(), keeps_rows));
        windows.forget(&slices.timelines);
    }

    /// Ends the stream.
    pub(super) fn end(&mut self, emptied: Emptied) {
        self.slices.end(&self.queries, emptied);
        self.windows.end();
        self.pending = None;
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n. The others have no slices.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        self.slices.keep_keys(&self.queries, kept);
        self.pending.iter_mut().for_each(|pending| pending.keep_keys(kept));
        self.windows.keep_keys(kept);
    }
}
