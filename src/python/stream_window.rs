//! `windowkit._native.StreamWindow`: rows enter at one end and leave at the other, with their aggregate available at
//! any time.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use pyo3_arrow::{PyArray, PyDataType};

use super::errors::{detached, exception};
use super::given::Given;
use super::shared::Shared;
use crate::interrupt::check;
use crate::kernels::Function;
use crate::kernels::streaming::{Algorithm, Change, Number, StreamWindow};
use crate::memory::caught;
use crate::{Error, Result};

/// The aggregate of a window that rows enter and leave in order.
#[pyclass(name = "StreamWindow", module = "windowkit._native", frozen)]
pub(super) struct PyStreamWindow {
    window: Shared<StreamWindow>,
    /// The type of rows.
    input: DataType,
}

impl PyStreamWindow {
    /// Makes a change that is not final before `kept` is set to the number of the call.
    fn attempt(&self, turn: u64, change: Change<'_>) -> Result<Option<ArrayRef>> {
        let mut window = self.window.lock()?;
        let answers = window.attempt(change, check)?;
        window.hold(turn);
        Ok(answers)
    }

    /// The same, of a change too short to be worth releasing the GIL.
    fn attempt_held(&self, py: Python<'_>, turn: u64, change: Change<'_>) -> PyResult<()> {
        let attempt = || {
            let Some(mut window) = self.window.try_lock()? else { return Ok(Some(change)) };
            window.attempt(change, check)?;
            window.hold(turn);
            Ok(None)
        };
        match caught(attempt).map_err(|error| exception(py, &error))? {
            Some(change) => detached(py, || self.attempt(turn, change).map(|_| ())),
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
        Ok(Self { input: window.input().clone(), window: Shared::new(window) })
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
    /// added. This and the other changes have a number, by which they are kept or taken back.
    fn insert_number(&self, py: Python<'_>, turn: u64, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(number) = number(value, &self.input) else { return Ok(false) };
        self.attempt_held(py, turn, Change::InsertNumber(number))?;
        Ok(true)
    }

    /// Adds rows.
    fn insert(&self, py: Python<'_>, turn: u64, values: Given<PyArray>) -> PyResult<()> {
        detached(py, || {
            let values = values.array("values")?;
            self.attempt(turn, Change::Insert(&values)).map(|_| ())
        })
    }

    /// Removes rows.
    fn evict(&self, py: Python<'_>, turn: u64, rows: u64) -> PyResult<()> {
        self.attempt_held(py, turn, Change::Evict(rows))
    }

    /// Keeps the change of this number.
    #[setter]
    fn set_kept(&self, py: Python<'_>, turn: u64) -> PyResult<()> {
        self.window.release(turn, |window| window.settle(true)).map_err(|error| exception(py, &error))
    }

    /// Takes back the change of this number, if it was made.
    #[setter]
    fn set_undone(&self, py: Python<'_>, turn: u64) -> PyResult<()> {
        self.window.release(turn, |window| window.settle(false)).map_err(|error| exception(py, &error))
    }

    /// The aggregate, as an array of one.
    fn query(&self, py: Python<'_>) -> PyResult<PyArray> {
        self.held(py, |window| array(window.query()?))
    }

    /// Returns the answer after each row.
    fn slide(
        &self,
        py: Python<'_>,
        turn: u64,
        values: Given<PyArray>,
        size: u64,
        min_periods: u64,
    ) -> PyResult<PyArray> {
        detached(py, || {
            let values = values.array("values")?;
            let answers = self.attempt(turn, Change::Slide(&values, size, min_periods))?;
            array(answers.ok_or_else(|| Error::Internal("a slide without answers".into()))?)
        })
    }

    /// Removes all rows.
    fn clear(&self, py: Python<'_>, turn: u64) -> PyResult<()> {
        self.attempt_held(py, turn, Change::Clear)
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
