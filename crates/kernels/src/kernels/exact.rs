//! Exact sums of integers of any width, and their conversion to results.
//!
//! | | |
//! |---|---|
//! | needs | integers, or decimals as integers of their last digit |
//! | time | a pass to find the largest number, and the algorithm's own |
//! | space | the values once more, widened; sums of 64, 128 or 256 bits, the least width that no sum of the column can exceed |

use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::Function;
use super::dense::Dense;
use super::job::Job;
use crate::algebra::{ExactSum, Total, divided, mean_unit};
use crate::simd::Element;
use crate::{Error, Result};

/// Sums of integers, lowered from their number of values and their true sum; the first window for which `lower` finds
/// no answer is the error.
///
/// They are summed in 64 bits where every sum of the column fits, otherwise in 128, so that no window needs a check. A
/// window that is null anyway, according to `answered`, does not cause an error.
pub(super) fn integers<T: Element, O: Default>(
    job: &Job<'_>,
    values: &[T],
    answered: Option<&NullBuffer>,
    lower: &impl Fn(usize, i128) -> Option<O>,
    out: &mut Vec<O>,
) -> std::result::Result<(), usize> {
    if bound(values.iter().map(|value| value.to_i128())) <= i64::MAX as u128 {
        let dense = job.dense(values, |value: T| value.to_i128() as i64);
        return sums(job, &dense, answered, |count, sum: i64| lower(count, sum.into()), out);
    }
    let dense = job.dense(values, T::to_i128);
    sums(job, &dense, answered, lower, out)
}

/// Sums of unscaled decimals over windows: in 128 bits or 256.
pub(super) fn decimals(
    job: &Job<'_>,
    values: &[i128],
    answered: Option<&NullBuffer>,
    lowering: &Lowering,
    out: &mut Vec<i128>,
) -> std::result::Result<(), usize> {
    if bound(values.iter().copied()) <= i128::MAX as u128 {
        let dense = job.dense(values, |value| value);
        return sums(job, &dense, answered, |count, sum: i128| lowering.lower(count, sum), out);
    }
    let dense = job.dense(values, i256::from_i128);
    sums(job, &dense, answered, |count, sum| lowering.lower(count, sum), out)
}

fn sums<T: Total, O: Default>(
    job: &Job<'_>,
    dense: &Dense<'_, T>,
    answered: Option<&NullBuffer>,
    lower: impl Fn(usize, T) -> Option<O>,
    out: &mut Vec<O>,
) -> std::result::Result<(), usize> {
    let before = out.len();
    let mut overflown = None;
    job.each(&dense.values, &ExactSum::new(), |count, sum| {
        let window = out.len() - before;
        // Whatever value is stored under a null.
        let is_null = count == 0 || answered.is_some_and(|answered| answered.is_null(window));
        let lowered = if is_null { Some(O::default()) } else { lower(count, sum) };
        if lowered.is_none() && overflown.is_none() {
            overflown = Some(window);
        }
        out.push(lowered.unwrap_or_default());
    });
    overflown.map_or(Ok(()), Err)
}

/// An upper bound for every sum of some of `values`, including those stored under nulls; the greatest number if even
/// that is exceeded.
fn bound(values: impl ExactSizeIterator<Item = i128>) -> u128 {
    let number = values.len() as u128;
    values.map(i128::unsigned_abs).fold(0, u128::max).saturating_mul(number)
}

/// How sums of decimals become sums or means of another scale.
pub(super) struct Lowering {
    mean: bool,
    /// The factor for the digits that a mean has beyond those of the values.
    unit: i128,
    /// The least number that has too many digits.
    limit: i128,
}

impl Lowering {
    /// For sums or means of `input`, as decimals of `output`.
    pub fn new(function: Function, input: &DataType, output: &DataType) -> Result<Self> {
        let DataType::Decimal128(precision, _) = output else {
            return Err(Error::Internal(format!("{output} is not a decimal")));
        };
        let (mean, limit) = (function == Function::Mean, 10i128.pow(u32::from(*precision)));
        Ok(Self { mean, unit: mean_unit(input, output), limit })
    }

    /// The sum or mean; `None` if it has too many digits.
    fn lower<T: Total>(&self, count: usize, sum: T) -> Option<i128> {
        let number = if self.mean { divided(sum, self.unit, count as i64)? } else { sum.narrow()? };
        (-self.limit < number && number < self.limit).then_some(number)
    }
}
