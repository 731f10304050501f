//! The state of a window type whose windows are determined by rows, between one row of a key and the next (Traub et al.
//! 2019, §5.4.2: "context aware windows require to keep a state").

use super::by_rows::KeyRows;
use crate::Result;

/// A change of the windows found so far. A window whose edges change is removed and added anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    /// Ranks of the removed window, if there is one.
    pub gone: Option<(usize, usize)>,
    /// Ranks of the added window, if there is one: `lo..hi`.
    pub new: Option<(usize, usize)>,
}

/// What a window type remembers of the rows of one key.
///
/// It is shown each row once, in the order of time and arrival. When a row is late, the state is discarded and replaced
/// by a copy made before the late row's place, or by a new state that is shown all rows again.
pub trait Context: Send + Sync {
    /// Shows it the rows from rank `first` on, which follow those already shown; returns the changes.
    ///
    /// # Errors
    /// Any problem of the window with the rows; the message names the window. The state is not used any more then.
    fn notify(&mut self, first: usize, rows: &KeyRows<'_>) -> Result<Vec<Edit>>;

    /// Returns the changes that follow from there being no more rows.
    ///
    /// # Errors
    /// As [`Context::notify`].
    fn finish(&mut self, rows: usize) -> Result<Vec<Edit>>;

    /// A copy in the same state, independent of the rows shown to this one from now on, and roughly how many bytes it
    /// holds; `None` if the state cannot be copied.
    ///
    /// # Errors
    /// As [`Context::notify`].
    fn copied(&self) -> Result<Option<(Box<dyn Context>, usize)>> {
        Ok(None)
    }
}
