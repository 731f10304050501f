//! `windowkit._native.Synchronized`: an iterator that several threads may share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyIterator, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::errors::{counted, within_iterator};

/// An iterator whose next item one thread at a time asks for: within `take`, as `windowkit.local.turns.Turns` has it.
///
/// A reader of pyarrow does not do that for its threads: it lets go of its iterator at the end, even if another thread
/// is within it, or comes while the iterator is freed. So each call holds this object, and what is left is freed within
/// the last call: to free this object then runs no Python, which would let another thread in.
///
/// Python's own `map` ends where a handler of signals raises StopIteration within its function; this one fails.
#[pyclass(name = "Synchronized", module = "windowkit._native", frozen)]
pub(super) struct PySynchronized(Mutex<Option<Arc<Left>>>);

struct Left {
    take: Py<PyAny>,
    iterator: Py<PyIterator>,
    make: Option<Py<PyAny>>,
    /// An item of which `make` failed to make one; it comes next.
    kept: Mutex<Option<Py<PyAny>>>,
    /// What was made within a call that failed after it, as where a handler of signals raises; it comes before that.
    made: Mutex<Vec<Py<PyAny>>>,
}

/// For moments in which no Python runs.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Left {
    /// The next item; one thread at a time asks for it.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if let Some(made) = locked(&self.made).pop() {
            return Ok(Some(made));
        }
        let kept = locked(&self.kept).take();
        let item = match kept {
            Some(kept) => Some(kept.into_bound(py)),
            None => self.iterator.bind(py).clone().next().transpose()?,
        };
        let (Some(item), Some(make)) = (&item, &self.make) else { return Ok(item.map(Bound::unbind)) };
        let made = make.bind(py).call1((item,));
        if made.is_err() {
            *locked(&self.kept) = Some(item.clone().unbind());
        }
        Ok(Some(made?.unbind()))
    }

    /// The next item, asked for within `take`.
    fn taken(self: &Arc<Self>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let found = Arc::new(Mutex::new(None));
        let (left, there) = (self.clone(), found.clone());
        let work = move |given: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<()> {
            let next = left.next(given.py())?;
            *locked(&there) = next;
            Ok(())
        };
        let work = PyCFunction::new_closure(py, None, None, work)?;
        let taken = self.take.bind(py).call1((work,));
        let next = locked(&found).take();
        match taken {
            Ok(_) => Ok(next),
            Err(error) => {
                locked(&self.made).extend(next);
                Err(within_iterator(py, error))
            }
        }
    }
}

#[pymethods]
impl PySynchronized {
    #[new]
    #[pyo3(signature = (iterator, take, make = None))]
    fn new(iterator: Py<PyIterator>, take: Py<PyAny>, make: Option<Py<PyAny>>) -> Self {
        let left = Left { take, iterator, make, kept: Mutex::default(), made: Mutex::default() };
        Self(Mutex::new(Some(Arc::new(left))))
    }

    /// All locks are free, as they are held for moments in which no Python runs.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(left) = self.0.try_lock() else { return Ok(()) };
        let Some(left) = &*left else { return Ok(()) };
        visit.call(&left.take)?;
        visit.call(&left.iterator)?;
        visit.call(&left.make)?;
        if let Ok(kept) = left.kept.try_lock() {
            visit.call(&*kept)?;
        }
        let Ok(made) = left.made.try_lock() else { return Ok(()) };
        made.iter().try_for_each(|made| visit.call(made))
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(this: Py<Self>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let left = locked(&this.get().0).clone();
        let Some(left) = left else { return Ok(None) };
        let next = counted(py, || left.taken(py))?;
        if next.is_none() {
            let ended = locked(&this.get().0).take();
            drop(ended);
        }
        Ok(next)
    }
}
