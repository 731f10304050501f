//! The functions that windows aggregate by, each written once: how values become partial aggregates, how these are
//! combined, and what can be removed from one again (Traub et al. 2019, §4.2).
//!
//! Columns of slots (`aggregate`), kernels over arrays (`kernels`) and queues over streams (`kernels::streaming`) are
//! three ways to evaluate the same functions, so that a sum is rounded alike in all of them. Where many values are reduced
//! at once, [`crate::simd`] does it.

/// Makes a struct the [`Monoid`] that it has in a field: the methods of its `impl`.
#[macro_export]
macro_rules! monoid_of {
    ($field:tt) => {
        #[inline]
        fn identity(&self) -> Self::State {
            self.$field.identity()
        }

        #[inline]
        fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
            self.$field.combine(earlier, later)
        }

        #[inline]
        fn absorb(&self, state: &mut Self::State, later: Self::State) {
            self.$field.absorb(state, later);
        }

        fn inverts(&self) -> bool {
            self.$field.inverts()
        }

        #[inline]
        fn evict(&self, whole: Self::State, part: Self::State) -> Option<Self::State> {
            self.$field.evict(whole, part)
        }

        fn subtracts(&self) -> bool {
            self.$field.subtracts()
        }

        fn subtract(&self, whole: Self::State, part: Self::State) -> Option<Self::State> {
            self.$field.subtract(whole, part)
        }
    };
}
pub use crate::monoid_of;

mod arg;
mod count;
mod ends;
mod exact;
mod extrema;
mod float;
mod moments;
mod numbers;
mod ordered;

pub use arg::{Arg, Order, Placed};
pub use count::Count;
pub use ends::{At, End, Place};
pub use exact::{ExactSum, Total, divided};
pub use extrema::Extremum;
pub use float::{FloatSum, Twofold};
pub use moments::Variance;
pub use numbers::{
    integers, is_number, mean_type, mean_unit, of_physical, ordinals, physical, physical_of, sum_type,
};
pub use ordered::{Keyed, Ordered};

/// An associative `combine` with an identity.
///
/// It may carry context that states refer to, such as the store that positions point into.
pub trait Monoid: Clone {
    /// A partial aggregate.
    type State: Copy;

    /// `combine(identity, x) == combine(x, identity) == x`.
    fn identity(&self) -> Self::State;

    /// Joins two partials; `earlier` comes before `later`.
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State;

    /// `*state = combine(*state, later)`. Functions whose state seldom changes write only when it does, so that the
    /// next row of the slot need not wait for the write.
    #[inline]
    fn absorb(&self, state: &mut Self::State, later: Self::State) {
        *state = self.combine(*state, later);
    }

    /// Whether there is an exact inverse, so that [`Monoid::evict`] always returns a result.
    fn inverts(&self) -> bool {
        false
    }

    /// The rest of `whole` without `part`, if these two determine it; otherwise the rest has to be combined again. With
    /// an inverse they always do; an extremum is unchanged if a lesser value is removed (Traub et al. 2019, §6.3.2;
    /// Theodorakis et al. 2018, §2.2).
    #[inline]
    fn evict(&self, whole: Self::State, part: Self::State) -> Option<Self::State> {
        let _ = (whole, part);
        None
    }

    /// Whether [`Monoid::subtract`] always returns a result.
    fn subtracts(&self) -> bool {
        self.inverts()
    }

    /// `whole` without `part`, perhaps with a rounding error: done once for a result, and never again and again on a state
    /// as [`Monoid::evict`] is, so that no error accumulates.
    fn subtract(&self, whole: Self::State, part: Self::State) -> Option<Self::State> {
        self.evict(whole, part)
    }

    /// `whole` without `part`, for a function with an inverse.
    #[inline]
    fn invert(&self, whole: Self::State, part: Self::State) -> Self::State {
        self.evict(whole, part).expect("the function has an inverse")
    }
}

/// A [`Monoid`] over values, and steps over many values at once, the first of which SIMD can speed up.
pub trait Lift<V: Copy>: Monoid {
    /// The partial of the value at one position.
    fn lift(&self, position: usize, value: V) -> Self::State;

    /// The partial of neighbouring values, the first of them at `position`.
    #[inline]
    fn reduce(&self, position: usize, values: &[V]) -> Self::State {
        one_by_one(self, position, values)
    }

    /// Fills `front` with the partials of all suffixes, one per value: the flip of Two-Stacks.
    #[inline]
    fn flip(&self, position: usize, values: &[V], front: &mut Vec<Self::State>) {
        front.clear();
        front.resize(values.len(), self.identity());
        let mut suffix = self.identity();
        for (at, (slot, &value)) in front.iter_mut().zip(values).enumerate().rev() {
            suffix = self.combine(self.lift(position + at, value), suffix);
            *slot = suffix;
        }
    }
}

/// The number of values from which on a call of a SIMD kernel pays off.
pub(crate) const BULK: usize = 32;

#[inline]
fn one_by_one<V: Copy, M: Lift<V>>(monoid: &M, position: usize, values: &[V]) -> M::State {
    let lifted = values.iter().enumerate().map(|(at, &value)| monoid.lift(position + at, value));
    lifted.fold(monoid.identity(), |state, value| monoid.combine(state, value))
}

/// A monoid over its own partials.
pub struct OfStates<'a, M>(pub &'a M);

impl<M> Clone for OfStates<'_, M> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<M: Monoid> Monoid for OfStates<'_, M> {
    type State = M::State;
    monoid_of!(0);
}

impl<M: Monoid> Lift<M::State> for OfStates<'_, M> {
    #[inline]
    fn lift(&self, _: usize, state: M::State) -> M::State {
        state
    }
}
