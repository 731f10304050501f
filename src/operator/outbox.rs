//! Results that wait to be handed out, so that a call returns few of them, or none for some time (Li 2008, §8.3.3: slow flush
//! and lazy flush).

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde::{Serialize, de::DeserializeOwned};

use crate::Result;
use crate::aggregate::held_bytes;
use crate::operator::policy::Flush;
use crate::state::{Reader, Writer, broken};

/// Results, and what each is, by number.
#[derive(Clone)]
pub(in crate::operator) struct Labelled {
    pub(in crate::operator) batch: RecordBatch,
    pub(in crate::operator) labels: Vec<u32>,
}

/// Results of a call.
#[derive(Clone)]
struct Waiting<M> {
    results: Labelled,
    /// The watermarks before the call, and by which watermark it is known afterwards how long they wait.
    moved: (M, Option<i64>),
}

/// Results of a query or a join that wait, in the order in which they came; `M` is the watermark of its stream, or those of
/// its sides.
#[derive(Default)]
pub(in crate::operator) struct Outbox<M = Option<i64>> {
    waiting: VecDeque<Waiting<M>>,
    /// The results that waited before the current call.
    undo: Option<VecDeque<Waiting<M>>>,
}

impl Labelled {
    /// Results that are all the same.
    pub(in crate::operator) fn all(batch: RecordBatch, label: u32) -> Self {
        Self { labels: vec![label; batch.num_rows()], batch }
    }

    /// Removes the first `rows` of them.
    fn take_first(&mut self, rows: usize) -> Self {
        let rest = self.labels.split_off(rows);
        let first =
            Self { batch: self.batch.slice(0, rows), labels: std::mem::replace(&mut self.labels, rest) };
        self.batch = self.batch.slice(rows, self.labels.len());
        first
    }
}

impl<M: Copy + Serialize + DeserializeOwned> Outbox<M> {
    /// These results, with columns that `moved` makes of theirs.
    ///
    /// # Errors
    /// Errors of `moved`.
    pub(in crate::operator) fn with(
        &self,
        moved: impl Fn(&RecordBatch) -> Result<RecordBatch>,
    ) -> Result<Self> {
        let with = |waiting: &Waiting<M>| {
            let results = Labelled { batch: moved(&waiting.results.batch)?, ..waiting.results.clone() };
            Ok(Waiting { results, ..*waiting })
        };
        Ok(Self { waiting: self.waiting.iter().map(with).collect::<Result<_>>()?, undo: None })
    }

    /// Adds the results of a call that moved watermarks so, and returns those that leave with it: all of them if the
    /// stream ends.
    pub(in crate::operator) fn pass(
        &mut self,
        flush: Flush,
        new: Vec<Labelled>,
        moved: (M, Option<i64>),
        is_closing: bool,
    ) -> Vec<Labelled> {
        if self.undo.is_none() {
            self.undo = Some(self.waiting.clone());
        }
        self.waiting.extend(new.into_iter().map(|results| Waiting { results, moved }));
        let is_ready = |waiting: &Waiting<M>| {
            let ready_at =
                flush.later.map(|later| waiting.moved.1.map_or(i64::MIN, |t| t.saturating_add(later)));
            is_closing || ready_at.is_some_and(|time| moved.1.is_some_and(|now| time <= now))
        };
        let (mut left, mut leaving) = (flush.at_most.unwrap_or_default(), Vec::new());
        while let Some(mut next) = self.waiting.pop_front() {
            let rows = next.results.labels.len() as u64;
            if is_ready(&next) || rows <= left {
                left = left.saturating_sub(rows);
                leaving.push(next.results);
                continue;
            }
            if left > 0 {
                leaving.push(next.results.take_first(left as usize));
            }
            self.waiting.push_front(next);
            break;
        }
        leaving
    }

    /// The watermarks before the first call whose results wait, if any do.
    pub(in crate::operator) fn since(&self) -> Option<M> {
        self.waiting.front().map(|first| first.moved.0)
    }

    /// How many rows wait.
    pub(in crate::operator) fn rows(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.results.labels.len()).sum()
    }

    /// Commits the current call.
    pub(in crate::operator) fn keep(&mut self) {
        self.undo = None;
    }

    /// Rolls it back.
    pub(in crate::operator) fn take_back(&mut self) {
        if let Some(waiting) = self.undo.take() {
            self.waiting = waiting;
        }
    }

    /// Bytes held.
    pub(in crate::operator) fn bytes(&self) -> usize {
        held_bytes(self.waiting.iter().flat_map(|waiting| waiting.results.batch.columns()))
            + self.rows() * size_of::<u32>()
    }

    /// Writes these results, as `written` makes batches of this schema of them.
    pub(in crate::operator) fn save(
        &self,
        to: &mut Writer,
        schema: &SchemaRef,
        written: impl Fn(&Labelled) -> Result<RecordBatch>,
    ) -> Result<()> {
        to.value(&self.waiting.iter().map(|waiting| waiting.moved).collect::<Vec<_>>());
        self.waiting.iter().try_for_each(|waiting| to.batches(schema, &[written(&waiting.results)?]))
    }

    /// Reads what [`Outbox::save`] wrote; `read` is the inverse of `written`.
    pub(in crate::operator) fn load(
        &mut self,
        from: &mut Reader<'_>,
        schema: &SchemaRef,
        read: impl Fn(&RecordBatch) -> Option<Labelled>,
    ) -> Result<()> {
        for moved in from.value::<Vec<(M, Option<i64>)>>()? {
            let (known, mut batches) = from.batches()?;
            let batch = batches.pop().filter(|_| known.fields() == schema.fields());
            let Some(results) = batch.as_ref().and_then(&read) else { return broken() };
            self.waiting.push_back(Waiting { results, moved });
        }
        Ok(())
    }
}
