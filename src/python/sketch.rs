//! `windowkit._native.HyperLogLog`.

use arrow_array::{Array, ArrayRef};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyArray;

use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use crate::Result;
use crate::interrupt::check;
use crate::memory::caught;
use crate::shared::Shared;
use crate::sketch::HyperLogLog;

/// A sketch that counts distinct values.
#[pyclass(name = "HyperLogLog", module = "windowkit._native", frozen)]
pub(super) struct PyHyperLogLog(Shared<HyperLogLog>);

/// Rows that are counted without looking for interrupts.
const ROWS: usize = 1 << 20;

/// Counts the values of a column: all, or none if it is interrupted.
fn update(sketch: &mut HyperLogLog, column: &ArrayRef) -> Result<()> {
    if column.len() <= ROWS {
        return sketch.update(column);
    }
    let mut updated = sketch.clone();
    for from in (0..column.len()).step_by(ROWS) {
        check()?;
        updated.update(&column.slice(from, ROWS.min(column.len() - from)))?;
    }
    *sketch = updated;
    Ok(())
}

impl PyHyperLogLog {
    fn with<T>(&self, work: impl FnOnce(&mut HyperLogLog) -> Result<T>) -> Result<T> {
        let mut sketch = self.0.lock()?;
        // What is caught here does not make it unusable: a value may be counted any number of times.
        caught(|| work(&mut sketch))
    }
}

#[pymethods]
impl PyHyperLogLog {
    #[new]
    fn new(py: Python<'_>, precision: u32) -> PyResult<Self> {
        detached(py, || Ok(Self(Shared::new(HyperLogLog::new(precision)?))))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        detached(py, || Ok(Self(Shared::new(HyperLogLog::from_bytes(data)?))))
    }

    #[getter]
    fn precision(&self, py: Python<'_>) -> PyResult<u32> {
        detached(py, || self.with(|sketch| Ok(sketch.precision())))
    }

    #[getter]
    fn relative_error(&self, py: Python<'_>) -> PyResult<f64> {
        detached(py, || self.with(|sketch| Ok(sketch.relative_error())))
    }

    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || self.with(|sketch| Ok(sketch.bytes())))
    }

    /// Counts the values of an array or, chunk by chunk, of a stream of arrays.
    fn update(&self, py: Python<'_>, values: Given<AnyArray>) -> PyResult<()> {
        let chunks = values.0.into_reader()?;
        // The type is checked even where there is no chunk.
        let none = arrow_array::new_empty_array(chunks.field().data_type());
        detached(py, || self.with(|sketch| sketch.update(&none)))?;
        let mut chunks = given::arrays("values", chunks);
        while let Some(chunk) = detached(py, || chunks.next().transpose())? {
            detached(py, || self.with(|sketch| update(sketch, &chunk)))?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn estimate(&self, py: Python<'_>) -> PyResult<f64> {
        detached(py, || self.with(|sketch| Ok(sketch.estimate())))
    }

    fn bounds(&self, py: Python<'_>, stddevs: u32) -> PyOut<(f64, f64)> {
        detached(py, || self.with(|sketch| sketch.bounds(stddevs))).map(Out)
    }

    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        detached(py, || {
            // A copy, so that a sketch can be merged with itself and two with each other.
            let other = other.with(|other| Ok(other.clone()))?;
            self.with(|sketch| {
                sketch.merge(&other);
                Ok(())
            })
        })
    }

    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        detached(py, || self.with(|sketch| Ok(Self(Shared::new(sketch.clone())))))
    }

    fn to_bytes<'py>(&self, py: Python<'py>, bits: u32) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.with(|sketch| sketch.to_bytes(bits)))?;
        py_bytes(py, &bytes)
    }
}
