//! `windowkit._native.Operator`: rows and watermarks in, windows out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::callees::{PyCallees, of_same};
use super::calls::{Called, CalledOperator, Rows};
use super::errors::{Out, PyOut, counted, detached, py_bytes};
use super::given::{self, Given};
use super::known;
use super::plan::PyPlan;
use super::progress::PyDelay;
use super::shedding::PyShed;
use crate::import::KnownSchema;
use crate::memory::caught;
use crate::operator::{
    Contents, Keep, Length, Operator, Options, Plan, Shed, Stats, Step, StoreKind, length,
};
use crate::slice::strategy::{Order, Ruling};
use crate::{Error, Result};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyOperator>()?;
    module.add_class::<PyContents>()?;
    module.add_class::<PyDecision>()?;
    module.add_class::<PyLimit>()?;
    module.add_class::<PyStats>()
}

/// A stream operator.
#[pyclass(name = "Operator", module = "windowkit._native", frozen)]
pub(super) struct PyOperator(CalledOperator<Operator>, KnownSchema, CalleesByQuery);

/// What queries call, by their names. It changes only where Python's lock is held.
type CalleesByQuery = Mutex<Vec<(String, Py<PyCallees>)>>;

/// What a query of this name calls, if it calls anything.
fn called(py: Python<'_>, name: &str, plan: &Bound<'_, PyPlan>) -> Option<(String, Py<PyCallees>)> {
    Some((name.to_owned(), of_same(py, &plan.get().1)?))
}

/// A query, and an allowed lateness of its own.
#[derive(FromPyObject)]
struct PyEntry<'py> {
    name: String,
    plan: Bound<'py, PyPlan>,
    allowed_lateness: Option<Length>,
}

/// How much memory the state may take, and what is kept where it would take more.
#[pyclass(name = "Limit", module = "windowkit._native", frozen, get_all)]
struct PyLimit {
    bytes: u64,
    keep: &'static str,
    seed: u64,
}

/// What a snapshot holds: the schema of its rows, the names of its queries, and its order.
#[pyclass(name = "Contents", module = "windowkit._native", frozen, get_all)]
struct PyContents {
    schema: Py<PySchema>,
    names: Vec<String>,
    order: &'static str,
}

/// A decision of the operator.
#[pyclass(name = "Decision", module = "windowkit._native", frozen, get_all, eq)]
#[derive(PartialEq)]
struct PyDecision {
    what: &'static str,
    answer: String,
    because: &'static str,
    source: &'static str,
}

/// What an operator holds and has done; see `windowkit.stats.Stats`.
#[pyclass(name = "Stats", module = "windowkit._native", frozen, get_all)]
struct PyStats {
    keys: usize,
    slices: usize,
    rows_kept: usize,
    bytes: usize,
    rows: u64,
    splits: u64,
    merges: u64,
    shifts: u64,
    recomputations: u64,
    late: u64,
    windows: u64,
    updates: u64,
    late_dropped: u64,
    late_bytes: usize,
    keys_ahead: usize,
    rows_shed: u64,
    keys_shed: u64,
    slices_shed: u64,
    shed_level: u32,
}

#[pymethods]
impl PyOperator {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "as many as an operator has options")]
    fn new(
        py: Python<'_>,
        queries: Vec<PyEntry<'_>>,
        order: &str,
        allowed_lateness: Length,
        progress: Option<PyDelay>,
        store: &str,
        late_limit: Option<u64>,
        shed: Option<PyShed>,
        updates: bool,
    ) -> PyResult<Self> {
        let callees = queries.iter().filter_map(|entry| called(py, &entry.name, &entry.plan)).collect();
        let queries: Vec<(String, Arc<Plan>, Option<Length>)> = queries
            .into_iter()
            .map(|PyEntry { name, plan, allowed_lateness }| (name, plan.get().0.clone(), allowed_lateness))
            .collect();
        detached(py, || {
            let store = match store {
                "auto" => StoreKind::Auto,
                "lazy" => StoreKind::Lazy,
                "eager" => StoreKind::Eager,
                _ => {
                    return Err(Error::InvalidValue(format!(
                        "store: '{store}' is unknown; allowed are 'auto', 'lazy' and 'eager'"
                    )));
                }
            };
            let Some((_, leader, _)) = queries.first() else {
                return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
            };
            let progress = progress.map(|delay| delay.bound(leader.input(), leader.measure())).transpose()?;
            let allowed_lateness = length(leader.measure(), "allowed_lateness", allowed_lateness)?;
            let order = Order::parse(order)?;
            let shed = shed.map(Shed::from);
            let options = Options { order, allowed_lateness, progress, store, late_limit, shed, updates };
            let queries = queries.into_iter().map(|(name, plan, own)| {
                let own = own.map(|own| length(plan.measure(), "allowed_lateness", own)).transpose()?;
                Ok((name, plan, own))
            });
            Self::of(Operator::with_lateness(queries.collect::<Result<_>>()?, options)?, callees)
        })
    }

    /// Restores the operator of a snapshot.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8], queries: Vec<(String, Bound<'_, PyPlan>)>) -> PyResult<Self> {
        let callees = queries.iter().filter_map(|(name, plan)| called(py, name, plan)).collect();
        let queries: Vec<(String, Arc<Plan>)> =
            queries.into_iter().map(|(name, plan)| (name, plan.get().0.clone())).collect();
        detached(py, || Self::of(Operator::restore(snapshot, queries)?, callees))
    }

    /// What a snapshot holds.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8]) -> PyResult<PyContents> {
        let Contents { schema, names, options } = detached(py, || Operator::contents(snapshot))?;
        let order = if options.order == Order::InOrder { "in-order" } else { "out-of-order" };
        Ok(PyContents { schema: Py::new(py, PySchema::new(schema))?, names, order })
    }

    /// The whole state of the operator, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = self.ask(py, |stream| caught(|| stream.snapshot()))?;
        py_bytes(py, &bytes)
    }

    /// Whether the stream was ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.is_closed()))
    }

    /// The schema of results.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        self.ask(py, |stream| Ok(PySchema::new(stream.schema().clone())))
    }

    /// Adds rows. Where no window is emitted, there is no table either, as making one takes longer than few rows do.
    fn push(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<Option<PyRecordBatchReader>> {
        let reader = counted(py, || known::extract(&self.1, stream))?.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("batch", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(Step::Push(&batches))
        })
    }

    /// Adds slices that were made elsewhere.
    fn push_slices(
        &self,
        py: Python<'_>,
        stream: Given<AnyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        let reader = stream.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("slices", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(Step::PushSlices(&batches))
        })
    }

    /// Why it takes no slices, or null if it does.
    fn refuses_slices(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.ask(py, |stream| Ok(stream.refuses_slices()))
    }

    /// Moves the watermark.
    fn advance(&self, py: Python<'_>, watermark: i64) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Advance(watermark)))
    }

    /// Moves the watermark of the key in a batch of one row.
    fn advance_key(
        &self,
        py: Python<'_>,
        watermark: i64,
        key: Given<PyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.batch("key")?;
            self.call(Step::AdvanceKey(watermark, key.columns()))
        })
    }

    /// Ends the key in a batch of one row.
    fn end_key(&self, py: Python<'_>, key: Given<PyRecordBatch>) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::EndKey(key.batch("key")?.columns())))
    }

    /// Waits for rows of the source in a batch of one row.
    fn add_source(
        &self,
        py: Python<'_>,
        source: Given<PyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::AddSource(source.batch("source")?.column(0))))
    }

    /// Waits no longer for rows of the source in a batch of one row.
    fn end_source(
        &self,
        py: Python<'_>,
        source: Given<PyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::EndSource(source.batch("source")?.column(0))))
    }

    /// The position of the column that names sources, if there is one.
    #[getter]
    fn source(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.ask(py, |stream| Ok(stream.options().progress.and_then(|delay| delay.source)))
    }

    /// Keys that are ahead of the stream, and in the last column up to when each is complete.
    fn keys_ahead(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.keys_ahead()?)))
    }

    /// Moves the watermark on to that of the sources that are not idle, if it follows any; emits what is due by the clock.
    fn follow(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Follow))
    }

    /// Sets the clock to these microseconds, until which the caller has waited for rows, or has done something else.
    fn set_clock(&self, py: Python<'_>, now: i64, has_waited: bool) -> PyResult<()> {
        self.ask(py, |stream| {
            stream.set_clock(now, has_waited);
            Ok(())
        })
    }

    /// Whether the watermark follows rows.
    #[getter]
    fn follows(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.options().progress.is_some()))
    }

    /// Whether the clock matters: to sources that are silent, or to windows that are emitted by it.
    #[getter]
    fn has_clock(&self, py: Python<'_>) -> PyResult<bool> {
        let has_clock = |stream: &mut Operator| {
            stream.options().progress.is_some_and(|delay| delay.silence().is_some()) || stream.uses_clock()
        };
        self.ask(py, |stream| Ok(has_clock(stream)))
    }

    /// How much memory the state may take, and what is kept then, if that is limited.
    #[getter]
    fn shed(&self, py: Python<'_>) -> PyResult<Option<PyLimit>> {
        let limit = |Shed { bytes, keep, seed }: Shed| PyLimit {
            bytes,
            keep: if keep == Keep::Keys { "keys" } else { "rows" },
            seed,
        };
        self.ask(py, |stream| Ok(stream.options().shed.map(limit)))
    }

    /// What is known of the sources.
    fn progress(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.progress()?)))
    }

    /// Whether it is measured how late rows are.
    #[getter]
    fn measures(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.options().progress.is_some_and(|delay| delay.measures())))
    }

    /// Which share of the rows of windows can be expected to have arrived, for a batch of their starts and ends.
    fn completeness(&self, py: Python<'_>, windows: Given<PyRecordBatch>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.completeness(&windows.batch("windows")?)?)))
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Close))
    }

    /// All open windows as they stand, of the key in a batch of one row or of all keys.
    fn peek(
        &self,
        py: Python<'_>,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            let rows = self.0.ask(|stream| {
                let rows = stream.peek(key.as_ref().map(RecordBatch::columns))?;
                Ok(Rows::new(rows, stream.schema()))
            })?;
            Ok((!rows.is_empty()).then(|| rows.table()))
        })
    }

    /// Fires the key in a batch of one row, or all keys.
    fn fire(
        &self,
        py: Python<'_>,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            self.call(Step::Fire(key.as_ref().map(RecordBatch::columns)))
        })
    }

    /// Puts a punctuation at a time: of the key in a batch of one row, or of all keys.
    fn punctuate(
        &self,
        py: Python<'_>,
        time: i64,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            self.call(Step::Punctuate(time, key.as_ref().map(RecordBatch::columns)))
        })
    }

    /// Rows that were too late or had no time.
    fn take_late(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let late = self.0.call(|stream| {
                let late = stream.call(Step::TakeLate)?;
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

    /// The names of all queries.
    fn names(&self, py: Python<'_>) -> PyOut<Vec<String>> {
        self.ask(py, |stream| Ok(stream.names().map(str::to_owned).collect())).map(Out)
    }

    /// The names of the queries for which rows are stored.
    fn queries_with_rows(&self, py: Python<'_>) -> PyOut<Vec<String>> {
        self.ask(py, |stream| Ok(stream.queries_with_rows().into_iter().map(str::to_owned).collect()))
            .map(Out)
    }

    /// Adds a query.
    fn add(
        &self,
        py: Python<'_>,
        name: String,
        plan: Bound<'_, PyPlan>,
        allowed_lateness: Option<Length>,
    ) -> PyResult<()> {
        // Before it is called; should it not be added, they stay.
        self.callees().extend(called(py, &name, &plan));
        let plan = plan.get().0.clone();
        detached(py, move || {
            let lateness =
                allowed_lateness.map(|own| length(plan.measure(), "allowed_lateness", own)).transpose()?;
            self.0.change(|stream| {
                stream.relieve()?;
                stream.add(name, plan, lateness)
            })
        })
    }

    /// Removes a query.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || {
            self.0.change(|stream| {
                stream.relieve()?;
                stream.remove(name)
            })
        })?;
        let removed: Vec<_> = self.callees().extract_if(.., |(query, _)| query == name).collect();
        // What is freed may run Python, which may call this.
        drop(removed);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        // Nobody else is within, as the collector holds Python's lock, or other threads rest.
        let Ok(callees) = self.2.try_lock() else { return Ok(()) };
        callees.iter().try_for_each(|(_, callees)| visit.call(callees))
    }

    /// What it holds and has done.
    fn stats(&self, py: Python<'_>) -> PyResult<PyStats> {
        self.ask(py, |stream| Ok(stream.stats().into()))
    }

    /// All slices.
    fn slices(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.slices()?)))
    }

    /// When the first slice ends, in units of the measure.
    fn first_end(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.ask(py, |stream| Ok(stream.first_end()))
    }

    /// The watermark in units of the measure.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.ask(py, |stream| Ok(stream.watermark()))
    }

    /// The watermark up to which results were handed out.
    #[getter]
    fn watermark_out(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.ask(py, |stream| Ok(stream.watermark_out()))
    }

    /// How slices are stored, and why: in one way, or in several.
    fn stores(&self, py: Python<'_>) -> PyOut<Vec<(&'static str, &'static str)>> {
        self.ask(py, |stream| Ok(stream.store_forms())).map(Out)
    }

    /// The answers of the decision trees.
    fn strategy(&self, py: Python<'_>) -> PyOut<Vec<PyDecision>> {
        let yes = |ruling: &Ruling<bool>| if ruling.answer { "yes" } else { "no" }.to_owned();
        self.ask(py, |stream| {
            let strategy = stream.strategy();
            let (keep, split) = (&strategy.keep_rows, &strategy.split);
            let decision = |what, answer, because, source| PyDecision { what, answer, because, source };
            let mut decisions = vec![
                decision("store rows", yes(keep), keep.because, keep.source),
                decision("split slices", yes(split), split.because, split.source),
            ];
            for remove in &strategy.remove {
                let answer = remove.answer.to_string();
                let remove = decision("take rows out", answer, remove.because, remove.source);
                if !decisions.contains(&remove) {
                    decisions.push(remove);
                }
            }
            Ok(decisions)
        })
        .map(Out)
    }
}

impl PyOperator {
    fn of(operator: Operator, callees: Vec<(String, Py<PyCallees>)>) -> Result<Self> {
        let known = KnownSchema::new(operator.input().clone())?;
        Ok(Self(Called::new(Ok(operator)), known, Mutex::new(callees)))
    }

    fn callees(&self) -> MutexGuard<'_, Vec<(String, Py<PyCallees>)>> {
        self.2.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, and returns the windows that it emits, if there are any.
    fn call(&self, step: Step<'_>) -> Result<Option<PyRecordBatchReader>> {
        let rows = self.0.call(|stream| {
            let results = stream.call(step)?;
            Ok(Rows::new(results, stream.schema()))
        })?;
        Ok((!rows.is_empty()).then(|| rows.table()))
    }

    /// Returns what the operator says of itself, once it has dropped what it holds too much of.
    fn ask<A: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut Operator) -> Result<A> + Send,
    ) -> PyResult<A> {
        detached(py, || {
            self.0.ask(|stream| {
                stream.relieve()?;
                question(stream)
            })
        })
    }
}

impl From<Stats> for PyStats {
    fn from(stats: Stats) -> Self {
        let Stats { keys, slices, rows_kept, bytes, rows, splits, merges, shifts, recomputations, .. } =
            stats;
        let Stats { late, windows, updates, late_dropped, late_bytes, keys_ahead, shed, .. } = stats;
        Self {
            keys,
            slices,
            rows_kept,
            bytes,
            rows,
            splits,
            merges,
            shifts,
            recomputations,
            late,
            windows,
            updates,
            late_dropped,
            late_bytes,
            keys_ahead,
            rows_shed: shed.rows,
            keys_shed: shed.keys,
            slices_shed: shed.slices,
            shed_level: shed.level,
        }
    }
}
