//! Windows of users' own that rows tell: what remembers a key's rows, and which windows it has told of them.
//!
//! | | |
//! |---|---|
//! | needs | an object that is shown each row once |
//! | time | O(1) calls of it per call of the operator; rows after a late one are shown again from the last copy before it, or all of them if it cannot be copied; O(log n) per window that is new or changed, of n windows |
//! | space | a copy at each of [`COPIES`] places, at most, after the last row that no late one can come before; all windows told |
//! | first appeared | Traub et al., EDBT 2019, §5.4.2 |
//!
//! Only windows that a call touches are compared with what was told: any other has the rows it had.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use arrow_array::ArrayRef;

use super::due::{Listing, View};
use super::told::{Final, Told};
use crate::slice::strategy::Order;
use crate::window::{Context, Edit, KeyRows, User};
use crate::{Error, Result};

/// Rows that are shown at a time, at most.
const PIECE: usize = 65_536;

/// Rows from one copy to the next, at least.
const SPACING: usize = 4;

/// Bytes of a copy that a row is worth: copies of what holds much are made more seldom.
const BYTES_PER_ROW: usize = 16;

/// Copies, at most: if there are more, every second one is dropped.
const COPIES: usize = 32;

/// Ranks of a window's rows: `lo..hi`.
type Range = (usize, usize);

/// A change of the windows told, for taking it back.
#[derive(Debug, Clone, Copy)]
struct Logged {
    /// The rows that had been shown.
    shown: usize,
    range: Range,
    is_new: bool,
}

/// What a window type of a user's own was shown of a key's rows, and what it told.
pub(super) struct Shown {
    pub(super) query: usize,
    pub(super) window: usize,
    /// None if it must be shown all rows again.
    context: Option<Box<dyn Context>>,
    /// How many rows it was shown.
    rows: usize,
    /// Copies, by the rows that they were shown.
    copies: Vec<(usize, Box<dyn Context>)>,
    /// How many rows there are from one copy to the next; none if there can be no copies.
    spacing: Option<usize>,
    /// What changed since the first copy.
    log: Vec<Logged>,
    /// All windows; those that are not told yet are without anything.
    windows: BTreeMap<Range, Option<Told>>,
    /// How many windows begin or end at each edge.
    edges: BTreeMap<usize, u32>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, window, rows, windows, .. } = self;
        formatter.debug_struct("Shown").field("of", &(query, window, rows)).field("windows", windows).finish()
    }
}

/// What windows were before a call; absent ones are none.
type Touched = BTreeMap<Range, Option<Told>>;

/// How a call is taken back.
#[derive(Debug)]
pub(super) struct Undone {
    query: usize,
    window: usize,
    touched: Touched,
}

impl Undone {
    /// Makes windows those there were. What was shown rows is not used any more.
    pub(super) fn take_back(self, shown: &mut [Shown]) {
        let own = |each: &&mut Shown| (each.query, each.window) == (self.query, self.window);
        let Some(own) = shown.iter_mut().find(own) else { return };
        for (range, told) in self.touched {
            own.windows.remove(&range);
            if told.is_some() {
                own.windows.insert(range, told);
            }
        }
        own.lose();
        own.edges.clear();
        let edges: Vec<usize> = own.windows.keys().flat_map(|&(lo, hi)| [lo, hi]).collect();
        edges.into_iter().for_each(|edge| *own.edges.entry(edge).or_default() += 1);
    }
}

impl Shown {
    /// Nothing yet.
    pub(super) fn new(query: usize, window: usize) -> Self {
        Self {
            query,
            window,
            context: None,
            rows: 0,
            copies: Vec::new(),
            spacing: Some(SPACING),
            log: Vec::new(),
            windows: BTreeMap::new(),
            edges: BTreeMap::new(),
        }
    }

    /// Takes in a window that was told.
    pub(super) fn restore(&mut self, range: Range, told: Told) {
        if self.windows.insert(range, Some(told)).is_none() {
            self.count(range, true);
        }
    }

    /// What was told.
    pub(super) fn told(&self) -> impl Iterator<Item = &Told> {
        self.windows.values().flatten()
    }

    /// The same to be changed.
    pub(super) fn told_mut(&mut self) -> impl Iterator<Item = &mut Told> {
        self.windows.values_mut().flatten()
    }

    /// Becomes that of another query.
    pub(super) fn move_to(&mut self, query: usize) {
        self.query = query;
        self.told_mut().for_each(|told| told.query = query);
    }

    /// Edges of windows, from this place on.
    pub(super) fn edges_from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        self.edges.range(from..).map(|(&edge, _)| edge)
    }

    /// Bytes held, but for what users' own objects hold.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.windows.len() * size_of::<(Range, Option<Told>)>()
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

    /// Puts a window in, or takes it out; whether there was none, or one.
    fn put(&mut self, range: Range, is_new: bool, touched: &mut Touched) -> bool {
        let known = match is_new {
            true if self.windows.contains_key(&range) => return false,
            true => self.windows.insert(range, None).flatten(),
            false => match self.windows.remove(&range) {
                Some(told) => told,
                None => return false,
            },
        };
        touched.entry(range).or_insert(known);
        self.count(range, is_new);
        true
    }

    /// Goes back to where no more than the first `rows` rows have been shown.
    fn go_back(&mut self, kind: &User, rows: usize, touched: &mut Touched) -> Result<()> {
        if self.context.is_some() && self.rows <= rows {
            return Ok(());
        }
        self.copies.retain(|&(shown, _)| shown <= rows);
        if let Some((shown, copy)) = self.copies.last()
            && let Some((context, _)) = copy.copied()?
        {
            (self.context, self.rows) = (Some(context), *shown);
            while let Some(last) = self.log.pop_if(|last| last.shown >= self.rows) {
                self.put(last.range, !last.is_new, touched);
            }
            return Ok(());
        }
        self.lose();
        for range in self.windows.keys().copied().collect::<Vec<_>>() {
            self.put(range, false, touched);
        }
        self.context = kind.window().open()?;
        Ok(())
    }

    /// Takes in what a window says that changes, with `reached` rows shown.
    fn edit(
        &mut self,
        kind: &User,
        what: &str,
        edits: Vec<Edit>,
        reached: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        let name = kind.window().name();
        for Edit { gone, new } in edits {
            if let Some((lo, hi)) = gone {
                if !self.put((lo, hi), false, touched) {
                    return Err(Error::InvalidValue(format!(
                        "{name}: {what}: a window of rows {lo} to {hi} changes, and there is none; it is one told before"
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
                if self.put((lo, hi), true, touched) {
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

    /// Makes a copy if it is time for one. Before the row of rank `fixed` none will come.
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
        // Of copies before the fixed rows' end the last is enough.
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
}

impl View<'_> {
    /// A user's own windows that rows tell: over the rows that no other can come before.
    pub(super) fn of_user(
        &self,
        kind: &User,
        order: Order,
        shown: &mut Vec<Shown>,
        undone: &mut Vec<Undone>,
        read: impl Fn(&[u64]) -> Result<Vec<ArrayRef>>,
        out: &mut Listing<'_>,
    ) -> Result<Option<i64>> {
        let at = shown.iter().position(|each| (each.query, each.window) == (self.query, self.window));
        let at = at.unwrap_or_else(|| {
            shown.push(Shown::new(self.query, self.window));
            shown.len() - 1
        });
        let mut touched = Touched::new();
        let done = self.show(kind, order, &mut shown[at], &read, &mut touched);
        let own = &mut shown[at];
        if done.is_ok() {
            self.compare_touched(own, &touched, out);
        }
        undone.push(Undone { query: self.query, window: self.window, touched });
        done.map(|()| self.next_row())
    }

    /// Shows rows that were not shown, or not in this order.
    fn show(
        &self,
        kind: &User,
        order: Order,
        own: &mut Shown,
        read: &impl Fn(&[u64]) -> Result<Vec<ArrayRef>>,
        touched: &mut Touched,
    ) -> Result<()> {
        let rows = self.final_rows();
        if rows == 0
            || (own.rows == rows && self.changed() >= rows && own.context.is_some() && !self.call.closing)
        {
            return Ok(());
        }
        own.go_back(kind, self.changed(), touched)?;
        let ats = &self.line.ats[self.offset..];
        if own.context.is_none() {
            let (times, mut listed) = (&self.times[..rows], Vec::new());
            let columns = read(&ats[..rows])?;
            kind.list_so_far(&KeyRows { times, columns: &columns }, self.call.closing, &mut listed)?;
            for each in listed {
                own.put((each.lo as usize, each.hi as usize), true, touched);
            }
            return Ok(());
        }
        let fixed = self.upto(self.call.floor);
        while own.rows < rows {
            let (from, to) = (own.rows, rows.min(own.rows + PIECE));
            let columns = read(&ats[from..to])?;
            let piece = KeyRows { times: &self.times[from..to], columns: &columns };
            let Some(context) = &mut own.context else { break };
            let edits = context.notify(from, &piece)?;
            own.edit(kind, "notify", edits, to, touched)?;
            own.rows = to;
            if order == Order::OutOfOrder {
                own.copy(fixed)?;
            }
        }
        if self.call.closing
            && let Some(context) = &mut own.context
        {
            let edits = context.finish(rows)?;
            own.edit(kind, "finish", edits, rows, touched)?;
        }
        Ok(())
    }

    /// Compares windows that a call touched with what was told of them.
    fn compare_touched(&self, own: &mut Shown, touched: &Touched, out: &mut Listing<'_>) {
        if touched.is_empty() {
            return;
        }
        let mut told: Vec<Told> = touched.values().copied().flatten().collect();
        told.sort_unstable_by_key(|told| (told.time, told.first, told.number));
        let is_new = |range: &&Range| own.windows.get(range).is_some_and(Option::is_none);
        let ranges: Vec<Range> = touched.keys().filter(is_new).copied().collect();
        let finals: Vec<Final> = ranges.iter().map(|&(lo, hi)| self.told_by_rows(lo, hi)).collect();
        for edge in touched.keys().flat_map(|&(lo, hi)| [lo, hi]) {
            if own.edges.contains_key(&edge) {
                out.edges.push(self.offset + edge);
            } else {
                out.drop_edge(self.offset + edge);
            }
        }
        for (at, number) in self.compare(&told, &finals, out) {
            let told = self.as_told(&finals[at], number);
            own.windows.insert(ranges[at], Some(told));
        }
    }
}
