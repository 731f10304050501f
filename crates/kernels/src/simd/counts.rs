//! How many valid values each sliding window has, from the validity bitmap alone.
//!
//! | | |
//! |---|---|
//! | needs | a bitmap |
//! | time | per eight windows two table look-ups and an addition of eight lanes; per window `size / 64` where they do not overlap |
//! | space | a table of 2 KiB |
//! | first appeared | Subtract-on-Evict, as in `integers`, over bits |

use super::level::{Kernel, dispatch};
use super::{Validity, window_count};
use std::simd::prelude::*;

/// For each byte, how many of its first 0 to 7 bits are set: a byte each.
static BEFORE: [[i8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut i = 0;
        while i < 8 {
            table[byte][i] = (byte & ((1 << i) - 1)).count_ones() as i8;
            i += 1;
        }
        byte += 1;
    }
    table
};

/// Counts of windows at slide 1, each derived from the one before.
pub(super) struct Counts<'a> {
    validity: Validity<'a>,
    size: usize,
    next: usize,
    /// The count of window `next`.
    count: i64,
}

impl<'a> Counts<'a> {
    /// `validity` must reach to the end of the first window, and of every window that is read.
    pub(super) fn new(validity: Validity<'a>, size: usize) -> Self {
        Self { validity, size, next: 0, count: ones(validity, 0, size) }
    }

    /// The counts of the next windows.
    pub(super) fn fill(&mut self, out: &mut [i64]) {
        dispatch(Fill { counts: self, out });
    }
}

struct Fill<'c, 'a> {
    counts: &'c mut Counts<'a>,
    out: &'c mut [i64],
}

impl Kernel for Fill<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Counts { validity, size, next, mut count } = *self.counts;
        for (i, out) in self.out.chunks_mut(64).enumerate() {
            let start = next + i * 64;
            let (mut leave, mut enter) = (validity.word(start), validity.word(start + size));
            let mut bytes = out.chunks_exact_mut(8);
            for out in &mut bytes {
                let (l, e) = (leave as u8, enter as u8);
                let changes = i8x8::from_array(BEFORE[e as usize]) - i8x8::from_array(BEFORE[l as usize]);
                (changes.cast::<i64>() + i64x8::splat(count)).copy_to_slice(out);
                count += i64::from(e.count_ones()) - i64::from(l.count_ones());
                (enter, leave) = (enter >> 8, leave >> 8);
            }
            for out in bytes.into_remainder() {
                *out = count;
                count += (enter & 1) as i64 - (leave & 1) as i64;
                (enter, leave) = (enter >> 1, leave >> 1);
            }
        }
        self.counts.next = next + self.out.len();
        self.counts.count = count;
    }
}

/// How many of `len` bits from `start` on are set.
#[inline(always)]
pub(super) fn ones(validity: Validity<'_>, start: usize, len: usize) -> i64 {
    let mut ones = 0;
    let mut i = 0;
    while i + 64 <= len {
        ones += i64::from(validity.word(start + i).count_ones());
        i += 64;
    }
    if i < len {
        ones += i64::from((validity.word(start + i) << (64 - (len - i))).count_ones());
    }
    ones
}

/// The number of valid values in each window over `len` values, appended to `out`.
pub fn sliding_valid_count(
    validity: Validity<'_>,
    len: usize,
    size: usize,
    slide: usize,
    out: &mut Vec<i64>,
) {
    let windows = window_count(len, size, slide);
    if windows == 0 {
        return;
    }
    let start = out.len();
    out.resize(start + windows, 0);
    fill(validity, size, slide, &mut out[start..]);
}

/// The counts of as many windows as `out` is long.
pub(super) fn fill(validity: Validity<'_>, size: usize, slide: usize, out: &mut [i64]) {
    if slide == 1 {
        Counts::new(validity, size).fill(out);
    } else {
        dispatch(Spread { validity, size, slide, out });
    }
}

/// Counts at slides above 1: the entering bits are added and the leaving ones subtracted, or each window is counted if
/// none overlap.
struct Spread<'a> {
    validity: Validity<'a>,
    size: usize,
    slide: usize,
    out: &'a mut [i64],
}

impl Kernel for Spread<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { validity, size, slide, out } = self;
        let mut count = 0;
        for (k, slot) in out.iter_mut().enumerate() {
            let start = k * slide;
            if k == 0 || slide >= size {
                count = ones(validity, start, size);
            } else {
                count += ones(validity, start + size - slide, slide) - ones(validity, start - slide, slide);
            }
            *slot = count;
        }
    }
}

/// A bitmap of the windows with at least `least` valid values, appended to `out` from the lowest bit of a new byte on;
/// returns how many windows have fewer.
pub fn sliding_validity(
    validity: Validity<'_>,
    len: usize,
    size: usize,
    slide: usize,
    least: usize,
    out: &mut Vec<u8>,
) -> usize {
    let windows = window_count(len, size, slide);
    if windows == 0 {
        return 0;
    }
    out.reserve(windows.div_ceil(8));
    let mut few = 0;
    let mut tile = [0; TILE];
    let mut counts = Counts::new(validity, size);
    for start in (0..windows).step_by(TILE) {
        let tile = &mut tile[..TILE.min(windows - start)];
        if slide == 1 {
            counts.fill(tile);
        } else {
            fill(validity.skip(start * slide), size, slide, tile);
        }
        few += dispatch(Compare { counts: tile, least: least as i64, out });
    }
    few
}

/// Windows of a tile; whole bytes of a bitmap.
const TILE: usize = 1024;

struct Compare<'a> {
    counts: &'a [i64],
    least: i64,
    out: &'a mut Vec<u8>,
}

impl Kernel for Compare<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let mut few = self.counts.len();
        for counts in self.counts.chunks(8) {
            let byte = if counts.len() == 8 {
                i64x8::from_slice(counts).simd_ge(i64x8::splat(self.least)).to_bitmask() as u8
            } else {
                let mut byte = 0;
                for (i, &count) in counts.iter().enumerate() {
                    byte |= u8::from(count >= self.least) << i;
                }
                byte
            };
            few -= byte.count_ones() as usize;
            self.out.push(byte);
        }
        few
    }
}
