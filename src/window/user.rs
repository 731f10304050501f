//! Window types of users' own, from Rust: a name, what they read, and their windows over a key's sorted rows.

use std::fmt;
use std::sync::Arc;

use super::class::WindowTraits;
use super::context::Context;
use super::listing::{KeyRows, Listed};
use crate::{Error, Result};

/// A window type of a user's own.
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
    /// How errors name it.
    fn name(&self) -> &str;

    /// What decides about it.
    fn traits(&self) -> WindowTraits;

    /// Adds the windows of a key with a row of rank `since` or after, in any order; they may overlap and be nested.
    ///
    /// `rows.columns` are those that the query says the window reads. Called once per key in a batch.
    ///
    /// # Errors
    /// Whatever the window finds wrong with the rows; the message names the window.
    fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()>;

    /// Adds the windows of a key of which these are the rows so far: what follows is not known yet. Those of
    /// [`UserWindow::list`], unless the window depends on there being no more rows.
    ///
    /// # Errors
    /// As [`UserWindow::list`].
    fn list_so_far(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        self.list(rows, 0, out)
    }

    /// What remembers the rows of a key of a stream, before its first row, if there is such a thing: then rows that come
    /// in order are shown once. Without it all rows of a key are listed anew, by [`UserWindow::list_so_far`], at each call.
    ///
    /// # Errors
    /// As [`UserWindow::list`].
    fn open(&self) -> Result<Option<Box<dyn Context>>> {
        Ok(None)
    }

    /// No window is longer than this, if that is known: rows further away than that are not kept for it. Only asked of
    /// window types whose edges depend on nothing but the measure.
    fn longest(&self) -> Option<i64> {
        None
    }
}

/// A [`UserWindow`] and the columns it reads. Told apart from others by identity.
#[derive(Clone)]
pub struct User {
    window: Arc<dyn UserWindow>,
    columns: Vec<usize>,
}

impl User {
    /// The window over the columns at these positions.
    pub fn new(window: Arc<dyn UserWindow>, columns: Vec<usize>) -> Self {
        Self { window, columns }
    }

    /// The window type.
    pub fn window(&self) -> &dyn UserWindow {
        &*self.window
    }

    /// Positions of the columns it reads.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Lists its windows, having checked them.
    ///
    /// # Errors
    /// What the window raises; `InvalidValue` for a window that has no rows, rows that there are not, or an end before
    /// its start.
    pub fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let before = out.len();
        self.window.list(rows, since, out)?;
        self.check(rows, &out[before..])
    }

    /// Lists its windows over the rows so far, having checked them; all there are if the stream has `ended`.
    ///
    /// # Errors
    /// As [`User::list`].
    pub fn list_so_far(&self, rows: &KeyRows<'_>, ended: bool, out: &mut Vec<Listed>) -> Result<()> {
        if ended {
            return self.list(rows, 0, out);
        }
        let before = out.len();
        self.window.list_so_far(rows, out)?;
        self.check(rows, &out[before..])
    }

    fn check(&self, rows: &KeyRows<'_>, listed: &[Listed]) -> Result<()> {
        let fits = |w: &Listed| w.lo < w.hi && w.hi as usize <= rows.times.len() && w.start <= w.end;
        match listed.iter().find(|window| !fits(window)) {
            None => Ok(()),
            Some(Listed { lo, hi, start, end }) => Err(Error::InvalidValue(format!(
                "{}: a window of rows {lo} to {hi}, from {start} to {end}, of {} rows; allowed are ranges of at \
                 least one row of these, and ends that are not before starts",
                self.window.name(),
                rows.times.len()
            ))),
        }
    }
}

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.window, &other.window) && self.columns == other.columns
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.window.name())
    }
}
