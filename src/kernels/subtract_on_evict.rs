//! Subtract-on-Evict: one running aggregate; what leaves is taken out of it (Theodorakis et al. 2018, §2).
//!
//! | | |
//! |---|---|
//! | needs | an exact inverse (integers; never floats, whose error would drift along the column) |
//! | time | at most one `combine` and one `invert` per index, O(1) amortised per range |
//! | space | none |
//! | first appeared | Tangwongsan et al., *General Incremental Sliding-Window Aggregation*, VLDB 2015, as SoE |

use super::Ranges;

/// Answers each range with a running aggregate. `invert(combine(a, b), a)` must equal `b`.
pub fn subtract_on_evict<S: Copy>(
    column: &[S],
    ranges: &Ranges,
    identity: S,
    combine: impl Fn(S, S) -> S,
    invert: impl Fn(S, S) -> S,
) -> Vec<S> {
    let (mut running, mut from, mut to) = (identity, 0, 0);
    ranges
        .iter()
        .map(|(lo, hi)| {
            if lo >= to {
                // Nothing of the running aggregate stays: start anew and skip what lies between.
                (running, from, to) = (identity, lo, lo);
            }
            running = column[from..lo].iter().fold(running, |a, &b| invert(a, b));
            running = column[to..hi].iter().fold(running, |a, &b| combine(a, b));
            (from, to) = (lo, hi);
            running
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::ranges::arbitrary_ranges;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_sum_of_each_range((column, ranges) in arbitrary_ranges()) {
            let got = subtract_on_evict(&column, &ranges, 0, |a, b| a + b, |a, b| a - b);
            let want: Vec<i64> = ranges.iter().map(|(lo, hi)| column[lo..hi].iter().sum()).collect();
            prop_assert_eq!(got, want);
        }
    }
}
