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
//! # To add a function
//!
//! 1. Write its [`Monoid`] in `algebra`, unless an existing one will do: how partials combine, and what can be evicted
//!    from one. It needs a `Lift` only for kernels or for `Aggregate::update_runs`.
//! 2. Give the aggregate a file here: [`Aggregate`] says how values become partials, how partials become results, and which
//!    properties the function has. Integers and decimals are summed exactly, as [`crate::algebra`]'s integers are, unless the
//!    function is defined in float64, as variances are; docs/reference/semantics.md says which. A partial whose size is not fixed (not `Copy`) is a column of its own ([`Partials`]),
//!    like `multiset`.
//! 3. Add a new partial to the enum in `partial`: the compiler then asks for its name, its column, the types it allows, how
//!    many of its states have the types of the inputs, and whether rows of one time must be folded in order of arrival
//!    (`Kind::of` in `operator/stream/tuples/mend.rs`); unless its state is one column, also say in `state_columns` how many
//!    it has. The compiler does not ask in `operator/stream/sharing.rs`, where lists, which need their slices in order, and
//!    extrema are named.
//! 4. Add the function to `function`; one of partials that exist, such as a mean of sum and count, needs no more than that.
//!    Look there at `columns`, `ordered_by`, `nullable` and `output_type`, too, whose defaults are those of most functions.
//! 5. A partial that can be subtracted (`Partials::subtracts`) is allowed with rows of weight -1, which retract others. Which
//!    values it has is counted by `Partial::Count` of the same column, so it must be of one column. `operator/weights.rs`
//!    and `language/weights.py` name such functions; `tests/test_weights.py` has those that are refused.
//! 6. `laws` checks every function with every type: associativity, commutativity, identity, inverse, the declared type of
//!    results, and that states survive serialisation. Add an exact inverse to `inverses_are_exact` there.
//!
//! `CONTRIBUTING.md` says what it needs in Python, in Spark and in tests.

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
