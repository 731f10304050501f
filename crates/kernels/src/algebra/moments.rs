//! Number, mean and squared deviations, which variances are lowered from.

use super::{BULK, Lift, Monoid, one_by_one};
use crate::simd::{Moments, reduce_moments};

/// The partial of variances: a join of [`Moments`].
#[derive(Debug, Clone, Copy)]
pub struct Variance;

impl Monoid for Variance {
    type State = Moments;

    #[inline]
    fn identity(&self) -> Moments {
        Moments::NONE
    }

    #[inline]
    fn combine(&self, earlier: Moments, later: Moments) -> Moments {
        earlier.join(later)
    }

    fn subtracts(&self) -> bool {
        true
    }

    fn subtract(&self, whole: Moments, part: Moments) -> Option<Moments> {
        Some(whole.without(part))
    }
}

impl Lift<f64> for Variance {
    #[inline]
    fn lift(&self, _: usize, value: f64) -> Moments {
        Moments::of(value)
    }

    #[inline]
    fn reduce(&self, position: usize, values: &[f64]) -> Moments {
        if values.len() < BULK { one_by_one(self, position, values) } else { reduce_moments(values.into()) }
    }
}
