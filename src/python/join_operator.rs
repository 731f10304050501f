//! `windowkit._native.JoinOperator`: rows of two sides and how far these are complete in, the rows of a join out.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::callees::{Callees, of_same};
use super::calls::{Called, CalledOperator, Rows};
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use super::join::PyJoin;
use super::progress::PyDelay;
use super::shedding::PyShed;
use crate::Result;
use crate::memory::caught;
use crate::operator::{Flush, JoinContents, JoinOptions, JoinStep, JoinStream, Length, Shed, Which, length};

/// A join of two streams.
#[pyclass(name = "JoinOperator", module = "windowkit._native", frozen)]
pub(super) struct PyJoinOperator(CalledOperator<JoinStream>, Callees);

/// The time of each side that a result to come may have at least, and of both together.
#[pyclass(name = "Watermarks", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyWatermarks {
    left: Option<i64>,
    right: Option<i64>,
    joint: Option<(i64, i64)>,
}

/// What a plan needs to be that of a snapshot.
#[pyclass(name = "JoinContents", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyJoinContents {
    /// The schemas of both sides.
    sides: Vec<Py<PySchema>>,
    /// Whether rows without a partner are in the result at once.
    early: bool,
    /// Whether keys may be dropped.
    sheds: bool,
}

/// How the watermark of a side follows its rows.
#[pyclass(name = "Followed", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyFollowed {
    /// The position of the column that names sources, if one does.
    source: Option<usize>,
    /// Whether the watermark follows rows.
    follows: bool,
    /// Whether the clock matters, to sources that are silent.
    has_clock: bool,
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
    rows_shed: u64,
    keys_shed: u64,
    shed_level: u32,
    results: u64,
}

#[pymethods]
impl PyJoinOperator {
    #[new]
    fn new(
        py: Python<'_>,
        join: Bound<'_, PyJoin>,
        left_progress: Option<PyDelay>,
        right_progress: Option<PyDelay>,
        late_limit: Option<u64>,
        waits: (Option<u64>, Option<Length>),
        shed: Option<PyShed>,
    ) -> PyResult<Self> {
        let (plan, callees) = (join.get().0.clone(), of_same(py, &join.get().1));
        detached(py, || {
            let bound = |which, delay: Option<PyDelay>| {
                let (input, measure) = plan.stream(which);
                delay.map(|delay| delay.bound(input, measure)).transpose()
            };
            let progress = [bound(Which::Left, left_progress)?, bound(Which::Right, right_progress)?];
            let (_, measure) = plan.stream(Which::Left);
            let (at_most, later) = waits;
            let later = later.map(|later| length(measure, "later", later)).transpose()?;
            let flush = Flush { at_most, later };
            let options = JoinOptions { progress, late_limit, flush, shed: shed.map(Shed::from) };
            Ok(Self(Called::new(Ok(JoinStream::new(plan.clone(), options)?)), callees))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.1)
    }

    /// What a snapshot of this join is of.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8], identity: &str) -> PyResult<PyJoinContents> {
        let JoinContents { sides, early, sheds } = detached(py, || JoinStream::contents(snapshot, identity))?;
        let sides = sides.into_iter().map(|side| Py::new(py, PySchema::new(side)));
        Ok(PyJoinContents { sides: sides.collect::<PyResult<_>>()?, early, sheds })
    }

    /// Restores the operator of a snapshot.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8], identity: &str, join: Bound<'_, PyJoin>) -> PyResult<Self> {
        let (plan, callees) = (join.get().0.clone(), of_same(py, &join.get().1));
        detached(py, || Ok(Self(Called::new(Ok(JoinStream::restore(snapshot, identity, plan)?)), callees)))
    }

    /// The whole state, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>, identity: &str) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = detached(py, || {
            self.0.ask(|stream| {
                stream.relieve()?;
                caught(|| stream.snapshot(identity))
            })
        })?;
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

    /// Moves the watermark of a side on to that of its sources that are not idle.
    fn follow(&self, py: Python<'_>, is_left: bool) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(JoinStep::Follow(side(is_left))))
    }

    /// Waits for rows of the source of a side in a batch of one row.
    fn add_source(
        &self,
        py: Python<'_>,
        is_left: bool,
        source: Given<PyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(JoinStep::AddSource(side(is_left), source.batch("source")?.column(0))))
    }

    /// Waits no longer for rows of the source of a side in a batch of one row.
    fn end_source(
        &self,
        py: Python<'_>,
        is_left: bool,
        source: Given<PyRecordBatch>,
    ) -> PyResult<PyRecordBatchReader> {
        detached(py, || self.call(JoinStep::EndSource(side(is_left), source.batch("source")?.column(0))))
    }

    /// How the watermark of a side follows its rows.
    fn followed(&self, py: Python<'_>, is_left: bool) -> PyResult<PyFollowed> {
        let delay =
            detached(py, || self.0.ask(|stream| Ok(stream.options().progress[usize::from(!is_left)])))?;
        Ok(PyFollowed {
            source: delay.and_then(|delay| delay.source),
            follows: delay.is_some(),
            has_clock: delay.is_some_and(|delay| delay.silence().is_some()),
        })
    }

    /// Sets the clock of a side to these microseconds, until which the caller has waited for rows, or has done something
    /// else.
    fn set_clock(&self, py: Python<'_>, is_left: bool, now: i64, has_waited: bool) -> PyResult<()> {
        detached(py, || {
            self.0.ask(|stream| {
                stream.set_clock(side(is_left), now, has_waited);
                Ok(())
            })
        })
    }

    /// What is known of the sources of a side.
    fn progress(&self, py: Python<'_>, is_left: bool) -> PyResult<PyRecordBatch> {
        let of = |stream: &mut JoinStream| Ok(PyRecordBatch::new(stream.progress(side(is_left))?));
        detached(py, || self.0.ask(of))
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
                rows_shed: stats.shed.rows,
                keys_shed: stats.shed.keys,
                shed_level: stats.shed.level,
                results: stats.results,
            }
        };
        detached(py, || {
            self.0.ask(|stream| {
                stream.relieve()?;
                Ok(of(stream))
            })
        })
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
