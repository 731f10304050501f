//! User-defined window types in Rust: a name, their windows over a key's sorted rows, and, where rows determine the
//! windows, a state between one row of a key and the next (Traub et al. 2019, §5.4.2: "context aware windows require to
//! keep a state").

use std::sync::Arc;

use super::class::WindowTraits;
use super::known::Known;
use super::spans::Listed;
use super::view::KeyRows;
use crate::{Error, Result};

/// A user-defined window type.
///
/// ```
/// use windowkit::window::{Class, KeyRows, Listed, UserWindow, WindowTraits};
///
/// /// Each row with the one before it.
/// struct Pairs;
///
/// impl UserWindow for Pairs {
///     fn name(&self) -> &str {
///         "pairs"
///     }
///
///     fn traits(&self) -> WindowTraits {
///         WindowTraits { count: true, ..WindowTraits::of(Class::ContextFree) }
///     }
///
///     fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> windowkit::Result<()> {
///         out.extend((since.max(1)..rows.times.len()).map(|last| Listed::by_rows(last - 1, last + 1, rows.times)));
///         Ok(())
///     }
/// }
/// ```
pub trait UserWindow: Send + Sync {
    /// The name used in errors.
    fn name(&self) -> &str;

    /// Its properties.
    fn traits(&self) -> WindowTraits;

    /// Adds the windows of a key with a row of rank `since` or after, in any order; they may overlap and be nested.
    ///
    /// `rows.columns` are those that the query says the window reads. Called once per key in a batch.
    ///
    /// # Errors
    /// Any problem of the window with the rows; the message names the window.
    fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()>;

    /// Adds the windows of a key whose rows so far are these, while later rows are not known yet. The same windows as
    /// those of [`UserWindow::list`], unless a window depends on there being no more rows.
    ///
    /// # Errors
    /// As [`UserWindow::list`].
    fn list_so_far(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        self.list(rows, 0, out)
    }

    /// The state over the rows of one key of a stream, before its first row, if the type has one: then rows that arrive
    /// in order are shown once. Without it all rows of a key are listed again, by [`UserWindow::list_so_far`], at each
    /// call.
    ///
    /// # Errors
    /// As [`UserWindow::list`].
    fn open(&self) -> Result<Option<Box<dyn Context>>> {
        Ok(None)
    }

    /// The maximum length of a window, if there is one: rows further away are not kept for it. Only used for window
    /// types whose edges depend on nothing but the measure.
    fn longest(&self) -> Option<i64> {
        None
    }

    /// The windows apart from any rows, of which none is known yet, if the type says where they are: a stream then cuts slices
    /// by them, and needs no rows.
    fn known(&self) -> Option<Arc<Known>> {
        None
    }
}

impl dyn UserWindow + '_ {
    /// Lists its windows and validates them.
    ///
    /// # Errors
    /// What the window raises; `InvalidValue` for a window without rows, with rows that do not exist, or with an end
    /// before its start.
    pub(super) fn listed(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let before = out.len();
        self.list(rows, since, out)?;
        self.check(rows, &out[before..])
    }

    /// Lists its windows over the rows so far and validates them; all windows if the stream has `ended`.
    ///
    /// # Errors
    /// As [`Self::listed`].
    pub(super) fn listed_so_far(&self, rows: &KeyRows<'_>, ended: bool, out: &mut Vec<Listed>) -> Result<()> {
        if ended {
            return self.listed(rows, 0, out);
        }
        let before = out.len();
        self.list_so_far(rows, out)?;
        self.check(rows, &out[before..])
    }

    fn check(&self, rows: &KeyRows<'_>, listed: &[Listed]) -> Result<()> {
        let fits = |w: &Listed| w.lo < w.hi && w.hi as usize <= rows.times.len() && w.start <= w.end;
        match listed.iter().find(|window| !fits(window)) {
            None => Ok(()),
            Some(Listed { lo, hi, start, end }) => Err(Error::InvalidValue(format!(
                "{}: a window of rows {lo} to {hi}, from {start} to {end}, of {} rows; allowed are ranges of at \
                 least one row of these, and ends that are not before starts",
                self.name(),
                rows.times.len()
            ))),
        }
    }
}

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
