//! Joins of two inputs by keys and times: each row with the rows of the other side around its time, or in its windows.
//!
//! | | |
//! |---|---|
//! | needs | all rows of both sides, in any order |
//! | time | O(n) to order rows by key, O(n log n) where a key's rows are out of order; then O(1) amortised a row, and O(1) a row of the result |
//! | space | the input columns that the result has, unchanged; some 40 bytes a row; one batch of results a thread |
//! | first appeared | order-agnostic joins of streams: Li, *Window Queries over Data Streams*, 2008, ch. 7 |
//!
//! The partners of a row follow each other in the order of key and time, as those of the next row do, and neither end of
//! them moves back: so both ends are found by a sweep. The rows of the result are listed from these ranges, batch by batch.

mod condition;
mod kind;
mod lister;
mod net;
mod output;
mod part;
mod partners;
mod plan;
mod side;
mod stream;
mod windows;

pub use condition::ConditionSpec;
pub use kind::{JoinKind, Which};
pub use output::{JoinOutput, JoinRows};
pub use plan::{JoinPlan, JoinSpec, SideSpec};
pub use stream::{JoinContents, JoinOptions, JoinStats, JoinStep, JoinStream};
