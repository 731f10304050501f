//! Two-Stacks over a column: any associative function, in order, O(1) amortised per range.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; neither inverse nor commutativity |
//! | time | at most two `combine` per index and one per range |
//! | space | one suffix aggregate per index of the longest range |
//! | first appeared | adamax, *Re: Implement a queue in which push_rear(), pop_front() and get_min() are all constant time operations*, 2011; Tangwongsan et al., VLDB 2015; the columnar form with an in-place flip is Theodorakis et al., *Hammer Slide*, ADMS 2018, §3 |
//!
//! The front stack is the suffix aggregates of `[lo, mid)`; the back stack needs only one running aggregate of `[mid,
//! hi)`, as its values stay in the column (data minimalism). A flip moves `mid` up to `hi` and scans backwards; new
//! values are folded in bulk. [`Lift`] does both, so that they can use SIMD.

use super::Ranges;
use crate::algebra::{Lift, Monoid, OfStates};

/// Answers each range of a column of partials.
pub fn two_stacks<M: Monoid>(column: &[M::State], ranges: &Ranges, monoid: &M) -> Vec<M::State> {
    let mut answers = Vec::with_capacity(ranges.len());
    two_stacks_each(column, ranges.iter(), &OfStates(monoid), |_, state| answers.push(state));
    answers
}

/// Passes the number of values and the partial of each range to `emit`. Ends of ranges must not decrease.
#[inline]
pub fn two_stacks_each<T: Copy, F: Lift<T>>(
    column: &[T],
    ranges: impl Iterator<Item = (usize, usize)>,
    fold: &F,
    mut emit: impl FnMut(usize, F::State),
) {
    // front[i] is the aggregate of column[base + i .. mid]. One array serves all flips: a ring buffer (§3.2) that is
    // restarted at each, as it is always used up by then.
    let mut front: Vec<F::State> = Vec::new();
    let (mut base, mut mid, mut end) = (0, 0, 0);
    let mut back = fold.identity();
    for (lo, hi) in ranges {
        if lo >= mid {
            // The front is used up: flip what is in the window now.
            (base, mid, end, back) = (lo, hi, hi, fold.identity());
            fold.flip(lo, &column[lo..hi], &mut front);
            emit(hi - lo, front.first().copied().unwrap_or(back));
            continue;
        }
        match hi - end {
            0 => {}
            1 => back = fold.combine(back, fold.lift(end, column[end])),
            _ => back = fold.combine(back, fold.reduce(end, &column[end..hi])),
        }
        end = hi;
        emit(hi - lo, fold.combine(front[lo - base], back));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::arbitrary_ranges;
    use super::*;
    use crate::algebra::Extremum;
    use proptest::prelude::*;

    /// First and last of a range: associative, not commutative.
    #[derive(Clone)]
    struct Ends;

    impl Monoid for Ends {
        type State = Option<(i64, i64)>;

        fn identity(&self) -> Self::State {
            None
        }

        fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
            match (earlier, later) {
                (Some(earlier), Some(later)) => Some((earlier.0, later.1)),
                (earlier, later) => earlier.or(later),
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_minimum_of_each_range((column, ranges) in arbitrary_ranges()) {
            let got = two_stacks(&column, &ranges, &Extremum::<i64, false>::new(false));
            let want: Vec<i64> =
                ranges.iter().map(|(lo, hi)| column[lo..hi].iter().copied().min().unwrap_or(i64::MAX)).collect();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn keeps_order_for_functions_that_do_not_commute((column, ranges) in arbitrary_ranges()) {
            let pairs: Vec<Option<(i64, i64)>> = column.iter().map(|&v| Some((v, v))).collect();
            let got = two_stacks(&pairs, &ranges, &Ends);
            let want: Vec<_> =
                ranges.iter().map(|(lo, hi)| (lo < hi).then(|| (column[lo], column[hi - 1]))).collect();
            prop_assert_eq!(got, want);
        }
    }
}
