//! Operators: queries bound to a schema, and what runs them.
//!
//! A [`Plan`] checks a query against a schema and determines what is stored; [`Bounded`] takes all rows (or slices made
//! elsewhere) and then emits every window as [`Output`], or its slices by bucket of keys for another task to continue
//! with. Where a window needs rows in order, `gathered` keeps them; otherwise only slices are kept. A stream [`Operator`]
//! takes rows and watermarks without end, and emits windows as they become final; it stores slices, and rows under them
//! only for the queries that need them. [`JoinRows`] and [`JoinStream`] join two tables and two streams, and
//! [`DistinctStream`] removes duplicates.

mod batching;
mod binding;
mod bounded;
mod buckets;
mod call;
mod dates;
mod distinct;
mod fill;
mod gathered;
#[cfg(test)]
mod growth;
mod held;
mod join;
mod length;
mod lowered;
mod numbered;
mod outbox;
mod output;
mod parts;
mod plan;
mod policy;
mod progress;
mod rolling;
mod schema;
mod shedding;
mod spread;
mod stored;
mod stream;
mod weights;
mod wids;
mod window_spec;
mod zone_rules;

pub use batching::BATCH_ROWS;
pub use bounded::Bounded;
pub use buckets::{schema as slices_schema, split_rows};
pub use dates::dates;
pub use distinct::{DistinctOptions, DistinctPlan, DistinctStats, DistinctStep, DistinctStream, Per};
pub use fill::Fill;
pub use join::{
    ConditionSpec, JoinContents, JoinKind, JoinOptions, JoinOutput, JoinPlan, JoinRows, JoinSpec, JoinStats,
    JoinStep, JoinStream, SideSpec, Which,
};
pub use length::length;
pub use output::{BLOCKS_PER_ROUND, Output};
pub use plan::{AggregateSpec, MAX_WINDOWS, Plan, Stored};
pub use policy::{Flush, Policy, Term};
pub use progress::{By, Delay, Heartbeat};
pub use rolling::{FrameSpec, Rolling, RollingRows};
#[cfg(feature = "python")]
pub(crate) use schema::find;
pub use shedding::{Keep, Shed, ShedStats};
pub use stored::Sign;
pub use stream::{Contents, Operator, Options, Stats, Step, StoreKind};
pub use wids::Wids;
pub use window_spec::{GapSpec, Length, LocalTime, Moment, WindowKind, WindowSpec};
