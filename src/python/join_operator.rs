//! `windowkit._native.JoinOperator`: rows of two sides and how far these are complete in, the rows of a join out.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::calls::{Called, CalledOperator, Rows};
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use super::join::PyJoin;
use crate::Result;
use crate::memory::caught;
use crate::operator::{JoinStep, JoinStream, Which};

/// A join of two streams.
#[pyclass(name = "JoinOperator", module = "windowkit._native", frozen)]
pub(super) struct PyJoinOperator(CalledOperator<JoinStream>);

/// The time of each side that a result to come may have at least, and of both together.
#[pyclass(name = "Watermarks", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyWatermarks {
    left: Option<i64>,
    right: Option<i64>,
    joint: Option<(i64, i64)>,
}

/// What a join of streams holds and has done; see `windowkit.streams.stats.JoinStats`.
#[pyclass(name = "JoinStats", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyJoinStats {
    keys: usize,
    left_kept: usize,
    right_kept: usize,
    bytes: usize,
    left_rows: u64,
    right_rows: u64,
    left_late: u64,
    right_late: u64,
    left_dropped: u64,
    right_dropped: u64,
    left_keys_ahead: usize,
    right_keys_ahead: usize,
    results: u64,
}

#[pymethods]
impl PyJoinOperator {
    #[new]
    fn new(py: Python<'_>, join: Bound<'_, PyJoin>, late_limit: Option<u64>) -> PyResult<Self> {
        let plan = join.get().0.clone();
        detached(py, || Ok(Self(Called::new(Ok(JoinStream::new(plan, late_limit)?)))))
    }

    /// The schemas of the sides of a snapshot of this join.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8], identity: &str) -> PyOut<Vec<PySchema>> {
        detached(py, || Ok(JoinStream::contents(snapshot, identity)?.map(PySchema::new).into())).map(Out)
    }

    /// Restores the operator of a snapshot.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8], identity: &str, join: Bound<'_, PyJoin>) -> PyResult<Self> {
        let plan = join.get().0.clone();
        detached(py, || Ok(Self(Called::new(Ok(JoinStream::restore(snapshot, identity, plan)?)))))
    }

    /// The whole state, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>, identity: &str) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = detached(py, || self.0.ask(|stream| caught(|| stream.snapshot(identity))))?;
        py_bytes(py, &bytes)
    }

    /// Adds rows of the left side, or of the right one.
    fn push(
        &self,
        py: Python<'_>,
        is_left: bool,
        batch: Given<AnyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        let reader = batch.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("batch", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(JoinStep::Push(side(is_left), &batches))
        })
    }

    /// Moves the watermark of a side.
    fn advance(&self, py: Python<'_>, is_left: bool, watermark: i64) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(JoinStep::Advance(side(is_left), watermark)))
    }

    /// Moves the watermark of the key of a side that is in a batch of one row.
    fn advance_key(
        &self,
        py: Python<'_>,
        is_left: bool,
        watermark: i64,
        key: Given<PyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let key = key.batch("key")?;
            self.call(JoinStep::AdvanceKey(side(is_left), watermark, key.columns()))
        })
    }

    /// The keys of a side that are ahead of it, and up to when each is complete.
    fn keys_ahead(&self, py: Python<'_>, is_left: bool) -> PyResult<PyRecordBatch> {
        let of = |stream: &mut JoinStream| Ok(PyRecordBatch::new(stream.keys_ahead(side(is_left))?));
        detached(py, || self.0.ask(of))
    }

    /// Ends both sides.
    fn close(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(JoinStep::Close))
    }

    /// Rows of a side that were too late.
    fn take_late(&self, py: Python<'_>, is_left: bool) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let late = self.0.call(|stream| {
                let late = stream.call(JoinStep::TakeLate(side(is_left)))?;
                Ok(Rows::late(late, stream.late_schema(side(is_left))))
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

    /// Whether both sides have ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.0.ask(|stream| Ok(stream.is_closed())))
    }

    /// How far results are complete; nothing is said of that once the operator is closed.
    fn watermarks(&self, py: Python<'_>) -> PyResult<PyWatermarks> {
        let of = |stream: &mut JoinStream| match stream.is_closed() {
            true => PyWatermarks { left: None, right: None, joint: None },
            false => PyWatermarks {
                left: stream.individual(Which::Left),
                right: stream.individual(Which::Right),
                joint: stream.joint(),
            },
        };
        detached(py, || self.0.ask(|stream| Ok(of(stream))))
    }

    /// What it holds and has done.
    fn stats(&self, py: Python<'_>) -> PyResult<PyJoinStats> {
        let of = |stream: &mut JoinStream| {
            let stats = stream.stats();
            let [left_kept, right_kept] = stats.stored;
            let [left_rows, right_rows] = stats.rows;
            let [left_late, right_late] = stats.late;
            let [left_dropped, right_dropped] = stats.dropped;
            let [left_keys_ahead, right_keys_ahead] = stats.keys_ahead;
            PyJoinStats {
                keys: stats.keys,
                left_kept,
                right_kept,
                bytes: stats.bytes,
                left_rows,
                right_rows,
                left_late,
                right_late,
                left_dropped,
                right_dropped,
                left_keys_ahead,
                right_keys_ahead,
                results: stats.results,
            }
        };
        detached(py, || self.0.ask(|stream| Ok(of(stream))))
    }
}

impl PyJoinOperator {
    fn call(&self, step: JoinStep<'_>) -> Result<PyRecordBatchReader> {
        let rows = self.0.call(|stream| {
            let rows = stream.call(step)?;
            Ok(Rows::new(rows, stream.schema()))
        })?;
        Ok(rows.table())
    }
}

fn side(is_left: bool) -> Which {
    if is_left { Which::Left } else { Which::Right }
}
