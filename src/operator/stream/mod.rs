//! The stream operator: rows and watermarks in, windows out as they become final (Traub et al. 2019, §5.3).
//!
//! | | |
//! |---|---|
//! | needs | functions that commute, if rows come out of order; windows over time that are context free, or sessions |
//! | time | a comparison per row, or less: rows in order are folded slice by slice; O(log n) per window beside the combinations |
//! | space | slices that some window or row to come may need; no rows |
//! | first appeared | Traub et al., EDBT 2019; with the watermarks of Akidau et al., *The Dataflow Model*, VLDB 2015 |
//!
//! The pipeline of the paper: the stream slicer is [`Cutter`], the slice manager [`Timelines`] with [`Store`], and the
//! window manager is here with `listing`. A call first does all that can fail and then all that cannot, so that a call
//! that fails leaves the operator as it was.

mod agenda;
mod answers;
mod due;
mod intake;
mod keyed;
mod late;
mod listing;
mod names;
mod options;
mod part;
mod queries;
mod settled;
mod snapshot;
mod upkeep;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::plan::Plan;
use crate::Result;
use crate::slice::strategy::Strategy;
use crate::slice::{Cutter, Delta, Eager, Store, Timelines};
use agenda::Agenda;
pub(super) use answers::answers;
use due::{Due, Reopened};
pub(crate) use intake::{Gate, check_open, check_schema, check_watermark};
pub(super) use keyed::Keyed;
pub(crate) use late::{Late, Reason};
pub use options::{Options, Stats, StoreKind, length};
pub(super) use queries::{Asked, Entry, Queries, Told, strategy, windows};
pub use snapshot::Contents;
pub(super) use snapshot::{bound, head, read_partials, read_window, write_head};
use upkeep::{checked_strategy, cutter, eager};

/// The stream operator.
pub struct Stream {
    options: Options,
    queries: Queries,
    strategy: Strategy,
    keys: Keyed,
    slices: Timelines,
    store: Store,
    /// What is kept above the slices.
    eager: Eager,
    cutter: Cutter,
    /// What each window type has next, seen from the watermark.
    agenda: Agenda,
    /// The same seen from where windows have expired, if that is not the watermark.
    expiring: Option<Agenda>,
    watermark: Option<i64>,
    /// The time of the latest row.
    latest: Option<i64>,
    closed: bool,
    late: Late,
    reopened: Vec<Reopened>,
    counts: Stats,
    ids: Vec<u32>,
}

/// What a call did beside adding slices, to be kept if it does not fail.
pub(super) struct Outcome {
    delta: Option<Delta>,
    results: Vec<RecordBatch>,
    late: Vec<RecordBatch>,
    watermark: Option<i64>,
    latest: Option<i64>,
    reopened: Vec<Reopened>,
    rows: u64,
    windows: u64,
    updates: u64,
}

impl Stream {
    /// An operator for these queries, which are bound to one schema.
    ///
    /// # Errors
    /// `InvalidValue` if they have different keys or time columns, or columns of one name and different types, or if
    /// this kind of operator cannot run them in this order.
    pub fn new(queries: Vec<(String, Arc<Plan>)>, options: Options) -> Result<Self> {
        let queries = queries.into_iter().map(|(name, plan)| (name, plan, None)).collect();
        Self::with(Queries::new(queries, false)?, options)
    }

    fn with(queries: Queries, options: Options) -> Result<Self> {
        options.check()?;
        let strategy = checked_strategy(&queries, options.order)?;
        let leader = queries.leader();
        let store = Store::new(queries.columns(None, 0)?, 0);
        Ok(Self {
            eager: eager(&queries, options, &store),
            agenda: Agenda::new(&queries),
            expiring: (options.allowed_lateness > 0).then(|| Agenda::new(&queries)),
            options,
            strategy,
            keys: Keyed::new(leader)?,
            slices: Timelines::default(),
            store,
            cutter: cutter(&queries),
            watermark: None,
            latest: None,
            closed: false,
            late: Late::new(leader.input()),
            reopened: Vec::new(),
            counts: Stats::default(),
            ids: Vec::new(),
            queries,
        })
    }

    /// The schema of results: keys, `query_name` once there was more than one query, `window_name` if a query has more
    /// than one window, the window, all queries' aggregates, and `update`.
    pub fn schema(&self) -> &SchemaRef {
        self.queries.schema()
    }

    /// The schema of rows.
    pub fn input(&self) -> &SchemaRef {
        self.queries.leader().input()
    }

    /// The names of the queries.
    pub fn names(&self) -> Vec<&str> {
        self.queries.asked().iter().map(|asked| asked.name.as_str()).collect()
    }

    /// What is stored, and why (Traub et al. 2019, Figs. 4-6).
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// How the stream comes.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Whether [`Stream::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How far the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Takes in rows, all or (if it fails) none of them, and hands out the windows that this makes final, and those that
    /// late rows change.
    ///
    /// # Errors
    /// `InvalidValue` after [`Stream::close`], for batches of another schema, and for rows out of order where that was
    /// promised; `Overflow` where a result does not fit its type; what a user's function raises.
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.check_open("push")?;
        batches.iter().try_for_each(|batch| check_schema(self.input(), batch))?;
        let outcome = self.take_in(batches);
        self.finish(outcome)
    }

    /// Moves the watermark: no window that ends at or before it is waited for any longer. Hands out those.
    ///
    /// # Errors
    /// `InvalidValue` after [`Stream::close`], and for a watermark before the last one; `Overflow` where a result does
    /// not fit its type; what a user's function raises.
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.check_open("advance")?;
        check_watermark(self.queries.leader().measure(), self.watermark, watermark)?;
        let outcome = self.moved(Some(watermark));
        self.finish(outcome)
    }

    /// Ends the stream: hands out all windows that are left.
    ///
    /// # Errors
    /// As [`Stream::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.check_open("close")?;
        let outcome = self.moved(Some(i64::MAX));
        let results = self.finish(outcome)?;
        self.end();
        Ok(results)
    }

    /// Rows that came too late or without a time, with the reason, those handed out before left out.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.late.take()
    }

    /// The schema of [`Stream::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and did.
    pub fn stats(&self) -> Stats {
        let keys = (0..self.slices.keys() as u32).filter(|&key| !self.slices.of(key).is_empty()).count();
        Stats {
            keys,
            slices: self.slices.len(),
            bytes: self.slices.bytes() + self.store.bytes() + self.eager.bytes(),
            merges: self.slices.merges(),
            late: self.late.count(),
            late_bytes: self.late.bytes(),
            ..self.counts
        }
    }

    /// Adds a query. Its stream is that of times after all rows and watermarks so far, and its windows are those that
    /// begin there: of others it has not seen all rows.
    ///
    /// # Errors
    /// `InvalidValue` after [`Stream::close`], for a name that there is, for other keys or another time, and for a query
    /// that this kind of operator cannot run.
    pub fn add(&mut self, name: String, plan: Arc<Plan>) -> Result<()> {
        self.check_open("add")?;
        let since = self.latest.max(self.watermark);
        self.change(self.queries.with(name, plan, since)?)
    }

    /// Removes a query; what only it needed is stored no longer.
    ///
    /// # Errors
    /// `InvalidValue` after [`Stream::close`], for a name that there is not, and for the only query.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_open("remove")?;
        let gone = self.queries.asked().iter().position(|asked| asked.name == name);
        self.change_to(self.queries.without(name)?, gone)
    }

    fn check_open(&self, call: &str) -> Result<()> {
        check_open(self.closed, call)
    }

    /// Adds rows to slices, and lists what is due then.
    fn take_in(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        let mut late = Vec::new();
        let mut latest = self.latest;
        let mut rows = 0;
        let mut delta = self.store.delta();
        self.cutter.begin();
        let gate = self.gate();
        let mut before = 0;
        for batch in batches {
            let leader = self.queries.leader();
            let (accepted, sorted) =
                gate.accept(leader, (batch, before), &mut latest, Some((&self.late, &mut late)))?;
            before += batch.num_rows();
            rows += accepted.num_rows() as u64;
            self.fold(&accepted, sorted, &mut delta)?;
        }
        delta.settle()?;
        let mut reopened = Vec::new();
        let mut changed: Vec<(u32, i64)> = Vec::new();
        // Before any cell is added: the call's own rows are no session that was handed out.
        for &cell in self.cutter.cells() {
            if self.watermark.is_some_and(|watermark| cell.first < watermark) {
                changed.push((cell.key, cell.first));
                self.note_reopened(cell, &mut reopened);
            }
        }
        for at in 0..self.cutter.cells().len() {
            let cell = self.cutter.cells()[at];
            let slice = self.cutter.slice_of(cell.first);
            self.slices.add(cell, slice, self.queries.edges().gap_at(cell.first));
        }
        self.keep_open(&mut reopened);
        self.grow(&delta)?;
        changed.sort_unstable();
        let watermark = self.options.watermark(latest);
        let mut due: Vec<Vec<Due>> = self.queries.asked().iter().map(|_| Vec::new()).collect();
        self.list_changed(&changed, &mut due);
        let mut outcome = self.with_due(watermark.max(self.watermark), due, &delta, reopened)?;
        (outcome.delta, outcome.late, outcome.latest, outcome.rows) = (Some(delta), late, latest, rows);
        Ok(outcome)
    }

    /// What is due once the watermark is there.
    fn moved(&mut self, watermark: Option<i64>) -> Result<Outcome> {
        let due = self.queries.asked().iter().map(|_| Vec::new()).collect();
        let delta = Delta::default();
        self.grow(&delta)?;
        self.with_due(watermark, due, &delta, Vec::new())
    }

    fn with_due(
        &mut self,
        watermark: Option<i64>,
        mut due: Vec<Vec<Due>>,
        delta: &Delta,
        new: Vec<Reopened>,
    ) -> Result<Outcome> {
        let mut reopened = [self.reopened.as_slice(), &new].concat();
        if let Some(now) = watermark.filter(|&now| self.watermark.is_none_or(|last| now > last)) {
            self.list_due(now, &mut due, &mut reopened);
        }
        let windows = due.iter().map(|due| due.len() as u64).sum();
        let updates = due.iter().flatten().filter(|due| due.update).count() as u64;
        let results = self.answer(due, delta)?;
        let (latest, late, rows) = (self.latest, Vec::new(), 0);
        Ok(Outcome { delta: None, results, late, watermark, latest, reopened, rows, windows, updates })
    }

    /// Keeps what a call did, or takes it back.
    fn finish(&mut self, outcome: Result<Outcome>) -> Result<Vec<RecordBatch>> {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.eager.distrust(self.slices.changed_keys());
                self.slices.take_back();
                return Err(error);
            }
        };
        if let Some(delta) = outcome.delta {
            self.store.append(delta);
        }
        self.slices.settle();
        self.late.add(outcome.late);
        (self.latest, self.reopened) = (outcome.latest, outcome.reopened);
        self.counts.rows += outcome.rows;
        self.counts.windows += outcome.windows;
        self.counts.updates += outcome.updates;
        if outcome.watermark > self.watermark {
            self.watermark = outcome.watermark;
            self.turn_agendas();
            self.forget();
        }
        self.tidy();
        Ok(outcome.results)
    }
}
