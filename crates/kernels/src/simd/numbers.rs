//! Columns as `f64`, tile by tile, for sums and moments.

use super::level::{Kernel, dispatch};
use super::stream::{Source, prefetch};
use super::{Column, Element, Validity};
use std::simd::prelude::*;

/// A column as the nearest `f64`; 0 past the end and for nulls.
pub(super) struct Numbers<'a, T>(pub Column<'a, T>);

impl<T: Element> Source<f64> for Numbers<'_, T> {
    fn tile<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<f64>) -> &'s [f64] {
        let inside = self.0.len().saturating_sub(start).min(len);
        if self.0.validity.is_none()
            && inside == len
            && let Some(values) = T::as_f64(self.0.values)
        {
            return &values[start..start + len];
        }
        let scratch = grown(scratch, len);
        let (there, beyond) = scratch.split_at_mut(inside);
        beyond.fill(0.0);
        if inside > 0 {
            let column = self.0.slice(start, inside);
            match column.validity {
                None => dispatch(Widen { values: column.values, into: there }),
                Some(validity) => dispatch(WidenValid { values: column.values, validity, into: there }),
            }
        }
        scratch
    }

    fn expect(&self, start: usize, len: usize) {
        let start = start.min(self.0.len());
        prefetch(&self.0.values[start..self.0.len().min(start + len)]);
    }
}

/// 1 for each valid value, 0 past the end and for nulls.
pub(super) struct Weights<'a> {
    pub validity: Validity<'a>,
    pub len: usize,
}

impl Source<f64> for Weights<'_> {
    fn tile<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<f64>) -> &'s [f64] {
        let inside = self.len.saturating_sub(start).min(len);
        let scratch = grown(scratch, len);
        let (there, beyond) = scratch.split_at_mut(inside);
        beyond.fill(0.0);
        dispatch(Weigh { validity: self.validity.skip(start.min(self.len)), into: there });
        scratch
    }

    fn expect(&self, _: usize, _: usize) {}
}

/// The first `len` values of a scratch buffer that never shrinks, so that only new values are written twice.
fn grown(scratch: &mut Vec<f64>, len: usize) -> &mut [f64] {
    if scratch.len() < len {
        scratch.resize(len, 0.0);
    }
    &mut scratch[..len]
}

struct Widen<'a, T> {
    values: &'a [T],
    into: &'a mut [f64],
}

impl<T: Element> Kernel for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.values.chunks_exact(8);
        let last = rows.remainder();
        let mut into = self.into.chunks_exact_mut(8);
        for (values, into) in rows.zip(&mut into) {
            T::row(values).copy_to_slice(into);
        }
        for (value, into) in last.iter().zip(into.into_remainder()) {
            *into = value.to_f64();
        }
    }
}

struct WidenValid<'a, T> {
    values: &'a [T],
    validity: Validity<'a>,
    into: &'a mut [f64],
}

impl<T: Element> Kernel for WidenValid<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let zero = Simd::splat(0.0);
        for (i, (values, into)) in self.values.chunks(64).zip(self.into.chunks_mut(64)).enumerate() {
            let mut word = self.validity.word(i * 64);
            let rows = values.chunks_exact(8);
            let last = rows.remainder();
            let mut into = into.chunks_exact_mut(8);
            for (values, into) in rows.zip(&mut into) {
                let there = Mask::<i64, 8>::from_bitmask(word & 0xff);
                there.select(T::row(values), zero).copy_to_slice(into);
                word >>= 8;
            }
            for (value, into) in last.iter().zip(into.into_remainder()) {
                *into = if word & 1 == 1 { value.to_f64() } else { 0.0 };
                word >>= 1;
            }
        }
    }
}

struct Weigh<'a> {
    validity: Validity<'a>,
    into: &'a mut [f64],
}

impl Kernel for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (zero, one) = (Simd::splat(0.0), Simd::splat(1.0));
        for (i, into) in self.into.chunks_mut(64).enumerate() {
            let mut word = self.validity.word(i * 64);
            let mut into = into.chunks_exact_mut(8);
            for into in &mut into {
                Mask::<i64, 8>::from_bitmask(word & 0xff).select(one, zero).copy_to_slice(into);
                word >>= 8;
            }
            for into in into.into_remainder() {
                *into = (word & 1) as f64;
                word >>= 1;
            }
        }
    }
}
