//! One function by one algorithm over one type, behind a trait object that hides all three.

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, cast::AsArray};
use arrow_buffer::NullBuffer;

use super::{ChunkedQueue, Fifo};
use crate::algebra::Lift;
use crate::interrupt::{STEPS, check};
use crate::{Error, Result};

/// The algorithm of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// [`super::Daba`]: each operation in constant time.
    Daba,
    /// [`super::TwoStacksLite`]: constant time on average.
    TwoStacks,
}

impl Algorithm {
    /// Names that [`Algorithm::parse`] knows.
    pub const NAMES: [&'static str; 2] = ["daba", "two_stacks"];

    /// The algorithm of this name.
    ///
    /// # Errors
    /// `InvalidValue` for a name outside [`Algorithm::NAMES`].
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "daba" => Ok(Self::Daba),
            "two_stacks" => Ok(Self::TwoStacks),
            _ => Err(Error::InvalidValue(format!(
                "algorithm: '{name}' is unknown; allowed are {}",
                Self::NAMES.join(", ")
            ))),
        }
    }
}

/// A window of any function and algorithm.
pub(super) trait Rows: Send {
    fn len(&self) -> u64;
    fn null_count(&self) -> u64;
    /// Values as [`Rows::insert`] and [`Rows::slide`] take them.
    fn read(&self, values: &ArrayRef) -> Result<ArrayRef>;
    fn insert(&mut self, values: &ArrayRef);
    /// This many rows must exist.
    fn evict(&mut self, rows: u64);
    fn query(&self) -> Result<ArrayRef>;
    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef>;
    fn clear(&mut self);
}

/// How Arrow values are converted to those of a monoid, and its partials to answers.
pub(super) struct Function<L, A> {
    /// Values, as the type that the monoid is over.
    pub read: fn(&ArrayRef) -> Result<ArrayRef>,
    /// The answer for this many values that combine to a state; `None` where it is null.
    pub lower: L,
    /// Answers in the output type, or an overflow.
    pub finish: Finish<A>,
    /// The answer of no values.
    pub of_none: Option<A>,
    /// The number of values from which on an answer may not fit its type.
    pub reach: Reach,
}

type Finish<A> = Box<dyn Fn(Vec<A>, Option<NullBuffer>) -> Result<ArrayRef> + Send>;

/// A bound for answers that may not fit their type. It must never report an overflow that does not occur.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// All fit.
    Unbounded,
    /// Those of values up to this fit.
    Value(f64),
    /// Those of values that are no more than this, times the rows of a window.
    Sum(f64),
}

impl Reach {
    fn may_overflow(self, largest: f64, rows: u64) -> bool {
        match self {
            Reach::Unbounded => false,
            Reach::Value(limit) => largest > limit,
            Reach::Sum(limit) => largest * rows as f64 > limit,
        }
    }
}

/// Values whose magnitude bounds the answers.
pub(super) trait Magnitude: Copy {
    fn magnitude(self) -> f64;
}

macro_rules! magnitude {
    ($($t:ty),*) => { $(
        impl Magnitude for $t {
            #[inline]
            fn magnitude(self) -> f64 {
                (self as f64).abs()
            }
        }
    )* };
}
magnitude!(i8, i64, u64, f64, i128);

/// Values in a [`Fifo`], with nulls kept separately: the algorithm only sees what is aggregated.
#[derive(Clone)]
struct Held<Q> {
    values: Q,
    /// The numbers of the rows that are null.
    nulls: ChunkedQueue<u64>,
    head: u64,
    tail: u64,
    /// The greatest magnitude since the window was last empty.
    largest: f64,
}

pub(super) struct Typed<T, M, Q, L, A> {
    monoid: M,
    function: Function<L, A>,
    held: Held<Q>,
    values: std::marker::PhantomData<fn() -> T>,
}

impl<T, M, Q, L, A> Typed<T, M, Q, L, A>
where
    T: ArrowPrimitiveType<Native: Magnitude>,
    M: Lift<T::Native>,
    Q: Fifo<M>,
    L: Fn(M::State, u64) -> Option<A>,
    A: Copy + Default,
{
    pub(super) fn new(monoid: M, function: Function<L, A>) -> Self {
        let values = Q::new(monoid.clone());
        let held = Held { values, nulls: ChunkedQueue::new(), head: 0, tail: 0, largest: 0.0 };
        Self { monoid, function, held, values: std::marker::PhantomData }
    }

    #[inline]
    fn insert_one(&mut self, value: Option<T::Native>) {
        let held = &mut self.held;
        match value {
            Some(value) => {
                if !matches!(self.function.reach, Reach::Unbounded) {
                    held.largest = held.largest.max(value.magnitude());
                }
                held.values.insert(self.monoid.lift(held.tail as usize, value));
            }
            None => held.nulls.push(held.tail),
        }
        held.tail += 1;
    }

    #[inline]
    fn evict_one(&mut self) {
        let held = &mut self.held;
        if !held.nulls.is_empty() && held.nulls.get(held.nulls.head()) == held.head {
            held.nulls.pop();
        } else {
            held.values.evict();
        }
        held.head += 1;
    }

    #[inline]
    fn answer(&self) -> Option<A> {
        match self.held.values.query() {
            Some(state) => (self.function.lower)(state, self.held.values.len()),
            None => self.function.of_none,
        }
    }

    /// `may_end` says whether the window is as before after an interrupt.
    fn slide_over(
        &mut self,
        values: &ArrayRef,
        (size, min_periods): (u64, u64),
        may_end: bool,
    ) -> Result<ArrayRef> {
        while self.held.tail - self.held.head > size {
            self.evict_one();
        }
        let values = values.as_primitive::<T>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut answers = Vec::with_capacity(values.len());
        let mut valid = Vec::with_capacity(values.len());
        for from in (0..values.len()).step_by(STEPS) {
            if from > 0 && may_end {
                check()?;
            }
            let some = &values.values()[from..values.len().min(from + STEPS)];
            for (at, &value) in (from..).zip(some) {
                let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(at));
                if self.held.tail - self.held.head == size {
                    self.evict_one();
                }
                self.insert_one(is_valid.then_some(value));
                let answer = if self.held.values.len() >= min_periods { self.answer() } else { None };
                valid.push(answer.is_some());
                answers.push(answer.unwrap_or_default());
            }
        }
        let valid = NullBuffer::from(valid);
        (self.function.finish)(answers, Some(valid).filter(|valid| valid.null_count() > 0))
    }
}

impl<T, M, Q, L, A> Rows for Typed<T, M, Q, L, A>
where
    T: ArrowPrimitiveType<Native: Magnitude>,
    M: Lift<T::Native> + Send,
    Q: Fifo<M> + Send,
    L: Fn(M::State, u64) -> Option<A> + Send,
    A: Copy + Default + Send,
{
    fn len(&self) -> u64 {
        self.held.tail - self.held.head
    }

    fn null_count(&self) -> u64 {
        self.held.nulls.len()
    }

    fn read(&self, values: &ArrayRef) -> Result<ArrayRef> {
        (self.function.read)(values)
    }

    fn insert(&mut self, values: &ArrayRef) {
        let values = values.as_primitive::<T>();
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => values.values().iter().for_each(|&value| self.insert_one(Some(value))),
            Some(_) => values.iter().for_each(|value| self.insert_one(value)),
        }
    }

    fn evict(&mut self, rows: u64) {
        if rows == self.len() {
            return self.clear();
        }
        (0..rows).for_each(|_| self.evict_one());
    }

    fn query(&self) -> Result<ArrayRef> {
        let answer = self.answer();
        let nulls = answer.is_none().then(|| NullBuffer::new_null(1));
        (self.function.finish)(vec![answer.unwrap_or_default()], nulls)
    }

    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef> {
        let reach = self.function.reach;
        let magnitudes = values.as_primitive::<T>().values().iter().map(|&value| value.magnitude());
        let may_overflow = !matches!(reach, Reach::Unbounded)
            && reach.may_overflow(magnitudes.fold(self.held.largest, f64::max), size);
        // Short work need not end early.
        let may_end = values.len() > STEPS && values.len() as u64 >= self.len();
        // A copy takes O(window), so it is made only where it may be needed.
        let before = (may_overflow || may_end).then(|| self.held.clone());
        let answers = self.slide_over(values, (size, min_periods), before.is_some());
        if let (Err(_), Some(before)) = (&answers, before) {
            self.held = before;
        }
        answers
    }

    fn clear(&mut self) {
        let held = &mut self.held;
        held.values.clear();
        held.nulls.clear();
        (held.head, held.largest) = (held.tail, 0.0);
    }
}
