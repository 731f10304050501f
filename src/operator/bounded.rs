//! The operator for bounded input: all rows first, then all windows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Schema};

use super::buckets;
use super::gathered::Gathered;
use super::output::Output;
use super::parts::{CHUNK_ROWS, Timed, check_times, out_of_bounds, share_out};
use super::plan::{Plan, Stored};
use super::spread::{PARTS, Spreading, of_keys, spread};
use crate::aggregate::{Input, Rows};
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::slice::{SliceTable, Slicer};
use crate::{Error, Result};

/// Slots that may accumulate before those of one slice are first merged.
const FIRST_COMPACTION: usize = 16 << 20;

/// Takes rows (or slices) in any order and any number of batches, then computes every window.
pub struct Bounded {
    plan: Arc<Plan>,
    held: Held,
    /// The columns of this query's slices, computed on first use.
    slice_types: Vec<DataType>,
    first_compaction: usize,
    spreading: Spreading,
    /// How many rows were pushed, where they are weighed.
    weighed: usize,
}

/// What is stored of the rows.
enum Held {
    Slices(Box<Worker>),
    /// Slices by parts of keys, where keys are many; parts have no key in common.
    Parts(Vec<Worker>),
    /// Rows as they came, where a window needs them in order.
    Rows(Box<Gathered>),
}

/// Keys, slicer and slices of one thread.
struct Worker {
    keys: KeyIndex,
    slicer: Slicer,
    table: SliceTable,
    ids: Vec<u32>,
    slots: Vec<u32>,
    /// How many slots there are before those of each slice are merged.
    compact_at: usize,
}

/// The columns of a batch that a query reads, without rows whose time is null.
pub(crate) struct Columns {
    pub(crate) keys: Vec<ArrayRef>,
    pub(crate) times: ScalarBuffer<i64>,
    pub(crate) inputs: Vec<Input>,
}

impl Bounded {
    /// An operator with no rows yet.
    pub fn new(plan: Arc<Plan>) -> Result<Self> {
        let held = match plan.needs_rows() {
            true => Held::Rows(Box::new(Gathered::new(plan.clone())?)),
            false => Held::Slices(Box::new(Worker::new(&plan, FIRST_COMPACTION)?)),
        };
        Ok(Self {
            plan,
            held,
            slice_types: Vec::new(),
            first_compaction: FIRST_COMPACTION,
            spreading: Spreading::DEFAULT,
            weighed: 0,
        })
    }

    /// An operator for slices of this schema: stage 2 of a distributed job. See [`Plan::for_slices`].
    pub fn for_slices(plan: &Plan, slices: &Schema) -> Result<Self> {
        Self::new(Arc::new(plan.for_slices(slices)?))
    }

    /// Adds rows, on up to `threads` threads; each takes a contiguous part, so that rows in order stay in order.
    pub fn push(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        if let Some(weights) = self.plan.weights() {
            for batch in batches {
                weights.check(batch, self.weighed)?;
                self.weighed += batch.num_rows();
            }
        }
        self.spread_out(batches)?;
        let worker = match &mut self.held {
            Held::Rows(gathered) => return gathered.push(batches, threads),
            Held::Parts(workers) => {
                let (plan, first) = (&self.plan, self.first_compaction / PARTS);
                return spread(plan, batches, workers, threads, |worker, rows| {
                    worker.table.check_room(rows.num_rows())?;
                    worker.push(plan, rows)?;
                    worker.compact(plan, first)
                });
            }
            Held::Slices(worker) => worker,
        };
        worker.table.check_room(batches.iter().map(RecordBatch::num_rows).sum())?;
        let plan = &self.plan;
        let others = share_out(
            batches,
            threads,
            |part| part.iter().try_for_each(|batch| worker.push(plan, batch)),
            |part| {
                let mut helper = Worker::new(plan, usize::MAX)?;
                part.iter().try_for_each(|batch| helper.push(plan, batch))?;
                Ok(helper)
            },
        )?;
        for other in others {
            check()?;
            let translate = worker.keys.absorb(&other.keys)?;
            check()?;
            worker.table.append(other.table, &translate);
        }
        worker.compact(plan, self.first_compaction)
    }

    /// Begins parts of keys, if there are no rows yet and keys seem to be many.
    fn spread_out(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let is_first = matches!(&self.held, Held::Slices(worker) if worker.keys.is_empty());
        let (plan, rows) = (&self.plan, batches.iter().map(RecordBatch::num_rows).sum());
        // Those of another schema are refused as they are read.
        let fit = batches.iter().all(|batch| batch.num_columns() == plan.input().fields().len());
        let keys = batches.iter().map(|batch| of_keys(Timed::whole(plan, batch).keys()?, batch.num_rows()));
        if is_first && fit && self.spreading.is_worthwhile(rows, keys)? {
            let first = self.first_compaction / PARTS;
            let workers = (0..PARTS).map(|_| Worker::new(&self.plan, first));
            self.held = Held::Parts(workers.collect::<Result<_>>()?);
        }
        Ok(())
    }

    /// What is held of the rows, all keys together.
    ///
    /// # Errors
    /// `InvalidValue` where rows are held.
    fn whole(&mut self) -> Result<&mut Worker> {
        if let Held::Parts(workers) = &mut self.held {
            let mut whole = Worker::new(&self.plan, self.first_compaction)?;
            for part in std::mem::take(workers) {
                check()?;
                let translate = whole.keys.absorb(&part.keys)?;
                whole.table.append(part.table, &translate);
            }
            self.held = Held::Slices(Box::new(whole));
        }
        match &mut self.held {
            Held::Slices(worker) => Ok(worker),
            Held::Parts(_) | Held::Rows(_) => Err(Error::InvalidValue(
                "slices: a window of the query needs rows in order, which slices do not keep; push rows instead".into(),
            )),
        }
    }

    /// Takes in slices: keys, start, with sessions last, then each partial's state columns.
    pub fn push_slices(&mut self, batch: &RecordBatch) -> Result<()> {
        let (plan, first) = (&self.plan.clone(), self.first_compaction);
        let worker = self.whole()?;
        worker.table.check_room(batch.num_rows())?;
        let mut columns = batch.columns().iter();
        let keys: Vec<ArrayRef> = columns.by_ref().take(plan.by().len()).cloned().collect();
        let mut time = |what: &str| match columns.next() {
            Some(column) if column.null_count() == 0 => plan.measure().read(column),
            Some(_) => Err(Error::InvalidValue(format!(
                "slices: column '{what}' holds nulls; every slice has a time"
            ))),
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
        let Worker { keys: index, table, ids, .. } = worker;
        ids.clear();
        index.assign(&keys, batch.num_rows(), ids)?;
        table.push_slices(ids, &starts, lasts.as_deref(), &states)?;
        worker.compact(plan, first)
    }

    /// Takes in slices that [`Bounded::slices`] of the same query returned.
    ///
    /// # Errors
    /// `InvalidValue` if the columns are not those of this query's slices.
    pub fn push_own_slices(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.slice_types.is_empty() {
            self.slice_types = buckets::types(&*buckets::schema(&self.plan)?);
        }
        buckets::check_types(batch, &self.slice_types)?;
        self.push_slices(batch)
    }

    /// Slots that are open: slices, some of them more than once if rows came out of order.
    pub fn slots(&self) -> usize {
        self.workers().iter().map(|worker| worker.table.len()).sum()
    }

    /// Bytes held by keys, slots and their partials; 0 where rows are stored instead. Buffers that values share with the
    /// batches that brought them are counted in full.
    pub fn bytes(&self) -> usize {
        self.workers().iter().map(|worker| worker.keys.bytes() + worker.table.bytes()).sum()
    }

    /// What holds slices.
    fn workers(&self) -> &[Worker] {
        match &self.held {
            Held::Slices(worker) => std::slice::from_ref(worker),
            Held::Parts(workers) => workers,
            Held::Rows(_) => &[],
        }
    }

    /// Returns the slices of what was pushed and starts over: one batch per non-empty bucket of keys, sorted by key and
    /// time. Columns: keys, start (with sessions the first time), with sessions the last time, then the state of each
    /// partial.
    ///
    /// # Errors
    /// `InvalidValue` without buckets, or where windows need rows in order; `Overflow` where a partial does not fit the
    /// columns of its state.
    pub fn slices(&mut self, buckets: u32) -> Result<Vec<(u32, RecordBatch)>> {
        let none = Worker::new(&self.plan, self.first_compaction)?;
        let Worker { keys, table, .. } = std::mem::replace(self.whole()?, none);
        buckets::split_slices(&self.plan, &keys, table, buckets)
    }

    /// All windows of what was pushed.
    pub fn finish(self) -> Result<Output> {
        match self.held {
            Held::Slices(worker) => Output::new(self.plan, vec![(worker.keys, worker.table)]),
            Held::Parts(workers) => Output::new(
                self.plan,
                workers.into_iter().map(|worker| (worker.keys, worker.table)).collect(),
            ),
            Held::Rows(gathered) => {
                let (keys, rows, order) = gathered.finish()?;
                Output::of_rows(self.plan, keys.values()?, rows, order)
            }
        }
    }
}

impl Worker {
    fn new(plan: &Plan, compact_at: usize) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        Ok(Self {
            keys: KeyIndex::new(types.collect())?,
            slicer: Slicer::new(plan.edges().clone()),
            table: SliceTable::new(plan.empty_partials()?, plan.edges().gap().is_some()),
            ids: Vec::new(),
            slots: Vec::new(),
            compact_at,
        })
    }

    /// Merges the slots of each slice once their number has doubled, from `first` of them on, so that memory is
    /// proportional to slices, not rows, in any order.
    fn compact(&mut self, plan: &Plan, first: usize) -> Result<()> {
        let Self { keys, slicer, table, .. } = self;
        if table.len() < self.compact_at {
            return Ok(());
        }
        let all = table.take();
        let order = all.order_by_key(keys.len(), check)?;
        *table = all.regroup(&order, (0, keys.len()), plan.edges(), check)?;
        slicer.reset();
        self.compact_at = first.max(2 * table.len());
        Ok(())
    }

    fn push(&mut self, plan: &Plan, batch: &RecordBatch) -> Result<()> {
        let columns = Columns::of(plan, plan.partials(), batch)?;
        for from in (0..columns.times.len()).step_by(CHUNK_ROWS) {
            if from > 0 {
                check()?;
            }
            let rows = CHUNK_ROWS.min(columns.times.len() - from);
            let chunk = columns.slice(from, rows);
            self.ids.clear();
            self.keys.assign(&chunk.keys, rows, &mut self.ids)?;
            self.slicer
                .assign(&chunk.times, &self.ids, self.keys.len(), &mut self.table, &mut self.slots)
                .map_err(|t| out_of_bounds(plan, t))?;
            self.table.update(&chunk.inputs, Rows::all(&self.slots, &chunk.times), check)?;
        }
        Ok(())
    }
}

impl Columns {
    /// What `plan` reads of its keys and times, and what `partials` do.
    pub(crate) fn of(plan: &Plan, partials: &[Stored], batch: &RecordBatch) -> Result<Self> {
        let batch = Timed::of(plan, batch)?;
        let inputs = partials.iter().map(|stored| stored.input(|position| batch.column(position)));
        Ok(Self { keys: batch.keys()?, times: batch.times()?, inputs: inputs.collect::<Result<_>>()? })
    }

    /// These columns where each row stands for `weight` rows, if `partials` are of a sample.
    pub(crate) fn weighed(mut self, partials: &[Stored], weight: f64) -> Result<Self> {
        let rows = self.times.len();
        for (input, stored) in self.inputs.iter_mut().zip(partials) {
            stored.weigh(input, rows, weight)?;
        }
        Ok(self)
    }

    /// The columns of `rows` rows from row `from`.
    pub(crate) fn slice(&self, from: usize, rows: usize) -> Self {
        Self {
            keys: self.keys.iter().map(|key| key.slice(from, rows)).collect(),
            times: self.times.slice(from, rows),
            inputs: self.inputs.iter().map(|input| input.slice(from, rows)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{AggregateSpec, Length, WindowKind, WindowSpec};
    use crate::window::{Partial, Session, Sliding};
    use arrow_array::{Int64Array, StringArray, cast::AsArray, types::Int64Type};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Rows = Vec<(i64, i64, i64)>;
    /// Window number, key, start, end; then sum, min, first value and count.
    type Windows = BTreeMap<(usize, i64, i64, i64), [i64; 4]>;

    fn windows() -> Vec<WindowSpec> {
        let units = Length::Units;
        let sliding = WindowKind::Sliding {
            size: units(10),
            slide: units(3),
            start_time: Some(units(1)),
            partial: Partial::NONE,
        };
        let tumbling = WindowKind::Tumbling { size: units(8), start_time: None, partial: Partial::NONE };
        let session = WindowKind::Session { gap: units(4) };
        let named = [("0", sliding), ("1", tumbling), ("2", session)];
        named.into_iter().map(|(name, kind)| WindowSpec { name: name.into(), kind }).collect()
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

    /// Whether keys are spread over parts, whatever they are, or never.
    fn spreading(always: bool) -> Spreading {
        if always { Spreading::ALWAYS } else { Spreading::DEFAULT }
    }

    fn run(rows: &Rows, batch_rows: usize, threads: usize, compaction: usize, spread: bool) -> Windows {
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
        (bounded.first_compaction, bounded.spreading) = (compaction, spreading(spread));
        if let Held::Slices(worker) = &mut bounded.held {
            worker.compact_at = compaction;
        }
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
            batch_rows in 1usize..30, compaction in 4usize..64, spread: bool,
        ) {
            prop_assert_eq!(run(&rows, batch_rows, 1, compaction, spread), oracle(&rows));
        }
    }

    proptest! {
        /// Slices of parts are those of all keys; more rows and slices may come after them.
        #[test]
        fn parts_are_one_before_they_are_split(
            rows in prop::collection::vec((0i64..9, -40i64..40, -9i64..9), 1..80), buckets in 1u32..5,
        ) {
            let slices = |spread: bool| {
                let columns = |at: fn(&(i64, i64, i64)) -> i64| column(rows.iter().map(at));
                let columns = [("k", columns(|row| row.0)), ("t", columns(|row| row.1)), ("v", columns(|row| row.2))];
                let batch = RecordBatch::try_from_iter(columns).unwrap();
                let aggregates = vec![AggregateSpec::new("sum", &["v"], "sum")];
                let plan =
                    Plan::new(batch.schema(), vec!["k".into()], "t".into(), windows(), aggregates).unwrap();
                let mut bounded = Bounded::new(Arc::new(plan)).unwrap();
                bounded.spreading = spreading(spread);
                bounded.push(std::slice::from_ref(&batch), 2).unwrap();
                let made = bounded.slices(buckets).unwrap();
                for (_, batch) in &made {
                    bounded.push_own_slices(batch).unwrap();
                }
                bounded.push(&[batch], 1).unwrap();
                (bounded.slots(), made, bounded.slices(buckets).unwrap())
            };
            let key = |batch: &RecordBatch, row: usize| {
                [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>().value(row))
            };
            let sorted = |parts: Vec<(u32, RecordBatch)>| -> BTreeMap<_, _> {
                let rows = parts.iter().flat_map(|(part, batch)| {
                    (0..batch.num_rows()).map(move |row| ((*part, key(batch, row)), batch.slice(row, 1)))
                });
                rows.collect()
            };
            let (one, other) = (slices(false), slices(true));
            prop_assert_eq!(sorted(one.1), sorted(other.1));
            prop_assert_eq!(sorted(one.2), sorted(other.2));
        }
    }

    #[test]
    fn keys_are_spread_where_they_are_many() {
        let batch = |rows: i64, key: &dyn Fn(i64) -> i64| {
            let columns = [("k", column((0..rows).map(key))), ("t", column(0..rows)), ("v", column(0..rows))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let aggregates = vec![AggregateSpec::new("sum", &["v"], "sum")];
        let plan =
            Plan::new(batch(1, &|row| row).schema(), vec!["k".into()], "t".into(), windows(), aggregates)
                .unwrap();
        let plan = Arc::new(plan);
        let is_spread = |batch: RecordBatch| {
            let mut bounded = Bounded::new(plan.clone()).unwrap();
            bounded.push(&[batch], 2).unwrap();
            matches!(bounded.held, Held::Parts(_))
        };
        let (rows, many) = (Spreading::DEFAULT.rows as i64, Spreading::DEFAULT.keys as i64);
        let of = |key: &dyn Fn(i64) -> i64| is_spread(batch(rows, key));
        assert!(of(&|row| row % (2 * many)));
        assert!(!of(&|row| row % (many / 4)));
        assert!(!is_spread(batch(rows - 1, &|row| row)));
        // Few keys at first; each row twice in a row; half of the rows of one key, or nearly all.
        assert!(of(&|row| if row < rows / 4 { row % 3 } else { row }));
        assert!(of(&|row| row / 2));
        assert!(of(&|row| if row % 5 < 2 { -1 } else { row }));
        assert!(!of(&|row| if row % 5 > 0 { -1 } else { row }));
    }

    #[test]
    fn bytes_are_those_of_what_is_held() {
        let texts = |from: i64| -> ArrayRef {
            Arc::new(StringArray::from_iter_values((from..from + 1000).map(|n| format!("{n:>1000}"))))
        };
        let batch = |from: i64| {
            let columns = [("k", column(0..1000)), ("t", column(from..from + 1000)), ("v", texts(from))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let windows = windows().into_iter().take(1).collect();
        let aggregates = vec![AggregateSpec::new("max", &["v"], "max")];
        let plan = Plan::new(batch(0).schema(), vec!["k".into()], "t".into(), windows, aggregates).unwrap();
        let mut bounded = Bounded::new(Arc::new(plan)).unwrap();
        let empty = bounded.bytes();
        for pushed in 1..4 {
            bounded.push(&[batch(1000 * pushed as i64)], 1).unwrap();
            let least = 1_000_000 * pushed;
            assert!((least..2 * least).contains(&bounded.bytes()), "{} of {pushed} MB", bounded.bytes());
        }
        bounded.slices(4).unwrap();
        assert_eq!(bounded.bytes(), empty);
    }

    /// Enough rows that several threads take part, in order and in disorder.
    #[test]
    fn threads_do_not_change_results() {
        let noise = |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 40;
        let in_order: Rows = (0..150_000).map(|i| (noise(i) & 15, i / 200, noise(i + 1) % 1000)).collect();
        let disorder: Rows = in_order.iter().map(|row| (row.0, (row.1 * 379) % 751, row.2)).collect();
        for rows in [in_order, disorder] {
            let one = run(&rows, 50_000, 1, FIRST_COMPACTION, false);
            for spread in [false, true] {
                assert_eq!(run(&rows, 50_000, 3, FIRST_COMPACTION, spread), one);
                assert_eq!(run(&rows, 1_000, 2, 5_000, spread), one);
            }
            assert_eq!(one, oracle(&rows));
        }
    }
}
