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
//! | [`kernels`] | arrays in, arrays out; no keys, no state; windows over a stream. A crate of its own, `windowkit-kernels`, with all above |
//! | [`keys`] | key columns to dense ids |
//! | [`sketch`] | HyperLogLog, heavy hitters, membership: memory that does not grow with the keys |
//! | [`state`] | snapshots: one envelope around values and columns |
//! | [`partition`] | which worker gets which row, and what that costs. A crate of its own, `windowkit-partition`, with the three above |
//! | [`bounds`], [`import`], [`interrupt`], [`shared`] | whether Arrow data stays within its buffers; batches from the C data interface; interrupts, for which the operators look; what threads use one at a time |
//! | [`aggregate`] | columns of partials: how functions are lifted from Arrow columns and lowered to them |
//! | [`window`] | window types as `windows()`, `extent()`, `wids()` |
//! | [`slice`](mod@slice) | slice edges, the slicer, the table of slices |
//! | [`operator`] | plans bound to a schema and the operator that runs them |
//!
//! Below all of them, in the crate of the kernels, [`select`] takes rows of arrays, and [`poll`] hands requests to end on
//! to the layers below the operator.

pub mod aggregate;
pub mod bounds;
pub mod import;
pub mod interrupt;
pub mod operator;
pub mod shared;
pub mod slice;
pub mod window;

#[cfg(feature = "python")]
mod python;

pub use windowkit_kernels as kernels;
pub use windowkit_kernels::{
    Error, Result, algebra, dictionary, error, measure, memory, poll, select, simd, types,
};
pub use windowkit_partition as partition;
pub use windowkit_partition::{keys, sketch, state};
