//! Sums of sliding windows over integers: Subtract-on-Evict, eight windows at a time.
//!
//! | | |
//! |---|---|
//! | needs | an exact inverse: integers, whose sums are exact modulo 2⁶⁴ |
//! | time | per eight windows a difference, three steps of a scan, and a carry |
//! | space | none |
//! | first appeared | Subtract-on-Evict: Hirzel et al., *Sliding-Window Aggregation Algorithms*, DEBS 2017; the vectorised form: Theodorakis et al., *Hammer Slide*, ADMS 2018, §3.2 |
//!
//! Each window is the one before it, plus the value that enters, minus the one that leaves. Sums are computed modulo
//! 2⁶⁴, where adding and subtracting are exact, so that only a window whose *true* sum does not fit can be wrong. Whether
//! one may not fit is seen from the bits that values have in use: as long as `size` times the largest of that width
//! fits, so does every sum. Then, and only for 64-bit integers, the rest of the column is summed in 128 bits.

use super::level::Kernel;
use super::pieces::Pieces;
use super::stream::Source;
use super::{Element, SumOverflow, element};
use std::simd::Swizzle;
use std::simd::prelude::*;

/// Windows of a tile.
const TILE: usize = 1024;

/// Receives the sums, one tile of windows after the other.
pub(super) trait Totals {
    /// Sums that fit: signed ones as they are, unsigned ones by their bits.
    fn fitting(&mut self, sums: &[i64]);
    /// Sums that may not fit, of the windows from `start` on.
    fn exact(&mut self, start: usize, sums: &[i128]) -> Result<(), SumOverflow>;
}

/// Sums at slide 1.
pub(super) struct Sums<'a, T: Element> {
    /// 0 for nulls.
    pub source: &'a dyn Source<T::Key>,
    pub size: usize,
    /// At least 1.
    pub windows: usize,
    pub totals: &'a mut dyn Totals,
}

impl<T: Element> Kernel for Sums<'_, T> {
    type Output = Result<(), SumOverflow>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let mut scratch = (Vec::new(), Vec::new());
        let mut sums = [0; TILE];
        // The bits in use by any value so far, apart from the sign.
        let mut used = i64x8::splat(0);
        let mut sum = i64x8::splat(0);
        for start in (0..self.size).step_by(TILE) {
            let len = TILE.min(self.size - start);
            let values = element::elements::<T>(self.source.tile(start, len, &mut scratch.0));
            let rows = values.chunks_exact(8);
            for value in rows.remainder() {
                let value = widen::<T>(*value);
                sum[0] = sum[0].wrapping_add(value);
                used |= in_use::<T>(i64x8::splat(value));
            }
            for values in rows {
                let values = T::wide(values);
                sum += values;
                used |= in_use::<T>(values);
            }
        }
        let mut sum = sum.reduce_sum();
        if !fits::<T>(used, self.size) {
            return self.exact(0);
        }
        self.totals.fitting(&[sum]);
        // Window `start` is the one before it, less what was before it, more its last value.
        for start in (1..self.windows).step_by(TILE) {
            let len = TILE.min(self.windows - start);
            let padded = len.next_multiple_of(8);
            let leave = element::elements::<T>(self.source.tile(start - 1, padded, &mut scratch.0));
            let enter =
                element::elements::<T>(self.source.tile(start + self.size - 1, padded, &mut scratch.1));
            let mut carry = i64x8::splat(sum);
            for i in (0..padded).step_by(8) {
                let enter = T::wide(&enter[i..i + 8]);
                used |= in_use::<T>(enter);
                let mut changes = enter - T::wide(&leave[i..i + 8]);
                changes += Up::<1>::concat_swizzle(changes, i64x8::splat(0));
                changes += Up::<2>::concat_swizzle(changes, i64x8::splat(0));
                changes += Up::<4>::concat_swizzle(changes, i64x8::splat(0));
                (changes + carry).copy_to_slice(&mut sums[i..i + 8]);
                carry += Last::swizzle(changes);
            }
            if !fits::<T>(used, self.size) {
                return self.exact(start);
            }
            sum = sums[len - 1];
            self.totals.fitting(&sums[..len]);
        }
        Ok(())
    }
}

impl<T: Element> Sums<'_, T> {
    /// Sums in 128 bits from window `first` on.
    #[cold]
    #[inline(never)]
    fn exact(self, first: usize) -> Result<(), SumOverflow> {
        let mut scratch = (Vec::new(), Vec::new());
        let mut sum = 0;
        for start in (first..first + self.size).step_by(TILE) {
            let len = TILE.min(first + self.size - start);
            for value in element::elements::<T>(self.source.tile(start, len, &mut scratch.0)) {
                sum += value.to_i128();
            }
        }
        let mut sums = Vec::with_capacity(TILE);
        for start in (first..self.windows).step_by(TILE) {
            let len = TILE.min(self.windows - start);
            let leave = element::elements::<T>(self.source.tile(start, len, &mut scratch.0));
            let enter = element::elements::<T>(self.source.tile(start + self.size, len, &mut scratch.1));
            sums.clear();
            for (leave, enter) in leave.iter().zip(enter) {
                sums.push(sum);
                sum += enter.to_i128() - leave.to_i128();
            }
            self.totals.exact(start, &sums)?;
        }
        Ok(())
    }
}

/// Exact sums of pieces.
pub(super) struct ExactSums<'a, T: Element> {
    /// 0 for nulls.
    pub source: &'a dyn Source<T::Key>,
    pub pieces: Pieces,
    pub out: &'a mut Vec<i128>,
}

impl<T: Element> Kernel for ExactSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pieces { at, every, len, count } = self.pieces;
        let mut scratch = Vec::new();
        if every > LONG_PIECE {
            for piece in 0..count {
                let mut sum = 0;
                for start in (0..len).step_by(LONG_PIECE) {
                    let len = LONG_PIECE.min(len - start);
                    sum += total::<T>(self.source.tile(at + piece * every + start, len, &mut scratch));
                }
                self.out.push(sum);
            }
            return;
        }
        let values = self.source.tile(at, (count - 1) * every + len, &mut scratch);
        for piece in 0..count {
            self.out.push(total::<T>(&values[piece * every..][..len]));
        }
    }
}

/// Values of a piece that are summed in 64 bits if they can be.
const LONG_PIECE: usize = 1 << 14;

/// The exact sum of up to [`LONG_PIECE`] values.
#[inline(always)]
fn total<T: Element>(values: &[T::Key]) -> i128 {
    let values = element::elements::<T>(values);
    let mut sums = [i64x8::splat(0); 2];
    let mut used = i64x8::splat(0);
    let mut pairs = values.chunks_exact(16);
    for pair in &mut pairs {
        let (a, b) = (T::wide(&pair[..8]), T::wide(&pair[8..]));
        used |= in_use::<T>(a) | in_use::<T>(b);
        sums = [sums[0] + a, sums[1] + b];
    }
    let mut sum = (sums[0] + sums[1]).reduce_sum();
    for &value in pairs.remainder() {
        let value = widen(value);
        sum = sum.wrapping_add(value);
        used |= in_use::<T>(i64x8::splat(value));
    }
    if fits::<T>(used, values.len()) {
        return if T::SIGNED { i128::from(sum) } else { i128::from(sum as u64) };
    }
    let mut sum = 0;
    for value in values {
        sum += value.to_i128();
    }
    sum
}

/// The bits of values that are in use, apart from the sign.
#[inline(always)]
fn in_use<T: Element>(values: i64x8) -> i64x8 {
    if T::SIGNED { values ^ values >> i64x8::splat(63) } else { values }
}

/// Whether every sum of `count` values of such a width fits 64 bits.
#[inline(always)]
fn fits<T: Element>(used: i64x8, count: usize) -> bool {
    let bits = 64 - used.reduce_or().leading_zeros();
    // At most 2^64 times 2^64, less than 2^128 but for sizes that do not exist.
    (count as u128) << bits <= if T::SIGNED { i64::MAX as u128 } else { u64::MAX as u128 }
}

#[inline(always)]
fn widen<T: Element>(value: T) -> i64 {
    T::wide(&[value; 8])[0]
}

/// Lane `i` is lane `i - K`, and lane 0 of the second vector before the first.
struct Up<const K: usize>;

impl<const K: usize> Swizzle<8> for Up<K> {
    const INDEX: [usize; 8] = {
        let mut index = [8; 8];
        let mut i = K;
        while i < 8 {
            index[i] = i - K;
            i += 1;
        }
        index
    };
}

/// The last lane everywhere.
struct Last;

impl Swizzle<8> for Last {
    const INDEX: [usize; 8] = [7; 8];
}
