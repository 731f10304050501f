//! The stream engine: one timeline of slices per key, and rows under the slices only where some query needs them (Traub et
//! al. 2019, §5.3).
//!
//! The pipeline of the paper: the stream slicer is [`Cutter`] or, over rows, [`Tuples`]; the slice manager is
//! [`Timelines`] with [`Store`]; and the window manager is `ready` with `answers`. A call first does everything that
//! can fail and then everything that cannot: its changes are written to undo logs, and partials are linked in last.

mod answers;
mod call;
mod early;
mod horizon;
mod pending;
mod ready;
mod reopened;
mod shed;
mod snapshot;
mod upkeep;

use super::ahead::Ahead;
use super::intake::{Accepted, InputKind};
use super::keys::StreamKeys;
use super::options::{Options, Stats};
use super::outgoing::Outgoing;
use super::queries::{Queries, Registered};
use super::sharing::Shared;
use super::slices::{last_column, state_columns};
use super::tuples::{Changed, Tuples};
use crate::aggregate::BySlot;
use crate::interrupt::{Pace, check};
use crate::memory::lent;
use crate::operator::bounded::Columns;
use crate::poll::{sort_by_key, sort_unstable};
use crate::simd;
use crate::slice::{Cell, Cutter, Delta, Eager, Store, Timelines};
use crate::{Error, Result};
use answers::Answers;
use arrow_array::ArrayRef;
use call::Ingested;
pub(super) use call::{Move, Outcome};
pub(super) use early::Asked;
use horizon::Horizon;
use pending::Pending;
use reopened::Reopened;

/// Cells that are put in order before they are added to slices: each of many in disorder would move those after it.
const MANY_CELLS: usize = 1024;

/// With more keys than this for each cell, counting the cells of every key takes longer than sorting cells.
const SPARSE: usize = 8;

/// Rows that pass through slicer and partials at a time, so that their columns stay in the cache.
const CHUNK_ROWS: usize = 16_384;

/// Slices, their partials, and what is known of upcoming windows.
pub(super) struct Engine {
    options: Options,
    /// Whether rows are dropped once a result has contained them.
    discards: bool,
    /// Rows that no result contains yet, if a query has an emission policy.
    pending: Option<Pending>,
    pub(super) queries: Queries,
    slices: Timelines,
    store: Store,
    /// The aggregate store above the slices.
    eager: Eager,
    cutter: Cutter,
    /// Rows under the slices, if some query needs them.
    tuples: Option<Tuples>,
    pub(super) horizon: Horizon,
    reopened: Reopened,
    /// Windows of each of the operator's queries that other engines emit in the same call.
    elsewhere: Vec<u64>,
    counts: Stats,
}

/// What an engine holds at the end of its stream: nothing, but columns of the right kinds.
pub(super) struct Emptied {
    pub(super) store: Store,
    pub(super) tuples: Option<Tuples>,
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
        Ok(Self {
            eager: upkeep::eager(&queries, options, &store, keeps_rows),
            horizon: Horizon::new(&queries, options.order, shared, watermark),
            options,
            discards: shared.discards(),
            pending: Pending::new(&queries),
            slices: Timelines::new(keeps_rows),
            store,
            cutter: upkeep::cutter(&queries),
            tuples,
            reopened: Reopened::default(),
            elsewhere: Vec::new(),
            counts: Stats::default(),
            queries,
        })
    }

    /// What it holds and has done.
    pub(super) fn stats(&self) -> Stats {
        let keys = (0..self.slices.keys() as u32).filter(|&key| !self.slices.of(key).is_empty()).count();
        let of_rows = self.tuples.as_ref().map_or(0, Tuples::bytes);
        let of_pending = self.pending.as_ref().map_or(0, Pending::bytes);
        Stats {
            keys,
            slices: self.slices.len(),
            rows_kept: self.tuples.as_ref().map_or(0, Tuples::len),
            bytes: self.slices.bytes() + self.store.bytes() + self.eager.bytes() + of_rows + of_pending,
            merges: self.counts.merges + self.slices.merges(),
            ..self.counts
        }
    }

    /// Adds rows, and finds the windows that are ready once watermarks have moved.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type; what a user's function raises.
    pub(super) fn attempt(
        &mut self,
        rows: &[Accepted],
        moved: Move,
        keys: &StreamKeys,
    ) -> Result<Box<Outcome>> {
        let moved = Move { watermark: moved.watermark.max(self.horizon.watermark()), ..moved };
        let mut outgoing = self.nothing_outgoing();
        let ingested = match self.tuples {
            None if rows.is_empty() => Ingested::nothing(),
            None => self.cut(rows, keys)?,
            Some(_) => self.put(rows, moved, keys, &mut outgoing)?,
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
        moved: Move,
        keys: &StreamKeys,
    ) -> Result<Box<Outcome>> {
        // Windows of this engine may have expired where others, updated for longer, still accept it.
        let mark = key.and_then(|key| keys.ahead.of(key));
        let cutoff = self.horizon.cutoff_at(&self.queries, mark);
        if let Some(tuples) = self.tuples.as_mut().filter(|_| cutoff.is_none_or(|cutoff| cutoff <= time)) {
            tuples.punctuate(time, key);
        }
        self.attempt(&[], moved, keys)
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
    fn cut(&mut self, accepted: &[Accepted], keys: &StreamKeys) -> Result<Ingested> {
        let mut delta = self.store.delta();
        self.cutter.begin();
        accepted.iter().try_for_each(|batch| self.fold(batch, keys, &mut delta))?;
        delta.settle()?;
        let (mut late, mut reopened) = (Vec::new(), Reopened::default());
        // Before any cell is added: the call's own rows do not belong to any emitted session yet.
        let mut pace = Pace::new();
        for &cell in self.cutter.cells() {
            pace.check(1)?;
            if let Some(watermark) = keys.ahead.reached(self.horizon.watermark(), cell.key)
                && cell.first < watermark
            {
                late.push((cell.key, cell.first));
                reopened.note((cell, watermark), &self.queries, &self.slices);
            }
        }
        let cells = self.cutter.cells();
        sort_unstable(&mut late, check)?;
        let sorted = sorted(cells, keys.len())?;
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
        Ok(Ingested { changed, late, touched, reopened, rows })
    }

    /// Folds rows into the call's cells.
    fn fold(&mut self, batch: &Accepted, keys: &StreamKeys, delta: &mut Delta) -> Result<()> {
        if batch.kind == InputKind::Slices {
            return self.fold_slices(batch, delta);
        }
        let mut columns = Columns::of(self.queries.leader(), self.queries.stored(), &batch.rows)?;
        columns.keys.clear();
        let columns = columns.weighed(self.queries.stored(), batch.weight)?;
        let (rows, sorted) = (columns.times.len(), batch.is_sorted);
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
            let of_rows = batch.keys.of_rows(from..from + rows);
            let places = self.horizon.places(times, batch.least, of_rows, &keys.ahead);
            // Those that are put at one horizon stay in order.
            let sorted = sorted && (places.is_none() || keys.ahead.is_empty());
            let places = places.as_deref().unwrap_or(times);
            self.cutter.cut(places, of_rows, keys.len(), sorted || simd::is_ascending(places));
            delta.update(&chunk.inputs, times, &self.cutter.rows(), self.cutter.cells().len())?;
        }
        Ok(())
    }

    /// Adds each pre-aggregated slice as a cell.
    fn fold_slices(&mut self, slices: &Accepted, delta: &mut Delta) -> Result<()> {
        let plan = self.queries.leader();
        let columns = slices.rows.columns();
        let lasts = last_column(plan).map(|column| plan.measure().read(&columns[column])).transpose()?;
        let states: Vec<&[ArrayRef]> = state_columns(plan).into_iter().map(|range| &columns[range]).collect();
        let lasts = lasts.as_ref().unwrap_or(&slices.times);
        let cells = slices.times.iter().zip(&lasts[..]).enumerate();
        let cell = |(row, (&first, &last))| Cell { key: slices.keys.of(row), first, last };
        self.cutter.take(cells.map(cell));
        delta.merge(&states, &slices.times, self.cutter.cells().len())
    }

    /// Puts rows under the slices, if rows are kept there, and fits slices to them.
    fn put(
        &mut self,
        accepted: &[Accepted],
        moved: Move,
        keys: &StreamKeys,
        outgoing: &mut [Outgoing],
    ) -> Result<Ingested> {
        lent(
            self,
            |engine| &mut engine.tuples,
            |engine, tuples| match tuples {
                None => Ok(Ingested::nothing()),
                Some(tuples) => engine.put_under(tuples, accepted, moved, keys, outgoing),
            },
        )
    }

    fn put_under(
        &mut self,
        tuples: &mut Tuples,
        accepted: &[Accepted],
        moved: Move,
        keys: &StreamKeys,
        outgoing: &mut [Outgoing],
    ) -> Result<Ingested> {
        let rows: usize = accepted.iter().map(|batch| batch.times.len()).sum();
        if u32::try_from(rows).is_err() {
            return Err(Error::InvalidValue(format!(
                "batch: {rows} rows at once; at most {} can be, so push in smaller batches",
                u32::MAX
            )));
        }
        let base = tuples.next();
        let fresh = match rows {
            0 => tuples.nothing(),
            _ => {
                let batches = accepted.iter().map(|batch| (batch.rows.clone(), batch.times.to_vec()));
                tuples.put(batches.collect(), &Accepted::joined_keys(accepted), keys.len())?
            }
        };
        let watermark = self.horizon.watermark();
        let late = tuples.late(&fresh, |key| keys.ahead.reached(watermark, key));
        let touched = match self.pending {
            None => Vec::new(),
            Some(_) => tuples.late(&fresh, |_| Some(i64::MAX)),
        };
        let mut reopened = Reopened::default();
        if self.queries.widest_gap().is_some() {
            for &(key, time) in &late {
                let Some(watermark) = keys.ahead.reached(watermark, key) else { continue };
                let cell = Cell { key, first: time, last: time };
                reopened.note((cell, watermark), &self.queries, &self.slices);
            }
        }
        let Self { queries, slices, store, horizon, .. } = self;
        let calls = horizon.calls(moved, base, (queries, &keys.ahead));
        let changed = tuples.process((queries, slices), store, keys.len(), &fresh, &calls, outgoing)?;
        Ok(Ingested { changed, late, touched, reopened, rows: rows as u64 })
    }

    /// The outcome of a call, with the windows that are ready once watermarks have moved.
    fn outcome(
        &mut self,
        ingested: Ingested,
        moved: Move,
        keys: &StreamKeys,
        mut outgoing: Vec<Outgoing>,
    ) -> Result<Box<Outcome>> {
        let watermark = self.horizon.watermark();
        let Ingested { changed, late, touched, reopened: mut new, rows } = ingested;
        let Changed { delta, moves, recomputed } = changed;
        new.keep_open(&self.queries, &self.slices, |key| keys.ahead.reached(watermark, key));
        for (registered, outgoing) in self.queries.registered().iter().zip(&outgoing) {
            let last = outgoing.windows.last().map_or(0, |last| last.window as usize);
            outgoing.check(&registered.plan, last, 0, || 0)?;
        }
        self.eager.update(&self.store, &delta, &self.slices)?;
        self.list_changed(&late, &keys.ahead, &mut outgoing)?;
        let mut reopened = self.reopened.with(&new);
        self.list_final(moved, &keys.ahead, &mut outgoing, &mut reopened)?;
        if let Some(key) = moved.of_key {
            outgoing.iter_mut().for_each(|outgoing| outgoing.windows.retain(|each| each.key == key));
        }
        let updates = outgoing.iter().map(|outgoing| outgoing.updates).sum();
        let queries = self.queries.registered().iter().map(|query| query.entry);
        let windows = queries.zip(outgoing.iter().map(|outgoing| outgoing.windows.len() as u64));
        let windows = windows.filter(|&(_, windows)| windows > 0).collect();
        let Answers { results, vanished } = self.answer(outgoing, &delta, keys)?;
        let vanished = vanished.into_iter().map(|answer| (answer, true)).collect();
        let (early, fired) = (Vec::new(), Vec::new());
        Ok(Box::new(Outcome {
            delta,
            results,
            early,
            vanished,
            fired,
            touched,
            watermark: moved.watermark,
            key_watermark: moved.key_watermark,
            reopened,
            rows,
            windows,
            updates,
            moves,
            recomputed,
        }))
    }

    /// Commits a call; the marks of keys are those after it.
    pub(super) fn keep(&mut self, outcome: Box<Outcome>, ahead: &Ahead) {
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
        if self.horizon.advance(&self.queries, outcome.watermark) {
            self.forget(outcome.rows, ahead);
        }
        if let Some((key, _)) = outcome.key_watermark {
            self.forget_keys(key..key + 1, ahead);
        }
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
