//! The order of values: NaN is greatest and equals NaN, -0.0 equals 0.0; as in Spark.

use crate::simd::{self, Element};

/// A total order with least and greatest values.
pub trait Ordered: Copy {
    /// The minimum of no values: no value is greater.
    const GREATEST: Self;
    /// The maximum of no values: no value is less.
    const LEAST: Self;
    /// The lesser of two, the first of equal ones.
    fn lesser(self, other: Self) -> Self;
    /// The greater of two, the first of equal ones.
    fn greater(self, other: Self) -> Self;
    /// Whether `self` comes before `other`.
    fn is_below(self, other: Self) -> bool;
    /// The least or greatest of many values, by vectors for the types they support.
    fn extreme(values: &[Self], max: bool) -> Option<Self>;
}

macro_rules! ordered {
    ($($t:ty: |$a:ident, $b:ident| $below:expr);*) => { $(
        impl Ordered for $t {
            const GREATEST: Self = <Self as Element>::GREATEST;
            const LEAST: Self = <Self as Element>::LEAST;
            #[inline]
            fn lesser(self, other: Self) -> Self { Element::lesser(self, other) }
            #[inline]
            fn greater(self, other: Self) -> Self { Element::greater(self, other) }
            #[inline]
            fn is_below(self, other: Self) -> bool {
                let ($a, $b) = (self, other);
                $below
            }
            fn extreme(values: &[Self], max: bool) -> Option<Self> {
                let column = simd::Column::from(values);
                if max { simd::reduce_max(column) } else { simd::reduce_min(column) }
            }
        }
    )* };
}
ordered!(
    i32: |a, b| a < b; i64: |a, b| a < b; u64: |a, b| a < b;
    f64: |a, b| a < b || (b.is_nan() && !a.is_nan())
);

impl Ordered for i128 {
    const GREATEST: Self = i128::MAX;
    const LEAST: Self = i128::MIN;
    #[inline]
    fn lesser(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline]
    fn greater(self, other: Self) -> Self {
        self.max(other)
    }
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
    fn extreme(values: &[Self], max: bool) -> Option<Self> {
        if max { values.iter().max().copied() } else { values.iter().min().copied() }
    }
}

/// Values whose order can be expressed by unsigned integers.
pub trait Keyed: Copy {
    /// Such an integer. That of the reverse order is its complement.
    type Key: Ord + Copy + Default + std::ops::Not<Output = Self::Key>;
    /// An integer with the order of the values.
    fn ordinal(self) -> Self::Key;
}

macro_rules! keyed {
    ($($t:ty: $wide:ty => $key:ty),*) => { $(
        impl Keyed for $t {
            type Key = $key;
            #[inline]
            fn ordinal(self) -> $key { (<$wide>::from(self) as $key) ^ (<$wide>::MIN as $key) }
        }
    )* };
}
keyed!(i8: i64 => u64, i16: i64 => u64, i32: i64 => u64, i64: i64 => u64, i128: i128 => u128);
keyed!(u8: u64 => u64, u16: u64 => u64, u32: u64 => u64, u64: u64 => u64);

impl Keyed for f64 {
    type Key = u64;
    #[inline]
    fn ordinal(self) -> u64 {
        // All NaNs become one, and adding 0 makes zeros equal. For negative floats all bits are inverted, for the
        // others only the sign.
        let bits = if self.is_nan() { f64::NAN.abs().to_bits() } else { (self + 0.0).to_bits() };
        bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
    }
}

impl Keyed for f32 {
    type Key = u64;
    #[inline]
    fn ordinal(self) -> u64 {
        f64::from(self).ordinal()
    }
}
