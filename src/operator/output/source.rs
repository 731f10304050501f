//! What windows are computed from.

use crate::operator::gathered::Ordered;
use crate::slice::SliceTable;

/// Slices, or rows where slices are cut once these are in order.
pub(super) enum Source {
    Slices(SliceTable),
    Rows(Ordered),
}
