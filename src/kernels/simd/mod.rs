//! Sliding windows over a column of numbers at the speed of memory.
//!
//! Windows are `values[k * slide..k * slide + size]` for `k` in `0..window_count(len, size, slide)`; a slide beyond
//! the size samples. Answers are appended to `out`. Nulls are skipped; NaN is the greatest value and -0.0 equals 0.0.
//! A window without values gets what each function says; [`sliding_valid_count`] and [`sliding_validity`] tell which
//! windows those are.

#![allow(unsafe_code)]

mod column;
mod counts;
mod element;
mod extrema;
mod integers;
mod lanes;
mod level;
pub mod mix;
pub mod murmur;
mod numbers;
mod pieces;
mod reduce;
mod rows;
mod scalar;
mod sliding;
mod stream;
mod sums;
#[cfg(test)]
mod tests;
mod word;

pub use column::{Column, Validity, window_count};
pub use counts::{sliding_valid_count, sliding_validity};
pub use element::Element;
pub use level::Level;
pub use scalar::{
    fill_nulls, prefix_max, prefix_min, prefix_sum, reduce_arg_max, reduce_arg_min, reduce_max, reduce_mean,
    reduce_min, reduce_moments, reduce_sum, sliding_arg_max, sliding_arg_min, sliding_std, sliding_variance,
    suffix_max, suffix_min, suffix_sum,
};
pub use sliding::{sliding_max, sliding_min};
pub use sums::{sliding_mean, sliding_sum};
pub use word::Word;

/// A window whose true sum its type cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumOverflow {
    /// Which window.
    pub window: usize,
}

/// Count, mean and sum of squared deviations from the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Number of values.
    pub count: usize,
    /// Their mean; 0 if there are none.
    pub mean: f64,
    /// The sum of their squared deviations from the mean.
    pub m2: f64,
}

impl Moments {
    /// The variance with `ddof` degrees of freedom taken off; NaN if there are no more than `ddof` values.
    pub fn variance(&self, ddof: usize) -> f64 {
        if self.count > ddof { self.m2 / (self.count - ddof) as f64 } else { f64::NAN }
    }
}
