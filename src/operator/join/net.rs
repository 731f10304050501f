//! Rows of weight -1, each of which retracts a row of weight 1 that is equal in all columns that a join reads: what is left
//! of rows that come together.

use std::collections::HashMap;

use super::kind::Which;
use super::part::Part;
use crate::interrupt::Pace;
use crate::{Error, Result};

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

/// The rows of a side that no other one retracts.
///
/// # Errors
/// `InvalidValue` for a row that retracts one that is not there.
pub(super) fn net(which: Which, parts: Vec<Part>) -> Result<Vec<Part>> {
    let (remain, mut before) = (remaining(&parts, |_, _| true)?, 0);
    for (part, remain) in parts.iter().zip(&remain) {
        let is_left = |row: &usize| remain.as_ref().is_none_or(|remain| remain[*row]);
        if let Some(row) = (0..part.rows).filter(is_left).find(|&row| part.weight(row) < 0) {
            return Err(not_there(which, before + row));
        }
        before += part.rows;
    }
    let parts = parts.into_iter().zip(remain);
    parts.map(|(part, remain)| if let Some(remain) = remain { part.only(remain) } else { Ok(part) }).collect()
}

/// The error for a row that retracts one that is not there.
pub(super) fn not_there(which: Which, row: usize) -> Error {
    Error::InvalidValue(format!(
        "{}_weight: row {row} has -1, but there is no row of weight 1 left that is equal in all columns; each retracts a \
         row that came before, or comes in the same call",
        which.name()
    ))
}
