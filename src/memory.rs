//! What happens where there is no memory: a panic, which becomes an error as all panics do on their way out.

use std::alloc::{Layout, set_alloc_error_hook};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook, take_hook};
use std::sync::Mutex;

use crate::{Error, Result};

/// The payload of the panic with which an allocation of this many bytes fails, once [`unwind_without`] was called.
#[derive(Debug, Clone, Copy)]
pub struct OutOfMemory(pub usize);

/// Memory reserved for unwinding, freed when there is no other.
static RESERVE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
const RESERVED: usize = 1 << 20;

/// Makes failed allocations of this process unwind rather than abort: a worker with limited memory should report that
/// it ran out of memory.
pub fn unwind_without() {
    reserve();
    set_alloc_error_hook(|layout: Layout| {
        if let Ok(mut reserved) = RESERVE.try_lock() {
            *reserved = Vec::new();
        }
        panic_any(OutOfMemory(layout.size()))
    });
    // Printing that, as panics do, would need memory.
    let others = take_hook();
    set_hook(Box::new(move |panic| {
        if !panic.payload().is::<OutOfMemory>() {
            others(panic);
        }
    }));
}

/// Reserves the memory, if it is available and not reserved yet.
fn reserve() {
    if let Ok(mut reserved) = RESERVE.try_lock()
        && reserved.capacity() == 0
    {
        // Without it, unwinding may find no memory and abort: no worse than not trying.
        let _ = reserved.try_reserve_exact(RESERVED);
    }
}

/// Runs `work`; a panic in it becomes an error. Needed wherever Python, or the C stream, would be the caller.
///
/// # Errors
/// Those of `work`; `Memory` where an allocation failed; `Internal` for any other panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// The error for a panic.
pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
    if let Some(OutOfMemory(bytes)) = panic.downcast_ref() {
        reserve();
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
pub(crate) fn lent<O, T: Default, R>(
    owner: &mut O,
    place: impl Fn(&mut O) -> &mut T,
    work: impl FnOnce(&mut O, &mut T) -> R,
) -> R {
    let mut own = std::mem::take(place(owner));
    let done = catch_unwind(AssertUnwindSafe(|| work(owner, &mut own)));
    *place(owner) = own;
    done.unwrap_or_else(|panic| resume_unwind(panic))
}
