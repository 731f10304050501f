//! The functions of a window: how a value becomes a partial aggregate, how partials combine, what they come to.
//!
//! None of them subtracts, so nothing that has left a window can spoil its answer. Nulls never get here.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, types::*};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::Combine;
use super::arithmetic::Twofold;
use super::types::from_physical;
use crate::Result;

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
pub(super) fn values<T: ArrowPrimitiveType>(
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
