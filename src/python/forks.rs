//! Forks, which Python counts, and the work that each of its threads does, which Python asks for.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::exits;
use crate::interrupt::work;
use crate::shared;

/// Has Python count forks, where there are any.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let arguments = PyDict::new(module.py());
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    os.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}

#[pyfunction]
fn forked() {
    exits::forked();
    shared::forked();
}

/// See [`work`].
#[pyfunction]
#[pyo3(name = "work")]
pub(super) fn own_work<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, work())
}
