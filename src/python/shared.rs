//! What several threads may call, one at a time.
//!
//! Python functions run within a call: users' own, and signal handlers. If they call the same object, that is an error
//! and no deadlock.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use crate::{Error, Result};

/// A value that one thread uses at a time.
pub(super) struct Shared<T> {
    value: Mutex<T>,
    user: Mutex<Option<ThreadId>>,
}

/// Its use by a thread.
pub(super) struct Used<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a Mutex<Option<ThreadId>>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), user: Mutex::new(None) }
    }

    /// Waits until no other thread uses the value.
    ///
    /// # Errors
    /// `InvalidValue` if this thread does; `Internal` if a panic left the value half-changed.
    pub(super) fn lock(&self) -> Result<Used<'_, T>> {
        let panicked = || Error::Internal("an earlier call panicked".into());
        let this = Some(thread::current().id());
        if *self.user.lock().map_err(|_| panicked())? == this {
            return Err(Error::InvalidValue(
                "an object is called by a function that it was itself calling, or by a signal handler meanwhile; it \
                 runs one call at a time"
                    .into(),
            ));
        }
        let value = self.value.lock().map_err(|_| panicked())?;
        *self.user.lock().map_err(|_| panicked())? = this;
        Ok(Used { value, user: &self.user })
    }
}

impl<T> Drop for Used<'_, T> {
    fn drop(&mut self) {
        if let Ok(mut user) = self.user.lock() {
            *user = None;
        }
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
