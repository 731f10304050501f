//! Estimates from a sample of the rows: counts, sums and means of all rows, with their standard errors.
//!
//! | | |
//! |---|---|
//! | needs | of each row that is kept, with which probability p it was: it stands for w = 1 / p rows |
//! | counts, sums | the sum of w, or of w v: unbiased |
//! | means | the ratio of both, whose bias is of the order of 1 / (rows kept) |
//! | errors | the root of the estimated variance: the sum of (w² - w) v², which is unbiased; of means by linearisation |
//! | first appeared | Horvitz and Thompson, 1952; in two phases: Särndal, Swensson and Wretman, *Model Assisted Survey Sampling*, 1992, ch. 9 |
//!
//! All is lowered from sums ([`Term`]), so that slices combine as those of other functions do.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, cast::AsArray, types::Float64Type};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use super::partials::Partials;
use crate::{Error, Result};

/// What is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// Number of rows.
    CountAll,
    /// Number of values.
    Count,
    /// Sum of values.
    Sum,
    /// Mean of values.
    Mean,
}

/// What is summed of each row that is kept, and whose value is v: w v^n, or (w² - w) v^n for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    is_error: bool,
    /// n.
    power: u8,
}

const ROWS: Term = Term { is_error: false, power: 0 };
const VALUES: Term = Term { is_error: false, power: 1 };

const fn error(power: u8) -> Term {
    Term { is_error: true, power }
}

impl Estimate {
    /// The sums that it is lowered from, or that its error is.
    pub(super) fn terms(self, is_error: bool) -> &'static [Term] {
        match (self, is_error) {
            (Estimate::CountAll | Estimate::Count, false) => &[ROWS],
            (Estimate::CountAll | Estimate::Count, true) => const { &[error(0)] },
            (Estimate::Sum, false) => &[VALUES],
            (Estimate::Sum, true) => const { &[error(2)] },
            (Estimate::Mean, false) => &[VALUES, ROWS],
            (Estimate::Mean, true) => const { &[VALUES, ROWS, error(2), error(1), error(0)] },
        }
    }

    /// The type of the estimate, or of its error. It does not depend on that of the values, as a sum of weights and values
    /// may be larger than any sum of values.
    pub(super) fn output_type(self, is_error: bool) -> DataType {
        match self {
            Estimate::CountAll | Estimate::Count if !is_error => DataType::Int64,
            _ => DataType::Float64,
        }
    }

    /// Whether it is null where there are no values.
    pub(super) fn nullable(self) -> bool {
        matches!(self, Estimate::Sum | Estimate::Mean)
    }

    /// The estimates of all slots, or their errors, from its sums.
    pub(super) fn lower(self, partials: &[&dyn Partials], is_error: bool) -> Result<ArrayRef> {
        let sums = partials.iter().map(|sums| sums.lower()).collect::<Result<Vec<ArrayRef>>>()?;
        let sums: Vec<&Float64Array> = sums.iter().map(|sums| sums.as_primitive::<Float64Type>()).collect();
        let each = |of: &dyn Fn(usize) -> f64| -> ArrayRef {
            let nulls = sums[0].nulls().filter(|_| self.nullable()).cloned();
            Arc::new(Float64Array::new((0..sums[0].len()).map(of).collect::<Vec<f64>>().into(), nulls))
        };
        let sum = |of: usize, slot: usize| if sums[of].is_valid(slot) { sums[of].value(slot) } else { 0.0 };
        let root = |variance: f64| variance.max(0.0).sqrt();
        match (self, is_error, sums.len()) {
            (Estimate::CountAll | Estimate::Count, false, 1) => {
                // Weights are whole numbers.
                let counts = (0..sums[0].len()).map(|slot| sum(0, slot) as i64);
                Ok(Arc::new(Int64Array::from_iter_values(counts)))
            }
            (Estimate::Sum, false, 1) => Ok(Arc::new(sums[0].clone())),
            (Estimate::CountAll | Estimate::Count | Estimate::Sum, true, 1) => {
                Ok(each(&|slot| root(sum(0, slot))))
            }
            (Estimate::Mean, false, 2) => Ok(each(&|slot| sum(0, slot) / sum(1, slot))),
            (Estimate::Mean, true, 5) => Ok(each(&|slot| {
                let (mean, rows) = (sum(0, slot) / sum(1, slot), sum(1, slot));
                match sum(4, slot) {
                    // No row was dropped: an infinite mean is certain, too.
                    0.0 => 0.0,
                    spread => {
                        let variance = sum(2, slot) - 2.0 * mean * sum(3, slot) + mean * mean * spread;
                        if variance.is_nan() { variance } else { root(variance) / rows }
                    }
                }
            })),
            _ => Err(Error::Internal(format!("{self:?} is not lowered from {} sums", sums.len()))),
        }
    }
}

impl Term {
    /// Whether it is of values that must be numbers.
    pub(super) fn is_of_numbers(self) -> bool {
        self.power > 0
    }

    /// What is summed of `rows` rows that stand for `weight` rows each, and have these values.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(crate) fn of(self, values: Option<&ArrayRef>, rows: usize, weight: f64) -> Result<ArrayRef> {
        let factor = if self.is_error { weight * (weight - 1.0) } else { weight };
        let nulls: Option<NullBuffer> = values.and_then(|values| values.logical_nulls());
        let summed: Vec<f64> = match values {
            // Where no row is dropped, there is no error, even of values that are infinite.
            Some(values) if self.power > 0 && factor > 0.0 => {
                let values = cast(values, &DataType::Float64)?;
                let power = |&value: &f64| factor * value.powi(i32::from(self.power));
                values.as_primitive::<Float64Type>().values().iter().map(power).collect()
            }
            _ => vec![factor; rows],
        };
        Ok(Arc::new(Float64Array::new(summed.into(), nulls)))
    }

    /// The other sums that [`Term::doubled`] needs of the same values: products of both are added to this one.
    pub(crate) fn others(self) -> Option<[Self; 2]> {
        let of = |power: u8| if power > 0 { VALUES } else { ROWS };
        self.is_error.then(|| [of(self.power / 2), of(self.power.div_ceil(2))])
    }

    /// The sum of a slot that was kept with a probability of 1/2, so that it stands for two: the second phase of a sample
    /// adds (q⁻² - q⁻¹) times the product of what the slot itself estimates to the estimated variance.
    pub(crate) fn doubled(sum: f64, others: Option<[f64; 2]>) -> f64 {
        2.0 * sum + others.map_or(0.0, |[a, b]| 2.0 * a * b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The estimate and the estimated variance of the sum of these values over all outcomes of the sample, weighed by their
    /// probabilities: rows are kept with probability 1/2, and then the whole slot is.
    fn expected(values: &[f64]) -> (f64, f64, f64) {
        let (mut mean, mut square, mut variance) = (0.0, 0.0, 0.0);
        let outcomes = 1 << (values.len() + 1);
        for outcome in 0..outcomes {
            let kept: Vec<f64> =
                values.iter().enumerate().filter(|(at, _)| outcome >> at & 1 == 1).map(|(_, v)| *v).collect();
            let column: ArrayRef = Arc::new(Float64Array::from(kept.clone()));
            let sum = |term: Term| -> f64 {
                let terms = term.of(Some(&column), kept.len(), 2.0).unwrap();
                terms.as_primitive::<Float64Type>().values().iter().sum()
            };
            let (estimate, error) = match outcome >> values.len() {
                0 => (0.0, 0.0),
                _ => {
                    let others = error(2).others().map(|others| others.map(sum));
                    (Term::doubled(sum(VALUES), None), Term::doubled(sum(error(2)), others))
                }
            };
            let share = 1.0 / f64::from(outcomes);
            mean += share * estimate;
            square += share * estimate * estimate;
            variance += share * error;
        }
        (mean, square - mean * mean, variance)
    }

    proptest! {
        /// The law of Horvitz and Thompson, over every outcome of a sample in two phases.
        #[test]
        fn sums_and_their_variances_are_unbiased(values in prop::collection::vec(-9.0f64..9.0, 0..7)) {
            let (mean, variance, estimated) = expected(&values);
            let sum: f64 = values.iter().sum();
            prop_assert!((mean - sum).abs() < 1e-9);
            prop_assert!((variance - estimated).abs() < 1e-9 * (1.0 + variance));
        }
    }

    #[test]
    fn nothing_is_uncertain_where_no_row_is_dropped() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::INFINITY), None, Some(f64::NAN)]));
        for power in 0..3 {
            let terms = error(power).of(Some(&column), 3, 1.0).unwrap();
            let terms = terms.as_primitive::<Float64Type>();
            assert_eq!(terms.iter().collect::<Vec<_>>(), [Some(0.0), None, Some(0.0)]);
        }
        assert_eq!(error(1).others(), Some([ROWS, VALUES]));
    }
}
