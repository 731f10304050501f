//! Operators: queries bound to a schema, and what runs them.
//!
//! A [`Plan`] checks a query against a schema and says what is stored; [`Bounded`] takes all rows (or slices made
//! elsewhere) and then hands out every window as [`Output`], or its slices by bucket of keys, for another to go on with.
//! Where a window needs rows in order it keeps them (`ranked`), and else slices only. A [`Stream`] takes rows and
//! watermarks without end, and hands out windows as they become final; it stores slices. Queries that need rows have
//! them kept beside slices (`keeping`), and [`Running`] is the operator of both.

mod bounded;
mod buckets;
mod keeping;
mod output;
mod parts;
mod plan;
mod ranked;
mod running;
mod stream;
mod window_spec;

pub use bounded::Bounded;
pub use buckets::split_rows;
pub use output::{BATCH_ROWS, BLOCKS_PER_ROUND, Output};
pub use plan::{AggregateSpec, Plan, Stored};
pub use running::Running;
pub use stream::{Contents, Options, Stats, StoreKind, Stream, length};
pub use window_spec::{Length, Moment, WindowKind, WindowSpec};
