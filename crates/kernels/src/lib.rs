//! Windows over Arrow arrays: sums, extrema, variances and the like of every window, in time that does not depend on how
//! many windows overlap.
//!
//! [`answer`] takes an array and says which windows: of a number of rows, of time, or any list of ranges. [`streaming`] has
//! windows that rows are pushed into, one after the other. The steps below these are public, too. They are listed from the
//! lowest on; a lower one never uses a higher one.
//!
//! | module | contents |
//! |---|---|
//! | [`simd`] | windows of rows by SIMD: one copy per instruction set, chosen at run time |
//! | [`algebra`] | the functions: identity, combine, inverse, lift; count, sums, extrema, ends, moments |
//! | this one | windows as ranges of rows, and the algorithms over them: [`two_stacks`], [`subtract_on_evict`], [`recalculate`] |
//! | [`streaming`] | windows over a stream |
//!
//! [`error`] groups errors by how a caller catches them. Long work calls a function between its pieces ([`poll`]), memory
//! that runs out is an error ([`memory`]), [`select`] takes rows of arrays, [`measure`] reads columns of time as integers,
//! [`dictionary`] has the types of dictionaries' values, and [`types`] says what errors call types.
//!
//! ```
//! use windowkit_kernels::algebra::Extremum;
//! use windowkit_kernels::{Ranges, two_stacks};
//!
//! let mut windows = Ranges::with_capacity(2);
//! windows.push(0, 3);
//! windows.push(1, 4);
//! let greatest = two_stacks(&[2, 7, 1, 8], &windows, &Extremum::<i64, true>::new(false));
//! assert_eq!(greatest, [7, 8]);
//! ```

#![feature(portable_simd)]
#![feature(alloc_error_hook)]
#![feature(allocator_api)]

pub mod algebra;
pub mod dictionary;
pub mod error;
mod kernels;
pub mod measure;
pub mod memory;
pub mod poll;
pub mod select;
pub mod simd;
pub mod types;

pub use error::{Error, Result};
pub use kernels::*;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
