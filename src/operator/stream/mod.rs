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
mod commit;
mod emission;
mod engine;
mod entry;
mod intake;
mod key_numbers;
mod keys;
mod late;
mod lateness;
mod names;
mod options;
mod outgoing;
mod queries;
mod relief;
mod results;
mod sharing;
mod slices;
mod snapshot;
mod sparse;
mod steps;
mod tuples;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::call::all_or_nothing;
use super::plan::Plan;
use super::progress::{Progress, followed};
use super::shedding::Shedding;
use crate::interrupt::{end_with, undisturbed};
use crate::memory::{attempted, spared};
use crate::slice::strategy::Strategy;
use crate::{Error, Result};
use emission::Emission;
use engine::Engine;
use entry::{Entry, classes};
pub(super) use intake::check_watermark;
use keys::StreamKeys;
pub(super) use late::{Late, Reason, Refused};
pub use options::{Options, Stats, StoreKind};
use queries::Queries;
use sharing::{ClassGroup, strategy};
pub use snapshot::Contents;
use sparse::SparseRows;

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
    engines: Vec<(ClassGroup, Engine)>,
    /// Rows that wait for the end of their window, if any may.
    sparse: Option<SparseRows>,
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
    /// Rows and calls until it is looked again for keys of which nothing is held, unless the watermark moves.
    busy: u64,
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
    /// See [`Operator::end_key`].
    EndKey(&'a [ArrayRef]),
    /// See [`Operator::follow`].
    Follow,
    /// Waits for rows of the source that is named by the only row of a column, before any has come.
    AddSource(&'a ArrayRef),
    /// Waits no longer for rows of such a source, and emits windows as [`Operator::advance`] does.
    EndSource(&'a ArrayRef),
    /// See [`Operator::punctuate`].
    Punctuate(i64, Option<&'a [ArrayRef]>),
    /// See [`Operator::close`].
    Close,
    /// See [`Operator::fire`].
    Fire(Option<&'a [ArrayRef]>),
    /// Takes rows that came too late or without a time, with the reason; each row is returned once, unless more than
    /// [`Options::late_limit`] are held: then later ones are only counted.
    TakeLate,
    /// Puts rows that wait for the end of their window into slices.
    Settle,
}

impl Step<'_> {
    /// Whether the call needs all rows in slices, as it is about single keys or open windows.
    fn needs_slices(&self) -> bool {
        match self {
            Self::Push(_) | Self::Advance(_) | Self::Follow | Self::Close | Self::TakeLate => false,
            Self::AddSource(_) | Self::EndSource(_) | Self::Settle => false,
            Self::PushSlices(_) | Self::AdvanceKey(..) | Self::EndKey(_) => true,
            Self::Punctuate(..) | Self::Fire(_) => true,
        }
    }
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
        let groups =
            ClassGroup::of(classes(&entries), &[], |_| false).into_iter().map(|(_, group)| group).collect();
        Self::with(entries, groups, several, options)
    }

    fn with(entries: Vec<Entry>, groups: Vec<ClassGroup>, several: bool, options: Options) -> Result<Self> {
        entries.iter().try_for_each(|entry| options.check(entry.lateness))?;
        let Some(leader) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let late = Late::new(leader.plan.input(), several);
        let progress = options.progress.map(|delay| Progress::new(delay, leader.plan.input())).transpose()?;
        let engines = groups.into_iter().map(|group| {
            let queries = Queries::among(&entries, &group, several)?;
            let engine = Engine::new(queries, options, &group, None)?;
            Ok((group, engine))
        });
        let mut this = Self {
            engines: engines.collect::<Result<_>>()?,
            keys: StreamKeys::new(&entries[0].plan)?,
            strategy: strategy(entries.iter().map(|entry| &*entry.plan), options.order)?,
            options,
            entries,
            several,
            sparse: None,
            late,
            emission: None,
            progress,
            shedding: options.shed.map(Shedding::new),
            now: None,
            watermark: None,
            latest: None,
            past: Stats::default(),
            busy: 0,
            closed: false,
        };
        if let Some(shedding) = &mut this.shedding {
            let schema = this.engines[0].1.queries.schema();
            shedding.schema = shedding.extended(schema, 1)?;
        }
        this.emission = Emission::among(&this.entries, this.plain_schema(), None)?;
        this.sparse = this.sparse_rows();
        Ok(this)
    }

    /// None yet that wait, if any may.
    fn sparse_rows(&self) -> Option<SparseRows> {
        let keep_rows = self.engines.iter().any(|(group, _)| group.keeps_rows());
        let may_wait = !keep_rows && !self.several && self.shedding.is_none() && self.emission.is_none();
        SparseRows::of(&self.entries).filter(|_| may_wait)
    }

    /// Puts rows that wait into slices, for a call that asks for these, or because their windows have many.
    fn settle(&mut self, needs_slices: bool) -> Result<()> {
        let is_due = |sparse: &SparseRows| sparse.from.is_some() && (needs_slices || sparse.is_over());
        match !self.closed && self.sparse.as_ref().is_some_and(is_due) {
            true => self.made(Step::Settle).map(drop),
            false => Ok(()),
        }
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
        let sliced = self.engines.iter().filter(|(group, _)| !group.keeps_rows());
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

    /// Ends the key given by these columns of one row: emits all of its windows, as [`Operator::close`] does, and forgets it.
    /// It is complete up to the end of the last of them, so that no row that comes nevertheless is in a second result of one;
    /// with later rows it begins anew. A key that has no rows is left as it is.
    ///
    /// # Errors
    /// As [`Operator::advance_key`].
    pub fn end_key(&mut self, key: &[ArrayRef]) -> Result<Vec<RecordBatch>> {
        self.call(Step::EndKey(key))
    }

    /// The keys that are ahead of the stream, and in the last column up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub fn keys_ahead(&self) -> Result<RecordBatch> {
        self.keys.ahead_as_table(self.leader())
    }

    /// Moves the watermark on to that of the sources which are not idle by now, if it follows any, and emits windows as
    /// [`Operator::advance`] does.
    ///
    /// # Errors
    /// As [`Operator::advance`]; `InvalidValue` if no watermark follows rows, and no emission policy the clock.
    pub fn follow(&mut self) -> Result<Vec<RecordBatch>> {
        self.call(Step::Follow)
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
        self.settle(true)?;
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

    /// Sets the clock: microseconds, which never decrease. While nobody calls, no source can speak, so that a long pause
    /// since the last call counts as a short one, unless the caller has waited for rows all the time.
    pub fn set_clock(&mut self, now: i64, has_waited: bool) {
        self.now = self.now.max(Some(now));
        self.progress.iter_mut().for_each(|progress| progress.set_clock(now, has_waited));
    }

    /// What is known of the sources of the stream, if its watermark follows them: a row for each, with its name where a
    /// column has it.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows.
    pub fn progress(&self) -> Result<RecordBatch> {
        followed(&self.progress)?.table(self.input(), self.leader().measure())
    }

    /// Which share of the rows of windows can be expected to have arrived, and how much that may be wrong: columns
    /// `complete` and `complete_error` for columns of starts and ends.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows by their delays.
    pub fn completeness(&self, windows: &RecordBatch) -> Result<RecordBatch> {
        followed(&self.progress)?.completeness(windows, self.leader().measure())
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

    /// Makes a call, which takes effect as a whole or not at all.
    ///
    /// # Errors
    /// Errors of the step, and of [`Operator::relieve`].
    pub fn call(&mut self, step: Step<'_>) -> Result<Vec<RecordBatch>> {
        self.relieve()?;
        self.settle(step.needs_slices())?;
        self.made(step)
    }

    fn made(&mut self, step: Step<'_>) -> Result<Vec<RecordBatch>> {
        let results =
            all_or_nothing(self, |this| this.tried(step), |this, done| this.commit(*done), Self::roll_back)?;
        // The call has taken effect, and has its results.
        self.tidy().unwrap_or_else(end_with);
        Ok(results)
    }

    fn tidy(&mut self) -> Result<()> {
        self.progress.iter_mut().for_each(Progress::tidy);
        self.engines_mut().try_for_each(Engine::tidy)
    }

    /// The schema of the rows that [`Step::TakeLate`] takes.
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and has done.
    pub fn stats(&self) -> Stats {
        let all = self.engines().map(Engine::stats).fold(self.past, Stats::with);
        let (late, late_dropped) = (self.late.count(), self.late.dropped());
        let (waiting, of_waiting) =
            self.sparse.as_ref().map_or((0, 0), |sparse| (sparse.len(), sparse.bytes()));
        let rows_kept = all.rows_kept + waiting;
        let of_emission = self.emission.as_ref().map_or(0, Emission::bytes);
        let bytes = all.bytes + self.keys.bytes() + of_emission + of_waiting;
        let keys_ahead = self.keys.ahead.len();
        let shed = self.shedding.as_ref().map(Shedding::dropped).unwrap_or_default();
        Stats { late, late_dropped, late_bytes: self.late.bytes(), rows_kept, bytes, keys_ahead, shed, ..all }
    }
}
