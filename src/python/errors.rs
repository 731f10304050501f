//! Rust errors as the exceptions of `windowkit.errors`.

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::memory::caught;
use crate::{Error, Result};

/// Runs `work` without the GIL; its error, or a panic in it, becomes the fitting exception.
pub(super) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| caught(work)).map_err(|error| exception(py, &error))
}

/// Bytes for Python, which may not have the memory for them.
pub(super) fn py_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })
}

/// The exception for an error.
pub(super) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::InvalidValue(_) | Error::User { .. } => "InvalidValue",
        Error::InvalidType(_) => "InvalidType",
        Error::UnknownColumn(_) => "UnknownColumn",
        Error::Overflow(_) => "Overflow",
        Error::Memory(text) => return PyMemoryError::new_err(text.clone()),
        Error::Internal(_) => "InternalError",
    };
    let raise = || py.import("windowkit.errors")?.getattr(class)?.call1((error.to_string(),));
    let cause = match error {
        Error::User { cause, .. } => cause.0.downcast_ref::<PyErr>().map(|cause| cause.clone_ref(py)),
        _ => None,
    };
    match (raise(), cause) {
        // An interrupt comes from the user, not from the function.
        (_, Some(cause)) if !cause.is_instance_of::<PyException>(py) => cause,
        (Ok(value), cause) => {
            let raised = PyErr::from_value(value);
            raised.set_cause(py, cause);
            raised
        }
        (Err(failure), _) => failure,
    }
}
