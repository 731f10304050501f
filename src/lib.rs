//! Window aggregation over Arrow data.
//!
//! Rows are reduced to *slices*, non-overlapping chunks of one key's timeline with one partial aggregate per function
//! (Traub et al., *Efficient Window Aggregation with General Stream Slicing*, EDBT 2019), and windows are computed from
//! slices, however many windows overlap. Data flows in one direction:
//!
//! ```text
//! Arrow batch -> measure column + dense key ids -> slice slots -> partials -> windows -> Arrow batch
//! ```
//!
//! The modules are listed from the lowest layer on; a lower layer never uses a higher one.
//!
//! | module | contents |
//! |---|---|
//! | [`simd`] | windows of rows by SIMD: one copy per instruction set, chosen at run time |
//! | [`algebra`] | the functions: identity, combine, inverse, lift; count, sums, extrema, ends, moments |
//! | [`kernels`] | arrays in, arrays out; no keys, no state; windows over a stream |
//! | [`keys`] | key columns to dense ids |
//! | [`sketch`] | HyperLogLog, heavy hitters, membership: memory that does not grow with the keys |
//! | [`aggregate`] | columns of partials: how functions are lifted from Arrow columns and lowered to them |
//! | [`window`] | window types as `windows()`, `extent()`, `wids()`; measures |
//! | [`slice`](mod@slice) | slice edges, the slicer, the table of slices |
//! | [`state`] | snapshots: one envelope, one byte reader |
//! | [`partition`] | which worker gets which row, and what that costs |
//! | [`operator`] | plans bound to a schema and the operator that runs them |
//!
//! Below all of them, [`select`] takes rows of arrays, [`interrupt`] lets long work end early, and
//! [`poll`] hands requests to end on to the layers below the operator.

#![feature(portable_simd)]
#![feature(alloc_error_hook)]
#![feature(allocator_api)]

pub mod aggregate;
pub mod algebra;
pub mod bounds;
mod dictionary;
pub mod error;
pub mod interrupt;
pub mod kernels;
pub mod keys;
pub mod memory;
pub mod operator;
pub mod partition;
pub mod poll;
pub mod select;
pub mod simd;
pub mod sketch;
pub mod slice;
pub mod state;
pub mod types;
pub mod window;

#[cfg(feature = "python")]
mod python;

pub use error::{Error, Result};
