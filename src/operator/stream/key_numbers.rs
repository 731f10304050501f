//! The numbers of the keys of rows.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, ScalarBuffer};

use crate::slice::Keys;

/// The number of no key.
pub(super) const NO_KEY: u32 = u32::MAX;

/// The keys of rows, by number.
#[derive(Debug, Clone)]
pub(super) enum KeyNumbers {
    /// All rows have this one.
    One(u32),
    /// One for each row.
    Each(ScalarBuffer<u32>),
}

impl KeyNumbers {
    /// The numbers of rows whose keys have none, or not yet.
    pub(super) const NONE: Self = Self::One(NO_KEY);

    /// The key of a row.
    #[inline]
    pub(super) fn of(&self, row: usize) -> u32 {
        match self {
            Self::One(key) => *key,
            Self::Each(keys) => keys[row],
        }
    }

    /// The keys of some rows, of which there is at least one.
    pub(super) fn of_rows(&self, rows: Range<usize>) -> Keys<'_> {
        let keys = match self {
            Self::One(key) => return Keys::One(*key),
            Self::Each(keys) => &keys[rows],
        };
        match keys.iter().all(|&key| key == keys[0]) {
            true => Keys::One(keys[0]),
            false => Keys::Each(keys),
        }
    }

    /// The keys of these rows alone.
    pub(super) fn only(&self, these: &BooleanBuffer) -> Self {
        match self {
            Self::One(key) => Self::One(*key),
            Self::Each(keys) => Self::Each(these.set_indices().map(|row| keys[row]).collect()),
        }
    }
}
