//! What several threads may call, one at a time.
//!
//! Functions of Python run within a call: users' own, and signal handlers. If they call the same object, that is an error
//! and no deadlock. So it is if the process was forked meanwhile, since the thread that would end the call is not there.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::interrupt::work;
use crate::{Error, Result};

/// How often the process was forked on the way to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Notes that this process was forked from another, and has its threads no more.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value that one thread uses at a time.
pub struct Shared<T> {
    value: Mutex<T>,
    /// 0 for none.
    user: AtomicUsize,
    /// [`FORKS`] when it was last used.
    forks: AtomicU32,
}

/// Its use by a thread.
pub struct Used<'a, T> {
    value: MutexGuard<'a, T>,
    shared: &'a Shared<T>,
}

impl<T> Shared<T> {
    /// A value that nobody uses yet.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), user: AtomicUsize::new(0), forks: AtomicU32::new(0) }
    }

    /// Waits until no other thread uses the value.
    ///
    /// Whoever waits must not hold Python's lock: the other thread may need it.
    ///
    /// # Errors
    /// `InvalidValue` if this thread does, or one that a fork has left behind; `Internal` if a panic left the value
    /// half-changed.
    pub fn lock(&self) -> Result<Used<'_, T>> {
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
    pub fn try_lock(&self) -> Result<Option<Used<'_, T>>> {
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::interrupt::Helpers;

    /// How often each thread uses the value.
    const TIMES: usize = if cfg!(miri) { 20 } else { 2000 };

    #[test]
    fn one_thread_at_a_time_changes_the_value() {
        let shared = Shared::new((0, vec![]));
        thread::scope(|scope| {
            for number in 0..4 {
                let shared = &shared;
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let mut used = match number % 2 {
                            0 => shared.lock().unwrap(),
                            // No use by another thread is taken for one by this thread.
                            _ => loop {
                                if let Some(used) = shared.try_lock().unwrap() {
                                    break used;
                                }
                                thread::yield_now();
                            },
                        };
                        let (count, users) = &mut *used;
                        *count += 1;
                        users.push(number);
                    }
                });
            }
        });
        let used = shared.lock().unwrap();
        assert_eq!((used.0, used.1.len()), (4 * TIMES, 4 * TIMES));
    }

    #[test]
    fn calls_within_a_call_are_refused_also_those_of_its_helpers() {
        let shared = Shared::new(0);
        let refused = || shared.lock().is_err() && shared.try_lock().is_err();
        for _ in 0..TIMES / 20 {
            let mut used = shared.lock().unwrap();
            *used += 1;
            assert!(refused());
            let helpers = Helpers::new();
            thread::scope(|scope| {
                let helper = helpers.add();
                let helper = scope.spawn(|| helper.work(refused));
                assert!(refused());
                helpers.wait(Ok(())).unwrap();
                assert!(helper.join().unwrap());
            });
        }
        assert_eq!(*shared.lock().unwrap(), TIMES / 20);
    }

    #[test]
    fn helpers_of_one_call_take_turns() {
        let shared = Shared::new(0);
        let helpers = Helpers::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (shared, helper) = (&shared, helpers.add());
                scope.spawn(move || helper.work(|| (0..TIMES).for_each(|_| *shared.lock().unwrap() += 1)));
            }
            (0..TIMES).for_each(|_| *shared.lock().unwrap() += 1);
            helpers.wait(Ok(())).unwrap();
        });
        assert_eq!(*shared.lock().unwrap(), 4 * TIMES);
    }
}
