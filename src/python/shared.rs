//! What several threads may call, one at a time.
//!
//! Python functions run within a call: users' own, and signal handlers. If they call the same object, that is an error
//! and no deadlock. So it is if the process was forked meanwhile, since the thread that would end the call is not there.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interrupt::work;
use crate::{Error, Result};

/// How often the process was forked on the way to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Has Python count forks, where there are any.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let os = module.py().import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let arguments = pyo3::types::PyDict::new(module.py());
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    os.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}

#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// See [`work`].
#[pyfunction]
#[pyo3(name = "work")]
pub(super) fn own_work<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, work())
}

/// A value that one thread uses at a time.
pub(super) struct Shared<T> {
    value: Mutex<T>,
    /// 0 for none.
    user: AtomicUsize,
    /// [`FORKS`] when it was last used.
    forks: AtomicU32,
}

/// Its use by a thread.
pub(super) struct Used<'a, T> {
    value: MutexGuard<'a, T>,
    shared: &'a Shared<T>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), user: AtomicUsize::new(0), forks: AtomicU32::new(0) }
    }

    /// Waits until no other thread uses the value.
    ///
    /// Whoever waits must not hold the GIL: the other thread may need it.
    ///
    /// # Errors
    /// `InvalidValue` if this thread does, or one that a fork has left behind; `Internal` if a panic left the value
    /// half-changed.
    pub(super) fn lock(&self) -> Result<Used<'_, T>> {
        loop {
            if let Some(used) = self.try_lock()? {
                return Ok(used);
            }
            if self.forks.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed) {
                return Err(Error::InvalidValue(
                    "another thread was using the object when this process was forked from its own; make another one, \
                     or fork while no call is running"
                        .into(),
                ));
            }
            // Waits for the call of another thread.
            drop(self.value.lock().map_err(|_| panicked())?);
        }
    }

    /// Uses the value unless another thread does.
    ///
    /// # Errors
    /// As [`Shared::lock`].
    pub(super) fn try_lock(&self) -> Result<Option<Used<'_, T>>> {
        let work = work();
        // Whatever another thread stores meanwhile, it is no number of these.
        if work.contains(&self.user.load(Ordering::Relaxed)) {
            return Err(Error::InvalidValue(
                "an object is called by a function that it was itself calling, or by a signal handler meanwhile; it \
                 runs one call at a time"
                    .into(),
            ));
        }
        match self.value.try_lock() {
            Ok(value) => {
                self.forks.store(FORKS.load(Ordering::Relaxed), Ordering::Relaxed);
                self.user.store(work[0], Ordering::Relaxed);
                Ok(Some(Used { value, shared: self }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Poisoned(_)) => Err(panicked()),
        }
    }
}

fn panicked() -> Error {
    Error::Internal("an earlier call panicked".into())
}

impl<T> Drop for Used<'_, T> {
    fn drop(&mut self) {
        self.shared.user.store(0, Ordering::Relaxed);
    }
}

impl<T> Deref for Used<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Used<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
