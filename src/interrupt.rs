//! Interrupts: long work looks, again and again, whether it should end.
//!
//! | | |
//! |---|---|
//! | needs | bounded work between looks: a chunk of rows, some thousand slices or windows |
//! | time | a read of the clock per look; whoever is in charge is asked every 20 ms, or every 50 if that takes long |
//! | space | none |
//!
//! Who is in charge is not known here: [`watching`] is given a function to ask, which for Python handles pending
//! signals. Work calls [`check`] where it is divided, once per chunk of rows, block of keys or block of windows, and hands
//! the error on, as any other. That is done in `operator/` and `python/` alone: what they call knows nothing of interrupts,
//! but where a single call may take long, it is given [`check`] to call between pieces (see [`crate::poll`]).

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Asks whoever is in charge: an error if work should end, and otherwise how to ask from then on, if at all.
#[derive(Clone, Copy)]
pub struct Look(pub fn() -> Result<Option<Look>>);

/// Poll interval, and its upper bound where polling is slow, as Python may wait for other threads then.
const EVERY: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_millis(50);

/// Simple steps between two looks. A step takes some nanoseconds, or a microsecond where it misses the caches.
pub const STEPS: usize = 1 << 13;

thread_local! {
    /// The work that this thread does, and that of which it is a part, and so on; nothing before anybody has asked.
    static WORK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The numbers of works start here: 0 is none.
static NEXT_WORK: AtomicUsize = AtomicUsize::new(1);

/// A number for the work of this thread, then that of which it is a part, and so on: where helpers are at work, what each
/// thread does is a part, also what the thread does that has them. What waits for a part that is beside it waits for an end
/// that comes; what waits for the whole does not.
pub fn work() -> Vec<usize> {
    WORK.with_borrow_mut(|work| {
        if work.is_empty() {
            *work = part_of(&[]);
        }
        work.clone()
    })
}

/// A part of this work.
fn part_of(work: &[usize]) -> Vec<usize> {
    let own = NEXT_WORK.fetch_add(1, Ordering::Relaxed);
    std::iter::once(own).chain(work.iter().copied()).collect()
}

/// What a thread knows.
struct Watch {
    look: Cell<Option<Look>>,
    /// When to ask next; not known before the first look.
    next: Cell<Option<Instant>>,
    /// Why work should end, once that is so; none where nobody would be told.
    ended: RefCell<Option<Arc<OnceLock<Error>>>>,
    /// Whether the work at hand goes on all the same.
    is_undisturbed: Cell<bool>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch {
            look: Cell::new(None),
            next: Cell::new(None),
            ended: RefCell::new(None),
            is_undisturbed: Cell::new(false),
        }
    };
}

impl Watch {
    fn error(&self) -> Option<Error> {
        self.ended.borrow().as_ref()?.get().cloned()
    }

    fn check(&self) -> Result<()> {
        if self.is_undisturbed.get() {
            return Ok(());
        }
        if let Some(error) = self.error() {
            return Err(error);
        }
        let Some(look) = self.look.get() else { return Ok(()) };
        let now = Instant::now();
        match self.next.get() {
            None => self.next.set(Some(now + EVERY)),
            Some(next) if now >= next => {
                // Whatever runs in it may call the core again.
                let asked = (look.0)();
                let after = Instant::now();
                self.next.set(Some(after + (10 * (after - now)).clamp(EVERY, SELDOM)));
                match asked {
                    Ok(then) => self.look.set(then),
                    Err(error) => {
                        self.end_with(error.clone());
                        return Err(error);
                    }
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn end_with(&self, error: Error) {
        if let Some(ended) = &*self.ended.borrow() {
            let _ = ended.set(error);
        }
    }

    /// Sets what the thread knows; returns what it knew.
    fn swap(&self, new: Watched) -> Watched {
        let (look, next, ended, is_undisturbed) = new;
        let of_work = self.is_undisturbed.replace(is_undisturbed);
        (self.look.replace(look), self.next.replace(next), self.ended.replace(ended), of_work)
    }
}

/// The contents of a [`Watch`].
type Watched = (Option<Look>, Option<Instant>, Option<Arc<OnceLock<Error>>>, bool);

/// Restores what a thread knew.
struct Restored(Watched);

impl Drop for Restored {
    fn drop(&mut self) {
        let contents = std::mem::take(&mut self.0);
        WATCH.with(|watch| watch.swap(contents));
    }
}

fn replaced(contents: Watched) -> Restored {
    Restored(WATCH.with(|watch| watch.swap(contents)))
}

/// Does work that ends early, with the error of `look`, once that has one. The error is also returned if the work ended
/// without it: it is passed on exactly once.
pub fn watching<T>(look: Look, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = replaced((Some(look), None, Some(Arc::default()), false));
    let result = work();
    let ended = WATCH.with(Watch::error);
    drop(outer);
    ended.map_or(result, Err)
}

/// Lets the work around end with this interrupt, which is passed on even if the work ends well.
pub fn end_with(interrupt: Error) {
    WATCH.with(|watch| watch.end_with(interrupt));
}

/// Does work that no look ends: what is committed, or rolled back, as a whole. An interrupt that comes from it, by
/// [`end_with`], is passed on after it.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let outer = replaced((None, None, WATCH.with(|watch| watch.ended.borrow().clone()), true));
    let done = work();
    drop(outer);
    done
}

/// Looks.
///
/// # Errors
/// That with which work should end; the same at every later look.
#[inline(never)]
pub fn check() -> Result<()> {
    WATCH.with(Watch::check)
}

#[cfg(test)]
thread_local! {
    /// The steps that were counted on this thread.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// The steps that were counted on this thread.
#[cfg(test)]
pub fn counted() -> u64 {
    COUNTED.get()
}

/// Counts simple steps, and looks once there were [`STEPS`] of them.
pub struct Pace(usize);

impl Pace {
    /// A pace of steps that are about to begin.
    #[allow(
        clippy::new_without_default,
        reason = "a default suggests a value, and this is a place in a loop"
    )]
    pub fn new() -> Self {
        Self(STEPS)
    }

    /// Counts these steps; looks by [`check`].
    ///
    /// # Errors
    /// Errors of [`check`].
    #[inline]
    pub fn check(&mut self, steps: usize) -> Result<()> {
        #[cfg(test)]
        COUNTED.set(COUNTED.get() + steps as u64);
        let is_due = self.0 <= steps;
        self.0 = if is_due { STEPS } else { self.0 - steps };
        if is_due { check() } else { Ok(()) }
    }
}

/// Helper threads, which stop early once the thread they work for has an error.
pub struct Helpers {
    ended: Arc<OnceLock<Error>>,
    /// The whole of what they do, and this thread.
    whole: Vec<usize>,
    working: Option<Sender<()>>,
    done: Receiver<()>,
}

/// What a thread needs in order to be one of the [`Helpers`].
pub struct Helper {
    ended: Arc<OnceLock<Error>>,
    part: Vec<usize>,
    _working: Option<Sender<()>>,
}

impl Helpers {
    /// No helpers yet.
    #[allow(clippy::new_without_default, reason = "a default suggests a value, and this is a channel")]
    pub fn new() -> Self {
        let (working, done) = channel();
        let (ended, whole) = (Arc::default(), work());
        // Last of all: without memory for the rest, this thread's work is what it was.
        WORK.set(part_of(&whole));
        Self { ended, whole, working: Some(working), done }
    }

    /// One more helper.
    pub fn add(&self) -> Helper {
        let part = part_of(&self.whole);
        Helper { ended: self.ended.clone(), part, _working: self.working.clone() }
    }

    /// Waits until all helpers are done, and looks meanwhile. If `own`, the work of this thread, has failed, or a look fails,
    /// they stop early.
    ///
    /// # Errors
    /// That of `own`, and those of [`check`].
    pub fn wait<T>(mut self, own: Result<T>) -> Result<T> {
        self.working = None;
        let mut own = own;
        loop {
            if let Err(error) = &own {
                let _ = self.ended.set(error.clone());
            }
            // They send nothing: when the last is done, the channel is closed.
            match self.done.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => own = own.and_then(|own| check().map(|()| own)),
                _ => return own,
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        WORK.set(std::mem::take(&mut self.whole));
    }
}

impl Helper {
    /// Does work on this thread.
    pub fn work<T>(self, work: impl FnOnce() -> T) -> T {
        let outer = replaced((None, None, Some(self.ended.clone()), false));
        let own = WORK.replace(self.part);
        let result = work();
        WORK.set(own);
        drop(outer);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const STOP: Look = Look(|| Err(Error::InvalidValue("enough".into())));

    /// Looks until an error comes; how long that took.
    fn until_stopped(look: impl Fn() -> Result<()>) -> Error {
        loop {
            if let Err(error) = look() {
                return error;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn work_ends_with_the_error_of_the_look() {
        let done = watching(STOP, || -> Result<()> { Err(until_stopped(check)) });
        assert_eq!(done, Err(Error::InvalidValue("enough".into())));
        // Errors that the work did not hand on are not lost, and are over with it.
        assert!(watching(STOP, || Ok(until_stopped(check))).is_err());
        assert_eq!(check(), Ok(()));
        let never = watching(Look(|| Ok(None)), || {
            (0..200).try_for_each(|_| {
                thread::sleep(Duration::from_millis(1));
                check()
            })
        });
        assert_eq!(never, Ok(()));
        let later = watching(Look(|| Ok(Some(STOP))), || -> Result<()> { Err(until_stopped(check)) });
        assert_eq!(later, Err(Error::InvalidValue("enough".into())));
    }

    #[test]
    fn work_that_ends_well_may_end_with_an_interrupt() {
        let enough = || Error::InvalidValue("enough".into());
        let done = watching(Look(|| Ok(None)), || {
            undisturbed(|| {
                end_with(enough());
                assert_eq!(check(), Ok(()));
            });
            assert_eq!(check(), Err(enough()));
            end_with(Error::InvalidValue("more than enough".into()));
            Ok(3)
        });
        assert_eq!(done, Err(enough()));
        end_with(enough());
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_look_may_work_itself() {
        fn nested() -> Result<Option<Look>> {
            watching(STOP, || -> Result<_> { Err(until_stopped(check)) }).or(Ok(Some(Look(nested))))
        }
        let done = watching(Look(nested), || {
            (0..200).try_for_each(|_| {
                thread::sleep(Duration::from_millis(1));
                check()
            })
        });
        assert_eq!(done, Ok(()));
    }

    #[test]
    fn helpers_end_with_whom_they_help() {
        let helped = |own: fn() -> Result<()>| {
            let helpers = Helpers::new();
            thread::scope(|scope| {
                let all: Vec<_> = (0..3)
                    .map(|_| helpers.add())
                    .map(|helper| scope.spawn(move || helper.work(|| until_stopped(check))))
                    .collect();
                let own = helpers.wait(own());
                (own, all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
            })
        };
        let failed = || Err(Error::Overflow("own".into()));
        assert_eq!(helped(failed), (failed(), vec![Error::Overflow("own".into()); 3]));
        let error = Error::InvalidValue("enough".into());
        assert_eq!(watching(STOP, || Ok(helped(|| Ok(())))), Err(error.clone()));
        let seen = RefCell::new(None);
        let _ = watching(STOP, || {
            seen.replace(Some(helped(|| Ok(()))));
            Ok(())
        });
        assert_eq!(seen.into_inner(), Some((Err(error.clone()), vec![error; 3])));
        let none = Helpers::new();
        assert_eq!(none.wait(Ok(3)), Ok(3));
    }
}
