//! What happens where there is no memory: a panic, which becomes an error as all panics do on their way out.
//!
//! To unwind takes memory, too, and so does what surrounds work: arguments, and the error itself. An allocator that stands
//! before the real one ([`Reserve`]) has some left for it.

mod remapped;
mod reserve;

use std::alloc::{Layout, System, set_alloc_error_hook};
use std::any::Any;
use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::{Error, Result};
pub use remapped::Remapped;
pub use reserve::Reserve;

/// The payload of the panic with which an allocation of this many bytes fails, once [`unwind_without`] was called.
#[derive(Debug, Clone, Copy)]
pub struct OutOfMemory(pub usize);

thread_local! {
    /// Whether this thread is in work whose panics are caught, and none of its allocations has failed yet.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Makes failed allocations of this process unwind rather than abort: a worker with limited memory should report that
/// it ran out of memory.
pub fn unwind_without() {
    // While hooks are replaced, one that needs memory is in force.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_alloc_error_hook(|layout: Layout| {
            IS_CAUGHT.set(false);
            panic_any(OutOfMemory(layout.size()))
        });
        // Printing that, as panics do, would need memory.
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !panic.payload().is::<OutOfMemory>() {
                others(panic);
            }
        }));
    });
}

/// Address space that must be free for a thread. More than the C library ever takes from what it holds already: it must
/// be new, as new threads do not share what others hold.
const PER_THREAD: usize = 64 << 20;

/// Whether a thread may be started: the C library ends the process if it lacks the memory for what is local to one.
pub fn has_room_for_thread() -> bool {
    // In a black box, as the compiler would leave out what nobody uses.
    black_box(Vec::<u8, System>::try_with_capacity_in(PER_THREAD, System)).is_ok()
}

/// Unwinds on, or from here, whatever memory there is.
pub fn unwind(panic: Box<dyn Any + Send>) -> ! {
    IS_CAUGHT.set(false);
    resume_unwind(panic)
}

/// Does work that cannot be rolled back: its small allocations come from the reserve if there is no other memory.
pub fn spared<T>(work: impl FnOnce() -> T) -> T {
    let around = IS_CAUGHT.replace(false);
    let done = work();
    IS_CAUGHT.set(around);
    done
}

/// Runs `work`; a panic in it becomes an error. Needed wherever Python, or the C stream, would be the caller.
///
/// # Errors
/// As `work`; `Memory` where an allocation failed; `Internal` for any other panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let around = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)));
    IS_CAUGHT.set(around);
    done
}

/// Runs a step whose changes are rolled back if it fails: a failed allocation, which may come anywhere, becomes an error.
/// Other panics are defects, which say nothing of the state, and go on.
///
/// # Errors
/// As `work`; `Memory` where an allocation failed.
pub fn attempted<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        if !panic.is::<OutOfMemory>() {
            unwind(panic);
        }
        Err(of_panic(&*panic))
    })
}

/// The error for a panic.
pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
    if let Some(OutOfMemory(bytes)) = panic.downcast_ref() {
        return Error::Memory(format!("an allocation of {bytes} bytes failed"));
    }
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    Error::Internal(format!(
        "a defect of windowkit, please report it: {}",
        text.unwrap_or("panic without a message")
    ))
}

/// Takes a value out of its owner while `work` uses both, and puts it back, also if that panics.
pub fn lent<O, T: Default, R>(
    owner: &mut O,
    place: impl Fn(&mut O) -> &mut T,
    work: impl FnOnce(&mut O, &mut T) -> R,
) -> R {
    let mut own = std::mem::take(place(owner));
    let done = catch_unwind(AssertUnwindSafe(|| work(owner, &mut own)));
    *place(owner) = own;
    done.unwrap_or_else(|panic| unwind(panic))
}
