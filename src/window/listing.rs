//! Windows of a key whose rows are sorted: the form that all window types have in common.
//!
//! A type that depends on rows has no edges to cut slices at in advance. Given a key's rows in order, its windows are
//! ranges of them; slices are cut at the ends of all ranges, and nowhere else. `since` makes a listing incremental:
//! where rows before it are as they were, windows that end with or before it are as they were too.

use arrow_array::ArrayRef;

/// A key's rows in the order of time, and of arrival where times are equal.
#[derive(Debug, Clone, Copy)]
pub struct KeyRows<'a> {
    /// The time of each row, ascending.
    pub times: &'a [i64],
    /// The columns of [`super::Window::columns`], in that order, one entry per row.
    pub columns: &'a [ArrayRef],
}

/// A window over a key's rows: those of ranks `lo..hi`, never none, and what the result calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Rank of the first row.
    pub lo: u32,
    /// Rank after the last row.
    pub hi: u32,
    /// Start of the window on the measure.
    pub start: i64,
    /// End of the window on the measure.
    pub end: i64,
}

impl Listed {
    /// The window of rows `lo..hi` that is called by `extent`.
    #[inline]
    pub fn new(lo: usize, hi: usize, extent: (i64, i64)) -> Self {
        debug_assert!(lo < hi, "a window has rows");
        Self { lo: lo as u32, hi: hi as u32, start: extent.0, end: extent.1 }
    }

    /// The window of rows `lo..hi` that is called by the times of its first and last row.
    #[inline]
    pub fn by_rows(lo: usize, hi: usize, times: &[i64]) -> Self {
        Self::new(lo, hi, (times[lo], times[hi - 1]))
    }
}
