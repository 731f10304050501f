//! Kernels: columns of partials in, columns of partials out. They know neither keys nor windows.
//!
//! All of them answer a list of [`Ranges`], half-open index ranges whose both ends never step back; that is what
//! windows over sorted slices are, whatever the gaps between them, and for many keys one after the other.

mod ranges;
pub mod streaming;
mod subtract_on_evict;
mod tumbling;
mod two_stacks;

pub use ranges::Ranges;
pub use subtract_on_evict::subtract_on_evict;
pub use tumbling::tumbling;
pub use two_stacks::two_stacks;
