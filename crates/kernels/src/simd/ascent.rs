//! Whether values ascend, and their range: the first thing a stream computes of its times.

use super::level::{Kernel, dispatch};

/// Values compared before checking whether one was less than its predecessor.
const BLOCK: usize = 1024;

/// Whether no value is less than the one before it.
///
/// ```
/// use windowkit_kernels::simd::is_ascending;
///
/// assert!(is_ascending(&[-1, 3, 3, 4]) && is_ascending(&[]));
/// assert!(!is_ascending(&[3, 2]));
/// ```
pub fn is_ascending(values: &[i64]) -> bool {
    dispatch(Ascent(values))
}

/// The least and the greatest value.
///
/// ```
/// use windowkit_kernels::simd::span;
///
/// assert_eq!(span(&[3, -2, 5]), Some((-2, 5)));
/// assert_eq!(span(&[]), None);
/// ```
pub fn span(values: &[i64]) -> Option<(i64, i64)> {
    (!values.is_empty()).then(|| dispatch(Span(values)))
}

/// Values compared side by side.
const LANES: usize = 32;

struct Span<'a>(&'a [i64]);

impl Kernel for Span<'_> {
    type Output = (i64, i64);

    #[inline(always)]
    fn run(self) -> (i64, i64) {
        let (mut least, mut most) = ([i64::MAX; LANES], [i64::MIN; LANES]);
        let (blocks, rest) = self.0.as_chunks::<LANES>();
        for block in blocks {
            for lane in 0..LANES {
                least[lane] = if block[lane] < least[lane] { block[lane] } else { least[lane] };
                most[lane] = if block[lane] > most[lane] { block[lane] } else { most[lane] };
            }
        }
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for &value in least.iter().chain(rest) {
            low = if value < low { value } else { low };
        }
        for &value in most.iter().chain(rest) {
            high = if value > high { value } else { high };
        }
        (low, high)
    }
}

struct Ascent<'a>(&'a [i64]);

impl Kernel for Ascent<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Some(last) = self.0.len().checked_sub(1) else { return true };
        for from in (0..last).step_by(BLOCK) {
            let to = last.min(from + BLOCK);
            let mut steps_back = 0u64;
            // Without an early exit, so that vectors are compared.
            for (before, after) in self.0[from..to].iter().zip(&self.0[from + 1..=to]) {
                steps_back += u64::from(before > after);
            }
            if steps_back > 0 {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::level::at_each_level;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_back_is_found_anywhere_and_so_are_both_ends(
            mut values in prop::collection::vec(any::<i64>(), 0..3000), at in any::<prop::sample::Index>(), swaps in any::<bool>(),
        ) {
            values.sort_unstable();
            if swaps && values.len() > 1 {
                let at = at.index(values.len() - 1);
                values.swap(at, at + 1);
            }
            let span_of = values.iter().min().copied().zip(values.iter().max().copied());
            at_each_level(|_| {
                assert_eq!(is_ascending(&values), values.is_sorted());
                assert_eq!(span(&values), span_of);
            });
        }
    }
}
