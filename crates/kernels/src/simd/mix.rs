//! Columns of numbers to 64-bit hashes, by the finaliser of SplitMix64: a bijection for each seed.

use super::Word;
use super::level::{Kernel, dispatch};

/// The finaliser of SplitMix64 (Steele et al., *Fast splittable pseudorandom number generators*, OOPSLA 2014), with
/// the constants of Stafford's *Mix13*.
#[inline(always)]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Writes `mix(seed ^ value)` of each value.
///
/// # Panics
/// If the numbers of hashes and values differ.
pub fn mix_words<T: Word>(values: &[T], seed: u64, hashes: &mut [u64]) {
    assert_eq!(values.len(), hashes.len(), "one hash a value");
    dispatch(MixWords { values, seed, hashes });
}

struct MixWords<'a, T> {
    values: &'a [T],
    seed: u64,
    hashes: &'a mut [u64],
}

impl<T: Word> Kernel for MixWords<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (hash, &value) in self.hashes.iter_mut().zip(self.values) {
            *hash = mix(self.seed ^ value.word());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::at_each_level;
    use super::*;

    /// The first outputs of SplitMix64 from seed 0, as in its authors' reference.
    #[test]
    fn equals_the_reference() {
        let states: Vec<u64> = (1..=4_u64).map(|step| step.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let wanted =
            [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F, 0xF88B_B8A8_724C_81EC];
        at_each_level(|level| {
            let mut hashes = [0; 4];
            mix_words(&states, 0, &mut hashes);
            assert_eq!(hashes, wanted, "{level:?}");
        });
    }
}
