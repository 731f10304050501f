//! One function by one algorithm over one type, behind a trait object that hides all three.

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, cast::AsArray};
use arrow_buffer::NullBuffer;

use super::{ChunkedQueue, Fifo};
use crate::algebra::Lift;
use crate::poll::Poll;
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

/// Rows that are taken in without a look whether to go on.
const ROWS: usize = 1 << 13;

/// A window of any function and algorithm.
pub(super) trait Rows: Send {
    fn len(&self) -> u64;
    fn null_count(&self) -> u64;
    /// Values as [`Rows::insert`] and [`Rows::slide`] take them.
    fn read(&self, values: &ArrayRef) -> Result<ArrayRef>;
    fn insert(&mut self, values: &ArrayRef, poll: Poll) -> Result<()>;
    /// This many rows must exist.
    fn evict(&mut self, rows: u64);
    fn query(&self) -> Result<ArrayRef>;
    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64, poll: Poll) -> Result<ArrayRef>;
    /// If a change has begun, this is all of it, and cannot fail any more.
    fn clear(&mut self);
    fn begin(&mut self);
    /// Keeps what changed since [`Rows::begin`], or takes it back. Neither allocates.
    fn settle(&mut self, keeps: bool);
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
}

type Finish<A> = Box<dyn Fn(Vec<A>, Option<NullBuffer>) -> Result<ArrayRef> + Send>;

/// Values in a [`Fifo`], with nulls kept separately: the algorithm only sees what is aggregated.
struct Held<Q> {
    values: Q,
    /// The numbers of the rows that are null.
    nulls: ChunkedQueue<u64>,
    head: u64,
    tail: u64,
}

impl<Q> Held<Q> {
    /// No rows; the first will have this number.
    fn empty(values: Q, tail: u64) -> Self {
        Self { values, nulls: ChunkedQueue::new(), head: tail, tail }
    }
}

pub(super) struct Typed<T, M, Q, L, A> {
    monoid: M,
    function: Function<L, A>,
    held: Held<Q>,
    /// The numbers of the first row and after the last when a change began; queues know what else has changed.
    before: Option<(u64, u64)>,
    values: std::marker::PhantomData<fn() -> T>,
}

impl<T, M, Q, L, A> Typed<T, M, Q, L, A>
where
    T: ArrowPrimitiveType,
    M: Lift<T::Native>,
    Q: Fifo<M>,
    L: Fn(M::State, u64) -> Option<A>,
    A: Copy + Default,
{
    pub(super) fn new(monoid: M, function: Function<L, A>) -> Self {
        let held = Held::empty(Q::new(monoid.clone()), 0);
        Self { monoid, function, held, before: None, values: std::marker::PhantomData }
    }

    #[inline]
    fn insert_one(&mut self, value: Option<T::Native>) {
        let held = &mut self.held;
        match value {
            Some(value) => held.values.insert(self.monoid.lift(held.tail as usize, value)),
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
}

impl<T, M, Q, L, A> Rows for Typed<T, M, Q, L, A>
where
    T: ArrowPrimitiveType,
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

    fn insert(&mut self, values: &ArrayRef, poll: Poll) -> Result<()> {
        let values = values.as_primitive::<T>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        for from in (0..values.len()).step_by(ROWS) {
            if from > 0 {
                poll()?;
            }
            for (at, &value) in (from..).zip(&values.values()[from..values.len().min(from + ROWS)]) {
                self.insert_one(nulls.is_none_or(|nulls| nulls.is_valid(at)).then_some(value));
            }
        }
        Ok(())
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

    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64, poll: Poll) -> Result<ArrayRef> {
        while self.held.tail - self.held.head > size {
            self.evict_one();
        }
        let values = values.as_primitive::<T>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut answers = Vec::with_capacity(values.len());
        let mut valid = Vec::with_capacity(values.len());
        for from in (0..values.len()).step_by(ROWS) {
            if from > 0 {
                poll()?;
            }
            let some = &values.values()[from..values.len().min(from + ROWS)];
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

    fn clear(&mut self) {
        self.held = Held::empty(Q::new(self.monoid.clone()), self.held.tail);
        self.before = None;
    }

    fn begin(&mut self) {
        let held = &mut self.held;
        held.values.begin();
        held.nulls.begin();
        self.before = Some((held.head, held.tail));
    }

    fn settle(&mut self, keeps: bool) {
        if let Some(before) = self.before.take().filter(|_| !keeps) {
            (self.held.head, self.held.tail) = before;
        }
        self.held.values.settle(keeps);
        self.held.nulls.settle(keeps);
    }
}
