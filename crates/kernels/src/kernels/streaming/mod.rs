//! Sliding windows over a stream: rows enter at one end and leave at the other, and the aggregate of the rows in
//! between is available at any time.
//!
//! [`Fifo`] is the interface of an algorithm: [`Daba`] bounds the time of each single operation, [`TwoStacksLite`] only
//! their mean. Both take any [`Monoid`]; neither needs its identity, an inverse or commutativity. [`StreamWindow`] adds
//! Arrow's types, nulls and the functions of [`crate::algebra`].

mod daba;
mod functions;
mod queue;
mod rows;
mod two_stacks_lite;
mod window;

pub use daba::Daba;
pub use queue::ChunkedQueue;
pub use rows::Algorithm;
pub use two_stacks_lite::TwoStacksLite;
pub use window::{Change, Number, StreamWindow};

use crate::algebra::Monoid;

/// The aggregate of a first-in, first-out queue of partial aggregates.
///
/// ```
/// use windowkit_kernels::algebra::Extremum;
/// use windowkit_kernels::streaming::{Daba, Fifo};
///
/// let mut window = Daba::new(Extremum::<i32, true>::new(false));
/// [3, 1, 2].into_iter().for_each(|value| window.insert(value));
/// assert_eq!(window.query(), Some(3));
/// window.evict();
/// assert_eq!(window.query(), Some(2));
/// ```
pub trait Fifo<M: Monoid> {
    /// An empty window.
    fn new(function: M) -> Self;

    /// Adds a value at the back.
    fn insert(&mut self, state: M::State);

    /// Removes the oldest value; returns whether there was one.
    fn evict(&mut self) -> bool;

    /// The aggregate of all values, oldest first; `None` for an empty window.
    fn query(&self) -> Option<M::State>;

    /// How many values are in the window.
    fn len(&self) -> u64;

    /// Whether no value is in the window.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all values; what changed before is kept.
    fn clear(&mut self);

    /// Notes from here on what changes, at O(1) for each change, until [`Fifo::settle`].
    fn begin(&mut self);

    /// Keeps what changed since [`Fifo::begin`], or takes it back.
    fn settle(&mut self, keeps: bool);
}

/// The combination of two sides either of which may be empty.
#[inline]
fn join<M: Monoid>(monoid: &M, earlier: Option<M::State>, later: Option<M::State>) -> Option<M::State> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some(monoid.combine(earlier, later)),
        (earlier, later) => earlier.or(later),
    }
}

/// Shared by the tests of both algorithms.
#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::{Fifo, Monoid};

    /// Concatenated strings: associative, not commutative, and its result shows each value and their order. It counts its
    /// calls.
    #[derive(Clone, Default)]
    pub struct Spans {
        pub combines: Rc<Cell<u64>>,
    }

    impl Monoid for Spans {
        /// First and one past the last of consecutive numbers: a value `n` is `(n, n + 1)`.
        type State = (u64, u64);

        fn identity(&self) -> (u64, u64) {
            unreachable!("a queue needs no identity")
        }

        fn combine(&self, earlier: (u64, u64), later: (u64, u64)) -> (u64, u64) {
            self.combines.set(self.combines.get() + 1);
            assert_eq!(earlier.1, later.0, "only neighbours are joined, in order");
            (earlier.0, later.1)
        }
    }

    /// What can be done to a window.
    #[derive(Debug, Clone, Copy)]
    pub enum Op {
        Insert,
        Evict,
        Clear,
    }

    /// Runs of operations in which windows grow to a few hundred values, shrink, and are emptied.
    pub fn operations() -> impl Strategy<Value = Vec<Op>> {
        let most = if cfg!(miri) { 20 } else { 400usize };
        let run = prop_oneof![
            6 => (1..most).prop_map(|n| vec![Op::Insert; n]),
            5 => (1..most).prop_map(|n| vec![Op::Evict; n]),
            6 => (1..most).prop_map(|n| [Op::Insert, Op::Evict].repeat(n)),
            1 => Just(vec![Op::Clear]),
        ];
        prop::collection::vec(run, 1..12).prop_map(|runs| runs.concat())
    }

    /// Few enough cases for an interpreter.
    pub fn config() -> ProptestConfig {
        ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 96 },
            failure_persistence: None,
            ..Default::default()
        }
    }

    /// Compares a window with a deque after each operation; returns the most combines of one insert, evict and query.
    pub fn compare_with_a_deque<F: Fifo<Spans>>(
        operations: &[Op],
        check: impl Fn(&F, &VecDeque<u64>),
    ) -> Result<[u64; 3], TestCaseError> {
        let function = Spans::default();
        let mut window = F::new(function.clone());
        let (mut naive, mut next, mut most) = (VecDeque::new(), 0, [0; 3]);
        for &operation in operations {
            function.combines.set(0);
            match operation {
                Op::Insert => {
                    window.insert((next, next + 1));
                    naive.push_back(next);
                    next += 1;
                    most[0] = most[0].max(function.combines.get());
                }
                Op::Evict => {
                    prop_assert_eq!(window.evict(), naive.pop_front().is_some());
                    most[1] = most[1].max(function.combines.get());
                }
                Op::Clear => {
                    window.clear();
                    naive.clear();
                }
            }
            function.combines.set(0);
            let want = naive.front().zip(naive.back()).map(|(&first, &last)| (first, last + 1));
            prop_assert_eq!(window.query(), want);
            most[2] = most[2].max(function.combines.get());
            prop_assert_eq!(window.len(), naive.len() as u64);
            check(&window, &naive);
        }
        Ok(most)
    }
}
