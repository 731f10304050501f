//! Rust errors as the exceptions of `windowkit.errors`.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Cause;
use crate::interrupt::watching;
use crate::memory::caught;
use crate::{Error, Result};

/// Runs `work` without the GIL; its error, or a panic in it, becomes the fitting exception, and so does what a signal
/// handler raises meanwhile.
pub(super) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| interruptible(work)).map_err(|error| exception(py, &error))
}

/// Runs `work`, which ends early if a signal handler raises; a panic in it becomes an error.
pub(super) fn interruptible<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    watching(signals, || caught(work))
}

/// Lets Python handle signals, which it does on its main thread only; returns whether this is that one.
fn signals() -> Result<bool> {
    let handled = |py: Python<'_>| {
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        let is_main = threading.call_method0("get_ident")?.eq(main)?;
        py.check_signals().map(|()| is_main)
    };
    // Not while the interpreter ends.
    let handled = Python::try_attach(handled).unwrap_or(Ok(false));
    handled.map_err(|raised| Error::Interrupted(Cause(Arc::new(raised))))
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
        Error::Interrupted(cause) => match cause.0.downcast_ref::<PyErr>() {
            Some(raised) => return raised.clone_ref(py),
            None => "InternalError",
        },
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
