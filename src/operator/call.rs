//! A call of an operator: it is attempted, and then committed, or rolled back where the attempt fails or is interrupted.

use crate::Result;
use crate::interrupt::{check, undisturbed};
use crate::memory::{attempted, spared};

/// Makes a call, which takes effect as a whole or, if there is an error, not at all. What was attempted is committed only
/// after a last look, and what is committed or rolled back is not interrupted, so that an error says which it was.
///
/// # Errors
/// Errors of the attempt, memory that runs out in it, and interrupts.
pub(super) fn all_or_nothing<T, Attempted, Rows>(
    operator: &mut T,
    attempt: impl FnOnce(&mut T) -> Result<(Attempted, Rows)>,
    commit: impl FnOnce(&mut T, Attempted),
    roll_back: impl FnOnce(&mut T),
) -> Result<Rows> {
    let done = attempted(|| attempt(operator).and_then(|done| check().map(|()| done)));
    undisturbed(|| match done {
        Ok((attempted, rows)) => {
            spared(|| commit(operator, attempted));
            Ok(rows)
        }
        Err(error) => {
            spared(|| roll_back(operator));
            Err(error)
        }
    })
}
