//! Values to coupons: what Apache DataSketches' HyperLogLog keeps of a value's hash.
//!
//! | | |
//! |---|---|
//! | time | O(1) a number, O(length) a string |
//! | first appeared | MurmurHash3 (x64, 128 bits): Appleby, 2011, public domain; coupons: Apache DataSketches |
//!
//! A coupon is 26 bits of address, from the first word of the hash, and above them 6 bits of rank: one plus the leading
//! zeros of the second word, 63 at most. The seed is the one that all DataSketches share. A coupon of 0 means "no
//! coupon": no value has rank 0.

use super::Word;
use super::level::{Kernel, dispatch};

const SEED: u64 = 9001;
const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;
/// Bits of an address.
pub const ADDRESS_BITS: u32 = 26;

/// Writes the coupon of each value's 8 bytes.
///
/// # Panics
/// If the numbers of coupons and values differ.
pub fn coupons_of_words<T: Word>(values: &[T], coupons: &mut [u32]) {
    assert_eq!(values.len(), coupons.len(), "one coupon a value");
    dispatch(Coupons { values, coupons });
}

struct Coupons<'a, T> {
    values: &'a [T],
    coupons: &'a mut [u32],
}

impl<T: Word> Kernel for Coupons<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (coupon, &value) in self.coupons.iter_mut().zip(self.values) {
            *coupon = coupon_of_word(value);
        }
    }
}

/// The coupon of a number's 8 bytes.
#[inline(always)]
pub fn coupon_of_word(value: impl Word) -> u32 {
    coupon(SEED ^ first(value.word()), SEED, 8)
}

/// The coupon of bytes; 0 for no bytes: DataSketches, and Spark with it, do not count empty strings.
#[inline]
pub fn coupon_of_bytes(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    let (mut h1, mut h2) = (SEED, SEED);
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= first(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 ^= second((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    if !rest.is_empty() {
        // Zeros, which stand for missing bytes, mix to zeros.
        let block = last_block(bytes, rest.len());
        h1 ^= first(block as u64);
        h2 ^= second((block >> 64) as u64);
    }
    coupon(h1, h2, bytes.len() as u64)
}

/// The last `count` bytes, 1 to 15, as a little-endian number, by reads of fixed sizes that may overlap.
#[inline]
fn last_block(bytes: &[u8], count: usize) -> u128 {
    if let Some(block) = bytes.last_chunk::<16>() {
        u128::from_le_bytes(*block) >> (8 * (16 - count))
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*low)) | u128::from(u64::from_le_bytes(*high)) << (8 * (count - 8))
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u128::from(u32::from_le_bytes(*low)) | u128::from(u32::from_le_bytes(*high)) << (8 * (count - 4))
    } else {
        // The first, the middle and the last of one to three.
        [0, count / 2, count - 1].into_iter().fold(0, |block, at| block | u128::from(bytes[at]) << (8 * at))
    }
}

#[inline(always)]
fn first(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline(always)]
fn second(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline(always)]
fn coupon(h1: u64, h2: u64, length: u64) -> u32 {
    let (h1, h2) = (h1 ^ length, h2 ^ length);
    let h1 = h1.wrapping_add(h2);
    let h2 = h2.wrapping_add(h1);
    let (h1, h2) = (finalise(h1), finalise(h2));
    let h1 = h1.wrapping_add(h2);
    let h2 = h2.wrapping_add(h1);
    let rank = h2.leading_zeros().min(62) + 1;
    rank << ADDRESS_BITS | (h1 & ((1 << ADDRESS_BITS) - 1)) as u32
}

#[inline(always)]
fn finalise(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let word = (word ^ (word >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::super::level::at_each_level;
    use super::*;
    use datasketches::hash::value::raw_bytes;
    use datasketches::hll::{HllSketch, HllType};
    use proptest::prelude::*;

    /// The coupon that Apache's crate makes, read from a sketch that holds it alone.
    fn apache(update: impl FnOnce(&mut HllSketch)) -> u32 {
        let mut sketch = HllSketch::new(12, HllType::Hll8).unwrap();
        update(&mut sketch);
        sketch.serialize().get(8..12).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap()))
    }

    proptest! {
        #[test]
        fn numbers_equal_apaches(values in prop::collection::vec(any::<i64>(), 0..40)) {
            let wanted: Vec<u32> = values.iter().map(|&value| apache(|sketch| sketch.update(value))).collect();
            at_each_level(|level| {
                let mut coupons = vec![0; values.len()];
                coupons_of_words(&values, &mut coupons);
                assert_eq!(coupons, wanted, "{level:?}");
            });
        }

        #[test]
        fn bytes_equal_apaches(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            let wanted = apache(|sketch| {
                if !bytes.is_empty() {
                    sketch.update(raw_bytes::from_slice(&bytes));
                }
            });
            prop_assert_eq!(coupon_of_bytes(&bytes), wanted);
        }
    }
}
