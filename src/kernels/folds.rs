//! The functions of sliding windows as [`Fold`]s.
//!
//! Columns are dense: nulls are taken out before, and ranges counted by what is left (`Dense` in `answer`).

use arrow_buffer::{NullBuffer, i256};

use super::dense::Dense;
use super::fold::Fold;
use super::simd::{self, Element};

/// Number of values.
pub(super) struct Count;

impl Fold<()> for Count {
    type State = usize;

    fn identity(&self) -> usize {
        0
    }

    #[inline]
    fn lift(&self, _: usize, (): ()) -> usize {
        1
    }

    #[inline]
    fn combine(&self, earlier: usize, later: usize) -> usize {
        earlier + later
    }

    #[inline]
    fn evict(&self, running: usize, leaving: usize) -> Option<usize> {
        Some(running - leaving)
    }
}

/// No position.
pub(super) const NONE: usize = usize::MAX;

/// Position of the first value, or of the last. Associative, not commutative.
pub(super) struct End<const LAST: bool>;

impl<const LAST: bool> Fold<()> for End<LAST> {
    type State = usize;

    fn identity(&self) -> usize {
        NONE
    }

    #[inline]
    fn lift(&self, position: usize, (): ()) -> usize {
        position
    }

    #[inline]
    fn combine(&self, earlier: usize, later: usize) -> usize {
        let (wanted, other) = if LAST { (later, earlier) } else { (earlier, later) };
        if wanted == NONE { other } else { wanted }
    }
}

/// Values with an order that has NaN greatest.
pub(super) trait Ordered: Copy {
    /// What a minimum of no values is.
    const GREATEST: Self;
    /// What a maximum of no values is.
    const LEAST: Self;
    fn lesser(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
    /// Whether the two are equal, as NaN and NaN are.
    fn same(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($t:ty),*) => { $(
        impl Ordered for $t {
            const GREATEST: Self = <Self as Element>::GREATEST;
            const LEAST: Self = <Self as Element>::LEAST;
            #[inline]
            fn lesser(self, other: Self) -> Self { Element::lesser(self, other) }
            #[inline]
            fn greater(self, other: Self) -> Self { Element::greater(self, other) }
            #[inline]
            #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
            fn same(self, other: Self) -> bool { self == other || (self != self && other != other) }
        }
    )* };
}
ordered!(i32, i64, u64, f64);

/// Element types, and those of them that the algorithms but SIMD's are compiled for: a column of any other is widened
/// before, as that costs little beside them.
pub(super) trait Widened: Copy {
    type Wide: Ordered + Element;
    fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, Self::Wide>;
    fn narrowed(wide: Self::Wide) -> Self;
}

macro_rules! widened {
    ($($t:ty => $wide:ty),*) => { $(
        impl Widened for $t {
            type Wide = $wide;
            fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, $wide> {
                Dense::<$wide>::mapped(values, nulls, <$wide>::from)
            }
            #[inline]
            fn narrowed(wide: $wide) -> Self { wide as $t }
        }
    )* };
    ($($t:ty),*) => { $(
        impl Widened for $t {
            type Wide = $t;
            fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, $t> {
                Dense::of(values, nulls)
            }
            #[inline]
            fn narrowed(wide: $t) -> Self { wide }
        }
    )* };
}
widened!(i32, i64, u64, f64);
widened!(i8 => i32, i16 => i32, u8 => i32, u16 => i32, u32 => i64, f32 => f64);

impl Ordered for i128 {
    const GREATEST: Self = i128::MAX;
    const LEAST: Self = i128::MIN;
    #[inline]
    fn lesser(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline]
    fn greater(self, other: Self) -> Self {
        self.max(other)
    }
    #[inline]
    fn same(self, other: Self) -> bool {
        self == other
    }
}

/// Least value, or greatest.
pub(super) struct Extreme<const MAX: bool>;

impl<T: Ordered, const MAX: bool> Fold<T> for Extreme<MAX> {
    type State = T;

    fn identity(&self) -> T {
        if MAX { T::LEAST } else { T::GREATEST }
    }

    #[inline]
    fn lift(&self, _: usize, value: T) -> T {
        value
    }

    #[inline]
    fn combine(&self, earlier: T, later: T) -> T {
        if MAX { earlier.greater(later) } else { earlier.lesser(later) }
    }

    #[inline]
    fn evict(&self, running: T, leaving: T) -> Option<T> {
        // Another value may be as extreme; only a scan knows.
        (!running.same(leaving)).then_some(running)
    }
}

/// [`Extreme`] with SIMD for what enters in bulk and for flips.
pub(super) struct ExtremeSimd<const MAX: bool>;

impl<T: Ordered + Element, const MAX: bool> Fold<T> for ExtremeSimd<MAX> {
    type State = T;

    fn identity(&self) -> T {
        Extreme::<MAX>.identity()
    }

    #[inline]
    fn lift(&self, _: usize, value: T) -> T {
        value
    }

    #[inline]
    fn combine(&self, earlier: T, later: T) -> T {
        Extreme::<MAX>.combine(earlier, later)
    }

    #[inline]
    fn reduce(&self, position: usize, values: &[T]) -> T {
        if values.len() < BULK {
            return Extreme::<MAX>.reduce(position, values);
        }
        let extreme = if MAX { simd::reduce_max(values.into()) } else { simd::reduce_min(values.into()) };
        extreme.unwrap_or(self.identity())
    }

    #[inline]
    fn flip(&self, position: usize, values: &[T], front: &mut Vec<T>) {
        if values.len() < BULK {
            return Extreme::<MAX>.flip(position, values, front);
        }
        front.clear();
        if MAX { simd::suffix_max(values, front) } else { simd::suffix_min(values, front) }
    }
}

/// From so many values on a call of a SIMD kernel pays.
const BULK: usize = 32;

/// Position of the first of the least keys. Keys have the order of the values, or the reverse for an argmax.
pub(super) struct ArgLeast;

/// Values whose order integers can have.
pub(super) trait Keyed: Copy {
    type Key: Ord + Copy + std::ops::Not<Output = Self::Key>;
    /// An integer with the order of the values.
    fn ordinal(self) -> Self::Key;
}

macro_rules! keyed {
    ($($t:ty: $wide:ty => $key:ty),*) => { $(
        impl Keyed for $t {
            type Key = $key;
            #[inline]
            fn ordinal(self) -> $key { (<$wide>::from(self) as $key) ^ (<$wide>::MIN as $key) }
        }
    )* };
}
keyed!(i8: i64 => u64, i16: i64 => u64, i32: i64 => u64, i64: i64 => u64, i128: i128 => u128);
keyed!(u8: u64 => u64, u16: u64 => u64, u32: u64 => u64, u64: u64 => u64);

impl Keyed for f64 {
    type Key = u64;
    #[inline]
    fn ordinal(self) -> u64 {
        if self.is_nan() {
            return u64::MAX;
        }
        // Adding 0 makes zeros equal. Of negative floats all bits count downwards, of others but the sign upwards.
        let bits = (self + 0.0).to_bits();
        bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
    }
}

impl Keyed for f32 {
    type Key = u64;
    #[inline]
    fn ordinal(self) -> u64 {
        f64::from(self).ordinal()
    }
}

impl<K: Ord + Copy> Fold<K> for ArgLeast {
    type State = (Option<K>, usize);

    fn identity(&self) -> Self::State {
        (None, NONE)
    }

    #[inline]
    fn lift(&self, position: usize, key: K) -> Self::State {
        (Some(key), position)
    }

    #[inline]
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
        match (earlier.0, later.0) {
            (Some(first), Some(second)) if second < first => later,
            (None, _) => later,
            _ => earlier,
        }
    }

    #[inline]
    fn evict(&self, running: Self::State, leaving: Self::State) -> Option<Self::State> {
        (running.1 != leaving.1).then_some(running)
    }
}

/// Integers wide enough for every sum of a column.
pub(super) trait Total: Copy {
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// As 128 bits, if they hold it.
    fn narrow(self) -> Option<i128>;
    /// As 256 bits.
    fn wide(self) -> i256;
}

macro_rules! total {
    ($($t:ty),*) => { $(
        impl Total for $t {
            const ZERO: Self = 0;
            #[inline]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline]
            fn minus(self, other: Self) -> Self { self - other }
            #[inline]
            fn narrow(self) -> Option<i128> { Some(self.into()) }
            fn wide(self) -> i256 { i256::from_i128(self.into()) }
        }
    )* };
}
total!(i64, i128);

impl Total for i256 {
    const ZERO: Self = i256::ZERO;
    #[inline]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    fn narrow(self) -> Option<i128> {
        self.to_i128()
    }
    fn wide(self) -> i256 {
        self
    }
}

/// Sum of integers, exact: its type holds the sum of the whole column.
pub(super) struct ExactSum;

impl<T: Total> Fold<T> for ExactSum {
    type State = T;

    fn identity(&self) -> T {
        T::ZERO
    }

    #[inline]
    fn lift(&self, _: usize, value: T) -> T {
        value
    }

    #[inline]
    fn combine(&self, earlier: T, later: T) -> T {
        earlier.plus(later)
    }

    #[inline]
    fn evict(&self, running: T, leaving: T) -> Option<T> {
        Some(running.minus(leaving))
    }
}

/// Sum of floats in two parts, their sum rounded once at the end: the rounding error of each addition is kept (Knuth's
/// TwoSum), so that the error of a window of n values is at most u·|sum| + O(n·u²)·Σ|x|, with u = 2⁻⁵³. Nothing is ever
/// subtracted, so that no value outlives its window.
pub(super) struct FloatSum;

/// The plain sum and what its additions lost.
pub(super) type Compensated = (f64, f64);

impl FloatSum {
    /// The sum; infinite or NaN as the plain sum is.
    #[inline]
    pub fn value((sum, lost): Compensated) -> f64 {
        // What is lost by a sum that is infinite, or by one at the edge of the range, is NaN.
        if lost.is_nan() { sum } else { sum + lost }
    }
}

impl Fold<f64> for FloatSum {
    type State = Compensated;

    fn identity(&self) -> Compensated {
        (0.0, 0.0)
    }

    #[inline]
    fn lift(&self, _: usize, value: f64) -> Compensated {
        (value, 0.0)
    }

    #[inline]
    fn combine(&self, earlier: Compensated, later: Compensated) -> Compensated {
        let (a, b) = (earlier.0, later.0);
        let sum = a + b;
        let part = sum - a;
        (sum, (a - (sum - part)) + (b - part) + (earlier.1 + later.1))
    }
}

/// Number, mean and squared deviations, joined as Chan, Golub and LeVeque (1979) do: no cancellation, no drift.
///
/// The mean is kept in two parts, as the difference of two means that are close, and far from zero, is what counts: with
/// one part, values of 10⁹ ± 1 would keep seven digits of their variance.
pub(super) struct Moments;

#[derive(Clone, Copy)]
pub(super) struct Moment {
    count: f64,
    mean: Compensated,
    m2: f64,
}

impl Moment {
    /// The variance with `ddof` values' worth of freedom taken off; NaN of no more than `ddof` values.
    #[inline]
    pub fn variance(self, ddof: f64) -> f64 {
        if self.count > ddof { self.m2 / (self.count - ddof) } else { f64::NAN }
    }
}

impl Fold<f64> for Moments {
    type State = Moment;

    fn identity(&self) -> Moment {
        Moment { count: 0.0, mean: (0.0, 0.0), m2: 0.0 }
    }

    #[inline]
    fn lift(&self, _: usize, value: f64) -> Moment {
        // The deviation of a value from itself is 0, but of an infinity or NaN it is NaN, as in Spark.
        Moment { count: 1.0, mean: (value, 0.0), m2: if value.is_finite() { 0.0 } else { f64::NAN } }
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
        let delta = (later.mean.0 - earlier.mean.0) + (later.mean.1 - earlier.mean.1);
        let share = later.count / count;
        let (mean, lost) = FloatSum.combine(earlier.mean, (delta * share, 0.0));
        Moment {
            count,
            mean: (mean, lost),
            m2: earlier.m2 + later.m2 + delta * delta * earlier.count * share,
        }
    }

    /// In two passes: the mean, and the deviations from it, whose own mean is what the first pass lost.
    #[inline]
    fn reduce(&self, position: usize, values: &[f64]) -> Moment {
        let one_by_one = || {
            let lifted = values.iter().enumerate().map(|(at, &value)| self.lift(position + at, value));
            lifted.fold(self.identity(), |state, moment| self.combine(state, moment))
        };
        if values.len() < BULK {
            return one_by_one();
        }
        let count = values.len() as f64;
        let (sum, _) = lanes(values, |value| (value, 0.0));
        let mean = sum / count;
        if !mean.is_finite() {
            return one_by_one();
        }
        let (first, second) = lanes(values, |value| {
            let deviation = value - mean;
            (deviation, deviation * deviation)
        });
        Moment { count, mean: (mean, first / count), m2: second - first * (first / count) }
    }
}

/// Two sums over values, in lanes that a compiler can make vectors of.
#[inline]
fn lanes(values: &[f64], terms: impl Fn(f64) -> (f64, f64)) -> (f64, f64) {
    const LANES: usize = 16;
    let (mut first, mut second) = ([0.0; LANES], [0.0; LANES]);
    let blocks = values.chunks_exact(LANES);
    let mut rest = blocks
        .remainder()
        .iter()
        .map(|&value| terms(value))
        .fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
    for block in blocks {
        for lane in 0..LANES {
            let term = terms(block[lane]);
            first[lane] += term.0;
            second[lane] += term.1;
        }
    }
    for lane in 0..LANES {
        rest = (rest.0 + first[lane], rest.1 + second[lane]);
    }
    rest
}

/// [`FloatSum`] of what enters in bulk by SIMD, each lane compensated.
pub(super) struct FloatSumSimd;

impl Fold<f64> for FloatSumSimd {
    type State = Compensated;

    fn identity(&self) -> Compensated {
        FloatSum.identity()
    }

    #[inline]
    fn lift(&self, position: usize, value: f64) -> Compensated {
        FloatSum.lift(position, value)
    }

    #[inline]
    fn combine(&self, earlier: Compensated, later: Compensated) -> Compensated {
        FloatSum.combine(earlier, later)
    }

    #[inline]
    fn reduce(&self, position: usize, values: &[f64]) -> Compensated {
        if values.len() < BULK {
            return FloatSum.reduce(position, values);
        }
        simd::reduce_compensated(values)
    }
}
