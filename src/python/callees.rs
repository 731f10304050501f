//! What the core calls of Python, functions and windows of users, as Python's garbage collector sees it.
//!
//! They may refer to what calls them, such as an operator to which the function of its query belongs. Python frees both
//! only if it is shown all references between them, each of them once, and always the same ones while it looks. But
//! plans, operators and results share what they call, and change in other threads. So what one plan calls is held by one
//! object that never changes, and all these refer to that. Nothing is to be cleared: every cycle has a callee in it, an
//! object of Python's own, which Python clears.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// An object that the core calls, of which it is the only reference.
pub(super) type Callee = Arc<Py<PyAny>>;

/// All that the core calls of one plan.
#[pyclass(name = "Callees", module = "windowkit._native", frozen)]
pub(super) struct PyCallees(Vec<Callee>);

/// The callees of a plan, if it has any.
pub(super) type Callees = Option<Py<PyCallees>>;

#[pymethods]
impl PyCallees {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|callee| visit.call(&**callee))
    }
}

/// The callees that were made for a plan.
pub(super) fn callees(py: Python<'_>, made: Vec<Callee>) -> PyResult<Callees> {
    (!made.is_empty()).then(|| Py::new(py, PyCallees(made))).transpose()
}

/// For what else refers to the plan.
pub(super) fn of_same(py: Python<'_>, callees: &Callees) -> Callees {
    callees.as_ref().map(|callees| callees.clone_ref(py))
}
