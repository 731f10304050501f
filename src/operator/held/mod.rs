//! Rows that a stream holds for a while: by key, in order of time, until the stream has passed them.

mod agenda;
mod entry;
mod snapshot;
mod store;
mod timeline;

pub(super) use agenda::Item;
pub(super) use entry::{Address, Entry};
#[cfg(test)]
pub(super) use snapshot::forged;
pub(super) use store::{New, Passed, Store};

use arrow_array::ArrayRef;

use super::progress::Ahead;
use crate::keys::{KeyIndex, hash_rows, hashable};
use crate::{Error, Result};

/// Keys without rows are dropped once there are more than this, and more than there are with rows.
pub(super) const KEYS: usize = 1024;

/// Refuses a step that is not allowed once the operator is closed.
pub(super) fn check_open(closed: bool) -> Result<()> {
    if closed {
        return Err(Error::InvalidValue("operator: it is closed; no call may follow close()".into()));
    }
    Ok(())
}

/// A hash of each row of some columns, as [`Entry::content`] is.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn contents(columns: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
    let known: Vec<ArrayRef> =
        columns.iter().filter(|column| hashable(column.data_type()).is_ok()).cloned().collect();
    let mut hashes = Vec::with_capacity(rows);
    hash_rows(&known, rows, 0, &mut hashes)?;
    Ok(hashes.into_iter().map(|hash| hash as u32).collect())
}

/// Drops keys without rows if that is worth it; it is looked for them once there are `full` keys, which is then more.
/// Those that are ahead of their stream are kept, and those that are needed otherwise. Returns which are kept, if any are
/// dropped: the n-th of them, which ascend, becomes key n.
pub(super) fn forget(
    keys: &mut KeyIndex,
    full: &mut usize,
    stores: &mut [Store],
    ahead: &mut [Ahead],
    is_needed: impl Fn(u32) -> bool,
) -> Result<Option<Vec<u32>>> {
    if keys.len() < *full {
        return Ok(None);
    }
    let has = |key: &u32| {
        stores.iter().any(|store| store.has(*key as usize))
            || ahead.iter().any(|ahead| ahead.of(*key).is_some())
            || is_needed(*key)
    };
    let kept: Vec<u32> = (0..keys.len() as u32).filter(has).collect();
    let are_few = 2 * kept.len() < keys.len();
    if are_few {
        keep_keys(keys, stores, ahead, &kept)?;
    }
    *full = KEYS.max(2 * kept.len());
    Ok(are_few.then_some(kept))
}

/// Drops all keys but these, which ascend: the n-th of them becomes key n. The others have no rows.
///
/// # Errors
/// Errors of Arrow; no key was dropped then.
pub(super) fn keep_keys(
    keys: &mut KeyIndex,
    stores: &mut [Store],
    ahead: &mut [Ahead],
    kept: &[u32],
) -> Result<()> {
    let fewer = keys.only(kept)?;
    let mut numbers = vec![u32::MAX; keys.len()];
    kept.iter().zip(0..).for_each(|(&key, number)| numbers[key as usize] = number);
    // What may fail comes first.
    let rooms: Vec<_> = stores.iter().map(|_| Store::room(kept.len())).collect();
    let mut marks = ahead.to_vec();
    marks.iter_mut().for_each(|marks| marks.keep_keys(kept));
    for (store, room) in stores.iter_mut().zip(rooms) {
        store.renumber(room, kept, &numbers);
    }
    ahead.iter_mut().zip(marks).for_each(|(ahead, marks)| *ahead = marks);
    *keys = fewer;
    Ok(())
}
