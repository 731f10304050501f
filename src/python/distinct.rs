//! `windowkit._native.Distinct` and `DistinctOperator`: rows without duplicates.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, cast::AsArray};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyArray, PyRecordBatch, PyRecordBatchReader, PySchema};

use super::calls::{Called, CalledOperator, Rows, table};
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use super::progress::PyDelay;
use super::shedding::PyShed;
use crate::interrupt::check;
use crate::memory::caught;
use crate::operator::{
    DistinctOptions, DistinctPlan, DistinctStats, DistinctStep, DistinctStream, Length, Per, Shed,
};
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
        per: &str,
    ) -> PyResult<Self> {
        let schema = schema.0.into_inner();
        let per = if per == "interval" { Per::Interval } else { Per::First };
        detached(py, move || Ok(Self(Arc::new(DistinctPlan::new(schema, &by, &time, within, per)?))))
    }

    /// Which rows of a table are no duplicates, as a column of booleans, found on `threads` threads.
    fn left(&self, py: Python<'_>, data: Given<AnyRecordBatch>, threads: usize) -> PyResult<PyArray> {
        let reader = data.0.into_reader()?;
        let left = detached(py, move || {
            let batches = given::batches("data", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.0.left(&batches, threads)
        })?;
        Ok(PyArray::from_array_ref(Arc::new(left)))
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
}

/// What the stream holds and has done; see `windowkit.streams.stats.DistinctStats`.
#[pyclass(name = "DistinctStats", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyDistinctStats {
    keys: usize,
    rows_kept: usize,
    bytes: usize,
    keys_ahead: usize,
    rows: u64,
    late: u64,
    late_dropped: u64,
    results: u64,
    rows_shed: u64,
    keys_shed: u64,
    shed_level: u32,
}

/// A stream without its duplicates.
#[pyclass(name = "DistinctOperator", module = "windowkit._native", frozen)]
pub(super) struct PyDistinctOperator(CalledOperator<DistinctStream>);

#[pymethods]
impl PyDistinctOperator {
    #[new]
    fn new(
        py: Python<'_>,
        distinct: Bound<'_, PyDistinct>,
        progress: Option<PyDelay>,
        late_limit: Option<u64>,
        shed: Option<PyShed>,
    ) -> PyResult<Self> {
        let plan = distinct.get().0.clone();
        detached(py, || {
            let progress = progress.map(|delay| delay.bound(plan.input(), plan.measure())).transpose()?;
            let options = DistinctOptions { progress, late_limit, shed: shed.map(Shed::from) };
            Ok(Self(Called::new(Ok(DistinctStream::new(plan, options)?))))
        })
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
        let bytes = self.ask(py, |stream| caught(|| stream.snapshot(identity)))?;
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

    /// Moves the watermark of the key in a batch of one row.
    fn advance_key(
        &self,
        py: Python<'_>,
        watermark: i64,
        key: Given<PyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::AdvanceKey(watermark, key.batch("key")?.columns())))
    }

    /// Keys that are ahead of the stream, and in the last column up to when each is complete.
    fn keys_ahead(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.keys_ahead()?)))
    }

    /// Moves the watermark on to that of the sources that are not idle.
    fn follow(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::Follow))
    }

    /// Waits for rows of the source in a batch of one row.
    fn add_source(&self, py: Python<'_>, source: Given<PyRecordBatch>) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::AddSource(source.batch("source")?.column(0))))
    }

    /// Waits no longer for rows of the source in a batch of one row.
    fn end_source(&self, py: Python<'_>, source: Given<PyRecordBatch>) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(DistinctStep::EndSource(source.batch("source")?.column(0))))
    }

    /// The position of the column that names sources, if there is one.
    #[getter]
    fn source(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.ask(py, |stream| Ok(stream.options().progress.and_then(|delay| delay.source)))
    }

    /// Whether the watermark follows rows.
    #[getter]
    fn follows(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.options().progress.is_some()))
    }

    /// Whether the clock matters to sources that are silent.
    #[getter]
    fn has_clock(&self, py: Python<'_>) -> PyResult<bool> {
        let has_clock = |stream: &mut DistinctStream| {
            stream.options().progress.is_some_and(|delay| delay.silence().is_some())
        };
        self.ask(py, |stream| Ok(has_clock(stream)))
    }

    /// Sets the clock to these microseconds, until which the caller has waited for rows, or has done something else.
    fn set_clock(&self, py: Python<'_>, now: i64, has_waited: bool) -> PyResult<()> {
        self.ask(py, |stream| {
            stream.set_clock(now, has_waited);
            Ok(())
        })
    }

    /// What is known of the sources.
    fn progress(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.progress()?)))
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

    /// The schema of results.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        self.ask(py, |stream| Ok(PySchema::new(stream.schema().clone())))
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
            let DistinctStats { keys, held, bytes, keys_ahead, rows, late, dropped, results, shed } =
                stream.stats();
            PyDistinctStats {
                keys,
                rows_kept: held,
                bytes,
                keys_ahead,
                rows,
                late,
                late_dropped: dropped,
                results,
                rows_shed: shed.rows,
                keys_shed: shed.keys,
                shed_level: shed.level,
            }
        };
        self.ask(py, |stream| Ok(of(stream)))
    }
}

impl PyDistinctOperator {
    /// Returns what the operator says of itself, once it has dropped what it holds too much of.
    fn ask<A: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut DistinctStream) -> Result<A> + Send,
    ) -> PyResult<A> {
        detached(py, || {
            self.0.ask(|stream| {
                stream.relieve()?;
                question(stream)
            })
        })
    }

    fn call(&self, step: DistinctStep<'_>) -> Result<PyRecordBatchReader> {
        let rows = self.0.call(|stream| {
            let rows = stream.call(step)?;
            Ok(Rows::new(rows, stream.schema()))
        })?;
        Ok(rows.table())
    }
}
