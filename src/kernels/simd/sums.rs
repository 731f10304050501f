//! Sums, means and variances of sliding windows: which kernel computes them, and what is done to its answers.

use super::counts::Counts;
use super::integers::{Sums, Totals};
use super::level::{Kernel, dispatch};
use super::numbers::Numbers;
use super::rows::{LONG, Rooms, Slide, Sum};
use super::stream::Values;
use super::{Column, Element, SumOverflow, element, window_count};
use std::mem::MaybeUninit;

/// The sum of each window, appended to `out`; 0 for a window without values.
///
/// Integers are summed exactly. The sum of floats is off by at most `u |sum| + (n u)² Σ|x|` with `u = 2⁻⁵³` and `n` the
/// window's size, which is less than Kahan's bound; see `rows`. An infinity or NaN is in the sums of just those windows
/// that contain it.
///
/// # Errors
/// The first window whose true sum its type cannot hold; the sums of windows before it may have been appended.
pub fn sliding_sum<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    out: &mut Vec<T::Sum>,
) -> Result<(), SumOverflow> {
    let windows = window_count(column.len(), size, slide);
    if windows == 0 {
        return Ok(());
    }
    assert_eq!(slide, 1, "for now");
    if let Some(out) = T::floats(out) {
        out.reserve(windows + SLACK);
        floats(column, size, windows, &mut Floats { out, divide: None });
        Ok(())
    } else {
        out.reserve(windows);
        integers(column, size, windows, &mut IntegerSums::<T> { out })
    }
}

/// The mean of each window, appended to `out`; NaN for a window without values.
///
/// The sum, as [`sliding_sum`] computes it but without an overflow, divided by the number of values.
pub fn sliding_mean<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<f64>) {
    let windows = window_count(column.len(), size, slide);
    if windows == 0 {
        return;
    }
    assert_eq!(slide, 1, "for now");
    out.reserve(windows + SLACK);
    let counts = column.validity.map(|validity| (Counts::new(validity, size), Vec::new()));
    let divide = Divide { size, counts };
    if T::FLOAT {
        floats(column, size, windows, &mut Floats { out, divide: Some(divide) });
    } else {
        let mut means = IntegerMeans { out, divide, signed: T::SIGNED };
        integers(column, size, windows, &mut means).expect("means do not overflow");
    }
}

/// Values that kernels may write after the last window's.
const SLACK: usize = 8 * LONG + 8;

fn floats<T: Element>(column: Column<'_, T>, size: usize, windows: usize, rooms: &mut dyn Rooms) {
    let (op, source) = (Sum, &Numbers(column));
    dispatch(Slide { op, source, weights: None, reference: &|_| 0.0, size, windows, rooms });
}

fn integers<T: Element>(
    column: Column<'_, T>,
    size: usize,
    windows: usize,
    totals: &mut dyn Totals,
) -> Result<(), SumOverflow> {
    let keys = element::keys(column.values);
    let source = Values { keys, validity: column.validity, fill: T::Key::default() };
    dispatch(Sums::<T> { source: &source, size, windows, totals })
}

/// Sums of integers on their way to a vector.
struct IntegerSums<'a, T: Element> {
    out: &'a mut Vec<T::Sum>,
}

impl<T: Element> Totals for IntegerSums<'_, T> {
    fn fitting(&mut self, sums: &[i64]) {
        self.out.extend(sums.iter().map(|&sum| T::from_bits(sum)));
    }

    fn exact(&mut self, start: usize, sums: &[i128]) -> Result<(), SumOverflow> {
        for (i, &sum) in sums.iter().enumerate() {
            self.out.push(T::narrow(sum).ok_or(SumOverflow { window: start + i })?);
        }
        Ok(())
    }
}

/// Sums of floats, or means, on their way to a vector.
struct Floats<'a> {
    out: &'a mut Vec<f64>,
    divide: Option<Divide<'a>>,
}

impl Rooms for Floats<'_> {
    fn rooms(&mut self, len: usize) -> [&mut [MaybeUninit<f64>]; 2] {
        self.out.reserve(len);
        [self.out.spare_capacity_mut(), &mut []]
    }

    unsafe fn commit(&mut self, _: usize, windows: usize) {
        let start = self.out.len();
        // SAFETY: the caller has written that many values of the spare capacity.
        unsafe { self.out.set_len(start + windows) };
        if let Some(divide) = &mut self.divide {
            divide.tile(&mut self.out[start..]);
        }
    }
}

/// Sums of integers on their way to means.
struct IntegerMeans<'a> {
    out: &'a mut Vec<f64>,
    divide: Divide<'a>,
    signed: bool,
}

impl Totals for IntegerMeans<'_> {
    fn fitting(&mut self, sums: &[i64]) {
        let start = self.out.len();
        self.out.resize(start + sums.len(), 0.0);
        dispatch(ToFloat { sums, signed: self.signed, out: &mut self.out[start..] });
        self.divide.tile(&mut self.out[start..]);
    }

    fn exact(&mut self, _: usize, sums: &[i128]) -> Result<(), SumOverflow> {
        let start = self.out.len();
        self.out.extend(sums.iter().map(|&sum| sum as f64));
        self.divide.tile(&mut self.out[start..]);
        Ok(())
    }
}

/// Sums of 64 bits to the nearest floats.
struct ToFloat<'a> {
    sums: &'a [i64],
    signed: bool,
    out: &'a mut [f64],
}

impl Kernel for ToFloat<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.signed {
            for (slot, &sum) in self.out.iter_mut().zip(self.sums) {
                *slot = sum as f64;
            }
        } else {
            for (slot, &sum) in self.out.iter_mut().zip(self.sums) {
                *slot = sum as u64 as f64;
            }
        }
    }
}

/// Divides the sums of one window after the other by their counts.
struct Divide<'a> {
    size: usize,
    counts: Option<(Counts<'a>, Vec<i64>)>,
}

impl Divide<'_> {
    fn tile(&mut self, sums: &mut [f64]) {
        match &mut self.counts {
            None => dispatch(By { sums, count: self.size as f64 }),
            Some((counts, tile)) => {
                tile.resize(sums.len(), 0);
                counts.fill(tile);
                dispatch(ByEach { sums, counts: tile });
            }
        }
    }
}

struct By<'a> {
    sums: &'a mut [f64],
    count: f64,
}

impl Kernel for By<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for sum in self.sums {
            *sum /= self.count;
        }
    }
}

struct ByEach<'a> {
    sums: &'a mut [f64],
    counts: &'a [i64],
}

impl Kernel for ByEach<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, &count) in self.sums.iter_mut().zip(self.counts) {
            // 0 / 0 is NaN, as wanted.
            *sum /= count as f64;
        }
    }
}
