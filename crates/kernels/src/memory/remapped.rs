//! Large blocks that grow without being copied.
//!
//! | | |
//! |---|---|
//! | needs | an allocator for all other blocks |
//! | time | a comparison per allocation; a block that has grown large grows on in the time that its new pages take |
//! | space | none of its own |
//!
//! While a block of hundreds of megabytes is copied, a call notices no interrupt. So a block that grows beyond some size is
//! moved to the system's allocator once, which from then on moves its pages to other addresses instead. Blocks that begin
//! as large stay with the other allocator, which may have pages for them from before; for the same reason, smaller ones do.

#![allow(unsafe_code, reason = "an allocator is written in no other way")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks of the system's at a time; more than these grow as others do.
const MOST: usize = 64;

/// Alignment up to which systems grow a block in place or by its pages.
const ALIGN: usize = 16;

/// An entry that is not in use, and one whose block is being moved. No block begins at either address.
const FREE: usize = 0;
const MOVING: usize = 1;

/// An allocator that leaves blocks that have grown large to the system.
pub struct Remapped<A> {
    inner: A,
    /// Bytes from which on a block that grows is the system's.
    large: usize,
    /// The addresses of the system's blocks.
    grown: [AtomicUsize; MOST],
}

impl<A> Remapped<A> {
    /// Stands before another allocator, for blocks that grow to so many bytes.
    pub const fn before(inner: A, large: usize) -> Self {
        Self { inner, large, grown: [const { AtomicUsize::new(FREE) }; MOST] }
    }

    /// The entry of a block of this layout, if it is the system's.
    #[inline]
    fn entry(&self, at: *mut u8, layout: Layout) -> Option<&AtomicUsize> {
        if layout.size() < self.large {
            return None;
        }
        // Whoever asks owns the block, so that its entry does not change meanwhile.
        self.grown.iter().find(|entry| entry.load(Ordering::Acquire) == at.addr())
    }

    /// An entry for one more block, if there is one.
    fn claim(&self) -> Option<&AtomicUsize> {
        let claims = |entry: &&AtomicUsize| {
            entry.compare_exchange(FREE, MOVING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.grown.iter().find(claims)
    }
}

/// Moves a block to memory of another allocator, which may be null: then it stays where it is.
///
/// # Safety
/// The block is valid for its layout, and `new`, unless it is null, for `size` bytes, which nobody else uses; `free` frees the
/// block.
pub(super) unsafe fn moved(
    at: *mut u8,
    layout: Layout,
    new: *mut u8,
    size: usize,
    free: impl FnOnce(),
) -> *mut u8 {
    if !new.is_null() {
        // SAFETY: both are valid for the lesser of their sizes, and apart, as both are allocated.
        unsafe { new.copy_from_nonoverlapping(at, layout.size().min(size)) };
        free();
    }
    new
}

// SAFETY: a block is the system's if `grown` has its address, and otherwise the inner allocator's, and is freed by the one whose it
// is. An entry is taken out of use before its block is freed or moved, so that no block that another thread is given at
// the same address finds it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Remapped<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the inner allocator asks for.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match self.entry(at, layout) {
            Some(entry) => {
                entry.store(FREE, Ordering::Release);
                // SAFETY: it is the system's, and was allocated with this layout.
                unsafe { System.dealloc(at, layout) }
            }
            // SAFETY: it is the inner allocator's, and was allocated with this layout.
            None => unsafe { self.inner.dealloc(at, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < self.large {
            // SAFETY: blocks of this size are the inner allocator's; the caller promises what that asks for.
            return unsafe { self.inner.realloc(at, layout, size) };
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, does not overflow, and is not 0.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let grows = size > layout.size() && size >= self.large && layout.align() <= ALIGN;
        match self.entry(at, layout) {
            Some(entry) if size >= self.large => {
                entry.store(MOVING, Ordering::Release);
                // SAFETY: it is the system's, with this layout; the caller promises of `size` what the system asks for.
                let moved = unsafe { System.realloc(at, layout, size) };
                entry.store(if moved.is_null() { at } else { moved }.addr(), Ordering::Release);
                moved
            }
            // SAFETY: the new block is this call's alone, and the old one is freed once it has been copied.
            Some(_) => unsafe { moved(at, layout, self.inner.alloc(new), size, || self.dealloc(at, layout)) },
            None => match grows.then(|| self.claim()).flatten() {
                // SAFETY: the caller promises what the inner allocator asks for.
                None => unsafe { self.inner.realloc(at, layout, size) },
                Some(entry) => {
                    // SAFETY: as above; the old block is the inner allocator's.
                    let new = unsafe {
                        moved(at, layout, System.alloc(new), size, || self.inner.dealloc(at, layout))
                    };
                    entry.store(new.addr(), Ordering::Release);
                    new
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 16 << 10;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn blocks_keep_their_contents_however_they_grow_and_shrink() {
        static ALLOCATOR: Remapped<System> = Remapped::before(System, LARGE);
        let grown = || ALLOCATOR.grown.iter().filter(|entry| entry.load(Ordering::Relaxed) != FREE).count();
        for align in [8, 64] {
            // SAFETY: sizes are not 0; what is freed was allocated here, with the same layout, and only once.
            unsafe {
                let mut size = LARGE / 4;
                let mut at = ALLOCATOR.alloc(layout(size, align));
                let mut known = Vec::new();
                for next in [LARGE / 2, LARGE, 2 * LARGE, 3 * LARGE, 2 * LARGE, LARGE / 2, 2 * LARGE, LARGE] {
                    known.retain(|&(place, _)| place < size);
                    for place in [0, size / 3, size - 1] {
                        at.add(place).write((place % 251) as u8);
                        known.push((place, (place % 251) as u8));
                    }
                    at = ALLOCATOR.realloc(at, layout(size, align), next);
                    size = next;
                    assert!(!at.is_null() && at.addr().is_multiple_of(align));
                    let kept = known.iter().filter(|&&(place, _)| place < size);
                    kept.for_each(|&(place, byte)| assert_eq!(at.add(place).read(), byte));
                    assert_eq!(grown(), usize::from(size >= LARGE && align <= ALIGN));
                }
                ALLOCATOR.dealloc(at, layout(size, align));
                assert_eq!(grown(), 0);
            }
        }
    }

    #[test]
    fn more_blocks_than_entries_grow_as_others_do() {
        static ALLOCATOR: Remapped<System> = Remapped::before(System, LARGE);
        // SAFETY: as above.
        unsafe {
            let grow = |byte: u8| {
                let at = ALLOCATOR.alloc(layout(8, 8));
                at.write(byte);
                ALLOCATOR.realloc(at, layout(8, 8), LARGE)
            };
            let all: Vec<_> = (0..MOST as u8 + 3).map(grow).collect();
            assert!(all.iter().zip(0u8..).all(|(at, byte)| !at.is_null() && at.read() == byte));
            all.iter().for_each(|&at| ALLOCATOR.dealloc(at, layout(LARGE, 8)));
            assert!(ALLOCATOR.grown.iter().all(|entry| entry.load(Ordering::Relaxed) == FREE));
        }
    }
}
