//! Windows out of slices, batch by batch: the window manager of bounded input (Traub et al. 2019, §5.3.3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::take::take;

use super::plan::{Plan, extent_fields};
use crate::Result;
use crate::aggregate::Partials;
use crate::kernels::Ranges;
use crate::keys::KeyIndex;
use crate::slice::{KeyOrder, SliceTable, order_by_key};
use crate::window::{Session, Sliding, Window};

/// Rows in a batch of results, at most: what crosses a boundary fastest.
pub const BATCH_ROWS: usize = 65_536;

/// How a result carries its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One column, a struct of start and end.
    Struct,
    /// Two columns, `window_start` and `window_end`.
    Flat,
    /// One column, `window_start`, for windows of one size.
    Start,
}

/// Every window of the rows that were pushed, computed a block of keys at a time.
pub struct Output {
    plan: Arc<Plan>,
    layout: Layout,
    schema: SchemaRef,
    keys: Vec<ArrayRef>,
    table: SliceTable,
    order: KeyOrder,
    /// Keys `blocks[i]..blocks[i + 1]` are one block.
    blocks: Vec<usize>,
    next_block: usize,
    ready: VecDeque<RecordBatch>,
}

/// Windows on their way out, as columns.
struct Windows {
    keys: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    ranges: Ranges,
}

impl Output {
    pub(super) fn new(plan: Arc<Plan>, keys: KeyIndex, table: SliceTable, layout: Layout) -> Result<Self> {
        let order = order_by_key(table.keys(), keys.len());
        let blocks = blocks(&plan, &order);
        let schema = schema(&plan, layout);
        let keys = keys.values()?;
        Ok(Self { plan, layout, schema, keys, table, order, blocks, next_block: 0, ready: VecDeque::new() })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All batches at once, on up to `threads` threads.
    pub fn collect(self, threads: usize) -> Result<Vec<RecordBatch>> {
        let blocks = self.blocks.len() - 1;
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, Vec<RecordBatch>)>> {
            let mut done = Vec::new();
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return Ok(done);
                }
                done.push((block, self.block(block)?));
            }
        };
        let threads = threads.clamp(1, blocks.max(1));
        let mut done = thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work()?;
            for helper in helpers {
                all.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Result::Ok(all)
        })?;
        done.sort_unstable_by_key(|&(block, _)| block);
        Ok(done.into_iter().flat_map(|(_, batches)| batches).collect())
    }

    /// The windows of one block of keys.
    fn block(&self, block: usize) -> Result<Vec<RecordBatch>> {
        let (from, to) = (self.blocks[block], self.blocks[block + 1]);
        let slices = self.table.regroup(&self.order, from, to, self.plan.edges());
        let mut batches = Vec::new();
        for (name, window) in self.plan.windows() {
            let mut flush = |windows: &mut Windows| {
                batches.push(self.batch(name, &slices, windows)?);
                windows.clear();
                Ok(())
            };
            match window {
                Window::Sliding(sliding) => sliding_windows(sliding, &slices, &mut flush)?,
                Window::Session(session) => sessions(session, &slices, &mut flush)?,
            }
        }
        Ok(batches)
    }

    /// A batch of results for these windows over these slices.
    fn batch(&self, name: &str, slices: &SliceTable, windows: &mut Windows) -> Result<RecordBatch> {
        let rows = windows.keys.len();
        let ids = UInt32Array::from(std::mem::take(&mut windows.keys));
        let mut columns: Vec<ArrayRef> =
            self.keys.iter().map(|key| take(key, &ids, None)).collect::<std::result::Result<_, _>>()?;
        if self.plan.windows().len() > 1 {
            columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows))));
        }
        let measure = self.plan.measure();
        let starts = measure.array(std::mem::take(&mut windows.starts))?;
        let ends = measure.array(std::mem::take(&mut windows.ends))?;
        match self.layout {
            Layout::Struct => {
                columns.push(Arc::new(StructArray::try_new(
                    extent_fields(measure),
                    vec![starts, ends],
                    None,
                )?));
            }
            Layout::Flat => columns.extend([starts, ends]),
            Layout::Start => columns.push(starts),
        }
        let answers: Vec<Box<dyn Partials>> =
            slices.partials().iter().map(|partials| partials.answer(&windows.ranges)).collect();
        for aggregate in self.plan.aggregates() {
            let own: Vec<&dyn Partials> = aggregate.partials.iter().map(|&i| answers[i].as_ref()).collect();
            columns.push(aggregate.function.lower(&own, &aggregate.input)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

impl Iterator for Output {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.next_block + 1 < self.blocks.len() {
            match self.block(self.next_block) {
                Ok(batches) => self.ready.extend(batches),
                Err(error) => {
                    self.next_block = self.blocks.len();
                    return Some(Err(error));
                }
            }
            self.next_block += 1;
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Windows {
    fn new() -> Self {
        let room = || Vec::with_capacity(BATCH_ROWS);
        Self { keys: room_u32(), starts: room(), ends: room(), ranges: Ranges::with_capacity(BATCH_ROWS) }
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    #[inline]
    fn push(&mut self, key: u32, extent: (i64, i64), lo: usize, hi: usize) -> bool {
        self.keys.push(key);
        self.starts.push(extent.0);
        self.ends.push(extent.1);
        self.ranges.push(lo as u32, hi as u32);
        self.keys.len() == BATCH_ROWS
    }
}

fn room_u32() -> Vec<u32> {
    Vec::with_capacity(BATCH_ROWS)
}

/// Runs of one key: `(key, from, to)`.
fn runs(keys: &[u32]) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let &key = keys.get(from)?;
        let to = keys[from..].iter().position(|&k| k != key).map_or(keys.len(), |len| from + len);
        let run = (key, from, to);
        from = to;
        Some(run)
    })
}

/// Every window with at least one slice, key by key, in the order of time. O(slices + windows).
fn sliding_windows(
    sliding: &Sliding,
    slices: &SliceTable,
    flush: &mut impl FnMut(&mut Windows) -> Result<()>,
) -> Result<()> {
    let starts = slices.starts();
    let mut windows = Windows::new();
    for (key, from, to) in runs(slices.keys()) {
        let (mut lo, mut hi) = (from, from);
        let mut start = sliding.first_covering(starts[from]);
        loop {
            let extent = sliding.extent(start);
            while lo < to && starts[lo] < extent.0 {
                lo += 1;
            }
            if lo == to {
                break;
            }
            while hi < to && starts[hi] < extent.1 {
                hi += 1;
            }
            if lo == hi {
                // Nothing in this window: on to the first that has something.
                start = sliding.first_covering(starts[lo]);
                continue;
            }
            if windows.push(key, extent, lo, hi) {
                flush(&mut windows)?;
            }
            start += sliding.slide();
        }
    }
    if windows.keys.is_empty() { Ok(()) } else { flush(&mut windows) }
}

/// Every session: fragments that come within the gap of each other are one.
fn sessions(
    session: &Session,
    slices: &SliceTable,
    flush: &mut impl FnMut(&mut Windows) -> Result<()>,
) -> Result<()> {
    let starts = slices.starts();
    let lasts = slices.lasts().expect("a plan with sessions keeps last times");
    let mut windows = Windows::new();
    for (key, from, to) in runs(slices.keys()) {
        let mut lo = from;
        while lo < to {
            let (mut hi, mut last) = (lo + 1, lasts[lo]);
            while hi < to && session.joins(last, starts[hi]) {
                last = last.max(lasts[hi]);
                hi += 1;
            }
            if windows.push(key, session.extent(starts[lo], last), lo, hi) {
                flush(&mut windows)?;
            }
            lo = hi;
        }
    }
    if windows.keys.is_empty() { Ok(()) } else { flush(&mut windows) }
}

/// Blocks of keys: some batches of results each, so that memory stays small and threads find enough of them.
fn blocks(plan: &Plan, order: &KeyOrder) -> Vec<usize> {
    let overlap: i64 = plan
        .windows()
        .iter()
        .map(|(_, window)| match window {
            Window::Sliding(sliding) => sliding.size() / sliding.slide(),
            Window::Session(_) => 1,
        })
        .sum();
    let slots = (4 * BATCH_ROWS as i64 / overlap.max(1)).clamp(1024, BATCH_ROWS as i64) as usize;
    let keys = order.bounds.len() - 1;
    let mut blocks = vec![0];
    for key in 0..keys {
        if order.bounds[key + 1] - order.bounds[*blocks.last().expect("begins with 0")] >= slots
            || key + 1 == keys
        {
            blocks.push(key + 1);
        }
    }
    blocks
}

fn schema(plan: &Plan, layout: Layout) -> SchemaRef {
    let measure = plan.measure();
    let at = plan.by().len() + usize::from(plan.windows().len() > 1);
    let edge = |name: &str| Field::new(name, measure.data_type(), false);
    let window = match layout {
        Layout::Struct => return plan.output().clone(),
        Layout::Flat => vec![edge("window_start"), edge("window_end")],
        Layout::Start => vec![edge("window_start")],
    };
    let fields = plan.output().fields();
    let all: Vec<Field> = fields[..at]
        .iter()
        .map(|field| field.as_ref().clone())
        .chain(window)
        .chain(fields[at + 1..].iter().map(|field| field.as_ref().clone()))
        .collect();
    Arc::new(Schema::new(all))
}
