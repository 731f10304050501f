//! The end of the interpreter, before which the calls of all other threads end.
//!
//! A thread that asks for Python's lock afterwards is ended by Python, before 3.14 by unwinding its stack; where that
//! comes to a frame of Rust, or to where C++ lets go of a reader of pyarrow, the process aborts. pyo3 lets a thread sleep
//! that asks by itself, but not one that asks from within Python. So whatever may run Python, and what Python does around
//! it, is within a [`Call`]. As `atexit` tells it, calls of daemon threads end, by the exception with which Python's own
//! threads end without a word, and the interpreter waits for them, and for a moment for the threads themselves: one that
//! reads a reader of pyarrow is within it between its calls, too.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::forget;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::error::Cause;
use crate::interrupt::{Look, work};
use crate::{Error, Result};

/// How long the interpreter waits for calls: one may be within a function of a user, which nothing ends.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long it waits for threads that are not within calls: one may never call again.
const GRACE: Duration = Duration::from_millis(250);

/// The threads that have called, and are there yet.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The calls under way, of all threads.
static CALLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The calls of this thread, one within the other.
    static OWN: Cell<usize> = const { Cell::new(0) };

    static THREAD: Thread = Thread::new();
}

/// A thread that has called, until it ends.
struct Thread;

impl Thread {
    fn new() -> Self {
        THREADS.fetch_add(1, SeqCst);
        Self
    }

    /// Counts this thread, unless it has been, or is about to end.
    fn count() {
        let _ = THREAD.try_with(|_| ());
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, SeqCst);
    }
}

/// The whole of the work of the thread that ends the interpreter, once it does.
static ENDING: OnceLock<Option<usize>> = OnceLock::new();

/// Has Python tell when it ends.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let end = wrap_pyfunction!(end, module)?;
    module.py().import("atexit")?.call_method1("register", (end,)).map(|_| ())
}

#[pyfunction]
fn end(py: Python<'_>) -> PyResult<()> {
    let _ = ENDING.set(work().last().copied());
    Thread::count();
    let began = Instant::now();
    // When a call was last seen, for which it waits.
    let mut seen = began;
    while THREADS.load(SeqCst) > 1 {
        let now = Instant::now();
        if CALLS.load(SeqCst) > OWN.get() && now - began < PATIENCE {
            seen = now;
        }
        if now - seen > GRACE {
            break;
        }
        py.check_signals()?;
        py.detach(|| sleep(Duration::from_millis(1)));
    }
    Ok(())
}

/// Notes that this process was forked from another: other threads, and their calls, are there no more.
pub(super) fn forked() {
    Thread::count();
    THREADS.store(1, SeqCst);
    CALLS.store(OWN.get(), SeqCst);
}

/// Looks whether the interpreter ends.
///
/// # Errors
/// `Interrupted` if another thread ends it.
pub(super) fn look() -> Result<Option<Look>> {
    match ENDING.get() {
        Some(ending) if work().last() != ending.as_ref() => {
            let exit =
                PySystemExit::new_err("the interpreter ends, and so do calls of windowkit in other threads");
            Err(Error::Interrupted(Cause(Arc::new(exit))))
        }
        _ => Ok(Some(Look(look))),
    }
}

/// A call, for which the interpreter waits before it ends. It belongs to its thread.
pub(super) struct Call(PhantomData<*const ()>);

impl Call {
    /// Begins a call.
    ///
    /// # Errors
    /// As [`look`].
    pub(super) fn begin() -> Result<Self> {
        Thread::count();
        // Counted first: either this call sees that the interpreter ends, or that waits for it.
        CALLS.fetch_add(1, SeqCst);
        OWN.set(OWN.get() + 1);
        let call = Self(PhantomData);
        look().map(|_| call)
    }

    /// Begins a call that ends by [`leave`](Self::leave).
    ///
    /// # Errors
    /// As [`look`].
    pub(super) fn enter() -> Result<()> {
        Self::begin().map(forget)
    }

    /// Ends a call that has begun by [`enter`](Self::enter), on the same thread.
    pub(super) fn leave() {
        drop(Self(PhantomData));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        OWN.set(OWN.get() - 1);
        CALLS.fetch_sub(1, SeqCst);
    }
}
