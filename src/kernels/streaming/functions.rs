//! The functions of a window: how a value becomes a partial aggregate, how partials combine, what they come to.
//!
//! None of them subtracts, so nothing that has left a window can spoil its answer. Nulls never get here.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, types::*};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::Combine;
use super::arithmetic::Twofold;
use super::types::from_physical;
use crate::{Error, Result};

/// A function from values to answers.
pub(super) trait Combined: Combine<State: Send> + Send + 'static {
    /// How values are read.
    type Input: ArrowPrimitiveType;
    /// One answer, not yet of the type that the user gets.
    type Answer: Copy + Default + Send;

    /// The partial aggregate of the value of row `row` of the stream.
    fn lift(&self, value: <Self::Input as ArrowPrimitiveType>::Native, row: u64) -> Self::State;

    /// The answer for `count` values that combine to `state`; none where it is null.
    fn lower(&self, state: Self::State, count: u64) -> Option<Self::Answer>;

    /// The answer of a window without values.
    fn of_none(&self) -> Option<Self::Answer> {
        None
    }

    /// What [`Combined::may_overflow`] wants to know of a value.
    #[inline]
    fn magnitude(_: <Self::Input as ArrowPrimitiveType>::Native) -> f64 {
        0.0
    }

    /// Whether an answer over `rows` values of at most this magnitude may not fit its type. It must not say no wrongly.
    fn may_overflow(&self, _magnitude: f64, _rows: u64) -> bool {
        false
    }

    /// Answers as the user gets them.
    ///
    /// # Errors
    /// `Overflow` where an answer does not fit its type.
    fn finish(&self, answers: Vec<Self::Answer>, nulls: Option<NullBuffer>) -> Result<ArrayRef>;
}

/// Values compared as in Spark: NaN is the greatest, and -0.0 equals 0.0.
pub(super) trait Ordered: Copy + Send + Default {
    fn is_below(self, other: Self) -> bool;
}

impl Ordered for i64 {
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
}

impl Ordered for u64 {
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
}

impl Ordered for i128 {
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other
    }
}

impl Ordered for f64 {
    #[inline]
    fn is_below(self, other: Self) -> bool {
        self < other || (other.is_nan() && !self.is_nan())
    }
}

/// The number of values.
#[derive(Clone)]
pub(super) struct Count;

impl Combine for Count {
    type State = ();

    #[inline]
    fn combine(&self, (): (), (): ()) {}
}

impl Combined for Count {
    type Input = Int8Type;
    type Answer = i64;

    #[inline]
    fn lift(&self, _: i8, _: u64) {}

    #[inline]
    fn lower(&self, (): (), count: u64) -> Option<i64> {
        Some(count as i64)
    }

    fn of_none(&self) -> Option<i64> {
        Some(0)
    }

    fn finish(&self, answers: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<Int64Type>::new(answers.into(), nulls)))
    }
}

/// The least value, or the greatest; of equal ones the oldest.
pub(super) struct Extremum<T, const MAX: bool> {
    pub output: DataType,
    pub value: PhantomData<fn() -> T>,
}

impl<T, const MAX: bool> Clone for Extremum<T, MAX> {
    fn clone(&self) -> Self {
        Self { output: self.output.clone(), value: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Combine for Extremum<T, MAX> {
    type State = T::Native;

    #[inline]
    fn combine(&self, earlier: T::Native, later: T::Native) -> T::Native {
        let wins = if MAX { earlier.is_below(later) } else { later.is_below(earlier) };
        if wins { later } else { earlier }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Combined for Extremum<T, MAX> {
    type Input = T;
    type Answer = T::Native;

    #[inline]
    fn lift(&self, value: T::Native, _: u64) -> T::Native {
        value
    }

    #[inline]
    fn lower(&self, state: T::Native, _: u64) -> Option<T::Native> {
        Some(state)
    }

    fn finish(&self, answers: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        values::<T>(answers, nulls, &self.output)
    }
}

/// The row of the least value, or of the greatest; of equal ones the oldest.
pub(super) struct ArgExtremum<T, const MAX: bool>(pub PhantomData<fn() -> T>);

impl<T, const MAX: bool> Clone for ArgExtremum<T, MAX> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Combine for ArgExtremum<T, MAX> {
    type State = (T::Native, u64);

    #[inline]
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
        let wins = if MAX { earlier.0.is_below(later.0) } else { later.0.is_below(earlier.0) };
        if wins { later } else { earlier }
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>, const MAX: bool> Combined for ArgExtremum<T, MAX> {
    type Input = T;
    type Answer = i64;

    #[inline]
    fn lift(&self, value: T::Native, row: u64) -> Self::State {
        (value, row)
    }

    #[inline]
    fn lower(&self, state: Self::State, _: u64) -> Option<i64> {
        Some(state.1 as i64)
    }

    fn finish(&self, answers: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<Int64Type>::new(answers.into(), nulls)))
    }
}

/// The oldest value, or the newest.
pub(super) struct FirstLast<T, const LAST: bool> {
    pub output: DataType,
    pub value: PhantomData<fn() -> T>,
}

impl<T, const LAST: bool> Clone for FirstLast<T, LAST> {
    fn clone(&self) -> Self {
        Self { output: self.output.clone(), value: PhantomData }
    }
}

impl<T: ArrowPrimitiveType, const LAST: bool> Combine for FirstLast<T, LAST> {
    type State = T::Native;

    #[inline]
    fn combine(&self, earlier: T::Native, later: T::Native) -> T::Native {
        if LAST { later } else { earlier }
    }
}

impl<T: ArrowPrimitiveType, const LAST: bool> Combined for FirstLast<T, LAST> {
    type Input = T;
    type Answer = T::Native;

    #[inline]
    fn lift(&self, value: T::Native, _: u64) -> T::Native {
        value
    }

    #[inline]
    fn lower(&self, state: T::Native, _: u64) -> Option<T::Native> {
        Some(state)
    }

    fn finish(&self, answers: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        values::<T>(answers, nulls, &self.output)
    }
}

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

/// Variance, or its root, over `count - ddof`.
///
/// Partials are joined by the parallel update of Chan, Golub and LeVeque (1979). Means are kept in two parts, so that a
/// large common offset of the values costs no digits of their deviations.
#[derive(Clone)]
pub(super) struct Variance {
    pub ddof: u32,
    pub root: bool,
}

/// Number of values, their mean, and the sum of their squared deviations from it.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    count: f64,
    mean: Twofold,
    m2: f64,
}

impl Combine for Variance {
    type State = Moment;

    #[inline]
    fn combine(&self, earlier: Moment, later: Moment) -> Moment {
        let count = earlier.count + later.count;
        let delta = later.mean.minus(earlier.mean);
        let share = later.count / count;
        Moment {
            count,
            mean: earlier.mean.plus(Twofold::new(delta * share)),
            m2: earlier.m2 + later.m2 + delta * delta * earlier.count * share,
        }
    }
}

impl Combined for Variance {
    type Input = Float64Type;
    type Answer = f64;

    #[inline]
    fn lift(&self, value: f64, _: u64) -> Moment {
        // The deviation of a value from itself is 0, but of an infinity or NaN it is NaN, as in Spark.
        let m2 = if value.is_finite() { 0.0 } else { f64::NAN };
        Moment { count: 1.0, mean: Twofold::new(value), m2 }
    }

    #[inline]
    fn lower(&self, state: Moment, count: u64) -> Option<f64> {
        let freedom = count.checked_sub(self.ddof.into()).filter(|&freedom| freedom > 0)?;
        let variance = state.m2 / freedom as f64;
        Some(if self.root { variance.sqrt() } else { variance })
    }

    fn finish(&self, answers: Vec<f64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(Arc::new(PrimitiveArray::<Float64Type>::new(answers.into(), nulls)))
    }
}

/// Answers that are values of type `T`, as `output`.
fn values<T: ArrowPrimitiveType>(
    answers: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    output: &DataType,
) -> Result<ArrayRef> {
    let array = PrimitiveArray::<T>::new(answers.into(), nulls);
    if let DataType::Decimal128(..) = output {
        return Ok(Arc::new(array.with_data_type(output.clone())));
    }
    let array: ArrayRef = Arc::new(array);
    from_physical(&array, output)
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
