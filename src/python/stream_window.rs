//! `windowkit._native.StreamWindow`: rows enter at one end and leave at the other, with their aggregate available at
//! any time.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use pyo3_arrow::{PyArray, PyDataType};

use super::calls::Called;
use super::errors::{detached, exception};
use super::given::Given;
use crate::interrupt::check;
use crate::kernels::Function;
use crate::kernels::streaming::{Algorithm, Change, Number, StreamWindow};
use crate::memory::caught;
use crate::shared::Used;
use crate::{Error, Result};

/// The aggregate of a window that rows enter and leave in order.
#[pyclass(name = "StreamWindow", module = "windowkit._native", frozen)]
pub(super) struct PyStreamWindow {
    window: Called<StreamWindow, ArrayRef>,
    /// The type of rows.
    input: DataType,
}

impl PyStreamWindow {
    /// Makes a change, which returns the answers of a slide.
    fn change(&self, mut used: Used<'_, StreamWindow>, change: Change<'_>) -> Result<Option<ArrayRef>> {
        let answers = used.change(change, check)?;
        self.window.took_effect(used, answers.as_ref());
        Ok(answers)
    }

    /// Makes a change too short to be worth releasing the GIL, unless another thread uses the window.
    fn change_held(&self, py: Python<'_>, change: Change<'_>) -> PyResult<()> {
        let held = || {
            let Some(window) = self.window.try_lock()? else { return Ok(Some(change)) };
            self.change(window, change)?;
            Ok(None)
        };
        match caught(held).map_err(|error| exception(py, &error))? {
            Some(change) => detached(py, || self.change(self.window.lock()?, change).map(|_| ())),
            None => Ok(()),
        }
    }

    /// For work too short to be worth releasing the GIL, unless another thread uses the window.
    fn held<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StreamWindow) -> Result<T> + Send,
    ) -> PyResult<T> {
        match caught(|| self.window.try_lock()).map_err(|error| exception(py, &error))? {
            Some(mut window) => caught(|| work(&mut window)).map_err(|error| exception(py, &error)),
            None => detached(py, || work(&mut *self.window.lock()?)),
        }
    }
}

#[pymethods]
impl PyStreamWindow {
    #[new]
    fn new(py: Python<'_>, agg: &str, kind: PyDataType, algorithm: &str, ddof: u32) -> PyResult<Self> {
        let make = || {
            let (function, algorithm) = (Function::parse(agg, ddof)?, Algorithm::parse(algorithm)?);
            StreamWindow::new(function, &kind.into_inner(), algorithm)
        };
        let window = caught(make).map_err(|error| exception(py, &error))?;
        Ok(Self { input: window.input().clone(), window: Called::new(window) })
    }

    /// The type of the answers.
    #[getter]
    fn result_type(&self, py: Python<'_>) -> PyResult<PyDataType> {
        Ok(PyDataType::new(self.held(py, |window| Ok(window.output().clone()))?))
    }

    /// Rows in the window that are null.
    #[getter]
    fn null_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.held(py, |window| Ok(window.null_count()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.held(py, |window| Ok(window.len() as usize))
    }

    /// Adds one row if its value is a plain number or None and the type is a plain number; returns whether it was
    /// added.
    fn insert_number(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(number) = number(value, &self.input) else { return Ok(false) };
        self.change_held(py, Change::InsertNumber(number))?;
        Ok(true)
    }

    /// Adds rows.
    fn insert(&self, py: Python<'_>, values: Given<PyArray>) -> PyResult<()> {
        detached(py, || {
            let values = values.array("values")?;
            self.change(self.window.lock()?, Change::Insert(&values)).map(|_| ())
        })
    }

    /// Removes rows.
    fn evict(&self, py: Python<'_>, rows: u64) -> PyResult<()> {
        self.change_held(py, Change::Evict(rows))
    }

    /// How many changes have taken effect.
    #[getter]
    fn calls(&self) -> u64 {
        self.window.count()
    }

    /// The answers of the last slide.
    fn last(&self, py: Python<'_>) -> PyResult<Option<PyArray>> {
        detached(py, || self.window.last()?.map(array).transpose())
    }

    /// The aggregate, as an array of one.
    fn query(&self, py: Python<'_>) -> PyResult<PyArray> {
        self.held(py, |window| array(window.query()?))
    }

    /// Returns the answer after each row.
    fn slide(
        &self,
        py: Python<'_>,
        values: Given<PyArray>,
        size: u64,
        min_periods: u64,
    ) -> PyResult<PyArray> {
        detached(py, || {
            let values = values.array("values")?;
            let answers = self.change(self.window.lock()?, Change::Slide(&values, size, min_periods))?;
            array(answers.ok_or_else(|| Error::Internal("a slide without answers".into()))?)
        })
    }

    /// Removes all rows.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change_held(py, Change::Clear)
    }
}

/// A value that can be read without an Arrow array.
fn number(value: &Bound<'_, PyAny>, kind: &DataType) -> Option<Number> {
    if value.is_none() {
        return Some(Number::Null);
    }
    if value.is_instance_of::<PyBool>() || !(kind.is_integer() || kind.is_floating()) {
        return None;
    }
    if value.is_instance_of::<PyInt>() && kind.is_integer() {
        let signed = value.extract().map(Number::Signed);
        return signed.or_else(|_| value.extract().map(Number::Unsigned)).ok();
    }
    if value.is_instance_of::<PyFloat>() && kind.is_floating() {
        return value.extract().map(Number::Float).ok();
    }
    None
}

fn array(array: ArrayRef) -> Result<PyArray> {
    let field = Field::new("", array.data_type().clone(), true).into();
    PyArray::try_new(array, field).map_err(|error| Error::Internal(error.to_string()))
}
