//! Sums of floats: in two parts, the plain sum and its rounding errors, rounded to one float at the end.
//!
//! The rounding error of each addition is computed exactly (Knuth's TwoSum) and these errors are added up plainly. So
//! the sum of n values errs by at most `u |sum| + (n u)² Σ|x|` with `u = 2⁻⁵³` (Ogita, Rump, Oishi, *Accurate sum and dot
//! product*, 2005, Prop. 4.5, which does not depend on the order of additions), where Kahan's errs by up to `2u Σ|x|`.
//! A sum that slides never subtracts, so that a value which leaves it leaves no trace. Only what rows of weight -1 take
//! back is subtracted, once for each result.

use super::{BULK, Lift, Monoid};
use crate::simd;

/// `high + low`, not yet added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Twofold {
    /// The plain sum, with its infinities and NaN.
    pub high: f64,
    /// The sum of its rounding errors; NaN or infinite if the sum left the range of a float, or was at the edge
    /// of it.
    pub low: f64,
}

impl Twofold {
    /// A single value.
    #[inline]
    pub fn new(value: f64) -> Self {
        // Negative zeros leave every sum unchanged, including that of negative zeros.
        Self { high: value, low: -0.0 }
    }

    /// The sum of both.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = (self.high, other.high);
        let sum = a + b;
        let part = sum - a;
        Self { high: sum, low: (a - (sum - part)) + (b - part) + (self.low + other.low) }
    }

    /// The nearest float.
    #[inline]
    pub fn value(self) -> f64 {
        // Adding a rounding error of zero would make a negative zero positive.
        if self.low.is_finite() && self.low != 0.0 { self.high + self.low } else { self.high }
    }
}

/// The sum of floats.
#[derive(Debug, Clone, Copy)]
pub struct FloatSum {
    /// Whether many values at once are summed by vectors, each lane of which is compensated.
    pub vectors: bool,
}

impl Monoid for FloatSum {
    type State = Twofold;

    #[inline]
    fn identity(&self) -> Twofold {
        Twofold::new(-0.0)
    }

    #[inline]
    fn combine(&self, earlier: Twofold, later: Twofold) -> Twofold {
        earlier.plus(later)
    }

    fn subtracts(&self) -> bool {
        true
    }

    fn subtract(&self, whole: Twofold, part: Twofold) -> Option<Twofold> {
        Some(whole.plus(Twofold { high: -part.high, low: -part.low }))
    }
}

impl Lift<f64> for FloatSum {
    #[inline]
    fn lift(&self, _: usize, value: f64) -> Twofold {
        Twofold::new(value)
    }

    #[inline]
    fn reduce(&self, position: usize, values: &[f64]) -> Twofold {
        if !self.vectors || values.len() < BULK {
            return super::one_by_one(self, position, values);
        }
        let (high, low) = simd::reduce_compensated(values);
        Twofold { high, low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        FloatSum { vectors: false }.reduce(0, values).value()
    }

    #[test]
    fn what_cancels_leaves_the_rest_exactly() {
        assert_eq!(sum(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e300, 1e285, -1e300]), 1e285);
    }

    #[test]
    fn infinities_nan_and_zeros_are_those_of_ieee_754() {
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert_eq!(sum(&[1.0, f64::NEG_INFINITY, 1.0]), f64::NEG_INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[1.0, f64::NAN, 1.0]).is_nan());
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert!(sum(&[-0.0, -0.0]).is_sign_negative());
        assert!(sum(&[-0.0]).is_sign_negative());
        assert!(sum(&[-0.0, 0.0]).is_sign_positive());
        assert!(sum(&[1.0, -1.0]).is_sign_positive());
    }
}
