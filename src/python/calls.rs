//! Objects of Python that calls change, one call at a time: what they are, how many calls have taken effect, and what the
//! last one returned.
//!
//! A signal handler may raise after a call has taken effect and before Python has assigned its result. The number of calls
//! tells whether that was so, and the result can be asked for again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;

use super::errors::detached;
use crate::memory::{of_panic, spared};
use crate::shared::{Shared, Used};
use crate::{Error, Result};

/// A value that calls change, with the result of the last one.
pub(super) struct Called<T, R> {
    value: Shared<T>,
    last: Mutex<Option<R>>,
    /// Beside the locks, so that it can be read at any time.
    count: AtomicU64,
}

impl<T, R: Clone> Called<T, R> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Shared::new(value), last: Mutex::default(), count: AtomicU64::new(0) }
    }

    /// How many calls have taken effect.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Uses the value; see [`Shared::lock`].
    ///
    /// # Errors
    /// As [`Shared::lock`].
    pub(super) fn lock(&self) -> Result<Used<'_, T>> {
        self.value.lock()
    }

    /// Uses the value unless another thread does.
    ///
    /// # Errors
    /// As [`Shared::lock`].
    pub(super) fn try_lock(&self) -> Result<Option<Used<'_, T>>> {
        self.value.try_lock()
    }

    /// Notes that a call of this use of the value has taken effect; its result replaces the one before, if it has one.
    pub(super) fn took_effect(&self, used: Used<'_, T>, result: Option<&R>) {
        let before = result.and_then(|result| {
            self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(result.clone())
        });
        self.count.fetch_add(1, Ordering::Release);
        drop(used);
        drop(before);
    }

    /// The result of the last call that returned one.
    ///
    /// # Errors
    /// As [`Shared::lock`].
    pub(super) fn last(&self) -> Result<Option<R>> {
        let used = self.lock()?;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        drop(used);
        Ok(last)
    }
}

/// Rows that a call of an operator returned.
pub(super) struct Rows {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
    /// Whether they are late ones, and no results.
    pub(super) are_late: bool,
}

impl Rows {
    /// Results.
    pub(super) fn new(batches: Vec<RecordBatch>, schema: &SchemaRef) -> Self {
        Self { batches, schema: schema.clone(), are_late: false }
    }

    /// Late rows.
    pub(super) fn late(batches: Vec<RecordBatch>, schema: &SchemaRef) -> Self {
        Self { are_late: true, ..Self::new(batches, schema) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The rows for Python.
    pub(super) fn table(&self) -> PyRecordBatchReader {
        table(self.batches.clone(), self.schema.clone())
    }
}

/// An operator, whose functions must not call it; `windowkit.streams.calls` refuses that by the name of the call.
///
/// A panic half-way through a call (nearly always that of a failed allocation) leaves an error in its place, which all
/// later calls report.
pub(super) type CalledOperator<T> = Called<Result<T>, Arc<Rows>>;

impl<T: Send> CalledOperator<T> {
    /// Does work that returns what the operator says of itself; Python's lock is not held.
    ///
    /// # Errors
    /// Errors of the work, and as [`Shared::lock`].
    pub(super) fn ask<A>(&self, work: impl FnOnce(&mut T) -> Result<A>) -> Result<A> {
        guarded(&mut *self.lock()?, work)
    }

    /// Makes a call that returns no rows.
    ///
    /// # Errors
    /// As [`CalledOperator::call`].
    pub(super) fn change(&self, work: impl FnOnce(&mut T) -> Result<()>) -> Result<()> {
        let mut used = self.lock()?;
        guarded(&mut *used, work)?;
        self.took_effect(used, None);
        Ok(())
    }

    /// Makes a call that returns rows; Python's lock is not held.
    ///
    /// # Errors
    /// Errors of the call, which has changed nothing then, and as [`Shared::lock`]. An interrupt may come after it: see
    /// [`Called::took_effect`].
    pub(super) fn call(&self, work: impl FnOnce(&mut T) -> Result<Rows>) -> Result<Arc<Rows>> {
        let mut used = self.lock()?;
        let rows = guarded(&mut *used, |operator| {
            let rows = work(operator)?;
            // What has been committed is not lost for want of a few bytes.
            Ok(spared(|| Arc::new(rows)))
        })?;
        self.took_effect(used, Some(&rows));
        Ok(rows)
    }

    /// The rows that the last call returned, and whether they are late ones.
    pub(super) fn last_rows(&self, py: Python<'_>) -> PyResult<Option<(PyRecordBatchReader, bool)>> {
        let last = detached(py, || self.last())?;
        Ok(last.map(|rows| (rows.table(), rows.are_late)))
    }
}

fn guarded<T, A>(held: &mut Result<T>, work: impl FnOnce(&mut T) -> Result<A>) -> Result<A> {
    let operator = held.as_mut().map_err(|lost| lost.clone())?;
    let done = catch_unwind(AssertUnwindSafe(|| work(operator)));
    done.unwrap_or_else(|panic| {
        let lost = lost(of_panic(&*panic));
        *held = Err(lost.clone());
        Err(lost)
    })
}

/// The error of an operator whose call was left half-way for this reason.
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
