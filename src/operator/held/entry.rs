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
    /// How many partners it has, in a join; 1 if it has had any where these are not counted.
    pub(in crate::operator) met: u32,
    /// What rows with other columns mostly differ in, where rows are looked up by these; see [`super::contents`].
    pub(in crate::operator) content: u32,
}

impl Entry {
    /// Whether it has a partner.
    pub(in crate::operator) fn is_met(&self) -> bool {
        self.met > 0
    }

    pub(super) fn rank(&self) -> (i64, u64) {
        (self.place, self.order)
    }
}
