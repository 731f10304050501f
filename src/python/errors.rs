//! Rust errors as the exceptions of `windowkit.errors`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::exits::{self, Call};
use crate::error::Cause;
use crate::interrupt::{Look, watching};
use crate::memory::{caught, of_panic};
use crate::{Error, Result};

/// Runs `work` without the GIL; its error, or a panic in it, becomes the fitting exception, and so does what a signal
/// handler raises meanwhile.
pub(super) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    counted(py, || py.detach(|| watched(work)).map_err(|error| exception(py, &error)))
}

/// Runs `work`, which may run Python, within a [`Call`].
pub(super) fn counted<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let _call = Call::begin().map_err(|error| exception(py, &error))?;
    work()
}

/// Runs `work` for a caller without the GIL; it ends early as that of [`detached`] does.
pub(super) fn interruptible<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _call = Call::begin()?;
    watched(work)
}

/// Runs `work`, which ends early if a signal handler raises, or the interpreter ends; a panic in it becomes an error.
fn watched<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    watching(Look(signals), || caught(work))
}

/// Lets Python handle signals, which it does on its main thread only; on others, only the end of the interpreter matters.
fn signals() -> Result<Option<Look>> {
    exits::look()?;
    let handled = |py: Python<'_>| {
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        let is_main = threading.call_method0("get_ident")?.eq(main)?;
        py.check_signals().map(|()| is_main)
    };
    // Not while the interpreter ends.
    let handled = Python::try_attach(handled).unwrap_or(Ok(false));
    let is_main = handled.map_err(|raised| Error::Interrupted(Cause(Arc::new(raised))))?;
    Ok(Some(Look(if is_main { signals } else { exits::look })))
}

/// Bytes that are copied at once.
const PIECE: usize = 1 << 24;

/// Bytes for Python, which may not have the memory for them; signals are handled meanwhile.
pub(super) fn py_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    copied(py, bytes).map_err(|error| match error.is_instance_of::<PyMemoryError>(py) {
        // Python's own says nothing.
        true => out_of_memory(py, "Python has no memory for the bytes of the result"),
        false => error,
    })
}

fn copied<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |to| {
        for (at, (to, from)) in to.chunks_mut(PIECE).zip(bytes.chunks(PIECE)).enumerate() {
            if at > 0 {
                py.check_signals()?;
            }
            to.copy_from_slice(from);
        }
        Ok(())
    })
}

/// A value for Python, which may not have the memory for it: where pyo3 panics, this raises what Python does.
pub(super) struct Out<T>(pub(super) T);

pub(super) type PyOut<T> = PyResult<Out<T>>;

impl<'py, T: IntoPyObject<'py>> IntoPyObject<'py> for Out<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let made = catch_unwind(AssertUnwindSafe(|| self.0.into_bound_py_any(py)));
        let raised =
            |panic: Box<dyn Any + Send>| PyErr::take(py).unwrap_or_else(|| exception(py, &of_panic(&*panic)));
        made.unwrap_or_else(|panic| Err(raised(panic)))
    }
}

/// A `MemoryError` with this text, or without one if there is no memory for it.
fn out_of_memory(py: Python<'_>, text: &str) -> PyErr {
    let text = copied(py, text.as_bytes())
        .and_then(|bytes| PyString::from_encoded_object(&bytes, Some(c"utf-8"), None));
    text.map_or_else(|error| error, |text| PyMemoryError::new_err(text.unbind()))
}

/// The error for what a user's own function raised, of which `message` makes a text. What is not an `Exception` ends more than
/// the function: it comes from the user, or the process is to end; also where it is raised while the exception is shown.
pub(super) fn of_user(py: Python<'_>, raised: PyErr, message: impl FnOnce(&str) -> String) -> Error {
    let is_failure = |raised: &PyErr| raised.is_instance_of::<PyException>(py);
    let interrupted = |raised| Error::Interrupted(Cause(Arc::new(raised)));
    if !is_failure(&raised) {
        return interrupted(raised);
    }
    match raised.value(py).repr() {
        Err(other) if !is_failure(&other) => interrupted(other),
        shown => {
            let shown = shown.map_or_else(|_| "an exception".to_owned(), |text| text.to_string());
            Error::User { message: message(&shown), cause: Cause(Arc::new(raised)) }
        }
    }
}

/// What an iterator raises where `error` came up: a StopIteration, of a handler of signals, would end it, and nobody
/// would notice what is missing. As in Python's generators.
pub(super) fn within_iterator(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let failed = PyRuntimeError::new_err("a handler of signals raised StopIteration");
    failed.set_cause(py, Some(error));
    failed
}

/// The exception for an error.
pub(super) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::InvalidValue(_) | Error::User { .. } => "InvalidValue",
        Error::InvalidType(_) => "InvalidType",
        Error::UnknownColumn(_) => "UnknownColumn",
        Error::Overflow(_) => "Overflow",
        Error::Memory(text) => return out_of_memory(py, text),
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
        (Ok(value), cause) => {
            let raised = PyErr::from_value(value);
            raised.set_cause(py, cause);
            raised
        }
        (Err(failure), _) => failure,
    }
}
