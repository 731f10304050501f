//! First and last: the least existing place, or the greatest.

use super::{Lift, Monoid};

/// Where a value is: by position, or by time and then by arrival.
pub trait Place: Copy {
    /// No place.
    fn nowhere() -> Self;

    /// Whether this is "no place".
    fn is_nowhere(self) -> bool;

    /// Whether this place, which must exist, comes before another.
    fn is_before(self, other: Self) -> bool;
}

impl Place for usize {
    fn nowhere() -> usize {
        usize::MAX
    }

    #[inline]
    fn is_nowhere(self) -> bool {
        self == usize::MAX
    }

    #[inline]
    fn is_before(self, other: usize) -> bool {
        self < other
    }
}

/// A time, and where in a store the value is, by arrival.
impl Place for (i64, u64) {
    fn nowhere() -> (i64, u64) {
        (0, u64::MAX)
    }

    #[inline]
    fn is_nowhere(self) -> bool {
        self.1 == u64::MAX
    }

    #[inline]
    fn is_before(self, other: (i64, u64)) -> bool {
        self < other
    }
}

/// A position, and the value at that position.
#[derive(Debug, Clone, Copy)]
pub struct At<V> {
    /// The position.
    pub position: usize,
    /// The value.
    pub value: V,
}

impl<V: Copy + Default> Place for At<V> {
    fn nowhere() -> At<V> {
        At { position: usize::nowhere(), value: V::default() }
    }

    #[inline]
    fn is_nowhere(self) -> bool {
        self.position.is_nowhere()
    }

    #[inline]
    fn is_before(self, other: At<V>) -> bool {
        self.position < other.position
    }
}

/// The first place, or the last.
#[derive(Debug, Clone, Copy)]
pub struct End<P> {
    last: bool,
    place: std::marker::PhantomData<fn() -> P>,
}

impl<P> End<P> {
    /// The last place if `last`, else the first.
    pub fn new(last: bool) -> Self {
        Self { last, place: std::marker::PhantomData }
    }
}

impl<P: Place> Monoid for End<P> {
    type State = P;

    #[inline]
    fn identity(&self) -> P {
        P::nowhere()
    }

    #[inline]
    fn combine(&self, earlier: P, later: P) -> P {
        if earlier.is_nowhere() {
            return later;
        }
        if later.is_nowhere() {
            return earlier;
        }
        if later.is_before(earlier) != self.last { later } else { earlier }
    }
}

impl<V: Copy> Lift<V> for End<usize> {
    #[inline]
    fn lift(&self, position: usize, _: V) -> usize {
        position
    }
}

impl<V: Copy + Default> Lift<V> for End<At<V>> {
    #[inline]
    fn lift(&self, position: usize, value: V) -> At<V> {
        At { position, value }
    }
}
