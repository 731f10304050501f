//! Floating-point sums in two parts, whose error does not grow with what has passed through a window.
//!
//! A [`Twofold`] is an unevaluated sum `high + low`, `|low| <= u |high|` with `u = 2^-53`. Adding `x` and `y` rounds
//! four times, at quantities of at most `u (|x| + |y|)`, so it errs by less than `2^-103 (|x| + |y|)`; this is the
//! "sloppy" addition of Joldes, Muller, Popescu, *Tight and Rigorous Error Bounds for Basic Building Blocks of
//! Double-Word Arithmetic*, ACM TOMS 44, 2017, Algorithm 5. A window of n values is a tree of n - 1 such additions, and
//! its result is rounded once to a float64. So the sum errs by at most `2^-53 |sum| + n 2^-103 · sum|x|`, which for n
//! below 2^50 is no more than the `2^-52 · sum|x|` of Kahan's algorithm, and near one rounding of the true sum. A sum
//! that leaves the range of float64 on the way is infinite.

/// `high + low`, not yet added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Twofold {
    pub high: f64,
    pub low: f64,
}

impl Twofold {
    /// A value as it stands.
    #[inline]
    pub fn new(value: f64) -> Self {
        // Negative zeros are kept negative by a low part that is one too.
        Self { high: value, low: -0.0 }
    }

    /// The sum of both.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        let (sum, error) = two_sum(self.high, other.high);
        if !sum.is_finite() {
            // Infinities and NaN are what they are; their "error" would be NaN.
            return Self::new(sum);
        }
        if sum == 0.0 {
            // Nothing was rounded; and the sum of negative zeros stays negative.
            return Self::new(sum + (self.low + other.low));
        }
        let (high, low) = quick_two_sum(sum, error + (self.low + other.low));
        Self { high, low }
    }

    /// `self - other` as one float.
    #[inline]
    pub fn minus(self, other: Self) -> f64 {
        let difference = self.plus(Self { high: -other.high, low: -other.low });
        difference.value()
    }

    /// The nearest float64.
    #[inline]
    pub fn value(self) -> f64 {
        self.high + self.low
    }
}

/// `a + b` and its exact rounding error (Knuth), for finite sums.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The same if `a` is 0 or not smaller in magnitude than `b` (Dekker).
#[inline]
fn quick_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    if sum.is_finite() { (sum, b - (sum - a)) } else { (sum, -0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        values[1..].iter().fold(Twofold::new(values[0]), |sum, &value| sum.plus(Twofold::new(value))).value()
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
