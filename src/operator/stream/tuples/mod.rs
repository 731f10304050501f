//! Rows under the slices: for windows determined by rows, and for functions that depend on the order of rows, on
//! streams in which a row may be late (Traub et al. 2019, §5.1, Fig. 4).
//!
//! | | |
//! |---|---|
//! | needs | nothing but associative functions |
//! | time | O(1) per row in order, O(log n) for one of n that wait; a row behind the watermark moves the later rows of its key, and one row of each later slice between edges at ranks; O(1) per window besides the combinations |
//! | space | the rows that some window or future row may need |
//! | first appeared | Traub et al., EDBT 2019, §5.2-5.3 |
//!
//! Windows determined by rows are a function of a key's rows in the order of time and arrival. So after each call they
//! are listed anew from the first row on that the call changed. Where the new rows all come after the existing ones,
//! slices are extended (`extend`); otherwise slices are fitted to the current edges (`fit`), and only slices whose rows
//! changed get new partials (`mend`).

mod early;
mod extend;
mod fit;
mod forget;
mod fresh;
mod listing;
mod mend;
mod process;
mod rows;
mod snapshot;
mod store;
mod waiting;
mod work;

use std::collections::BTreeSet;

use arrow_array::{ArrayRef, RecordBatch};

use super::key_numbers::KeyNumbers;
use super::queries::{Queries, windows};
use crate::aggregate::Partials;
use crate::dictionary::widened;
use crate::memory::attempted;
use crate::operator::plan::Stored;
use crate::slice::Edges;
use crate::window::{Point, Punctuation};
use crate::{Error, Result};
pub(super) use fresh::Fresh;
use fresh::Row;
pub(super) use mend::Changed;
use mend::Kind;
use rows::{Before, KeyTuples};
use store::TupleStore;
use waiting::Sifted;

/// Largest number of columns of marks: they are kept as bits.
const MARKS: usize = 64;

/// The rows of all keys.
pub(super) struct Tuples {
    store: TupleStore,
    keys: Vec<KeyTuples>,
    /// Rows of all keys.
    kept: usize,
    /// How many of them wait for their places.
    aside: usize,
    /// Whether rows may wait, as far as queries are concerned.
    lets_wait: bool,
    /// Keys by the watermark that makes one of their windows final.
    waiting: BTreeSet<(i64, u32)>,
    kinds: Vec<Kind>,
    /// Positions of the columns that mark rows, by bit.
    mark_columns: Vec<usize>,
    /// Punctuations by calls, ascending.
    points: Vec<Point>,
    /// Rows that arrived, and windows that were returned, since rows were last dropped.
    unswept: u64,
    /// How many calls there were since the last one with rows.
    calls_without_rows: u32,
    /// The arrival numbers of the next row when rows were last dropped, and the time before: keys without a row since the
    /// latter are idle.
    swept: u64,
    idle: u64,
    undo: Vec<Before>,
    /// By key, which rows of it a call lets wait, or no longer.
    sifted: Vec<Sifted>,
    /// The arrival number of the first row of the current call.
    base: Option<u64>,
    /// The punctuation of the current call.
    point: Option<Point>,
}

impl Tuples {
    /// No rows of these queries.
    pub(super) fn new(queries: &Queries, partials: &[Box<dyn Partials>]) -> Result<Self> {
        Ok(Self {
            store: store_of(queries),
            keys: Vec::new(),
            kept: 0,
            aside: 0,
            lets_wait: waiting::lets_wait(queries),
            waiting: BTreeSet::new(),
            kinds: kinds(queries.stored(), partials),
            mark_columns: marks_of(queries),
            points: Vec::new(),
            unswept: 0,
            calls_without_rows: 0,
            swept: 0,
            idle: 0,
            undo: Vec::new(),
            sifted: Vec::new(),
            base: None,
            point: None,
        })
    }

    /// Which partials depend on the order in which rows with equal times are folded.
    pub(super) fn ordered(&self) -> Vec<bool> {
        self.kinds.iter().map(|kind| kind.ordered).collect()
    }

    /// Whether a partial does.
    fn is_ordered(&self) -> bool {
        self.kinds.iter().any(|kind| kind.ordered)
    }

    /// Whether rows may be folded in any order except for ties in time.
    fn commutes(&self) -> bool {
        self.kinds.iter().all(|kind| kind.commutative)
    }

    /// Rows of all keys.
    pub(super) fn len(&self) -> usize {
        self.kept
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.store.bytes() + self.keys.iter().map(KeyTuples::bytes).sum::<usize>()
    }

    /// The arrival number of the next row.
    pub(super) fn next(&self) -> u64 {
        self.store.next()
    }

    /// The time of the earliest row in its place.
    pub(super) fn first_time(&self) -> Option<i64> {
        self.keys.iter().filter_map(|own| own.times.first().copied()).min()
    }

    /// Finds the edges near its rows that users define.
    ///
    /// # Errors
    /// What a user's code raises.
    pub(super) fn look_up(&self, edges: &Edges) -> Result<()> {
        for KeyTuples { times, waiting, .. } in self.keys.iter().filter(|_| !edges.users().is_empty()) {
            edges.look_up(times)?;
            edges.look_up(&waiting.iter().map(|row| row.0.time).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Adds rows, batch by batch with their times, and finds their order by key.
    pub(super) fn put(
        &mut self,
        mut batches: Vec<(RecordBatch, Vec<i64>)>,
        of_rows: &KeyNumbers,
        keys: usize,
    ) -> Result<Fresh> {
        let base = self.store.next();
        self.base = Some(base);
        batches.retain(|(_, times)| !times.is_empty());
        let rows = batches.iter().map(|(_, times)| times.len()).sum();
        let mut marks = vec![0u64; if self.mark_columns.is_empty() { 0 } else { rows }];
        let mut first = 0;
        for (batch, own) in &batches {
            for (bit, &column) in self.mark_columns.iter().enumerate() {
                for row in Punctuation::marks(batch.column(column)).set_indices() {
                    marks[first + row] |= 1 << bit;
                }
            }
            first += own.len();
        }
        let read = |(batch, _): &(RecordBatch, Vec<i64>)| -> Vec<ArrayRef> {
            self.store.read_columns().iter().map(|&column| batch.column(column).clone()).collect()
        };
        let columns: Vec<Vec<ArrayRef>> = batches.iter().map(read).collect();
        self.store.push(&columns, rows)?;
        let times = match batches.len() {
            1 => batches.swap_remove(0).1,
            _ => batches.into_iter().flat_map(|(_, times)| times).collect(),
        };
        Fresh::new(base, times, marks, of_rows.of_rows(0..rows), keys)
    }

    /// No rows.
    pub(super) fn nothing(&mut self) -> Fresh {
        let base = self.store.next();
        self.base = Some(base);
        Fresh::none(base)
    }

    /// Puts a punctuation, of one key or of all, after the rows up to its time that have arrived.
    pub(super) fn punctuate(&mut self, time: i64, key: Option<u32>) {
        self.hold_point(time, key);
        self.point = Some(Point { time, at: self.store.next(), key });
    }

    /// The punctuations that are held.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Holds a punctuation from before any row.
    pub(super) fn hold_point(&mut self, time: i64, key: Option<u32>) {
        let point = Point { time, at: self.store.next(), key };
        let at = self.points.partition_point(|other| *other <= point);
        self.points.insert(at, point);
    }

    /// Commits a call, which brought `rows` rows.
    pub(super) fn settle(&mut self, rows: u64) {
        (self.point, self.base) = (None, None);
        self.settle_waiting();
        let sifted = self.sifted.drain(..).map(|sifted| (sifted.key, sifted.next));
        for (key, before) in sifted.chain(self.undo.drain(..).map(|before| (before.key, before.next))) {
            let next = self.keys[key as usize].next;
            if next != before {
                before.map(|next| self.waiting.remove(&(next, key)));
                next.map(|next| self.waiting.insert((next, key)));
            }
        }
        self.kept += rows as usize;
        self.unswept += rows;
        self.calls_without_rows = if rows > 0 { 0 } else { self.calls_without_rows.saturating_add(1) };
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        while let Some(before) = self.undo.pop() {
            let waited = waiting::waited(&self.sifted, before.key);
            self.keys[before.key as usize].take_back(before, waited);
        }
        self.take_back_waiting();
        if let Some(point) = self.point.take() {
            let at = self.points.iter().position(|other| *other == point);
            at.map(|at| self.points.remove(at));
        }
        self.base.take().into_iter().for_each(|base| self.store.take_back(base));
    }

    /// Compacts the stored rows once that pays off.
    pub(super) fn tidy(&mut self) {
        self.store.join();
        if self.store.is_loose(self.kept) {
            self.squeeze();
        }
    }

    /// Drops the rows that no key needs.
    pub(super) fn squeeze(&mut self) {
        let squeezed = attempted(|| {
            let ats = self.keys.iter().flat_map(|tuples| {
                tuples.ats.iter().copied().chain(tuples.waiting.iter().map(|row| row.0.at))
            });
            let numbers = self.store.renumbered(ats);
            Ok((self.store.squeezed(&numbers)?, numbers))
        });
        // Where memory runs out, rows stay where they are.
        let Ok((store, numbers)) = squeezed else { return };
        self.store = store;
        let renumber = |at: &mut u64| *at = numbers.of(*at);
        for tuples in &mut self.keys {
            tuples.ats.iter_mut().for_each(renumber);
            tuples.change_waiting(|row| Row { at: numbers.of(row.at), ..row });
            for (_, memory) in &mut tuples.memories {
                memory.renumber(|at| numbers.of(at));
            }
        }
        self.points.iter_mut().for_each(|point| renumber(&mut point.at));
        [&mut self.swept, &mut self.idle].into_iter().for_each(renumber);
    }

    /// Records anew which keys wait for which watermark.
    fn wait(&mut self) {
        let waits = (0..).zip(&self.keys).filter_map(|(key, tuples)| tuples.next.map(|next| (next, key)));
        self.waiting = waits.collect();
    }

    /// Changes the queries and keeps the rows. `places` has the new place of each former query, if it stays.
    pub(super) fn change(
        &mut self,
        queries: &Queries,
        places: &[Option<usize>],
        partials: &[Box<dyn Partials>],
    ) {
        let mark_columns = marks_of(queries);
        let bit = |column: &usize| mark_columns.iter().position(|other| other == column);
        let bits: Vec<Option<usize>> = self.mark_columns.iter().map(bit).collect();
        self.keys.iter_mut().for_each(|tuples| tuples.change(queries.registered().len(), places, &bits));
        self.store = self.store.with(&store_of(queries));
        (self.mark_columns, self.kinds) = (mark_columns, kinds(queries.stored(), partials));
        self.lets_wait = waiting::lets_wait(queries);
    }

    /// Rejects more columns of marks than a row has room for.
    ///
    /// # Errors
    /// `InvalidValue`.
    pub(super) fn check_marks(queries: &Queries) -> Result<()> {
        let marks = marks_of(queries).len();
        match marks > MARKS {
            false => Ok(()),
            true => Err(Error::InvalidValue(format!(
                "windows: they are bounded by marks in {marks} columns; at most {MARKS} are allowed in one operator"
            ))),
        }
    }
}

fn kinds(stored: &[Stored], partials: &[Box<dyn Partials>]) -> Vec<Kind> {
    stored.iter().zip(partials).map(|(stored, partials)| Kind::of(stored, &**partials)).collect()
}

/// The columns that the tuple store keeps.
fn store_of(queries: &Queries) -> TupleStore {
    let of_partials = queries.stored().iter().flat_map(Stored::reads);
    let of_users = windows(queries.registered()).filter(|(_, window)| window.reads_rows());
    let of_users = of_users.flat_map(|(_, window)| window.columns());
    let mut read: Vec<usize> = of_partials.chain(of_users).collect();
    read.sort_unstable();
    read.dedup();
    let types = read.iter().map(|&at| widened(queries.leader().input().field(at).data_type())).collect();
    TupleStore::new(read, types)
}

/// The columns that mark rows.
fn marks_of(queries: &Queries) -> Vec<usize> {
    let mut columns: Vec<usize> =
        windows(queries.registered()).flat_map(|(_, window)| window.mark_columns()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
