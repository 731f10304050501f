//! Snapshots of an engine: slices and their partials, reopened sessions, and rows or positions, if it has any.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, cast::AsArray, types::*};

use super::Engine;
use super::slice_manager::{SliceManager, store};
use crate::aggregate::{Partial, Partials, Rows};
use crate::interrupt::{Pace, check};
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::options::Stats;
use crate::operator::stream::queries::Queries;
use crate::slice::{Cell, Timelines};
use crate::state::{Reader, Writer, broken};
use crate::{Error, Result};

impl Engine {
    /// Writes everything it holds. O(slices + rows kept).
    pub(in crate::operator::stream) fn save(&self, to: &mut Writer) -> Result<()> {
        // What was done alone: what is held is counted anew, and bytes differ where the state is the same.
        to.value(&Stats::default().and_did(self.stats()));
        self.slices.save(to)?;
        self.windows.save(to);
        self.pending.as_ref().map_or(Ok(()), |pending| pending.save(to))?;
        self.slices.positions.iter().for_each(|positions| positions.save(to));
        self.slices.tuples.as_ref().map_or(Ok(()), |tuples| tuples.save(to))
    }

    /// Reads what [`Engine::save`] wrote for the same queries.
    pub(in crate::operator::stream) fn load(
        &mut self,
        from: &mut Reader<'_>,
        watermark: Option<i64>,
        known: &StreamKeys,
    ) -> Result<()> {
        let Self { queries, slices, windows, pending, counts, .. } = self;
        windows.horizon.restore(queries, watermark);
        *counts = from.value()?;
        let key_count = known.len();
        slices.load(from, queries, key_count)?;
        windows.load(from, queries, key_count)?;
        pending.as_mut().map_or(Ok(()), |pending| pending.load(from, key_count))?;
        let SliceManager { timelines, tuples, positions, .. } = slices;
        for key in 0..timelines.keys() as u32 {
            let spans = timelines.of(key);
            queries.edges().look_up(spans.firsts)?;
            queries.edges().look_up(spans.lasts)?;
        }
        if let Some(positions) = positions {
            positions.load(from, (queries, timelines), key_count)?;
        }
        let Some(tuples) = tuples else { return Ok(()) };
        let calls = windows.horizon.calls_at_rest(tuples.next(), (queries, &known.ahead));
        tuples.load(from, queries, key_count)?;
        tuples.look_up(queries.edges())?;
        tuples.check(queries, timelines, &calls)
    }
}

impl SliceManager {
    /// Writes slices and their partials.
    fn save(&self, to: &mut Writer) -> Result<()> {
        let (mut keys, mut firsts, mut lasts, mut los) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut pace = Pace::new();
        for key in 0..self.timelines.keys() as u32 {
            let spans = self.timelines.of(key);
            pace.check(16 + spans.len())?;
            keys.extend(std::iter::repeat_n(key, spans.len()));
            firsts.extend_from_slice(spans.firsts);
            lasts.extend_from_slice(spans.lasts);
            los.extend_from_slice(self.timelines.los(key));
        }
        let count = keys.len();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(keys)),
            Arc::new(Int64Array::from(firsts)),
            Arc::new(Int64Array::from(lasts)),
        ];
        if self.is_cut_by_rows() {
            columns.push(Arc::new(UInt32Array::from(los)));
        }
        to.columns(columns, count)?;
        for partials in self.store.gather_all(&self.timelines, check)? {
            check()?;
            to.columns(partials.state()?, count)?;
        }
        Ok(())
    }

    /// Reads what [`SliceManager::save`] wrote for the same queries, where there are so many keys.
    fn load(&mut self, from: &mut Reader<'_>, queries: &Queries, key_count: usize) -> Result<()> {
        let (columns, slots) = from.columns()?;
        let [keys, firsts, lasts, los @ ..] = columns.as_slice() else { return broken() };
        let (Some(keys), Some(firsts), Some(lasts)) = (
            keys.as_primitive_opt::<UInt32Type>(),
            firsts.as_primitive_opt::<Int64Type>(),
            lasts.as_primitive_opt::<Int64Type>(),
        ) else {
            return broken();
        };
        let los = match (los, self.is_cut_by_rows()) {
            ([], false) => None,
            ([los], true) => los.as_primitive_opt::<UInt32Type>().map(|los| los.values().clone()),
            _ => return broken(),
        };
        if self.is_cut_by_rows() != los.is_some() {
            return broken();
        }
        check()?;
        let cells: Vec<Cell> = (0..slots)
            .map(|slot| Cell { key: keys.value(slot), first: firsts.value(slot), last: lasts.value(slot) })
            .collect();
        if !are_sound(&cells, los.as_deref(), key_count) {
            return broken();
        }
        check()?;
        self.timelines = Timelines::restore(&cells, los.as_deref(), check)?;
        let numbers: Vec<u32> = (0..slots as u32).collect();
        let rows = Rows { slots: &numbers, times: firsts.values(), sparse: self.keeps_rows() };
        let mut partials = queries.columns(None, 0)?;
        for (partials, stored) in partials.iter_mut().zip(queries.stored()) {
            check()?;
            read_partials(from, &stored.partial, &mut **partials, rows)?;
        }
        check()?;
        self.store = store(self.tuples.as_ref(), partials, slots);
        self.rebuild_above(queries);
        Ok(())
    }
}

/// Whether slices are in order, each of one of so many keys; where rows cut them, `los` has the place of each one's first
/// row among those of its key.
fn are_sound(cells: &[Cell], los: Option<&[u32]>, key_count: usize) -> bool {
    // Where rows cut them, a slice may end at the time when the next one begins.
    let follows = |a: &Cell, b: &Cell| match los {
        None => (a.key, a.last) < (b.key, b.first),
        Some(_) => (a.key, a.last) <= (b.key, b.first),
    };
    let is_one = |cell: &Cell| (cell.key as usize) < key_count && cell.first <= cell.last;
    let begins = |at: usize| at == 0 || cells[at - 1].key != cells[at].key;
    let follows_row = |los: &[u32], at: usize| if begins(at) { los[at] == 0 } else { los[at - 1] < los[at] };
    cells.is_sorted_by(follows)
        && cells.iter().all(is_one)
        && los.is_none_or(|los| (0..cells.len()).all(|at| follows_row(los, at)))
}

/// Partials that are read between two looks for interrupts.
const MERGED: usize = 1 << 18;

/// Reads the partials of slices, one per row of `rows`.
fn read_partials(
    from: &mut Reader<'_>,
    kind: &Partial,
    partials: &mut dyn Partials,
    rows: Rows<'_>,
) -> Result<()> {
    let (states, count) = from.columns()?;
    if count != rows.slots.len() || states.iter().any(|state| state.len() != count) {
        return broken();
    }
    // The states of a user-defined function have a format of its own, and it reports what is wrong with them.
    let is_own = matches!(kind, Partial::User(_));
    let types =
        |states: &[ArrayRef]| states.iter().map(|state| state.data_type().clone()).collect::<Vec<_>>();
    let known = partials.state()?;
    if states.len() != known.len() || !is_own && types(&states) != types(&known) {
        return broken();
    }
    if count == 0 {
        return Ok(());
    }
    let damaged = |error| match error {
        Error::InvalidValue(why) | Error::InvalidType(why) => {
            Error::InvalidValue(format!("snapshot: it is damaged: {why}"))
        }
        other => other,
    };
    for first in (0..count).step_by(MERGED) {
        check()?;
        let part = first..count.min(first + MERGED);
        let states: Vec<ArrayRef> = states.iter().map(|state| state.slice(first, part.len())).collect();
        let rows = Rows { slots: &rows.slots[part.clone()], times: &rows.times[part], ..rows };
        partials.merge(&states, rows, count).map_err(damaged)?;
    }
    Ok(())
}
