//! Operators: queries bound to a schema, and what runs them.
//!
//! A [`Plan`] checks a query against a schema and says what is stored; [`Bounded`] takes all rows (or slices made
//! elsewhere) and then hands out every window as [`Output`].

mod bounded;
mod output;
mod plan;

pub use bounded::Bounded;
pub use output::{BATCH_ROWS, BLOCKS_PER_ROUND, Output};
pub use plan::{AggregateSpec, Plan, Stored, WindowKind, WindowSpec};
