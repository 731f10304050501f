//! `windowkit._native.Join`: joins of two inputs.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyRecordBatch;

use super::callees::{Callees, callees, of_same};
use super::engine::PyBatches;
use super::errors::detached;
use super::given::{Asked, Given};
use super::plan::pushed;
use super::window::PyWindow;
use crate::Error;
use crate::kernels::Closed;
use crate::operator::{ConditionSpec, JoinKind, JoinPlan, JoinRows, JoinSpec, Length, SideSpec, Which};
use crate::window::Measure;

/// Windows that a definition may return at a time: those of a stretch some times as long as a window.
const WINDOWS: u64 = 1_000_000;

/// A `windowkit.local_join.Side`.
#[derive(FromPyObject)]
struct PySide<'py> {
    /// Read by [`PySide::spec`], as what a schema raises would be a `TypeError` here.
    schema: Bound<'py, PyAny>,
    by: Vec<String>,
    time: String,
    columns: Option<Vec<String>>,
    weight: Option<String>,
}

/// A `windowkit.local_join.Band`.
#[derive(FromPyObject)]
struct PyBand {
    before: Length,
    after: Length,
    closed: String,
}

/// A join bound to the schemas of its sides.
#[pyclass(name = "Join", module = "windowkit._native", frozen)]
pub(super) struct PyJoin(pub(super) Arc<JoinPlan>, pub(super) Callees);

#[pymethods]
impl PyJoin {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "as many as a join has")]
    fn new(
        py: Python<'_>,
        left: PySide<'_>,
        right: PySide<'_>,
        within: Option<PyBand>,
        windows: Asked<Option<PyWindow>>,
        how: String,
        suffix: String,
        early: bool,
        sheds: bool,
    ) -> PyResult<Self> {
        let (left, right) = (left.spec()?, right.spec()?);
        // The plan itself reports a missing time column.
        let time = left.input.field_with_name(&left.time).ok();
        let measure = time.and_then(|field| Measure::new(&left.time, field.data_type()).ok());
        let mut made = Vec::new();
        let windows = windows.0.map(|window| window.spec(py, measure.as_ref(), Some(WINDOWS), &mut made));
        let (windows, callees) = (windows.transpose()?, callees(py, made)?);
        detached(py, move || {
            let condition = match (within, windows) {
                (Some(PyBand { before, after, closed }), None) => {
                    ConditionSpec::Band { before, after, closed: Closed::parse(&closed)? }
                }
                (None, Some(window)) => ConditionSpec::Windows(window?),
                _ => {
                    return Err(Error::InvalidValue(
                        "within: a join is either within a time or by windows".into(),
                    ));
                }
            };
            let kind = JoinKind::parse(&how)?;
            let spec = JoinSpec { left, right, condition, kind, suffix, early, sheds };
            Ok(Self(Arc::new(JoinPlan::new(spec)?), callees))
        })
    }

    /// The schema of the result.
    #[getter]
    fn output_schema(&self) -> PySchema {
        PySchema::new(self.0.output().clone())
    }

    /// The column that each column of the result has the values of: whether it is of the left side, and its name; `None`
    /// for windows.
    #[getter]
    fn origins(&self) -> Vec<Option<(bool, String)>> {
        let origins = self.0.origins().into_iter();
        origins.map(|origin| origin.map(|(which, name)| (which == Which::Left, name.to_owned()))).collect()
    }

    /// The result for the rows of two streams, on `threads` threads.
    fn run(
        &self,
        py: Python<'_>,
        left: Given<AnyRecordBatch>,
        right: Given<AnyRecordBatch>,
        threads: usize,
    ) -> PyResult<PyBatches> {
        let mut rows = detached(py, || JoinRows::new(self.0.clone()))?;
        for (which, given) in [(Which::Left, left), (Which::Right, right)] {
            let reader = given.0.into_reader()?;
            let columns = self.0.columns(which);
            pushed(py, which.name(), &columns, reader, |round| rows.push(which, round, threads))?;
        }
        let mut output = detached(py, move || rows.finish(threads))?;
        let callees = of_same(py, &self.1);
        Ok(PyBatches::of(self.0.output().clone(), callees, move || output.next_batch(threads)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.1)
    }
}

impl PySide<'_> {
    fn spec(self) -> PyResult<SideSpec> {
        let Self { schema, by, time, columns, weight } = self;
        let input = schema.extract::<Given<PySchema>>()?.0.into_inner();
        Ok(SideSpec { input, by, time, columns, weight })
    }
}
