//! An operator over a stream with all its queries: those that slices answer, and those that need rows.
//!
//! Which one a query is follows from the decision tree of Traub et al. (2019, Fig. 4) and from its windows. Both parts see
//! every row and every watermark, and a call takes place in both or in none. So a query that needs rows costs the others
//! nothing, and once it is gone its rows are, too.

mod changing;
mod late;
mod punctuating;
mod snapshot;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;

use super::keeping::{Keeper, Outcome};
use super::plan::Plan;
use super::stream::{
    self, Entry, Late, Options, Queries, Stats, Stream, check_open, check_schema, check_watermark, strategy,
};
use crate::slice::strategy::{Order, Strategy};
use crate::{Error, Result};

/// A stream operator.
pub struct Running {
    options: Options,
    /// All queries in the order they came; `own` are those that slices answer.
    entries: Vec<Entry>,
    /// Whether there ever was more than one.
    several: bool,
    strategy: Strategy,
    sliced: Option<Stream>,
    kept: Option<Keeper>,
    /// Late rows, but those that the part of slices knows of.
    late: Late,
    /// What parts that are gone did, and rows that both parts took.
    past: Stats,
    closed: bool,
}

/// Whether slices answer a query: no window is told by rows, and no function needs them in order.
fn is_sliced(plan: &Plan, order: Order) -> Result<bool> {
    Ok(!plan.needs_rows() && !strategy(std::iter::once(plan), order)?.keep_rows.answer)
}

impl Running {
    /// An operator for these queries, which are bound to one schema.
    ///
    /// # Errors
    /// `InvalidValue` if they have different keys or time columns, or columns of one name and different types.
    pub fn new(queries: Vec<(String, Arc<Plan>)>, options: Options) -> Result<Self> {
        let entries = queries.into_iter().map(|(name, plan)| {
            let own = is_sliced(&plan, options.order)?;
            Ok(Entry { name, plan, since: None, own })
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = entries.len() > 1;
        Self::with(entries, several, options, (None, None))
    }

    /// An operator whose stream has come so far.
    fn with(
        entries: Vec<Entry>,
        several: bool,
        options: Options,
        reached: (Option<i64>, Option<i64>),
    ) -> Result<Self> {
        options.check()?;
        let (sliced, kept) = parts(&entries, several)?;
        let sliced = sliced.map(|queries| Stream::part(queries, options, reached)).transpose()?;
        let kept = kept.map(|queries| Keeper::new(queries, options, reached)).transpose()?;
        let Some(leader) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), options.order)?;
        let late = Late::new(leader.plan.input());
        let past = Stats::default();
        Ok(Self { options, entries, several, strategy, sliced, kept, late, past, closed: false })
    }

    /// The schema of results: keys, `query_name` once there was more than one query, `window_name` if a query has more
    /// than one window, the window, `window_rows` if a window is measured by rows, `window_number` if one is told by rows,
    /// all queries' aggregates, and `update`.
    pub fn schema(&self) -> &SchemaRef {
        self.queries().schema()
    }

    /// The queries of one of the parts, and with them all.
    fn queries(&self) -> &Queries {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.queries(),
            (None, Some(kept)) => kept.queries(),
            (None, None) => unreachable!("an operator has at least one query"),
        }
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

    /// How the stream comes.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Whether [`Running::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The names of the queries that rows are kept for.
    pub fn keeping(&self) -> Vec<&str> {
        self.entries.iter().filter(|entry| !entry.own).map(|entry| entry.name.as_str()).collect()
    }

    /// How slices are held, and why; none if there are only slices with rows.
    pub fn store_told(&self) -> Option<(&'static str, &'static str)> {
        self.sliced.as_ref().map(Stream::store_told)
    }

    /// How far the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.watermark(),
            (None, kept) => kept.as_ref().and_then(Keeper::watermark),
        }
    }

    fn latest(&self) -> Option<i64> {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.latest(),
            (None, kept) => kept.as_ref().and_then(Keeper::latest),
        }
    }

    /// See [`Stream::push`].
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.check_open("push")?;
        if let (Some(sliced), None) = (&mut self.sliced, &self.kept) {
            return sliced.push(batches);
        }
        let input = self.input().clone();
        batches.iter().try_for_each(|batch| check_schema(&input, batch))?;
        let (late, taken) = self.late_of(batches)?;
        let results = self.both(|kept| kept.take_in(batches), |sliced| sliced.try_push(batches))?;
        self.late.add(late);
        self.past.rows += taken;
        Ok(results)
    }

    /// See [`Stream::advance`].
    ///
    /// # Errors
    /// As [`Stream::advance`].
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.check_open("advance")?;
        check_watermark(self.leader().measure(), self.watermark(), watermark)?;
        let watermark = Some(watermark);
        self.both(|kept| kept.moved(watermark, false), |sliced| sliced.try_move(watermark))
    }

    /// Ends the stream: hands out all windows that are left.
    ///
    /// # Errors
    /// As [`Stream::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.check_open("close")?;
        if let (Some(sliced), None) = (&mut self.sliced, &self.kept) {
            let results = sliced.close()?;
            self.closed = true;
            return Ok(results);
        }
        let end = Some(i64::MAX);
        let results = self.both(|kept| kept.moved(end, true), |sliced| sliced.try_move(end))?;
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        if let Some(sliced) = &mut self.sliced {
            sliced.end();
        }
        self.closed = true;
        Ok(results)
    }

    /// Tries a call in both parts, and keeps it if neither fails.
    fn both(
        &mut self,
        in_kept: impl FnOnce(&mut Keeper) -> Result<Outcome>,
        in_sliced: impl FnOnce(&mut Stream) -> Result<stream::Outcome>,
    ) -> Result<Vec<RecordBatch>> {
        let base = self.kept.as_ref().map_or(0, Keeper::next);
        let kept = self.kept.as_mut().map(in_kept).transpose();
        let sliced = match &kept {
            Ok(_) => self.sliced.as_mut().map(in_sliced).transpose(),
            Err(error) => Err(error.clone()),
        };
        let failed = kept.as_ref().err().or(sliced.as_ref().err()).cloned();
        let kept = match failed.clone() {
            Some(error) => Some(Err(error)),
            None => kept?.map(Ok),
        };
        let sliced = match failed.clone() {
            Some(error) => Some(Err(error)),
            None => sliced?.map(Ok),
        };
        let mut results = Vec::new();
        let mut done = Ok(());
        if let (Some(part), Some(outcome)) = (&mut self.sliced, sliced) {
            done = done.and(part.keep(outcome).map(|own| results.extend(own)));
        }
        if let (Some(part), Some(outcome)) = (&mut self.kept, kept) {
            done = done.and(part.finish(outcome, base).map(|own| results.extend(own)));
        }
        done.and(failed.map_or(Ok(results), Err))
    }

    /// What the operator holds and did.
    pub fn stats(&self) -> Stats {
        let none = Stats::default;
        let sliced = self.sliced.as_ref().map_or_else(none, Stream::stats);
        let kept = self.kept.as_ref().map_or_else(none, Keeper::stats);
        Stats {
            keys: sliced.keys.max(kept.keys),
            slices: sliced.slices + kept.slices,
            rows_kept: kept.rows_kept,
            bytes: sliced.bytes + kept.bytes,
            late: self.late.count() + sliced.late,
            late_bytes: self.late.bytes() + sliced.late_bytes,
            rows: self.past.rows + sliced.rows,
            ..added(added(self.past, sliced), kept)
        }
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`; those that rows are kept of come last.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let mut all = Vec::new();
        if let Some(part) = &mut self.sliced {
            all.push(part.slices()?);
        }
        if let Some(part) = &mut self.kept {
            all.push(part.slices()?);
        }
        match &all[..] {
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &all)?),
            [] => Err(Error::Internal("an operator without queries".into())),
        }
    }

    fn check_open(&self, call: &str) -> Result<()> {
        check_open(self.closed, call)
    }
}

/// The queries of each part, if it has any.
#[allow(clippy::type_complexity, reason = "a name would not say more than the pair")]
fn parts(entries: &[Entry], several: bool) -> Result<(Option<Queries>, Option<Queries>)> {
    // Whatever is wrong with the queries is wrong with all of them together.
    let of = |sliced: bool| {
        let own = entries.iter().cloned().map(|entry| Entry { own: entry.own == sliced, ..entry });
        Queries::among(own.collect(), several)
    };
    let some = |queries: Queries| (!queries.asked().is_empty()).then_some(queries);
    Ok((some(of(true)?), some(of(false)?)))
}

/// What two parts did, together; what they hold, and rows and late rows, are left as of the first.
fn added(a: Stats, b: Stats) -> Stats {
    Stats {
        splits: a.splits + b.splits,
        merges: a.merges + b.merges,
        shifts: a.shifts + b.shifts,
        recomputations: a.recomputations + b.recomputations,
        windows: a.windows + b.windows,
        updates: a.updates + b.updates,
        ..a
    }
}
