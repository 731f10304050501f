//! What several threads may call, one at a time.
//!
//! Python functions run within a call: users' own, and signal handlers. If they call the same object, that is an error
//! and no deadlock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::{Error, Result};

thread_local! {
    /// Where this is tells threads apart.
    static HERE: u8 = const { 0 };
}

/// A number that no other thread has at the same time; never 0.
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A value that one thread uses at a time.
pub(super) struct Shared<T> {
    value: Mutex<T>,
    /// 0 for none.
    user: AtomicUsize,
}

/// Its use by a thread.
pub(super) struct Used<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a AtomicUsize,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), user: AtomicUsize::new(0) }
    }

    /// Waits until no other thread uses the value.
    ///
    /// # Errors
    /// `InvalidValue` if this thread does; `Internal` if a panic left the value half-changed.
    pub(super) fn lock(&self) -> Result<Used<'_, T>> {
        let this = this_thread();
        // Whatever another thread stores meanwhile, it is not this thread's number.
        if self.user.load(Ordering::Relaxed) == this {
            return Err(Error::InvalidValue(
                "an object is called by a function that it was itself calling, or by a signal handler meanwhile; it \
                 runs one call at a time"
                    .into(),
            ));
        }
        let value = self.value.lock().map_err(|_| Error::Internal("an earlier call panicked".into()))?;
        self.user.store(this, Ordering::Relaxed);
        Ok(Used { value, user: &self.user })
    }
}

impl<T> Drop for Used<'_, T> {
    fn drop(&mut self) {
        self.user.store(0, Ordering::Relaxed);
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
