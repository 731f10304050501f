//! Sums and means of a window, exact of integers and decimals.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, types::*};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::Combine;
use super::arithmetic::Twofold;
use super::functions::{Combined, values};
use crate::{Error, Result};

/// Whether the sum itself is asked for, or the mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Sum,
    Mean,
}

/// Sum or mean of floats; see [`Twofold`] for the error.
#[derive(Clone)]
pub(super) struct FloatSum(pub Of);

impl Combine for FloatSum {
    type State = Twofold;

    #[inline]
    fn combine(&self, earlier: Twofold, later: Twofold) -> Twofold {
        earlier.plus(later)
    }
}

impl Combined for FloatSum {
    type Input = Float64Type;
    type Answer = f64;

    #[inline]
    fn lift(&self, value: f64, _: u64) -> Twofold {
        Twofold::new(value)
    }

    #[inline]
    fn lower(&self, state: Twofold, count: u64) -> Option<f64> {
        Some(match self.0 {
            Of::Sum => state.value(),
            Of::Mean => state.value() / count as f64,
        })
    }

    fn finish(&self, answers: Vec<f64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<Float64Type>::new(answers.into(), nulls)))
    }
}

/// Sum or mean of integers and durations, in 128 bits, which 2^64 of them cannot overflow.
pub(super) struct IntegerSum<T> {
    pub of: Of,
    pub output: DataType,
    pub value: PhantomData<fn() -> T>,
}

impl<T> Clone for IntegerSum<T> {
    fn clone(&self) -> Self {
        Self { of: self.of, output: self.output.clone(), value: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native: Into<i128>>> Combine for IntegerSum<T> {
    type State = i128;

    #[inline]
    fn combine(&self, earlier: i128, later: i128) -> i128 {
        earlier + later
    }
}

impl<T: ArrowPrimitiveType<Native: Into<i128>>> Combined for IntegerSum<T> {
    type Input = T;
    type Answer = (i128, u64);

    #[inline]
    fn magnitude(value: T::Native) -> f64 {
        let value: i128 = value.into();
        value.unsigned_abs() as f64
    }

    fn may_overflow(&self, magnitude: f64, rows: u64) -> bool {
        // The rounding of three floats is far smaller than the factor of 2 kept in hand.
        self.of == Of::Sum && magnitude * rows as f64 > (1u64 << 62) as f64
    }

    #[inline]
    fn lift(&self, value: T::Native, _: u64) -> i128 {
        value.into()
    }

    #[inline]
    fn lower(&self, state: i128, count: u64) -> Option<(i128, u64)> {
        Some((state, count))
    }

    fn finish(&self, answers: Vec<(i128, u64)>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        if self.output == DataType::Float64 {
            // A null is (0, 0), and lies under the bitmap.
            let means = answers.into_iter().map(|(sum, count)| sum as f64 / count.max(1) as f64);
            let means: Vec<f64> = means.collect();
            return Ok(Arc::new(PrimitiveArray::<Float64Type>::new(means.into(), nulls)));
        }
        let results = answers.into_iter().map(|(sum, count)| match self.of {
            Of::Sum => sum,
            Of::Mean => half_up(i256::from_i128(sum), count).as_i128(),
        });
        if self.output == DataType::UInt64 {
            let sums: Vec<u64> =
                results.map(|sum| fitting(sum, "sum", &self.output)).collect::<Result<_>>()?;
            return values::<UInt64Type>(sums, nulls, &self.output);
        }
        let sums: Vec<i64> = results.map(|sum| fitting(sum, "sum", &self.output)).collect::<Result<_>>()?;
        values::<Int64Type>(sums, nulls, &self.output)
    }
}

/// Sum or mean of decimals, in 256 bits.
#[derive(Clone)]
pub(super) struct DecimalSum {
    pub of: Of,
    pub precision: u8,
    /// Digits that the answer has more after the point than the values.
    pub digits: u32,
    pub output: DataType,
}

impl Combine for DecimalSum {
    type State = i256;

    #[inline]
    fn combine(&self, earlier: i256, later: i256) -> i256 {
        // 2^64 values of 127 bits fit.
        earlier.wrapping_add(later)
    }
}

impl Combined for DecimalSum {
    type Input = Decimal128Type;
    type Answer = (i256, u64);

    #[inline]
    fn magnitude(value: i128) -> f64 {
        value.unsigned_abs() as f64
    }

    fn may_overflow(&self, magnitude: f64, rows: u64) -> bool {
        let reach = match self.of {
            Of::Sum => magnitude * rows as f64,
            Of::Mean => magnitude * 10f64.powi(self.digits as i32),
        };
        reach > 0.5 * 10f64.powi(self.precision.into())
    }

    #[inline]
    fn lift(&self, value: i128, _: u64) -> i256 {
        i256::from_i128(value)
    }

    #[inline]
    fn lower(&self, state: i256, count: u64) -> Option<(i256, u64)> {
        Some((state, count))
    }

    fn finish(&self, answers: Vec<(i256, u64)>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let unit = i256::from_i128(10i128.pow(self.digits));
        let bound = 10i128.pow(u32::from(self.precision));
        let results = answers.into_iter().map(|(sum, count)| {
            let (name, result) = match self.of {
                Of::Sum => ("sum", sum),
                Of::Mean => ("mean", half_up(sum.wrapping_mul(unit), count)),
            };
            let fits = result.to_i128().filter(|result| result.unsigned_abs() < bound.unsigned_abs());
            fits.ok_or_else(|| {
                Error::Overflow(format!("the {name} of a window does not fit {}", self.output))
            })
        });
        let results: Vec<i128> = results.collect::<Result<_>>()?;
        values::<Decimal128Type>(results, nulls, &self.output)
    }
}

fn fitting<T: TryFrom<i128>>(result: i128, name: &str, output: &DataType) -> Result<T> {
    let error =
        |_| Error::Overflow(format!("the {name} of a window is {result}, which does not fit {output}"));
    T::try_from(result).map_err(error)
}

/// `sum / count`, halves rounded away from zero (Spark's HALF_UP).
fn half_up(sum: i256, count: u64) -> i256 {
    let count = i256::from_i128(count.max(1).into());
    let (quotient, rest) = (sum.wrapping_div(count), sum.wrapping_rem(count));
    let rest = rest.wrapping_abs();
    if rest.wrapping_add(rest) < count {
        return quotient;
    }
    quotient.wrapping_add(if sum.is_negative() { i256::MINUS_ONE } else { i256::ONE })
}
