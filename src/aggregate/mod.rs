//! Aggregate functions: lift, combine, lower, and invert where there is one.
//!
//! A [`Function`] is what a query names; it is lowered from one or two [`Partial`]s, which several functions of one
//! query share (a mean and a sum keep one sum). Partials live in columns, one slot per slice: [`Partials`] is the
//! dynamic face of such a column, called once per batch, and [`Column`] does the work for any [`Aggregate`].
//!
//! To add a function: a file with its [`Monoid`] and [`Aggregate`], a variant in [`Partial`] if it stores something
//! new, and a variant in [`Function`] that says how it is lowered.

mod arg;
mod arrays;
mod bytes;
mod codes;
mod column;
mod count;
mod extrema;
mod first_last;
mod function;
mod geometric;
mod hyperloglog;
#[cfg(test)]
mod laws;
mod lift;
mod list;
mod m4;
mod mean;
mod moments;
mod multiset;
mod nodes;
mod order;
mod partial;
mod properties;
mod quantile;
mod sketch;
mod sorted_runs;
mod store;
mod sum;
mod tally;
mod ties;
mod totals;
mod user;

pub use arrays::{ArrayFunction, Arrays};
pub use column::{Column, Monoid};
pub use function::{Function, Operand};
pub use lift::{Aggregate, Input, Partials, Rows, Run};
pub use multiset::Question;
pub use nodes::Nodes;
pub use partial::Partial;
pub use properties::{Kind, Properties};
pub use sorted_runs::RunNodes;
pub use totals::Totals;
pub use user::{User, UserAggregate};
