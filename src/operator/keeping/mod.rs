//! The operator that keeps rows: for windows that rows tell, and for functions that depend on the order of rows, on
//! streams in which a row may come late (Traub et al. 2019, §5.1, Fig. 4).
//!
//! | | |
//! |---|---|
//! | needs | nothing but associative functions |
//! | time | O(1) per row in order; a row out of order moves those of its key that lie after it, and one row of each later slice between edges that count; O(1) per window beside the combinations |
//! | space | the rows that some window or row to come may need, and their slices |
//! | first appeared | Traub et al., EDBT 2019, §5.2-5.3 |
//!
//! A key's windows are a function of its rows in the order of time and arrival. So after each call they are listed anew
//! from the first row on that the call changed (`due`). Where its rows all come after those there were, slices go on
//! (`extending`); else slices are fitted to the edges there are now (`slicing`), and only slices whose rows are others
//! get other partials (`store`). A call that fails leaves the operator as it was: rows are taken back, and partials are
//! linked in last.

mod answers;
mod check;
mod context;
mod due;
mod extending;
mod forget;
mod fresh;
mod heap;
mod intake;
mod line;
mod listing;
mod punctuated;
mod slicing;
mod snapshot;
mod store;
mod told;
mod work;

use std::collections::BTreeSet;

use arrow_array::{ArrayRef, RecordBatch};

use super::stream::{Keyed, Options, Queries, Stats, windows};
use crate::dictionary::widened;
use crate::window::Window;
use crate::{Error, Result};
use due::{Call, News};
use fresh::{Fresh, Own};
use heap::Heap;
use line::{Before, Line};
use punctuated::Point;
use store::{Delta, Store};
use work::{Moves, Work};

/// Columns of marks, at most: they are kept as bits.
const MARKS: usize = 64;

/// The operator that keeps rows.
pub(in crate::operator) struct Keeper {
    options: Options,
    queries: Queries,
    keys: Keyed,
    heap: Heap,
    lines: Vec<Line>,
    /// Rows of all keys.
    kept: usize,
    /// Keys by the watermark that makes a window of theirs final.
    waiting: BTreeSet<(i64, u32)>,
    store: Store,
    /// Positions of the columns that mark rows, by bit.
    mark_columns: Vec<usize>,
    /// Punctuations by calls, ascending.
    points: Vec<Point>,
    watermark: Option<i64>,
    /// The time of the latest row.
    latest: Option<i64>,
    counts: Stats,
    /// Rows that came since what is not needed was last forgotten.
    unswept: u64,
    /// What the call that is under way changed.
    undo: Vec<Before>,
}

/// What a call did beside putting rows in, to be kept if it does not fail.
pub(in crate::operator) struct Outcome {
    pub(in crate::operator) results: Vec<RecordBatch>,
    delta: Delta,
    watermark: Option<i64>,
    latest: Option<i64>,
    rows: u64,
    windows: u64,
    updates: u64,
    moves: Moves,
}

impl Keeper {
    /// An operator for these queries; what has come before is as the watermark and the latest row say.
    pub(in crate::operator) fn new(
        queries: Queries,
        options: Options,
        (watermark, latest): (Option<i64>, Option<i64>),
    ) -> Result<Self> {
        let keys = Keyed::new(queries.leader())?;
        let (heap, mark_columns) = (heap_of(&queries), marks_of(&queries)?);
        let store = Store::new(queries.columns(None, 0)?, queries.stored(), 0);
        Ok(Self {
            options,
            keys,
            heap,
            lines: Vec::new(),
            kept: 0,
            waiting: BTreeSet::new(),
            store,
            mark_columns,
            points: Vec::new(),
            watermark,
            latest,
            counts: Stats::default(),
            unswept: 0,
            undo: Vec::new(),
            queries,
        })
    }

    /// How far the stream is complete.
    pub(in crate::operator) fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// The time of the latest row.
    pub(in crate::operator) fn latest(&self) -> Option<i64> {
        self.latest
    }

    /// The queries.
    pub(in crate::operator) fn queries(&self) -> &Queries {
        &self.queries
    }

    /// The same queries among others.
    pub(in crate::operator) fn set_queries(&mut self, queries: Queries) {
        self.queries = queries;
    }

    /// What it holds and did.
    pub(in crate::operator) fn stats(&self) -> Stats {
        Stats {
            keys: self.lines.iter().filter(|line| line.len() > 0).count(),
            slices: self.lines.iter().map(|line| line.slices.len()).sum(),
            rows_kept: self.kept,
            bytes: self.heap.bytes() + self.store.bytes() + self.lines.iter().map(Line::bytes).sum::<usize>(),
            ..self.counts
        }
    }

    /// Whether a partial depends on the order in which rows of one time are folded.
    fn orders(&self) -> bool {
        self.store.orders()
    }

    /// Whether rows may be folded in any order but for ties in time.
    fn commutes(&self) -> bool {
        self.store.commutes()
    }

    /// What is due once the watermark is there; everything that is left if the stream ends.
    pub(in crate::operator) fn moved(&mut self, watermark: Option<i64>, closing: bool) -> Result<Outcome> {
        let call = self.call(watermark, closing);
        self.process(self.nothing(), None, call)
    }

    /// Puts a punctuation, of a key or of all, after the rows up to its time that have come. `latest` is the time of the
    /// latest row then.
    pub(in crate::operator) fn punctuate(
        &mut self,
        time: i64,
        key: Option<&[ArrayRef]>,
        watermark: Option<i64>,
    ) -> Result<Outcome> {
        let key = match key {
            None => None,
            Some(values) => {
                let mut ids = Vec::new();
                self.keys.assign(values, 1, &mut ids)?;
                Some(ids[0])
            }
        };
        let point = Point { time, at: self.heap.next(), key };
        let at = self.points.partition_point(|other| *other <= point);
        self.points.insert(at, point);
        let call = self.call(watermark, false);
        let outcome = self.process(self.nothing(), Some(point), call);
        if outcome.is_err() {
            self.points.remove(at);
        }
        outcome
    }

    fn call(&self, now: Option<i64>, closing: bool) -> Call {
        Call {
            before: self.watermark,
            now,
            horizon: self.watermark.map(|watermark| watermark.saturating_sub(self.options.allowed_lateness)),
            floor: self.cutoff(),
            base: self.heap.next(),
            closing,
        }
    }

    /// No rows.
    fn nothing(&self) -> Fresh {
        Fresh::new(self.heap.next(), Vec::new(), Vec::new(), &[], 0)
    }

    /// Keys that a call may have to do with, ascending, with their rows.
    fn visited(&self, fresh: &Fresh, point: Option<Point>, call: Call) -> Vec<(u32, Option<Own>)> {
        let mut visited: Vec<(u32, Option<Own>)> =
            fresh.keys().iter().map(|&own| (own.key, Some(own))).collect();
        let with_rows =
            || (0..).zip(&self.lines).filter(|(_, line)| line.len() > 0).map(|(key, _)| (key, None));
        let all = call.closing || point.is_some_and(|point| point.key.is_none());
        if all {
            visited.extend(with_rows());
        } else {
            visited.extend(point.and_then(|point| point.key).map(|key| (key, None)));
            if let Some(now) = call.now.filter(|_| call.now > call.before) {
                visited.extend(self.waiting.range(..=(now, u32::MAX)).map(|&(_, key)| (key, None)));
            }
        }
        // Of two entries of a key, that with rows stays.
        visited.sort_by_key(|&(key, own)| (key, own.is_none()));
        visited.dedup_by_key(|&mut (key, _)| key);
        visited
    }

    /// Puts rows where they belong and lists what is due then.
    fn process(&mut self, fresh: Fresh, point: Option<Point>, call: Call) -> Result<Outcome> {
        self.lines.resize_with(self.keys.len().max(self.lines.len()), Line::default);
        let mut work = Work::new(self.queries.asked().len(), fresh.len(), self.store.slots());
        for (key, own) in self.visited(&fresh, point, call) {
            let mut line = std::mem::take(&mut self.lines[key as usize]);
            let cut = point.filter(|point| line.len() > 0 && point.key.is_none_or(|own| own == key));
            let mut before = line.before(key, line.place_of(own.and_then(|own| fresh.first_time(own))));
            let done = self.process_key(key, &mut line, &mut before, (&fresh, own), cut, call, &mut work);
            self.lines[key as usize] = line;
            self.undo.push(before);
            done?;
        }
        let delta = self.store.derive(self.queries.stored(), &work, &fresh, &self.lines, &self.heap)?;
        let Work { due, moves, .. } = work;
        let windows = due.iter().map(|due| due.len() as u64).sum();
        let updates = due.iter().flatten().filter(|due| due.update).count() as u64;
        let results = self.answer(due, &delta)?;
        let rows = fresh.len() as u64;
        let (watermark, latest) = (call.now.max(call.before), self.latest);
        Ok(Outcome { results, delta, watermark, latest, rows, windows, updates, moves })
    }

    /// Puts a key's rows in, lists what is due, and fits slices.
    #[allow(clippy::too_many_arguments, reason = "a struct of them would have one user")]
    fn process_key(
        &self,
        key: u32,
        line: &mut Line,
        before: &mut Before,
        (fresh, own): (&Fresh, Option<Own>),
        cut: Option<Point>,
        call: Call,
        work: &mut Work,
    ) -> Result<()> {
        let old = line.len();
        let first = own.and_then(|own| fresh.first_time(own));
        let mut changed = line.place_of(first);
        // A row before a punctuation goes to the window that this ends, which may have been told.
        let is_ended = first.is_some_and(|first| self.points.last().is_some_and(|point| point.time > first));
        let is_appended = changed == old && cut.is_none() && !is_ended;
        let mut places = Vec::new();
        match own {
            Some(own) if is_appended => line.append(fresh, own),
            Some(own) => {
                line.insert(fresh.rows_of(own).map(|row| fresh.row(row)));
                places.extend((changed..line.len()).filter(|&place| line.ats[place] >= call.base));
            }
            None => {}
        }
        if let Some(cut) = cut {
            changed = changed.min(line.place_from((cut.time, cut.at)));
        }
        let news = if is_appended { News::From(old) } else { News::At(&places) };
        let mut listing = self.list(key, line, before, news, is_appended, call, &mut work.due)?;
        let (is_shrunk, mut edges, from) =
            (listing.is_shrunk, std::mem::take(&mut listing.edges), listing.from);
        if is_appended && !is_shrunk {
            self.extend(key, line, before, (old, fresh, own), &mut edges, work);
        } else {
            let from = edges.into_iter().fold(changed.min(from), usize::min);
            let edges = self.late_edges(line, from, call)?;
            self.slice(key, line, before, (from, call.base), &edges, work);
        }
        Ok(())
    }

    /// Keeps what a call did, or takes it back. `base` is the arrival number of its first row.
    pub(in crate::operator) fn finish(
        &mut self,
        outcome: Result<Outcome>,
        base: u64,
    ) -> Result<Vec<RecordBatch>> {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                while let Some(before) = self.undo.pop() {
                    self.lines[before.key as usize].take_back(before);
                }
                self.heap.take_back(base);
                return Err(error);
            }
        };
        for before in self.undo.drain(..) {
            let due = self.lines[before.key as usize].due;
            if due != before.due {
                before.due.map(|due| self.waiting.remove(&(due, before.key)));
                due.map(|due| self.waiting.insert((due, before.key)));
            }
        }
        self.kept += outcome.rows as usize;
        self.counts.recomputations += outcome.delta.recomputed;
        self.store.append(outcome.delta);
        self.latest = outcome.latest;
        self.counts.rows += outcome.rows;
        self.counts.windows += outcome.windows;
        self.counts.updates += outcome.updates;
        self.counts.splits += outcome.moves.splits;
        self.counts.merges += outcome.moves.merges;
        self.counts.shifts += outcome.moves.shifts;
        if outcome.watermark > self.watermark {
            self.watermark = outcome.watermark;
            self.forget(outcome.rows);
        }
        self.tidy();
        Ok(outcome.results)
    }

    /// The arrival number of the next row: what [`Keeper::finish`] goes back to.
    pub(in crate::operator) fn next(&self) -> u64 {
        self.heap.next()
    }

    /// Moves slots and rows together once that is worth it.
    fn tidy(&mut self) {
        // A user's function that fails here fails again where a window needs it, in the call that asks for that.
        let _ = self.store.tidy(&mut self.lines, self.kept);
        self.heap.join();
        if !self.heap.is_loose(self.kept) {
            return;
        }
        let numbers = self.heap.renumbered(self.lines.iter().flat_map(|line| line.ats.iter().copied()));
        // Should Arrow not be able to, rows stay where they are.
        let Ok(heap) = self.heap.squeezed(&numbers) else { return };
        self.heap = heap;
        let renumber = |at: &mut u64| *at = numbers.of(*at);
        for line in &mut self.lines {
            line.ats.iter_mut().for_each(renumber);
            let of_users = line.shown.iter_mut().flat_map(|shown| shown.told_mut());
            line.told.iter_mut().chain(of_users).for_each(|told| {
                renumber(&mut told.first);
                renumber(&mut told.last);
            });
            line.numbers
                .iter_mut()
                .filter_map(|each| each.from.as_mut())
                .for_each(|from| renumber(&mut from.1));
        }
        self.points.iter_mut().for_each(|point| renumber(&mut point.at));
    }

    /// Notes anew which keys wait for which watermark.
    fn wait(&mut self) {
        let waits = (0..).zip(&self.lines).filter_map(|(key, line)| line.due.map(|due| (due, key)));
        self.waiting = waits.collect();
    }

    /// Ends it: nothing is kept.
    pub(in crate::operator) fn clear(&mut self) {
        (self.lines, self.points, self.kept) = (Vec::new(), Vec::new(), 0);
        self.keys.keep(&[]);
        self.waiting.clear();
        self.heap = Heap::new(self.heap.read().to_vec(), self.heap.types().to_vec());
        let partials = self.store.partials().iter().map(|partials| partials.empty()).collect();
        self.store = Store::new(partials, self.queries.stored(), 0);
    }

    /// Other queries, with the rows there are. `places` has the place of each former query among them, if it stays.
    pub(in crate::operator) fn change(&mut self, queries: Queries, places: &[Option<usize>]) -> Result<()> {
        let mark_columns = marks_of(&queries)?;
        let partials = queries.columns(Some((&self.queries, self.store.partials())), self.store.slots())?;
        let heap = self.heap.with(&heap_of(&queries));
        let bits: Vec<Option<usize>> = self
            .mark_columns
            .iter()
            .map(|column| mark_columns.iter().position(|other| other == column))
            .collect();
        for line in &mut self.lines {
            line.change(queries.asked().len(), places, &bits);
        }
        self.store = Store::new(partials, queries.stored(), self.store.slots());
        (self.heap, self.mark_columns, self.queries) = (heap, mark_columns, queries);
        self.refit();
        self.forget(0);
        Ok(())
    }

    /// Fits all slices to the windows there are now: those that were cut for others become one.
    fn refit(&mut self) {
        let call = self.call(self.watermark, false);
        let fresh = self.nothing();
        let mut work = Work::new(self.queries.asked().len(), 0, self.store.slots());
        let mut done = Ok(());
        for key in 0..self.lines.len() as u32 {
            let mut line = std::mem::take(&mut self.lines[key as usize]);
            let mut before = line.before(key, line.len());
            let news = News::From(line.len());
            let listed = self.list(key, &mut line, &mut before, news, true, call, &mut work.due).map(|_| ());
            let edges = listed.and_then(|()| self.late_edges(&line, 0, call));
            done = done.and(edges.map(|edges| {
                self.slice(key, &mut line, &mut before, (0, call.base), &edges, &mut work);
            }));
            self.lines[key as usize] = line;
            self.undo.push(before);
        }
        let derived = done
            .and_then(|()| self.store.derive(self.queries.stored(), &work, &fresh, &self.lines, &self.heap));
        match derived {
            Ok(delta) => {
                self.store.append(delta);
                self.counts.merges += work.moves.merges;
                self.undo.clear();
            }
            // A user's function that fails here fails again where a window needs it, in the call that asks for that.
            Err(_) => {
                while let Some(before) = self.undo.pop() {
                    self.lines[before.key as usize].take_back(before);
                }
            }
        }
        self.wait();
    }
}

/// The columns that rows are kept of.
fn heap_of(queries: &Queries) -> Heap {
    let of_partials =
        queries.stored().iter().flat_map(|stored| stored.inputs.iter().copied().chain(stored.filter));
    let of_users = windows(queries.asked()).flat_map(|(_, window)| match window {
        Window::User(_) => window.columns(),
        _ => Vec::new(),
    });
    let mut read: Vec<usize> = of_partials.chain(of_users).collect();
    read.sort_unstable();
    read.dedup();
    let types = read.iter().map(|&at| widened(queries.leader().input().field(at).data_type())).collect();
    Heap::new(read, types)
}

/// The columns that mark rows.
fn marks_of(queries: &Queries) -> Result<Vec<usize>> {
    let mut columns: Vec<usize> = windows(queries.asked())
        .filter_map(|(_, window)| match window {
            Window::Punctuation(kind) => Some(kind.column()),
            _ => None,
        })
        .collect();
    columns.sort_unstable();
    columns.dedup();
    if columns.len() > MARKS {
        return Err(Error::InvalidValue(format!(
            "windows: punctuation by {} columns; allowed are {MARKS} in one operator",
            columns.len()
        )));
    }
    Ok(columns)
}
