//! `windowkit._native.JoinOperator`: rows of two sides and how far these are complete in, the rows of a join out.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatchReader, PySchema};

use super::errors::{Out, PyOut, detached};
use super::given::Given;
use super::join::PyJoin;
use super::stepped::{Stepped, table};
use crate::operator::{JoinStep, JoinStream, Which};

/// A join of two streams.
#[pyclass(name = "JoinOperator", module = "windowkit._native", frozen)]
pub(super) struct PyJoinOperator(Stepped<JoinStream>);

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
    results: u64,
}

#[pymethods]
impl PyJoinOperator {
    #[new]
    fn new(py: Python<'_>, join: Bound<'_, PyJoin>, late_limit: Option<u64>) -> PyResult<Self> {
        let plan = join.get().0.clone();
        detached(py, || Ok(Self(Stepped::new(JoinStream::new(plan, late_limit)?))))
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
        detached(py, || Ok(Self(Stepped::new(JoinStream::restore(snapshot, identity, plan)?))))
    }

    /// The whole state, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>, identity: &str) -> PyResult<Bound<'py, PyBytes>> {
        self.0.snapshot(py, identity)
    }

    /// Adds rows of the left side, or of the right one. This and the next two leave their step attempted: the next call
    /// commits it, unless that is `roll_back`.
    fn push(
        &self,
        py: Python<'_>,
        is_left: bool,
        batch: Given<AnyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        self.0.push(py, batch, |batches| JoinStep::Push(side(is_left), batches))
    }

    /// Moves the watermark of a side.
    fn advance(&self, py: Python<'_>, is_left: bool, watermark: i64) -> PyResult<PyRecordBatchReader> {
        self.0.attempt(py, JoinStep::Advance(side(is_left), watermark))
    }

    /// Ends both sides.
    fn close(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        self.0.attempt(py, JoinStep::Close)
    }

    /// Rows of a side that were too late.
    fn take_late(&self, py: Python<'_>, is_left: bool) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            self.0.tried(|stream| {
                let late = stream.attempt(JoinStep::TakeLate(side(is_left)))?;
                Ok(table(late, stream.late_schema(side(is_left)).clone()))
            })
        })
    }

    /// Begins a call; the one before has delivered its result, or was rolled back.
    fn begin(&self) {
        self.0.begin();
    }

    /// Rolls back what the call attempted that began last, as its result did not reach the caller.
    fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.roll_back())
    }

    /// Whether both sides have ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.is_closed(py)
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
        detached(py, || self.0.with(|stream| Ok(of(stream))))
    }

    /// What it holds and has done.
    fn stats(&self, py: Python<'_>) -> PyResult<PyJoinStats> {
        let of = |stream: &mut JoinStream| {
            let stats = stream.stats();
            let [left_kept, right_kept] = stats.stored;
            let [left_rows, right_rows] = stats.rows;
            let [left_late, right_late] = stats.late;
            let [left_dropped, right_dropped] = stats.dropped;
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
                results: stats.results,
            }
        };
        detached(py, || self.0.with(|stream| Ok(of(stream))))
    }
}

fn side(is_left: bool) -> Which {
    if is_left { Which::Left } else { Which::Right }
}
