//! The results of a retracting query that it may have to retract: those of windows that are open or may still be updated.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, cast::AsArray, types::*};

use super::shape::Shape;
use crate::Result;
use crate::aggregate::held_bytes;
use crate::interrupt::Pace;
use crate::keys::normalised;
use crate::operator::stream::ahead::Reach;
use crate::operator::stream::outgoing::{Answer, Answered};
use crate::select::interleave;
use crate::state::{Reader, Writer, broken};

/// Rows, or batches, that may accumulate before those that are no longer needed are dropped.
const SLACK: usize = 1024;

/// A key and one of the query's windows.
pub(super) type Place = (u32, u32);

/// What distinguishes a window from others at its place.
pub(super) type Identity = (i64, i64);

/// The latest result of a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emitted {
    batch: u32,
    row: u32,
    /// Where the window ended then, at the latest.
    end: i64,
    is_final: bool,
}

/// The results of a query that may be retracted.
#[derive(Default)]
pub(super) struct Ledger {
    windows: BTreeMap<Place, BTreeMap<Identity, Emitted>>,
    len: usize,
    /// The columns of these results.
    batches: Vec<Vec<ArrayRef>>,
    rows: usize,
    /// What the current call changed, in order, and how many batches and rows there were before it.
    undo: Vec<(Place, Identity, Option<Emitted>)>,
    before: Option<(usize, usize)>,
    /// How many windows there were when it was last swept.
    swept: usize,
}

/// New results and those that they replace.
pub(super) struct Recorded {
    pub(super) retractions: Option<RecordBatch>,
    pub(super) results: Answer,
}

impl Ledger {
    /// Records results before they are emitted, by a call that moves the stream so; windows that ended by `horizon` have
    /// expired. Of windows that are gone, as no row is left of them, earlier results are only retracted.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn record(
        &mut self,
        shape: &Shape,
        answer: Answer,
        (is_final, is_gone): (bool, bool),
        (reach, horizon): (&Reach<'_>, Option<i64>),
    ) -> Result<Recorded> {
        self.before.get_or_insert((self.batches.len(), self.rows));
        let columns = shape.own(&answer.batch)?;
        let (number, mut is_held) = (self.batches.len() as u32, false);
        let (mut gone, mut which) = (Vec::<Emitted>::new(), Vec::<u32>::new());
        let mut suppressed = vec![false; answer.windows.len()];
        let mut pace = Pace::new();
        for (row, &Answered { key, window, extent, identity }) in answer.windows.iter().enumerate() {
            pace.check(8)?;
            let place = (key, window);
            let old = self.replaced(shape, place, (identity, extent));
            if let ([(_, known)], false) = (old.as_slice(), is_final || is_gone)
                && self.is_same(*known, &columns, row)
            {
                suppressed[row] = true;
                continue;
            }
            let own = &shape.windows()[place.1 as usize].1;
            if !is_final && own.observes() && own.is_numbered() && old.iter().any(|(_, known)| known.is_final)
            {
                // Rows ahead of the watermark end a user's own window elsewhere. It is final as it is until the
                // watermark reaches them, and would not be emitted again if a late row ended it there after all.
                suppressed[row] = true;
                continue;
            }
            for (identity, emitted) in old {
                self.set(place, identity, None);
                gone.push(emitted);
                which.push(place.1);
            }
            let Some((_, end)) = extent.filter(|_| !is_gone) else {
                suppressed[row] = true;
                continue;
            };
            let end = shape.end(place.1, end, reach.after(key));
            let may_change = shape.may_change(place.1, end, horizon);
            if !is_final || may_change {
                self.set(place, identity, Some(Emitted { batch: number, row: row as u32, end, is_final }));
                is_held = true;
            }
        }
        if is_held {
            self.rows += answer.windows.len();
            self.batches.push(columns);
        }
        let retractions = match gone.is_empty() {
            true => None,
            false => Some(shape.retractions(self.values(&gone)?, &which)?),
        };
        let results = match suppressed.contains(&true) {
            false => answer,
            true => answer.only(&suppressed.iter().map(|suppressed| !suppressed).collect())?,
        };
        Ok(Recorded { retractions, results })
    }

    /// The results that a window replaces.
    fn replaced(
        &self,
        shape: &Shape,
        place: Place,
        (identity, extent): (Identity, Option<(i64, i64)>),
    ) -> Vec<(Identity, Emitted)> {
        let Some(known) = self.windows.get(&place) else { return Vec::new() };
        let window = &shape.windows()[place.1 as usize].1;
        match extent {
            // Sessions at one place never overlap.
            Some((start, end)) if window.is_session() && !window.is_numbered() => {
                let before = known.range(..(end, i64::MIN)).rev();
                before
                    .take_while(|(_, emitted)| emitted.end > start)
                    .map(|(&at, &emitted)| (at, emitted))
                    .collect()
            }
            _ => known.get(&identity).map(|&emitted| (identity, emitted)).into_iter().collect(),
        }
    }

    /// Whether a row equals the latest early result of its window.
    fn is_same(&self, known: Emitted, columns: &[ArrayRef], row: usize) -> bool {
        // The columns of this very batch are not among the batches yet.
        let Some(emitted) = self.batches.get(known.batch as usize) else { return false };
        // A NaN is not always the same one, as that depends on the order in which values are added.
        let value = |column: &ArrayRef, row: usize| normalised(&column.slice(row, 1)).to_data();
        !known.is_final
            && emitted
                .iter()
                .zip(columns)
                .all(|(emitted, column)| value(emitted, known.row as usize) == value(column, row))
    }

    /// Changes what is known of a window.
    fn set(&mut self, place: Place, identity: Identity, emitted: Option<Emitted>) {
        self.undo.reserve(1);
        let old = self.put(place, identity, emitted);
        self.undo.push((place, identity, old));
    }

    fn put(&mut self, place: Place, identity: Identity, emitted: Option<Emitted>) -> Option<Emitted> {
        let old = match emitted {
            Some(emitted) => self.windows.entry(place).or_default().insert(identity, emitted),
            None => self.windows.get_mut(&place).and_then(|known| known.remove(&identity)),
        };
        self.len = self.len + usize::from(emitted.is_some()) - usize::from(old.is_some());
        old
    }

    /// The columns of these results.
    fn values(&self, emitted: &[Emitted]) -> Result<Vec<ArrayRef>> {
        let indices: Vec<(usize, usize)> =
            emitted.iter().map(|emitted| (emitted.batch as usize, emitted.row as usize)).collect();
        let width = self.batches.first().map_or(0, Vec::len);
        let column = |at: usize| {
            let all: Vec<&dyn Array> = self.batches.iter().map(|columns| columns[at].as_ref()).collect();
            Ok(interleave(&all, &indices)?)
        };
        (0..width).map(column).collect()
    }

    /// Retracts the results of windows that never became final, as the stream has ended, or this key.
    pub(super) fn retract_open(&mut self, shape: &Shape, key: Option<u32>) -> Result<Option<RecordBatch>> {
        let places = self.windows.range(key.map_or((0, 0), |key| (key, 0))..);
        let own = places.take_while(|(place, _)| key.is_none_or(|key| place.0 == key));
        let each =
            own.flat_map(|(&place, known)| known.iter().map(move |(&at, &emitted)| (place, at, emitted)));
        let open = each.filter(|each| !each.2.is_final).collect();
        self.retract(shape, open)
    }

    /// Retracts the early results of numbered windows beyond these numbers: there are no longer that many.
    pub(super) fn retract_beyond(
        &mut self,
        shape: &Shape,
        last: impl Iterator<Item = (Place, i64)>,
    ) -> Result<Option<RecordBatch>> {
        let beyond = |(place, number)| self.beyond(place, number).map(move |(at, each)| (place, at, each));
        let gone = last.flat_map(beyond).collect();
        self.retract(shape, gone)
    }

    /// The early results of a place beyond a number.
    pub(super) fn beyond(&self, place: Place, number: i64) -> impl Iterator<Item = (Identity, Emitted)> + '_ {
        let known = self.windows.get(&place).into_iter();
        let later = known.flat_map(move |known| known.range((number.saturating_add(1), i64::MIN)..));
        later.filter(|(_, emitted)| !emitted.is_final).map(|(&identity, &emitted)| (identity, emitted))
    }

    fn retract(
        &mut self,
        shape: &Shape,
        mut open: Vec<(Place, Identity, Emitted)>,
    ) -> Result<Option<RecordBatch>> {
        self.before.get_or_insert((self.batches.len(), self.rows));
        open.sort_unstable_by_key(|&(place, identity, _)| (place, identity));
        let emitted: Vec<Emitted> = open.iter().map(|each| each.2).collect();
        let which: Vec<u32> = open.iter().map(|each| each.0.1).collect();
        for (place, identity, _) in open {
            self.set(place, identity, None);
        }
        match emitted.is_empty() {
            true => Ok(None),
            false => shape.retractions(self.values(&emitted)?, &which).map(Some),
        }
    }

    fn each(&self) -> impl Iterator<Item = (Place, Identity, Emitted)> + '_ {
        self.windows.iter().flat_map(|(&place, known)| {
            known.iter().map(move |(&identity, &emitted)| (place, identity, emitted))
        })
    }

    /// Commits the current call; windows that ended by `horizon` have expired.
    pub(super) fn keep(&mut self, shape: &Shape, horizon: Option<i64>) {
        self.undo.clear();
        self.before = None;
        if self.len > 2 * self.swept + SLACK {
            for (&(_, window), known) in &mut self.windows {
                known
                    .retain(|_, emitted| !emitted.is_final || shape.may_change(window, emitted.end, horizon));
            }
            self.windows.retain(|_, known| !known.is_empty());
            self.len = self.windows.values().map(BTreeMap::len).sum();
            self.swept = self.len;
        }
        if self.len == 0 {
            (self.batches, self.rows) = (Vec::new(), 0);
            self.windows.clear();
        } else if self.rows > 2 * self.len + SLACK || self.batches.len() > self.len + SLACK {
            self.compact();
        }
    }

    /// Drops the rows that no longer need to be retracted. If Arrow fails to do so, they stay.
    fn compact(&mut self) {
        let all: Vec<Emitted> = self.each().map(|(_, _, emitted)| emitted).collect();
        let Ok(columns) = self.values(&all) else { return };
        (self.batches, self.rows) = (vec![columns], all.len());
        let known = self.windows.values_mut().flat_map(BTreeMap::values_mut);
        known.zip(0..).for_each(|(emitted, row)| (emitted.batch, emitted.row) = (0, row));
    }

    /// Rolls the current call back.
    pub(super) fn take_back(&mut self) {
        while let Some((place, identity, old)) = self.undo.pop() {
            self.put(place, identity, old);
        }
        if let Some((batches, rows)) = self.before.take() {
            self.batches.truncate(batches);
            self.rows = rows;
        }
    }

    /// Forgets the results of a key.
    pub(super) fn end_key(&mut self, key: u32) {
        while let Some((&place, known)) = self.windows.range((key, 0)..=(key, u32::MAX)).next() {
            self.len -= known.len();
            self.windows.remove(&place);
        }
    }

    /// Keys with results that may be retracted.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.windows.iter().filter(|(_, known)| !known.is_empty()).map(|(&(key, _), _)| key)
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        let windows = std::mem::take(&mut self.windows).into_iter();
        let number = |key: u32| kept.binary_search(&key).ok().map(|at| at as u32);
        self.windows =
            windows.filter_map(|((key, window), known)| Some(((number(key)?, window), known))).collect();
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        held_bytes(self.batches.iter().flatten())
            + self.len * (size_of::<Identity>() + size_of::<Emitted>())
            + self.windows.len() * size_of::<(Place, BTreeMap<Identity, Emitted>)>()
    }

    /// Writes these results.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        let mut all: Vec<(Place, Identity, Emitted)> = self.each().collect();
        all.sort_unstable_by_key(|&(place, identity, _)| (place, identity));
        let numbers = |of: fn(&(Place, Identity, Emitted)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(all.iter().map(of)))
        };
        let mut columns = vec![
            numbers(|each| i64::from(each.0.0)),
            numbers(|each| i64::from(each.0.1)),
            numbers(|each| each.1.0),
            numbers(|each| each.1.1),
            numbers(|each| each.2.end),
        ];
        columns.push(Arc::new(all.iter().map(|each| Some(each.2.is_final)).collect::<BooleanArray>()));
        let emitted: Vec<Emitted> = all.iter().map(|each| each.2).collect();
        if !emitted.is_empty() {
            columns.extend(self.values(&emitted)?);
        }
        to.columns(columns, all.len())
    }

    /// Reads what [`Ledger::save`] wrote.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, shape: &Shape, keys: usize) -> Result<()> {
        let (columns, rows) = from.columns()?;
        if columns.len() < 6 {
            return broken();
        }
        let (heads, own) = columns.split_at(6);
        let numbers: Option<Vec<_>> =
            heads[..5].iter().map(|head| head.as_primitive_opt::<Int64Type>()).collect();
        let (Some(numbers), Some(finals)) = (numbers, heads[5].as_boolean_opt()) else { return broken() };
        if rows == 0 {
            return Ok(());
        }
        let types: Vec<_> = own.iter().map(|column| column.data_type().clone()).collect();
        if types != shape.own_types() || u32::try_from(rows).is_err() {
            return broken();
        }
        for row in 0..rows {
            let number = |at: usize| numbers[at].value(row);
            let (key, window) = (number(0), number(1));
            let is_there = (0..keys as i64).contains(&key)
                && (0..shape.windows().len() as i64).contains(&window)
                && heads.iter().all(|head| head.is_valid(row));
            if !is_there {
                return broken();
            }
            let emitted = Emitted { batch: 0, row: row as u32, end: number(4), is_final: finals.value(row) };
            self.put((key as u32, window as u32), (number(2), number(3)), Some(emitted));
        }
        (self.batches, self.rows, self.swept) = (vec![own.to_vec()], rows, rows);
        if self.len == rows { Ok(()) } else { broken() }
    }
}
