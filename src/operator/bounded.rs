//! The operator for bounded input: all rows first, then all windows.

use std::sync::Arc;
use std::thread;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Schema};
use arrow_select::filter::filter;

use super::buckets;
use super::output::Output;
use super::plan::Plan;
use crate::aggregate::{Input, Rows};
use crate::keys::KeyIndex;
use crate::slice::{SliceTable, Slicer};
use crate::{Error, Result};

/// Rows that go through keys, slicer and partials at a time: their columns stay in the cache.
const CHUNK_ROWS: usize = 8192;

/// Slots that may gather before those of one slice are merged for the first time.
const FIRST_COMPACTION: usize = 16 << 20;

/// Takes rows (or slices) in any order and number of batches, then answers every window.
pub struct Bounded {
    plan: Arc<Plan>,
    worker: Worker,
    /// Of the columns of this query's slices, once they are asked for.
    slice_types: Vec<DataType>,
    first_compaction: usize,
    compact_at: usize,
}

/// Keys, slicer and slices of one thread.
struct Worker {
    keys: KeyIndex,
    slicer: Slicer,
    table: SliceTable,
    ids: Vec<u32>,
    slots: Vec<u32>,
}

/// The columns of a batch that a query reads, without rows whose time is null.
struct Columns {
    keys: Vec<ArrayRef>,
    times: ScalarBuffer<i64>,
    inputs: Vec<Input>,
}

impl Bounded {
    /// An operator without rows.
    pub fn new(plan: Arc<Plan>) -> Result<Self> {
        let worker = Worker::new(&plan)?;
        Ok(Self {
            plan,
            worker,
            slice_types: Vec::new(),
            first_compaction: FIRST_COMPACTION,
            compact_at: FIRST_COMPACTION,
        })
    }

    /// An operator for slices of this schema: stage 2 of a distributed job. See [`Plan::for_slices`].
    pub fn for_slices(plan: &Plan, slices: &Schema) -> Result<Self> {
        Self::new(Arc::new(plan.for_slices(slices)?))
    }

    /// Takes in rows, on up to `threads` threads; each takes a contiguous part, so that rows in order stay in order.
    pub fn push(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        self.worker.table.check_room(rows)?;
        let threads = threads.clamp(1, rows.div_ceil(4 * CHUNK_ROWS).max(1));
        let mut parts = split(batches, rows.div_ceil(threads)).into_iter();
        let own = parts.next().unwrap_or_default();
        let plan = &self.plan;
        let worker = &mut self.worker;
        let others: Vec<Result<Worker>> = thread::scope(|scope| {
            let helpers: Vec<_> = parts
                .map(|part| {
                    scope.spawn(move || {
                        let mut helper = Worker::new(plan)?;
                        part.iter().try_for_each(|batch| helper.push(plan, batch))?;
                        Ok(helper)
                    })
                })
                .collect();
            let pushed = own.iter().try_for_each(|batch| worker.push(plan, batch));
            let joined = helpers
                .into_iter()
                .map(|helper| helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            let others: Vec<_> = joined.collect();
            pushed.map(|()| others)
        })?;
        for other in others {
            let other = other?;
            let translate = self.worker.keys.absorb(&other.keys)?;
            self.worker.table.append(other.table, &translate);
        }
        self.compact()
    }

    /// Takes in slices: keys, start, with sessions last, then each partial's state columns.
    pub fn push_slices(&mut self, batch: &RecordBatch) -> Result<()> {
        let plan = &self.plan;
        self.worker.table.check_room(batch.num_rows())?;
        let mut columns = batch.columns().iter();
        let keys: Vec<ArrayRef> = columns.by_ref().take(plan.by().len()).cloned().collect();
        let mut time = |what: &str| match columns.next() {
            Some(column) if column.null_count() == 0 => plan.measure().read(column),
            Some(_) => {
                Err(Error::InvalidValue(format!("slices: column '{what}' holds nulls; a slice has a time")))
            }
            None => Err(Error::InvalidValue(format!("slices: column '{what}' is missing"))),
        };
        let starts = time("start")?;
        let lasts = plan.edges().gap().map(|_| time("last")).transpose()?;
        check_times(plan, &starts)?;
        if let Some(lasts) = &lasts {
            check_times(plan, lasts)?;
        }
        let states: Vec<Vec<ArrayRef>> = plan
            .state_columns()
            .into_iter()
            .map(|width| columns.by_ref().take(width).cloned().collect())
            .collect();
        let Worker { keys: index, table, ids, .. } = &mut self.worker;
        ids.clear();
        index.assign(&keys, batch.num_rows(), ids)?;
        table.push_slices(ids, &starts, lasts.as_deref(), &states)?;
        self.compact()
    }

    /// Takes in slices that [`Bounded::slices`] of the same query handed out.
    ///
    /// # Errors
    /// `InvalidValue` if the columns are not those of this query's slices.
    pub fn push_own_slices(&mut self, batch: &RecordBatch) -> Result<()> {
        let types = |schema: &Schema| -> Vec<DataType> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if self.slice_types.is_empty() {
            self.slice_types = types(&*buckets::schema(&self.plan)?);
        }
        let given = types(batch.schema_ref());
        if given != self.slice_types {
            return Err(Error::InvalidValue(format!(
                "slices: columns of types {given:?} are given; slices of this query have {:?}",
                self.slice_types
            )));
        }
        self.push_slices(batch)
    }

    /// Slots that are open: slices, some of them more than once if rows came out of order.
    pub fn slots(&self) -> usize {
        self.worker.table.len()
    }

    /// Hands out the slices of what was pushed, and begins anew: by bucket of keys, of those that have any, sorted by
    /// key and time. Columns: keys, start (with sessions the first time), with sessions the last time, then the state
    /// of each partial.
    ///
    /// # Errors
    /// `InvalidValue` without buckets; `Overflow` where a partial does not fit the columns of its state.
    pub fn slices(&mut self, buckets: u32) -> Result<Vec<(u32, RecordBatch)>> {
        let Worker { keys, table, .. } = std::mem::replace(&mut self.worker, Worker::new(&self.plan)?);
        self.compact_at = self.first_compaction;
        buckets::split_slices(&self.plan, &keys, table, buckets)
    }

    /// All windows of what was pushed.
    pub fn finish(self) -> Result<Output> {
        Output::new(self.plan, self.worker.keys, self.worker.table)
    }

    /// Merges the slots of each slice once they have doubled, so that memory follows slices, not rows, in any order.
    fn compact(&mut self) -> Result<()> {
        let Worker { keys, slicer, table, .. } = &mut self.worker;
        if table.len() < self.compact_at {
            return Ok(());
        }
        let all = table.take();
        *table = all.regroup(&all.order_by_key(keys.len()), 0, keys.len(), self.plan.edges())?;
        slicer.reset();
        self.compact_at = self.first_compaction.max(2 * table.len());
        Ok(())
    }
}

impl Worker {
    fn new(plan: &Plan) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        Ok(Self {
            keys: KeyIndex::new(types.collect())?,
            slicer: Slicer::new(plan.edges().clone()),
            table: SliceTable::new(plan.empty_partials()?, plan.edges().gap().is_some()),
            ids: Vec::new(),
            slots: Vec::new(),
        })
    }

    fn push(&mut self, plan: &Plan, batch: &RecordBatch) -> Result<()> {
        let columns = Columns::of(plan, batch)?;
        for from in (0..columns.times.len()).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(columns.times.len() - from);
            let slice = |array: &ArrayRef| array.slice(from, rows);
            let times = &columns.times[from..from + rows];
            self.ids.clear();
            self.keys.assign(&columns.keys.iter().map(slice).collect::<Vec<_>>(), rows, &mut self.ids)?;
            self.slicer
                .assign(times, &self.ids, self.keys.len(), &mut self.table, &mut self.slots)
                .map_err(|t| out_of_bounds(plan, t))?;
            let inputs: Vec<Input> = columns.inputs.iter().map(|input| input.slice(from, rows)).collect();
            self.table.update(&inputs, Rows::all(&self.slots, times))?;
        }
        Ok(())
    }
}

impl Columns {
    fn of(plan: &Plan, batch: &RecordBatch) -> Result<Self> {
        if batch.schema_ref().fields().len() != plan.input().fields().len() {
            return Err(Error::InvalidValue(
                "batch: its schema is not the one that the query was bound to".into(),
            ));
        }
        let time = batch.column(plan.time());
        let valid = time.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = valid.map(|nulls| BooleanArray::new(nulls.inner().clone(), None));
        let column = |position: usize| -> Result<ArrayRef> {
            let (array, wanted) = (batch.column(position), plan.input().field(position).data_type());
            if array.data_type() != wanted {
                return Err(Error::InvalidType(format!(
                    "batch: column '{}' is {}; the query was bound to {wanted}",
                    plan.input().field(position).name(),
                    array.data_type()
                )));
            }
            Ok(match &valid {
                Some(valid) => filter(array, valid)?,
                None => array.clone(),
            })
        };
        let keys = plan.by().iter().map(|&position| column(position)).collect::<Result<_>>()?;
        let times = plan.measure().read(&column(plan.time())?)?;
        let inputs = plan.partials().iter().map(|stored| {
            let taken = stored.filter.map(&column).transpose()?;
            let columns = stored.inputs.iter().map(|&position| column(position)).collect::<Result<_>>()?;
            Ok(Input { columns, taken: taken.map(|taken| taken.as_boolean().clone()) })
        });
        Ok(Self { keys, times, inputs: inputs.collect::<Result<_>>()? })
    }
}

/// Refuses slices whose windows' edges would leave the range of int64.
fn check_times(plan: &Plan, times: &[i64]) -> Result<()> {
    let (least, most) = plan.edges().bounds();
    times.iter().find(|&&t| t < least || t > most).map_or(Ok(()), |&t| Err(out_of_bounds(plan, t)))
}

fn out_of_bounds(plan: &Plan, t: i64) -> Error {
    let (least, most) = plan.edges().bounds();
    Error::Overflow(format!(
        "time: column '{}' holds {t} {}, so near the end of int64 that its windows would not fit; allowed are \
         values from {least} to {most}",
        plan.measure().column(),
        plan.measure().unit_name()
    ))
}

/// Batches in contiguous parts of `rows` rows (the last may have fewer).
fn split(batches: &[RecordBatch], rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut parts = vec![Vec::new()];
    let mut room = rows;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            if room == 0 {
                parts.push(Vec::new());
                room = rows;
            }
            let take = room.min(batch.num_rows() - from);
            parts.last_mut().expect("there is a part").push(batch.slice(from, take));
            (from, room) = (from + take, room - take);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{AggregateSpec, WindowKind, WindowSpec};
    use crate::window::{Session, Sliding};
    use arrow_array::{Int64Array, types::Int64Type};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Rows = Vec<(i64, i64, i64)>;
    /// Window number, key, start, end; then sum, min, first value and count.
    type Windows = BTreeMap<(usize, i64, i64, i64), [i64; 4]>;

    fn windows() -> Vec<WindowSpec> {
        let spec = |kind, name: &str, size, slide, offset| WindowSpec {
            kind,
            name: name.into(),
            size,
            slide,
            offset,
            is_time: false,
        };
        vec![
            spec(WindowKind::Sliding, "0", 10, 3, 1),
            spec(WindowKind::Tumbling, "1", 8, 8, 0),
            spec(WindowKind::Session, "2", 4, 0, 0),
        ]
    }

    /// The definition: every window's extent, over all rows.
    fn oracle(rows: &Rows) -> Windows {
        let mut result = Windows::new();
        for key in rows.iter().map(|row| row.0).collect::<BTreeSet<_>>() {
            let own: Vec<_> = rows.iter().filter(|row| row.0 == key).collect();
            let mut times: Vec<i64> = own.iter().map(|row| row.1).collect();
            times.sort_unstable();
            let (low, high) = (times[0], times[times.len() - 1]);
            let extents = |window: Sliding| window.windows(low, high).map(move |w| window.extent(w));
            let sessions =
                Session::new(4).windows(&times).into_iter().map(|(a, b)| Session::new(4).extent(a, b));
            let all = extents(Sliding::new(10, 3, 1)).map(|extent| (0, extent));
            let all = all.chain(extents(Sliding::new(8, 8, 0)).map(|extent| (1, extent)));
            for (window, (start, end)) in all.chain(sessions.map(|extent| (2, extent))) {
                let inside: Vec<_> = own.iter().filter(|row| start <= row.1 && row.1 < end).collect();
                let Some(first) = inside.iter().min_by_key(|row| row.1) else { continue };
                let sum = inside.iter().map(|row| row.2).sum();
                let min = inside.iter().map(|row| row.2).min().expect("not empty");
                result.insert((window, key, start, end), [sum, min, first.2, inside.len() as i64]);
            }
        }
        result
    }

    fn column(values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    fn run(rows: &Rows, batch_rows: usize, threads: usize, compaction: usize) -> Windows {
        let batches: Vec<RecordBatch> = rows
            .chunks(batch_rows)
            .map(|rows| {
                let columns = [
                    ("k", column(rows.iter().map(|row| row.0))),
                    ("t", column(rows.iter().map(|row| row.1))),
                    ("v", column(rows.iter().map(|row| row.2))),
                ];
                RecordBatch::try_from_iter(columns).unwrap()
            })
            .collect();
        let aggregates =
            ["sum", "min", "first", "count"].map(|function| AggregateSpec::new(function, &["v"], function));
        let plan = Plan::new(batches[0].schema(), vec!["k".into()], "t".into(), windows(), aggregates.into())
            .unwrap();
        let mut bounded = Bounded::new(Arc::new(plan)).unwrap();
        (bounded.first_compaction, bounded.compact_at) = (compaction, compaction);
        let (first, rest) = batches.split_at(batches.len() / 2);
        bounded.push(first, threads).unwrap();
        bounded.push(rest, threads).unwrap();
        let mut result = Windows::new();
        for batch in bounded.finish().unwrap().collect(threads).unwrap() {
            let names = batch.column(1).as_string::<i32>();
            let extent = batch.column(2).as_struct();
            let of = |column: &ArrayRef, row: usize| column.as_primitive::<Int64Type>().value(row);
            for row in 0..batch.num_rows() {
                let (start, end) = (of(extent.column(0), row), of(extent.column(1), row));
                let window = (names.value(row).parse().unwrap(), of(batch.column(0), row), start, end);
                let values = [3, 4, 5, 6].map(|position| of(batch.column(position), row));
                assert_eq!(result.insert(window, values), None, "a window comes once");
            }
        }
        result
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            rows in prop::collection::vec((0i64..4, -40i64..40, -9i64..9), 1..80),
            batch_rows in 1usize..30, compaction in 4usize..64,
        ) {
            prop_assert_eq!(run(&rows, batch_rows, 1, compaction), oracle(&rows));
        }
    }

    /// Enough rows that several threads take part, in order and in disorder.
    #[test]
    fn threads_do_not_change_results() {
        let noise = |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 40;
        let in_order: Rows = (0..150_000).map(|i| (noise(i) & 15, i / 200, noise(i + 1) % 1000)).collect();
        let disorder: Rows = in_order.iter().map(|row| (row.0, (row.1 * 379) % 751, row.2)).collect();
        for rows in [in_order, disorder] {
            let one = run(&rows, 50_000, 1, FIRST_COMPACTION);
            assert_eq!(run(&rows, 50_000, 3, FIRST_COMPACTION), one);
            assert_eq!(run(&rows, 1_000, 2, 5_000), one);
            assert_eq!(one, oracle(&rows));
        }
    }
}
