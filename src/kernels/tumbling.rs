//! Disjoint ranges: each is folded once.
//!
//! | | |
//! |---|---|
//! | needs | ranges that do not overlap (right, but slow, if they do); an associative `combine` |
//! | time | one `combine` per index |
//! | space | none |

use super::Ranges;

/// Folds each range from left to right.
pub fn tumbling<S: Copy>(column: &[S], ranges: &Ranges, identity: S, combine: impl Fn(S, S) -> S) -> Vec<S> {
    ranges.iter().map(|(lo, hi)| column[lo..hi].iter().fold(identity, |a, &b| combine(a, b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_each_range_by_itself() {
        let mut ranges = Ranges::default();
        ranges.push(0, 2);
        ranges.push(3, 4);
        assert_eq!(tumbling(&[1, 2, 3, 4], &ranges, 0, |a, b| a + b), [3, 4]);
        assert!(!ranges.overlap());
    }
}
