//! `windowkit._native.Operator`: rows and watermarks in, windows out.

use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::errors::detached;
use super::plan::PyPlan;
use crate::operator::{Contents, Options, Plan, StoreKind, Stream, length};
use crate::slice::strategy::{Order, Ruling};
use crate::{Error, Result};

/// A stream operator.
#[pyclass(name = "Operator", module = "windowkit._native", frozen)]
pub(super) struct PyOperator(Mutex<Stream>);

/// A length in nanoseconds, or (false) in units of an integer column.
pub(super) type Length = (i128, bool);

/// What is decided, the answer, why, and what source says so.
type Told = (&'static str, String, &'static str, &'static str);

#[pymethods]
impl PyOperator {
    #[new]
    fn new(
        py: Python<'_>,
        queries: Vec<(String, Bound<'_, PyPlan>)>,
        order: &str,
        allowed_lateness: Length,
        disorder: Option<Length>,
        store: &str,
    ) -> PyResult<Self> {
        let queries: Vec<(String, Arc<Plan>)> =
            queries.into_iter().map(|(name, plan)| (name, plan.get().0.clone())).collect();
        detached(py, || {
            let order = Order::parse(order)?;
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
            let Some((_, leader)) = queries.first() else {
                return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
            };
            let bind = |argument: &str, given: Length| length(leader.measure(), argument, given.0, given.1);
            let options = Options {
                order,
                allowed_lateness: bind("allowed_lateness", allowed_lateness)?,
                disorder: disorder.map(|given| bind("max_delay", given)).transpose()?,
                store,
            };
            Ok(Self(Mutex::new(Stream::new(queries, options)?)))
        })
    }

    /// The operator that a snapshot is of.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8], queries: Vec<(String, Bound<'_, PyPlan>)>) -> PyResult<Self> {
        let queries: Vec<(String, Arc<Plan>)> =
            queries.into_iter().map(|(name, plan)| (name, plan.get().0.clone())).collect();
        detached(py, || Ok(Self(Mutex::new(Stream::restore(snapshot, queries)?))))
    }

    /// The schema of rows that a snapshot is of, the names of its queries, and its order.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8]) -> PyResult<(PySchema, Vec<String>, &'static str)> {
        detached(py, || {
            let Contents { schema, names, options } = Stream::contents(snapshot)?;
            let order = if options.order == Order::InOrder { "in-order" } else { "out-of-order" };
            Ok((PySchema::new(schema), names, order))
        })
    }

    /// All that the operator holds.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.stream()?.snapshot())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Whether the stream was ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || Ok(self.stream()?.is_closed()))
    }

    /// The schema of results.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        detached(py, || Ok(PySchema::new(self.stream()?.schema().clone())))
    }

    /// The schema of rows.
    #[getter]
    fn input_schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        detached(py, || Ok(PySchema::new(self.stream()?.input().clone())))
    }

    /// Takes in rows.
    fn push(&self, py: Python<'_>, stream: AnyRecordBatch) -> PyResult<PyRecordBatchReader> {
        let reader = stream.into_reader()?;
        detached(py, move || {
            let batches = reader.map(|batch| {
                batch.map_err(|error| Error::InvalidValue(format!("batch: its stream broke off: {error}")))
            });
            let batches = batches.collect::<Result<Vec<RecordBatch>>>()?;
            let mut stream = self.stream()?;
            let results = stream.push(&batches)?;
            Ok(table(results, stream.schema().clone()))
        })
    }

    /// Moves the watermark.
    fn advance(&self, py: Python<'_>, watermark: i64) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut stream = self.stream()?;
            let results = stream.advance(watermark)?;
            Ok(table(results, stream.schema().clone()))
        })
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut stream = self.stream()?;
            let results = stream.close()?;
            Ok(table(results, stream.schema().clone()))
        })
    }

    /// Rows that were too late or had no time.
    fn take_late(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let mut stream = self.stream()?;
            let late = stream.take_late();
            Ok(table(late, stream.late_schema().clone()))
        })
    }

    /// Adds a query.
    fn add(&self, py: Python<'_>, name: String, plan: Bound<'_, PyPlan>) -> PyResult<()> {
        let plan = plan.get().0.clone();
        detached(py, move || self.stream()?.add(name, plan))
    }

    /// Removes a query.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || self.stream()?.remove(name))
    }

    /// Keys, slices, rows kept, bytes, rows, splits, merges, recomputations, late rows, windows, updates.
    #[allow(clippy::type_complexity, reason = "names are given to the numbers in Python")]
    fn stats(
        &self,
        py: Python<'_>,
    ) -> PyResult<(usize, usize, usize, usize, u64, u64, u64, u64, u64, u64, u64)> {
        detached(py, || {
            let s = self.stream()?.stats();
            Ok((
                s.keys,
                s.slices,
                s.rows_kept,
                s.bytes,
                s.rows,
                s.splits,
                s.merges,
                s.recomputations,
                s.late,
                s.windows,
                s.updates,
            ))
        })
    }

    /// All slices.
    fn slices(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        detached(py, || Ok(PyRecordBatch::new(self.stream()?.slices()?)))
    }

    /// The watermark in units of the measure.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        detached(py, || Ok(self.stream()?.watermark()))
    }

    /// How slices are held, and why.
    fn store(&self, py: Python<'_>) -> PyResult<(&'static str, &'static str)> {
        detached(py, || Ok(self.stream()?.store_told()))
    }

    /// What the decision trees say.
    fn strategy(&self, py: Python<'_>) -> PyResult<Vec<Told>> {
        let yes = |ruling: &Ruling<bool>| if ruling.answer { "yes" } else { "no" }.to_owned();
        detached(py, || {
            let stream = self.stream()?;
            let strategy = stream.strategy();
            let (keep, split) = (&strategy.keep_rows, &strategy.split);
            let mut told: Vec<Told> = vec![
                ("keep rows", yes(keep), keep.because, keep.source),
                ("split slices", yes(split), split.because, split.source),
            ];
            for remove in &strategy.remove {
                let remove = ("take rows out", remove.answer.to_string(), remove.because, remove.source);
                if !told.contains(&remove) {
                    told.push(remove);
                }
            }
            Ok(told)
        })
    }
}

impl PyOperator {
    fn stream(&self) -> Result<MutexGuard<'_, Stream>> {
        self.0.lock().map_err(|_| Error::Internal("an earlier call panicked".into()))
    }
}

pub(super) fn table(batches: Vec<RecordBatch>, schema: SchemaRef) -> PyRecordBatchReader {
    PyRecordBatchReader::new(Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)))
}
