//! Which rows a user-defined window was shown, and the windows it determined from them.
//!
//! | | |
//! |---|---|
//! | needs | an object that is shown each row once |
//! | time | O(1) calls of it per call of the operator; rows after a late one are shown again from the last copy before it, or all of them if it cannot be copied; O(log n) per new or changed window, of n windows |
//! | space | a copy at each of at most [`COPIES`] places after the last row before which no late row can come; all emitted windows |
//! | first appeared | Traub et al., EDBT 2019, §5.4.2 |
//!
//! Only windows that a call touches are compared with the emitted ones: all others have the same rows as before.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use super::numbered::{Emitted, Final, compare};
use super::user_window::{Context, Edit, UserWindow};
use super::view::{KeyRows, Ready, View};
use crate::{Error, Result};

/// Largest number of rows shown at a time.
const PIECE: usize = 65_536;

/// Least number of rows from one copy to the next.
const SPACING: usize = 4;

/// Bytes of a copy per row: large states are copied less often.
const BYTES_PER_ROW: usize = 16;

/// Largest number of copies: beyond it, every second one is dropped.
const COPIES: usize = 32;

/// Ranks of a window's rows: `lo..hi`.
type Range = (usize, usize);

/// A change of the windows, so that it can be undone.
#[derive(Debug, Clone, Copy)]
struct Logged {
    /// The rows that had been shown.
    shown: usize,
    range: Range,
    is_new: bool,
}

/// The rows of a key that a user-defined window was shown, and the windows it determined from them.
pub struct Observed {
    /// `None` if it must be shown all rows again.
    context: Option<Box<dyn Context>>,
    /// How many rows it was shown.
    rows: usize,
    /// Copies, with the number of rows they were shown.
    copies: Vec<(usize, Box<dyn Context>)>,
    /// How many rows there are from one copy to the next; `None` if it cannot be copied.
    spacing: Option<usize>,
    /// The changes since the first copy.
    log: Vec<Logged>,
    /// All windows, with what was emitted for each, if anything.
    windows: BTreeMap<Range, Option<Emitted>>,
    /// How many windows begin or end at each edge.
    edges: BTreeMap<usize, u32>,
    /// The state of the windows touched by a call before that call; absent ones did not exist.
    touched: BTreeMap<Range, Option<Emitted>>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, windows, .. } = self;
        formatter.debug_struct("Observed").field("rows", rows).field("windows", windows).finish()
    }
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            context: None,
            rows: 0,
            copies: Vec::new(),
            spacing: Some(SPACING),
            log: Vec::new(),
            windows: BTreeMap::new(),
            edges: BTreeMap::new(),
            touched: BTreeMap::new(),
        }
    }
}

impl Observed {
    /// Lists the windows of this type, which reads these columns, over the rows before which no other row can come;
    /// returns when the next row is one of these. New windows get the numbers from `next` on.
    pub(super) fn observe(
        &mut self,
        kind: (&dyn UserWindow, &[usize]),
        view: &View<'_>,
        next: &mut i64,
        out: &mut Ready,
    ) -> Result<Option<i64>> {
        self.show(kind, view)?;
        if !self.touched.is_empty() {
            // Windows touched by the call are compared with their emitted versions.
            let mut emitted: Vec<Emitted> = self.touched.values().copied().flatten().collect();
            emitted.sort_unstable_by_key(|emitted| (emitted.time, emitted.first, emitted.number));
            let is_new = |range: &&Range| self.windows.get(range).is_some_and(Option::is_none);
            let ranges: Vec<Range> = self.touched.keys().filter(is_new).copied().collect();
            let finals: Vec<Final> = ranges.iter().map(|&range| Final::of(view, range)).collect();
            for edge in self.touched.keys().flat_map(|&(lo, hi)| [lo, hi]) {
                if self.edges.contains_key(&edge) {
                    out.edges.push(edge);
                } else {
                    out.drop_edge(edge);
                }
            }
            for (at, number) in compare(view, &emitted, &finals, next, out) {
                self.windows.insert(ranges[at], Some(finals[at].emitted(number)));
            }
        }
        Ok(view.next_row())
    }

    /// These windows, to be shown all rows again.
    pub(super) fn unshown(&self) -> Self {
        Self { windows: self.windows.clone(), edges: self.edges.clone(), ..Self::default() }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.touched.clear();
    }

    /// Restores the windows from before the call. The state that was shown the call's rows is discarded.
    pub(super) fn take_back(&mut self) {
        for (range, emitted) in std::mem::take(&mut self.touched) {
            self.windows.remove(&range);
            if emitted.is_some() {
                self.windows.insert(range, emitted);
            }
        }
        self.lose();
        self.edges.clear();
        let edges: Vec<usize> = self.windows.keys().flat_map(|&(lo, hi)| [lo, hi]).collect();
        edges.into_iter().for_each(|edge| *self.edges.entry(edge).or_default() += 1);
    }

    /// Records a window that was emitted.
    pub fn restore(&mut self, range: Range, emitted: Emitted) {
        if self.windows.insert(range, Some(emitted)).is_none() {
            self.count(range, true);
        }
    }

    /// The emitted windows.
    pub(super) fn emitted(&self) -> impl Iterator<Item = &Emitted> {
        self.windows.values().flatten()
    }

    /// The emitted windows, mutable.
    pub(super) fn emitted_mut(&mut self) -> impl Iterator<Item = &mut Emitted> {
        self.windows.values_mut().flatten()
    }

    /// Edges of windows, from this place on.
    pub(super) fn edges_from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        self.edges.range(from..).map(|(&edge, _)| edge)
    }

    /// Bytes held, except by users' own objects.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.windows.len() * size_of::<(Range, Option<Emitted>)>()
            + self.edges.len() * size_of::<(usize, u32)>()
            + self.log.capacity() * size_of::<Logged>()
    }

    fn lose(&mut self) {
        (self.context, self.rows) = (None, 0);
        self.copies.clear();
        self.log.clear();
    }

    fn count(&mut self, (lo, hi): Range, is_new: bool) {
        for edge in [lo, hi] {
            match self.edges.entry(edge) {
                Entry::Vacant(edge) if is_new => {
                    edge.insert(1);
                }
                Entry::Occupied(mut edge) if is_new => *edge.get_mut() += 1,
                Entry::Occupied(mut edge) if *edge.get() > 1 => *edge.get_mut() -= 1,
                Entry::Occupied(edge) => {
                    edge.remove();
                }
                Entry::Vacant(_) => {}
            }
        }
    }

    /// Adds or removes a window; returns whether that was possible: an added window must not exist, a removed one must.
    fn put(&mut self, range: Range, is_new: bool) -> bool {
        let before = match is_new {
            true if self.windows.contains_key(&range) => return false,
            true => self.windows.insert(range, None).flatten(),
            false => match self.windows.remove(&range) {
                Some(emitted) => emitted,
                None => return false,
            },
        };
        self.touched.entry(range).or_insert(before);
        self.count(range, is_new);
        true
    }

    /// Goes back to a state in which at most the first `rows` rows have been shown.
    fn go_back(&mut self, kind: &dyn UserWindow, rows: usize) -> Result<()> {
        if self.context.is_some() && self.rows <= rows {
            return Ok(());
        }
        self.copies.retain(|&(shown, _)| shown <= rows);
        if let Some((shown, copy)) = self.copies.last()
            && let Some((context, _)) = copy.copied()?
        {
            (self.context, self.rows) = (Some(context), *shown);
            while let Some(last) = self.log.pop_if(|last| last.shown >= self.rows) {
                self.put(last.range, !last.is_new);
            }
            return Ok(());
        }
        self.lose();
        for range in self.windows.keys().copied().collect::<Vec<_>>() {
            self.put(range, false);
        }
        self.context = kind.open()?;
        Ok(())
    }

    /// Applies the changes that a window reports, with `reached` rows shown.
    fn edit(&mut self, name: &str, what: &str, edits: Vec<Edit>, reached: usize) -> Result<()> {
        for Edit { gone, new } in edits {
            if let Some((lo, hi)) = gone {
                if !self.put((lo, hi), false) {
                    return Err(Error::InvalidValue(format!(
                        "{name}: {what}: a window of rows {lo} to {hi} is changed or removed, but does not exist; \
                         only windows added earlier can be"
                    )));
                }
                self.note((lo, hi), false);
            }
            if let Some((lo, hi)) = new {
                if lo >= hi || hi > reached {
                    return Err(Error::InvalidValue(format!(
                        "{name}: {what}: a window of rows {lo} to {hi}, of {reached} shown so far; a window has at least \
                         one row"
                    )));
                }
                if self.put((lo, hi), true) {
                    self.note((lo, hi), true);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, range: Range, is_new: bool) {
        if !self.copies.is_empty() {
            self.log.push(Logged { shown: self.rows, range, is_new });
        }
    }

    /// Makes a copy if one should be made now. No row can come before the row of rank `fixed`.
    fn copy(&mut self, fixed: usize) -> Result<()> {
        let (Some(spacing), Some(context)) = (self.spacing, &self.context) else { return Ok(()) };
        let last = self.copies.last().map_or(0, |&(shown, _)| shown);
        if self.rows - last < spacing {
            return Ok(());
        }
        let Some((copy, bytes)) = context.copied()? else {
            self.spacing = None;
            return Ok(());
        };
        self.spacing = Some(SPACING.max(bytes / BYTES_PER_ROW));
        self.copies.push((self.rows, copy));
        // Of the copies before the end of the fixed rows, only the last is needed.
        let unused = self.copies.iter().filter(|&&(shown, _)| shown <= fixed).count().saturating_sub(1);
        self.copies.drain(..unused);
        if self.copies.len() > COPIES {
            let mut at = 0;
            self.copies.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        let first = self.copies.first().map_or(0, |&(shown, _)| shown);
        let old = self.log.partition_point(|logged| logged.shown < first);
        self.log.drain(..old);
        Ok(())
    }

    /// Shows rows that were not yet shown, or not in this order.
    fn show(&mut self, (kind, columns): (&dyn UserWindow, &[usize]), view: &View<'_>) -> Result<()> {
        let rows = view.final_rows();
        let is_known = self.rows == rows && view.changed() >= rows && self.context.is_some();
        if rows == 0 || is_known && !view.call.closing {
            return Ok(());
        }
        self.go_back(kind, view.changed())?;
        let read = |lo: usize, hi: usize| view.reader.read(columns, &view.ats[lo..hi]);
        if self.context.is_none() {
            let (times, mut listed) = (&view.times[..rows], Vec::new());
            let columns = read(0, rows)?;
            kind.listed_so_far(
                &KeyRows { times, columns: &columns, arrivals: &[] },
                view.call.closing,
                &mut listed,
            )?;
            for each in listed {
                self.put((each.lo as usize, each.hi as usize), true);
            }
            return Ok(());
        }
        let fixed = view.fixed_rows();
        while self.rows < rows {
            let (from, to) = (self.rows, rows.min(self.rows + PIECE));
            let columns = read(from, to)?;
            let piece = KeyRows { times: &view.times[from..to], columns: &columns, arrivals: &[] };
            let Some(context) = &mut self.context else { break };
            let edits = context.notify(from, &piece)?;
            self.edit(kind.name(), "notify", edits, to)?;
            self.rows = to;
            if view.call.is_out_of_order {
                self.copy(fixed)?;
            }
        }
        if view.call.closing
            && let Some(context) = &mut self.context
        {
            let edits = context.finish(rows)?;
            self.edit(kind.name(), "finish", edits, rows)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_no_row_or_of_rows_to_come_is_refused() {
        for range in [(0, 0), (1, 1), (2, 1), (0, 3), (2, 3), (3, 2), (3, 4)] {
            let error =
                Observed::default().edit("w", "notify", vec![Edit { gone: None, new: Some(range) }], 2);
            let (lo, hi) = range;
            assert_eq!(
                error.unwrap_err().to_string(),
                format!(
                    "w: notify: a window of rows {lo} to {hi}, of 2 shown so far; a window has at least one row"
                )
            );
        }
    }

    #[test]
    fn only_windows_that_exist_are_changed() {
        let mut observed = Observed::default();
        let edits = |gone, new| vec![Edit { gone, new }];
        observed.edit("w", "notify", edits(None, Some((0, 1))), 2).unwrap();
        observed.edit("w", "notify", edits(Some((0, 1)), Some((0, 2))), 2).unwrap();
        assert_eq!(observed.windows.keys().collect::<Vec<_>>(), [&(0, 2)]);
        let error = observed.edit("w", "finish", edits(Some((0, 1)), None), 2).unwrap_err().to_string();
        assert!(error.starts_with("w: finish: a window of rows 0 to 1 is changed or removed"), "{error}");
    }
}
