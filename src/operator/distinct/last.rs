//! Of each key, the row by which the next one is judged: it is all that matters of the rows up to which a stream is
//! complete.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, cast::AsArray};

use crate::Result;
use crate::keys::keep;
use crate::state::{Reader, Writer, broken};

/// Which rows are left of those that are near each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// The first one: any row is near the next.
    First,
    /// One per interval: only rows that are left are near others.
    Interval,
}

/// The time of the last row of each key that others may be near.
#[derive(Debug, Default)]
pub(super) struct Last {
    of_keys: Vec<Option<i64>>,
    /// What the step that is attempted has changed.
    changed: Vec<(u32, Option<i64>)>,
}

impl Last {
    /// Makes room for so many keys.
    pub(super) fn make_room(&mut self, keys: usize) {
        self.of_keys.resize(keys.max(self.of_keys.len()), None);
    }

    /// Whether a row is no duplicate, which comes after all rows of its key so far, in order of time.
    #[inline]
    pub(super) fn passes(&mut self, (per, within): (Per, i64), key: u32, time: i64) -> bool {
        let last = &mut self.of_keys[key as usize];
        let passes = !last.is_some_and(|last| i128::from(time) - i128::from(last) <= i128::from(within));
        if passes || per == Per::First {
            self.changed.push((key, *last));
            *last = Some(time);
        }
        passes
    }

    /// Keeps what the step has changed.
    #[inline]
    pub(super) fn keep(&mut self) {
        self.changed.clear();
    }

    /// Takes back what the step has changed.
    pub(super) fn take_back(&mut self) {
        while let Some((key, last)) = self.changed.pop() {
            self.of_keys[key as usize] = last;
        }
    }

    /// Whether rows of a key to come, which is complete up to a time, may be near its last one.
    pub(super) fn matters(&self, key: u32, reached: Option<i64>, within: i64) -> bool {
        let last = self.of_keys.get(key as usize).copied().flatten();
        last.is_some_and(|last| {
            reached.is_none_or(|reached| i128::from(last) + i128::from(within) >= i128::from(reached))
        })
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        keep(&mut self.of_keys, kept);
    }

    /// Whether a key has had a row.
    pub(super) fn has(&self, key: u32) -> bool {
        self.of_keys.get(key as usize).is_some_and(Option::is_some)
    }

    /// Forgets the last row of a key.
    pub(super) fn forget(&mut self, key: u32) {
        self.of_keys.get_mut(key as usize).into_iter().for_each(|last| *last = None);
    }

    /// Frees room that nothing needs.
    pub(super) fn shrink(&mut self) {
        self.changed = Vec::new();
        self.of_keys.shrink_to_fit();
    }

    pub(super) fn bytes(&self) -> usize {
        self.of_keys.capacity() * size_of::<Option<i64>>()
            + self.changed.capacity() * size_of::<(u32, Option<i64>)>()
    }

    /// Writes it, for so many keys.
    pub(super) fn save(&self, keys: usize, to: &mut Writer) -> Result<()> {
        let of_key = |key| self.of_keys.get(key).copied().flatten();
        let times: ArrayRef = Arc::new((0..keys).map(of_key).collect::<Int64Array>());
        to.columns(vec![times], keys)
    }

    /// Reads what [`Last::save`] wrote.
    pub(super) fn load(keys: usize, from: &mut Reader<'_>) -> Result<Self> {
        let (columns, rows) = from.columns()?;
        let [times] = &columns[..] else { return broken() };
        let Some(times) = times.as_primitive_opt::<Int64Type>() else { return broken() };
        if rows != keys {
            return broken();
        }
        Ok(Self { of_keys: times.iter().collect(), changed: Vec::new() })
    }
}
