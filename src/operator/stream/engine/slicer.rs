//! The stream slicer (Traub et al. 2019, §5.1): rows are cut at edges that are known in advance into cells, each of one key and
//! one slice, and fold into the partials of their cells. Where a slice must end at rows, `tuples` takes its place.

use arrow_array::{ArrayRef, RecordBatch};

use super::horizon::Horizon;
use super::positions::Positions;
use crate::Result;
use crate::aggregate::BySlot;
use crate::interrupt::{Pace, check};
use crate::operator::bounded::Columns;
use crate::operator::plan::Plan;
use crate::operator::stream::intake::{Accepted, InputKind};
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::queries::Queries;
use crate::operator::stream::slices::{last_column, state_columns};
use crate::poll::sort_by_key;
use crate::simd;
use crate::slice::{Calendar, Cell, Cutter, Delta, Timelines};
use crate::window::Spans;

/// Cells that are put in order before they are added to slices, or slices of a key: each of many in disorder would move those
/// between it and the one before.
const MANY_CELLS: usize = 1024;
const MANY_SLICES: usize = 64;

/// Rows that pass through slicer and partials at a time, so that their columns stay in the cache.
const CHUNK_ROWS: usize = 16_384;

/// What cuts rows into cells.
pub(super) struct StreamSlicer {
    /// It has the cells of the current call.
    pub(super) cutter: Cutter,
}

impl StreamSlicer {
    /// A slicer for the windows of these queries.
    pub(super) fn new(queries: &Queries) -> Self {
        let edges = queries.edges();
        // Rows from before a query was added do not belong to it: no slice has rows from before and after.
        let added = queries.registered().iter().filter_map(|registered| registered.since);
        let cuts: Vec<i64> = added.map(|since| since.saturating_add(1)).collect();
        let slices = edges.gap().map(|_| Calendar::new(edges, &cuts));
        Self { cutter: Cutter::new(Calendar::with_gap(edges, &cuts), slices) }
    }

    /// Cuts the rows of a call into cells, and folds them into `delta`. Where windows are determined by rows, `positions` say
    /// where to cut, and have the cells.
    ///
    /// # Errors
    /// `Overflow` where a partial does not fit its type; what a user's function raises.
    pub(super) fn cut(
        &mut self,
        own: (&Queries, &Horizon),
        accepted: &[Accepted],
        keys: &StreamKeys,
        mut delta: Delta,
        mut positions: Option<&mut Positions>,
    ) -> Result<Delta> {
        self.cutter.begin();
        for batch in accepted {
            self.fold(own, batch, keys, &mut delta, positions.as_deref_mut())?;
        }
        delta.settle()?;
        Ok(delta)
    }

    /// Folds rows into the call's cells.
    fn fold(
        &mut self,
        (queries, horizon): (&Queries, &Horizon),
        batch: &Accepted,
        keys: &StreamKeys,
        delta: &mut Delta,
        mut positions: Option<&mut Positions>,
    ) -> Result<()> {
        if batch.kind == InputKind::Slices {
            return self.fold_slices(queries.leader(), batch, delta);
        }
        let mut columns = Columns::of(queries.leader(), queries.stored(), &batch.rows)?;
        columns.keys.clear();
        let columns = columns.weighed(queries.stored(), batch.weight)?;
        let (rows, sorted) = (columns.times.len(), batch.is_sorted);
        let whole = rows;
        for from in (0..rows).step_by(CHUNK_ROWS) {
            if from > 0 {
                check()?;
            }
            let rows = CHUNK_ROWS.min(rows - from);
            // A small batch is not sliced, which would allocate for each column.
            let chunk = (rows < whole).then(|| columns.slice(from, rows));
            let chunk = chunk.as_ref().unwrap_or(&columns);
            let times = &chunk.times[..];
            let of_rows = batch.keys.of_rows(from..from + rows);
            if let Some(positions) = positions.as_deref_mut() {
                positions.follow(queries, (&batch.rows, from), (times, of_rows, keys.len()))?;
                let (rows, cells) = positions.rows();
                delta.update(&chunk.inputs, times, &rows, cells)?;
                continue;
            }
            let places = horizon.places(times, batch.least, of_rows, &keys.ahead);
            // Those that are put at one horizon stay in order.
            let sorted = sorted && (places.is_none() || keys.ahead.is_empty());
            let places = places.as_deref().unwrap_or(times);
            self.cutter.cut(places, of_rows, keys.len(), sorted || simd::is_ascending(places));
            delta.update(&chunk.inputs, times, &self.cutter.rows(), self.cutter.cells().len())?;
        }
        Ok(())
    }

    /// Adds each pre-aggregated slice as a cell.
    fn fold_slices(&mut self, plan: &Plan, slices: &Accepted, delta: &mut Delta) -> Result<()> {
        let columns = slices.rows.columns();
        let lasts = plan.measure().read(&columns[last_column(plan)])?;
        let states: Vec<&[ArrayRef]> = state_columns(plan).into_iter().map(|range| &columns[range]).collect();
        let cells = slices.times.iter().zip(&lasts[..]).enumerate();
        let cell = |(row, (&first, &last))| Cell { key: slices.keys.of(row), first, last };
        self.cutter.take(cells.map(cell));
        delta.merge(&states, &slices.times, self.cutter.cells().len())
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`. Where a slice is cut by rank, or by a
    /// mark, it starts and ends with its first and last row.
    pub(super) fn all_slices(
        &mut self,
        queries: &Queries,
        (slices, by_rows): (&Timelines, bool),
        of: &StreamKeys,
    ) -> Result<RecordBatch> {
        let (mut keys, mut times) = (Vec::new(), [const { Vec::new() }; 4]);
        for key in 0..slices.keys() as u32 {
            let spans = slices.of(key);
            queries.edges().look_up(spans.firsts)?;
            queries.edges().look_up(spans.lasts)?;
            for at in 0..spans.len() {
                let (start, end) = self.extent(queries, (spans, by_rows), at);
                keys.push(key);
                for (column, t) in times.iter_mut().zip([start, end, spans.firsts[at], spans.lasts[at]]) {
                    column.push(t);
                }
            }
        }
        of.slices(queries.leader(), keys, times)
    }

    /// When the first slice ends. O(keys).
    pub(super) fn first_end(
        &mut self,
        queries: &Queries,
        (slices, by_rows): (&Timelines, bool),
    ) -> Option<i64> {
        let keys = (0..slices.keys() as u32).map(|key| slices.of(key)).filter(|spans| !spans.is_empty());
        keys.map(|spans| self.extent(queries, (spans, by_rows), 0).1).min()
    }

    /// When a slice of a key begins and ends.
    fn extent(&mut self, queries: &Queries, (spans, by_rows): (Spans<'_>, bool), at: usize) -> (i64, i64) {
        let (least, most) = queries.edges().bounds();
        let (first, last) = (spans.firsts[at], spans.lasts[at]);
        let before = at.checked_sub(1).map(|at| spans.lasts[at]);
        let after = spans.firsts.get(at + 1).copied();
        let (mut start, end_of_slice) = self.cutter.slice_of(first);
        let mut end = self.cutter.slice_of(last).1.max(end_of_slice);
        let gap = queries.edges().gap_at(first);
        // Where there is no edge, the slice begins or ends with its rows.
        let is_open = end > most && gap.is_none_or(|gap| gap == i64::MAX);
        if start == least || by_rows && before.is_some_and(|before| before >= start) {
            start = first;
        }
        if let Some(gap) = gap {
            // A fragment begins with its session, or where a window cuts the session in two.
            let joins = |a: i64, b: i64| b <= a.saturating_add(gap);
            if before.is_none_or(|before| !joins(before, first)) {
                start = first;
            }
            if after.is_none_or(|after| !joins(last, after)) {
                end = end.min(last.saturating_add(gap));
            }
        }
        if is_open || by_rows && after.is_some_and(|after| after < end) {
            end = last;
        }
        (start, end)
    }
}

/// Cells with their places, in the order of their keys and times, if they come in another order, and they or the slices are
/// many.
///
/// They are copied, so that each is fetched from where it was only once.
pub(super) fn sorted(cells: &[Cell], (slices, keys): (usize, usize)) -> Result<Option<Vec<(Cell, u32)>>> {
    let time = |cell: &Cell| (cell.key, cell.first);
    if cells.len() < MANY_CELLS && slices < MANY_SLICES * keys || cells.is_sorted_by_key(time) {
        return Ok(None);
    }
    let mut sorted = Vec::with_capacity(cells.len());
    // Neighbouring keys together, so many that a bucket has few cells: to sort these takes little.
    let shift = (keys / cells.len().max(1)).checked_ilog2().unwrap_or(0);
    let bucket = |cell: &Cell| cell.key >> shift;
    let (own, buckets): (Vec<u32>, _) = (cells.iter().map(bucket).collect(), (keys >> shift) + 1);
    let mut pace = Pace::new();
    for at in BySlot::polled(&own, buckets, check)?.entries(0..buckets) {
        pace.check(1)?;
        sorted.push((cells[at as usize], at));
    }
    for own in sorted.chunk_by_mut(|(before, _), (after, _)| bucket(before) == bucket(after)) {
        pace.check(own.len())?;
        sort_by_key(own, |(cell, _)| time(cell), check)?;
    }
    Ok(Some(sorted))
}
