//! Answers that are not finite although all values of their window are: intermediate results left the range of a float.
//! They are recomputed from scaled-down values.
//!
//! Scaling by a power of two is exact except for values that are smaller by hundreds of binary digits than those that
//! made the answer overflow. So an answer is infinite only if the true one is out of range, and NaN only if a value is
//! infinite or NaN.
//!
//! | | |
//! |---|---|
//! | needs | an answer that is not finite; otherwise a column costs one test per vector |
//! | time | the kernel once more, and a sum of the values that are themselves infinite or NaN |
//! | space | two columns |

use super::level::{Kernel, dispatch};
use std::simd::prelude::*;

/// What is computed from values, as far as its range matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degree {
    /// Sums and means.
    Sum,
    /// Variances: sums of squares.
    Variance,
    /// Their roots.
    Deviation,
}

impl Degree {
    /// Values below this never overflow, even 2³² of them.
    fn safe_bound(self) -> f64 {
        if self == Degree::Sum { power(990) } else { power(490) }
    }

    /// The factor that brings all values below that.
    fn scale(self) -> f64 {
        if self == Degree::Sum { power(-64) } else { power(-600) }
    }

    /// The answer for unscaled values.
    fn unscale(self, answer: f64) -> f64 {
        match self {
            Degree::Sum => answer * power(64),
            Degree::Variance => answer * power(600) * power(600),
            Degree::Deviation => answer * power(600),
        }
    }
}

/// 2 to the power of a normal float's exponent.
fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Values scaled down.
pub struct Scaled {
    /// The values.
    pub values: Vec<f64>,
    /// 1 for each that is not finite.
    pub nonfinite: Vec<u8>,
    degree: Degree,
}

impl Scaled {
    /// `None` if no sum of the values can overflow. O(n).
    pub fn new(values: impl Iterator<Item = f64> + Clone, degree: Degree) -> Option<Self> {
        let largest = values.clone().map(f64::abs).filter(|value| value.is_finite()).fold(0.0, f64::max);
        if largest < degree.safe_bound() {
            return None;
        }
        let nonfinite = values.clone().map(|value| u8::from(!value.is_finite())).collect();
        Some(Self { values: values.map(|value| value * degree.scale()).collect(), nonfinite, degree })
    }

    /// Replaces those of `answers` that are not finite by the answers for these values, except for windows with a
    /// `nonfinite` value.
    pub fn repair(&self, answers: &mut [f64], again: &[f64], nonfinite: impl Iterator<Item = bool>) {
        for ((answer, &again), nonfinite) in answers.iter_mut().zip(again).zip(nonfinite) {
            if !answer.is_finite() && !nonfinite {
                *answer = self.degree.unscale(again);
            }
        }
    }
}

/// Whether one of `answers` is not finite.
pub(super) fn has_nonfinite(answers: &[f64]) -> bool {
    dispatch(NonFinite(answers))
}

struct NonFinite<'a>(&'a [f64]);

impl Kernel for NonFinite<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let (vectors, rest) = self.0.as_chunks::<16>();
        let finite = vectors.iter().fold(Mask::splat(true), |finite, &answers| {
            let answers = Simd::from_array(answers);
            finite & answers.is_finite()
        });
        !finite.all() || rest.iter().any(|answer| !answer.is_finite())
    }
}
