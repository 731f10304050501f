//! Values to coupons: what DataSketches keeps of a value's hash.
//!
//! A coupon is 26 bits of address and, above them, 6 bits of rank: one plus the leading zeros of the hash's other
//! word. The hash is MurmurHash3 (x64, 128 bits; Appleby, public domain) with the seed that all DataSketches share. A
//! coupon of 0 is none: no value has rank 0.

const SEED: u64 = 9001;
const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;
const ADDRESS_BITS: u32 = 26;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;

/// The address and the rank of a coupon.
#[inline]
pub(super) fn parts(coupon: u32) -> (usize, u8) {
    ((u64::from(coupon) & ADDRESS) as usize, (coupon >> ADDRESS_BITS) as u8)
}

/// The coupon of an integer, or of a float's bits: of their 8 bytes in little-endian order.
#[inline]
pub(super) fn of_word(word: u64) -> u32 {
    finish(SEED ^ first(word), SEED, 8)
}

/// The coupon of a float; both zeros are one value, and so are all NaNs.
#[inline]
pub(super) fn of_float(value: f64) -> u32 {
    // NaN as Java's Double.doubleToLongBits has it.
    of_word(if value.is_nan() { 0x7FF8_0000_0000_0000 } else { (value + 0.0).to_bits() })
}

/// The coupon of bytes, and none of no bytes: DataSketches, and Spark with it, do not count empty strings.
pub(super) fn of_bytes(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    let (mut h1, mut h2) = (SEED, SEED);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= first(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 ^= second((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    if !tail.is_empty() {
        let mut block = [0; 16];
        block[..tail.len()].copy_from_slice(tail);
        // Zeros, which the missing bytes are, mix to zeros.
        let block = u128::from_le_bytes(block);
        h1 ^= first(block as u64);
        h2 ^= second((block >> 64) as u64);
    }
    finish(h1, h2, bytes.len() as u64)
}

#[inline]
fn first(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline]
fn second(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline]
fn finish(h1: u64, h2: u64, length: u64) -> u32 {
    let (h1, h2) = (h1 ^ length, h2 ^ length);
    let h1 = h1.wrapping_add(h2);
    let h2 = h2.wrapping_add(h1);
    let (h1, h2) = (mix(h1), mix(h2));
    let h1 = h1.wrapping_add(h2);
    let h2 = h2.wrapping_add(h1);
    let rank = h2.leading_zeros().min(62) + 1;
    rank << ADDRESS_BITS | (h1 & ADDRESS) as u32
}

#[inline]
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let word = (word ^ (word >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ (word >> 33)
}
