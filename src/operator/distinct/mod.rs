//! Elimination of duplicates in a stream whose rows come in any order: DupElim (Li 2008, §8.2).
//!
//! | | |
//! |---|---|
//! | needs | rows in any order, and now and then how far the stream, or a key, is complete, by a watermark or by its rows |
//! | time | O(1) amortised a row that comes in order of its key's times, O(log n) among n held rows of the key |
//! | space | rows up to which the stream is not complete, and a time for each key that has had rows lately |
//! | first appeared | Li, *Window Queries over Data Streams*, 2008, §8.2 |
//!
//! A row is a duplicate if a row of its key is at most so far before it in time, or at its time and came earlier: any such
//! row, or one that is no duplicate ([`Per`]). So which rows are duplicates does not depend on the order in which they come,
//! except among rows of one time. Once the stream is complete up to a row's time, it is known whether it is one, and all
//! that matters for those to come is the time of the last row of each key ([`Last`]).

mod last;
mod plan;
mod relief;
mod snapshot;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;

use self::last::Last;
pub use self::last::Per;
pub use self::plan::DistinctPlan;
use super::batching::{BATCH_ROWS, in_parts};
use super::call::all_or_nothing;
use super::held::{Address, Entry, KEYS, New, Store, check_open, forget};
use super::progress::{Ahead, Delay, Progress, followed, with_sources};
use super::shedding::{Drawn, Shed, ShedStats, Shedding, relieve};
use super::stream::{Late, Reason, Refused, check_watermark};
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::poll::sort_by_key;
use crate::select::{filter_record_batch, take, take_record_batch};
use crate::{Error, Result};

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub enum DistinctStep<'a> {
    /// Rows.
    Push(&'a [RecordBatch]),
    /// The stream is complete up to a time.
    Advance(i64),
    /// Its rows are complete up to a time that have the key in these columns of one row: group-wise punctuation.
    AdvanceKey(i64, &'a [ArrayRef]),
    /// The watermark follows the sources that are not silent by now.
    Follow,
    /// Wait for rows of the source that is named by the only row of a column, before any has come.
    AddSource(&'a ArrayRef),
    /// Wait no longer for rows of such a source.
    EndSource(&'a ArrayRef),
    /// Hand out late rows.
    TakeLate,
    /// The stream has ended.
    Close,
}

/// The options of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct DistinctOptions {
    /// How the watermark follows rows, if it does.
    pub progress: Option<Delay>,
    /// How many late rows are held until they are collected; any number if `None`.
    pub late_limit: Option<u64>,
    /// How much memory the state may take, if that is limited: then keys are dropped.
    pub shed: Option<Shed>,
}

/// What an operator holds, and what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistinctStats {
    /// Keys that it knows.
    pub keys: usize,
    /// Rows that are held.
    pub held: usize,
    /// Bytes of these, and of keys.
    pub bytes: usize,
    /// Keys that are complete further than the stream.
    pub keys_ahead: usize,
    /// Rows that were pushed.
    pub rows: u64,
    /// Late rows among them.
    pub late: u64,
    /// Late rows that were dropped.
    pub dropped: u64,
    /// Rows of results.
    pub results: u64,
    /// What was dropped for want of memory.
    pub shed: ShedStats,
}

/// A stream without its duplicates.
pub struct DistinctStream {
    plan: Arc<DistinctPlan>,
    options: DistinctOptions,
    keys: KeyIndex,
    /// At how many keys it is looked for those that are not needed.
    full: usize,
    /// Rows of which it is not known yet whether they are duplicates.
    open: Store,
    last: Last,
    /// Keys that are complete further than the stream.
    ahead: Ahead,
    /// What was seen of the stream's sources, if the watermark follows them.
    progress: Option<Progress>,
    /// What was dropped for want of memory, if anything may be.
    shedding: Option<Shedding>,
    reached: Option<i64>,
    late: Late,
    closed: bool,
    /// Numbers rows in the order of arrival.
    next: u64,
    rows: u64,
    results: u64,
}

/// What a step changes when it is committed.
#[derive(Default)]
struct Attempted {
    /// Rows that are open.
    new: Vec<New>,
    refused: Refused,
    rows: u64,
    reached: Option<i64>,
    /// The only key that is complete up to a time.
    key_reached: Option<(u32, i64)>,
    /// The last row of a key that is dropped before its time.
    dropped: Option<(u32, Entry)>,
    takes_late: bool,
    is_end: bool,
    results: u64,
    next: u64,
    drawn: Drawn,
}

/// Rows of a batch, without those from the future, and those of keys that are dropped.
struct Part {
    rows: RecordBatch,
    columns: Vec<ArrayRef>,
    times: ScalarBuffer<i64>,
    /// Which rows have a time.
    timed: Option<NullBuffer>,
    keys: Vec<u32>,
}

/// A row that is decided on.
#[derive(Debug, Clone, Copy)]
struct Due {
    key: u32,
    place: i64,
    order: u64,
    at: Address,
}

impl Due {
    fn of(key: u32, &Entry { place, order, at, .. }: &Entry) -> Self {
        Self { key, place, order, at }
    }
}

impl DistinctStream {
    /// No rows yet.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` where keys cannot be dropped for want of memory, though they are to be.
    pub fn new(plan: Arc<DistinctPlan>, options: DistinctOptions) -> Result<Self> {
        let shedding = options.shed.map(|shed| relief::of_keys(shed, &plan)).transpose()?;
        Ok(Self {
            shedding,
            keys: plan.index()?,
            late: Late::new(&plan.input, false),
            progress: options.progress.map(|delay| Progress::new(delay, &plan.input)).transpose()?,
            plan,
            options,
            full: KEYS,
            open: Store::default(),
            last: Last::default(),
            ahead: Ahead::default(),
            reached: None,
            closed: false,
            next: 0,
            rows: 0,
            results: 0,
        })
    }

    /// The schema of results.
    pub fn schema(&self) -> &SchemaRef {
        let marked = self.shedding.as_ref().and_then(|shedding| shedding.schema.as_ref());
        marked.unwrap_or(&self.plan.output)
    }

    /// The schema of late rows.
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// The options of the stream.
    pub fn options(&self) -> DistinctOptions {
        self.options
    }

    /// Whether the stream has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Up to when the stream is complete: no result to come is before that.
    pub fn watermark(&self) -> Option<i64> {
        self.reached
    }

    /// Sets the clock: microseconds, which never decrease; see [`super::Operator::set_clock`].
    pub fn set_clock(&mut self, now: i64, has_waited: bool) {
        self.progress.iter_mut().for_each(|progress| progress.set_clock(now, has_waited));
    }

    /// What is known of the sources of the stream, if its watermark follows them.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows.
    pub fn progress(&self) -> Result<RecordBatch> {
        followed(&self.progress)?.table(&self.plan.input, &self.plan.measure)
    }

    /// The keys that are ahead of the stream, and in the last column up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub fn keys_ahead(&self) -> Result<RecordBatch> {
        let keys = self.plan.by.iter().map(|&column| self.plan.input.field(column));
        self.ahead.table(&self.keys, keys, &self.plan.measure)
    }

    /// What it holds and has done.
    pub fn stats(&self) -> DistinctStats {
        DistinctStats {
            keys: self.keys.len(),
            held: self.open.len(),
            bytes: self.keys.bytes() + self.open.bytes() + self.last.bytes() + self.ahead.bytes(),
            keys_ahead: self.ahead.len(),
            rows: self.rows,
            late: self.late.count(),
            dropped: self.late.dropped(),
            results: self.results,
            shed: self.shedding.as_ref().map(Shedding::dropped).unwrap_or_default(),
        }
    }

    /// Drops what the state holds too much of, if the last call may have led to that; every call begins with it, and so does
    /// whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        relieve(self)
    }

    /// Makes a call, which takes effect as a whole or not at all; returns the rows that are known to be no duplicates
    /// now, or late rows.
    ///
    /// # Errors
    /// `InvalidValue` once closed, and for a watermark before the last one, of the key if one is given; `InvalidType` for a
    /// batch of another schema.
    pub fn call(&mut self, step: DistinctStep<'_>) -> Result<Vec<RecordBatch>> {
        self.relieve()?;
        let results = all_or_nothing(self, |this| this.tried(step), Self::commit, Self::take_back)?;
        self.progress.iter_mut().for_each(Progress::tidy);
        Ok(results)
    }

    fn take_back(&mut self) {
        self.open.agenda.take_back();
        self.last.take_back();
        self.progress.iter_mut().for_each(Progress::take_back);
    }

    fn commit(&mut self, attempted: Attempted) {
        let Attempted {
            new,
            refused,
            rows,
            reached,
            key_reached,
            dropped,
            takes_late,
            is_end,
            results,
            next,
            drawn,
        } = attempted;
        new.into_iter().for_each(|new| self.open.add(new));
        if takes_late {
            self.late.take();
        }
        self.late.add(refused);
        if let Some((key, last)) = dropped {
            self.open.drop_first(key, &last);
        }
        if let Some((key, time)) = key_reached {
            self.ahead.set(key, time);
        }
        if reached > self.reached {
            self.reached = reached;
            reached.into_iter().for_each(|time| self.ahead.pass(time));
        }
        self.open.purge();
        self.last.keep();
        self.progress.iter_mut().for_each(Progress::commit);
        self.shedding.iter_mut().for_each(|shedding| shedding.drew(drawn));
        self.closed |= is_end;
        (self.rows, self.results, self.next) = (self.rows + rows, self.results + results, next);
    }

    fn tried(&mut self, step: DistinctStep<'_>) -> Result<(Attempted, Vec<RecordBatch>)> {
        let (mut attempted, mut results) =
            (Attempted { next: self.next, ..Attempted::default() }, Vec::new());
        if let DistinctStep::TakeLate = step {
            attempted.takes_late = true;
            return Ok((attempted, self.late.batches().to_vec()));
        }
        check_open(self.closed)?;
        match step {
            DistinctStep::Push(batches) => self.push(batches, &mut attempted, &mut results)?,
            DistinctStep::Advance(time) => {
                check_watermark(&self.plan.measure, self.reached, time)?;
                self.advance(Some(time), &mut attempted, &mut results)?;
            }
            DistinctStep::AdvanceKey(time, key) => {
                self.advance_key(time, key, &mut attempted, &mut results)?;
            }
            DistinctStep::Follow => {
                let reached = followed(&self.progress)?.watermark(self.reached)?;
                self.advance(reached, &mut attempted, &mut results)?;
            }
            DistinctStep::AddSource(name) => with_sources(&mut self.progress)?.add_source(name)?,
            DistinctStep::EndSource(name) => {
                let progress = with_sources(&mut self.progress)?;
                progress.end_source(name)?;
                let reached = progress.watermark(self.reached)?;
                self.advance(reached, &mut attempted, &mut results)?;
            }
            DistinctStep::Close | DistinctStep::TakeLate => {
                attempted.is_end = true;
                let due = self.due(Some(i64::MAX))?;
                self.decide(due, &[], &mut results)?;
            }
        }
        if let Some(shedding) = &self.shedding {
            results = results.into_iter().map(|batch| shedding.marked(batch)).collect::<Result<_>>()?;
        }
        attempted.results = results.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok((attempted, results))
    }
}

impl DistinctStream {
    fn push(
        &mut self,
        batches: &[RecordBatch],
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        self.tidy()?;
        let plan = self.plan.clone();
        batches.iter().try_for_each(|batch| plan.check(batch))?;
        let mut late = Vec::new();
        let parts: Vec<Part> =
            batches.iter().map(|batch| self.part(batch, attempted, &mut late)).collect::<Result<_>>()?;
        let all: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        attempted.rows = all - attempted.drawn.shed;
        let reached = match &self.progress {
            Some(progress) => progress.watermark(self.reached)?,
            None => self.reached,
        };
        attempted.reached = reached;
        let (mut due, mut pace) = (Vec::new(), Pace::new());
        for (part, number) in parts.iter().zip(self.open.next_chunk() as u32..) {
            let (mut refused, mut untimed, mut stored, mut entries) = (vec![], vec![], vec![], vec![]);
            let chunk = (self.open.next_chunk() + attempted.new.len()) as u32;
            for (row, (&key, &place)) in part.keys.iter().zip(part.times.iter()).enumerate() {
                pace.check(1)?;
                let own = row as u32;
                if part.timed.as_ref().is_some_and(|timed| timed.is_null(row)) {
                    untimed.push(own);
                    continue;
                }
                let mark = self.ahead.of(key);
                if self.reached.max(mark).is_some_and(|reached| place < reached) {
                    refused.push(own);
                    continue;
                }
                let order = attempted.next;
                attempted.next += 1;
                if reached.max(mark).is_some_and(|reached| place <= reached) {
                    due.push(Due { key, place, order, at: Address { chunk: number, row: own } });
                    continue;
                }
                let at = Address { chunk, row: stored.len() as u32 };
                stored.push(own);
                entries.push((key, Entry { place, order, at, met: 0, content: 0 }));
            }
            if !refused.is_empty() {
                let rows = take_record_batch(&part.rows, &UInt32Array::from(refused))?;
                late.push(self.late.batch(&rows, "", Reason::TooLate)?);
            }
            // Copies, as slices would hold all rows of the batch.
            let rows_of = |rows: Vec<u32>| -> Result<Vec<ArrayRef>> {
                let rows = UInt32Array::from(rows);
                part.columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
            };
            if !untimed.is_empty() {
                results.push(self.batch(untimed.len(), rows_of(untimed)?)?);
            }
            if !stored.is_empty() {
                let count = stored.len();
                attempted.new.push(New::of(rows_of(stored)?, count, entries)?);
            }
        }
        due.extend(self.due(reached)?);
        let columns: Vec<Vec<ArrayRef>> = parts.into_iter().map(|part| part.columns).collect();
        self.decide(due, &columns, results)?;
        attempted.refused = self.late.limited(late, self.options.late_limit)?;
        self.late.reserve(&attempted.refused);
        self.open.reserve(&attempted.new, self.keys.len())
    }

    /// Reads a batch, of which rows from the future are late.
    fn part(
        &mut self,
        batch: &RecordBatch,
        attempted: &mut Attempted,
        late: &mut Vec<RecordBatch>,
    ) -> Result<Part> {
        let plan = self.plan.clone();
        let mut rows = batch.clone();
        let times_of = |rows: &RecordBatch| {
            let column = rows.column(plan.time);
            Ok::<_, Error>((plan.measure.read(column)?, column.logical_nulls()))
        };
        let (mut times, mut timed) = times_of(&rows)?;
        if let Some(progress) = &mut self.progress
            && let Some(ahead) = progress.note(&rows, &times, timed.as_ref())?
        {
            let set_aside = filter_record_batch(&rows, &BooleanArray::new(ahead.clone(), None))?;
            late.push(self.late.batch(&set_aside, "", Reason::Future)?);
            rows = filter_record_batch(&rows, &BooleanArray::new(!&ahead, None))?;
            (times, timed) = times_of(&rows)?;
        }
        if let Some(shedding) = &self.shedding
            && let Some(kept) = shedding.pick((&rows, rows.num_rows()), &plan.by, &mut attempted.drawn)?
        {
            rows = filter_record_batch(&rows, &BooleanArray::new(kept, None))?;
            (times, timed) = times_of(&rows)?;
        }
        let mut keys = Vec::with_capacity(times.len());
        self.keys.assign_all(&plan.keys(&rows), times.len(), &mut keys, check)?;
        Ok(Part { columns: plan.columns(&rows)?, rows, times, timed, keys })
    }

    fn advance(
        &mut self,
        reached: Option<i64>,
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        attempted.reached = reached;
        let due = self.due(reached)?;
        self.decide(due, &[], results)
    }

    fn advance_key(
        &mut self,
        time: i64,
        key: &[ArrayRef],
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        if key.is_empty() {
            return Err(Error::InvalidValue(
                "key: one is given, but duplicates are equal in nothing (by=[]); advance(watermark) without a key moves the \
                 watermark of the stream"
                    .into(),
            ));
        }
        // First, so that a key which is new to a call that is refused gets no number.
        check_watermark(&self.plan.measure, self.reached, time)?;
        self.tidy()?;
        let mut number = Vec::with_capacity(1);
        self.keys.assign_all(key, 1, &mut number, check)?;
        let key = number[0];
        let last = self.ahead.watermark_of(self.reached, key);
        check_watermark(&self.plan.measure, last, time)?;
        if Some(time) == last {
            return Ok(());
        }
        // A commit must not fail.
        self.ahead.make_room(key);
        attempted.key_reached = Some((key, time));
        let mut pace = Pace::new();
        let over = self.open.first(key, |place| pace.check(1).map(|()| place <= time))?;
        attempted.dropped = over.last().map(|&last| (key, last));
        self.decide(over.iter().map(|entry| Due::of(key, entry)).collect(), &[], results)
    }

    /// The open rows up to a time.
    fn due(&mut self, reached: Option<i64>) -> Result<Vec<Due>> {
        let (mut due, mut pace) = (Vec::new(), Pace::new());
        let is_due = |place| Ok(reached.is_some_and(|reached| place <= reached));
        while let Some(item) = self.open.agenda.pop(is_due)? {
            pace.check(1)?;
            // Those of a key that was ahead are gone.
            due.extend(self.open.numbered(item).map(|(_, entry)| Due::of(item.key, entry)));
        }
        Ok(due)
    }

    /// Decides on rows up to which their keys are complete: open ones, and those of a call that has these columns, in chunks
    /// with the next numbers.
    fn decide(
        &mut self,
        mut due: Vec<Due>,
        new: &[Vec<ArrayRef>],
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let rank = |due: &Due| (due.place, due.order);
        if !due.is_sorted_by_key(rank) {
            sort_by_key(&mut due, rank, check)?;
        }
        self.last.make_room(self.keys.len());
        let (mut kept, mut pace) = (Vec::new(), Pace::new());
        for Due { key, place, at, .. } in due {
            pace.check(1)?;
            if self.last.passes((self.plan.per, self.plan.within), key, place) {
                kept.push(at);
            }
        }
        for rows in kept.chunks(BATCH_ROWS) {
            in_parts(0..rows.len(), &mut |some| {
                check()?;
                let columns = self.open.rows(&rows[some.clone()], self.plan.output.fields().len(), new)?;
                results.push(self.batch(some.len(), columns)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Drops what is no longer needed where that is worth it; changes no result.
    fn tidy(&mut self) -> Result<()> {
        self.open.tidy(self.plan.output.fields().len())?;
        let Self { keys, full, open, ahead, last, reached, plan, .. } = self;
        let is_needed = |key| last.matters(key, *reached, plan.within);
        let kept = forget(keys, full, std::slice::from_mut(open), std::slice::from_mut(ahead), is_needed)?;
        kept.into_iter().for_each(|kept| last.keep_keys(&kept));
        Ok(())
    }

    fn batch(&self, rows: usize, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.plan.output.clone(), columns, &options)?)
    }
}
