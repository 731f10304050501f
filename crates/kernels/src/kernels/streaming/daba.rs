//! DABA Lite: the De-Amortized Banker's Aggregator, which keeps one partial aggregate per value.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; neither identity nor inverse nor commutativity; rows in order |
//! | time | worst case: at most 3 `combine` per insert, 2 per evict, 1 per query |
//! | space | n + 2 partial aggregates |
//! | first appeared | Tangwongsan, Hirzel, Schneider, *Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time*, DEBS 2017 (DABA); the Lite variant in *In-Order Sliding-Window Aggregation in Worst-Case Constant Time*, VLDB Journal 30, 2021 |
//!
//! Two-Stacks answers from suffix aggregates of a front and one running aggregate of a back; when the front is used up,
//! it turns the whole back into a new front at once, which is a spike as long as the window. DABA starts that turn when
//! the back has grown as long as the front, and does a bounded piece of it at each insert and evict, so that it is done
//! exactly when it is needed. The values lie in one queue, in regions between five numbers:
//!
//! ```text
//!  head           l            r             a             b           tail
//!   |  [i, b)     |   [i, r)   |      i      |   [i, b)    |     i      |
//!   '------------------------ front ----------------------'---- back ---'
//! ```
//!
//! Each place holds the aggregate of the range written in its region (`i` alone: the value itself). `mid` is the
//! aggregate of `[r, b)`, `back` that of `[b, tail)`. While a turn goes on, each step moves `a` one to the left, where
//! the place joins its right neighbour, and `l` one to the right, where the place is joined with `mid`; both reach `r` at
//! the same time. After that, `l`, `r` and `a` only move on together. When `l` reaches `b`, front and back are equally
//! long, and the next turn starts. Invariants of a window that is not empty, which the tests check after each step:
//! `head < l <= r <= a <= b <= tail`, `r - l == a - r`, `b - l + 1 == (b - head) - (tail - b)`.

use super::{ChunkedQueue, Fifo, join};
use crate::algebra::Monoid;

/// A window whose every operation takes constant time.
pub struct Daba<M: Monoid> {
    function: M,
    queue: ChunkedQueue<M::State>,
    l: u64,
    r: u64,
    a: u64,
    b: u64,
    mid: Option<M::State>,
    back: Option<M::State>,
    /// The numbers and aggregates above, when a change began.
    before: Option<Before<M::State>>,
}

type Before<S> = ([u64; 4], [Option<S>; 2]);

impl<M: Monoid> Daba<M> {
    /// Does the bounded piece of work that each change requires.
    #[inline]
    fn step(&mut self) {
        if self.l == self.b {
            // The front has no work left, and the back is as long as the front: turn.
            (self.l, self.r) = (self.queue.head(), self.b);
            (self.a, self.b) = (self.queue.tail(), self.queue.tail());
            self.mid = self.back.take();
        }
        if self.queue.is_empty() {
            return;
        }
        if self.a != self.r {
            self.a -= 1;
            if self.a + 1 != self.b {
                let joined = self.function.combine(self.queue.get(self.a), self.queue.get(self.a + 1));
                self.queue.set(self.a, joined);
            }
        }
        if self.l == self.r {
            self.l += 1;
            self.r += 1;
            self.a += 1;
        } else {
            if let Some(mid) = self.mid {
                self.queue.set(self.l, self.function.combine(self.queue.get(self.l), mid));
            }
            self.l += 1;
        }
    }
}

impl<M: Monoid> Fifo<M> for Daba<M> {
    fn new(function: M) -> Self {
        let queue = ChunkedQueue::new();
        Self { function, queue, l: 0, r: 0, a: 0, b: 0, mid: None, back: None, before: None }
    }

    #[inline]
    fn insert(&mut self, state: M::State) {
        self.back = join(&self.function, self.back, Some(state));
        self.queue.push(state);
        self.step();
    }

    #[inline]
    fn evict(&mut self) -> bool {
        let some = self.queue.pop().is_some();
        if some {
            self.step();
        }
        some
    }

    #[inline]
    fn query(&self) -> Option<M::State> {
        let front = (!self.queue.is_empty()).then(|| self.queue.get(self.queue.head()));
        join(&self.function, front, self.back)
    }

    #[inline]
    fn len(&self) -> u64 {
        self.queue.len()
    }

    fn clear(&mut self) {
        self.queue.clear();
        let start = self.queue.head();
        (self.l, self.r, self.a, self.b) = (start, start, start, start);
        (self.mid, self.back, self.before) = (None, None, None);
    }

    #[inline]
    fn begin(&mut self) {
        self.queue.begin();
        self.before = Some(([self.l, self.r, self.a, self.b], [self.mid, self.back]));
    }

    #[inline]
    fn settle(&mut self, keeps: bool) {
        self.queue.settle(keeps);
        if let Some((numbers, aggregates)) = self.before.take().filter(|_| !keeps) {
            [self.l, self.r, self.a, self.b] = numbers;
            [self.mid, self.back] = aggregates;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::tests::{Op, Spans, compare_with_a_deque, config, operations};
    use super::*;

    /// The contents of the module's diagram, place by place.
    fn check_invariants(window: &Daba<Spans>, naive: &VecDeque<u64>) {
        let Daba { queue, l, r, a, b, mid, back, .. } = window;
        let (head, tail) = (queue.head(), queue.tail());
        if naive.is_empty() {
            assert_eq!((head, *back), (tail, None));
            assert!([l, r, a, b].into_iter().all(|&at| at == head));
            return;
        }
        assert!(head < *l && l <= r && r <= a && a <= b && *b <= tail);
        assert_eq!(r - l, a - r);
        assert_eq!(b - l + 1, (b - head) - (tail - b));
        // Places and values have the same numbers except for those skipped when the window was cleared.
        let value = |at: u64| naive[(at - head) as usize];
        let span = |from: u64, to: u64| (from < to).then(|| (value(from), value(to - 1) + 1));
        for at in head..tail {
            let to = match at {
                _ if at < *l => *b,
                _ if at < *r => *r,
                _ if at < *a => at + 1,
                _ if at < *b => *b,
                _ => at + 1,
            };
            assert_eq!(Some(queue.get(at)), span(at, to), "place {at} of {head}..{tail}");
        }
        assert_eq!(*back, span(*b, tail));
        if l < r {
            assert_eq!(*mid, span(*r, *b));
        }
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn equals_a_deque_keeps_its_invariants_and_combines_a_bounded_number_of_times(operations in operations()) {
            let [insert, evict, query] = compare_with_a_deque::<Daba<Spans>>(&operations, check_invariants)?;
            prop_assert!(insert <= 3 && evict <= 2 && query <= 1, "{insert}, {evict}, {query} combines");
        }
    }

    #[test]
    fn the_bounds_on_combines_are_reached_but_not_passed_at_every_size() {
        // Growing, then sliding at each size up to 300, then shrinking: all phases of a turn.
        let sizes = if cfg!(miri) { 20 } else { 300 };
        let mut operations = Vec::new();
        for _ in 0..sizes {
            operations.push(Op::Insert);
            operations.extend([Op::Insert, Op::Evict, Op::Insert, Op::Evict]);
        }
        operations.extend([Op::Evict].repeat(sizes + 1));
        let most = compare_with_a_deque::<Daba<Spans>>(&operations, check_invariants).unwrap();
        assert_eq!(most, [3, 2, 1]);
    }
}
