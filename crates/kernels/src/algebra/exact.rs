//! Exact sums of integers, in a type that holds every possible sum.

use std::marker::PhantomData;

use arrow_buffer::i256;

use super::{BULK, Lift, Monoid};

/// Integers wide enough for sums.
pub trait Total: Copy {
    /// The sum of no values.
    const ZERO: Self;
    /// The sum, which fits.
    fn plus(self, other: Self) -> Self;
    /// The difference, which fits.
    fn minus(self, other: Self) -> Self;
    /// As 128 bits, if it fits.
    fn narrow(self) -> Option<i128>;
    /// As 256 bits.
    fn wide(self) -> i256;
}

macro_rules! total {
    ($($t:ty),*) => { $(
        impl Total for $t {
            const ZERO: Self = 0;
            #[inline]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline]
            fn narrow(self) -> Option<i128> { Some(self.into()) }
            fn wide(self) -> i256 { i256::from_i128(self.into()) }
        }
    )* };
}
total!(i64, i128);

/// No sum of 2^64 integers of 128 bits exceeds 256 bits.
impl Total for i256 {
    const ZERO: Self = i256::ZERO;
    #[inline]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    fn narrow(self) -> Option<i128> {
        self.to_i128()
    }
    fn wide(self) -> i256 {
        self
    }
}

/// The sum of integers.
#[derive(Debug, Clone, Copy)]
pub struct ExactSum<T>(PhantomData<fn() -> T>);

impl<T> ExactSum<T> {
    /// The sum.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for ExactSum<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Total> Monoid for ExactSum<T> {
    type State = T;

    #[inline]
    fn identity(&self) -> T {
        T::ZERO
    }

    #[inline]
    fn combine(&self, earlier: T, later: T) -> T {
        earlier.plus(later)
    }

    fn inverts(&self) -> bool {
        true
    }

    #[inline]
    fn evict(&self, whole: T, part: T) -> Option<T> {
        Some(whole.minus(part))
    }
}

impl<T: Total> Lift<T> for ExactSum<T> {
    #[inline]
    fn lift(&self, _: usize, value: T) -> T {
        value
    }
}

/// Integers of 64 bits, in 128.
macro_rules! widened {
    ($($t:ty: |$n:ident| $bits:expr, $shift:expr);*) => { $(
        impl Lift<$t> for ExactSum<i128> {
            #[inline]
            fn lift(&self, _: usize, value: $t) -> i128 {
                value.into()
            }

            #[inline]
            fn reduce(&self, _: usize, values: &[$t]) -> i128 {
                if values.len() < BULK {
                    return values.iter().map(|&value| i128::from(value)).sum();
                }
                // Values shifted to be positive, with the shifts subtracted from their sum.
                halves(values.iter().map(|&$n| $bits)) - ((values.len() as i128) * $shift)
            }
        }
    )* };
}
widened!(i64: |n| n as u64 ^ (1 << 63), 1 << 63; u64: |n| n, 0);

impl Lift<i128> for ExactSum<i256> {
    #[inline]
    fn lift(&self, _: usize, value: i128) -> i256 {
        i256::from_i128(value)
    }
}

/// The sum of fewer than 2^32 values, as the sums of their upper and lower halves: what a vector can add up.
fn halves(values: impl Iterator<Item = u64>) -> i128 {
    let (high, low) =
        values.fold((0u64, 0u64), |(high, low), value| (high + (value >> 32), low + (value & 0xffff_ffff)));
    (i128::from(high) << 32) + i128::from(low)
}

/// `sum · unit / count`, halves rounded away from zero (Spark's HALF_UP); 0 for a count of 0. `None` if it exceeds 128
/// bits.
pub fn divided<T: Total>(sum: T, unit: i128, count: i64) -> Option<i128> {
    let count = count.max(1);
    if let Some(scaled) = sum.narrow().and_then(|sum| sum.checked_mul(unit)) {
        let (quotient, rest) = (scaled / i128::from(count), scaled % i128::from(count));
        let away = if 2 * rest.abs() >= i128::from(count) { scaled.signum() } else { 0 };
        return Some(quotient + away);
    }
    let (scaled, count) = (sum.wide().checked_mul(i256::from_i128(unit))?, i256::from_i128(count.into()));
    let (quotient, rest) = (scaled.wrapping_div(count), scaled.wrapping_rem(count).wrapping_abs());
    let away = if scaled.is_negative() { i256::MINUS_ONE } else { i256::ONE };
    let half_reached = rest.wrapping_add(rest) >= count;
    (if half_reached { quotient.wrapping_add(away) } else { quotient }).to_i128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (sum, count, mean) in
            [(5i64, 2, 3), (-5, 2, -3), (4, 3, 1), (-4, 3, -1), (5, 3, 2), (0, 7, 0), (7, 1, 7), (0, 0, 0)]
        {
            assert_eq!(divided(sum, 1, count), Some(mean), "{sum} / {count}");
            // The same beyond 128 bits.
            let unit = 10i128.pow(38);
            let wide =
                divided(i256::from_i128(i128::from(sum)).wrapping_mul(i256::from_i128(unit)), 1, count);
            let narrow = divided(i128::from(sum), unit, count);
            assert_eq!(wide, narrow, "{sum} / {count}");
        }
    }
}
