//! Memory that is set aside for errors of memory: to raise one takes a few small allocations, which must not fail as well.
//!
//! | | |
//! |---|---|
//! | needs | an allocator to stand before |
//! | time | a comparison per freed allocation |
//! | space | 4 MiB of addresses, of which what is used takes memory |

#![allow(unsafe_code, reason = "an allocator is written in no other way")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::IS_CAUGHT;
use super::remapped::moved;

/// Bytes of a slot; a multiple of [`ALIGN`]. What unwinding needs is smaller, and so are the arguments of most calls.
const SLOT: usize = 16 << 10;
const ALIGN: usize = 16;
const WORDS: usize = 4;
const PER_WORD: usize = u64::BITS as usize;

/// An allocator that has something left when it fails, but for work whose panics are caught.
pub struct Reserve<A> {
    inner: A,
    slots: Slots,
    /// A bit for each slot: whether it is in use.
    used: [AtomicU64; WORDS],
}

#[repr(align(16))]
struct Slots(UnsafeCell<[u8; SLOT * WORDS * PER_WORD]>);

// SAFETY: the bytes are never read or written here; each slot is handed out to one caller at a time, by the bits of
// `used`.
unsafe impl Sync for Slots {}

impl<A> Reserve<A> {
    /// Stands before another allocator.
    pub const fn before(inner: A) -> Self {
        let slots = Slots(UnsafeCell::new([0; SLOT * WORDS * PER_WORD]));
        Self { inner, slots, used: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// A slot if the allocation must not fail and is small; null otherwise.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        if IS_CAUGHT.get() || layout.size() > SLOT || layout.align() > ALIGN {
            return ptr::null_mut();
        }
        for (word, bits) in self.used.iter().enumerate() {
            let took = bits.fetch_update(Ordering::Acquire, Ordering::Relaxed, |bits| {
                (bits != u64::MAX).then(|| bits | 1 << bits.trailing_ones())
            });
            if let Ok(before) = took {
                let slot = word * PER_WORD + before.trailing_ones() as usize;
                return self.slots.0.get().cast::<u8>().wrapping_add(slot * SLOT);
            }
        }
        ptr::null_mut()
    }

    /// The slot that begins here; none if the memory is not of the reserve.
    #[inline]
    fn slot(&self, at: *mut u8) -> Option<usize> {
        let offset = at.addr().wrapping_sub(self.slots.0.get().addr());
        (offset < SLOT * WORDS * PER_WORD).then_some(offset / SLOT)
    }

    #[cold]
    fn give_back(&self, slot: usize) {
        self.used[slot / PER_WORD].fetch_and(!(1 << (slot % PER_WORD)), Ordering::Release);
    }
}

// SAFETY: memory is the inner allocator's, with the same arguments, or a slot: 16 kB of a static array, aligned to 16
// as the array is, which nobody else has until it is freed. `slot` tells them apart by their addresses.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserve<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the inner allocator asks for.
        let at = unsafe { self.inner.alloc(layout) };
        if at.is_null() { self.take(layout) } else { at }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let at = unsafe { self.inner.alloc_zeroed(layout) };
        if !at.is_null() {
            return at;
        }
        let at = self.take(layout);
        if !at.is_null() {
            // SAFETY: a slot is at least as long as the layout, and this caller's alone.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        at
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match self.slot(at) {
            Some(slot) => self.give_back(slot),
            // SAFETY: it is not of the reserve, so the inner allocator has allocated it, with this layout.
            None => unsafe { self.inner.dealloc(at, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let slot = self.slot(at);
        if slot.is_none() {
            // SAFETY: as for `dealloc`; the caller promises the same of `size` as the inner allocator asks for.
            let new = unsafe { self.inner.realloc(at, layout, size) };
            if !new.is_null() || IS_CAUGHT.get() {
                return new;
            }
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not overflow, and is not 0.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        // SAFETY: the new block is this call's alone, and the old one is freed with its layout once it has been copied.
        unsafe { moved(at, layout, new, size, || self.dealloc(at, layout)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::collections::HashSet;

    /// Has nothing.
    struct Empty;

    // SAFETY: null says that there is no memory; so nothing is ever freed.
    unsafe impl GlobalAlloc for Empty {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            ptr::null_mut()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
            unreachable!("nothing was allocated");
        }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a layout")
    }

    #[test]
    fn all_slots_are_handed_out_once_and_again_when_freed() {
        static RESERVE: Reserve<Empty> = Reserve::before(Empty);
        let reserve = &RESERVE;
        // SAFETY: sizes are not 0; what is freed was allocated here, with the same layout, and only once.
        unsafe {
            IS_CAUGHT.set(true);
            assert!(reserve.alloc(layout(8)).is_null(), "it may fail");
            IS_CAUGHT.set(false);
            assert!(reserve.alloc(layout(SLOT + 1)).is_null());
            for _ in 0..2 {
                let all: Vec<_> = (0..WORDS * PER_WORD).map(|_| reserve.alloc_zeroed(layout(SLOT))).collect();
                assert!(all.iter().all(|at| !at.is_null() && at.addr() % ALIGN == 0));
                assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
                assert!(reserve.alloc(layout(8)).is_null());
                for (at, byte) in all.iter().zip(0..=u8::MAX) {
                    at.write_bytes(byte, SLOT);
                }
                assert!(
                    all.iter()
                        .zip(0..=u8::MAX)
                        .all(|(at, byte)| [0, 1, SLOT / 2, SLOT - 1].iter().all(|&i| *at.add(i) == byte))
                );
                all.iter().for_each(|&at| reserve.dealloc(at, layout(SLOT)));
            }
        }
    }

    #[test]
    fn slots_grow_where_there_is_room_and_keep_their_contents() {
        static BEFORE_SYSTEM: Reserve<System> = Reserve::before(System);
        static BEFORE_NOTHING: Reserve<Empty> = Reserve::before(Empty);
        let (reserve, empty) = (&BEFORE_SYSTEM, &BEFORE_NOTHING);
        // SAFETY: as above.
        unsafe {
            let slot = empty.alloc(layout(4));
            slot.write_bytes(7, 4);
            let moved = empty.realloc(slot, layout(4), 200);
            assert!(!moved.is_null() && moved != slot);
            assert!((0..4).all(|i| *moved.add(i) == 7));
            assert!(empty.realloc(moved, layout(200), SLOT + 1).is_null());
            empty.dealloc(moved, layout(200));
            let plain = reserve.realloc(reserve.alloc(layout(8)), layout(8), 1000);
            assert!(reserve.slot(plain).is_none());
            reserve.dealloc(plain, layout(1000));
        }
    }
}
