//! Sliding windows over a column of numbers, by SIMD.
//!
//! Windows are `values[k * slide..k * slide + size]` for `k` in `0..window_count(len, size, slide)`; a slide beyond
//! the size samples. Answers are appended to `out`. Nulls are skipped; NaN is the greatest value and -0.0 equals 0.0.
//! The result of a window without values is described at each function; [`sliding_valid_count`] and
//! [`sliding_validity`] identify these windows.
//!
//! A size or slide of 0 is an error of the caller and panics; see [`window_count`].
//!
//! | | slide 1 | larger slides |
//! |---|---|---|
//! | minimum, maximum | `extrema` | `pieces`, reduced by `reduce` |
//! | their positions | `arg`, by `extrema` | `arg`, by `pieces` |
//! | sums and means of integers | `integers` | `pieces`, reduced by `integers` |
//! | sums and means of floats | `rows` | `pieces`, reduced by `reduce` |
//! | variances | `moments`, by `rows` | `moments`, by `pieces` |
//! | counts | `counts` | `counts` |
//!
//! Every kernel is compiled for each [`Level`] of instructions and chosen at run time (`level`); all share the way
//! values are read and answers written, tile by tile (`stream`, `numbers`). No result depends on the level.
//!
//! `unsafe` is allowed here, as in few other places; each use says why it is sound.

#![allow(unsafe_code)]

mod arg;
mod ascent;
mod column;
mod counts;
mod element;
mod extrema;
mod integers;
mod lanes;
mod level;
pub mod mix;
mod moments;
pub mod murmur;
mod numbers;
mod overflow;
mod pages;
mod pieces;
mod reduce;
mod rows;
mod sliding;
mod stream;
mod sums;
#[cfg(test)]
mod tests;
mod whole;
mod word;

pub use arg::{sliding_arg_max, sliding_arg_min};
pub use ascent::{is_ascending, span};
pub use column::{Column, Validity, window_count};
pub use counts::{sliding_valid_count, sliding_validity};
pub use element::Element;
pub use level::Level;
pub use moments::{Moments, reduce_moments, sliding_std, sliding_variance};
pub use overflow::{Degree, Scaled};
pub use pages::room;
pub use sliding::{sliding_max, sliding_min};
pub use sums::{reduce_compensated, sliding_mean, sliding_sum};
pub use whole::{reduce_max, reduce_min, reduce_sum};
pub use word::Word;

/// A window whose true sum its type cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumOverflow {
    /// Which window.
    pub window: usize,
}
