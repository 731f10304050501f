//! `windowkit._native.Synchronized`: an iterator that several threads may share.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::errors::{detached, exception};
use super::shared::Shared;

/// An iterator whose next item one thread at a time asks for.
///
/// A reader of pyarrow does not do that for its threads: it lets go of its iterator at the end, even if another thread
/// is within it. So each call holds this object.
#[pyclass(name = "Synchronized", module = "windowkit._native", frozen)]
pub(super) struct PySynchronized(Shared<Option<Py<PyIterator>>>);

#[pymethods]
impl PySynchronized {
    #[new]
    fn new(iterator: Py<PyIterator>) -> Self {
        Self(Shared::new(Some(iterator)))
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(this: Py<Self>, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let shared = &this.get().0;
        let mut left = loop {
            if let Some(left) = shared.try_lock().map_err(|error| exception(py, &error))? {
                break left;
            }
            // The thread that it waits for needs the GIL.
            detached(py, || shared.lock().map(drop))?;
        };
        let Some(iterator) = &*left else { return Ok(None) };
        let next = iterator.bind(py).clone().next().transpose()?;
        if next.is_none() {
            *left = None;
        }
        Ok(next)
    }
}
