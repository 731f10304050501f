//! Rows that wait for the end of their window, where most windows of a key have hardly more rows than one: rows in a common
//! buffer are smaller than timelines of slices, and to put them together once takes less time than to find each key's.
//!
//! | | |
//! |---|---|
//! | needs | windows of one length side by side, whose results are final, and no function of a user |
//! | time | a copy of what is read of a row; and, once its window ends, what a batch takes |
//! | space | of the rows of open windows, the columns that are read |
//! | first appeared | AdaptWID: Li, *Window Queries over Data Streams*, 2008, §6.3, which stores the rows of sparse groups in one buffer |

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};

use super::entry::Entry;
use super::intake::{Accepted, InputKind};
use super::key_numbers::KeyNumbers;
use crate::operator::bounded::Bounded;
use crate::operator::gathered::holds_dictionary;
use crate::operator::plan::Plan;
use crate::select::{concat, filter, take};
use crate::simd;
use crate::state::{Reader, Writer, broken};
use crate::window::Sliding;
use crate::{Error, Result};

/// From so many new slices in a window on, of which each has less than two rows on average, the rows of later windows wait.
const MANY: usize = 1 << 14;

/// Where windows have more rows than these on average, later rows do not wait.
const DENSE: usize = 4;

/// Rows that are put into one piece as they come; as large as what is read at once.
const PIECE: usize = 1 << 14;

/// The rows of an operator's only query that wait, if they may.
pub(super) struct SparseRows {
    plan: Arc<Plan>,
    window: Sliding,
    /// Positions of the columns that are stored.
    read: Vec<usize>,
    /// The place of the times among these.
    time: usize,
    /// The schema of rows, of which those that are not read are null.
    schema: SchemaRef,
    /// Rows from this edge on wait, if any do.
    pub(super) from: Option<i64>,
    rows: Vec<Piece>,
    /// From so many new slices in a window on.
    many: usize,
    /// The latest window, and its new slices and their rows.
    current: Option<i64>,
    seen: (usize, usize),
    /// Whether somebody has asked for the state of single keys, for which rows cannot wait.
    is_asked: bool,
    /// Whether windows turned out to have more rows.
    is_dense: bool,
    /// More rows than these would only wait if they did.
    most: usize,
}

/// Some rows, in the order in which they came, at least one.
#[derive(Clone)]
pub(super) struct Piece {
    columns: Vec<ArrayRef>,
    /// What the column of times holds.
    times: ScalarBuffer<i64>,
    least: i64,
    most: i64,
}

/// What a call does with rows that wait.
#[derive(Default)]
pub(super) struct Waited {
    /// New rows.
    new: Vec<Piece>,
    /// How many pieces stay, and those that come after them; `None` if all are the same.
    pieces: Option<(usize, Vec<Piece>)>,
    /// How many rows were in these.
    due: usize,
    /// How many windows were returned.
    pub(super) windows: u64,
    /// New slices, and rows in them.
    seen: (usize, usize),
}

impl Waited {
    /// Adds rows that wait.
    pub(super) fn add(&mut self, rows: Piece) {
        self.new.push(rows);
    }

    /// Takes note of new slices, and of their rows.
    pub(super) fn see(&mut self, slices: usize, rows: usize) {
        self.seen = (slices, rows);
    }
}

impl SparseRows {
    /// The rows of the queries of an operator, if they may wait.
    pub(super) fn of(entries: &[Entry]) -> Option<Self> {
        let [Entry { plan, since: None, lateness: 0, .. }] = entries else { return None };
        let [(_, window)] = plan.windows() else { return None };
        let window = window.side_by_side()?;
        let is_plain = plan.policy().is_none() && plan.fill().is_none() && plan.weights().is_none();
        let is_fit = is_plain && !plan.by().is_empty() && !plan.has_user_functions();
        if !is_fit {
            return None;
        }
        let mut read: Vec<usize> = plan.read().into_iter().chain(plan.by().iter().copied()).collect();
        read.push(plan.time());
        read.sort_unstable();
        read.dedup();
        // Arrow cannot put dictionaries within lists together, where their codes do not suffice.
        let kind = |at: usize| plan.input().field(at).data_type();
        let is_nested =
            |at: usize| !matches!(kind(at), DataType::Dictionary(..)) && holds_dictionary(kind(at));
        if read.iter().any(|&at| is_nested(at)) {
            return None;
        }
        let time = read.binary_search(&plan.time()).ok()?;
        let fields = plan.input().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        Some(Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            plan: plan.clone(),
            window,
            read,
            time,
            from: None,
            rows: Vec::new(),
            many: MANY,
            current: None,
            seen: (0, 0),
            is_asked: false,
            is_dense: false,
            most: 0,
        })
    }

    /// How many rows wait.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(|piece| piece.times.len()).sum()
    }

    /// When the first of their windows ends.
    pub(super) fn first_end(&self) -> Option<i64> {
        let first = self.rows.iter().map(|piece| piece.least).min();
        first.map(|first| self.window.last_start(first).saturating_add(self.window.size()))
    }

    /// Bytes of these.
    pub(super) fn bytes(&self) -> usize {
        let of = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
        let of_piece = |piece: &Piece| {
            let times = piece.times.inner();
            let data = piece.columns[self.time].to_data();
            let is_shared = data.buffers().iter().any(|own| own.data_ptr() == times.data_ptr());
            piece.columns.iter().map(of).sum::<usize>() + if is_shared { 0 } else { times.len() }
        };
        self.rows.iter().map(of_piece).sum()
    }

    /// Which of some rows wait, if any do; those before the cutoff are late.
    pub(super) fn waiting(&self, rows: &Accepted, cutoff: Option<i64>) -> Option<BooleanBuffer> {
        let from = self.from?.max(cutoff.unwrap_or(i64::MIN));
        let waits = |row| rows.times[row] >= from;
        (rows.most >= from && !rows.times.is_empty())
            .then(|| BooleanBuffer::collect_bool(rows.times.len(), waits))
    }

    /// What is stored of rows.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn piece(&self, rows: &Accepted) -> Result<Piece> {
        let columns = self.read.iter().map(|&at| owned(rows.rows.column(at)));
        self.piece_of(columns.collect::<Result<_>>()?)
    }

    fn piece_of(&self, columns: Vec<ArrayRef>) -> Result<Piece> {
        let times = self.plan.measure().read(&columns[self.time])?;
        let (least, most) = simd::span(&times).unwrap_or((i64::MAX, i64::MIN));
        Ok(Piece { columns, times, least, most })
    }

    fn some(&self, piece: &Piece, these: BooleanBuffer) -> Result<Piece> {
        let these = BooleanArray::new(these, None);
        let columns = piece.columns.iter().map(|column| Ok(filter(column, &these)?));
        self.piece_of(columns.collect::<Result<_>>()?)
    }

    /// Appends rows to those after the first `stay` pieces, or to the last ones of all that are not larger, so that there are
    /// few, and rows are copied a few times; returns how many of the first ones stay.
    fn append(&self, mut stay: usize, after: &mut Vec<Piece>, mut piece: Piece) -> Result<usize> {
        while let Some(last) = after.last().or(self.rows[..stay].last())
            && last.times.len() <= piece.times.len()
            && piece.times.len() < PIECE
        {
            let columns = last.columns.iter().zip(&piece.columns);
            let columns = columns.map(|(own, other)| concat(&[own.as_ref(), other.as_ref()]));
            piece = match columns.collect::<std::result::Result<_, _>>() {
                Ok(columns) => self.piece_of(columns)?,
                // Both together have more values than a dictionary's codes can number, or than offsets can.
                Err(ArrowError::DictionaryKeyOverflowError | ArrowError::OffsetOverflowError(_)) => break,
                Err(error) => return Err(error.into()),
            };
            if after.pop().is_none() {
                stay -= 1;
            }
        }
        after.push(piece);
        Ok(stay)
    }

    /// The results of windows that end at or before the watermark, of rows that wait and of those that have come.
    ///
    /// # Errors
    /// Errors of a batch query.
    pub(super) fn moved(
        &mut self,
        waited: &mut Waited,
        (watermark, bounds): (Option<i64>, (i64, i64)),
    ) -> Result<Vec<RecordBatch>> {
        let edge = watermark.filter(|_| self.from.is_some()).map(|watermark| {
            let last = self.window.last_start(watermark.clamp(bounds.0, bounds.1));
            // Beyond all times that rows may have, the last window ends, too.
            Some(last.saturating_add(self.window.size())).filter(|&end| end <= watermark).unwrap_or(last)
        });
        let are_due = |piece: &Piece| edge.is_some_and(|edge| piece.least < edge);
        let new = std::mem::take(&mut waited.new);
        if new.is_empty() && !self.rows.iter().any(are_due) {
            return Ok(Vec::new());
        }
        let (mut stay, mut after, mut due) = (self.rows.len(), Vec::new(), Vec::new());
        if self.rows.iter().any(are_due) {
            stay = 0;
        }
        for piece in self.rows[stay..].iter().cloned().chain(new) {
            match edge.filter(|_| are_due(&piece)) {
                None => stay = self.append(stay, &mut after, piece)?,
                Some(edge) if piece.most < edge => due.push(self.batch(&piece)?),
                Some(edge) => {
                    let is_due =
                        BooleanBuffer::collect_bool(piece.times.len(), |row| piece.times[row] < edge);
                    let left = self.some(&piece, !&is_due)?;
                    due.push(self.batch(&self.some(&piece, is_due)?)?);
                    stay = self.append(stay, &mut after, left)?;
                }
            }
        }
        let mut results = Vec::new();
        if !due.is_empty() {
            let mut bounded = Bounded::new(self.plan.clone())?;
            bounded.push(&due, 1)?;
            results = bounded.finish()?.collect(1)?;
        }
        // A commit must not fail.
        self.rows.reserve(after.len());
        waited.pieces = Some((stay, after));
        waited.due = due.iter().map(RecordBatch::num_rows).sum();
        waited.windows = results.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok(results)
    }

    /// All rows that wait, as they came.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn accepted(&self) -> Result<Vec<Accepted>> {
        let each = self.rows.iter().map(|piece| {
            let (is_sorted, kind) = (simd::is_ascending(&piece.times), InputKind::Rows);
            let Piece { times, least, most, .. } = piece.clone();
            Ok(Accepted {
                rows: self.batch(piece)?,
                times,
                is_sorted,
                least,
                most,
                kind,
                weight: 1.0,
                keys: KeyNumbers::NONE,
            })
        });
        each.collect()
    }

    /// A batch of the stream's schema, in which columns that are not read are null.
    fn batch(&self, piece: &Piece) -> Result<RecordBatch> {
        let count = piece.times.len();
        let columns = (0..).zip(self.schema.fields()).map(|(at, field)| match self.read.binary_search(&at) {
            Ok(place) => piece.columns[place].clone(),
            Err(_) => new_null_array(field.data_type(), count),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options)?)
    }

    /// Commits a call, after which the stream has come to this time, if rows may begin to wait.
    pub(super) fn keep(&mut self, waited: Waited, latest: Option<i64>) {
        if let Some((stay, after)) = waited.pieces {
            self.rows.truncate(stay);
            self.rows.extend(after);
        }
        self.most = self.most.max(DENSE * waited.due);
        self.is_dense |= waited.due > DENSE * waited.windows as usize || self.len() > self.most;
        let Some(latest) = latest.filter(|_| self.from.is_none() && !self.is_asked) else { return };
        let edge = self.window.last_start(latest);
        if self.current != Some(edge) {
            (self.current, self.seen) = (Some(edge), (0, 0));
        }
        self.seen.0 += waited.seen.0;
        self.seen.1 += waited.seen.1;
        let (slices, rows) = self.seen;
        if slices >= self.many && rows < 2 * slices {
            self.from = Some(edge.saturating_add(self.window.size()));
            self.most = DENSE * rows;
        }
    }

    /// Whether rows should wait no longer.
    pub(super) fn is_over(&self) -> bool {
        self.is_dense && self.from.is_some()
    }

    /// Drops all rows, which are in slices now; none waits any more.
    pub(super) fn end(&mut self) {
        let is_asked = !self.is_dense;
        (self.rows, self.from, self.is_dense) = (Vec::new(), None, false);
        self.is_asked |= is_asked;
    }

    /// Writes the rows.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        to.value(&(self.from, self.is_asked, self.most));
        let pieces: Vec<RecordBatch> =
            self.rows.iter().map(|piece| self.stored(piece)).collect::<Result<_>>()?;
        to.batches(&self.stored_schema(), &pieces)
    }

    /// Reads what [`SparseRows::save`] wrote, of rows with times within these bounds.
    ///
    /// # Errors
    /// `InvalidValue` for anything else.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, (low, high): (i64, i64)) -> Result<()> {
        (self.from, self.is_asked, self.most) = from.value()?;
        let (schema, batches) = from.batches()?;
        let is_edge = |from: i64| from >= low && (from == i64::MAX || self.window.last_start(from) == from);
        let may_wait = self.from.map_or(batches.is_empty(), is_edge);
        if schema != self.stored_schema() || !may_wait {
            return broken();
        }
        for batch in batches {
            let piece = self.piece_of(batch.columns().to_vec())?;
            let has_times = piece.least >= low.max(self.from.unwrap_or(low)) && piece.most <= high;
            if batch.num_rows() == 0 || !has_times || batch.column(self.time).null_count() > 0 {
                return broken();
            }
            self.rows.push(piece);
        }
        Ok(())
    }

    fn stored_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.read.iter().map(|&at| self.schema.field(at).clone()).collect::<Vec<_>>()))
    }

    fn stored(&self, piece: &Piece) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(self.stored_schema(), piece.columns.clone())?)
    }
}

/// A column that holds no more than its own rows.
fn owned(column: &ArrayRef) -> Result<ArrayRef> {
    let data = column.to_data();
    let own = data.get_slice_memory_size().map_err(Error::from)?;
    match data.get_buffer_memory_size() > 2 * own.max(1024) {
        true => Ok(take(column, &UInt32Array::from_iter_values(0..column.len() as u32), None)?),
        false => Ok(column.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use arrow_array::{Int64Array, StringArray, cast::AsArray, types::Int64Type};
    use proptest::prelude::*;

    use super::super::{Operator, Options, Step, StoreKind};
    use super::*;
    use crate::operator::{AggregateSpec, Length, WindowKind, WindowSpec};
    use crate::slice::strategy::Order;
    use crate::window::Partial;

    const SIZE: i64 = 5;

    /// A key, a time, and how far from it the row comes.
    type Row = (u8, i64);

    #[derive(Debug, Clone)]
    enum Call {
        Push(Vec<Row>),
        Advance(i64),
        Look,
        Peek,
        Restore,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let row = (0u8..6, 0i64..4);
        let call = prop_oneof![
            6 => prop::collection::vec(row, 0..12).prop_map(Call::Push),
            3 => (0i64..8).prop_map(Call::Advance),
            1 => Just(Call::Look),
            1 => Just(Call::Peek),
            2 => Just(Call::Restore),
        ];
        prop::collection::vec(call, 1..25)
    }

    fn batch(rows: &[(u8, i64, i64)]) -> RecordBatch {
        let columns: [(&str, ArrayRef); 4] = [
            ("k", Arc::new(rows.iter().map(|row| Some(row.0.to_string())).collect::<StringArray>())),
            ("unread", Arc::new(StringArray::from_iter_values(rows.iter().map(|_| "any")))),
            ("t", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn plan() -> Arc<Plan> {
        let size = Length::Units(i128::from(SIZE));
        let kind = WindowKind::Tumbling { size, start_time: None, partial: Partial::NONE };
        let aggregates = ["sum", "count"].map(|function| AggregateSpec::new(function, &["v"], function));
        let windows = vec![WindowSpec { name: "w".into(), kind }];
        Arc::new(
            Plan::new(batch(&[]).schema(), vec!["k".into()], "t".into(), windows, aggregates.into()).unwrap(),
        )
    }

    fn waiting(mut operator: Operator) -> Operator {
        operator.sparse.as_mut().expect("rows may wait").many = 1;
        operator
    }

    proptest! {
        /// Windows are those of the definition, whenever rows begin to wait and are put into slices.
        #[test]
        fn windows_are_the_definition(calls in calls(), is_ordered: bool) {
            let order = if is_ordered { Order::InOrder } else { Order::OutOfOrder };
            let options = Options {
                order,
                allowed_lateness: 0,
                progress: None,
                store: StoreKind::Auto,
                late_limit: None,
                shed: None,
                updates: true,
            };
            let queries = || vec![("q".to_owned(), plan())];
            let mut operator = waiting(Operator::new(queries(), options).unwrap());
            let (mut wanted, mut found) = (BTreeMap::new(), BTreeMap::new());
            let (mut watermark, mut latest, mut late, mut next) = (i64::MIN, 0, 0, 0);
            let mut now = 0;
            let mut closed = false;
            for call in calls.into_iter().map(Some).chain([None]) {
                let results = match call {
                    Some(Call::Push(rows)) => {
                        let mut pushed = Vec::new();
                        for (key, step) in rows {
                            now += step;
                            // Without order, rows come up to some windows late.
                            let time = if is_ordered { now } else { now - (next * 7) % 13 };
                            pushed.push((key, time, next));
                            let start = time.div_euclid(SIZE) * SIZE;
                            if start.saturating_add(SIZE) > watermark {
                                let entry: &mut (i64, i64) = wanted.entry((key, start)).or_default();
                                (entry.0, entry.1) = (entry.0 + next, entry.1 + 1);
                            } else {
                                late += 1;
                            }
                            latest = latest.max(time);
                            next += 1;
                        }
                        let results = operator.push(&[batch(&pushed)]).unwrap();
                        if is_ordered && !pushed.is_empty() {
                            watermark = watermark.max(latest);
                        }
                        results
                    }
                    Some(Call::Advance(back)) => {
                        watermark = watermark.max(if is_ordered { latest } else { latest - back });
                        operator.advance(watermark).unwrap()
                    }
                    Some(Call::Look) => {
                        operator.slices().unwrap();
                        prop_assert_eq!(operator.stats().rows_kept, 0);
                        Vec::new()
                    }
                    Some(Call::Peek) => {
                        let open: usize = operator.peek(None).unwrap().iter().map(RecordBatch::num_rows).sum();
                        prop_assert_eq!(open + found.len(), wanted.len());
                        Vec::new()
                    }
                    Some(Call::Restore) => {
                        let snapshot = operator.snapshot().unwrap();
                        operator = waiting(Operator::restore(&snapshot, queries()).unwrap());
                        Vec::new()
                    }
                    None => {
                        closed = true;
                        operator.call(Step::Close).unwrap()
                    }
                };
                for batch in results {
                    let keys = batch.column(0).as_string::<i32>();
                    let starts = batch.column(1).as_struct().column(0).as_primitive::<Int64Type>();
                    let sums = batch.column(2).as_primitive::<Int64Type>();
                    let counts = batch.column(3).as_primitive::<Int64Type>();
                    for row in 0..batch.num_rows() {
                        let window = (keys.value(row).parse::<u8>().unwrap(), starts.value(row));
                        prop_assert!(closed || window.1.saturating_add(SIZE) <= watermark);
                        let known = found.insert(window, (sums.value(row), counts.value(row)));
                        prop_assert!(known.is_none(), "a window came twice");
                    }
                }
                let ended = |&&(_, start): &&(u8, i64)| closed || start.saturating_add(SIZE) <= watermark;
                let ended: BTreeSet<_> = wanted.keys().filter(ended).copied().collect();
                prop_assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), ended);
            }
            prop_assert_eq!(&found, &wanted);
            prop_assert_eq!((operator.stats().late, operator.stats().rows), (late, next as u64 - late));
            prop_assert_eq!(operator.stats().windows, wanted.len() as u64);
        }
    }
}
