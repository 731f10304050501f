//! Whether values ascend: what a stream asks of its times before anything else.

use super::level::{Kernel, dispatch};

/// Values compared before it is asked whether one stepped back.
const BLOCK: usize = 1024;

/// Whether no value is less than the one before it.
///
/// ```
/// use windowkit::kernels::simd::is_ascending;
///
/// assert!(is_ascending(&[-1, 3, 3, 4]) && is_ascending(&[]));
/// assert!(!is_ascending(&[3, 2]));
/// ```
pub fn is_ascending(values: &[i64]) -> bool {
    dispatch(Ascent(values))
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
            // Without a way out, so that it is vectors that are compared.
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
    use crate::kernels::simd::level::at_each_level;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_back_is_found_anywhere(
            mut values in prop::collection::vec(any::<i64>(), 0..3000), at in any::<prop::sample::Index>(), swaps in any::<bool>(),
        ) {
            values.sort_unstable();
            if swaps && values.len() > 1 {
                let at = at.index(values.len() - 1);
                values.swap(at, at + 1);
            }
            at_each_level(|_| assert_eq!(is_ascending(&values), values.is_sorted()));
        }
    }
}
