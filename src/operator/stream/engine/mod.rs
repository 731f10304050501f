//! The stream engine: one timeline of slices per key, and rows under the slices only where some query needs them (Traub et
//! al. 2019, §5.3).
//!
//! The pipeline of the paper: the stream slicer is [`Cutter`] or, over rows, [`Tuples`]; the slice manager is
//! [`Timelines`] with [`Store`]; and the window manager is `ready` with `answers`. A call first does everything that
//! can fail and then everything that cannot: its changes are written to undo logs, and partials are linked in last.

mod ahead;
mod answers;
mod early;
mod pending;
mod points;
mod ready;
mod shed;
mod snapshot;
mod upkeep;

use std::borrow::Cow;

use arrow_array::{ArrayRef, RecordBatch};
use serde::{Deserialize, Serialize};

use super::agenda::Agenda;
use super::ahead::{Ahead, Calls};
use super::intake::{Accepted, Are};
use super::keyed::Keyed;
use super::options::{Options, Stats};
use super::outgoing::Outgoing;
use super::queries::{Queries, Registered};
use super::sharing::Shared;
use super::slices::{last_column, state_columns};
use super::tuples::{Changed, Moves, Tuples};
use crate::aggregate::BySlot;
use crate::interrupt::{Pace, check};
use crate::kernels::simd;
use crate::memory::lent;
use crate::operator::bounded::Columns;
use crate::poll::{sort_by_key, sort_unstable};
use crate::slice::strategy::Order;
use crate::slice::{Cell, Cutter, Delta, Eager, Keys, Store, Timelines};
use crate::window::Call;
use crate::{Error, Result};
pub(super) use ahead::{BeforeAndAfter, Marks};
use answers::Answers;
pub(super) use early::Asked;
use pending::Pending;
pub(super) use points::Points;

/// Cells that are put in order before they are added to slices: each of many in disorder would move those after it.
const MANY_CELLS: usize = 1024;

/// With more keys than this for each cell, counting the cells of every key takes longer than sorting cells.
const SPARSE: usize = 8;

/// Rows that pass through slicer and partials at a time, so that their columns stay in the cache.
const CHUNK_ROWS: usize = 16_384;

/// Slices, their partials, and what is known of upcoming windows.
pub(super) struct Engine {
    options: Options,
    /// For how long after its end a window is updated.
    lateness: i64,
    /// Whether late rows of landmark windows may be put at the horizon: all of its windows are such.
    is_cumulative: bool,
    /// Whether rows are dropped once a result has contained them.
    discards: bool,
    /// Rows that no result contains yet, if a query has an emission policy.
    pending: Option<Pending>,
    pub(super) queries: Queries,
    keys: Keyed,
    slices: Timelines,
    store: Store,
    /// The aggregate store above the slices.
    eager: Eager,
    cutter: Cutter,
    /// Rows under the slices, if some query needs them.
    tuples: Option<Tuples>,
    /// The next window of each window type, seen from the watermark.
    agenda: Agenda,
    /// The same seen from the time up to which windows have expired, if that is not the watermark.
    expiring: Option<Agenda>,
    watermark: Option<i64>,
    /// The earliest time of a row that each query accepts, unless it was added later, and the earliest that some query
    /// accepts; both follow from the watermark. Empty while every row is accepted.
    accepted_from: Vec<i64>,
    cutoff: Option<i64>,
    /// Up to which such time all slices were dropped.
    swept: Option<i64>,
    /// Keys that are complete further than the watermark.
    ahead: Ahead,
    reopened: Vec<Reopened>,
    /// Windows of each of the operator's queries that other engines emit in the same call.
    elsewhere: Vec<u64>,
    counts: Stats,
    ids: Vec<u32>,
}

/// A session that was emitted and then reopened by a late row: it is emitted again, as an update, once it is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Reopened {
    query: usize,
    window: usize,
    key: u32,
    /// A time within it.
    at: i64,
}

/// The effects of a call that are not in the undo logs, to be kept if no engine fails.
pub(super) struct Outcome {
    delta: Delta,
    /// Windows that are final, each batch with its query's place in the operator.
    results: Vec<(usize, RecordBatch)>,
    /// Windows that are not.
    early: Vec<(usize, RecordBatch)>,
    /// Windows all of whose rows were taken back, if their results can be retracted, and whether they are final.
    vanished: Vec<(usize, RecordBatch, bool)>,
    /// The keys of each query, by its number, that emitted something early.
    fired: Vec<(usize, Vec<u32>)>,
    /// Keys and times of rows, ascending, at least one of each changed slice, if there are emission policies.
    touched: Vec<(u32, i64)>,
    watermark: Option<i64>,
    /// The key whose watermark moves by itself, and where to.
    only: Option<(u32, i64)>,
    reopened: Vec<Reopened>,
    rows: u64,
    /// How many windows each query emits that emits some, by its place in the operator.
    windows: Vec<(usize, u64)>,
    updates: u64,
    moves: Moves,
    recomputed: u64,
}

impl Outcome {
    /// The final windows that the call emits, query by query; they are handed out once.
    pub(super) fn take_results(&mut self) -> Vec<(usize, RecordBatch)> {
        std::mem::take(&mut self.results)
    }

    /// The same of those that are not final.
    pub(super) fn take_early(&mut self) -> Vec<(usize, RecordBatch)> {
        std::mem::take(&mut self.early)
    }

    /// The same of those that no row is left of, and whether they are final.
    pub(super) fn take_vanished(&mut self) -> Vec<(usize, RecordBatch, bool)> {
        std::mem::take(&mut self.vanished)
    }

    /// Whether the watermark of one key moves.
    pub(super) fn moves_key(&self) -> bool {
        self.only.is_some()
    }

    /// Adds the windows of each query to those of other engines.
    pub(super) fn count(&self, of_queries: &mut [u64]) {
        self.windows.iter().for_each(|&(query, windows)| of_queries[query] += windows);
    }
}

/// What an engine holds at the end of its stream: nothing, but columns of the right kinds.
pub(super) struct Emptied {
    pub(super) store: Store,
    pub(super) tuples: Option<Tuples>,
}

/// The input of a call: its slots, the slices it changed, and where rows arrived behind the watermark.
struct Brought {
    changed: Changed,
    /// Keys and times, ascending.
    late: Vec<(u32, i64)>,
    /// The same of all, if there are emission policies.
    touched: Vec<(u32, i64)>,
    reopened: Vec<Reopened>,
    rows: u64,
}

impl Brought {
    /// No rows.
    fn nothing() -> Self {
        Self {
            changed: Changed::none(),
            late: Vec::new(),
            touched: Vec::new(),
            reopened: Vec::new(),
            rows: 0,
        }
    }
}

impl Engine {
    /// An engine for these queries, whose windows are of these classes; the watermark says how far the stream has come.
    pub(super) fn new(
        queries: Queries,
        options: Options,
        shared: &Shared,
        watermark: Option<i64>,
    ) -> Result<Self> {
        let (partials, keeps_rows) = (queries.columns(None, 0)?, shared.keeps_rows());
        let tuples = keeps_rows.then(|| Tuples::new(&queries, &partials)).transpose()?;
        let ordered = tuples.as_ref().map(Tuples::ordered).unwrap_or_default();
        let store = Store::new(partials, &ordered, 0);
        let mut this = Self {
            eager: upkeep::eager(&queries, options, &store, keeps_rows),
            agenda: Agenda::new(&queries),
            expiring: (shared.lateness() > 0).then(|| Agenda::new(&queries)),
            options,
            lateness: shared.lateness(),
            is_cumulative: shared.is_cumulative(),
            discards: shared.discards(),
            pending: Pending::new(&queries),
            keys: Keyed::new(queries.leader())?,
            slices: Timelines::new(keeps_rows),
            store,
            cutter: upkeep::cutter(&queries),
            tuples,
            watermark,
            accepted_from: Vec::with_capacity(queries.registered().len()),
            swept: None,
            cutoff: None,
            ahead: Ahead::default(),
            reopened: Vec::new(),
            elsewhere: Vec::new(),
            counts: Stats::default(),
            ids: Vec::new(),
            queries,
        };
        this.find_cutoffs();
        Ok(this)
    }

    /// What it holds and has done.
    pub(super) fn stats(&self) -> Stats {
        let keys = (0..self.slices.keys() as u32).filter(|&key| !self.slices.of(key).is_empty()).count();
        let of_rows = self.tuples.as_ref().map_or(0, Tuples::bytes);
        let of_pending = self.pending.as_ref().map_or(0, Pending::bytes);
        Stats {
            keys,
            slices: self.slices.len(),
            keys_ahead: self.ahead.len(),
            rows_kept: self.tuples.as_ref().map_or(0, Tuples::len),
            bytes: self.keys.bytes()
                + self.slices.bytes()
                + self.store.bytes()
                + self.eager.bytes()
                + of_rows
                + of_pending
                + self.ahead.bytes(),
            merges: self.counts.merges + self.slices.merges(),
            ..self.counts
        }
    }

    /// The parameters of a call that emits windows up to watermark `now`.
    fn call(&self, now: Option<i64>, closing: bool) -> Call {
        Call {
            before: self.watermark,
            now,
            horizon: self.horizon(),
            floor: self.floor(),
            base: self.tuples.as_ref().map_or(0, Tuples::next),
            since: None,
            closing,
            is_out_of_order: self.options.order == Order::OutOfOrder,
        }
    }

    /// Those rows that some window of this engine accepts.
    pub(super) fn own_rows<'a>(&mut self, rows: &'a [Accepted]) -> Result<Cow<'a, [Accepted]>> {
        let cutoff = self.cutoff().unwrap_or(i64::MIN);
        if rows.iter().all(|batch| cutoff <= batch.least && !self.has_behind(batch)) {
            return Ok(Cow::Borrowed(rows));
        }
        let own = rows.iter().map(|batch| self.without_late_of_ahead(batch.since(cutoff)?));
        own.collect()
    }

    /// Adds rows, and finds the windows that are ready at this watermark.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type; what a user's function raises.
    pub(super) fn try_push(&mut self, accepted: &[Accepted], watermark: Option<i64>) -> Result<Box<Outcome>> {
        let mut outgoing = self.nothing_outgoing();
        let now = watermark.max(self.watermark);
        let brought = match self.tuples {
            None => self.cut(accepted)?,
            Some(_) => self.put(accepted, (self.call(now, false), None), &mut outgoing)?,
        };
        self.outcome(brought, (now, None), outgoing)
    }

    /// Finds the windows that become ready as the watermark moves; all that are left if the stream ends.
    ///
    /// # Errors
    /// As [`Engine::try_push`].
    pub(super) fn try_move(&mut self, watermark: Option<i64>, closing: bool) -> Result<Box<Outcome>> {
        let mut outgoing = self.nothing_outgoing();
        let brought = match self.tuples {
            None => Brought::nothing(),
            Some(_) => self.put(&[], (self.call(watermark, closing), None), &mut outgoing)?,
        };
        self.outcome(brought, (watermark, None), outgoing)
    }

    /// Puts a punctuation, of one key or of all, after the rows up to its time that have arrived.
    ///
    /// # Errors
    /// As [`Engine::try_push`].
    pub(super) fn try_punctuate(
        &mut self,
        time: i64,
        key: Option<&[ArrayRef]>,
        watermark: Option<i64>,
    ) -> Result<Box<Outcome>> {
        self.ids.clear();
        if self.tuples.is_some() {
            key.map_or(Ok(()), |values| self.keys.assign(values, 1, &mut self.ids))?;
        }
        // Windows of this engine may have expired where others, updated for longer, still accept it.
        let key = self.ids.first().copied();
        let cutoff = self.cutoff().max(key.and_then(|key| self.cutoff_ahead(key)));
        if let Some(tuples) = self.tuples.as_mut().filter(|_| cutoff.is_none_or(|cutoff| cutoff <= time)) {
            tuples.punctuate(time, key);
        }
        self.try_move(watermark, false)
    }

    fn nothing_outgoing(&self) -> Vec<Outgoing> {
        let elsewhere = |query: &Registered| self.elsewhere.get(query.entry).copied().unwrap_or_default();
        self.queries.registered().iter().map(|query| Outgoing::beside(elsewhere(query))).collect()
    }

    /// Takes note of how many windows of each query other engines emit in this call.
    pub(super) fn begin(&mut self, elsewhere: &[u64]) {
        self.elsewhere.clear();
        self.elsewhere.extend_from_slice(elsewhere);
    }

    /// Folds rows into slices that are cut at edges known in advance.
    fn cut(&mut self, accepted: &[Accepted]) -> Result<Brought> {
        let mut delta = self.store.delta();
        self.cutter.begin();
        accepted.iter().try_for_each(|batch| self.fold(batch, &mut delta))?;
        delta.settle()?;
        let (mut late, mut reopened) = (Vec::new(), Vec::new());
        // Before any cell is added: the call's own rows do not belong to any emitted session yet.
        let mut pace = Pace::new();
        for &cell in self.cutter.cells() {
            pace.check(1)?;
            if self.reached(cell.key).is_some_and(|watermark| cell.first < watermark) {
                late.push((cell.key, cell.first));
                self.note_reopened(cell, &mut reopened);
            }
        }
        let cells = self.cutter.cells();
        sort_unstable(&mut late, check)?;
        let sorted = sorted(cells, self.keys.len())?;
        let mut touched: Vec<(u32, i64)> = Vec::new();
        if self.pending.is_some() {
            let time = |cell: &Cell| (cell.key, cell.first);
            match &sorted {
                Some(sorted) => touched.extend(sorted.iter().map(|(cell, _)| time(cell))),
                None => touched.extend(cells.iter().map(time)),
            }
            sort_by_key(&mut touched, |&each| each, check)?;
        }
        let base = self.slices.slots() as u32;
        for _ in self.cutter.cells() {
            self.slices.open();
        }
        for place in 0..self.cutter.cells().len() {
            let in_order = || (self.cutter.cells()[place], place as u32);
            let (cell, at) = sorted.as_ref().map_or_else(in_order, |sorted| sorted[place]);
            // One among others moves those after it.
            pace.check(8 + self.slices.of(cell.key).len() / 64)?;
            let slice = self.cutter.slice_of(cell.first);
            self.slices.add((cell, base + at), slice, self.queries.edges().gap_at(cell.first));
        }
        let rows = accepted.iter().map(|batch| batch.rows.num_rows() as u64).sum();
        let changed = Changed { delta, ..Changed::none() };
        Ok(Brought { changed, late, touched, reopened, rows })
    }

    /// Folds rows into the call's cells.
    fn fold(&mut self, batch: &Accepted, delta: &mut Delta) -> Result<()> {
        if batch.are == Are::Slices {
            return self.fold_slices(batch, delta);
        }
        let columns = Columns::of(self.queries.leader(), self.queries.stored(), &batch.rows)?;
        let columns = columns.weighed(self.queries.stored(), batch.weight)?;
        let (rows, sorted) = (columns.times.len(), batch.is_sorted);
        // Where rows before the horizon are put, so that they are new to the first window that has not expired.
        let least = self.horizon().filter(|&horizon| self.is_cumulative && batch.least < horizon);
        let moved = least.map(|least| columns.times.iter().map(|&t| t.max(least)).collect::<Vec<i64>>());
        let one_key = columns.keys.is_empty();
        if one_key {
            self.ids.clear();
            self.keys.assign(&[], rows.min(1), &mut self.ids)?;
        }
        let whole = rows;
        for from in (0..rows).step_by(CHUNK_ROWS) {
            if from > 0 {
                check()?;
            }
            let rows = CHUNK_ROWS.min(rows - from);
            // A small batch is not sliced, which would allocate for each column.
            let chunk = (rows < whole).then(|| columns.slice(from, rows));
            let chunk = chunk.as_ref().unwrap_or(&columns);
            let times = &chunk.times[..];
            let mut keys = Keys::One(0);
            if !one_key {
                self.ids.clear();
                self.keys.assign(&chunk.keys, rows, &mut self.ids)?;
                let first = self.ids[0];
                let same = self.ids.iter().all(|&id| id == first);
                keys = if same { Keys::One(first) } else { Keys::Each(&self.ids) };
            }
            let places = moved.as_ref().map_or(times, |moved| &moved[from..from + rows]);
            let own = self.is_cumulative.then(|| self.put_at_horizon(places, keys)).flatten();
            let (places, sorted) = own.as_deref().map_or((places, sorted), |own| (own, false));
            self.cutter.cut(places, keys, self.keys.len(), sorted || simd::is_ascending(places));
            delta.update(&chunk.inputs, times, &self.cutter.rows(), self.cutter.cells().len())?;
        }
        Ok(())
    }

    /// Has each slice that was made elsewhere be one of the call's cells.
    fn fold_slices(&mut self, slices: &Accepted, delta: &mut Delta) -> Result<()> {
        let plan = self.queries.leader();
        let columns = slices.rows.columns();
        let keys: Vec<ArrayRef> = plan.by().iter().map(|&column| columns[column].clone()).collect();
        let lasts = last_column(plan).map(|column| plan.measure().read(&columns[column])).transpose()?;
        let states: Vec<&[ArrayRef]> = state_columns(plan).into_iter().map(|range| &columns[range]).collect();
        self.ids.clear();
        self.keys.assign(&keys, slices.times.len(), &mut self.ids)?;
        let lasts = lasts.as_ref().unwrap_or(&slices.times);
        let cells = self.ids.iter().zip(&slices.times[..]).zip(&lasts[..]);
        self.cutter.take(cells.map(|((&key, &first), &last)| Cell { key, first, last }));
        delta.merge(&states, &slices.times, self.cutter.cells().len())
    }

    /// Puts rows under the slices, if rows are kept there, and fits slices to them.
    fn put(
        &mut self,
        accepted: &[Accepted],
        call: (Call, Option<(u32, i64)>),
        outgoing: &mut [Outgoing],
    ) -> Result<Brought> {
        lent(
            self,
            |engine| &mut engine.tuples,
            |engine, tuples| match tuples {
                None => Ok(Brought::nothing()),
                Some(tuples) => engine.put_under(tuples, accepted, call, outgoing),
            },
        )
    }

    fn put_under(
        &mut self,
        tuples: &mut Tuples,
        accepted: &[Accepted],
        (common, only): (Call, Option<(u32, i64)>),
        outgoing: &mut [Outgoing],
    ) -> Result<Brought> {
        let rows: usize = accepted.iter().map(|batch| batch.rows.num_rows()).sum();
        let fresh = match rows {
            0 => tuples.nothing(),
            _ => {
                self.number_keys(accepted, rows)?;
                let batches =
                    accepted.iter().map(|batch| (batch.rows.clone(), batch.times.to_vec())).collect();
                tuples.put(batches, &self.ids, self.keys.len())?
            }
        };
        let late = tuples.late(&fresh, |key| self.reached(key));
        let touched = match self.pending {
            None => Vec::new(),
            Some(_) => tuples.late(&fresh, |_| Some(i64::MAX)),
        };
        let mut reopened = Vec::new();
        if self.queries.widest_gap().is_some() {
            for &(key, time) in &late {
                self.note_reopened(Cell { key, first: time, last: time }, &mut reopened);
            }
        }
        let Self { queries, slices, store, keys, ahead, lateness, .. } = self;
        let calls = Calls { common, only, ahead, queries, lateness: *lateness };
        let changed = tuples.process((queries, slices), store, keys.len(), &fresh, &calls, outgoing)?;
        Ok(Brought { changed, late, touched, reopened, rows: rows as u64 })
    }

    /// Finds the key of each row.
    fn number_keys(&mut self, accepted: &[Accepted], rows: usize) -> Result<()> {
        if u32::try_from(rows).is_err() {
            return Err(Error::InvalidValue(format!(
                "batch: {rows} rows at once; at most {} can be, so push in smaller batches",
                u32::MAX
            )));
        }
        self.ids.clear();
        for Accepted { rows, .. } in accepted.iter().filter(|batch| batch.rows.num_rows() > 0) {
            let by = self.queries.leader().by();
            let keys: Vec<ArrayRef> = by.iter().map(|&column| rows.column(column).clone()).collect();
            self.keys.assign(&keys, rows.num_rows(), &mut self.ids)?;
        }
        Ok(())
    }

    /// The outcome of a call, with the windows that are ready once the watermark is at `now`, and that of a key where
    /// `only` says.
    fn outcome(
        &mut self,
        brought: Brought,
        (now, only): (Option<i64>, Option<(u32, i64)>),
        mut outgoing: Vec<Outgoing>,
    ) -> Result<Box<Outcome>> {
        let Brought { changed, late, touched, reopened: mut new, rows } = brought;
        let Changed { delta, moves, recomputed } = changed;
        self.keep_open(&mut new);
        for (registered, outgoing) in self.queries.registered().iter().zip(&outgoing) {
            let last = outgoing.windows.last().map_or(0, |last| last.window as usize);
            outgoing.check(&registered.plan, last, 0, || 0)?;
        }
        self.eager.update(&self.store, &delta, &self.slices)?;
        self.list_changed(&late, &mut outgoing)?;
        let mut reopened = [self.reopened.as_slice(), &new].concat();
        if let Some(now) = now.filter(|&now| self.watermark.is_none_or(|last| now > last)) {
            self.list_final(now, &mut outgoing, &mut reopened)?;
        }
        if let Some((key, now)) = only {
            self.list_final_of(key, now, &mut outgoing, &mut reopened)?;
        }
        let updates = outgoing.iter().map(|outgoing| outgoing.updates).sum();
        let queries = self.queries.registered().iter().map(|query| query.entry);
        let windows = queries.zip(outgoing.iter().map(|outgoing| outgoing.windows.len() as u64));
        let windows = windows.filter(|&(_, windows)| windows > 0).collect();
        let Answers { results, vanished } = self.answer(outgoing, &delta)?;
        let vanished = vanished.into_iter().map(|(entry, batch)| (entry, batch, true)).collect();
        let (early, fired) = (Vec::new(), Vec::new());
        Ok(Box::new(Outcome {
            delta,
            results,
            early,
            vanished,
            fired,
            touched,
            watermark: now,
            only,
            reopened,
            rows,
            windows,
            updates,
            moves,
            recomputed,
        }))
    }

    /// Commits a call.
    pub(super) fn keep(&mut self, outcome: Box<Outcome>) {
        self.store.append(outcome.delta);
        self.slices.settle();
        if let Some(tuples) = &mut self.tuples {
            tuples.settle(outcome.rows);
        }
        self.keep_pending(&outcome.touched, &outcome.fired);
        self.reopened = outcome.reopened;
        let counts = &mut self.counts;
        counts.windows += outcome.windows.iter().map(|&(_, windows)| windows).sum::<u64>();
        counts.updates += outcome.updates;
        counts.splits += outcome.moves.splits;
        counts.merges += outcome.moves.merges;
        counts.shifts += outcome.moves.shifts;
        counts.recomputations += outcome.recomputed;
        if outcome.watermark > self.watermark {
            self.watermark = outcome.watermark;
            self.watermark.into_iter().for_each(|watermark| self.ahead.pass(watermark));
            self.turn_agendas();
            self.forget(outcome.rows);
        }
        outcome.only.into_iter().for_each(|only| self.keep_mark(only));
        self.tidy();
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        self.eager.invalidate(self.slices.changed_keys());
        self.slices.take_back();
        self.tuples.iter_mut().for_each(Tuples::take_back);
    }
}

/// Cells with their places, in the order of their keys and times, if they are many and come in another order.
///
/// They are copied, so that each is fetched from where it was only once.
fn sorted(cells: &[Cell], keys: usize) -> Result<Option<Vec<(Cell, u32)>>> {
    let time = |cell: &Cell| (cell.key, cell.first);
    if cells.len() < MANY_CELLS || cells.is_sorted_by_key(time) {
        return Ok(None);
    }
    let mut sorted = Vec::with_capacity(cells.len());
    if keys > SPARSE * cells.len() {
        sorted.extend(cells.iter().copied().zip(0..));
        sort_by_key(&mut sorted, |(cell, _)| time(cell), check)?;
        return Ok(Some(sorted));
    }
    let own: Vec<u32> = cells.iter().map(|cell| cell.key).collect();
    sorted.extend(BySlot::new(&own, keys).entries(0..keys).map(|at| (cells[at as usize], at)));
    let mut pace = Pace::new();
    for of_key in sorted.chunk_by_mut(|before, after| before.0.key == after.0.key) {
        pace.check(of_key.len())?;
        sort_by_key(of_key, |(cell, _)| cell.first, check)?;
    }
    Ok(Some(sorted))
}
