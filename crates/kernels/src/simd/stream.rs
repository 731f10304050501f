//! How kernels read values and write answers: tile by tile, so that types, nulls and the edges of a column are handled
//! once per tile and not in the loops.

use super::Validity;
use super::lanes::{Key, Lanes};
use super::level::{Kernel, dispatch};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Where a kernel reads.
pub(super) trait Source<K> {
    /// The `len` values from position `start` on, in `scratch` if they are not in memory in the required form. Values
    /// past the column's end, and nulls, are the identity of the kernel's function.
    fn tile<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<K>) -> &'s [K];
    /// Hints that these values will be read soon.
    fn expect(&self, start: usize, len: usize);
}

/// Prefetches all cache lines of `values` at once. Kernels that go through a tile backwards and do little work per
/// value need it: processors only predict reads that continue in one direction.
#[inline]
pub(super) fn prefetch<T>(values: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in values.chunks(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = values;
}

/// Prefetches the cache line of `values[at]`, which may lie past their end, but not into the first-level cache, which
/// is full of data in use. Spread over the loops of a kernel that does much work per value.
#[inline(always)]
pub(super) fn ahead<T>(values: &[T], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: any address may be prefetched, with no effect on memory, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (values, at);
}

/// Where a kernel writes.
pub(super) trait Sink<K> {
    /// Room for the answers of the next windows: `len` values or more.
    fn room(&mut self, len: usize) -> &mut [MaybeUninit<K>];
    /// Takes the answers of the next `windows` windows from the room.
    ///
    /// # Safety
    /// The first `windows` values of the last room have been written.
    unsafe fn commit(&mut self, windows: usize);
}

/// A column whose nulls are replaced by another value.
pub(super) struct Values<'a, K> {
    pub keys: &'a [K],
    pub validity: Option<Validity<'a>>,
    pub fill: K,
}

impl<K: Key> Source<K> for Values<'_, K> {
    fn tile<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<K>) -> &'s [K] {
        let inside = self.keys.len().saturating_sub(start).min(len);
        if self.validity.is_none() && inside == len {
            return &self.keys[start..start + len];
        }
        // Longer scratch is kept as it is: only its length would be written twice.
        if scratch.len() < len {
            scratch.resize(len, self.fill);
        }
        let scratch = &mut scratch[..len];
        let (there, beyond) = scratch.split_at_mut(inside);
        beyond.fill(self.fill);
        if inside > 0 {
            let keys = &self.keys[start..start + inside];
            match self.validity {
                None => there.copy_from_slice(keys),
                Some(validity) => {
                    dispatch(Fill { keys, validity: validity.skip(start), fill: self.fill, into: there });
                }
            }
        }
        scratch
    }

    fn expect(&self, start: usize, len: usize) {
        let start = start.min(self.keys.len());
        prefetch(&self.keys[start..self.keys.len().min(start + len)]);
    }
}

/// Copies keys, and `fill` in the place of nulls.
pub(super) struct Fill<'a, K> {
    pub keys: &'a [K],
    pub validity: Validity<'a>,
    pub fill: K,
    pub into: &'a mut [K],
}

impl<K: Key> Kernel for Fill<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let len = <K::Vector as Lanes>::LEN;
        let fill = K::Vector::splat(self.fill);
        let whole = self.keys.len() / len * len;
        let mut i = 0;
        while i < whole {
            let keys = K::Vector::load(&self.keys[i..i + len]);
            keys.select(self.validity.word(i), fill).save(&mut self.into[i..i + len]);
            i += len;
        }
        while i < self.keys.len() {
            self.into[i] = if self.validity.get(i) { self.keys[i] } else { self.fill };
            i += 1;
        }
    }
}

/// The end of a vector, of a type of the key's layout.
pub(super) struct Append<'a, T, K> {
    out: &'a mut Vec<T>,
    key: PhantomData<K>,
}

impl<'a, T, K> Append<'a, T, K> {
    /// `windows` answers are expected; `slack` more values may be written after them.
    pub(super) fn new(out: &'a mut Vec<T>, windows: usize, slack: usize) -> Self {
        const { assert!(size_of::<T>() == size_of::<K>() && align_of::<T>() == align_of::<K>()) };
        super::pages::reserve(out, windows + slack);
        Self { out, key: PhantomData }
    }
}

impl<T: super::Element<Key = K>, K: Key> Sink<K> for Append<'_, T, K> {
    fn room(&mut self, len: usize) -> &mut [MaybeUninit<K>] {
        self.out.reserve(len);
        let room = self.out.spare_capacity_mut();
        // SAFETY: the two types have one size and alignment, as `new` makes sure, and both may be uninitialised here.
        unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), room.len()) }
    }

    unsafe fn commit(&mut self, windows: usize) {
        // SAFETY: the caller has written that many values of the spare capacity; they are keys, every bit pattern of
        // which is an element.
        unsafe { self.out.set_len(self.out.len() + windows) }
    }
}
