//! A call of Python, with what it does before and after the calls of the core.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::errors::exception;
use super::exits::Call;

/// What is entered where a call begins, and left where it ends.
#[pyclass(name = "Call", module = "windowkit._native", frozen)]
pub(super) struct PyCall;

#[pymethods]
impl PyCall {
    #[new]
    fn new() -> Self {
        Self
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        Call::enter().map_err(|error| exception(py, &error))
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        Call::leave();
    }
}
