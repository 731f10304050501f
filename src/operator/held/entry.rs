//! What is known of a held row.

/// Where the columns of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator) struct Address {
    pub(in crate::operator) chunk: u32,
    pub(in crate::operator) row: u32,
}

/// A stored row, once for each of its places.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator) struct Entry {
    pub(in crate::operator) place: i64,
    /// Its number in the order of arrival.
    pub(in crate::operator) order: u64,
    pub(in crate::operator) at: Address,
    /// Whether it has had a partner, in a join.
    pub(in crate::operator) is_met: bool,
}

impl Entry {
    pub(super) fn rank(&self) -> (i64, u64) {
        (self.place, self.order)
    }
}
