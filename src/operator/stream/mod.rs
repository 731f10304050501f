//! The stream operator: rows and watermarks in, windows out as they become final (Traub et al. 2019, §5.3).
//!
//! | | |
//! |---|---|
//! | needs | nothing but associative functions |
//! | time | a comparison per row, or less: rows in order are folded slice by slice; O(log n) per window besides the combinations |
//! | space | slices that some window or row to come may need; rows only for queries that need them |
//! | first appeared | Traub et al., EDBT 2019; with the watermarks of Akidau et al., *The Dataflow Model*, VLDB 2015 |
//!
//! Windows that accept the same rows share an instance of one [`Engine`], so that no window's results depend on which
//! others there are (see `sharing`). Whether an instance keeps rows follows from the decision tree of Traub et al. (2019,
//! Fig. 4) and from its windows: a window that needs rows costs the others nothing, and its rows are dropped with it.
//! All instances see every watermark, and a call takes effect in all or in none.

mod agenda;
mod engine;
mod intake;
mod keyed;
mod late;
mod lateness;
mod names;
mod options;
mod outgoing;
mod queries;
mod sharing;
mod snapshot;
mod tuples;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;

use super::plan::Plan;
use crate::aggregate::Partials;
use crate::memory::{OutOfMemory, of_panic};
use crate::slice::strategy::{Order, Strategy};
use crate::{Error, Result};
use engine::{Emptied, Engine, Outcome};
use intake::{Gate, check_open, check_schema, check_watermark};
use late::{Late, Reason, Refused};
pub use options::{Options, Stats, StoreKind, length};
use queries::{Entry, Queries};
use sharing::{Class, strategy};
pub use snapshot::Contents;

/// A stream operator.
pub struct Operator {
    options: Options,
    /// All queries in the order they were added.
    entries: Vec<Entry>,
    /// Whether there ever was more than one.
    several: bool,
    strategy: Strategy,
    /// An engine for each class of windows: at least one. Those that keep rows come last.
    engines: Vec<(Class, Engine)>,
    late: Late,
    /// Up to when the stream is complete.
    watermark: Option<i64>,
    /// The time of the latest row.
    latest: Option<i64>,
    /// What removed engines did, and the number of rows accepted.
    past: Stats,
    closed: bool,
    /// The step that was attempted last, until it is committed or rolled back.
    attempted: Option<Attempted>,
}

/// A step of a stream: one call, which takes effect as a whole or not at all.
pub enum Step<'a> {
    /// See [`Operator::push`].
    Push(&'a [RecordBatch]),
    /// See [`Operator::advance`].
    Advance(i64),
    /// See [`Operator::punctuate`].
    Punctuate(i64, Option<&'a [ArrayRef]>),
    /// See [`Operator::close`].
    Close,
    /// See [`Operator::take_late`].
    TakeLate,
}

/// What a step changes besides what the undo logs of the engines know of, once it is committed.
#[derive(Default)]
struct Attempted {
    /// One for each engine, unless no engine takes part.
    outcomes: Vec<Outcome>,
    watermark: Option<i64>,
    latest: Option<i64>,
    rows: u64,
    refused: Refused,
    takes_late: bool,
    /// The engines without their contents, if the stream ends.
    emptied: Option<Vec<Emptied>>,
}

impl Operator {
    /// An operator for these queries, which are bound to one schema.
    ///
    /// # Errors
    /// `InvalidValue` if they have different keys or time columns, or columns of one name and different types.
    pub fn new(queries: Vec<(String, Arc<Plan>)>, options: Options) -> Result<Self> {
        Self::with_lateness(queries.into_iter().map(|(name, plan)| (name, plan, None)).collect(), options)
    }

    /// The same, where queries may have an allowed lateness of their own.
    ///
    /// # Errors
    /// As [`Operator::new`].
    pub fn with_lateness(queries: Vec<(String, Arc<Plan>, Option<i64>)>, options: Options) -> Result<Self> {
        let entries = queries.into_iter().map(|(name, plan, lateness)| {
            let lateness = lateness.unwrap_or(options.allowed_lateness);
            Entry::new(name, (plan, lateness), None, options.order)
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = entries.len() > 1;
        Self::with(entries, several, options)
    }

    fn with(entries: Vec<Entry>, several: bool, options: Options) -> Result<Self> {
        entries.iter().try_for_each(|entry| options.check(entry.lateness))?;
        let Some(leader) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let late = Late::new(leader.plan.input(), several);
        let engines = parts(&entries, several)?.into_iter().map(|(class, queries)| {
            let engine = Engine::new(queries, options, &class, None)?;
            Ok((class, engine))
        });
        Ok(Self {
            engines: engines.collect::<Result<_>>()?,
            strategy: strategy(entries.iter().map(|entry| &*entry.plan), options.order)?,
            options,
            entries,
            several,
            late,
            watermark: None,
            latest: None,
            past: Stats::default(),
            closed: false,
            attempted: None,
        })
    }

    fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().map(|(_, engine)| engine)
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.engines.iter_mut().map(|(_, engine)| engine)
    }

    /// The schema of results: keys, `query_name` once there was more than one query, `window_name` if a query has more
    /// than one window, the window, `window_rows` if a window is measured by rows, `window_number` if one is determined
    /// by rows, all queries' aggregates, and `update`.
    pub fn schema(&self) -> &SchemaRef {
        // Each engine knows the columns of all queries.
        let mut schemas = self.engines().map(|engine| engine.queries.schema());
        schemas.next().unwrap_or_else(|| self.late.schema())
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

    /// The names of the queries that rows are kept for.
    pub fn keeping_rows(&self) -> Vec<&str> {
        let keeps_rows = |entry: &&Entry| entry.classes.iter().any(|class| class.keeps_rows);
        self.entries.iter().filter(keeps_rows).map(|entry| entry.name.as_str()).collect()
    }

    /// How slices without rows are stored, and why: in one way, or in several.
    pub fn store_forms(&self) -> Vec<(&'static str, &'static str)> {
        let sliced = self.engines.iter().filter(|(class, _)| !class.keeps_rows);
        let mut forms: Vec<_> = sliced.map(|(_, engine)| engine.store_form()).collect();
        forms.sort_unstable();
        forms.dedup();
        forms
    }

    /// Up to when the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Takes in all of these rows or, if it fails, none of them, and emits the windows that become final and those that
    /// late rows change.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for batches of another schema, and for rows out of order where order
    /// was promised; `Overflow` where a result does not fit its type; what a user-defined function raises.
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.take(Step::Push(batches))
    }

    /// Moves the watermark, so that no window that ends at or before it waits for rows any longer, and emits those
    /// windows.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], and for a watermark before the last one; `Overflow` where a result
    /// does not fit its type; what a user-defined function raises.
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.take(Step::Advance(watermark))
    }

    /// Ends the stream: emits all remaining windows.
    ///
    /// # Errors
    /// As [`Operator::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.take(Step::Close)
    }

    /// Puts a punctuation after the rows up to this time that have arrived: of the key given by these columns of one
    /// row, or of all keys. On a stream in order it counts as a row: nothing may come before it any more.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], if no window is bounded by punctuation, and for a time at which no row
    /// would be accepted any longer; what a user-defined function raises.
    pub fn punctuate(&mut self, time: i64, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        self.take(Step::Punctuate(time, key))
    }

    /// Rows that came too late or without a time, with the reason; each row is returned once, unless more than
    /// [`Options::late_limit`] are held: then later ones are only counted.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.settle(true);
        self.late.take()
    }

    fn take(&mut self, step: Step<'_>) -> Result<Vec<RecordBatch>> {
        let results = self.attempt(step)?;
        self.settle(true);
        Ok(results)
    }

    /// Computes the results of a step without committing it: they may never reach whoever asked for them, and the step
    /// is rolled back then. [`Operator::settle`] decides, and comes before every other call.
    ///
    /// # Errors
    /// Those of the step, which is rolled back then.
    pub fn attempt(&mut self, step: Step<'_>) -> Result<Vec<RecordBatch>> {
        self.settle(true);
        let tried = catch_unwind(AssertUnwindSafe(|| self.tried(step)));
        let (attempted, results) = tried.unwrap_or_else(|panic| {
            // Failed allocations come anywhere; other panics are defects, which say nothing of the state.
            if !panic.is::<OutOfMemory>() {
                resume_unwind(panic);
            }
            self.engines_mut().for_each(Engine::take_back);
            Err(of_panic(&*panic))
        })?;
        self.attempted = Some(attempted);
        Ok(results)
    }

    fn tried(&mut self, step: Step<'_>) -> Result<(Attempted, Vec<RecordBatch>)> {
        let mut attempted = match step {
            Step::Push(batches) => self.try_push(batches),
            Step::Advance(watermark) => self.try_advance(watermark),
            Step::Punctuate(time, key) => self.try_punctuate(time, key),
            Step::Close => self.try_close(),
            Step::TakeLate => {
                let late = self.late.batches().to_vec();
                return Ok((Attempted { takes_late: true, ..self.unchanged() }, late));
            }
        }?;
        let results = attempted.outcomes.iter_mut().flat_map(Outcome::take_results).collect();
        Ok((attempted, results))
    }

    /// Commits the step that was attempted last, or rolls it back; does nothing if that was done already.
    pub fn settle(&mut self, commit: bool) {
        let Some(attempted) = self.attempted.take() else { return };
        let engines = self.engines_mut();
        if !commit {
            return engines.for_each(Engine::take_back);
        }
        engines.zip(attempted.outcomes).for_each(|(engine, outcome)| engine.keep(outcome));
        self.late.add(attempted.refused);
        if attempted.takes_late {
            self.late.take();
        }
        (self.watermark, self.latest) = (attempted.watermark, attempted.latest);
        self.past.rows += attempted.rows;
        if let Some(emptied) = attempted.emptied {
            self.closed = true;
            self.engines_mut().zip(emptied).for_each(|(engine, emptied)| engine.end(emptied));
        }
    }

    fn unchanged(&self) -> Attempted {
        Attempted { watermark: self.watermark, latest: self.latest, ..Attempted::default() }
    }

    fn try_push(&mut self, batches: &[RecordBatch]) -> Result<Attempted> {
        check_open(self.closed, "push")?;
        let input = self.input().clone();
        batches.iter().try_for_each(|batch| check_schema(&input, batch))?;
        let (mut gate, limits) = (self.gate(), self.limits());
        let (mut accepted, mut refused, mut before) = (Vec::with_capacity(batches.len()), Vec::new(), 0);
        let mut rows = 0;
        for batch in batches {
            let (timed, untimed) = gate.accept(self.leader(), (batch, before))?;
            if let Some(rows) = untimed {
                let of = |name| self.late.batch(&rows, name, Reason::NullTime);
                refused.extend(self.names().map(of).collect::<Result<Vec<_>>>()?);
            }
            before += batch.num_rows();
            rows += (timed.times.len() - self.refuse(&timed, &limits, &mut refused)?) as u64;
            accepted.push(timed);
        }
        let refused = self.late.limited(refused, self.options.late_limit)?;
        let watermark = self.options.watermark(gate.latest_row);
        let outcomes = self.all(|engine| engine.try_push(engine.own_rows(&accepted)?, watermark))?;
        let (watermark, latest) = (watermark.max(self.watermark), gate.latest_row);
        Ok(Attempted { outcomes, watermark, latest, rows, refused, ..Attempted::default() })
    }

    fn try_advance(&mut self, watermark: i64) -> Result<Attempted> {
        check_open(self.closed, "advance")?;
        check_watermark(self.leader().measure(), self.watermark, watermark)?;
        let watermark = Some(watermark);
        let outcomes = self.all(|engine| engine.try_move(watermark, false))?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    fn try_close(&mut self) -> Result<Attempted> {
        check_open(self.closed, "close")?;
        let emptied = self.engines().map(Engine::emptied).collect::<Result<_>>()?;
        let watermark = Some(i64::MAX);
        let outcomes = self.all(|engine| engine.try_move(watermark, true))?;
        Ok(Attempted { outcomes, watermark, emptied: Some(emptied), ..self.unchanged() })
    }

    fn try_punctuate(&mut self, time: i64, key: Option<&[ArrayRef]>) -> Result<Attempted> {
        check_open(self.closed, "punctuate")?;
        let marked =
            |entry: &&Entry| entry.plan.windows().iter().any(|(_, window)| window.mark_column().is_some());
        let accepted_from = |entry: &Entry| {
            let horizon = self.watermark.map(|watermark| watermark.saturating_sub(entry.lateness));
            horizon.max(entry.since.map(|since| since.saturating_add(1)))
        };
        let Some(cutoff) = self.entries.iter().filter(marked).map(accepted_from).min() else {
            return Err(Error::InvalidValue(
                "punctuate: no window of this operator is bounded by punctuation; those of windowkit.punctuation() are"
                    .into(),
            ));
        };
        let (column, is_in_order) = (self.leader().measure().column(), self.options.order == Order::InOrder);
        let least = if is_in_order { self.latest.max(self.watermark) } else { cutoff };
        if let Some(least) = least.filter(|&least| time < least) {
            return Err(Error::InvalidValue(format!(
                "punctuate: {time} is before {least} in column '{column}'; no row can have that time any more"
            )));
        }
        let (low, high) = self.bounds();
        if time < low || time > high {
            return Err(Error::Overflow(format!(
                "punctuate: {time} is too close to the limit of int64 for windows; allowed are times from {low} to {high}"
            )));
        }
        let watermark = if is_in_order { Some(time) } else { self.watermark };
        let outcomes = self.all(|engine| engine.try_punctuate(time, key, watermark))?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    /// Tries a call in all engines; if it fails in one, it is rolled back in all.
    fn all(&mut self, call: impl Fn(&mut Engine) -> Result<Outcome>) -> Result<Vec<Outcome>> {
        let mut windows = vec![0; self.entries.len()];
        let mut one = |engine: &mut Engine| {
            engine.begin(&windows);
            call(engine).inspect(|outcome| outcome.count(&mut windows))
        };
        let outcomes = self.engines_mut().map(&mut one).collect::<Result<Vec<Outcome>>>();
        if outcomes.is_err() {
            self.engines_mut().for_each(Engine::take_back);
        }
        outcomes
    }

    /// Which rows may come.
    fn gate(&self) -> Gate {
        Gate {
            order: self.options.order,
            latest: self.latest.max(self.watermark),
            latest_row: self.latest,
            bounds: self.bounds(),
        }
    }

    /// The least and the greatest time whose windows' edges fit int64.
    fn bounds(&self) -> (i64, i64) {
        let bounds = self.engines().map(|engine| engine.queries.edges().bounds());
        bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1))).unwrap_or((i64::MIN, i64::MAX))
    }

    /// The schema of [`Operator::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and has done.
    pub fn stats(&self) -> Stats {
        let all = self.engines().map(Engine::stats).fold(self.past, Stats::with);
        let (late, late_dropped) = (self.late.count(), self.late.dropped());
        Stats { late, late_dropped, late_bytes: self.late.bytes(), ..all }
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`; those with rows under them come last.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let all = self.engines_mut().map(Engine::all_slices).collect::<Result<Vec<_>>>()?;
        match &all[..] {
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &all)?),
            [] => Err(Error::Internal("an operator without queries".into())),
        }
    }

    /// Adds a query, which may have an allowed lateness of its own. It sees only times after all rows and
    /// watermarks so far, and its windows are those that begin there, as it has not seen all rows of earlier ones.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for a name that is in use, and for other keys or another time.
    pub fn add(&mut self, name: String, plan: Arc<Plan>, lateness: Option<i64>) -> Result<()> {
        check_open(self.closed, "add")?;
        let lateness = lateness.unwrap_or(self.options.allowed_lateness);
        self.options.check(lateness)?;
        let since = self.latest.max(self.watermark);
        let mut entries = self.entries.clone();
        entries.push(Entry::new(name, (plan, lateness), since, self.options.order)?);
        self.change(entries, true)
    }

    /// Removes a query and everything stored only for it.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for an unknown name, and for the only query.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        check_open(self.closed, "remove")?;
        let Some(at) = self.entries.iter().position(|entry| entry.name == name) else {
            let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
            return Err(Error::InvalidValue(format!(
                "query: there is none named '{name}'; there are '{}'",
                names.join("', '")
            )));
        };
        if self.entries.len() == 1 {
            return Err(Error::InvalidValue(format!(
                "query: '{name}' is the only one; an operator has at least one query"
            )));
        }
        let mut entries = self.entries.clone();
        entries.remove(at);
        self.change(entries, self.several)
    }

    /// Replaces the queries: one was added or removed.
    fn change(&mut self, entries: Vec<Entry>, several: bool) -> Result<()> {
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        let late = match several == self.several {
            true => None,
            false => Some(self.late.with_names(self.input(), &self.entries[0].name)?),
        };
        // Everything that can fail comes first.
        let mut changes = Vec::new();
        for (class, queries) in parts(&entries, several)? {
            let known = self.engines.iter().position(|(own, _)| *own == class);
            changes.push(match known.map(|at| (at, &self.engines[at].1)) {
                None => {
                    let engine = Engine::new(queries, self.options, &class, self.watermark)?;
                    Change::Begun(Box::new(engine), class)
                }
                Some((at, engine)) if engine.queries.names().eq(queries.names()) => Change::None(at, queries),
                Some((at, engine)) => Change::Partials(at, engine.changing(&queries)?, queries),
            });
        }
        let mut old: Vec<_> = std::mem::take(&mut self.engines).into_iter().map(Some).collect();
        for change in changes {
            let (mut engine, changed) = match change {
                Change::Begun(engine, class) => {
                    self.engines.push((class, *engine));
                    continue;
                }
                Change::None(at, queries) => (old[at].take(), (queries, None)),
                Change::Partials(at, partials, queries) => (old[at].take(), (queries, Some(partials))),
            };
            if let Some((_, engine)) = &mut engine {
                match changed {
                    (queries, None) => engine.set_queries(queries),
                    (queries, Some(partials)) => engine.change(queries, partials),
                }
            }
            self.engines.extend(engine);
        }
        for (_, gone) in old.into_iter().flatten() {
            self.past = self.past.and_did(gone.stats());
        }
        if let Some(late) = late {
            self.late = late;
        }
        (self.entries, self.several, self.strategy) = (entries, several, strategy);
        Ok(())
    }
}

/// How the engine at a place changes, or one that begins.
enum Change {
    None(usize, Queries),
    Partials(usize, Vec<Box<dyn Partials>>, Queries),
    Begun(Box<Engine>, Class),
}

/// The classes of windows, and the queries of each; those that keep rows come last.
fn parts(entries: &[Entry], several: bool) -> Result<Vec<(Class, Queries)>> {
    let mut classes: Vec<&Class> = Vec::new();
    for class in entries.iter().flat_map(|entry| &entry.classes) {
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes.sort_by_key(|class| class.keeps_rows);
    let each = classes.into_iter().map(|class| Ok((class.clone(), Queries::among(entries, class, several)?)));
    each.collect()
}
