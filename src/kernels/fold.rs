//! What the algorithms need to know of a function: lift, combine, evict (Traub et al. 2019, §4.2), and two steps over
//! many values at once that SIMD can speed up.

/// An associative function over the values of a column.
pub trait Fold<T: Copy> {
    /// A partial aggregate.
    type State: Copy;

    /// `combine(identity, x) == combine(x, identity) == x`.
    fn identity(&self) -> Self::State;

    /// The partial of the value at one position.
    fn lift(&self, position: usize, value: T) -> Self::State;

    /// Joins two partials; `earlier` comes before `later` in the column.
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State;

    /// The running aggregate without its earliest part, where that can be told from the two alone; `None` asks for a
    /// scan of what is left (Theodorakis et al. 2018, §2.2: a minimum that leaves).
    fn evict(&self, running: Self::State, leaving: Self::State) -> Option<Self::State> {
        let _ = (running, leaving);
        None
    }

    /// The partial of neighbouring values, the first of them at `position`.
    #[inline]
    fn reduce(&self, position: usize, values: &[T]) -> Self::State {
        values
            .iter()
            .enumerate()
            .fold(self.identity(), |state, (at, &value)| self.combine(state, self.lift(position + at, value)))
    }

    /// Fills `front` with the partials of all suffixes, one per value: the flip of Two-Stacks.
    #[inline]
    fn flip(&self, position: usize, values: &[T], front: &mut Vec<Self::State>) {
        front.clear();
        front.resize(values.len(), self.identity());
        let mut suffix = self.identity();
        for (at, (slot, &value)) in front.iter_mut().zip(values).enumerate().rev() {
            suffix = self.combine(self.lift(position + at, value), suffix);
            *slot = suffix;
        }
    }
}

/// A column of partials, joined by closures.
pub(super) struct Partials<S, C, I> {
    /// The identity.
    pub identity: S,
    /// `combine(earlier, later)`.
    pub combine: C,
    /// `invert(whole, part)`.
    pub invert: Option<I>,
}

impl<S: Copy, C: Fn(S, S) -> S, I: Fn(S, S) -> S> Fold<S> for Partials<S, C, I> {
    type State = S;

    #[inline]
    fn identity(&self) -> S {
        self.identity
    }

    #[inline]
    fn lift(&self, _: usize, value: S) -> S {
        value
    }

    #[inline]
    fn combine(&self, earlier: S, later: S) -> S {
        (self.combine)(earlier, later)
    }

    #[inline]
    fn evict(&self, running: S, leaving: S) -> Option<S> {
        self.invert.as_ref().map(|invert| invert(running, leaving))
    }
}
