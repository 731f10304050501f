//! Recalculate: every window by itself, whatever it shares with the one before (Theodorakis et al. 2018, §2.2).
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`, to split a window over lanes; else nothing |
//! | time | one `combine` per index and range: O(n) per range, which a CPU is good at |
//! | space | none |
//!
//! With ranges that do not overlap this is `tumbling`, the best there is.

use super::fold::Fold;

/// Hands the number of values and the partial of each range to `emit`.
#[inline]
pub fn recalculate_each<T: Copy, F: Fold<T>>(
    column: &[T],
    ranges: impl Iterator<Item = (usize, usize)>,
    fold: &F,
    mut emit: impl FnMut(usize, F::State),
) {
    for (lo, hi) in ranges {
        emit(hi - lo, fold.reduce(lo, &column[lo..hi]));
    }
}
