//! Rows of weight -1, each of which retracts a row of weight 1 that is equal in all columns that a join reads: what is left
//! of rows that come together.

use std::collections::HashMap;

use super::side::Part;
use crate::Result;
use crate::interrupt::Pace;

/// Which rows of each part remain; `None` if all do. A row of weight -1 takes an equal one of weight 1 with it, wherever it
/// is; rows that `counts` does not have take no part.
///
/// # Errors
/// An interrupt.
pub(super) fn remaining(
    parts: &[Part],
    counts: impl Fn(&Part, usize) -> bool,
) -> Result<Vec<Option<Vec<bool>>>> {
    let mut open: HashMap<_, Vec<(usize, usize)>> = HashMap::new();
    let mut remain = vec![None; parts.len()];
    let mut pace = Pace::new();
    let each = || parts.iter().enumerate().flat_map(|(at, part)| (0..part.rows()).map(move |row| (at, row)));
    for (at, row) in each().filter(|&(at, row)| parts[at].weight(row) < 0 && counts(&parts[at], row)) {
        pace.check(1)?;
        open.entry(parts[at].alike(row)).or_default().push((at, row));
    }
    if open.is_empty() {
        return Ok(remain);
    }
    for (at, row) in each().filter(|&(at, row)| parts[at].weight(row) > 0 && counts(&parts[at], row)) {
        pace.check(1)?;
        let Some(others) = open.get_mut(&parts[at].alike(row)) else { continue };
        let is_equal = |&(part, other): &(usize, usize)| parts[at].is_equal(row, &parts[part].columns, other);
        let Some(found) = others.iter().position(is_equal) else { continue };
        for (at, row) in [(at, row), others.swap_remove(found)] {
            remain[at].get_or_insert_with(|| vec![true; parts[at].rows()])[row] = false;
        }
    }
    Ok(remain)
}
