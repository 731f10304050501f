//! Kernels: columns of partials in, columns of partials out. They know neither keys nor types of windows.
//!
//! The plain ones compute a list of [`Ranges`], half-open index ranges neither of whose ends decreases: the form that
//! windows over sorted slices take, whatever the gaps between them, for many keys one after the other. [`answer`]
//! computes the windows over an Arrow array, which are [`Frames`]: numbers of rows ([`Rolling`]), or ranges found by
//! time ([`by_time`]). What they compute are the functions of [`crate::algebra`].

mod answer;
mod any_range;
mod around;
pub mod by_time;
mod choice;
mod dense;
mod edge;
mod exact;
mod frames;
mod function;
mod job;
mod panes;
mod ranges;
mod recalculate;
mod segments;
pub mod streaming;
mod subtract_on_evict;
mod two_stacks;
mod validity;

pub use answer::{Question, answer};
pub use any_range::{over_any_ranges, over_ranges};
pub use around::{Closed, RowFrame, Unit};
pub use choice::{Choice, choose};
pub use frames::{Frames, Rolling};
pub use function::{Algorithm, FUNCTIONS, Function};
pub use ranges::Ranges;
pub use recalculate::recalculate;
pub use segments::Segments;
pub use subtract_on_evict::subtract_on_evict;
pub use two_stacks::two_stacks;
