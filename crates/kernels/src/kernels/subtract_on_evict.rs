//! Subtract-on-Evict: one running aggregate, from which leaving values are removed (Theodorakis et al. 2018, §2.2).
//!
//! | | |
//! |---|---|
//! | needs | an exact inverse (integers; never floats, whose error would drift along the column), or a function that recognises when a leaving value does not matter (extrema), and scans its window again when it does |
//! | time | with an inverse, one `combine` and one `invert` per index: O(1) amortised per range; without, a scan of the window for each extremum that leaves: O(n) per range at worst (a sorted column) |
//! | space | none |
//! | first appeared | Tangwongsan et al., *General Incremental Sliding-Window Aggregation*, VLDB 2015, as SoE |

use super::Ranges;
use crate::algebra::{Lift, Monoid, OfStates};

/// Answers each range of a column of partials.
pub fn subtract_on_evict<M: Monoid>(column: &[M::State], ranges: &Ranges, monoid: &M) -> Vec<M::State> {
    let mut answers = Vec::with_capacity(ranges.len());
    subtract_on_evict_each(column, ranges.iter(), &OfStates(monoid), |_, state| answers.push(state));
    answers
}

/// Passes the number of values and the partial of each range to `emit`. Ends of ranges must not decrease.
#[inline]
pub fn subtract_on_evict_each<T: Copy, F: Lift<T>>(
    column: &[T],
    ranges: impl Iterator<Item = (usize, usize)>,
    fold: &F,
    mut emit: impl FnMut(usize, F::State),
) {
    let (mut running, mut from, mut to) = (fold.identity(), 0, 0);
    for (lo, hi) in ranges {
        if lo >= to {
            // Nothing of the running aggregate remains: start over and skip what lies between.
            running = fold.reduce(lo, &column[lo..hi]);
        } else {
            let leave = |running, at: usize| fold.evict(running, fold.lift(at, column[at]));
            running = match (from..lo).try_fold(running, leave) {
                Some(rest) => (to..hi).fold(rest, |state, at| fold.combine(state, fold.lift(at, column[at]))),
                None => fold.reduce(lo, &column[lo..hi]),
            };
        }
        (from, to) = (lo, hi);
        emit(hi - lo, running);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::arbitrary_ranges;
    use super::*;
    use crate::algebra::ExactSum;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_sum_of_each_range((column, ranges) in arbitrary_ranges()) {
            let got = subtract_on_evict(&column, &ranges, &ExactSum::<i64>::new());
            let want: Vec<i64> = ranges.iter().map(|(lo, hi)| column[lo..hi].iter().sum()).collect();
            prop_assert_eq!(got, want);
        }
    }
}
