//! Variances and standard deviations of sliding windows, and moments of columns.
//!
//! | | |
//! |---|---|
//! | needs | nothing of the values: neither an offset nor an outlier before the window costs precision |
//! | time | at slide 1 two additions and a product per value and direction, see `rows`; at larger slides one join per slide |
//! | space | see `rows` and `pieces` |
//! | first appeared | sums relative to a value of the sample: Chan, Golub, LeVeque, *Algorithms for computing the sample variance*, 1983, §3; the join of two moments: the same, Eq. 2.1 |
//!
//! At slide 1, all windows that start in one block contain its last value (the block's suffixes do), so the squares of
//! deviations from it can be summed: see [`Squares`]. With nulls it is the block's last valid value, and windows that
//! start after it hold nothing of the block: what they hold of the next is summed anew, relative to its first valid value.

use super::counts::{Counts, ones};
use super::level::{Kernel, dispatch};
use super::numbers::{Numbers, Weights};
use super::overflow::{Degree, has_nonfinite};
use super::pieces::{Pieces, windows_of_pieces};
use super::rows::{LANES, LONG, Rooms, Row, Slide, Squares};
use super::sliding::{FEW, skip_after};
use super::stream::Source;
use super::sums::{is_f64, mend};
use super::{Column, Element, window_count};
use std::mem::MaybeUninit;
use std::simd::prelude::*;
use std::simd::{Select, StdFloat};

/// The variance of each window with `ddof` degrees of freedom subtracted, appended to `out`; NaN for a window of `ddof`
/// values or fewer, and for one with an infinity or NaN. 64-bit integers are rounded to `f64` first.
///
/// The relative error is a small multiple of `(n + 1) u` with `u = 2⁻⁵³` and `n` the window's size, at worst times `n + 1` if
/// one value is far out among the others; it depends on no offset and on nothing outside the window.
pub fn sliding_variance<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    ddof: usize,
    out: &mut Vec<f64>,
) {
    deviations(column, size, slide, ddof, false, out);
}

/// The standard deviation of each window: the root of [`sliding_variance`].
pub fn sliding_std<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    ddof: usize,
    out: &mut Vec<f64>,
) {
    deviations(column, size, slide, ddof, true, out);
}

/// The moments of the valid values. They are NaN if a value is not finite.
pub fn reduce_moments<T: Element>(column: Column<'_, T>) -> Moments {
    let mut pieces = Vec::new();
    for start in (0..column.len()).step_by(PIECE) {
        let len = PIECE.min(column.len() - start);
        dispatch(MomentsOf {
            column,
            pieces: Pieces { at: start, every: len, len, count: 1 },
            out: &mut pieces,
        });
    }
    pieces.into_iter().fold(Moments::NONE, Moments::join)
}

/// Values whose squares are summed at once.
const PIECE: usize = 1 << 12;

fn deviations<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    ddof: usize,
    root: bool,
    out: &mut Vec<f64>,
) {
    let windows = window_count(column.len(), size, slide);
    let start = out.len();
    let degree = if root { Degree::Deviation } else { Degree::Variance };
    let again = |column: Column<'_, f64>, out: &mut Vec<f64>| {
        deviations(column, size, slide, ddof, root, out);
        Ok(())
    };
    if slide > FEW {
        let moments = windows_of_pieces(size, slide, windows, Moments::NONE, Moments::join, |pieces, out| {
            if pieces.len <= PIECE {
                dispatch(MomentsOf { column, pieces, out });
                return;
            }
            for piece in 0..pieces.count {
                out.push(reduce_moments(column.slice(pieces.at + piece * pieces.every, pieces.len)));
            }
        });
        let variances = moments.into_iter().map(|moments| moments.variance(ddof as f64, root));
        out.extend(variances.map(|variance| variance.unwrap_or(f64::NAN)));
        if is_f64::<T>() && has_nonfinite(&out[start..]) {
            mend(column, size, slide, degree, &mut out[start..], again).expect("a count of values fits");
        }
        return;
    }
    if windows == 0 {
        return;
    }
    super::pages::reserve(out, windows + LANES * LONG);
    let mut rooms = Deviations {
        out,
        column,
        size,
        slide,
        skip: 0,
        ddof,
        root,
        counts: column.validity.map(|validity| Counts::new(validity, size)),
        tile: Vec::new(),
        sums: Vec::new(),
        squares: Vec::new(),
        gap: None,
        nonfinite: false,
    };
    let weights = column.validity.map(|validity| Weights { validity, len: column.len() });
    dispatch(Slide {
        op: Squares,
        source: &Numbers(column),
        weights: weights.as_ref().map(|weights| weights as &dyn Source<f64>),
        reference: &|block| reference(column, block, size),
        size,
        windows: (windows - 1) * slide + 1,
        rooms: &mut rooms,
    });
    if is_f64::<T>() && rooms.nonfinite {
        mend(column, size, slide, degree, &mut out[start..], again).expect("a count of values fits");
    }
}

/// A value that all windows starting in a block have in common, as far as they contain any value of the block.
fn reference<T: Element>(column: Column<'_, T>, block: usize, size: usize) -> f64 {
    let end = (block + size).min(column.len());
    let found = match column.validity {
        None => end.checked_sub(1),
        Some(validity) => {
            let next = end..(end + size).min(column.len());
            (block.min(end)..end).rev().chain(next).find(|&i| validity.get(i))
        }
    };
    found.map_or(0.0, |i| column.values[i].to_f64())
}

/// Receives sums and squares of deviations and turns them into variances.
struct Deviations<'a, T> {
    out: &'a mut Vec<f64>,
    column: Column<'a, T>,
    size: usize,
    slide: usize,
    /// Windows of slide 1 before the next one to be answered.
    skip: usize,
    ddof: usize,
    root: bool,
    counts: Option<Counts<'a>>,
    tile: Vec<i64>,
    sums: Vec<f64>,
    squares: Vec<f64>,
    gap: Option<Gap>,
    /// Whether an answer is not finite.
    nonfinite: bool,
}

impl<T: Element> Rooms for Deviations<'_, T> {
    fn rooms(&mut self, len: usize) -> [&mut [MaybeUninit<f64>]; 2] {
        self.sums.clear();
        self.squares.clear();
        self.sums.reserve(len);
        self.squares.reserve(len);
        [self.sums.spare_capacity_mut(), self.squares.spare_capacity_mut()]
    }

    unsafe fn commit(&mut self, start: usize, windows: usize) {
        // SAFETY: the caller has written that many values of both capacities, and the vectors were empty.
        unsafe {
            self.sums.set_len(windows);
            self.squares.set_len(windows);
        }
        let counts = match &mut self.counts {
            None => None,
            Some(counts) => {
                self.tile.resize(windows, 0);
                counts.fill(&mut self.tile);
                self.mend(start, windows);
                Some(&self.tile[..])
            }
        };
        let from = self.out.len();
        self.out.resize(from + windows, 0.0);
        dispatch(Finish {
            sums: &self.sums,
            squares: &self.squares,
            counts,
            size: self.size,
            ddof: self.ddof,
            root: self.root,
            out: &mut self.out[from..],
        });
        if self.slide > 1 {
            let mut taken = from;
            for i in (from + self.skip..from + windows).step_by(self.slide) {
                self.out[taken] = self.out[i];
                taken += 1;
            }
            self.out.truncate(taken);
            self.skip = skip_after(self.skip, windows, self.slide);
        }
        if is_f64::<T>() {
            self.nonfinite |= has_nonfinite(&self.out[from..]);
        }
    }
}

/// The nulls at the end of a block, and the sums of those windows that contain nothing else of it.
struct Gap {
    block: usize,
    /// Where they start: windows from here on contain only values of the next block.
    start: usize,
    /// The value of the next block that its deviations are taken from.
    reference: Option<f64>,
    /// Where the values that are summed end.
    end: usize,
    sum: f64,
    squares: f64,
}

impl<T: Element> Deviations<'_, T> {
    /// Recomputes the sums of the windows from `start` on that contain no value of the block they start in.
    fn mend(&mut self, start: usize, windows: usize) {
        let Some(validity) = self.column.validity else { return };
        let size = self.size;
        let mut block = start / size * size;
        while block < start + windows {
            if self.gap.as_ref().is_none_or(|gap| gap.block != block) {
                let last = (block..block + size).rev().find(|&i| validity.get(i));
                // A block of nulls has been summed relative to the next block already.
                let start = last.map_or(block + size, |last| last + 1);
                let (end, reference) = (block + size, None);
                self.gap = Some(Gap { block, start, reference, end, sum: 0.0, squares: 0.0 });
            }
            let Some(gap) = &mut self.gap else { return };
            for window in gap.start.max(start)..(block + size).min(start + windows) {
                while gap.end < window + size {
                    if validity.get(gap.end) {
                        let value = self.column.values[gap.end].to_f64();
                        let deviation = value - *gap.reference.get_or_insert(value);
                        gap.sum += deviation;
                        gap.squares += deviation * deviation;
                    }
                    gap.end += 1;
                }
                self.sums[window - start] = gap.sum;
                self.squares[window - start] = gap.squares;
            }
            block += size;
        }
    }
}

/// Sums and squares of deviations to variances or their roots.
struct Finish<'a> {
    sums: &'a [f64],
    squares: &'a [f64],
    counts: Option<&'a [i64]>,
    size: usize,
    ddof: usize,
    root: bool,
    out: &'a mut [f64],
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut out = self.out.chunks_exact_mut(LANES);
        let mut i = 0;
        let mut shares = Shares::new(Row::splat(self.size as f64), self.ddof);
        for out in &mut out {
            if let Some(counts) = self.counts {
                shares = Shares::new(i64x8::from_slice(&counts[i..i + LANES]).cast(), self.ddof);
            }
            let (sum, squares) =
                (Row::from_slice(&self.sums[i..i + LANES]), Row::from_slice(&self.squares[i..i + LANES]));
            shares.variance(sum, squares, self.root).copy_to_slice(out);
            i += LANES;
        }
        for out in out.into_remainder() {
            if let Some(counts) = self.counts {
                shares = Shares::new(Row::splat(counts[i] as f64), self.ddof);
            }
            let (sum, squares) = (Row::splat(self.sums[i]), Row::splat(self.squares[i]));
            *out = shares.variance(sum, squares, self.root)[0];
            i += 1;
        }
    }
}

/// What sums are multiplied by, for one division a window or none.
#[derive(Clone, Copy)]
struct Shares {
    /// 1 by the count.
    mean: Row,
    /// 1 by the count less the degrees of freedom subtracted; NaN if that is not above 0.
    variance: Row,
}

impl Shares {
    #[inline(always)]
    fn new(count: Row, ddof: usize) -> Self {
        let free = count - Row::splat(ddof as f64);
        let share = Row::splat(1.0) / (count * free);
        let nan = Row::splat(f64::NAN);
        Self { mean: free * share, variance: free.simd_gt(Row::splat(0.0)).select(count * share, nan) }
    }

    #[inline(always)]
    fn variance(self, sum: Row, squares: Row, root: bool) -> Row {
        let zero = Row::splat(0.0);
        let m2 = squares - sum * (sum * self.mean);
        // Rounding may go below 0; NaN stays.
        let variance = m2.simd_lt(zero).select(zero, m2) * self.variance;
        if root { variance.sqrt() } else { variance }
    }
}

/// The moments of pieces of up to [`PIECE`] values, each relative to its first valid value.
struct MomentsOf<'a, 'o, T> {
    column: Column<'a, T>,
    pieces: Pieces,
    out: &'o mut Vec<Moments>,
}

impl<T: Element> Kernel for MomentsOf<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pieces { at, every, len, count } = self.pieces;
        let numbers = Numbers(self.column);
        let mut scratch = (Vec::new(), Vec::new());
        for piece in 0..count {
            let start = at + piece * every;
            // Whole rows, the last of which may extend past the piece.
            let padded = len.next_multiple_of(LANES);
            let values = numbers.tile(start, padded, &mut scratch.0);
            // Past the piece's end all values count as missing.
            let weights = self.column.validity.map(|validity| Weights { validity, len: start + len });
            let (count, first) = match self.column.validity {
                None => (len, 0),
                Some(validity) => {
                    let first = (0..len).find(|&i| validity.get(start + i)).unwrap_or(0);
                    (ones(validity, start, len) as usize, first)
                }
            };
            let weights = weights.as_ref().map(|weights| weights.tile(start, padded, &mut scratch.1));
            let reference = Row::splat(values[first]);
            let mut states = [[Row::splat(0.0); 2]; 2];
            for (i, row) in values.chunks_exact(LANES).enumerate() {
                let mut deviation = Row::from_slice(row) - reference;
                if let Some(weights) = weights {
                    deviation *= Row::from_slice(&weights[i * LANES..][..LANES]);
                }
                if (i + 1) * LANES > len {
                    let there = Mask::<i64, LANES>::from_bitmask((1 << (len - i * LANES)) - 1);
                    deviation = there.select(deviation, Row::splat(0.0));
                }
                let state = &mut states[i % 2];
                state[0] += deviation;
                state[1] += deviation * deviation;
            }
            let sum = (states[0][0] + states[1][0]).reduce_sum();
            let squares = (states[0][1] + states[1][1]).reduce_sum();
            self.out.push(Moments::new(count, values[first], sum, squares));
        }
    }
}

/// Number, mean and sum of squared deviations. The mean is relative to one of the values: the difference of two means
/// near 1e9 would lose too much precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Number of values.
    pub count: f64,
    /// One of the values, or any number near them.
    pub reference: f64,
    /// The mean less the reference.
    pub mean: f64,
    /// The sum of the squared deviations from the mean.
    pub m2: f64,
}

impl Moments {
    /// The moments of no values.
    pub const NONE: Moments = Moments { count: 0.0, reference: 0.0, mean: 0.0, m2: 0.0 };

    /// From the sums of deviations from `reference` and of their squares.
    fn new(count: usize, reference: f64, sum: f64, squares: f64) -> Self {
        if count == 0 {
            return Self::NONE;
        }
        let count = count as f64;
        let mean = sum / count;
        let m2 = squares - sum * mean;
        Self { count, reference, mean, m2: if m2 < 0.0 { 0.0 } else { m2 } }
    }

    /// The moments of a single value.
    #[inline]
    pub fn of(value: f64) -> Self {
        // The deviation of a value from itself is 0, but of an infinity or NaN it is NaN, as in Spark.
        let m2 = if value.is_finite() { 0.0 } else { f64::NAN };
        Self { count: 1.0, reference: value, mean: 0.0, m2 }
    }

    /// The moments of the values of both, by the parallel update of Chan, Golub and LeVeque (1983, Eq. 2.1), which neither
    /// cancels nor drifts. It is also what Spark's own functions do, so that results agree.
    #[inline]
    pub fn join(self, other: Self) -> Self {
        // Not only a shortcut: an empty side must not touch a mean that is infinite or NaN.
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let share = other.count / count;
        let apart = (other.reference - self.reference) + (other.mean - self.mean);
        let between = apart * apart * (self.count * share);
        Self { count, mean: self.mean + apart * share, m2: self.m2 + other.m2 + between, ..self }
    }

    /// The moments without `part`, whose values are some of these: the inverse of [`Moments::join`]. It cancels where
    /// most of the deviations are those of `part`.
    pub fn without(self, part: Self) -> Self {
        let count = self.count - part.count;
        if part.count == 0.0 {
            return self;
        }
        if count <= 0.0 {
            return Self::NONE;
        }
        // How far the mean of `part` is from that of all, and from that of the rest.
        let from_all = (part.reference - self.reference) + (part.mean - self.mean);
        let from_rest = from_all * (self.count / count);
        let between = from_rest * from_rest * (count * (part.count / self.count));
        let m2 = self.m2 - part.m2 - between;
        // Less than nothing by rounding; a value by itself has no deviation.
        let m2 = if m2 < 0.0 || count == 1.0 && m2.is_finite() { 0.0 } else { m2 };
        Self { count, mean: self.mean - from_all * (part.count / count), m2, ..self }
    }

    /// The variance, or its root, with `ddof` degrees of freedom subtracted; `None` for at most `ddof` values.
    #[inline]
    pub fn variance(self, ddof: f64, root: bool) -> Option<f64> {
        let variance = self.m2 / (self.count - ddof);
        (self.count > ddof).then_some(if root { variance.sqrt() } else { variance })
    }
}
