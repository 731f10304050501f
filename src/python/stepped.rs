//! Operators whose steps are attempted, and committed or rolled back by the call that follows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::PyRecordBatchReader;
use pyo3_arrow::input::AnyRecordBatch;

use super::errors::{detached, py_bytes};
use super::given::{self, Given};
use super::shared::Shared;
use crate::memory::{caught, of_panic};
use crate::operator::{Operator, Stepwise};
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

impl<T: Stepwise> Steps for T {
    fn settle(&mut self, commit: bool) -> Result<()> {
        Stepwise::settle(self, commit);
        Ok(())
    }
}

/// An operator that one call uses at a time; `windowkit.streams.calls` sees to it that functions it calls do not call it.
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

/// What Python's operators without queries have in common.
impl<T: Stepwise + Send> Stepped<T> {
    /// Attempts a step, and returns its rows: the next call commits it, unless that is `roll_back`.
    pub(super) fn attempt(&self, py: Python<'_>, step: T::Step<'_>) -> PyResult<PyRecordBatchReader>
    where
        for<'a> T::Step<'a>: Send,
    {
        detached(py, || self.stepped(step))
    }

    /// The same of the step that adds rows.
    pub(super) fn push(
        &self,
        py: Python<'_>,
        batch: Given<AnyRecordBatch>,
        step: impl FnOnce(&[RecordBatch]) -> T::Step<'_> + Send,
    ) -> PyResult<PyRecordBatchReader> {
        let reader = batch.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("batch", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.stepped(step(&batches))
        })
    }

    fn stepped(&self, step: T::Step<'_>) -> Result<PyRecordBatchReader> {
        self.tried(|stream| {
            let rows = stream.attempt(step)?;
            Ok(table(rows, stream.schema().clone()))
        })
    }

    /// The whole state, as bytes.
    pub(super) fn snapshot<'py>(&self, py: Python<'py>, identity: &str) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = detached(py, || self.with(|stream| caught(|| stream.snapshot(identity))))?;
        py_bytes(py, &bytes)
    }

    /// Whether what it reads has ended.
    pub(super) fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.with(|stream| Ok(stream.is_closed())))
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
