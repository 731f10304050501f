//! `windowkit._native.Partitioner`, and the functions of `windowkit.partition`.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchReader, cast::AsArray,
    types::Int32Type,
};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyArray, PyRecordBatch};

use super::calls::Called;
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use crate::interrupt::check;
use crate::keys::{KeyIndex, hash_rows};
use crate::memory::{caught, spared};
use crate::operator::Length;
use crate::partition::{
    Batch, Candidates, CardinalityKind, Cost, Method, Parameters, Partitioner, Share, Statistics,
    WindowLength, choose, cost, plan,
};
use crate::{Error, Result};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyPartitioner>()?;
    module.add_class::<PyParameters>()?;
    module.add_class::<PyWindow>()?;
    module.add_class::<PyStatistics>()?;
    module.add_class::<PyChoice>()?;
    module.add_class::<PyPartitionPlan>()?;
    module.add_function(wrap_pyfunction!(partition_candidates, module)?)?;
    module.add_function(wrap_pyfunction!(partition_hashes, module)?)?;
    module.add_function(wrap_pyfunction!(partition_cost, module)?)?;
    module.add_function(wrap_pyfunction!(partition_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(partition_choose, module)?)?;
    module.add_function(wrap_pyfunction!(partition_plan, module)?)
}

/// A `windowkit.partition.arguments.WindowLength`.
#[derive(FromPyObject)]
struct PyLength {
    size: Length,
    offset: Length,
}

/// The window of a partitioner.
#[pyclass(name = "PartitionWindow", module = "windowkit._native", frozen, get_all)]
struct PyWindow {
    size: i64,
    offset: i64,
    counts_rows: bool,
    /// Whether sizes are durations, in nanoseconds, and not in units of an integer column.
    is_duration: bool,
}

/// What a partitioner was made with.
#[pyclass(name = "PartitionParameters", module = "windowkit._native", frozen, get_all)]
struct PyParameters {
    workers: u32,
    method: &'static str,
    candidates: u32,
    cardinality: &'static str,
    bias: f64,
    window: Option<Py<PyWindow>>,
    seed: u64,
}

/// Assigns rows to workers.
#[pyclass(name = "Partitioner", module = "windowkit._native", frozen)]
pub(super) struct PyPartitioner(Called<Partitioner, ArrayRef>);

impl PyPartitioner {
    /// Does work that changes nothing, so that a failed allocation leaves the partitioner as it was.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Partitioner) -> Result<T> + Send,
    ) -> PyResult<T> {
        detached(py, || {
            let partitioner = self.0.lock()?;
            caught(|| work(&partitioner))
        })
    }
}

#[pymethods]
impl PyPartitioner {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        workers: u32,
        method: String,
        candidates: u32,
        cardinality: String,
        bias: f64,
        window: Option<PyLength>,
        seed: u64,
    ) -> PyResult<Self> {
        detached(py, move || {
            let parameters = Parameters {
                workers,
                method: Method::parse(&method)?,
                candidates,
                cardinality: CardinalityKind::parse(&cardinality)?,
                bias,
                window: window.map(PyLength::window).transpose()?,
                seed,
            };
            Ok(Self(Called::new(Partitioner::new(parameters)?)))
        })
    }

    /// What it was made with.
    #[getter]
    fn parameters(&self, py: Python<'_>) -> PyResult<PyParameters> {
        let parameters = self.read(py, |partitioner| Ok(partitioner.parameters().clone()))?;
        let Parameters { workers, method, candidates, cardinality, bias, window, seed } = parameters;
        let window = window.map(|window| Py::new(py, PyWindow::of(window))).transpose()?;
        let (method, cardinality) = (method.name(), cardinality.name());
        Ok(PyParameters { workers, method, candidates, cardinality, bias, window, seed })
    }

    /// The worker of each row; if `timed`, the last column holds the rows' times.
    fn assign(&self, py: Python<'_>, keys: Given<AnyRecordBatch>, timed: bool) -> PyResult<PyArray> {
        let reader = keys.0.into_reader()?;
        let workers = detached(py, || {
            let batches = batches(reader, timed)?;
            let mut workers = Vec::new();
            let mut partitioner = self.0.lock()?;
            partitioner.assign_polling(&batches, &mut workers, check)?;
            // What has been assigned is not lost for want of a few bytes.
            let workers: ArrayRef = spared(|| Arc::new(Int32Array::from(workers)));
            self.0.took_effect(partitioner, Some(&workers));
            Ok(workers)
        })?;
        Ok(PyArray::from_array_ref(workers))
    }

    /// How many calls have taken effect.
    #[getter]
    fn calls(&self) -> u64 {
        self.0.count()
    }

    /// The workers that the last assignment returned.
    fn last(&self, py: Python<'_>) -> PyResult<Option<PyArray>> {
        Ok(detached(py, || self.0.last())?.map(PyArray::from_array_ref))
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            let mut partitioner = self.0.lock()?;
            partitioner.reset();
            self.0.took_effect(partitioner, None);
            Ok(())
        })
    }

    fn loads(&self, py: Python<'_>) -> PyOut<Vec<u64>> {
        self.read(py, |partitioner| Ok(partitioner.loads().to_vec())).map(Out)
    }

    fn cardinalities(&self, py: Python<'_>) -> PyOut<Vec<f64>> {
        self.read(py, Partitioner::cardinalities).map(Out)
    }

    fn memory(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |partitioner| Ok(partitioner.bytes()))
    }

    fn explain(&self, py: Python<'_>) -> PyOut<String> {
        self.read(py, |partitioner| Ok(partitioner.explain())).map(Out)
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.read(py, |partitioner| Ok(partitioner.snapshot()))?;
        py_bytes(py, &bytes)
    }

    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8]) -> PyResult<Self> {
        detached(py, || Ok(Self(Called::new(Partitioner::restore(snapshot)?))))
    }
}

/// The candidates of each row's key, one row after the other.
#[pyfunction]
fn partition_candidates(
    py: Python<'_>,
    keys: Given<AnyRecordBatch>,
    workers: u32,
    candidates: u32,
    seed: u64,
) -> PyResult<PyArray> {
    let reader = keys.0.into_reader()?;
    let places = detached(py, || {
        let functions = Candidates::new(workers, candidates);
        let hashes = hashes(reader, seed)?;
        let of = |&hash: &u64| (0..candidates).map(move |choice| functions.of(hash, choice) as i32);
        Ok(hashes.iter().flat_map(of).collect::<Int32Array>())
    })?;
    Ok(PyArray::from_array_ref(Arc::new(places)))
}

/// The 64-bit hash of each row's key.
#[pyfunction]
fn partition_hashes(py: Python<'_>, keys: Given<AnyRecordBatch>, seed: u64) -> PyResult<PyArray> {
    let reader = keys.0.into_reader()?;
    let hashes = detached(py, || Ok(arrow_array::UInt64Array::from(hashes(reader, seed)?)))?;
    Ok(PyArray::from_array_ref(Arc::new(hashes)))
}

fn hashes(reader: Box<dyn RecordBatchReader + Send>, seed: u64) -> Result<Vec<u64>> {
    let mut hashes = Vec::new();
    for (columns, _, rows) in batches(reader, false)? {
        hash_rows(&columns, rows, seed, &mut hashes)?;
    }
    Ok(hashes)
}

#[pyfunction]
fn partition_cost(
    py: Python<'_>,
    keys: Given<AnyRecordBatch>,
    assignment: Given<PyArray>,
    times: Option<Given<PyArray>>,
    window: Option<PyLength>,
    workers: Option<u32>,
    bias: f64,
) -> PyOut<(u32, PyRecordBatch)> {
    let reader = keys.0.into_reader()?;
    detached(py, move || {
        let assignment = assignment.array("assignment")?;
        let times = times.map(|times| times.array("times")).transpose()?;
        let ids = ids(reader)?;
        let workers_of = int32(&assignment)?;
        let workers = match workers {
            Some(workers) => workers,
            None => workers_of.values().iter().max().map_or(1, |&most| most.max(0) as u32 + 1),
        };
        let length = window.map(PyLength::window).transpose()?;
        let windows = match (length, &times) {
            (None, None) => None,
            (Some(WindowLength::Rows(size)), None) => {
                Some((0..ids.len() as u64).map(|row| (row / size.max(1)) as i64).collect())
            }
            (Some(window), Some(times)) => {
                window.check()?;
                Some(window.windows_of(times)?)
            }
            (Some(_), None) => {
                return Err(Error::InvalidValue("times are missing; windows of event time need them".into()));
            }
            (None, Some(_)) => {
                return Err(Error::InvalidValue("window: there is none; give one, or no times".into()));
            }
        };
        let costs = cost(&ids, workers_of.values(), windows.as_deref(), workers, bias)?;
        let all: Vec<i64> = costs.iter().map(|cost| cost.window).collect();
        let starts = length.map(|length| length.starts(&all, times.as_deref())).transpose()?;
        Ok((workers, PyRecordBatch::new(table_of(&costs, starts)?)))
    })
    .map(Out)
}

/// A row for each window: its start, if windows have one, and its costs.
fn table_of(costs: &[Cost], starts: Option<ArrayRef>) -> Result<RecordBatch> {
    let counts = |of: fn(&Cost) -> u64| -> ArrayRef {
        Arc::new(costs.iter().map(|cost| of(cost) as i64).collect::<Int64Array>())
    };
    let numbers =
        |of: fn(&Cost) -> f64| -> ArrayRef { Arc::new(costs.iter().map(of).collect::<Float64Array>()) };
    let columns = [
        ("rows", counts(|cost| cost.rows)),
        ("groups", counts(|cost| cost.groups)),
        ("most_rows", counts(|cost| cost.most_rows)),
        ("most_groups", counts(|cost| cost.most_groups)),
        ("imbalance", numbers(|cost| cost.imbalance)),
        ("cardinality_imbalance", numbers(|cost| cost.cardinality_imbalance)),
        ("hybrid_imbalance", numbers(|cost| cost.hybrid_imbalance)),
        ("aggregation_cost", counts(|cost| cost.aggregation)),
    ];
    let starts = starts.map(|starts| ("window", starts));
    Ok(RecordBatch::try_from_iter(starts.into_iter().chain(columns))?)
}

/// How rows are spread over keys; also a `windowkit.partition.Statistics`.
#[pyclass(name = "PartitionStatistics", module = "windowkit._native", frozen, get_all)]
#[derive(FromPyObject)]
struct PyStatistics {
    rows: u64,
    groups: u64,
    heaviest: u64,
    squares: f64,
}

#[pyfunction]
fn partition_statistics(py: Python<'_>, keys: Given<AnyRecordBatch>) -> PyResult<PyStatistics> {
    let reader = keys.0.into_reader()?;
    detached(py, || {
        let Statistics { rows, groups, heaviest, squares } = Statistics::of(&ids(reader)?);
        Ok(PyStatistics { rows, groups, heaviest, squares })
    })
}

/// A method, that of the paper's rule, and why.
#[pyclass(name = "PartitionChoice", module = "windowkit._native", frozen, get_all)]
struct PyChoice {
    method: &'static str,
    rule: &'static str,
    reason: String,
}

#[pyfunction]
fn partition_choose(py: Python<'_>, statistics: PyStatistics, workers: u32) -> PyResult<PyChoice> {
    detached(py, || {
        let PyStatistics { rows, groups, heaviest, squares } = statistics;
        let choice = choose(&Statistics { rows, groups, heaviest, squares }, workers)?;
        Ok(PyChoice { method: choice.method.name(), rule: choice.rule.name(), reason: choice.reason })
    })
}

/// Where buckets and the shares of heavy keys go.
#[pyclass(name = "PartitionPlan", module = "windowkit._native", frozen, get_all)]
struct PyPartitionPlan {
    /// The worker of each bucket.
    buckets: Vec<u32>,
    /// Worker and rows of each share of each heavy key.
    heavy: Vec<Vec<(u32, u64)>>,
    /// Rows of each worker.
    loads: Vec<u64>,
    imbalance: f64,
    /// What it adds to the aggregation cost.
    extra: u64,
}

#[pyfunction]
fn partition_plan(
    py: Python<'_>,
    bucket_loads: Vec<u64>,
    heavy: Vec<(u64, u32)>,
    workers: u32,
    slack: f64,
) -> PyResult<PyPartitionPlan> {
    detached(py, || {
        let plan = plan(&bucket_loads, &heavy, workers, slack)?;
        let (imbalance, extra) = (plan.imbalance(), plan.extra());
        let shares =
            |shares: Vec<Share>| shares.into_iter().map(|share| (share.worker, share.rows)).collect();
        let heavy = plan.heavy.into_iter().map(shares).collect();
        Ok(PyPartitionPlan { buckets: plan.buckets, heavy, loads: plan.loads, imbalance, extra })
    })
}

impl PyLength {
    fn window(self) -> Result<WindowLength> {
        let short = |length: i128| {
            i64::try_from(length)
                .map_err(|_| Error::InvalidValue(format!("window: {length} is out of range")))
        };
        let offset = match self.offset {
            Length::Nanoseconds(count)
            | Length::Units(count)
            | Length::Rows(count)
            | Length::Months(count) => short(count)?,
        };
        match self.size {
            Length::Rows(rows) => Ok(WindowLength::Rows(short(rows)?.max(0) as u64)),
            Length::Units(size) => Ok(WindowLength::Time { size: short(size)?, offset, is_duration: false }),
            Length::Nanoseconds(size) => {
                Ok(WindowLength::Time { size: short(size)?, offset, is_duration: true })
            }
            Length::Months(_) => Err(Error::Internal("a window of months".into())),
        }
    }
}

impl PyWindow {
    fn of(window: WindowLength) -> Self {
        match window {
            WindowLength::Rows(rows) => {
                Self { size: rows as i64, offset: 0, counts_rows: true, is_duration: false }
            }
            WindowLength::Time { size, offset, is_duration } => {
                Self { size, offset, counts_rows: false, is_duration }
            }
        }
    }
}

/// All batches of a stream; if `timed`, the last column is the rows' times.
fn batches(reader: Box<dyn RecordBatchReader + Send>, timed: bool) -> Result<Vec<Batch>> {
    given::batches("keys", None, reader)
        .map(|batch| {
            let batch = batch?;
            let mut columns = batch.columns().to_vec();
            let times = if timed { columns.pop() } else { None };
            Ok((columns, times, batch.num_rows()))
        })
        .collect()
}

/// Dense ids of the keys.
fn ids(reader: Box<dyn RecordBatchReader + Send>) -> Result<Vec<u32>> {
    let schema = reader.schema();
    let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    // Types that cannot be hashed are rejected as everywhere else in this module.
    let none: Vec<ArrayRef> = types.iter().map(arrow_array::new_empty_array).collect();
    hash_rows(&none, 0, 0, &mut Vec::new())?;
    let mut index = KeyIndex::new(types)?;
    let mut ids = Vec::new();
    for (columns, _, rows) in batches(reader, false)? {
        index.assign_all(&columns, rows, &mut ids, check)?;
    }
    Ok(ids)
}

fn int32(array: &ArrayRef) -> Result<Int32Array> {
    let array = array.as_primitive_opt::<Int32Type>().filter(|array| array.null_count() == 0);
    array.cloned().ok_or_else(|| Error::Internal("an assignment that is not int32 without nulls".into()))
}
