//! The element types of the kernels: all integers and floats that Arrow has.

mod sealed {
    pub trait Sealed {}
}

/// A sum by its type: exact in 128 bits or compensated, then narrowed.
#[doc(hidden)]
pub trait Total: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static {}
impl Total for i64 {}
impl Total for u64 {}
impl Total for f64 {}

/// An element type: `i8` to `i64`, `u8` to `u64`, `f32`, `f64`. Sealed.
pub trait Element: sealed::Sealed + Copy + Send + Sync + PartialOrd + std::fmt::Debug + 'static {
    /// What values add up to: `i64`, `u64` or `f64`.
    type Sum: Total;
    /// The greatest value, which is NaN for floats: what a minimum of no values is.
    const GREATEST: Self;
    /// The least value: what a maximum of no values is.
    const LEAST: Self;
    /// The lesser of two values; NaN is the greatest.
    fn lesser(self, other: Self) -> Self;
    /// The greater of two values; NaN is the greatest.
    fn greater(self, other: Self) -> Self;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    #[doc(hidden)]
    fn to_i128(self) -> i128;
    #[doc(hidden)]
    fn narrow(exact: i128, float: f64) -> Option<Self::Sum>;
    /// Whether this is a float.
    const FLOAT: bool;
}

macro_rules! integers {
    ($($t:ty: $sum:ty),*) => { $(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            type Sum = $sum;
            const GREATEST: Self = <$t>::MAX;
            const LEAST: Self = <$t>::MIN;
            const FLOAT: bool = false;
            #[inline(always)]
            fn lesser(self, other: Self) -> Self { self.min(other) }
            #[inline(always)]
            fn greater(self, other: Self) -> Self { self.max(other) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            fn to_i128(self) -> i128 { i128::from(self) }
            fn narrow(exact: i128, _: f64) -> Option<$sum> { exact.try_into().ok() }
        }
    )* };
}
integers!(i8: i64, i16: i64, i32: i64, i64: i64, u8: u64, u16: u64, u32: u64, u64: u64);

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            type Sum = f64;
            const GREATEST: Self = <$t>::NAN;
            const LEAST: Self = <$t>::NEG_INFINITY;
            const FLOAT: bool = true;
            // A comparison with NaN is false, so each picks as if NaN were the greatest.
            #[inline(always)]
            fn lesser(self, other: Self) -> Self { if other < self || self.is_nan() { other } else { self } }
            #[inline(always)]
            fn greater(self, other: Self) -> Self { if other > self || other.is_nan() { other } else { self } }
            #[inline(always)]
            fn to_f64(self) -> f64 { f64::from(self) }
            fn to_i128(self) -> i128 { 0 }
            fn narrow(_: i128, float: f64) -> Option<f64> { Some(float) }
        }
    )* };
}
floats!(f32, f64);
