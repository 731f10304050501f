//! The state of a window type that rows tell, between one row of a key and the next (Traub et al. 2019, §5.4.2: "context
//! aware windows require to keep a state").

use super::by_rows::KeyRows;
use crate::Result;

/// A change of the windows told so far. A window that gets other edges is one that is gone and one that is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    /// Ranks of the window that is no more, if there is one.
    pub gone: Option<(usize, usize)>,
    /// Ranks of the window that there was not, if there is one: `lo..hi`.
    pub new: Option<(usize, usize)>,
}

/// What a window type remembers of the rows of one key.
///
/// It is shown each row once, in the order of time and arrival. When a row comes late, it is put away, and a copy of it
/// that was made before the late row's place takes over, or a new one that is shown all rows again.
pub trait Context: Send + Sync {
    /// Shows the rows from rank `first` on that follow those it was shown; says what changes.
    ///
    /// # Errors
    /// Whatever the window finds wrong with the rows; the message names the window. It is not used any more then.
    fn notify(&mut self, first: usize, rows: &KeyRows<'_>) -> Result<Vec<Edit>>;

    /// Says what changes as there are no more rows than these.
    ///
    /// # Errors
    /// As [`Context::notify`].
    fn finish(&mut self, rows: usize) -> Result<Vec<Edit>>;

    /// Another one in the same state, which no row shown to this one changes, and about how many bytes it holds; none if
    /// it cannot be copied.
    ///
    /// # Errors
    /// As [`Context::notify`].
    fn copied(&self) -> Result<Option<(Box<dyn Context>, usize)>> {
        Ok(None)
    }
}
