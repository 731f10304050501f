//! `windowkit._native.Distinct` and `DistinctOperator`: rows without duplicates.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, cast::AsArray};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyArray, PyRecordBatchReader, PySchema};

use super::calls::{Called, CalledOperator, Rows, table};
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use crate::interrupt::check;
use crate::memory::caught;
use crate::operator::{DistinctPlan, DistinctStats, DistinctStep, DistinctStream, Length};
use crate::select::filter_record_batch;
use crate::{Error, Result};

/// Rows that are filtered without a look.
const AT_ONCE: usize = 1 << 19;

/// Which rows are duplicates, bound to a schema.
#[pyclass(name = "Distinct", module = "windowkit._native", frozen)]
pub(super) struct PyDistinct(Arc<DistinctPlan>);

#[pymethods]
impl PyDistinct {
    #[new]
    fn new(
        py: Python<'_>,
        schema: Given<PySchema>,
        by: Vec<String>,
        time: String,
        within: Length,
    ) -> PyResult<Self> {
        let schema = schema.0.into_inner();
        detached(py, move || Ok(Self(Arc::new(DistinctPlan::new(schema, &by, &time, within)?))))
    }

    /// The rows of a table for which a column of booleans is true.
    fn filter(
        &self,
        py: Python<'_>,
        data: Given<AnyRecordBatch>,
        rows: Given<PyArray>,
    ) -> PyResult<PyRecordBatchReader> {
        let reader = data.0.into_reader()?;
        let schema = reader.schema();
        let batches = detached(py, move || {
            let rows = rows.array("rows")?;
            let Some(rows) = rows.as_boolean_opt() else {
                return Err(Error::InvalidType(format!("rows: they are {}, not booleans", rows.data_type())));
            };
            let (mut filtered, mut from) = (Vec::new(), 0);
            for batch in given::batches("data", None, reader) {
                let batch = batch?;
                let count = batch.num_rows();
                if count > rows.len() - from {
                    return Err(Error::InvalidValue(format!(
                        "rows: there are {}, fewer than rows of data",
                        rows.len()
                    )));
                }
                for at in (0..count).step_by(AT_ONCE) {
                    check()?;
                    let some = AT_ONCE.min(count - at);
                    filtered.push(filter_record_batch(&batch.slice(at, some), &rows.slice(from + at, some))?);
                }
                from += count;
            }
            Ok(filtered)
        })?;
        Ok(table(batches, schema))
    }

    /// The distance of duplicates, in units of the times.
    #[getter]
    fn within(&self) -> i64 {
        self.0.within()
    }

    /// The schema of results of streams.
    #[getter]
    fn output_schema(&self) -> PySchema {
        PySchema::new(self.0.output().clone())
    }
}

/// What the stream holds and has done; see `windowkit.streams.stats.DistinctStats`.
#[pyclass(name = "DistinctStats", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyDistinctStats {
    keys: usize,
    rows_kept: usize,
    bytes: usize,
    rows: u64,
    late: u64,
    late_dropped: u64,
    results: u64,
}

/// A stream without its duplicates.
#[pyclass(name = "DistinctOperator", module = "windowkit._native", frozen)]
pub(super) struct PyDistinctOperator(CalledOperator<DistinctStream>);

#[pymethods]
impl PyDistinctOperator {
    #[new]
    fn new(py: Python<'_>, distinct: Bound<'_, PyDistinct>, late_limit: Option<u64>) -> PyResult<Self> {
        let plan = distinct.get().0.clone();
        detached(py, || Ok(Self(Called::new(Ok(DistinctStream::new(plan, late_limit)?)))))
    }

    /// The schema of the rows of a snapshot.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8], identity: &str) -> PyResult<PySchema> {
        detached(py, || Ok(PySchema::new(DistinctStream::contents(snapshot, identity)?)))
    }

    /// Restores the operator of a snapshot.
    #[staticmethod]
    fn restore(
        py: Python<'_>,
        snapshot: &[u8],
        identity: &str,
        distinct: Bound<'_, PyDistinct>,
    ) -> PyResult<Self> {
        let plan = distinct.get().0.clone();
        detached(py, || Ok(Self(Called::new(Ok(DistinctStream::restore(snapshot, identity, plan)?)))))
    }

    /// The whole state, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>, identity: &str) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = detached(py, || self.0.ask(|stream| caught(|| stream.snapshot(identity))))?;
        py_bytes(py, &bytes)
    }

    /// Adds rows.
    fn push(&self, py: Python<'_>, batch: Given<AnyRecordBatch>) -> PyResult<PyRecordBatchReader> {
        let reader = batch.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("batch", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(DistinctStep::Push(&batches))
        })
    }

    /// Moves the watermark.
    fn advance(&self, py: Python<'_>, watermark: i64) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::Advance(watermark)))
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::Close))
    }

    /// Rows that were too late.
    fn take_late(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let late = self.0.call(|stream| {
                let late = stream.call(DistinctStep::TakeLate)?;
                Ok(Rows::late(late, stream.late_schema()))
            })?;
            Ok(late.table())
        })
    }

    /// How many calls have taken effect.
    #[getter]
    fn calls(&self) -> u64 {
        self.0.count()
    }

    /// The rows of the last call that returned some, and whether they are late ones.
    fn last(&self, py: Python<'_>) -> PyOut<Option<(PyRecordBatchReader, bool)>> {
        self.0.last_rows(py).map(Out)
    }

    /// Whether the stream has ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.0.ask(|stream| Ok(stream.is_closed())))
    }

    /// Up to when results are complete; nothing is said of that once the stream has ended.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        detached(py, || self.0.ask(|stream| Ok(stream.watermark().filter(|_| !stream.is_closed()))))
    }

    /// What it holds and has done.
    fn stats(&self, py: Python<'_>) -> PyResult<PyDistinctStats> {
        let of = |stream: &mut DistinctStream| {
            let DistinctStats { keys, held: rows_kept, bytes, rows, late, dropped: late_dropped, results } =
                stream.stats();
            PyDistinctStats { keys, rows_kept, bytes, rows, late, late_dropped, results }
        };
        detached(py, || self.0.ask(|stream| Ok(of(stream))))
    }
}

impl PyDistinctOperator {
    fn call(&self, step: DistinctStep<'_>) -> Result<PyRecordBatchReader> {
        let rows = self.0.call(|stream| {
            let rows = stream.call(step)?;
            Ok(Rows::new(rows, stream.schema()))
        })?;
        Ok(rows.table())
    }
}
