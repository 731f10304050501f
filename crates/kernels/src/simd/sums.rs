//! Sums and means of sliding windows: which kernel computes them, and how its answers are finished.
//!
//! | | |
//! |---|---|
//! | needs | numbers; floats are summed with what rounding loses (Knuth's two-sum), integers exactly |
//! | time | see `rows` (floats), `integers`, and `pieces` (slides above a few rows) |
//! | space | see there |
//! | error | of floats at most 2u·Σ\|x\| over a window, u = 2⁻⁵³ |

use super::counts::{self, Counts};
use super::integers::{ExactSums, Sums, Totals};
use super::level::{Kernel, dispatch};
use super::numbers::Numbers;
use super::overflow::{Degree, Scaled, has_nonfinite};
use super::pieces::{Pieces, windows_of_pieces};
use super::reduce::States;
use super::rows::{LONG, Op, Rooms, Row, Slide, Sum};
use super::sliding::{FEW, skip_after};
use super::stream::Values;
use super::{Column, Element, SumOverflow, Validity, element, window_count};
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
    if let Some(out) = T::floats(out) {
        let start = out.len();
        let nonfinite = if slide > FEW {
            float_pieces(column, size, slide, windows, out);
            has_nonfinite(&out[start..])
        } else {
            super::pages::reserve(out, windows + SLACK);
            let mut rooms = Floats::new::<T>(out, slide, None);
            floats(column, size, (windows - 1) * slide + 1, &mut rooms);
            rooms.nonfinite
        };
        if nonfinite {
            mend(column, size, slide, Degree::Sum, &mut out[start..], |column, out| {
                sliding_sum(column, size, slide, out)
            })?;
        }
        return Ok(());
    }
    if slide > FEW {
        for (window, sum) in integer_pieces(column, size, slide, windows).into_iter().enumerate() {
            out.push(T::narrow(sum).ok_or(SumOverflow { window })?);
        }
        return Ok(());
    }
    super::pages::reserve(out, windows);
    let mut totals = IntegerSums::<T> { out, pick: Pick::every(slide) };
    integers(column, size, (windows - 1) * slide + 1, &mut totals)
}

/// The mean of each window, appended to `out`; NaN for a window without values.
///
/// The sum, as [`sliding_sum`] computes it but without an overflow, divided by the number of values.
pub fn sliding_mean<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<f64>) {
    let windows = window_count(column.len(), size, slide);
    if windows == 0 {
        return;
    }
    super::pages::reserve(out, windows + SLACK);
    let counts = column.validity.map(|validity| Divisor::new(validity, size, slide));
    let mut divide = Divide { size, counts };
    let (start, mut nonfinite) = (out.len(), false);
    match (T::FLOAT, slide > FEW) {
        (true, false) => {
            let mut rooms = Floats::new::<T>(out, slide, Some(divide));
            floats(column, size, (windows - 1) * slide + 1, &mut rooms);
            nonfinite = rooms.nonfinite;
        }
        (false, false) => {
            let pick = Pick::every(slide);
            let mut means = IntegerMeans { out, pick, divide, signed: T::SIGNED };
            let result = integers(column, size, (windows - 1) * slide + 1, &mut means);
            result.expect("means do not overflow");
        }
        (true, true) => {
            float_pieces(column, size, slide, windows, out);
            divide.tile(&mut out[start..]);
            nonfinite = has_nonfinite(&out[start..]);
        }
        (false, true) => {
            out.extend(integer_pieces(column, size, slide, windows).into_iter().map(|sum| sum as f64));
            divide.tile(&mut out[start..]);
        }
    }
    if nonfinite {
        let mended = mend(column, size, slide, Degree::Sum, &mut out[start..], |column, out| {
            sliding_mean(column, size, slide, out);
            Ok(())
        });
        mended.expect("means do not overflow");
    }
}

/// Recomputes those of `answers` that are not finite although all values of their windows are.
pub(super) fn mend<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    degree: Degree,
    answers: &mut [f64],
    answer: impl FnOnce(Column<'_, f64>, &mut Vec<f64>) -> Result<(), SumOverflow>,
) -> Result<(), SumOverflow> {
    let Some(scaled) = Scaled::new(column.values.iter().map(|value| value.to_f64()), degree) else {
        return Ok(());
    };
    let (mut again, mut nonfinite) = (Vec::new(), Vec::new());
    answer(Column { values: &scaled.values, validity: column.validity }, &mut again)?;
    sliding_sum(
        Column { values: &scaled.nonfinite[..], validity: column.validity },
        size,
        slide,
        &mut nonfinite,
    )?;
    scaled.repair(answers, &again, nonfinite.into_iter().map(|number| number > 0));
    Ok(())
}

/// The sum of `values` in two parts, `(sum, lost)`: `sum + lost`, not yet added up, errs by what Knuth's compensation
/// of every single value leaves. The lost part of a sum that is not finite is NaN.
///
/// ```
/// use windowkit_kernels::simd::reduce_compensated;
///
/// assert_eq!(reduce_compensated(&[9007199254740992.0, 1.0, -9007199254740992.0]), (0.0, 1.0));
/// ```
pub fn reduce_compensated(values: &[f64]) -> (f64, f64) {
    let mut out = Vec::with_capacity(1);
    if !values.is_empty() {
        let pieces = Pieces { at: 0, every: values.len(), len: values.len(), count: 1 };
        dispatch(States { op: Sum, source: &Numbers(Column::from(values)), pieces, out: &mut out });
    }
    out.pop().map_or((0.0, 0.0), |[sum, lost]| (sum, lost))
}

/// Sums of floats at slides for which a separate reduction pays off.
fn float_pieces<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    windows: usize,
    out: &mut Vec<f64>,
) {
    let source = Numbers(column);
    let join = |a: [f64; 2], b: [f64; 2]| Sum.join(a.map(Row::splat), b.map(Row::splat)).map(|half| half[0]);
    let sums = windows_of_pieces(size, slide, windows, [0.0; 2], join, |pieces, out| {
        dispatch(States { op: Sum, source: &source, pieces, out });
    });
    out.extend(sums.into_iter().map(|sum| Sum.finish(sum.map(Row::splat))[0][0]));
}

/// Sums of integers, as [`float_pieces`].
fn integer_pieces<T: Element>(column: Column<'_, T>, size: usize, slide: usize, windows: usize) -> Vec<i128> {
    let keys = element::keys(column.values);
    let source = Values { keys, validity: column.validity, fill: T::Key::default() };
    windows_of_pieces(
        size,
        slide,
        windows,
        0,
        |a, b| a + b,
        |pieces, out| {
            dispatch(ExactSums::<T> { source: &source, pieces, out });
        },
    )
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

/// Receives sums of integers and appends them to a vector.
struct IntegerSums<'a, T: Element> {
    out: &'a mut Vec<T::Sum>,
    pick: Pick,
}

impl<T: Element> Totals for IntegerSums<'_, T> {
    fn fitting(&mut self, sums: &[i64]) {
        if self.pick.slide == 1 {
            self.out.extend(sums.iter().map(|&sum| T::from_bits(sum)));
        } else {
            self.out.extend(self.pick.of(sums).map(|&sum| T::from_bits(sum)));
        }
    }

    fn exact(&mut self, start: usize, sums: &[i128]) -> Result<(), SumOverflow> {
        let first = (start + self.pick.skip) / self.pick.slide;
        for (i, &sum) in self.pick.of(sums).enumerate() {
            self.out.push(T::narrow(sum).ok_or(SumOverflow { window: first + i })?);
        }
        Ok(())
    }
}

/// Takes every `slide`-th answer, where pieces of slides would be too short to pay off.
struct Pick {
    slide: usize,
    /// Number of answers before the next one to take.
    skip: usize,
}

impl Pick {
    fn every(slide: usize) -> Self {
        Self { slide, skip: 0 }
    }

    fn of<'a, V>(&mut self, answers: &'a [V]) -> impl Iterator<Item = &'a V> + use<'a, V> {
        let picked = answers.iter().skip(self.skip).step_by(self.slide);
        self.skip = skip_after(self.skip, answers.len(), self.slide);
        picked
    }
}

/// Receives sums of floats, or means, and appends them to a vector.
struct Floats<'a> {
    out: &'a mut Vec<f64>,
    pick: Pick,
    divide: Option<Divide<'a>>,
    /// Whether answers could leave the range of a float, as sums of `f64` can, and of no other type.
    watched: bool,
    /// Whether one of them is not finite.
    nonfinite: bool,
}

impl<'a> Floats<'a> {
    fn new<T: Element>(out: &'a mut Vec<f64>, slide: usize, divide: Option<Divide<'a>>) -> Self {
        Self { out, pick: Pick::every(slide), divide, watched: is_f64::<T>(), nonfinite: false }
    }
}

/// Whether sums and squares of values can leave the range of a float.
pub(super) fn is_f64<T: Element>() -> bool {
    T::FLOAT && size_of::<T>() == size_of::<f64>()
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
        if self.pick.slide > 1 {
            let mut taken = start;
            for i in (start + self.pick.skip..start + windows).step_by(self.pick.slide) {
                self.out[taken] = self.out[i];
                taken += 1;
            }
            self.out.truncate(taken);
            self.pick.skip = skip_after(self.pick.skip, windows, self.pick.slide);
        }
        if let Some(divide) = &mut self.divide {
            divide.tile(&mut self.out[start..]);
        }
        // A tile at a time, while it is in the cache.
        if self.watched {
            self.nonfinite |= has_nonfinite(&self.out[start..]);
        }
    }
}

/// Receives sums of integers and turns them into means.
struct IntegerMeans<'a> {
    out: &'a mut Vec<f64>,
    pick: Pick,
    divide: Divide<'a>,
    signed: bool,
}

impl Totals for IntegerMeans<'_> {
    fn fitting(&mut self, sums: &[i64]) {
        let start = self.out.len();
        if self.pick.slide == 1 {
            self.out.resize(start + sums.len(), 0.0);
            dispatch(ToFloat { sums, signed: self.signed, out: &mut self.out[start..] });
        } else {
            let signed = self.signed;
            let float = |&sum: &i64| if signed { sum as f64 } else { sum as u64 as f64 };
            self.out.extend(self.pick.of(sums).map(float));
        }
        self.divide.tile(&mut self.out[start..]);
    }

    fn exact(&mut self, _: usize, sums: &[i128]) -> Result<(), SumOverflow> {
        let start = self.out.len();
        self.out.extend(self.pick.of(sums).map(|&sum| sum as f64));
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
    counts: Option<Divisor<'a>>,
}

/// The counts of one window after the other.
struct Divisor<'a> {
    validity: Validity<'a>,
    size: usize,
    slide: usize,
    /// At slide 1 each count is derived from the previous one.
    counts: Counts<'a>,
    next: usize,
    tile: Vec<i64>,
}

impl<'a> Divisor<'a> {
    fn new(validity: Validity<'a>, size: usize, slide: usize) -> Self {
        Self { validity, size, slide, counts: Counts::new(validity, size), next: 0, tile: Vec::new() }
    }

    fn next(&mut self, windows: usize) -> &[i64] {
        self.tile.resize(windows, 0);
        if self.slide == 1 {
            self.counts.fill(&mut self.tile);
        } else {
            counts::fill(self.validity.skip(self.next * self.slide), self.size, self.slide, &mut self.tile);
            self.next += windows;
        }
        &self.tile
    }
}

impl Divide<'_> {
    fn tile(&mut self, sums: &mut [f64]) {
        match &mut self.counts {
            None => dispatch(By { sums, count: self.size as f64 }),
            Some(divisor) => {
                let counts = divisor.next(sums.len());
                dispatch(ByEach { sums, counts });
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
