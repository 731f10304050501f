//! Results that wait to be handed out, so that a call returns few of them, or none for some time (Li 2008, §8.3.3: slow flush
//! and lazy flush).

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::Result;
use crate::aggregate::held_bytes;
use crate::operator::policy::Flush;
use crate::state::{Reader, Writer, broken};

/// Results of a call.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) batch: RecordBatch,
    /// The watermark before the call, and after it.
    moved: (Option<i64>, Option<i64>),
}

/// Results of a query that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Waiting>,
    /// Those before the current call.
    undo: Option<VecDeque<Waiting>>,
}

impl Outbox {
    pub(super) fn of(waiting: VecDeque<Waiting>) -> Self {
        Self { waiting, undo: None }
    }

    /// Adds the results of a call that moved the watermark so, and returns those that leave with it: all of them if the
    /// stream ends.
    pub(super) fn pass(
        &mut self,
        flush: Flush,
        new: Vec<RecordBatch>,
        moved: (Option<i64>, Option<i64>),
        is_closing: bool,
    ) -> Vec<RecordBatch> {
        if self.undo.is_none() {
            self.undo = Some(self.waiting.clone());
        }
        self.waiting.extend(new.into_iter().map(|batch| Waiting { batch, moved }));
        let is_ready = |waiting: &Waiting| {
            let ready_at =
                flush.later.map(|later| waiting.moved.1.map_or(i64::MIN, |t| t.saturating_add(later)));
            is_closing || ready_at.is_some_and(|time| moved.1.is_some_and(|now| time <= now))
        };
        let (mut left, mut leaving) = (flush.at_most.unwrap_or_default(), Vec::new());
        while let Some(mut next) = self.waiting.pop_front() {
            let rows = next.batch.num_rows() as u64;
            if is_ready(&next) || rows <= left {
                left = left.saturating_sub(rows);
                leaving.push(next.batch);
                continue;
            }
            if left > 0 {
                leaving.push(next.batch.slice(0, left as usize));
                next.batch = next.batch.slice(left as usize, (rows - left) as usize);
            }
            self.waiting.push_front(next);
            break;
        }
        leaving
    }

    /// The watermark before the first call whose results wait, if any do.
    pub(super) fn since(&self) -> Option<Option<i64>> {
        self.waiting.front().map(|first| first.moved.0)
    }

    /// How many rows wait.
    pub(super) fn rows(&self) -> usize {
        self.each().map(|waiting| waiting.batch.num_rows()).sum()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// Commits the current call.
    pub(super) fn keep(&mut self) {
        self.undo = None;
    }

    /// Rolls it back.
    pub(super) fn take_back(&mut self) {
        if let Some(waiting) = self.undo.take() {
            self.waiting = waiting;
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        held_bytes(self.each().flat_map(|waiting| waiting.batch.columns()))
    }

    pub(super) fn save(&self, to: &mut Writer, schema: &SchemaRef) -> Result<()> {
        to.value(&self.waiting.iter().map(|waiting| waiting.moved).collect::<Vec<_>>());
        self.waiting.iter().try_for_each(|waiting| to.batches(schema, std::slice::from_ref(&waiting.batch)))
    }

    pub(super) fn load(&mut self, from: &mut Reader<'_>, schema: &SchemaRef) -> Result<()> {
        for moved in from.value::<Vec<(Option<i64>, Option<i64>)>>()? {
            let (known, mut batches) = from.batches()?;
            let (Some(batch), true) = (batches.pop(), known.fields() == schema.fields()) else {
                return broken();
            };
            self.waiting.push_back(Waiting { batch, moved });
        }
        Ok(())
    }
}

impl Waiting {
    /// These results as another batch.
    pub(super) fn with(&self, batch: RecordBatch) -> Self {
        Self { batch, moved: self.moved }
    }
}
