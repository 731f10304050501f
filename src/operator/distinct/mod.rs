//! Elimination of duplicates in a stream whose rows come in any order: DupElim (Li 2008, §8.2).
//!
//! | | |
//! |---|---|
//! | needs | rows in any order, and now and then how far the stream is complete |
//! | time | O(1) amortised a row that comes in order of its key's times, O(log n) among n held rows of the key |
//! | space | rows no further behind the watermark than duplicates are apart |
//! | first appeared | Li, *Window Queries over Data Streams*, 2008, §8.2 |
//!
//! A row is a duplicate if a row of its key is at most so far before it in time, or at its time and came earlier. So which
//! rows are duplicates does not depend on the order in which they come, except among rows of one time. Once the stream is
//! complete up to a row's time, it is known whether it is one.

mod snapshot;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_cast::cast;
use arrow_schema::{Schema, SchemaRef};

use super::batching::{BATCH_ROWS, in_parts};
use super::call::all_or_nothing;
use super::held::{Address, Agenda, Entry, Item, KEYS, New, Store, check_open, forget};
use super::length::length;
use super::schema::find;
use super::stream::{Late, Reason, Refused};
use super::window_spec::Length;
use crate::dictionary::widened;
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::poll::sort_unstable;
use crate::select::{take, take_record_batch};
use crate::window::Measure;
use crate::{Error, Result};

/// Which rows are duplicates, bound to a schema.
#[derive(Debug)]
pub struct DistinctPlan {
    input: SchemaRef,
    output: SchemaRef,
    by: Vec<usize>,
    time: usize,
    measure: Measure,
    within: i64,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub enum DistinctStep<'a> {
    /// Rows.
    Push(&'a [RecordBatch]),
    /// The stream is complete up to a time.
    Advance(i64),
    /// Hand out late rows.
    TakeLate,
    /// The stream has ended.
    Close,
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
    /// Rows that were pushed.
    pub rows: u64,
    /// Late rows among them.
    pub late: u64,
    /// Late rows that were dropped.
    pub dropped: u64,
    /// Rows of results.
    pub results: u64,
}

/// A stream without its duplicates.
pub struct DistinctStream {
    plan: Arc<DistinctPlan>,
    keys: KeyIndex,
    /// At how many keys it is looked for those without rows.
    full: usize,
    store: Store,
    /// Rows of which it is not known yet whether they are duplicates.
    open: Agenda,
    reached: Option<i64>,
    late: Late,
    late_limit: Option<u64>,
    closed: bool,
    /// Numbers rows in the order of arrival.
    next: u64,
    rows: u64,
    results: u64,
}

/// What a step changes when it is committed.
#[derive(Default)]
struct Attempted {
    /// What a push adds: the rows to be stored, those of them that are open, those that are late, and how many there were.
    pushed: Option<(Vec<New>, Vec<Item>, Refused, u64)>,
    reached: Option<i64>,
    takes_late: bool,
    is_end: bool,
    results: u64,
    next: u64,
}

impl DistinctPlan {
    /// Binds to a schema; rows of one key, of columns `by`, are duplicates at most `within` after another.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue` for columns that there are not, types that cannot be keys or times,
    /// and lengths that do not fit these.
    pub fn new(input: SchemaRef, by: &[String], time: &str, within: Length) -> Result<Self> {
        let by: Vec<usize> = by.iter().map(|name| find(&input, "by", name)).collect::<Result<_>>()?;
        KeyIndex::new(by.iter().map(|&key| input.field(key).data_type().clone()).collect())?;
        let at = find(&input, "time", time)?;
        let measure = Measure::new(time, input.field(at).data_type())?;
        let within = length(&measure, "within", within)?;
        let fields = input.fields().iter().map(|field| {
            let kind = widened(field.data_type());
            field.as_ref().clone().with_data_type(kind)
        });
        let output =
            Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), input.metadata().clone()));
        Ok(Self { input, output, by, time: at, measure, within })
    }

    /// The distance of duplicates, in units of the times.
    pub fn within(&self) -> i64 {
        self.within
    }

    /// The schema of results: that of rows, but for dictionaries, whose codes have 32 bits.
    pub fn output(&self) -> &SchemaRef {
        &self.output
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let (fields, own) = (self.input.fields(), batch.schema_ref().fields());
        if fields.len() != own.len() || fields.iter().zip(own).any(|(a, b)| a.data_type() != b.data_type()) {
            return Err(Error::InvalidType("batch: its schema is not the one of the stream".into()));
        }
        let columns = batch.columns().iter().zip(self.output.fields());
        columns.map(|(column, field)| Ok(cast(column, field.data_type())?)).collect()
    }
}

impl DistinctStream {
    /// No rows yet; of late rows that are not collected, up to `late_limit` are held.
    ///
    /// # Errors
    /// None but those of memory.
    pub fn new(plan: Arc<DistinctPlan>, late_limit: Option<u64>) -> Result<Self> {
        let types = plan.by.iter().map(|&key| plan.input.field(key).data_type().clone());
        Ok(Self {
            keys: KeyIndex::new(types.collect())?,
            late: Late::new(&plan.input, false),
            plan,
            full: KEYS,
            store: Store::default(),
            open: Agenda::default(),
            reached: None,
            late_limit,
            closed: false,
            next: 0,
            rows: 0,
            results: 0,
        })
    }

    /// The schema of results.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.output
    }

    /// The schema of late rows.
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// Whether the stream has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Up to when the stream was said to be complete: no result to come is before that.
    pub fn watermark(&self) -> Option<i64> {
        self.reached
    }

    /// What it holds and has done.
    pub fn stats(&self) -> DistinctStats {
        DistinctStats {
            keys: self.keys.len(),
            held: self.store.len(),
            bytes: self.keys.bytes() + self.store.bytes() + self.open.bytes(),
            rows: self.rows,
            late: self.late.count(),
            dropped: self.late.dropped(),
            results: self.results,
        }
    }

    /// Makes a call, which takes effect as a whole or not at all; returns the rows that are known to be no duplicates
    /// now, or late rows.
    ///
    /// # Errors
    /// `InvalidValue` once closed, and for a watermark before the last one; `InvalidType` for a batch of another schema.
    pub fn call(&mut self, step: DistinctStep<'_>) -> Result<Vec<RecordBatch>> {
        all_or_nothing(self, |this| this.tried(step), Self::commit, Self::take_back)
    }

    fn take_back(&mut self) {
        self.store.agenda.take_back();
        self.open.take_back();
    }

    fn commit(&mut self, attempted: Attempted) {
        let Attempted { pushed, reached, takes_late, is_end, results, next } = attempted;
        if let Some((new, open, refused, rows)) = pushed {
            new.into_iter().for_each(|new| self.store.add(new));
            open.into_iter().for_each(|item| self.open.push(item));
            self.late.add(refused);
            self.rows += rows;
            self.next = next;
        }
        self.reached = reached.or(self.reached);
        if takes_late {
            self.late.take();
        }
        self.open.keep();
        self.store.purge();
        self.closed |= is_end;
        self.results += results;
    }

    fn tried(&mut self, step: DistinctStep<'_>) -> Result<(Attempted, Vec<RecordBatch>)> {
        let (mut attempted, mut results) = (Attempted::default(), Vec::new());
        if let DistinctStep::TakeLate = step {
            attempted.takes_late = true;
            return Ok((attempted, self.late.batches().to_vec()));
        }
        check_open(self.closed)?;
        match step {
            DistinctStep::Push(batches) => self.push(batches, &mut attempted, &mut results)?,
            DistinctStep::Advance(time) => {
                if let Some(last) = self.reached.filter(|&last| time < last) {
                    let shown = |time| self.plan.measure.shown(time);
                    return Err(Error::InvalidValue(format!(
                        "watermark: {} is before the last one, {}; a watermark must not decrease",
                        shown(time),
                        shown(last)
                    )));
                }
                attempted.reached = Some(time);
                self.pass(Some(time), &mut results)?;
            }
            _ => {
                attempted.is_end = true;
                self.pass(None, &mut results)?;
            }
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
        self.store.tidy(self.plan.output.fields().len())?;
        forget(
            &mut self.keys,
            &mut self.full,
            std::slice::from_mut(&mut self.store),
            std::slice::from_mut(&mut self.open),
            &mut [],
        )?;
        let (mut late, mut new, mut open, mut known) = (Vec::new(), Vec::new(), Vec::new(), HashSet::new());
        let (plan, mut pace) = (self.plan.clone(), Pace::new());
        attempted.next = self.next;
        for batch in batches {
            let columns = plan.columns(batch)?;
            let times = plan.measure.read(batch.column(plan.time))?;
            let timed = batch.column(plan.time).logical_nulls();
            let by: Vec<ArrayRef> = plan.by.iter().map(|&key| batch.column(key).clone()).collect();
            let mut keys = Vec::with_capacity(times.len());
            self.keys.assign_all(&by, times.len(), &mut keys, check)?;
            let (mut refused, mut kept, mut stored, mut entries) = (vec![], vec![], vec![], vec![]);
            let chunk = (self.store.next_chunk() + new.len()) as u32;
            for (row, (&key, &place)) in keys.iter().zip(times.iter()).enumerate() {
                pace.check(1)?;
                if timed.as_ref().is_some_and(|timed| timed.is_null(row)) {
                    kept.push(row as u32);
                    continue;
                }
                let reached = self.reached.map(|reached| place.cmp(&reached));
                if reached.is_some_and(|order| order.is_lt()) {
                    refused.push(row as u32);
                    continue;
                }
                let order = attempted.next;
                attempted.next += 1;
                if reached.is_some_and(|order| order.is_eq()) {
                    // All rows before it are there.
                    let near = (place.saturating_sub(plan.within), place);
                    if known.insert(key) && self.store.within(key, near).next().is_none() {
                        kept.push(row as u32);
                    }
                } else {
                    open.push(Item { place, order, key });
                }
                let at = Address { chunk, row: stored.len() as u32 };
                stored.push(row as u32);
                entries.push((key, Entry { place, order, at, is_met: false }));
            }
            if !refused.is_empty() {
                let rows = take_record_batch(batch, &UInt32Array::from(refused))?;
                late.push(self.late.batch(&rows, "", Reason::TooLate)?);
            }
            // Copies, as slices would hold all rows of the batch.
            let rows_of = |rows: Vec<u32>| -> Result<Vec<ArrayRef>> {
                let rows = UInt32Array::from(rows);
                columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
            };
            if !kept.is_empty() {
                results.push(self.batch(kept.len(), rows_of(kept)?)?);
            }
            let count = stored.len();
            new.push(New::of(rows_of(stored)?, count, entries)?);
        }
        sort_unstable(&mut open, check)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let refused = self.late.limited(late, self.late_limit)?;
        self.late.reserve(&refused);
        self.store.reserve(&new, self.keys.len())?;
        self.open.reserve(open.iter());
        attempted.pushed = Some((new, open, refused, rows));
        Ok(())
    }

    /// Decides on the rows up to which the stream is complete, and removes those that no row to come is near; all if it has
    /// ended.
    fn pass(&mut self, reached: Option<i64>, results: &mut Vec<RecordBatch>) -> Result<()> {
        let (apart, mut kept, mut pace) = (i128::from(self.plan.within), Vec::new(), Pace::new());
        while let Some(item) = self.open.pop(|place| Ok(reached.is_none_or(|reached| place <= reached)))? {
            pace.check(1)?;
            let is_near = |before: i64| i128::from(item.place) - i128::from(before) <= apart;
            let found = self.store.entry_after(item);
            let (entry, before) = found.ok_or_else(|| Error::Internal("an open row is not stored".into()))?;
            if !before.is_some_and(is_near) {
                kept.push(entry.at);
            }
        }
        let is_over = |place| reached.is_none_or(|reached| i128::from(place) + apart < i128::from(reached));
        while self.store.agenda.pop(|place| Ok(is_over(place)))?.is_some() {
            pace.check(1)?;
        }
        for rows in kept.chunks(BATCH_ROWS) {
            in_parts(0..rows.len(), &mut |some| {
                check()?;
                let columns = self.store.rows(&rows[some.clone()], self.plan.output.fields().len())?;
                results.push(self.batch(some.len(), columns)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn batch(&self, rows: usize, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.plan.output.clone(), columns, &options)?)
    }
}
