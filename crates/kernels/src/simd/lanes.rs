//! The vectors of the kernels: 64 bytes of one element type, whatever the registers of the machine.

use std::mem::MaybeUninit;
use std::simd::Swizzle;
use std::simd::prelude::*;

/// Rotates the concatenation of two vectors down by `K` lanes.
struct Shift<const K: usize>;

impl<const K: usize, const N: usize> Swizzle<N> for Shift<K> {
    const INDEX: [usize; N] = {
        let mut index = [0; N];
        let mut i = 0;
        while i < N {
            index[i] = i + K;
            i += 1;
        }
        index
    };
}

/// A signed integer that order-preserving keys are made of.
pub(super) trait Key:
    Copy + Ord + Into<i64> + Send + Sync + Default + std::fmt::Debug + 'static
{
    /// 64 bytes of it.
    type Vector: Lanes<Key = Self>;
    /// The greatest.
    const MAX: Self;
    /// All bits the other way, and so the reverse of the order.
    fn not(self) -> Self;
    /// The key in the order of values, as [`Lanes::enter`] and a xor make it, but for floats with one NaN and one zero.
    fn ordered(self, float: bool, flip: Self, nans: Self) -> Self;
}

/// A vector of [`Key`]s.
pub(super) trait Lanes: Copy + 'static {
    type Key: Key<Vector = Self>;
    /// Keys in a vector.
    const LEN: usize;
    fn splat(key: Self::Key) -> Self;
    /// Reads the first [`Self::LEN`] keys.
    fn load(keys: &[Self::Key]) -> Self;
    /// Writes the first [`Self::LEN`] keys.
    fn store(self, room: &mut [MaybeUninit<Self::Key>]);
    /// Writes the first [`Self::LEN`] keys over others.
    fn save(self, room: &mut [Self::Key]);
    fn lesser(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Bits of a float to a key of the same order, with every NaN above infinity; `nans` is the number of bit patterns
    /// of negative NaNs. The order of bits of positive floats is that of integers, of negative ones its reverse; then
    /// negative NaNs, which would come first, are turned around to the end.
    fn enter(self, nans: Self) -> Self;
    /// The inverse of `enter`.
    fn leave(self, nans: Self) -> Self;
    /// The least lane.
    fn least(self) -> Self::Key;
    /// Lane `i` of the answer is the least of [`Self::LEN`] keys from lane `i` of `self` on, which goes on in the vector
    /// that `after` stands for: the answers' partial results for 1, 2, 4, ... keys from each of its lanes on. Leaves
    /// those of `self` in `after`.
    fn runs(self, after: &mut [Self; 6]) -> Self;
    /// The keys whose bit is 1, `other` elsewhere; bit `i` is lane `i`.
    fn select(self, bits: u64, other: Self) -> Self;
}

macro_rules! lanes {
    ($key:ty, $len:literal, [$($i:literal: $step:literal),*]) => {
        impl Key for $key {
            type Vector = Simd<$key, $len>;
            const MAX: Self = <$key>::MAX;
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn ordered(self, float: bool, flip: Self, nans: Self) -> Self {
                let mut key = self;
                if float {
                    let infinity = <$key>::MAX - nans;
                    let nan = key & <$key>::MAX > infinity;
                    key = if nan { <$key>::MAX } else if key == <$key>::MIN { 0 } else { key };
                    key = (key ^ ((key >> (<$key>::BITS - 1)) & <$key>::MAX)).wrapping_sub(nans);
                }
                key ^ flip
            }
        }

        impl Lanes for Simd<$key, $len> {
            type Key = $key;
            const LEN: usize = $len;
            #[inline(always)]
            fn splat(key: $key) -> Self {
                Simd::splat(key)
            }
            #[inline(always)]
            fn load(keys: &[$key]) -> Self {
                Simd::from_slice(&keys[..$len])
            }
            #[inline(always)]
            fn store(self, room: &mut [MaybeUninit<$key>]) {
                let room = &mut room[..$len];
                // SAFETY: `room` is `$len` keys long, as checked above, and may be written in full; a vector has no
                // padding, so its bytes are those of its keys; the write needs no alignment.
                unsafe { room.as_mut_ptr().cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            fn save(self, room: &mut [$key]) {
                self.copy_to_slice(&mut room[..$len]);
            }
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                self.simd_min(other)
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn enter(self, nans: Self) -> Self {
                (self ^ ((self >> Simd::splat(<$key>::BITS as $key - 1)) & Simd::splat(<$key>::MAX))) - nans
            }
            #[inline(always)]
            fn leave(self, nans: Self) -> Self {
                let key = self + nans;
                key ^ ((key >> Simd::splat(<$key>::BITS as $key - 1)) & Simd::splat(<$key>::MAX))
            }
            #[inline(always)]
            fn least(self) -> $key {
                self.reduce_min()
            }
            #[inline(always)]
            fn runs(self, after: &mut [Self; 6]) -> Self {
                let mut run = self;
                $(
                    let part = run;
                    run = run.simd_min(Shift::<$step>::concat_swizzle(run, after[$i]));
                    after[$i] = part;
                )*
                run
            }
            #[inline(always)]
            fn select(self, bits: u64, other: Self) -> Self {
                Mask::<$key, $len>::from_bitmask(bits).select(self, other)
            }
        }
    };
}

lanes!(i8, 64, [0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32]);
lanes!(i16, 32, [0: 1, 1: 2, 2: 4, 3: 8, 4: 16]);
lanes!(i32, 16, [0: 1, 1: 2, 2: 4, 3: 8]);
lanes!(i64, 8, [0: 1, 1: 2, 2: 4]);

/// Vectors as the keys they hold, for reads that no vector starts at.
#[inline(always)]
pub(super) fn keys<V: Lanes>(vectors: &[V]) -> &[V::Key] {
    const { assert!(size_of::<V>() == V::LEN * size_of::<V::Key>()) };
    // SAFETY: a vector is `LEN` keys without padding, as checked above, and no less aligned than a key, so the same bytes, borrowed for as
    // long, are `LEN` times as many keys; every bit pattern is a key.
    unsafe { std::slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len() * V::LEN) }
}
