//! Windows without rows, put between those with rows: a key's windows of a type then follow each other without gaps from
//! its first to its last.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, UInt32Array, cast::AsArray, make_array,
    new_null_array,
};
use arrow_cast::cast;

use crate::Result;
use crate::operator::batching::{BATCH_BYTES, BATCH_ROWS, bytes};
use crate::operator::fill::{Fill, zero};
use crate::operator::plan::Plan;
use crate::operator::schema::extent_fields;
use crate::select::{interleave, take, take_record_batch};

/// A batch of windows with rows.
pub(super) struct Made {
    /// The windows' type.
    pub(super) window: usize,
    /// The number of each row's key.
    pub(super) keys: UInt32Array,
    pub(super) batch: RecordBatch,
}

/// A place in the results of a block: which window came last, and which of a batch with rows come next.
#[derive(Default)]
pub(super) struct Gaps {
    /// The last window: its type, its key and its number.
    last: Option<(usize, u32, i64)>,
    /// The results of the last window with rows, before those of `given`: a batch of one row.
    before: Option<RecordBatch>,
    given: Option<Given>,
}

/// A batch of windows with rows, and how far it was listed.
struct Given {
    made: Made,
    /// The windows' numbers.
    numbers: Vec<i64>,
    /// How many of them have been listed.
    listed: usize,
}

/// Rows of a batch of filled results, as columns.
#[derive(Default)]
struct Rows {
    /// The row of the given batch that each is, or comes before.
    next: Vec<u32>,
    is_gap: Vec<bool>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Rows {
    fn push(&mut self, next: usize, is_gap: bool, (start, end): (i64, i64)) {
        self.next.push(next as u32);
        self.is_gap.push(is_gap);
        self.starts.push(start);
        self.ends.push(end);
    }
}

impl Gaps {
    /// Adds a batch of windows with rows, all of one type, in the order of keys and time. All those before have been listed.
    pub(super) fn add(&mut self, plan: &Plan, made: Made) -> Result<()> {
        let (_, window) = &plan.windows()[made.window];
        let Some(series) = window.series() else { return Ok(()) };
        let extents = made.batch.column(extent_column(plan)).as_struct();
        let (starts, ends) =
            (plan.measure().read(extents.column(0))?, plan.measure().read(extents.column(1))?);
        let numbers =
            starts.iter().zip(ends.iter()).map(|(&start, &end)| series.number_of((start, end))).collect();
        self.given = Some(Given { made, numbers, listed: 0 });
        Ok(())
    }

    /// The next batch, if there is one before another is added: of `BATCH_ROWS` rows at most, fewer where values of
    /// variable size are repeated.
    pub(super) fn next(&mut self, plan: &Plan, fill: &[Fill], varies: bool) -> Result<Option<RecordBatch>> {
        let Some(given) = &mut self.given else { return Ok(None) };
        let batch = &given.made.batch;
        let total = batch.num_rows();
        let mut rows = Rows::default();
        let mut size = 0;
        let (_, window) = &plan.windows()[given.made.window];
        let Some(series) = window.series() else { return Ok(None) };
        while given.listed < total && rows.next.len() < BATCH_ROWS && size < BATCH_BYTES {
            let at = given.listed;
            let own = (given.made.window, given.made.keys.value(at), given.numbers[at]);
            let following = self.last.map(|(window, key, number)| (window, key, number + series.step()));
            let missing =
                following.filter(|&(window, key, number)| (window, key) == (own.0, own.1) && number < own.2);
            let Some((window, key, mut number)) = missing else {
                rows.push(at, false, series.extent_at(own.2));
                self.last = Some(own);
                given.listed += 1;
                continue;
            };
            let each = match (varies, at) {
                (false, _) => 0,
                (true, 0) => self.before.as_ref().map_or(0, |before| bytes(before.columns())),
                (true, _) => bytes(batch.slice(at - 1, 1).columns()),
            };
            while number < own.2 && rows.next.len() < BATCH_ROWS && size < BATCH_BYTES {
                let extent = series.extent_at(number);
                // A day that a zone skips is no window.
                if extent.0 < extent.1 {
                    rows.push(at, true, extent);
                    size += each;
                }
                self.last = Some((window, key, number));
                number += series.step();
            }
        }
        let is_whole = rows.next.len() == total && !rows.is_gap.contains(&true);
        let filled = match rows.next.is_empty() {
            true => None,
            false if is_whole => Some(batch.clone()),
            false => Some(filled(plan, fill, batch, self.before.as_ref(), rows)?),
        };
        if given.listed == total {
            if total > 0 {
                // A copy: a slice would keep the whole batch.
                let last = UInt32Array::from(vec![total as u32 - 1]);
                self.before = Some(take_record_batch(batch, &last)?);
            }
            self.given = None;
        }
        Ok(filled)
    }
}

/// The position of the windows in results.
fn extent_column(plan: &Plan) -> usize {
    plan.by().len() + usize::from(plan.windows().len() > 1)
}

/// The results of these rows, of a batch after the one that ended with `before`.
fn filled(
    plan: &Plan,
    fill: &[Fill],
    batch: &RecordBatch,
    before: Option<&RecordBatch>,
    rows: Rows,
) -> Result<RecordBatch> {
    let Rows { next, is_gap, starts, ends } = rows;
    let count = next.len();
    // The first source is for gaps, the second for windows with rows.
    let places = |gap: &dyn Fn(usize) -> (usize, usize)| -> Vec<(usize, usize)> {
        let each = next.iter().zip(&is_gap).map(|(&next, &is_gap)| (next as usize, is_gap));
        each.map(|(next, is_gap)| if is_gap { gap(next) } else { (1, next) }).collect()
    };
    let alone = places(&|_| (0, 0));
    let earlier = places(&|next| if next == 0 { (0, 0) } else { (1, next - 1) });
    let next = UInt32Array::from(next.clone());
    let first = batch.num_columns() - fill.len();
    let at = extent_column(plan);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (number, column) in batch.columns().iter().enumerate() {
        let either = |gap: &ArrayRef, places: &[(usize, usize)]| of_two(gap, column, places);
        columns.push(if number == at {
            let measure = plan.extents();
            let edges = vec![measure.array(starts.clone())?, measure.array(ends.clone())?];
            Arc::new(StructArray::try_new(extent_fields(measure), edges, None)?)
        } else if number < first {
            // A gap is between windows of one key and type.
            take(column, &next, None)?
        } else {
            match fill[number - first] {
                Fill::Null => either(&new_null_array(column.data_type(), 1), &alone)?,
                Fill::Zero => either(&zero(column.data_type())?, &alone)?,
                Fill::Previous => either(before.map_or(column, |before| before.column(number)), &earlier)?,
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(plan.output().clone(), columns, &options)?)
}

/// The values at these places of two columns of one type.
fn of_two(first: &ArrayRef, second: &ArrayRef, places: &[(usize, usize)]) -> Result<ArrayRef> {
    let of = |first: &ArrayRef, second: &ArrayRef| interleave(&[first.as_ref(), second.as_ref()], places);
    let (Some(own), Some(other)) = (first.as_any_dictionary_opt(), second.as_any_dictionary_opt()) else {
        return Ok(of(first, second)?);
    };
    // Two dictionaries one after the other would hold values twice.
    if own.values().is_empty() || own.values().to_data() == other.values().to_data() {
        let keys = interleave(&[own.keys(), other.keys()], places)?.into_data().into_builder();
        let values = vec![other.values().to_data()];
        return Ok(make_array(keys.data_type(second.data_type().clone()).child_data(values).build()?));
    }
    let values = other.values().data_type();
    Ok(cast(&of(&cast(first, values)?, &cast(second, values)?)?, second.data_type())?)
}
