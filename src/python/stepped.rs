//! Operators whose steps are attempted, and committed or rolled back by the call that follows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3_arrow::PyRecordBatchReader;

use super::shared::Shared;
use crate::memory::of_panic;
use crate::operator::{DistinctStream, JoinStream, Operator};
use crate::{Error, Result};

/// What attempts steps.
pub(super) trait Steps {
    /// Commits the step that was attempted last, or rolls it back.
    fn settle(&mut self, commit: bool) -> Result<()>;
}

impl Steps for Operator {
    fn settle(&mut self, commit: bool) -> Result<()> {
        self.settle(commit)
    }
}

impl Steps for JoinStream {
    fn settle(&mut self, commit: bool) -> Result<()> {
        self.settle(commit);
        Ok(())
    }
}

impl Steps for DistinctStream {
    fn settle(&mut self, commit: bool) -> Result<()> {
        self.settle(commit);
        Ok(())
    }
}

/// An operator that one call uses at a time; `windowkit.calls` sees to it that functions it calls do not call it.
///
/// A panic half-way through a step (nearly always that of a failed allocation) leaves an error in its place, which all
/// later calls report.
pub(super) struct Stepped<T> {
    stream: Shared<Result<T>>,
    /// Whether the current call has yet to attempt a step.
    has_begun: AtomicBool,
}

impl<T: Steps> Stepped<T> {
    pub(super) fn new(stream: T) -> Self {
        Self { stream: Shared::new(Ok(stream)), has_begun: AtomicBool::new(false) }
    }

    /// Begins a call; the one before has delivered its result, or was rolled back.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Rolls back what the call attempted that began last, as its result did not reach the caller.
    pub(super) fn roll_back(&self) -> Result<()> {
        let is_of_another = self.has_begun.load(Ordering::Relaxed);
        self.settled(is_of_another, |_| Ok(()))
    }

    /// As [`Stepped::with`], of work that attempts a step.
    pub(super) fn tried<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.with(|stream| {
            self.has_begun.store(false, Ordering::Relaxed);
            work(stream)
        })
    }

    /// Commits the step that was attempted last, and then does `work`.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.settled(true, work)
    }

    fn settled<R>(&self, commit: bool, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let mut held = self.stream.lock()?;
        let stream = held.as_mut().map_err(|lost| lost.clone())?;
        let done = catch_unwind(AssertUnwindSafe(|| {
            stream.settle(commit)?;
            work(stream)
        }));
        done.unwrap_or_else(|panic| {
            let lost = lost(of_panic(&*panic));
            *held = Err(lost.clone());
            Err(lost)
        })
    }
}

/// The error of an operator whose step was left half-way for this reason.
fn lost(reason: Error) -> Error {
    let why = |text: String| {
        format!("{text}, half-way through a step; the operator is lost: restore its last snapshot")
    };
    match reason {
        Error::Memory(text) => Error::Memory(why(text)),
        other => Error::Internal(why(other.to_string())),
    }
}

/// Batches for Python.
pub(super) fn table(batches: Vec<RecordBatch>, schema: SchemaRef) -> PyRecordBatchReader {
    PyRecordBatchReader::new(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
}
