//! Two-Stacks over a column: any associative function, in order, O(1) amortised per range.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; neither inverse nor commutativity |
//! | time | at most two `combine` per index and one per range |
//! | space | one suffix aggregate per index of the longest range |
//! | first appeared | adamax, *Re: Implement a queue in which push_rear(), pop_front() and get_min() are all constant time operations*, 2011; Tangwongsan et al., VLDB 2015; the columnar form with an in-place flip is Theodorakis et al., *Hammer Slide*, ADMS 2018, §3 |
//!
//! The front stack is the suffix aggregates of `[lo, mid)`; the back stack needs only one running aggregate of
//! `[mid, hi)`, as its values stay in the column (data minimalism). A flip moves `mid` up to `hi` and scans backwards.

use super::Ranges;

/// Answers each range. `combine(a, b)` has `a` before `b` in the column.
pub fn two_stacks<S: Copy>(
    column: &[S],
    ranges: &Ranges,
    identity: S,
    combine: impl Fn(S, S) -> S,
) -> Vec<S> {
    // front[i] is the aggregate of column[base + i .. mid].
    let mut front: Vec<S> = Vec::new();
    let (mut base, mut mid, mut end) = (0, 0, 0);
    let mut back = identity;
    ranges
        .iter()
        .map(|(lo, hi)| {
            if lo >= mid {
                // The front is used up: flip what is in the window now.
                (base, mid, end, back) = (lo, hi, hi, identity);
                front.clear();
                front.resize(hi - lo, identity);
                let mut suffix = identity;
                for (slot, &value) in front.iter_mut().rev().zip(column[lo..hi].iter().rev()) {
                    suffix = combine(value, suffix);
                    *slot = suffix;
                }
                return suffix;
            }
            back = column[end..hi].iter().fold(back, |a, &b| combine(a, b));
            end = hi;
            combine(front[lo - base], back)
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
        fn equals_the_minimum_of_each_range((column, ranges) in arbitrary_ranges()) {
            let got = two_stacks(&column, &ranges, i64::MAX, i64::min);
            let want: Vec<i64> = ranges.iter().map(|(lo, hi)| *column[lo..hi].iter().min().unwrap()).collect();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn keeps_order_for_functions_that_do_not_commute((column, ranges) in arbitrary_ranges()) {
            // (first, last) of a range: associative, not commutative.
            let pairs: Vec<Option<(i64, i64)>> = column.iter().map(|&v| Some((v, v))).collect();
            let join = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
                (Some(a), Some(b)) => Some((a.0, b.1)),
                (a, b) => a.or(b),
            };
            let got = two_stacks(&pairs, &ranges, None, join);
            let want: Vec<_> = ranges.iter().map(|(lo, hi)| Some((column[lo], column[hi - 1]))).collect();
            prop_assert_eq!(got, want);
        }
    }
}
