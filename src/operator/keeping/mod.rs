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
//! from the first row on that the call changed (`due`), slices are fitted to their edges (`slicing`), and only slices
//! whose rows are others get other partials (`store`). A call that fails leaves the operator as it was: rows are taken
//! back, and partials are linked in last.

mod answers;
mod due;
mod forget;
mod heap;
mod intake;
mod line;
mod slicing;
mod snapshot;
mod store;
mod told;

use arrow_array::{ArrayRef, RecordBatch};

use super::stream::{Options, Queries, Stats, windows};
use crate::dictionary::widened;
use crate::keys::KeyIndex;
use crate::window::Window;
use crate::{Error, Result};
use due::{Call, Due, Point};
use heap::Heap;
use line::{Before, Line, Row};
use slicing::{Change, Moves};
use store::{Delta, Store};

/// Columns of marks, at most: they are kept as bits.
const MARKS: usize = 64;

/// The operator that keeps rows.
pub(in crate::operator) struct Keeper {
    options: Options,
    queries: Queries,
    keys: KeyIndex,
    /// The keys as columns, as many as there were when they were last asked for.
    key_columns: Option<(usize, Vec<ArrayRef>)>,
    heap: Heap,
    lines: Vec<Line>,
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
        let leader = queries.leader();
        let types = leader.by().iter().map(|&column| leader.input().field(column).data_type().clone());
        let keys = KeyIndex::new(types.collect())?;
        let (heap, mark_columns) = (heap_of(&queries), marks_of(&queries)?);
        let store = Store::new(queries.columns(None, 0)?, queries.stored(), 0);
        Ok(Self {
            options,
            keys,
            key_columns: None,
            heap,
            lines: Vec::new(),
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
            rows_kept: self.lines.iter().map(Line::len).sum(),
            bytes: self.heap.bytes() + self.store.bytes() + self.lines.iter().map(Line::bytes).sum::<usize>(),
            ..self.counts
        }
    }

    /// All windows of all queries.
    fn kinds(&self) -> impl Iterator<Item = (usize, &Window)> {
        windows(self.queries.asked())
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
        self.process(Vec::new(), None, call)
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
        let outcome = self.process(Vec::new(), Some(point), call);
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
            base: self.heap.next(),
            closing,
        }
    }

    /// Puts rows where they belong and lists what is due then. `rows` ascend by key, time and arrival.
    fn process(&mut self, rows: Vec<(u32, Row)>, point: Option<Point>, call: Call) -> Result<Outcome> {
        self.lines.resize(self.keys.len().max(self.lines.len()), Line::default());
        let moves_on = call.closing || call.now > call.before;
        let mut work = Work::new(self.queries.asked().len());
        let mut fresh = rows.chunk_by(|a, b| a.0 == b.0).peekable();
        for key in 0..self.lines.len() as u32 {
            let own: Vec<Row> = fresh
                .next_if(|rows| rows[0].0 == key)
                .map_or_else(Vec::new, |rows| rows.iter().map(|row| row.1).collect());
            let line = &self.lines[key as usize];
            let cut = point.filter(|point| line.len() > 0 && point.key.is_none_or(|own| own == key));
            let is_due = |due: i64| call.now.is_some_and(|now| due <= now);
            let may_be_due = moves_on && line.len() > 0 && (call.closing || line.due.is_some_and(is_due));
            if own.is_empty() && cut.is_none() && !may_be_due {
                continue;
            }
            let mut line = std::mem::take(&mut self.lines[key as usize]);
            let mut before = line.before(key, line.place_of(&own));
            let done = self.process_key(key, &mut line, &mut before, &own, cut, call, &mut work);
            self.lines[key as usize] = line;
            self.undo.push(before);
            done?;
        }
        let Work { changes, moves, due } = work;
        let delta = self.store.derive(self.queries.stored(), &changes, &self.lines, &self.heap)?;
        let windows = due.iter().map(|due| due.len() as u64).sum();
        let updates = due.iter().flatten().filter(|due| due.update).count() as u64;
        let results = self.answer(due, &delta)?;
        let rows = rows.len() as u64;
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
        rows: &[Row],
        cut: Option<Point>,
        call: Call,
        work: &mut Work,
    ) -> Result<()> {
        let mut changed = line.place_of(rows);
        line.insert(rows);
        if let Some(cut) = cut {
            changed = changed.min(line.place_from((cut.time, cut.at)));
        }
        let news: Vec<usize> = match rows.is_empty() {
            true => Vec::new(),
            false => (changed..line.len()).filter(|&place| line.ats[place] >= call.base).collect(),
        };
        let edges = self.list(key, line, &news, call, &mut work.due)?;
        if !rows.is_empty() || cut.is_some() || !edges.is_empty() {
            self.slice(key, line, before, (changed, call.base), &edges, self.store.slots(), work);
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
        self.undo.clear();
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
        let _ = self.store.tidy(&mut self.lines);
        self.heap.join();
        if !self.heap.is_loose(self.lines.iter().map(Line::len).sum()) {
            return;
        }
        let mut live: Vec<u64> = self.lines.iter().flat_map(|line| line.ats.iter().copied()).collect();
        live.sort_unstable();
        // Should Arrow not be able to, rows stay where they are.
        let Ok(heap) = self.heap.squeezed(&live) else { return };
        self.heap = heap;
        let renumber = |at: &mut u64| *at = live.partition_point(|&own| own < *at) as u64;
        for line in &mut self.lines {
            line.ats.iter_mut().for_each(renumber);
            line.told.iter_mut().for_each(|told| {
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

    /// Ends it: nothing is kept.
    pub(in crate::operator) fn clear(&mut self) {
        self.lines = Vec::new();
        self.points = Vec::new();
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
        let mut work = Work::new(self.queries.asked().len());
        let mut failed = false;
        for key in 0..self.lines.len() as u32 {
            let mut line = std::mem::take(&mut self.lines[key as usize]);
            let mut before = line.before(key, line.len());
            failed |= self
                .list(key, &mut line, &[], call, &mut work.due)
                .map(|edges| {
                    let first = (0, call.base);
                    self.slice(key, &mut line, &mut before, first, &edges, self.store.slots(), &mut work);
                })
                .is_err();
            self.lines[key as usize] = line;
            self.undo.push(before);
        }
        let derived = match failed {
            true => Err(Error::Internal("windows could not be listed".into())),
            false => self.store.derive(self.queries.stored(), &work.changes, &self.lines, &self.heap),
        };
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
    }
}

/// What a call comes to, key by key.
struct Work {
    due: Vec<Vec<Due>>,
    changes: Vec<Change>,
    moves: Moves,
}

impl Work {
    fn new(queries: usize) -> Self {
        Self { due: (0..queries).map(|_| Vec::new()).collect(), changes: Vec::new(), moves: Moves::default() }
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
