//! `windowkit._native.Technique`: a query over a stream by a reference technique.

use std::sync::{Mutex, MutexGuard, TryLockError};

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatchReader, PySchema};

use super::errors::detached;
use super::operator::{Length, numbers, table};
use super::plan::PyPlan;
use crate::operator::{Options, StoreKind, length};
use crate::slice::strategy::Order;
use crate::technique::{Method, Operator};
use crate::{Error, Result};

/// A technique with the operator's face.
#[pyclass(name = "Technique", module = "windowkit._native", frozen)]
pub(super) struct PyTechnique(Mutex<Operator>);

#[pymethods]
impl PyTechnique {
    #[new]
    fn new(
        py: Python<'_>,
        plan: Bound<'_, PyPlan>,
        order: &str,
        allowed_lateness: Length,
        disorder: Option<Length>,
        technique: &str,
    ) -> PyResult<Self> {
        let plan = plan.get().0.clone();
        detached(py, || {
            let bind = |argument: &str, given: Length| length(plan.measure(), argument, given.0, given.1);
            let options = Options {
                order: Order::parse(order)?,
                allowed_lateness: bind("allowed_lateness", allowed_lateness)?,
                disorder: disorder.map(|given| bind("max_delay", given)).transpose()?,
                store: StoreKind::Auto,
            };
            Ok(Self(Mutex::new(Operator::new(Method::parse(technique)?, plan.clone(), options)?)))
        })
    }

    /// Whether the stream was ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || Ok(self.operator()?.is_closed()))
    }

    /// The schema of results.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        detached(py, || Ok(PySchema::new(self.operator()?.schema().clone())))
    }

    /// The watermark in units of the measure.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        detached(py, || Ok(self.operator()?.watermark()))
    }

    /// Takes in rows.
    fn push(&self, py: Python<'_>, stream: AnyRecordBatch) -> PyResult<PyRecordBatchReader> {
        let reader = stream.into_reader()?;
        detached(py, move || {
            let batches = reader.map(|batch| {
                batch.map_err(|error| Error::InvalidValue(format!("batch: its stream broke off: {error}")))
            });
            let batches = batches.collect::<Result<Vec<RecordBatch>>>()?;
            let mut operator = self.operator()?;
            let results = operator.push(&batches)?;
            Ok(table(results, operator.schema().clone()))
        })
    }

    /// Moves the watermark.
    fn advance(&self, py: Python<'_>, watermark: i64) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut operator = self.operator()?;
            let results = operator.advance(watermark)?;
            Ok(table(results, operator.schema().clone()))
        })
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut operator = self.operator()?;
            let results = operator.close()?;
            Ok(table(results, operator.schema().clone()))
        })
    }

    /// Rows that were too late or had no time.
    fn take_late(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut operator = self.operator()?;
            let late = operator.take_late();
            Ok(table(late, operator.late_schema().clone()))
        })
    }

    /// See [`numbers`]; its slices are partials.
    fn stats(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        detached(py, || Ok(numbers(self.operator()?.stats())))
    }
}

impl PyTechnique {
    fn operator(&self) -> Result<MutexGuard<'_, Operator>> {
        self.0.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::InvalidValue(
                "operator: it is at work, and takes no call before that is done, such as from a function of its own".into(),
            ),
            TryLockError::Poisoned(_) => Error::Internal("an earlier call panicked".into()),
        })
    }
}
