//! `windowkit._native.Rolling`: aggregates over frames.

use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatchReader, PySchema};

use super::aggregate::{PyAggregate, aggregate_specs};
use super::callees::{Callees, callees, of_same};
use super::errors::detached;
use super::given::{Asked, Given};
use super::plan::{PyPlan, pushed};
use crate::Result;
use crate::kernels::{Closed, Unit};
use crate::operator::{FrameSpec, Length, Rolling, RollingRows};

/// A `windowkit.language.frames.Frame`.
#[derive(FromPyObject)]
struct PyFrame {
    before: Option<Length>,
    after: Option<Length>,
    closed: String,
    by_rows: bool,
    tail: Option<Length>,
}

/// A `windowkit.local.rolling.Labels`.
#[derive(FromPyObject)]
struct PyLabels<'py> {
    /// Read later, as what a schema raises would be a `TypeError` here.
    schema: Bound<'py, PyAny>,
    by: Vec<String>,
    time: String,
}

/// Labels whose schema was read.
struct Labels {
    schema: SchemaRef,
    by: Vec<String>,
    time: String,
}

/// Aggregates over frames, bound to a schema.
#[pyclass(name = "Rolling", module = "windowkit._native", frozen)]
pub(super) struct PyRolling(Arc<Rolling>, Callees);

#[pymethods]
impl PyRolling {
    #[new]
    #[pyo3(signature = (schema, by, time, aggregates, frames, labels = None))]
    fn new(
        py: Python<'_>,
        schema: Given<PySchema>,
        by: Vec<String>,
        time: String,
        aggregates: Asked<Vec<PyAggregate>>,
        frames: Vec<PyFrame>,
        labels: Option<PyLabels<'_>>,
    ) -> PyResult<Self> {
        let mut made = Vec::new();
        let aggregates = aggregate_specs(py, aggregates.0, &mut made)?;
        let callees = callees(py, made)?;
        let schema: SchemaRef = schema.0.into_inner();
        let labels = labels.map(PyLabels::spec).transpose()?;
        detached(py, move || {
            let frames = frames.into_iter().map(|frame| frame.spec()).collect::<Result<Vec<_>>>()?;
            let over = aggregates.into_iter().zip(frames).collect();
            let rolling = match labels {
                None => Rolling::new(schema, by, time, over)?,
                Some(labels) => Rolling::at(schema, by, time, over, (labels.schema, labels.by, labels.time))?,
            };
            Ok(Self(Arc::new(rolling), callees))
        })
    }

    /// The aggregates as a plan without windows: what is stored, and how rows are split. Its output schema is that of
    /// the input with the results, or that of the results alone if labels ask for them.
    #[getter]
    fn plan(&self, py: Python<'_>) -> PyPlan {
        PyPlan(self.0.plan().clone(), of_same(py, &self.1))
    }

    /// The plan of the labels, if there are any. Its output schema is theirs with the results.
    #[getter]
    fn labels(&self, py: Python<'_>) -> Option<PyPlan> {
        self.0.labels().cloned().map(|plan| PyPlan(plan, of_same(py, &self.1)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.1)
    }

    /// The results of all rows of a stream, or of all labels, in their order, on `threads` threads; without the columns of
    /// the input.
    #[pyo3(signature = (stream, threads, labels = None))]
    fn run(
        &self,
        py: Python<'_>,
        stream: Given<AnyRecordBatch>,
        threads: usize,
        labels: Option<Given<AnyRecordBatch>>,
    ) -> PyResult<PyRecordBatchReader> {
        let reader = stream.0.into_reader()?;
        let mut rows = detached(py, || RollingRows::new(self.0.clone()))?;
        pushed(py, "data", &self.0.plan().columns(), reader, |round| rows.push(round, threads))?;
        if let (Some(labels), Some(plan)) = (labels, self.0.labels()) {
            let reader = labels.0.into_reader()?;
            pushed(py, "labels", &plan.columns(), reader, |round| rows.push_labels(round, threads))?;
        }
        let batches = detached(py, move || rows.finish(threads))?;
        let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), self.0.results().clone());
        Ok(PyRecordBatchReader::new(Box::new(batches)))
    }
}

impl PyLabels<'_> {
    fn spec(self) -> PyResult<Labels> {
        let Self { schema, by, time } = self;
        Ok(Labels { schema: schema.extract::<Given<PySchema>>()?.0.into_inner(), by, time })
    }
}

impl PyFrame {
    fn spec(self) -> Result<FrameSpec> {
        let Self { before, after, closed, by_rows, tail } = self;
        let unit = if by_rows { Unit::Rows } else { Unit::Time };
        Ok(FrameSpec { unit, before, after, tail, closed: Closed::parse(&closed)? })
    }
}
