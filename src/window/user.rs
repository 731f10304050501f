//! User-defined window types in Rust: a name, what they read, and their windows over a key's sorted rows.

use std::fmt;
use std::sync::Arc;

use super::by_rows::{ByRows, KeyRows, Ready, View, earlier};
use super::class::{Class, WindowTraits};
use super::context::Context;
use super::numbered::Memory;
use super::observed::observe;
use super::rules::Rules;
use super::spans::Listed;
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
}

/// A [`UserWindow`] and the columns it reads. Compared by identity.
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

    /// Lists its windows and validates them.
    ///
    /// # Errors
    /// What the window raises; `InvalidValue` for a window without rows, with rows that do not exist, or with an end
    /// before its start.
    pub fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let before = out.len();
        self.window.list(rows, since, out)?;
        self.check(rows, &out[before..])
    }

    /// Lists its windows over the rows so far and validates them; all windows if the stream has `ended`.
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

impl User {
    /// Whether it is a calendar: start and end of its windows are known in advance.
    fn is_calendar(&self) -> bool {
        let traits = self.window.traits();
        traits.class == Class::ContextFree && !traits.count
    }

    /// Lists the windows of a calendar with rows from `since` on.
    fn listed(&self, view: &View<'_>, since: usize) -> Result<Vec<Listed>> {
        let (columns, mut listed) = (view.reader.read(&self.columns, view.ats)?, Vec::new());
        self.list(&KeyRows { times: view.times, columns: &columns }, since, &mut listed)?;
        Ok(listed)
    }

    /// The windows of a calendar: they are final as soon as the watermark reaches their end, and change with their
    /// rows.
    fn by_calendar(&self, view: &View<'_>, out: &mut Ready) -> Result<Option<i64>> {
        let longest = self.window.longest();
        if !view.is_appended {
            out.looks_from(view.first_within(longest));
        }
        // No earlier window is not yet final or has changed.
        let since = match (view.call.before, longest) {
            (Some(before), Some(longest)) => {
                let from = before.saturating_sub(longest);
                view.changed().min(view.times.partition_point(|&time| time < from))
            }
            _ => 0,
        };
        let mut next = None;
        for Listed { lo, hi, start, end } in self.listed(view, since)? {
            let (lo, hi) = (lo as usize, hi as usize);
            if view.call.since.is_some_and(|since| start <= since) {
                continue;
            }
            out.edges.extend([lo, hi]);
            let was_final = |watermark: Option<i64>| watermark.is_some_and(|watermark| end <= watermark);
            if was_final(view.call.before) {
                if view.has_new(lo, hi) && !was_final(view.call.horizon) {
                    out.emit(lo, hi, (start, end), true);
                }
            } else if was_final(view.call.now) {
                out.emit(lo, hi, (start, end), false);
            } else {
                next = earlier(next, Some(end));
            }
        }
        Ok(next)
    }
}

impl Rules for User {
    fn traits(&self) -> WindowTraits {
        self.window.traits()
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §5.4.2"
    }

    fn columns(&self) -> Vec<usize> {
        self.columns.clone()
    }

    fn is_numbered(&self) -> bool {
        !self.is_calendar()
    }

    fn may_vanish(&self) -> bool {
        !self.is_calendar()
    }

    fn reads_rows(&self) -> bool {
        true
    }

    fn takes_from(&self, horizon: i64, (_, most): (i64, i64)) -> i64 {
        let longest = self.window.longest().filter(|_| self.is_calendar() && horizon <= most);
        longest.map_or(horizon, |longest| horizon.saturating_sub(longest))
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }
}

impl ByRows for User {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        User::list(self, rows, 0, out)
    }

    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        match self.is_calendar() {
            true => self.by_calendar(view, out),
            false => observe(self, view, memory, out),
        }
    }

    fn final_edges(
        &self,
        view: &View<'_>,
        memory: &Memory,
        from: usize,
        edges: &mut Vec<usize>,
    ) -> Result<()> {
        if self.is_calendar() {
            let listed = self.listed(view, from)?;
            edges.extend(listed.iter().flat_map(|each| [each.lo as usize, each.hi as usize]));
        } else if let Some(observed) = &memory.observed {
            edges.extend(observed.edges_from(from));
        }
        Ok(())
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        match self.window.longest() {
            Some(longest) if self.is_calendar() => {
                let from = view.call.floor.min(view.call.horizon);
                view.upto(from.map(|from| from.saturating_sub(longest)))
            }
            _ => 0,
        }
    }

    fn is_sound(&self, _: &View<'_>, memory: &Memory) -> bool {
        match self.is_calendar() {
            true => memory.is_empty(),
            false => memory.emitted.is_empty() && memory.from.is_none(),
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
