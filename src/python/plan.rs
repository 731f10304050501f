//! `windowkit._native.Plan`.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::aggregate::{PyAggregate, aggregate_specs};
use super::callees::{Callees, callees, of_same};
use super::engine::{PyBatches, PyEngine, batches};
use super::errors::{Out, PyOut, counted, detached};
use super::given::{self, Asked, Given};
use super::policy::PyPolicy;
use super::window::PyWindow;
use crate::Result;
use crate::aggregate::{Partial, Properties};
use crate::operator::{
    BLOCKS_PER_ROUND, Bounded, Fill, Output, Plan, Sign, Stored, WindowSpec, slices_schema, split_rows,
};
use crate::window::{Measure, Timetable, Unit, Window};

/// Rows read from a stream before they are distributed to threads.
const ROUND_ROWS: usize = 4 << 20;

/// A query bound to a schema.
#[pyclass(name = "Plan", module = "windowkit._native", frozen)]
pub(super) struct PyPlan(pub(super) Arc<Plan>, pub(super) Callees);

/// A partial that slices store.
#[pyclass(name = "Partial", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyPartial {
    kind: String,
    columns: Vec<String>,
    condition: Option<String>,
}

/// The properties of an aggregate.
#[pyclass(name = "Properties", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyProperties {
    associative: bool,
    commutative: bool,
    invertible: bool,
    kind: &'static str,
}

/// Edges of a calendar: where its periods begin.
#[pyclass(name = "Timetable", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyTimetable {
    unit: &'static str,
    count: i64,
    first: i64,
    /// How long after midnight they begin.
    shift: i64,
    zone: Option<String>,
    /// By how many days they are cut, or else by how much time.
    days: Option<i64>,
    time: Option<i64>,
}

/// What the core knows of a window.
#[pyclass(name = "WindowTraits", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyWindowTraits {
    context: &'static str,
    counts_rows: bool,
    needs_rows: bool,
    /// Where in the literature it is defined.
    source: &'static str,
}

#[pymethods]
impl PyPlan {
    #[new]
    #[pyo3(signature = (schema, by, time, windows, aggregates, max_windows = None, policy = None, weight = None, fill = None))]
    #[allow(clippy::too_many_arguments, reason = "as many as a query has parts")]
    fn new(
        py: Python<'_>,
        schema: Given<PySchema>,
        by: Vec<String>,
        time: String,
        windows: Asked<Vec<PyWindow>>,
        aggregates: Asked<Vec<PyAggregate>>,
        max_windows: Option<u64>,
        policy: Option<PyPolicy>,
        weight: Option<String>,
        fill: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let mut made = Vec::new();
        let aggregates = aggregate_specs(py, aggregates.0, &mut made)?;
        let schema: SchemaRef = schema.0.into_inner();
        // The plan itself reports a missing time column.
        let measure =
            schema.field_with_name(&time).ok().and_then(|field| Measure::new(&time, field.data_type()).ok());
        let spec = |window: PyWindow| window.spec(py, measure.as_ref(), max_windows, &mut made);
        let windows: Vec<Result<WindowSpec>> = windows.0.into_iter().map(spec).collect::<PyResult<_>>()?;
        let callees = callees(py, made)?;
        detached(py, move || {
            let windows = windows.into_iter().collect::<Result<_>>()?;
            let plan = Plan::new(schema, by, time, windows, aggregates)?.with_weight(weight)?;
            let policy = policy.map(|policy| policy.bound(&plan)).transpose()?;
            let fill = fill.map(|fill| fill.iter().map(|name| Fill::named(name)).collect::<Result<_>>());
            let plan = plan.with_fill(fill.transpose()?)?;
            Ok(Self(Arc::new(plan.with_max_windows(max_windows).with_policy(policy)?), callees))
        })
    }

    /// The schema of the result.
    #[getter]
    fn output_schema(&self) -> PySchema {
        PySchema::new(self.0.output().clone())
    }

    /// The distinct partials that slices store. Where rows have weights, all are stored once for each weight, and here
    /// once.
    #[getter]
    fn partials(&self) -> Vec<PyPartial> {
        let column = |position: usize| self.0.input().field(position).name().clone();
        let columns = |stored: &Stored| stored.inputs.iter().map(|&at| column(at)).collect();
        let is_minus = |stored: &&Stored| matches!(stored.weight, Some((_, Sign::Minus)));
        let partials = self.0.partials().iter().filter(|stored| !is_minus(stored));
        let partial = |stored: &Stored| PyPartial {
            kind: kind(&stored.partial),
            columns: columns(stored),
            condition: stored.filter.map(column),
        };
        partials.map(partial).collect()
    }

    /// Which of the partials each aggregate is lowered from.
    #[getter]
    fn sources(&self) -> Vec<Vec<usize>> {
        self.0.sources()
    }

    /// The properties of each aggregate.
    #[getter]
    fn properties(&self, py: Python<'_>) -> PyOut<Vec<PyProperties>> {
        let all = detached(py, || self.0.properties())?;
        let of = |Properties { associative, commutative, invertible, kind }| PyProperties {
            associative,
            commutative,
            invertible,
            kind: kind.name(),
        };
        Ok(Out(all.into_iter().map(of).collect()))
    }

    /// Families of slice edges: period and offset in units of the measure.
    #[getter]
    fn edges(&self) -> Vec<(i64, i64)> {
        self.0.edges().families().to_vec()
    }

    /// Families of slice edges that have a first edge: period and first edge.
    #[getter]
    fn rays(&self) -> Vec<(i64, i64)> {
        self.0.edges().rays().to_vec()
    }

    /// Edges of calendars.
    #[getter]
    fn timetables(&self) -> Vec<PyTimetable> {
        let timetables = self.0.edges().timetables().iter();
        timetables
            .map(|(table, _)| {
                let (periods, days, time) = match table {
                    Timetable::Periods(periods) => (periods, None, None),
                    Timetable::Days { periods, every } => (periods, Some(*every), None),
                    Timetable::Within { periods, every } => (periods, None, Some(*every)),
                };
                let unit = match periods.unit() {
                    Unit::Days => "day",
                    Unit::Months => "month",
                };
                let zone = periods.zone().map(|zone| zone.name().to_owned());
                let (count, first, shift) = (periods.count(), periods.phase(), periods.shift());
                PyTimetable { unit, count, first, shift, zone, days, time }
            })
            .collect()
    }

    /// Slice edges of no family.
    #[getter]
    fn points(&self) -> Vec<i64> {
        self.0.edges().points().to_vec()
    }

    /// Families for an engine that can only cut at fixed times: sessions become panes as wide as their gap. `None` if
    /// there are edges that belong to no family.
    #[getter]
    fn pane_edges(&self) -> Option<Vec<(i64, i64)>> {
        self.0.edges().panes()
    }

    /// The schema of slices that an engine returns.
    #[getter]
    fn slices_schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        detached(py, || Ok(PySchema::new(slices_schema(&self.0)?)))
    }

    /// Whether every slice has a start.
    #[getter]
    fn slices_have_starts(&self) -> bool {
        self.0.edges().have_starts()
    }

    /// Whether a window needs rows in order.
    #[getter]
    fn needs_rows(&self) -> bool {
        self.0.needs_rows()
    }

    /// Whether the result has the column `window_rows`.
    #[getter]
    fn has_ranks(&self) -> bool {
        self.0.has_ranks()
    }

    /// What is known of each window.
    #[getter]
    fn windows(&self) -> Vec<PyWindowTraits> {
        let traits = |(_, window): &(String, Window)| PyWindowTraits {
            context: window.traits().class.name(),
            counts_rows: window.traits().count,
            needs_rows: window.needs_rows(),
            source: window.source(),
        };
        self.0.windows().iter().map(traits).collect()
    }

    /// Whether a window is a session.
    #[getter]
    fn has_session(&self) -> bool {
        self.0.edges().gap().is_some()
    }

    /// The name of the time column's unit.
    #[getter]
    fn unit(&self) -> &'static str {
        self.0.measure().unit_name()
    }

    /// All windows of a stream of rows, on `threads` threads.
    fn run(
        &self,
        py: Python<'_>,
        stream: Given<AnyRecordBatch>,
        threads: usize,
    ) -> PyResult<PyRecordBatchReader> {
        let mut output = aggregate(py, self.0.clone(), stream.0.into_reader()?, threads)?;
        let mut batches = Vec::new();
        while !output.is_done() {
            batches.extend(detached(py, || output.next_round(threads, BLOCKS_PER_ROUND))?);
            py.check_signals()?;
        }
        let batches =
            arrow_array::RecordBatchIterator::new(batches.into_iter().map(Ok), output.schema().clone());
        Ok(PyRecordBatchReader::new(Box::new(batches)))
    }

    /// The windows of [`PyPlan::run`], computed as they are read.
    fn batches(&self, py: Python<'_>, stream: Given<AnyRecordBatch>, threads: usize) -> PyResult<PyBatches> {
        let output = aggregate(py, self.0.clone(), stream.0.into_reader()?, threads)?;
        Ok(PyBatches::new(output, of_same(py, &self.1), threads))
    }

    /// An operator for rows that come batch by batch.
    fn engine(&self, py: Python<'_>) -> PyResult<PyEngine> {
        let callees = of_same(py, &self.1);
        detached(py, || Ok(PyEngine::of_rows(Bounded::new(self.0.clone())?, callees)))
    }

    /// Rows of a batch by bucket of keys, for non-empty buckets.
    fn split(
        &self,
        py: Python<'_>,
        batch: Given<PyRecordBatch>,
        buckets: u32,
    ) -> PyOut<Vec<(u32, PyRecordBatch)>> {
        Ok(Out(batches(detached(py, || split_rows(&self.0, &batch.batch("batch")?, buckets))?)))
    }

    /// An operator for slices that come batch by batch: stage 2 of a distributed job.
    fn slices_engine(&self, py: Python<'_>, schema: Given<PySchema>) -> PyResult<PyEngine> {
        let schema: SchemaRef = schema.0.into_inner();
        let callees = of_same(py, &self.1);
        detached(py, || Ok(PyEngine::of_slices(Bounded::for_slices(&self.0, &schema)?, callees)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.1)
    }
}

/// How planners identify partials: one of a user-defined function may have the name of a built-in one.
fn kind(partial: &Partial) -> String {
    match partial {
        Partial::User(_) => format!("user:{}", partial.name()),
        _ => partial.name().into(),
    }
}

/// Pushes a whole stream, some batches at a time: a stream may be larger than memory, and the user may interrupt it.
fn aggregate(
    py: Python<'_>,
    plan: Arc<Plan>,
    reader: Box<dyn RecordBatchReader + Send>,
    threads: usize,
) -> PyResult<Output> {
    let columns = plan.columns();
    let mut bounded = detached(py, || Bounded::new(plan))?;
    pushed(py, "data", &columns, reader, |round| bounded.push(round, threads))?;
    detached(py, move || bounded.finish())
}

/// Passes all batches of a stream, which errors call `argument`, on, some at a time; only these columns are read.
pub(super) fn pushed(
    py: Python<'_>,
    argument: &str,
    columns: &[usize],
    reader: Box<dyn RecordBatchReader + Send>,
    mut push: impl FnMut(&[RecordBatch]) -> Result<()> + Send,
) -> PyResult<()> {
    // One call, as the end of a reader may run Python as well.
    counted(py, move || {
        let mut reader = given::batches(argument, Some(columns), reader);
        let mut more = true;
        while more {
            more = detached(py, || {
                let round = next_batches(&mut reader)?;
                push(&round)?;
                Ok(!round.is_empty())
            })?;
            py.check_signals()?;
        }
        Ok(())
    })
}

/// The next `ROUND_ROWS` rows or slightly more; empty at the end.
fn next_batches(reader: &mut impl Iterator<Item = Result<RecordBatch>>) -> Result<Vec<RecordBatch>> {
    let (mut round, mut rows) = (Vec::new(), 0);
    while rows < ROUND_ROWS {
        let Some(batch) = reader.next() else { break };
        let batch = batch?;
        rows += batch.num_rows();
        round.push(batch);
    }
    Ok(round)
}
