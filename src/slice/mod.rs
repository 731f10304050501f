//! Slices: non-overlapping chunks of one key's time line, each with one partial aggregate per function.
//!
//! [`Edges`] says where slices must be cut so that every window is a whole number of them; the [`Slicer`] gives each
//! row the slot of its slice with one comparison while rows come in order; a [`SliceTable`] holds the slots as
//! columns. Rows out of order may open a second slot for a slice that already has one; [`SliceTable::regroup`] sorts
//! slots by key and time and merges those (Traub et al. 2019, §5.2, merge).

mod edges;
mod regroup;
mod slicer;
pub mod strategy;
mod table;

pub use edges::Edges;
pub use regroup::KeyOrder;
pub use slicer::Slicer;
pub use strategy::Strategy;
pub use table::SliceTable;
