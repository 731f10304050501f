//! Rows to be folded into slots.

/// The time of a row that has none, where such rows are aggregated: no row's time, and before all of them.
pub const TIMELESS: i64 = i64::MIN;

/// Rows to be folded into slots, one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Slot of each row.
    pub slots: &'a [u32],
    /// Time of each row, in units of the measure; [`TIMELESS`] if it has none.
    pub times: &'a [i64],
    /// Whether some of the slots that these rows opened may have none of them, because of a filter.
    pub sparse: bool,
}

impl<'a> Rows<'a> {
    /// All rows of a batch: each new slot has at least one.
    pub fn all(slots: &'a [u32], times: &'a [i64]) -> Self {
        Self { slots, times, sparse: false }
    }
}

/// Neighbouring rows of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Their slot.
    pub slot: u32,
    /// The first row.
    pub from: usize,
    /// The first row after them.
    pub to: usize,
}
