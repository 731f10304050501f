//! Number, mean and squared deviations, which variances are lowered from; joined as Chan, Golub and LeVeque (1979) do,
//! which neither cancels nor drifts. It is also what Spark's own functions do, so that results agree.
//!
//! The mean is kept in two parts, as the difference of two means that are close, and far from zero, is what counts: with
//! one part, values of 10⁹ ± 1 would keep seven digits of their variance.

use super::{BULK, Lift, Monoid, Twofold, one_by_one};

/// The partial of variances.
#[derive(Debug, Clone, Copy)]
pub struct Moments;

/// Number of values, their mean, and the sum of their squared deviations from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Number of values.
    pub count: f64,
    /// Their mean.
    pub mean: Twofold,
    /// The sum of their squared deviations from it.
    pub m2: f64,
}

impl Moment {
    /// The variance, or its root, with `ddof` values' worth of freedom taken off; none of no more than `ddof` values.
    #[inline]
    pub fn variance(self, ddof: f64, root: bool) -> Option<f64> {
        let variance = self.m2 / (self.count - ddof);
        (self.count > ddof).then_some(if root { variance.sqrt() } else { variance })
    }
}

impl Monoid for Moments {
    type State = Moment;

    #[inline]
    fn identity(&self) -> Moment {
        Moment { count: 0.0, mean: Twofold::new(0.0), m2: 0.0 }
    }

    #[inline]
    fn combine(&self, earlier: Moment, later: Moment) -> Moment {
        // Not only a shortcut: an empty side must not touch a mean that is infinite or NaN.
        if earlier.count == 0.0 {
            return later;
        }
        if later.count == 0.0 {
            return earlier;
        }
        let count = earlier.count + later.count;
        let delta = (later.mean.high - earlier.mean.high) + (later.mean.low - earlier.mean.low);
        let share = later.count / count;
        Moment {
            count,
            mean: earlier.mean.plus(Twofold::new(delta * share)),
            m2: earlier.m2 + later.m2 + delta * delta * earlier.count * share,
        }
    }
}

impl Lift<f64> for Moments {
    #[inline]
    fn lift(&self, _: usize, value: f64) -> Moment {
        // The deviation of a value from itself is 0, but of an infinity or NaN it is NaN, as in Spark.
        let m2 = if value.is_finite() { 0.0 } else { f64::NAN };
        Moment { count: 1.0, mean: Twofold::new(value), m2 }
    }

    /// In two passes: the mean, and the deviations from it, whose own mean is what the first pass lost.
    #[inline]
    fn reduce(&self, position: usize, values: &[f64]) -> Moment {
        if values.len() < BULK {
            return one_by_one(self, position, values);
        }
        let count = values.len() as f64;
        let (sum, _) = lanes(values, |value| (value, 0.0));
        let mean = sum / count;
        if !mean.is_finite() {
            return one_by_one(self, position, values);
        }
        let (first, second) = lanes(values, |value| {
            let deviation = value - mean;
            (deviation, deviation * deviation)
        });
        let low = first / count;
        Moment { count, mean: Twofold { high: mean, low }, m2: second - first * low }
    }
}

/// Two sums over values, in lanes that a compiler can make vectors of.
#[inline]
fn lanes(values: &[f64], terms: impl Fn(f64) -> (f64, f64)) -> (f64, f64) {
    const LANES: usize = 16;
    let (mut first, mut second) = ([0.0; LANES], [0.0; LANES]);
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            let term = terms(block[lane]);
            first[lane] += term.0;
            second[lane] += term.1;
        }
    }
    let rest = rest.iter().map(|&value| terms(value));
    let lanes = first.into_iter().zip(second);
    rest.chain(lanes).fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1))
}
