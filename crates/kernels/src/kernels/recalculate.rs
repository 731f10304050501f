//! Recalculate: every window separately, whatever it shares with the previous one (Theodorakis et al. 2018, §2.2).
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`, to split a window over lanes; else nothing |
//! | time | one `combine` per index and range: O(n) per range, which a CPU is good at |
//! | space | none |
//!
//! For ranges that do not overlap, such as tumbling windows, nothing is faster.

use super::Ranges;
use crate::algebra::{Lift, Monoid, OfStates};

/// Answers each range of a column of partials.
pub fn recalculate<M: Monoid>(column: &[M::State], ranges: &Ranges, monoid: &M) -> Vec<M::State> {
    let mut answers = Vec::with_capacity(ranges.len());
    recalculate_each(column, ranges.iter(), &OfStates(monoid), |_, state| answers.push(state));
    answers
}

/// Passes the number of values and the partial of each range to `emit`.
#[inline]
pub fn recalculate_each<T: Copy, F: Lift<T>>(
    column: &[T],
    ranges: impl Iterator<Item = (usize, usize)>,
    fold: &F,
    mut emit: impl FnMut(usize, F::State),
) {
    for (lo, hi) in ranges {
        emit(hi - lo, fold.reduce(lo, &column[lo..hi]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::ExactSum;

    #[test]
    fn folds_each_range_by_itself() {
        let mut ranges = Ranges::default();
        ranges.push(0, 2);
        ranges.push(3, 4);
        assert_eq!(recalculate(&[1, 2, 3, 4], &ranges, &ExactSum::<i64>::new()), [3, 4]);
        assert!(!ranges.overlap());
    }
}
