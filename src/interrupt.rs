//! Interrupts: long work looks, again and again, whether it should end.
//!
//! | | |
//! |---|---|
//! | needs | bounded work between looks: a chunk of rows, some thousand slices or windows |
//! | time | a read of the clock per look; whoever is in charge is asked every 20 ms, or every 50 if that takes long |
//! | space | none |
//!
//! Who is in charge is not known here: [`watching`] is given a function to ask, which for Python handles pending
//! signals. Code that can fail calls [`check`] and hands the error on, as any other. Kernels and sorts, which cannot,
//! call [`tick`], which unwinds out of the nearest [`within`]; elsewhere it does nothing. So `within` may only surround
//! work on what is dropped if it fails, or is rolled back by an undo log as after any error, and nothing that another
//! thread may see.
//!
//! Sorting is done in pieces, since the library's sorts do not look, and looking in each comparison would slow them down.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::memory::unwind;
use crate::{Error, Result};

/// Asks whoever is in charge: an error if work should end, and otherwise whether to ask again.
pub type Look = fn() -> Result<bool>;

/// How often is asked, and how often at the least if asking takes long: Python may wait for other threads then.
const EVERY: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_millis(50);

/// Simple steps, of some nanoseconds each, between two looks; of a microsecond, where all of them miss the caches.
pub const STEPS: usize = 1 << 13;

/// Elements that are sorted without a look.
const PIECE: usize = 1 << 19;

/// What a thread knows.
struct Watch {
    look: Cell<Option<Look>>,
    /// When to ask next; not known before the first look.
    next: Cell<Option<Instant>>,
    /// Why work should end, once that is so.
    ended: RefCell<Option<Arc<OnceLock<Error>>>>,
    /// How many [`within`] surround the current work.
    depth: Cell<u32>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch { look: Cell::new(None), next: Cell::new(None), ended: RefCell::new(None), depth: Cell::new(0) }
    };
}

impl Watch {
    fn error(&self) -> Option<Error> {
        self.ended.borrow().as_ref()?.get().cloned()
    }

    fn check(&self) -> Result<()> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let Some(look) = self.look.get() else { return Ok(()) };
        let now = Instant::now();
        match self.next.get() {
            None => self.next.set(Some(now + EVERY)),
            Some(next) if now >= next => {
                // Whatever runs in it may call the core again.
                let asked = look();
                let after = Instant::now();
                self.next.set(Some(after + (10 * (after - now)).clamp(EVERY, SELDOM)));
                match asked {
                    Ok(again) => self.look.set(self.look.get().filter(|_| again)),
                    Err(error) => {
                        self.ended.replace(Some(Arc::new(OnceLock::from(error.clone()))));
                        return Err(error);
                    }
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Sets what the thread knows; returns what it knew.
    fn swap(&self, new: Known) -> Known {
        let (look, next, ended, depth) = new;
        (
            self.look.replace(look),
            self.next.replace(next),
            self.ended.replace(ended),
            self.depth.replace(depth),
        )
    }
}

/// The contents of a [`Watch`].
type Known = (Option<Look>, Option<Instant>, Option<Arc<OnceLock<Error>>>, u32);

/// Restores what a thread knew.
struct Restored(Known);

impl Drop for Restored {
    fn drop(&mut self) {
        let known = std::mem::take(&mut self.0);
        WATCH.with(|watch| watch.swap(known));
    }
}

fn knowing(known: Known) -> Restored {
    Restored(WATCH.with(|watch| watch.swap(known)))
}

/// Does work that ends early, with the error of `look`, once that has one. The error is also returned if the work ended
/// without it: it is passed on exactly once.
pub fn watching<T>(look: Look, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = knowing((Some(look), None, None, 0));
    let result = work();
    let ended = WATCH.with(Watch::error);
    drop(outer);
    ended.map_or(result, Err)
}

/// Does work that no look ends: what is committed, or rolled back, as a whole.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let outer = knowing(Known::default());
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

/// The payload with which [`tick`] unwinds.
struct Ended(Error);

/// Looks, where nothing can fail: ends the nearest [`within`], or does nothing if there is none.
#[inline(never)]
pub fn tick() {
    let ended = WATCH.with(|watch| if watch.depth.get() > 0 { watch.check() } else { Ok(()) });
    if let Err(error) = ended {
        // Without the hook, which would print it.
        unwind(Box::new(Ended(error)));
    }
}

/// As [`tick`], once in [`STEPS`] calls with the length of a list that grows.
#[inline]
pub fn tick_at(len: usize) {
    if len % STEPS == STEPS - 1 {
        tick();
    }
}

/// Counts simple steps, and looks once there were [`STEPS`] of them.
pub struct Pace(usize);

impl Pace {
    /// Of steps that are about to begin.
    #[allow(
        clippy::new_without_default,
        reason = "a default suggests a value, and this is a place in a loop"
    )]
    pub fn new() -> Self {
        Self(STEPS)
    }

    #[inline]
    fn is_due(&mut self, steps: usize) -> bool {
        let is_due = self.0 <= steps;
        self.0 = if is_due { STEPS } else { self.0 - steps };
        is_due
    }

    /// Counts these steps; looks by [`check`].
    ///
    /// # Errors
    /// Those of [`check`].
    #[inline]
    pub fn check(&mut self, steps: usize) -> Result<()> {
        if self.is_due(steps) { check() } else { Ok(()) }
    }

    /// Counts these steps; looks by [`tick`].
    #[inline]
    pub fn tick(&mut self, steps: usize) {
        if self.is_due(steps) {
            tick();
        }
    }
}

/// Stretches of [`STEPS`] of `len` elements; looks by [`tick`] before each but the first.
pub fn stretches(len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        if from >= len {
            return None;
        }
        if from > 0 {
            tick();
        }
        let some = from..len.min(from + STEPS);
        from = some.end;
        Some(some)
    })
}

/// The values, copied; looks by [`tick`].
pub fn copied<T: Copy>(values: &[T]) -> Vec<T> {
    let mut copied = Vec::with_capacity(values.len());
    stretches(values.len()).for_each(|some| copied.extend_from_slice(&values[some]));
    copied
}

/// Makes room for more values in a list; looks while a long one is moved.
///
/// # Errors
/// Those of [`check`].
#[inline]
pub fn make_room<T: Copy>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() < more { moved(list, more, check) } else { Ok(()) }
}

/// As [`make_room`]; looks by [`tick`].
#[inline]
pub fn make_room_by_ticks<T: Copy>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        moved_by_ticks(list, more);
    }
}

/// Adds a value to a list; looks by [`tick`] while a long one is moved.
#[inline]
pub fn push<T: Copy>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        moved_by_ticks(list, 1);
    }
    list.push(value);
}

/// Lengthens a list to `len` values, the new ones all the same; looks by [`tick`] while a long one is moved.
#[inline]
pub fn lengthen<T: Copy>(list: &mut Vec<T>, len: usize, value: T) {
    if len > list.capacity() {
        moved_by_ticks(list, len - list.len());
    }
    list.resize(len.max(list.len()), value);
}

/// Adds values to a list; looks by [`tick`].
pub fn extend<T: Copy>(list: &mut Vec<T>, values: &[T]) {
    make_room_by_ticks(list, values.len());
    for some in stretches(values.len()) {
        list.extend_from_slice(&values[some]);
    }
}

fn moved_by_ticks<T: Copy>(list: &mut Vec<T>, more: usize) {
    let ticked = moved(list, more, || {
        tick();
        Ok(())
    });
    debug_assert_eq!(ticked, Ok(()), "a tick fails by unwinding");
}

#[inline(never)]
fn moved<T: Copy>(list: &mut Vec<T>, more: usize, look: impl Fn() -> Result<()>) -> Result<()> {
    if list.len() <= STEPS {
        list.reserve(more);
        return Ok(());
    }
    let mut longer = Vec::with_capacity((2 * list.len()).max(list.len() + more));
    for some in list.chunks(STEPS) {
        look()?;
        longer.extend_from_slice(some);
    }
    *list = longer;
    Ok(())
}

/// Does work that [`tick`] may end.
///
/// # Errors
/// Those of the work, and those of [`check`].
pub fn within<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            WATCH.with(|watch| watch.depth.set(watch.depth.get() - 1));
        }
    }
    WATCH.with(|watch| watch.depth.set(watch.depth.get() + 1));
    let less = Less;
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(less);
    done.unwrap_or_else(|panic: Box<dyn Any + Send>| match panic.downcast::<Ended>() {
        Ok(ended) => Err(ended.0),
        Err(panic) => unwind(panic),
    })
}

/// Helper threads, which stop early once the thread they work for has an error.
pub struct Helpers {
    ended: Arc<OnceLock<Error>>,
    working: Sender<()>,
    done: Receiver<()>,
}

/// What a thread needs in order to be one of the [`Helpers`].
pub struct Helper {
    ended: Arc<OnceLock<Error>>,
    _working: Sender<()>,
}

impl Helpers {
    /// None yet.
    #[allow(clippy::new_without_default, reason = "a default suggests a value, and this is a channel")]
    pub fn new() -> Self {
        let (working, done) = channel();
        Self { ended: Arc::default(), working, done }
    }

    /// One more.
    pub fn add(&self) -> Helper {
        Helper { ended: self.ended.clone(), _working: self.working.clone() }
    }

    /// Waits until all are done, and looks meanwhile. If `own`, the work of this thread, has failed, or a look fails,
    /// they stop early.
    ///
    /// # Errors
    /// That of `own`, and those of [`check`].
    pub fn wait<T>(self, own: Result<T>) -> Result<T> {
        let Self { ended, working, done } = self;
        drop(working);
        let mut own = own;
        loop {
            if let Err(error) = &own {
                let _ = ended.set(error.clone());
            }
            // They send nothing: when the last is done, the channel is closed.
            match done.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => own = own.and_then(|own| check().map(|()| own)),
                _ => return own,
            }
        }
    }
}

impl Helper {
    /// Does work on this thread.
    pub fn work<T>(self, work: impl FnOnce() -> T) -> T {
        let outer = knowing((None, None, Some(self.ended.clone()), 0));
        let result = work();
        drop(outer);
        result
    }
}

/// Sorts values of which no two are equal; looks by [`tick`].
pub fn sort_unstable<T: Copy + Ord>(values: &mut [T]) {
    sort(values, &|&value| value, &|piece| piece.sort_unstable());
}

/// Sorts values by a key, in any order where keys are equal; looks by [`tick`]. A few values are sorted by a sort that
/// uses the runs it finds.
pub fn sort_by_key<T: Copy, K: Ord>(values: &mut [T], key: impl Fn(&T) -> K) {
    sort(values, &key, &|piece| piece.sort_by_key(&key));
}

fn sort<T: Copy, K: Ord>(values: &mut [T], key: &impl Fn(&T) -> K, piecewise: &impl Fn(&mut [T])) {
    if values.len() <= PIECE || !is_sorted(values, key) {
        // As deep as if half of the pivots were bad.
        part(values, key, piecewise, 2 * usize::BITS - 2 * values.len().leading_zeros());
    }
}

fn is_sorted<T, K: Ord>(values: &[T], key: &impl Fn(&T) -> K) -> bool {
    // Neighbouring stretches share a value.
    stretches(values.len())
        .all(|some| values[some.start..values.len().min(some.end + 1)].is_sorted_by_key(key))
}

/// Quicksort, down to pieces that the library sorts.
fn part<T: Copy, K: Ord>(
    values: &mut [T],
    key: &impl Fn(&T) -> K,
    piecewise: &impl Fn(&mut [T]),
    depth: u32,
) {
    if values.len() <= PIECE || depth == 0 {
        if values.len() >= STEPS {
            tick();
        }
        return piecewise(values);
    }
    let mut sample: Vec<T> = values.iter().step_by(values.len() / 63).copied().collect();
    sample.sort_unstable_by_key(key);
    let pivot = key(&sample[sample.len() / 2]);
    let before = parted(values, |value| key(value) < pivot);
    if before > 0 {
        part(&mut values[..before], key, piecewise, depth - 1);
        return part(&mut values[before..], key, piecewise, depth - 1);
    }
    // The pivot is the least: all values that equal it come first.
    let equal = parted(values, |value| key(value) <= pivot);
    part(&mut values[equal..], key, piecewise, depth - 1);
}

/// Moves the values for which this holds before the others, without a branch to predict; returns how many these are.
fn parted<T: Copy>(values: &mut [T], holds: impl Fn(&T) -> bool) -> usize {
    let mut before = 0;
    for some in stretches(values.len()) {
        for at in some {
            let value = values[at];
            values.swap(at, before);
            before += usize::from(holds(&value));
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn stop() -> Result<bool> {
        Err(Error::InvalidValue("enough".into()))
    }

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
        let done = watching(stop, || -> Result<()> { Err(until_stopped(check)) });
        assert_eq!(done, Err(Error::InvalidValue("enough".into())));
        // Errors that the work did not hand on are not lost, and are over with it.
        assert!(watching(stop, || Ok(until_stopped(check))).is_err());
        assert_eq!(check(), Ok(()));
        let never = watching(
            || Ok(false),
            || {
                (0..200).try_for_each(|_| {
                    thread::sleep(Duration::from_millis(1));
                    check()
                })
            },
        );
        assert_eq!(never, Ok(()));
    }

    #[test]
    fn ticks_end_what_is_within_and_nothing_else() {
        let ended = watching(stop, || {
            let inner = within(|| {
                Ok(until_stopped(|| {
                    tick();
                    Ok(())
                }))
            });
            assert!(inner.is_err());
            // Nothing surrounds this one.
            tick();
            Ok(())
        });
        assert!(ended.is_err());
        let panic = catch_unwind(|| within(|| -> Result<()> { panic!("another") }));
        assert!(panic.is_err_and(|panic| panic.is::<&str>()));
    }

    #[test]
    fn a_look_may_work_itself() {
        fn nested() -> Result<bool> {
            watching(stop, || -> Result<bool> { Err(until_stopped(check)) }).or(Ok(true))
        }
        let done = watching(nested, || {
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
        assert_eq!(watching(stop, || Ok(helped(|| Ok(())))), Err(error.clone()));
        let seen = RefCell::new(None);
        let _ = watching(stop, || {
            seen.replace(Some(helped(|| Ok(()))));
            Ok(())
        });
        assert_eq!(seen.into_inner(), Some((Err(error.clone()), vec![error; 3])));
        let none = Helpers::new();
        assert_eq!(none.wait(Ok(3)), Ok(3));
    }

    #[test]
    fn values_are_sorted_however_they_come() {
        let many = 2 * PIECE as u64 + 17;
        let noise = |at: u64| (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let orders: [&dyn Fn(u64) -> u64; 6] =
            [&noise, &|at| at, &|at| many - at, &|_| 7, &|at| noise(at) % 3, &|at| {
                if at % 2 == 0 { at } else { 0 }
            }];
        for order in orders {
            let mut values: Vec<(u64, u64)> = (0..many).map(|at| (order(at), at)).collect();
            let mut wanted = values.clone();
            let mut by_key = values.clone();
            sort_unstable(&mut values);
            sort_by_key(&mut by_key, |value| value.0);
            wanted.sort();
            assert!(values == wanted);
            assert!(by_key.is_sorted_by_key(|value| value.0));
            by_key.sort();
            assert!(by_key == wanted);
        }
        // Bad pivots make it no quadratic sort.
        let mut values: Vec<u64> = (0..many).map(noise).collect();
        part(&mut values, &|&value| value, &|piece: &mut [u64]| piece.sort_unstable(), 0);
        assert!(values.is_sorted());
    }
}
