//! The least value, or the greatest.

use std::marker::PhantomData;

use super::{BULK, Lift, Monoid, Ordered, one_by_one};

/// The least value, or the greatest; of equal ones the earlier.
#[derive(Debug, Clone, Copy)]
pub struct Extremum<T, const MAX: bool> {
    /// Whether many values at once are reduced by vectors.
    pub vectors: bool,
    value: PhantomData<fn() -> T>,
}

impl<T, const MAX: bool> Extremum<T, MAX> {
    /// By vectors if `vectors` is set and many values are taken in at once.
    pub fn new(vectors: bool) -> Self {
        Self { vectors, value: PhantomData }
    }
}

impl<T: Ordered, const MAX: bool> Extremum<T, MAX> {
    /// Whether a value is more extreme than another.
    #[inline]
    pub fn wins(value: T, over: T) -> bool {
        if MAX { over.is_below(value) } else { value.is_below(over) }
    }
}

impl<T: Ordered, const MAX: bool> Monoid for Extremum<T, MAX> {
    type State = T;

    #[inline]
    fn identity(&self) -> T {
        if MAX { T::LEAST } else { T::GREATEST }
    }

    #[inline]
    fn combine(&self, earlier: T, later: T) -> T {
        if MAX { earlier.greater(later) } else { earlier.lesser(later) }
    }

    #[inline]
    fn absorb(&self, state: &mut T, later: T) {
        if Self::wins(later, *state) {
            *state = later;
        }
    }

    #[inline]
    fn evict(&self, whole: T, part: T) -> Option<T> {
        // Another value may be as extreme; only a scan can find out.
        Self::wins(whole, part).then_some(whole)
    }
}

impl<T: Ordered, const MAX: bool> Lift<T> for Extremum<T, MAX> {
    #[inline]
    fn lift(&self, _: usize, value: T) -> T {
        value
    }

    #[inline]
    fn reduce(&self, position: usize, values: &[T]) -> T {
        if !self.vectors || values.len() < BULK {
            return one_by_one(self, position, values);
        }
        T::extreme(values, MAX).unwrap_or(self.identity())
    }
}
