//! Operators: queries bound to a schema, and what runs them.
//!
//! A [`Plan`] checks a query against a schema and says what is stored; [`Bounded`] takes all rows (or slices made
//! elsewhere) and then hands out every window as [`Output`]. A [`Stream`] takes rows and watermarks without end, and hands
//! out windows as they become final.

mod bounded;
mod output;
mod plan;
mod stream;

pub use bounded::Bounded;
pub use output::{BATCH_ROWS, BLOCKS_PER_ROUND, Output};
pub use plan::{AggregateSpec, Plan, Stored, WindowKind, WindowSpec};
pub use stream::{Contents, Options, Stats, StoreKind, Stream, length};
