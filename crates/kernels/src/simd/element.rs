//! The element types of the kernels: all integer and float types of Arrow.

use super::lanes::Key;
use std::simd::Simd;
use std::simd::num::{SimdFloat, SimdInt, SimdUint};

mod sealed {
    use super::super::lanes;

    use std::simd::Simd;

    /// The operations the kernels need on an element type.
    pub trait Sealed: Sized {
        /// The signed integer of the same width.
        #[expect(private_bounds, reason = "a sealed trait is not for others to see")]
        type Key: lanes::Key;
        /// Whether this is a float.
        const FLOAT: bool;
        /// Whether there are values below 0.
        const SIGNED: bool;
        /// The key that, xored with keys, makes their order that of values: for unsigned integers.
        const FLIP: Self::Key;
        /// The number of bit patterns of negative NaNs; 0 for integers.
        const NANS: Self::Key;
        /// The bits as a key.
        fn key(self) -> Self::Key;
        /// The exact value of an integer.
        fn to_i128(self) -> i128;
        /// The first eight values as the nearest `f64`.
        fn row(values: &[Self]) -> Simd<f64, 8>;
        /// The first eight values as 64-bit integers, unsigned ones wrapped; 0 for floats.
        fn wide(values: &[Self]) -> Simd<i64, 8>;
        /// The values as they are, if this is `f64`.
        fn as_f64(_values: &[Self]) -> Option<&[f64]> {
            None
        }
    }
}

pub(super) use sealed::Sealed;

/// An element type: `i8` to `i64`, `u8` to `u64`, `f32`, `f64`. Sealed.
pub trait Element: Sealed + Copy + Send + Sync + PartialOrd + std::fmt::Debug + 'static {
    /// What values add up to: `i64`, `u64` or `f64`.
    type Sum: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static;
    /// The greatest value, which is NaN for floats: the minimum of no values.
    const GREATEST: Self;
    /// The least value: the maximum of no values.
    const LEAST: Self;
    /// The lesser of two values; NaN is the greatest.
    fn lesser(self, other: Self) -> Self;
    /// The greater of two values; NaN is the greatest.
    fn greater(self, other: Self) -> Self;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    /// The sum of integers that is `exact`, if it fits.
    #[doc(hidden)]
    fn narrow(exact: i128) -> Option<Self::Sum>;
    /// The sum of integers with these bits.
    #[doc(hidden)]
    fn from_bits(bits: i64) -> Self::Sum;
    /// Sums of floats as what they are.
    #[doc(hidden)]
    fn floats(_sums: &mut Vec<Self::Sum>) -> Option<&mut Vec<f64>> {
        None
    }
}

/// Elements as the keys of their bits.
#[inline(always)]
pub(super) fn keys<T: Element>(values: &[T]) -> &[T::Key] {
    const { assert!(size_of::<T>() == size_of::<T::Key>() && align_of::<T>() == align_of::<T::Key>()) };
    // SAFETY: size and alignment are one, as checked above; elements are initialised, and any bits are a key.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// The inverse of [`keys`].
#[inline(always)]
pub(super) fn elements<T: Element>(keys: &[T::Key]) -> &[T] {
    const { assert!(size_of::<T>() == size_of::<T::Key>() && align_of::<T>() == align_of::<T::Key>()) };
    // SAFETY: as in `keys`; any bits are an integer or a float.
    unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), keys.len()) }
}

macro_rules! integers {
    ($($t:ty: $key:ty, $sum:ty);*) => { $(
        impl Sealed for $t {
            type Key = $key;
            const FLOAT: bool = false;
            const SIGNED: bool = <$t>::MIN != 0;
            const FLIP: $key = <$t>::MIN as $key ^ <$key>::MIN;
            const NANS: $key = 0;
            #[inline(always)]
            fn key(self) -> $key { self as $key }
            #[inline(always)]
            fn to_i128(self) -> i128 { i128::from(self) }
            #[inline(always)]
            fn row(values: &[Self]) -> Simd<f64, 8> { Simd::<$t, 8>::from_slice(values).cast() }
            #[inline(always)]
            fn wide(values: &[Self]) -> Simd<i64, 8> { Simd::<$t, 8>::from_slice(values).cast() }
        }
        impl Element for $t {
            type Sum = $sum;
            const GREATEST: Self = <$t>::MAX;
            const LEAST: Self = <$t>::MIN;
            #[inline(always)]
            fn lesser(self, other: Self) -> Self { self.min(other) }
            #[inline(always)]
            fn greater(self, other: Self) -> Self { self.max(other) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            fn narrow(exact: i128) -> Option<$sum> { exact.try_into().ok() }
            #[inline(always)]
            fn from_bits(bits: i64) -> $sum { bits as $sum }
        }
    )* };
}
integers!(
    i8: i8, i64; i16: i16, i64; i32: i32, i64; i64: i64, i64;
    u8: i8, u64; u16: i16, u64; u32: i32, u64; u64: i64, u64
);

macro_rules! floats {
    ($($t:ty: $key:ty, $as_f64:expr);*) => { $(
        impl Sealed for $t {
            type Key = $key;
            const FLOAT: bool = true;
            const SIGNED: bool = true;
            const FLIP: $key = 0;
            const NANS: $key = (1 << (<$t>::MANTISSA_DIGITS - 1)) - 1;
            #[inline(always)]
            fn key(self) -> $key { self.to_bits() as $key }
            fn to_i128(self) -> i128 { 0 }
            #[inline(always)]
            fn row(values: &[Self]) -> Simd<f64, 8> { Simd::<$t, 8>::from_slice(values).cast() }
            #[inline(always)]
            fn wide(_: &[Self]) -> Simd<i64, 8> { Simd::splat(0) }
            fn as_f64(values: &[Self]) -> Option<&[f64]> { $as_f64(values) }
        }
        impl Element for $t {
            type Sum = f64;
            const GREATEST: Self = <$t>::NAN;
            const LEAST: Self = <$t>::NEG_INFINITY;
            // A comparison with NaN is false, so each picks as if NaN were the greatest.
            #[inline(always)]
            fn lesser(self, other: Self) -> Self { if other < self || self.is_nan() { other } else { self } }
            #[inline(always)]
            fn greater(self, other: Self) -> Self { if other > self || other.is_nan() { other } else { self } }
            #[inline(always)]
            fn to_f64(self) -> f64 { f64::from(self) }
            fn narrow(_: i128) -> Option<f64> { None }
            fn from_bits(_: i64) -> f64 { 0.0 }
            fn floats(sums: &mut Vec<f64>) -> Option<&mut Vec<f64>> { Some(sums) }
        }
    )* };
}
floats!(f32: i32, |_| None; f64: i64, Some);

/// How the bits of elements become keys such that the wanted value has the least key: minima and maxima of all types
/// are minima of four key types.
#[derive(Clone, Copy)]
pub(super) struct Order<K> {
    /// Xored last: turns the order around for a maximum.
    pub flip: K,
    /// See [`Sealed::NANS`].
    pub nans: K,
}

impl<K: Key> Order<K> {
    pub(super) fn least<T: Element<Key = K>>() -> Self {
        Self { flip: T::FLIP, nans: T::NANS }
    }

    pub(super) fn greatest<T: Element<Key = K>>() -> Self {
        Self { flip: T::FLIP.not(), nans: T::NANS }
    }
}
