//! `windowkit._native.Engine`: takes in batches one after the other and then computes windows; and `Batches`, the
//! results, of joins too, as they are computed.

use std::iter::from_fn;
use std::sync::Mutex;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::callees::{Callees, of_same};
use super::errors::{Out, PyOut, detached, exception, interruptible, within_iterator};
use super::given::Given;
use crate::operator::{Bounded, Output};
use crate::shared::Shared;
use crate::{Error, Result};

/// Takes batches of rows, or of slices made elsewhere, and then computes every window.
#[pyclass(name = "Engine", module = "windowkit._native", frozen)]
pub(super) struct PyEngine {
    /// `None` once finished, or once a push failed half-way.
    bounded: Mutex<Option<Bounded>>,
    input: Input,
    callees: Callees,
}

#[derive(Clone, Copy)]
enum Input {
    Rows,
    Slices,
}

impl PyEngine {
    pub(super) fn of_rows(bounded: Bounded, callees: Callees) -> Self {
        Self { bounded: Mutex::new(Some(bounded)), input: Input::Rows, callees }
    }

    pub(super) fn of_slices(bounded: Bounded, callees: Callees) -> Self {
        Self { bounded: Mutex::new(Some(bounded)), input: Input::Slices, callees }
    }

    fn take(&self) -> Result<Bounded> {
        let mut bounded =
            self.bounded.lock().map_err(|_| Error::Internal("an earlier call panicked".into()))?;
        bounded
            .take()
            .ok_or_else(|| Error::InvalidValue("engine: it has finished or failed; create another".into()))
    }

    fn put(&self, bounded: Bounded) -> Result<()> {
        *self.bounded.lock().map_err(|_| Error::Internal("an earlier call panicked".into()))? = Some(bounded);
        Ok(())
    }
}

#[pymethods]
impl PyEngine {
    /// Takes in a batch.
    fn push(&self, py: Python<'_>, batch: Given<PyRecordBatch>) -> PyResult<()> {
        detached(py, move || {
            let batch = batch.batch("batch")?;
            let mut bounded = self.take()?;
            match self.input {
                Input::Rows => bounded.push(&[batch], 1)?,
                Input::Slices => bounded.push_slices(&batch)?,
            }
            self.put(bounded)
        })
    }

    /// Takes in slices that `slices` of an engine of the same query returned, in addition to rows.
    fn push_slices(&self, py: Python<'_>, batch: Given<PyRecordBatch>) -> PyResult<()> {
        detached(py, move || {
            let batch = batch.batch("batch")?;
            let mut bounded = self.take()?;
            bounded.push_own_slices(&batch)?;
            self.put(bounded)
        })
    }

    /// Slots that are open: slices, some of them more than once if rows came out of order.
    #[getter]
    fn slots(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || {
            let bounded = self.take()?;
            let slots = bounded.slots();
            self.put(bounded)?;
            Ok(slots)
        })
    }

    /// Bytes held by keys and slices.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || {
            let bounded = self.take()?;
            let bytes = bounded.bytes();
            self.put(bounded)?;
            Ok(bytes)
        })
    }

    /// Returns the slices of what was pushed, by bucket of keys, and starts over.
    fn slices(&self, py: Python<'_>, buckets: u32) -> PyOut<Vec<(u32, PyRecordBatch)>> {
        let parts = detached(py, || {
            let mut bounded = self.take()?;
            let parts = bounded.slices(buckets)?;
            self.put(bounded)?;
            Ok(parts)
        })?;
        Ok(Out(batches(parts)))
    }

    /// All windows of what was pushed.
    fn finish(&self, py: Python<'_>) -> PyResult<PyBatches> {
        let callees = of_same(py, &self.callees);
        detached(py, move || Ok(PyBatches::new(self.take()?.finish()?, callees, 1)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.callees)
    }
}

/// Batches by bucket, for Python.
pub(super) fn batches(parts: Vec<(u32, RecordBatch)>) -> Vec<(u32, PyRecordBatch)> {
    parts.into_iter().map(|(bucket, batch)| (bucket, PyRecordBatch::new(batch))).collect()
}

/// Batches of results, computed on demand: an iterator, and an Arrow stream.
#[pyclass(name = "Batches", module = "windowkit._native", frozen)]
pub(super) struct PyBatches {
    schema: SchemaRef,
    left: Shared<Left>,
    callees: Callees,
}

/// What is left to be read.
enum Left {
    Results(Results),
    /// Nothing: the stream was handed out.
    Nothing,
    /// Nothing: computing it failed, or was interrupted, and some of its rows are lost.
    Failed,
}

/// Results read batch by batch.
struct Results {
    schema: SchemaRef,
    next: Box<Next>,
}

/// Computes the next batch, if there is one.
type Next = dyn FnMut() -> Result<Option<RecordBatch>> + Send;

impl PyBatches {
    pub(super) fn new(mut output: Output, callees: Callees, threads: usize) -> Self {
        let schema = output.schema().clone();
        Self::of(schema, callees, move || output.next_batch(threads))
    }

    pub(super) fn of(
        schema: SchemaRef,
        callees: Callees,
        next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
    ) -> Self {
        let results = Results { schema: schema.clone(), next: Box::new(next) };
        Self { schema, left: Shared::new(Left::Results(results)), callees }
    }
}

impl PyBatches {
    /// The next one.
    fn read(&self) -> Result<Option<RecordBatch>> {
        let mut left = self.left.lock()?;
        let next = match &mut *left {
            Left::Results(results) => (results.next)(),
            Left::Nothing => Ok(None),
            Left::Failed => Err(Error::InvalidValue(
                "batches: computing them failed or was interrupted before; begin again with other batches"
                    .into(),
            )),
        };
        if next.is_err() {
            *left = Left::Failed;
        }
        next
    }
}

#[pymethods]
impl PyBatches {
    /// The schema of the batches.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(self.schema.clone())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.callees)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        let next = detached(py, || Ok(self.read()?.map(PyRecordBatch::new)));
        next.map_err(|error| within_iterator(py, error))
    }

    /// All that are left.
    fn rest(&self, py: Python<'_>) -> PyOut<Vec<PyRecordBatch>> {
        let read =
            || from_fn(|| self.read().transpose()).map(|batch| batch.map(PyRecordBatch::new)).collect();
        detached(py, read).map(Out)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Who has the lock may wait for Python.
        let taken = detached(py, || Ok(std::mem::replace(&mut *self.left.lock()?, Left::Nothing)))?;
        let Left::Results(results) = taken else {
            let gone = Error::InvalidValue("batches: the stream was handed out before".into());
            return Err(exception(py, &gone));
        };
        let reader = Reader { results, _callees: of_same(py, &self.callees) };
        let reader = PyRecordBatchReader::new(Box::new(reader));
        Bound::new(py, reader)?.call_method1("__arrow_c_stream__", (requested_schema,))
    }
}

/// [`Results`] as arrow-rs's own reader.
struct Reader {
    results: Results,
    /// While it may call them, they are not freed.
    _callees: Callees,
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        interruptible(|| (self.results.next)())
            .map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.results.schema.clone()
    }
}
