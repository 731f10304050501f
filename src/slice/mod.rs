//! Slices: non-overlapping chunks of one key's timeline, each with one partial aggregate per function.
//!
//! [`Edges`] says where slices must be cut so that every window is a whole number of them; the [`Slicer`] gives each
//! row the slot of its slice with one comparison while rows come in order; a [`SliceTable`] holds the slots as
//! columns. Rows out of order may open a second slot for a slice that already has one; [`SliceTable::regroup`] sorts
//! slots by key and time and merges those (Traub et al. 2019, §5.2, merge).
//!
//! An unbounded stream has the same parts in an updatable form: a [`Calendar`] for the edges, a [`Cutter`] for the rows
//! of one call, [`Timelines`] that hold each key's slices, as few as possible, and a [`Store`] of partials.

mod calendar;
mod cells;
mod cutter;
mod edges;
mod grid;
mod parting;
mod regroup;
mod slicer;
mod store;
pub mod strategy;
mod table;
mod timeline;
mod trees;

pub use calendar::Calendar;
pub use cells::{Cell, Cut, Keys, Parted};
pub use cutter::Cutter;
pub use edges::Edges;
pub use regroup::KeyOrder;
pub use slicer::Slicer;
pub use store::{Delta, Store, Wanted, copied};
pub use strategy::Strategy;
pub use table::SliceTable;
pub use timeline::{Slice, Timelines};
pub use trees::{Eager, Wants};
