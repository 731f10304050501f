//! Aggregate functions: lift, combine, lower, and invert where there is one.
//!
//! A [`Function`] is what a query names; it is lowered from one or two [`Partial`]s, which several functions of one
//! query share (a mean and a sum keep one sum). Partials live in columns, one slot per slice: [`Partials`] is the
//! dynamic face of such a column, called once per batch, and [`Column`] does the work for any [`Aggregate`]: a
//! [`Monoid`] of [`crate::algebra`], and how it is lifted from Arrow columns and lowered to them.
//!
//! `States` are the columns whose slots are states. Functions with columns of their own are `multiset` with `tally` (order
//! statistics, frequent and distinct values), `estimate` (from a sample of the rows), `list`, `sketch`, `hyperloglog` and
//! `arrays` (functions over whole arrays, user-defined ones).
//!
//! `CONTRIBUTING.md` says how to add a function.

mod arrays;
mod by_slot;
mod column;
mod count;
mod estimate;
mod extrema;
mod function;
mod hyperloglog;
mod input;
mod interned;
#[cfg(test)]
mod laws;
mod lift;
mod list;
mod m4;
mod mean;
mod moments;
mod multiset;
mod order;
mod partial;
mod partials;
mod picked;
mod properties;
mod quantile;
mod rows;
mod sketch;
mod sorted_runs;
mod states;
mod store;
mod sum;
mod tally;
mod ties;
mod totals;
mod user;

pub use crate::algebra::Monoid;
pub use arrays::{ArrayFunction, Arrays};
pub(crate) use by_slot::BySlot;
pub use column::Column;
pub use estimate::{Estimate, Term};
pub use function::{Function, Operand};
pub use input::Input;
pub use lift::Aggregate;
pub use multiset::Statistic;
pub use partial::Partial;
pub use partials::{Partials, RunNodes, States, Totals, Upkeep};
pub use properties::{Kind, Properties};
pub use rows::{Rows, Run, TIMELESS};
pub(crate) use store::held_bytes;
pub use user::{User, UserAggregate};
