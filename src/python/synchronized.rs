//! `windowkit._native.Synchronized`: an iterator that several threads may share.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::errors::{detached, exception, within_iterator};
use super::shared::Shared;

/// An iterator whose next item one thread at a time asks for.
///
/// A reader of pyarrow does not do that for its threads: it lets go of its iterator at the end, even if another thread
/// is within it. So each call holds this object.
///
/// Python's own `map` ends where a handler of signals raises StopIteration within its function; this one fails.
#[pyclass(name = "Synchronized", module = "windowkit._native", frozen)]
pub(super) struct PySynchronized(Shared<Option<Mapped>>);

struct Mapped {
    iterator: Py<PyIterator>,
    make: Option<Py<PyAny>>,
    /// An item of which `make` failed to make one; it comes next.
    kept: Option<Py<PyAny>>,
}

impl Mapped {
    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = match self.kept.take() {
            Some(kept) => Some(kept.into_bound(py)),
            None => self.iterator.bind(py).clone().next().transpose()?,
        };
        let (Some(item), Some(make)) = (&next, &self.make) else { return Ok(next) };
        let made = make.bind(py).call1((item,));
        if made.is_err() {
            self.kept = Some(item.clone().unbind());
        }
        made.map(Some).map_err(|error| within_iterator(py, error))
    }
}

#[pymethods]
impl PySynchronized {
    #[new]
    #[pyo3(signature = (iterator, make = None))]
    fn new(iterator: Py<PyIterator>, make: Option<Py<PyAny>>) -> Self {
        Self(Shared::new(Some(Mapped { iterator, make, kept: None })))
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
        let Some(mapped) = &mut *left else { return Ok(None) };
        let next = mapped.next(py)?;
        if next.is_none() {
            *left = None;
        }
        Ok(next)
    }
}
