//! The stream operator: rows and watermarks in, windows out as they become final (Traub et al. 2019, §5.3).
//!
//! | | |
//! |---|---|
//! | needs | functions that commute, if rows come out of order; windows that are context free, or sessions |
//! | time | a comparison per row, or less: rows in order are folded slice by slice; O(log n) per window beside the combinations |
//! | space | slices that some window or row to come may need; no rows |
//! | first appeared | Traub et al., EDBT 2019; with the watermarks of Akidau et al., *The Dataflow Model*, VLDB 2015 |
//!
//! The pipeline of the paper: the stream slicer is [`Cutter`], the slice manager [`Timelines`] with [`Store`], and the
//! window manager is here with `listing`. A call first does all that can fail and then all that cannot, so that a call
//! that fails leaves the operator as it was.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;

use super::bounded::{Columns, out_of_bounds};
use super::late::{Late, Reason};
use super::listing::{Found, Span, session_at, sessions, sliding, sliding_changed};
use super::output::lowered;
use super::plan::{Plan, extent_fields};
use super::queries::{Asked, Queries};
use crate::aggregate::Partials;
use crate::dictionary::plain;
use crate::kernels::Ranges;
use crate::keys::KeyIndex;
use crate::slice::strategy::{Order, Strategy};
use crate::slice::{Calendar, Cell, Cutter, Delta, Keys, Store, Timelines, Wanted};
use crate::window::{Measure, Window};
use crate::{Error, Result};

/// Rows that go through slicer and partials at a time: their columns stay in the cache.
const CHUNK_ROWS: usize = 16_384;

/// Keys without slices that may gather before they are forgotten.
const IDLE_KEYS: usize = 4096;

/// How a stream comes, and how long it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether rows may come out of order.
    pub order: Order,
    /// For how long after its end a window is mended when rows come late, in units of the measure.
    pub allowed_lateness: i64,
    /// The watermark follows the latest row at this distance, if at all.
    pub disorder: Option<i64>,
}

/// What an operator holds and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys with slices.
    pub keys: usize,
    /// Slices with rows.
    pub slices: usize,
    /// Rows kept.
    pub rows_kept: usize,
    /// Bytes of slices and partials.
    pub bytes: usize,
    /// Rows taken in.
    pub rows: u64,
    /// Slices cut in two.
    pub splits: u64,
    /// Slices made one.
    pub merges: u64,
    /// Slices computed anew from rows.
    pub recomputations: u64,
    /// Rows that came too late or without a time.
    pub late: u64,
    /// Windows handed out.
    pub windows: u64,
    /// Those of them that were updates.
    pub updates: u64,
}

/// A session that a late row opened again: handed out once more when it is over, as an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reopened {
    pub(super) query: usize,
    pub(super) window: usize,
    pub(super) key: u32,
    /// A time within it.
    pub(super) at: i64,
}

/// A length in units of the measure: `length` is in nanoseconds if `is_time`, else in units of an integer column.
///
/// # Errors
/// `InvalidType` for a duration of an integer column and the other way round; `InvalidValue` for a length below zero, too
/// long, or finer than the measure.
pub fn length(measure: &Measure, argument: &str, length: i128, is_time: bool) -> Result<i64> {
    let column = measure.column();
    let units = match (is_time, measure.nanos_per_unit()) {
        (true, None) => {
            return Err(Error::InvalidType(format!(
                "{argument}: it is a duration, but column '{column}' is an integer; allowed are integers"
            )));
        }
        (false, Some(_)) if length != 0 => {
            return Err(Error::InvalidType(format!(
                "{argument}: it is an integer, but column '{column}' counts {}; allowed are durations such as \
                 '10 minutes'",
                measure.unit_name()
            )));
        }
        (_, nanos) => i128::from(nanos.unwrap_or(1)),
    };
    if length % units != 0 {
        return Err(Error::InvalidValue(format!(
            "{argument}: it is finer than column '{column}', which counts {}; allowed are multiples of its unit",
            measure.unit_name()
        )));
    }
    i64::try_from(length / units).ok().filter(|length| (0..1 << 61).contains(length)).ok_or_else(|| {
        Error::InvalidValue(format!(
            "{argument}: {} {} are out of range; allowed are lengths from 0 and below 2^61",
            length / units,
            measure.unit_name()
        ))
    })
}

/// The stream operator.
pub struct Stream {
    pub(super) options: Options,
    pub(super) queries: Queries,
    strategy: Strategy,
    pub(super) keys: KeyIndex,
    /// The keys as columns, as many as there were when they were last asked for.
    key_columns: Option<(usize, Vec<ArrayRef>)>,
    pub(super) slices: Timelines,
    pub(super) store: Store,
    cutter: Cutter,
    /// Where slices are cut; the cutter's also has panes as wide as the least gap.
    calendar: Calendar,
    pub(super) watermark: Option<i64>,
    /// The time of the latest row.
    pub(super) latest: Option<i64>,
    pub(super) closed: bool,
    pub(super) late: Late,
    pub(super) reopened: Vec<Reopened>,
    pub(super) counts: Stats,
    ids: Vec<u32>,
}

/// A window on its way out.
#[derive(Debug, Clone, Copy)]
struct Due {
    window: usize,
    key: u32,
    found: Found,
    update: bool,
}

/// What a call did beside adding slices, to be kept if it does not fail.
struct Outcome {
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

    pub(super) fn with(queries: Queries, options: Options) -> Result<Self> {
        if options.order == Order::InOrder && options.allowed_lateness != 0 {
            return Err(Error::InvalidValue(format!(
                "allowed_lateness: {} is given for a stream in order, where no row is late; it is for \
                 order='out-of-order'",
                options.allowed_lateness
            )));
        }
        let strategy = checked_strategy(&queries, options.order)?;
        let leader = queries.leader();
        let types = leader.by().iter().map(|&column| leader.input().field(column).data_type().clone());
        let (calendar, cutter) = calendars(&queries);
        Ok(Self {
            options,
            strategy,
            keys: KeyIndex::new(types.collect())?,
            key_columns: None,
            slices: Timelines::default(),
            store: Store::new(queries.columns(None, 0)?, 0),
            cutter,
            calendar,
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
        batches.iter().try_for_each(|batch| self.check_schema(batch))?;
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
        if let Some(last) = self.watermark.filter(|&last| watermark < last) {
            return Err(Error::InvalidValue(format!(
                "watermark: {watermark} is before the last one, {last} (both in {} of '{}'); a watermark never goes \
                 back",
                self.queries.leader().measure().unit_name(),
                self.queries.leader().measure().column()
            )));
        }
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
        self.closed = true;
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
            bytes: self.slices.bytes() + self.store.bytes(),
            merges: self.slices.merges(),
            late: self.late.count(),
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
        self.change(self.queries.without(name)?)?;
        self.reopened.retain(|reopened| Some(reopened.query) != gone);
        for reopened in &mut self.reopened {
            reopened.query -= usize::from(gone.is_some_and(|gone| gone < reopened.query));
        }
        Ok(())
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let gap = self.queries.edges().gap();
        let (mut keys, mut times) = (Vec::new(), [const { Vec::new() }; 4]);
        for key in 0..self.slices.keys() as u32 {
            let slices = self.slices.of(key);
            for (at, slice) in slices.iter().enumerate() {
                let (mut start, end_of_slice) = self.calendar.slice_of(slice.first);
                let mut end = self.calendar.slice_of(slice.last).1.max(end_of_slice);
                if let Some(gap) = gap {
                    // A fragment begins with its session, or where a window cuts the session in two.
                    let joins = |a: i64, b: i64| b <= a.saturating_add(gap);
                    if at == 0 || !joins(slices[at - 1].last, slice.first) {
                        start = slice.first;
                    }
                    if slices.get(at + 1).is_none_or(|next| !joins(slice.last, next.first)) {
                        end = end.min(slice.last + gap);
                    }
                }
                keys.push(key);
                for (column, t) in times.iter_mut().zip([start, end, slice.first, slice.last]) {
                    column.push(t);
                }
            }
        }
        let leader = self.queries.leader();
        let names = leader.by().iter().map(|&column| leader.input().field(column).name().clone());
        let keys = UInt32Array::from(keys);
        let columns = self.keys.values()?.into_iter().map(|values| Ok(take(&values, &keys, None)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let mut columns: Vec<(String, ArrayRef)> = names.zip(columns).collect();
        for (name, times) in ["t_start", "t_end", "t_first", "t_last"].into_iter().zip(times) {
            columns.push((name.into(), leader.measure().array(times)?));
        }
        Ok(RecordBatch::try_from_iter(columns)?)
    }

    fn check_open(&self, call: &str) -> Result<()> {
        if self.closed {
            return Err(Error::InvalidValue(format!(
                "{call}: the operator is closed; nothing comes after close()"
            )));
        }
        Ok(())
    }

    fn check_schema(&self, batch: &RecordBatch) -> Result<()> {
        let (own, given) = (self.input().fields(), batch.schema_ref().fields());
        if own.len() != given.len() {
            return Err(Error::InvalidValue(format!(
                "batch: it has {} columns, and those before it {}; the schema of a stream does not change",
                given.len(),
                own.len()
            )));
        }
        for (own, given) in own.iter().zip(given) {
            if own.name() != given.name() || own.data_type() != given.data_type() {
                return Err(Error::InvalidType(format!(
                    "batch: its column '{}' of {} is '{}' of {} in those before it; the schema of a stream does not \
                     change",
                    given.name(),
                    given.data_type(),
                    own.name(),
                    own.data_type()
                )));
            }
        }
        Ok(())
    }

    /// Other queries, with the slices there are.
    fn change(&mut self, queries: Queries) -> Result<()> {
        let strategy = checked_strategy(&queries, self.options.order)?;
        let (mut calendar, cutter) = calendars(&queries);
        let partials = queries.columns(Some((&self.queries, self.store.partials())), self.slices.slots())?;
        self.store = Store::new(partials, self.slices.slots());
        self.slices.remerge(|t| calendar.slice_of(t), queries.edges().gap());
        (self.queries, self.strategy, self.calendar, self.cutter) = (queries, strategy, calendar, cutter);
        self.forget();
        Ok(())
    }

    /// Adds rows to slices, and lists what is due then.
    fn take_in(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        let mut late = Vec::new();
        let mut latest = self.latest;
        let mut rows = 0;
        let mut delta = self.store.delta();
        self.cutter.begin();
        for batch in batches {
            let (accepted, sorted) = self.accept(batch, &mut latest, &mut late)?;
            rows += accepted.num_rows() as u64;
            self.fold(&accepted, sorted, &mut delta)?;
        }
        delta.settle()?;
        let gap = self.queries.edges().gap();
        let mut reopened = Vec::new();
        let mut changed: Vec<(u32, i64)> = Vec::new();
        for &cell in self.cutter.cells() {
            if self.watermark.is_some_and(|watermark| cell.first < watermark) {
                changed.push((cell.key, cell.first));
                self.note_reopened(cell, &mut reopened);
            }
            self.slices.add(cell, self.calendar.slice_of(cell.first), gap);
        }
        self.keep_open(&mut reopened);
        changed.sort_unstable();
        let watermark = match (self.options.order, self.options.disorder, latest) {
            (Order::InOrder, _, Some(latest)) => Some(latest),
            (Order::OutOfOrder, Some(disorder), Some(latest)) => Some(latest.saturating_sub(disorder)),
            _ => None,
        };
        let mut due: Vec<Vec<Due>> = self.queries.asked().iter().map(|_| Vec::new()).collect();
        self.list_changed(&changed, &mut due);
        let mut outcome = self.with_due(watermark.max(self.watermark), due, &delta, reopened)?;
        (outcome.delta, outcome.late, outcome.latest, outcome.rows) = (Some(delta), late, latest, rows);
        Ok(outcome)
    }

    /// What is due once the watermark is there.
    fn moved(&mut self, watermark: Option<i64>) -> Result<Outcome> {
        let due = self.queries.asked().iter().map(|_| Vec::new()).collect();
        let delta = self.store.delta();
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
            self.forget();
        }
        self.tidy();
        Ok(outcome.results)
    }

    /// Forgets slices that no row and no window to come needs.
    fn forget(&mut self) {
        if let Some(cutoff) = self.cutoff() {
            self.slices.forget(cutoff, self.queries.widest_gap());
            let slices = &self.slices;
            let is_there =
                |known: &Reopened| slices.of(known.key).first().is_some_and(|slice| slice.first <= known.at);
            self.reopened.retain(is_there);
        }
    }

    /// Moves slots together, and forgets keys, once that is worth it.
    fn tidy(&mut self) {
        if self.store.is_loose(&self.slices) {
            // A user's function that fails here fails again where a window needs it, in the call that asks for that.
            let _ = self.store.compact(&mut self.slices);
        }
        let known = self.keys.len();
        if known > IDLE_KEYS && self.slices.len() < known / 2 {
            self.drop_keys();
        }
    }

    /// Gives keys with slices new numbers, and forgets the others.
    fn drop_keys(&mut self) {
        let leader = self.queries.leader();
        let types = leader.by().iter().map(|&column| leader.input().field(column).data_type().clone());
        let kept: Vec<u32> =
            (0..self.slices.keys() as u32).filter(|&key| !self.slices.of(key).is_empty()).collect();
        let renewed = || -> Result<KeyIndex> {
            let kept = UInt32Array::from(kept.clone());
            let columns = self.plain_keys()?.into_iter().map(|values| Ok(take(&values, &kept, None)?));
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            let (mut keys, mut ids) = (KeyIndex::new(types.collect())?, Vec::new());
            keys.assign(&columns, kept.len(), &mut ids)?;
            match ids.iter().copied().eq(0..kept.len() as u32) {
                true => Ok(keys),
                false => Err(Error::Internal("keys in their order have other numbers".into())),
            }
        };
        // Keys that once were assigned can be assigned again; should they not, they stay as they are.
        let Ok(keys) = renewed() else { return };
        let numbers = self.slices.drop_keys();
        self.keys = keys;
        self.key_columns = None;
        self.reopened.retain_mut(|reopened| match numbers[reopened.key as usize] {
            Some(number) => {
                reopened.key = number;
                true
            }
            None => false,
        });
    }

    /// The least time of a row that is taken: that of the earliest window, as a row alone would open it, which has not
    /// expired. None while every row is taken.
    ///
    /// A session that takes a row then is there as a whole: it ends at or after this, and such ones are kept.
    pub(super) fn cutoff(&self) -> Option<i64> {
        let (least, most) = self.queries.edges().bounds();
        let horizon = self.watermark?.saturating_sub(self.options.allowed_lateness);
        let alive = |asked: &Asked, window: &Window| {
            let alive = match window {
                // Windows that end after the horizon.
                Window::Sliding(sliding) => {
                    if horizon > most {
                        i64::MAX
                    } else {
                        sliding.first_covering(horizon.max(least))
                    }
                }
                // A session is over once the watermark has passed its end.
                Window::Session(session) => horizon.saturating_sub(session.gap()),
            };
            asked.since.map_or(alive, |since| alive.max(since.saturating_add(1)))
        };
        let windows = self.queries.asked().iter();
        windows
            .flat_map(|asked| asked.plan.windows().iter().map(move |(_, window)| alive(asked, window)))
            .min()
    }

    /// The rows of a batch that windows take, and whether they are in order; the others go to `late`.
    fn accept(
        &self,
        batch: &RecordBatch,
        latest: &mut Option<i64>,
        late: &mut Vec<RecordBatch>,
    ) -> Result<(RecordBatch, bool)> {
        let leader = self.queries.leader();
        let mut accepted = batch.clone();
        let time = batch.column(leader.time());
        if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            let valid = BooleanArray::new(nulls.inner().clone(), None);
            let null = BooleanArray::new(!nulls.inner(), None);
            late.push(self.late.batch(&filter_record_batch(batch, &null)?, Reason::NullTime)?);
            accepted = filter_record_batch(batch, &valid)?;
        }
        let times = leader.measure().read(accepted.column(leader.time()))?;
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return Ok((accepted, true)) };
        let (mut least, mut most) = (first, last);
        let sorted = times.is_sorted();
        if !sorted {
            (least, most) =
                times.iter().fold((first, first), |(least, most), &t| (least.min(t), most.max(t)));
        }
        if self.options.order == Order::InOrder {
            self.check_order(&times, sorted, (*latest).max(self.watermark))?;
        }
        let bounds = self.queries.edges().bounds();
        if let Some(&outside) = [least, most].iter().find(|&&t| t < bounds.0 || t > bounds.1) {
            return Err(out_of_bounds(leader, outside));
        }
        *latest = Some(most).max(*latest);
        if let Some(cutoff) = self.cutoff().filter(|&cutoff| least < cutoff) {
            let taken = BooleanBuffer::collect_bool(times.len(), |row| times[row] >= cutoff);
            let refused = BooleanArray::new(!&taken, None);
            late.push(self.late.batch(&filter_record_batch(&accepted, &refused)?, Reason::TooLate)?);
            accepted = filter_record_batch(&accepted, &BooleanArray::new(taken, None))?;
        }
        Ok((accepted, sorted))
    }

    /// Refuses rows that step back.
    fn check_order(&self, times: &[i64], sorted: bool, last: Option<i64>) -> Result<()> {
        let first = last.filter(|&last| times[0] < last).map(|last| (0, last));
        let back = first.or_else(|| {
            (!sorted)
                .then(|| times.windows(2).position(|pair| pair[1] < pair[0]).unwrap_or(0) + 1)
                .map(|row| (row, times[row - 1]))
        });
        match back {
            None => Ok(()),
            Some((row, before)) => Err(Error::InvalidValue(format!(
                "batch: row {row} has time {} in column '{}', which is before {before}, the latest so far; rows come \
                 in order unless order='out-of-order' is given",
                times[row],
                self.queries.leader().measure().column()
            ))),
        }
    }

    /// Folds rows into the call's cells.
    fn fold(&mut self, batch: &RecordBatch, sorted: bool, delta: &mut Delta) -> Result<()> {
        let columns = Columns::of(self.queries.leader(), self.queries.stored(), batch)?;
        let rows = columns.times.len();
        let one_key = columns.keys.is_empty();
        if one_key {
            self.ids.clear();
            self.keys.assign(&[], rows.min(1), &mut self.ids)?;
        }
        for from in (0..rows).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(rows - from);
            let times = &columns.times[from..from + rows];
            let mut keys = Keys::One(0);
            if !one_key {
                self.ids.clear();
                let own: Vec<ArrayRef> = columns.keys.iter().map(|key| key.slice(from, rows)).collect();
                self.keys.assign(&own, rows, &mut self.ids)?;
                let first = self.ids[0];
                let same = self.ids.iter().all(|&id| id == first);
                keys = if same { Keys::One(first) } else { Keys::Each(&self.ids) };
            }
            self.cutter.cut(times, keys, self.keys.len(), sorted || times.is_sorted());
            let inputs: Vec<_> = columns.inputs.iter().map(|input| input.slice(from, rows)).collect();
            delta.update(&inputs, times, &self.cutter.rows(), self.cutter.cells().len())?;
        }
        Ok(())
    }

    /// Notes sessions that were handed out and that a late cell, not added yet, joins.
    fn note_reopened(&self, cell: Cell, reopened: &mut Vec<Reopened>) {
        let (Some(watermark), slices) = (self.watermark, self.slices.of(cell.key)) else { return };
        let after = slices.partition_point(|slice| slice.first <= cell.first);
        for (query, asked) in self.queries.asked().iter().enumerate() {
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                let Window::Session(session) = kind else { continue };
                let near = [after.checked_sub(1), (after < slices.len()).then_some(after)];
                for at in near.into_iter().flatten() {
                    let slice = slices[at];
                    if session.joins(slice.last, cell.first) && session.joins(cell.last, slice.first) {
                        let from = asked.first_place(slices);
                        if at >= from && session_at(session, slices, from, at).end < watermark {
                            reopened.push(Reopened { query, window, key: cell.key, at: slice.first });
                        }
                    }
                }
            }
        }
    }

    /// Leaves those sessions that late rows opened again indeed: others are handed out at once.
    fn keep_open(&self, reopened: &mut Vec<Reopened>) {
        reopened.sort_unstable();
        reopened.dedup();
        reopened.retain(|known| {
            let (_, window) = &self.queries.asked()[known.query].plan.windows()[known.window];
            let slices = self.slices.of(known.key);
            let at = slices.partition_point(|slice| slice.first <= known.at).checked_sub(1);
            match (window, at) {
                (Window::Session(session), Some(at)) => {
                    let from = self.queries.asked()[known.query].first_place(slices);
                    at >= from && Some(session_at(session, slices, from, at).end) >= self.watermark
                }
                _ => false,
            }
        });
    }

    /// Windows that were final and that late rows changed: `changed` has their keys and times, ascending.
    fn list_changed(&self, changed: &[(u32, i64)], due: &mut [Vec<Due>]) {
        let Some(watermark) = self.watermark.filter(|_| !changed.is_empty()) else { return };
        let horizon = watermark.saturating_sub(self.options.allowed_lateness);
        let bounds = self.queries.edges().bounds();
        let mut times = Vec::new();
        for (query, asked) in self.queries.asked().iter().enumerate() {
            for (number, (_, window)) in asked.plan.windows().iter().enumerate() {
                for of_key in changed.chunk_by(|a, b| a.0 == b.0) {
                    let key = of_key[0].0;
                    let slices = self.slices.of(key);
                    times.clear();
                    times.extend(of_key.iter().map(|&(_, t)| t));
                    let mut add = |found| due[query].push(Due { window: number, key, found, update: true });
                    let span = Span { after: Some(horizon), upto: watermark, since: asked.since, bounds };
                    match window {
                        Window::Sliding(kind) => sliding_changed(kind, slices, &times, span, add),
                        Window::Session(session) => {
                            let from = asked.first_place(slices);
                            let mut done = from;
                            for &t in &times {
                                let after = slices.partition_point(|slice| slice.first <= t);
                                if after <= done {
                                    continue;
                                }
                                let found = session_at(session, slices, from, after - 1);
                                done = found.hi;
                                if horizon <= found.end && found.end < watermark {
                                    add(found);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Windows that become final as the watermark moves to `now`.
    fn list_due(&self, now: i64, due: &mut [Vec<Due>], reopened: &mut Vec<Reopened>) {
        let bounds = self.queries.edges().bounds();
        for (query, asked) in self.queries.asked().iter().enumerate() {
            let span = Span { after: self.watermark, upto: now, since: asked.since, bounds };
            for (number, (_, window)) in asked.plan.windows().iter().enumerate() {
                if let Window::Sliding(kind) = window
                    && !span.may_hold(kind)
                {
                    continue;
                }
                for key in 0..self.slices.keys() as u32 {
                    let slices = self.slices.of(key);
                    let mut add = |found, update| due[query].push(Due { window: number, key, found, update });
                    match window {
                        Window::Sliding(kind) => sliding(kind, slices, span, |found| add(found, false)),
                        Window::Session(session) => {
                            sessions(session, slices, asked.first_place(slices), span, |found| {
                                let before = reopened.len();
                                reopened.retain(|other| {
                                    (other.query, other.window, other.key) != (query, number, key)
                                        || !(found.start..found.end).contains(&other.at)
                                });
                                add(found, reopened.len() < before);
                            })
                        }
                    }
                }
            }
        }
    }

    /// The results for windows that are due, query by query.
    fn answer(&mut self, due: Vec<Vec<Due>>, delta: &Delta) -> Result<Vec<RecordBatch>> {
        if due.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        // The slices of each key that some window needs, one key after the other.
        let mut needed = vec![(usize::MAX, 0); self.slices.keys()];
        for due in due.iter().flatten() {
            let (lo, hi) = &mut needed[due.key as usize];
            (*lo, *hi) = (due.found.lo.min(*lo), due.found.hi.max(*hi));
        }
        let (mut wanted, mut places, mut slices) = (Vec::new(), vec![0; needed.len()], 0);
        for (key, &(lo, hi)) in needed.iter().enumerate().filter(|(_, (lo, hi))| lo < hi) {
            wanted.push(Wanted { key: key as u32, slices: lo..hi });
            // May be below zero on the way: it is the place of slice 0.
            places[key] = slices as i64 - lo as i64;
            slices += hi - lo;
        }
        if u32::try_from(slices).is_err() {
            return Err(Error::InvalidValue(format!(
                "watermark: {slices} slices are due at once; at most {} can be, so advance in smaller steps",
                u32::MAX
            )));
        }
        let mut which: Vec<usize> = Vec::new();
        for (asked, _) in self.queries.asked().iter().zip(&due).filter(|(_, due)| !due.is_empty()) {
            which.extend(&asked.partials);
        }
        which.sort_unstable();
        which.dedup();
        let gathered = self.store.gather(delta, &self.slices, &wanted, &which)?;
        let mut partials: Vec<Option<&dyn Partials>> = vec![None; self.queries.stored().len()];
        for (&at, gathered) in which.iter().zip(&gathered) {
            partials[at] = Some(gathered.as_ref());
        }
        let range = |due: &Due| {
            let place = places[due.key as usize];
            ((place + due.found.lo as i64) as u32, (place + due.found.hi as i64) as u32)
        };
        let keys = self.key_columns()?;
        let mut results = Vec::new();
        for (query, due) in due.iter().enumerate() {
            let own = &self.queries.asked()[query].partials;
            let own: Vec<&dyn Partials> = own.iter().filter_map(|&at| partials[at]).collect();
            for due in batches(due, slices, range) {
                let answers = answers(&own, due, range)?;
                let answers: Vec<&dyn Partials> = answers.iter().map(AsRef::as_ref).collect();
                let aggregates = lowered(&self.queries.asked()[query].plan, &answers)?;
                results.push(self.batch(query, due, &keys, aggregates)?);
            }
        }
        Ok(results)
    }

    fn batch(
        &self,
        query: usize,
        due: &[Due],
        keys: &[ArrayRef],
        lowered: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let ids: UInt32Array = due.iter().map(|due| due.key).collect();
        let keys =
            keys.iter().map(|values| take(values, &ids, None)).collect::<std::result::Result<_, _>>()?;
        let measure = self.queries.leader().measure();
        let starts = measure.array(due.iter().map(|due| due.found.start).collect())?;
        let ends = measure.array(due.iter().map(|due| due.found.end).collect())?;
        let extents = Arc::new(StructArray::try_new(extent_fields(measure), vec![starts, ends], None)?);
        let which: Vec<u32> = due.iter().map(|due| due.window as u32).collect();
        let updates: BooleanArray = due.iter().map(|due| Some(due.update)).collect();
        self.queries.batch(query, keys, extents, &which, lowered, updates)
    }

    /// The keys as columns, in the order of their numbers, not as dictionaries: those are numbered by their values.
    pub(super) fn plain_keys(&self) -> Result<Vec<ArrayRef>> {
        let decoded = |values: ArrayRef| match plain(values.data_type()) {
            kind if kind == values.data_type() => Ok(values),
            kind => Ok(cast(&values, kind)?),
        };
        self.keys.values()?.into_iter().map(decoded).collect()
    }

    /// The keys as columns.
    fn key_columns(&mut self) -> Result<Vec<ArrayRef>> {
        let len = self.keys.len();
        if let Some((known, columns)) = &self.key_columns
            && *known == len
        {
            return Ok(columns.clone());
        }
        let columns = self.keys.values()?;
        self.key_columns = Some((len, columns.clone()));
        Ok(columns)
    }
}

/// Whether a range may come after another, both ends not before its.
fn follows(before: (u32, u32), after: (u32, u32)) -> bool {
    before.0 <= after.0 && before.1 <= after.1
}

/// Windows of one query whose partials are answered together: all of them, or those of one window type. Which is less
/// work follows from how many types, slices and windows there are.
fn batches(due: &[Due], slices: usize, range: impl Fn(&Due) -> (u32, u32)) -> Vec<&[Due]> {
    let types: Vec<&[Due]> = due.chunk_by(|a, b| follows(range(a), range(b))).collect();
    let height = (usize::BITS - slices.leading_zeros()) as usize;
    // Type by type each goes over its slices; together there is one tree over the slices, of which a window asks its
    // height, twice.
    if types.len() * slices > slices + 2 * height * due.len() && !due.is_empty() { vec![due] } else { types }
}

/// The partials of these windows.
fn answers(
    partials: &[&dyn Partials],
    due: &[Due],
    range: impl Fn(&Due) -> (u32, u32),
) -> Result<Vec<Box<dyn Partials>>> {
    let pairs: Vec<(u32, u32)> = due.iter().map(range).collect();
    let in_order = pairs.is_sorted_by(|&a, &b| follows(a, b));
    let ranges = |pairs: &[(u32, u32)]| {
        let mut ranges = Ranges::with_capacity(pairs.len());
        pairs.iter().for_each(|&(lo, hi)| ranges.push(lo, hi));
        ranges
    };
    let answer = |partials: &&dyn Partials| {
        if in_order {
            return partials.answer(&ranges(&pairs));
        }
        if let Some(answer) = partials.answer_any(&pairs) {
            return Ok(answer);
        }
        // Window type by window type, in the order they are listed.
        let mut all = partials.empty();
        for pairs in pairs.chunk_by(|&a, &b| follows(a, b)) {
            all.append(partials.answer(&ranges(pairs))?);
        }
        Ok(all)
    };
    partials.iter().map(answer).collect()
}

fn checked_strategy(queries: &Queries, order: Order) -> Result<Strategy> {
    let strategy = queries.strategy(order)?;
    if strategy.keep_rows.answer {
        return Err(Error::InvalidValue(format!(
            "query: rows would have to be kept, as {} ({}), which this operator does not do",
            strategy.keep_rows.because, strategy.keep_rows.source
        )));
    }
    Ok(strategy)
}

/// Where slices are cut, and what cuts rows.
fn calendars(queries: &Queries) -> (Calendar, Cutter) {
    let edges = queries.edges();
    // What was there when a query came is none of its: no slice has rows of before and after.
    let cuts: Vec<i64> =
        queries.asked().iter().filter_map(|asked| asked.since).map(|since| since.saturating_add(1)).collect();
    let calendar = Calendar::new(edges.families().to_vec(), cuts.clone(), edges.bounds());
    (calendar, Cutter::new(Calendar::new(edges.panes(), cuts, edges.bounds())))
}
