//! The place of the least key; of equal keys the first place. A greatest key is the least by the reverse order.

use std::cmp::Ordering;

use super::{Lift, Monoid, Place};

/// An order of keys.
pub trait Order<K>: Clone {
    /// How two keys compare.
    fn compare(&self, a: K, b: K) -> Ordering;
}

/// The natural order of a type.
impl<K: Ord> Order<K> for () {
    #[inline]
    fn compare(&self, a: K, b: K) -> Ordering {
        a.cmp(&b)
    }
}

/// A key and its place; without a key the place is [`Place::nowhere`].
#[derive(Debug, Clone, Copy)]
pub struct Placed<K, P> {
    /// The key.
    pub key: K,
    /// Its place.
    pub place: P,
}

/// The place of the least key.
#[derive(Debug, Clone, Copy)]
pub struct Arg<O, K, P> {
    /// The order of keys.
    pub order: O,
    placed: std::marker::PhantomData<fn() -> Placed<K, P>>,
}

impl<O, K, P> Arg<O, K, P> {
    /// Ordered by `order`.
    pub fn new(order: O) -> Self {
        Self { order, placed: std::marker::PhantomData }
    }
}

impl<K: Copy + Default, P: Place, O: Order<K>> Monoid for Arg<O, K, P> {
    type State = Placed<K, P>;

    #[inline]
    fn identity(&self) -> Placed<K, P> {
        Placed { key: K::default(), place: P::nowhere() }
    }

    #[inline]
    fn combine(&self, earlier: Placed<K, P>, later: Placed<K, P>) -> Placed<K, P> {
        if earlier.place.is_nowhere() {
            return later;
        }
        if later.place.is_nowhere() {
            return earlier;
        }
        let later_wins = match self.order.compare(later.key, earlier.key) {
            Ordering::Less => true,
            Ordering::Equal => later.place.is_before(earlier.place),
            Ordering::Greater => false,
        };
        if later_wins { later } else { earlier }
    }

    #[inline]
    fn evict(&self, whole: Placed<K, P>, part: Placed<K, P>) -> Option<Placed<K, P>> {
        let stays =
            part.place.is_nowhere() || part.place.is_before(whole.place) || whole.place.is_before(part.place);
        stays.then_some(whole)
    }
}

impl<K: Copy + Default, O: Order<K>> Lift<K> for Arg<O, K, usize> {
    #[inline]
    fn lift(&self, position: usize, key: K) -> Placed<K, usize> {
        Placed { key, place: position }
    }
}
