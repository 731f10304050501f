//! `windowkit._native.Join`: joins of two inputs.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyRecordBatch;

use super::engine::PyBatches;
use super::errors::detached;
use super::given::Given;
use super::plan::pushed;
use super::rolling::{LengthTuple, length};
use super::window::{WindowTuple, window};
use crate::Error;
use crate::kernels::Closed;
use crate::operator::{ConditionSpec, JoinKind, JoinPlan, JoinRows, JoinSpec, SideSpec, Which};
use crate::window::Measure;

/// Windows that a definition may return at a time: those of a stretch some times as long as a window.
const WINDOWS: u64 = 1_000_000;

/// A side: its schema, keys, time, and which of its columns the result has.
type SideTuple = (Given<PySchema>, Vec<String>, String, Option<Vec<String>>);
/// A band: how far it reaches before and after, and which of its ends it includes.
type BandTuple = (LengthTuple, LengthTuple, String);

/// A join bound to the schemas of its sides.
#[pyclass(name = "Join", module = "windowkit._native", frozen)]
pub(super) struct PyJoin(pub(super) Arc<JoinPlan>);

#[pymethods]
impl PyJoin {
    #[new]
    fn new(
        py: Python<'_>,
        left: SideTuple,
        right: SideTuple,
        within: Option<BandTuple>,
        windows: Option<WindowTuple>,
        how: String,
        suffix: String,
    ) -> PyResult<Self> {
        // The plan itself reports a missing time column.
        let time = left.0.0.as_ref().field_with_name(&left.2).ok();
        let measure = time.and_then(|field| Measure::new(&left.2, field.data_type()).ok());
        let windows = windows.map(|given| window(py, given, measure.as_ref(), Some(WINDOWS))).transpose()?;
        detached(py, move || {
            let condition = match (within, windows) {
                (Some((before, after, closed)), None) => ConditionSpec::Band {
                    before: length(before)?,
                    after: length(after)?,
                    closed: Closed::parse(&closed)?,
                },
                (None, Some(window)) => ConditionSpec::Windows(window?),
                _ => {
                    return Err(Error::InvalidValue(
                        "within: a join is either within a time or by windows".into(),
                    ));
                }
            };
            let (left, right, kind) = (side(left), side(right), JoinKind::parse(&how)?);
            Ok(Self(Arc::new(JoinPlan::new(JoinSpec { left, right, condition, kind, suffix })?)))
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
        Ok(PyBatches::of(self.0.output().clone(), move || output.next_batch(threads)))
    }
}

fn side((input, by, time, columns): SideTuple) -> SideSpec {
    SideSpec { input: input.0.into_inner(), by, time, columns }
}
