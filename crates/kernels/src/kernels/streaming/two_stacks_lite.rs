//! Two-Stacks Lite over a stream: the amortised algorithm that DABA is compared with, in one queue.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; neither identity nor inverse nor commutativity; rows in order |
//! | time | at most 2 `combine` per value and 1 per query, amortised; worst case n - 1 in one evict |
//! | space | n + 1 partial aggregates |
//! | first appeared | adamax, *Re: Implement a queue in which push_rear(), pop_front() and get_min() are all constant time operations*, 2011; in one queue and flipped in place: Theodorakis et al., *Hammer Slide*, ADMS 2018, §3 (1), and TwoStacksLite of IBM/sliding-window-aggregators |
//!
//! Places before `b` hold suffix aggregates `[i, b)`, places from `b` on hold their values, and `back` is the aggregate
//! of those. An evict that finds no front flips: it scans the queue backwards and moves `b` to its end.

use super::{ChunkedQueue, Fifo, join};
use crate::algebra::Monoid;

/// A window whose operations take constant time on average.
pub struct TwoStacksLite<M: Monoid> {
    function: M,
    queue: ChunkedQueue<M::State>,
    b: u64,
    back: Option<M::State>,
    /// The two above, when a change began.
    before: Option<(u64, Option<M::State>)>,
}

impl<M: Monoid> TwoStacksLite<M> {
    fn flip(&mut self) {
        self.b = self.queue.tail();
        self.back = None;
        let mut suffix = None;
        for at in (self.queue.head()..self.b).rev() {
            suffix = join(&self.function, Some(self.queue.get(at)), suffix);
            if let Some(suffix) = suffix {
                self.queue.set(at, suffix);
            }
        }
    }
}

impl<M: Monoid> Fifo<M> for TwoStacksLite<M> {
    fn new(function: M) -> Self {
        Self { function, queue: ChunkedQueue::new(), b: 0, back: None, before: None }
    }

    #[inline]
    fn insert(&mut self, state: M::State) {
        self.back = join(&self.function, self.back, Some(state));
        self.queue.push(state);
    }

    #[inline]
    fn evict(&mut self) -> bool {
        if self.queue.head() == self.b {
            self.flip();
        }
        self.queue.pop().is_some()
    }

    #[inline]
    fn query(&self) -> Option<M::State> {
        let front = (self.queue.head() != self.b).then(|| self.queue.get(self.queue.head()));
        join(&self.function, front, self.back)
    }

    #[inline]
    fn len(&self) -> u64 {
        self.queue.len()
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.b = self.queue.head();
        (self.back, self.before) = (None, None);
    }

    #[inline]
    fn begin(&mut self) {
        self.queue.begin();
        self.before = Some((self.b, self.back));
    }

    #[inline]
    fn settle(&mut self, keeps: bool) {
        self.queue.settle(keeps);
        if let Some(before) = self.before.take().filter(|_| !keeps) {
            (self.b, self.back) = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{Op, Spans, compare_with_a_deque, config, operations};
    use super::*;

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn equals_a_deque(operations in operations()) {
            let [insert, _, query] = compare_with_a_deque::<TwoStacksLite<Spans>>(&operations, |_, _| ())?;
            prop_assert!(insert <= 1 && query <= 1);
        }
    }

    #[test]
    fn one_evict_flips_the_whole_window() {
        let operations = [vec![Op::Insert; 100], vec![Op::Evict, Op::Insert]].concat();
        let most = compare_with_a_deque::<TwoStacksLite<Spans>>(&operations, |_, _| ()).unwrap();
        assert_eq!(most, [1, 99, 1]);
    }
}
