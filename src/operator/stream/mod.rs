//! The stream operator: rows and watermarks in, windows out as they become final (Traub et al. 2019, §5.3).
//!
//! | | |
//! |---|---|
//! | needs | nothing but associative functions |
//! | time | a comparison per row, or less: rows in order are folded slice by slice; O(log n) per window besides the combinations |
//! | space | slices that some window or row to come may need; rows only for queries that need them |
//! | first appeared | Traub et al., EDBT 2019; with the watermarks of Akidau et al., *The Dataflow Model*, VLDB 2015 |
//!
//! Windows share an instance of one [`Engine`] as long as they accept the same rows, so that no window's results depend on
//! which others there are (see `sharing`). Whether an instance keeps rows follows from the decision tree of Traub et al. (2019,
//! Fig. 4) and from its windows: a window that needs rows costs the others nothing, and its rows are dropped with it.
//! All instances see every watermark, and a call takes effect in all or in none.

mod agenda;
mod ahead;
mod change;
mod emission;
mod engine;
mod intake;
mod key_numbers;
mod keys;
mod late;
mod lateness;
mod names;
mod options;
mod outgoing;
mod progress;
mod queries;
mod sharing;
mod shedding;
mod slices;
mod snapshot;
mod steps;
mod tuples;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::call::all_or_nothing;
use super::plan::Plan;
use crate::interrupt::undisturbed;
use crate::memory::{attempted, spared};
use crate::select::concat_batches;
use crate::slice::strategy::Strategy;
use crate::{Error, Result};
use emission::Emission;
use engine::Engine;
use keys::StreamKeys;
pub(super) use late::{Late, Reason, Refused};
pub use options::{Options, Stats, StoreKind};
use progress::Progress;
pub use progress::{By, Delay};
use queries::{Entry, Queries, classes};
use sharing::{Shared, strategy};
pub use shedding::{Keep, Shed, ShedStats};
use shedding::{Sample, Shedding};
pub use snapshot::Contents;
use steps::Attempted;

/// Keys without any state that may accumulate before they are forgotten.
const IDLE_KEYS: usize = 4096;

/// A stream operator.
pub struct Operator {
    options: Options,
    /// All queries in the order they were added.
    entries: Vec<Entry>,
    /// Whether there ever was more than one.
    several: bool,
    strategy: Strategy,
    /// The keys of all rows that were accepted, and which of them are ahead of the stream.
    keys: StreamKeys,
    /// At least one engine, with the classes of its windows. Those that store rows come last.
    engines: Vec<(Shared, Engine)>,
    late: Late,
    /// Results of windows that are not final, if a query has or had an emission policy.
    emission: Option<Emission>,
    /// What was seen of the stream's sources, if the watermark follows them.
    progress: Option<Progress>,
    /// What was dropped for want of memory, if anything may be.
    shedding: Option<Shedding>,
    /// The time of the clock in microseconds, where it matters.
    now: Option<i64>,
    /// Up to when the stream is complete.
    watermark: Option<i64>,
    /// The time of the latest row.
    latest: Option<i64>,
    /// What removed engines did, and the number of rows accepted.
    past: Stats,
    closed: bool,
}

/// A step of a stream: one call, which takes effect as a whole or not at all.
pub enum Step<'a> {
    /// See [`Operator::push`].
    Push(&'a [RecordBatch]),
    /// See [`Operator::push_slices`].
    PushSlices(&'a [RecordBatch]),
    /// See [`Operator::advance`].
    Advance(i64),
    /// See [`Operator::advance_key`].
    AdvanceKey(i64, &'a [ArrayRef]),
    /// See [`Operator::follow`].
    Follow,
    /// See [`Operator::punctuate`].
    Punctuate(i64, Option<&'a [ArrayRef]>),
    /// See [`Operator::close`].
    Close,
    /// See [`Operator::fire`].
    Fire(Option<&'a [ArrayRef]>),
    /// See [`Operator::take_late`].
    TakeLate,
}

impl Operator {
    /// An operator for these queries, which are bound to one schema.
    ///
    /// # Errors
    /// `InvalidValue` if they have different keys or time columns, or columns of one name and different types.
    pub fn new(queries: Vec<(String, Arc<Plan>)>, options: Options) -> Result<Self> {
        Self::with_lateness(queries.into_iter().map(|(name, plan)| (name, plan, None)).collect(), options)
    }

    /// An operator for these queries, which may have an allowed lateness of their own.
    ///
    /// # Errors
    /// As [`Operator::new`].
    pub fn with_lateness(queries: Vec<(String, Arc<Plan>, Option<i64>)>, options: Options) -> Result<Self> {
        let entries = queries.into_iter().map(|(name, plan, lateness)| {
            let lateness = lateness.unwrap_or(options.allowed_lateness);
            Entry::new(name, (options.bind(plan)?, lateness), None, options.order)
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = entries.len() > 1;
        let shared = Shared::of(classes(&entries), &[]).into_iter().map(|(_, shared)| shared).collect();
        Self::with(entries, shared, several, options)
    }

    fn with(entries: Vec<Entry>, shared: Vec<Shared>, several: bool, options: Options) -> Result<Self> {
        entries.iter().try_for_each(|entry| options.check(entry.lateness))?;
        let Some(leader) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let late = Late::new(leader.plan.input(), several);
        let progress = options.progress.map(|delay| Progress::new(delay, leader.plan.input())).transpose()?;
        let engines = shared.into_iter().map(|shared| {
            let queries = Queries::among(&entries, &shared, several)?;
            let engine = Engine::new(queries, options, &shared, None)?;
            Ok((shared, engine))
        });
        let mut this = Self {
            engines: engines.collect::<Result<_>>()?,
            keys: StreamKeys::new(&entries[0].plan)?,
            strategy: strategy(entries.iter().map(|entry| &*entry.plan), options.order)?,
            options,
            entries,
            several,
            late,
            emission: None,
            progress,
            shedding: options.shed.map(Shedding::new),
            now: None,
            watermark: None,
            latest: None,
            past: Stats::default(),
            closed: false,
        };
        if let Some(shedding) = &mut this.shedding {
            let schema = this.engines[0].1.queries.schema();
            shedding.schema = shedding.extended(schema)?;
        }
        this.emission = Emission::among(&this.entries, this.plain_schema(), None)?;
        Ok(this)
    }

    fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().map(|(_, engine)| engine)
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.engines.iter_mut().map(|(_, engine)| engine)
    }

    /// The schema of results: keys, `query_name` once there was more than one query, `window_name` if a query has more
    /// than one window, the window, `window_rows` if a window is measured by rows, `window_number` if one is determined
    /// by rows, all queries' aggregates, and `update`; once there was an emission policy, `emission`, and `weight` if it
    /// retracts.
    pub fn schema(&self) -> &SchemaRef {
        self.emission.as_ref().map_or_else(|| self.plain_schema(), Emission::schema)
    }

    /// The schema of results without what emission policies add.
    fn plain_schema(&self) -> &SchemaRef {
        // Each engine knows the columns of all queries.
        let mut schemas = self.engines().map(|engine| engine.queries.schema());
        let marked = self.shedding.as_ref().and_then(|shedding| shedding.schema.as_ref());
        marked.or_else(|| schemas.next()).unwrap_or_else(|| self.late.schema())
    }

    fn leader(&self) -> &Plan {
        &self.entries[0].plan
    }

    /// The schema of rows.
    pub fn input(&self) -> &SchemaRef {
        self.leader().input()
    }

    /// What is stored, and why (Traub et al. 2019, Figs. 4-6).
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The options of the stream.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Whether [`Operator::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The names of all queries.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The names of the queries for which rows are stored.
    pub fn queries_with_rows(&self) -> Vec<&str> {
        let keeps_rows = |entry: &&Entry| entry.classes.iter().any(|class| class.keeps_rows);
        self.entries.iter().filter(keeps_rows).map(|entry| entry.name.as_str()).collect()
    }

    /// How slices without rows are stored, and why: in one way, or in several.
    pub fn store_forms(&self) -> Vec<(&'static str, &'static str)> {
        let sliced = self.engines.iter().filter(|(shared, _)| !shared.keeps_rows());
        let mut forms: Vec<_> = sliced.map(|(_, engine)| engine.slices.form()).collect();
        forms.sort_unstable();
        forms.dedup();
        forms
    }

    /// Up to when the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Up to when the stream is complete and its results were handed out, which an emission policy may hold back.
    pub fn watermark_out(&self) -> Option<i64> {
        self.emission.as_ref().map_or(self.watermark, |emission| emission.watermark_out(self.watermark))
    }

    /// Takes in all of these rows or, if it fails, none of them, and emits the windows that become final and those that
    /// late rows change.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for batches of another schema, and for rows out of order where order
    /// was promised; `Overflow` where a result does not fit its type; what a user-defined function raises.
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.call(Step::Push(batches))
    }

    /// Takes in all of these slices or, if it fails, none of them: as [`Operator::push`] takes in their rows. They are those
    /// that [`super::Bounded::slices`] of the same query returned. Late rows are counted, if the query counts rows (else a slice as one), and not held.
    ///
    /// # Errors
    /// As [`Operator::push`]; and `InvalidValue` for columns and times that slices of the query do not have, for a slice of which
    /// some rows are late and others are not, and where slices do not lead to the results of their rows: see
    /// [`Operator::refuses_slices`].
    pub fn push_slices(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.call(Step::PushSlices(batches))
    }

    /// Moves the watermark, so that no window that ends at or before it waits for rows any longer, and emits those
    /// windows.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], and for a watermark before the last one; `Overflow` where a result
    /// does not fit its type; what a user-defined function raises.
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.call(Step::Advance(watermark))
    }

    /// Moves the watermark of the key given by these columns of one row: a punctuation of its own, by which it is ahead of
    /// the others until the watermark of the stream gets there (Li 2008, §2.1). Its windows that end at or before that time
    /// are emitted, and its rows before it are late.
    ///
    /// # Errors
    /// As [`Operator::advance`], and `InvalidValue` if queries have no keys.
    pub fn advance_key(&mut self, watermark: i64, key: &[ArrayRef]) -> Result<Vec<RecordBatch>> {
        self.call(Step::AdvanceKey(watermark, key))
    }

    /// The keys that are ahead of the stream, and in the last column up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub fn keys_ahead(&self) -> Result<RecordBatch> {
        self.keys.ahead_as_table(self.leader())
    }

    /// Moves the watermark on to that of the sources which are not idle by now, and emits windows as
    /// [`Operator::advance`] does.
    ///
    /// # Errors
    /// As [`Operator::advance`]; `InvalidValue` if no watermark follows rows.
    pub fn follow(&mut self) -> Result<Vec<RecordBatch>> {
        self.call(Step::Follow)
    }

    /// Sets the clock, by which sources are idle: microseconds, which never decrease.
    pub fn set_clock(&mut self, now: i64) {
        self.now = self.now.max(Some(now));
    }

    /// What is known of the sources of the stream, if its watermark follows them: a row for each, with its name where a
    /// column has it.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows.
    pub fn progress(&self) -> Result<RecordBatch> {
        self.followed()?.table(self.input(), self.leader().measure(), self.now)
    }

    fn followed(&self) -> Result<&Progress> {
        self.progress.as_ref().ok_or_else(|| {
            Error::InvalidValue(
                "progress: no watermark follows the rows of this operator; progress=windowkit.delay(...) of \
                 query.operator() makes one do so"
                    .into(),
            )
        })
    }

    /// Ends the stream: emits all remaining windows.
    ///
    /// # Errors
    /// As [`Operator::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.call(Step::Close)
    }

    /// All windows that [`Operator::close`] would emit now, of the key given by these columns of one row or of all keys;
    /// nothing is changed.
    ///
    /// # Errors
    /// As [`Operator::close`].
    pub fn peek(&mut self, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        self.relieve()?;
        let results = attempted(|| self.peeked(key));
        undisturbed(|| spared(|| self.roll_back()));
        results
    }

    /// Emits what emission policies would emit if they fired now: for the key given by these columns of one row, or for all.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], and if no query has an emission policy; otherwise as [`Operator::close`].
    pub fn fire(&mut self, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        self.call(Step::Fire(key))
    }

    /// Whether the clock matters to an emission policy.
    pub fn uses_clock(&self) -> bool {
        self.emission.as_ref().is_some_and(Emission::has_clock)
    }

    /// Puts a punctuation after the rows up to this time that have arrived: of the key given by these columns of one
    /// row, or of all keys. On a stream in order it counts as a row: nothing may come before it any more.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], if no window is bounded by punctuation, and for a time at which no row
    /// would be accepted any longer; what a user-defined function raises.
    pub fn punctuate(&mut self, time: i64, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        self.call(Step::Punctuate(time, key))
    }

    /// Rows that came too late or without a time, with the reason; each row is returned once, unless more than
    /// [`Options::late_limit`] are held: then later ones are only counted.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.late.take()
    }

    /// Makes a call, which takes effect as a whole or not at all.
    ///
    /// # Errors
    /// Errors of the step, and of [`Operator::relieve`].
    pub fn call(&mut self, step: Step<'_>) -> Result<Vec<RecordBatch>> {
        self.relieve()?;
        all_or_nothing(self, |this| this.tried(step), |this, done| this.commit(*done), Self::roll_back)
    }

    /// Undoes all that a step has changed.
    fn roll_back(&mut self) {
        self.engines_mut().for_each(Engine::take_back);
        self.emission.iter_mut().for_each(Emission::take_back);
    }

    /// Commits a step, which is not rolled back any more.
    fn commit(&mut self, attempted: Attempted) {
        if let Some(emission) = &mut self.emission {
            emission.keep(|entry| self.entries[entry].horizon(attempted.watermark));
        }
        if attempted.watermark > self.watermark {
            attempted.watermark.into_iter().for_each(|watermark| self.keys.ahead.pass(watermark));
        }
        attempted.key_watermark.into_iter().for_each(|(key, mark)| self.keys.ahead.set(key, mark));
        let ahead = &self.keys.ahead;
        let each = self.engines.iter_mut().zip(attempted.outcomes);
        each.for_each(|((_, engine), outcome)| engine.keep(outcome, ahead));
        self.late.add(attempted.refused);
        if attempted.takes_late {
            self.late.take();
        }
        (self.watermark, self.latest) = (attempted.watermark, attempted.latest);
        if let (Some(progress), Some(seen)) = (&mut self.progress, attempted.seen) {
            progress.seen = seen;
        }
        self.past.rows += attempted.rows;
        self.shedding.iter_mut().for_each(|shedding| shedding.drew(attempted.drawn));
        if let Some(emptied) = attempted.emptied {
            self.closed = true;
            self.emission.iter_mut().for_each(Emission::end);
            self.engines_mut().zip(emptied).for_each(|(engine, emptied)| engine.end(emptied));
            self.keys.forget_all();
        }
        self.forget_keys();
    }

    /// Forgets the keys of which nothing is held, once they are many.
    fn forget_keys(&mut self) {
        let known = self.keys.len();
        let slices = self.engines().map(|engine| engine.slices.timelines.len()).max().unwrap_or_default();
        if known > IDLE_KEYS && slices < known / 2 {
            let live = self.live_keys();
            if live.len() <= known / 2 {
                self.keep_keys(&live);
            }
        }
    }

    /// The keys of which something is held.
    fn live_keys(&self) -> Vec<u32> {
        let mut is_live = vec![false; self.keys.len()];
        self.engines().for_each(|engine| engine.slices.mark_live(&mut is_live));
        self.emission.iter().for_each(|emission| emission.mark_live(&mut is_live));
        self.keys.ahead.each().for_each(|(key, _)| is_live[key as usize] = true);
        (0..).zip(is_live).filter(|(_, is_live)| *is_live).map(|(key, _)| key).collect()
    }

    /// Keeps these keys, which ascend, and forgets the others: the n-th of them becomes key n. If that fails, all stay.
    fn keep_keys(&mut self, kept: &[u32]) {
        if self.keys.keep(kept) {
            self.engines_mut().for_each(|engine| engine.keep_keys(kept));
            self.emission.iter_mut().for_each(|emission| emission.keep_keys(kept));
        }
    }

    /// The schema of [`Operator::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and has done.
    pub fn stats(&self) -> Stats {
        let all = self.engines().map(Engine::stats).fold(self.past, Stats::with);
        let (late, late_dropped) = (self.late.count(), self.late.dropped());
        let bytes = all.bytes + self.keys.bytes() + self.emission.as_ref().map_or(0, Emission::bytes);
        let keys_ahead = self.keys.ahead.len();
        let shed = self.shedding.as_ref().map(Shedding::dropped).unwrap_or_default();
        Stats { late, late_dropped, late_bytes: self.late.bytes(), bytes, keys_ahead, shed, ..all }
    }

    /// Drops what the state holds too much of by [`Options::shed`], if the last call may have led to that; every call
    /// begins with it, and so does whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        if !self.shedding.as_ref().is_some_and(Shedding::is_due) {
            return Ok(());
        }
        let mut is_tight = false;
        loop {
            let Stats { keys, slices, bytes, .. } = self.stats();
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            if self.closed || !shedding.is_above(bytes, is_tight) {
                shedding.measured(keys);
                return Ok(());
            }
            if !is_tight {
                spared(|| self.tighten());
                is_tight = true;
                continue;
            }
            let (keep, half) = (shedding.shed.keep, shedding.half().filter(|_| slices > 1));
            let mut drop_half = |sample| match keep {
                Keep::Keys => self.keep_sampled(sample),
                Keep::Rows => self.thin(sample).map(Some),
            };
            let dropped = match half {
                None => None,
                Some(sample) => attempted(|| drop_half(sample))?.map(|dropped| (sample, dropped)),
            };
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            let Some((sample, dropped)) = dropped else {
                shedding.cannot_help(keys, bytes);
                return Ok(());
            };
            shedding.drop_to(sample, dropped);
        }
    }

    /// Frees all that belongs to no slice, which is otherwise only done once that is the larger part.
    fn tighten(&mut self) {
        if let Ok(live) = attempted(|| Ok(self.live_keys())) {
            self.keep_keys(&live);
        }
        self.engines_mut().for_each(Engine::shrink);
    }

    /// Drops the keys that are not in a sample, unless none would be left; returns how many these are, and their slices.
    fn keep_sampled(&mut self, sample: Sample) -> Result<Option<(usize, usize)>> {
        let kept = sample.of_keys(&self.keys.plain_columns()?, self.keys.len())?;
        if !self.engines().any(|engine| engine.has_slices_of(&kept)) {
            return Ok(None);
        }
        let live: Vec<u32> = kept.set_indices_u32().collect();
        spared(|| {
            let dropped = self.engines_mut().map(|engine| engine.discard_others(&kept));
            let dropped = dropped.fold((0, 0), |all, own| (own.0.max(all.0), all.1 + own.1));
            self.keep_keys(&live);
            self.engines_mut().for_each(Engine::shrink);
            Ok(Some(dropped))
        })
    }

    /// Drops half of the slices; returns how many, and of how many keys (0).
    fn thin(&mut self, sample: Sample) -> Result<(usize, usize)> {
        let doubled = self.engines_mut().map(Engine::doubled).collect::<Result<Vec<_>>>()?;
        spared(|| {
            let each = self.engines_mut().zip(doubled);
            let dropped = each.map(|(engine, doubled)| engine.thin(sample, doubled)).sum();
            self.tighten();
            Ok((0, dropped))
        })
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`; those with rows under them come last.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let Self { engines, keys, .. } = self;
        let all =
            engines.iter_mut().map(|(_, engine)| engine.all_slices(keys)).collect::<Result<Vec<_>>>()?;
        match &all[..] {
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &all)?),
            [] => Err(Error::Internal("an operator without queries".into())),
        }
    }
}
