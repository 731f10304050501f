//! Windows out of slices, batch by batch: the window manager of bounded input (Traub et al. 2019, §5.3.3).

mod gaps;
mod limit;
mod listed;
mod ranked;
mod source;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt32Array,
    cast::AsArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;

use super::batching::{BATCH_ROWS, Size, bytes, cut, varies};
use super::gathered::Ordered;
use super::lowered::{Lowered, lowered};
use super::parts::{each, leave};
use super::plan::Plan;
use super::schema::{extent_fields, rank_fields};
use crate::aggregate::Partials;
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::select::{filter, filter_record_batch, take};
use crate::slice::{KeyOrder, SliceTable};
use crate::window::Window;
use crate::{Error, Result};
use gaps::{Gaps, Made};
use limit::Limit;
use listed::{Cursor, Windows};
use ranked::RankedLists;
use source::Source;

/// Blocks per thread of a round whose batches are all kept: enough that threads seldom wait for each other.
pub const BLOCKS_PER_ROUND: usize = 16;

/// Batches of each block that several threads compute before they are asked for: as many as most blocks have.
const AHEAD: usize = 4;

/// Every window of the rows pushed so far, computed one block of keys at a time, and batch by batch within a block.
pub struct Output {
    plan: Arc<Plan>,
    /// None once all of its blocks have been read.
    parts: Vec<Option<Part>>,
    /// Some keys of a part each: which part, the first of them and the one after the last.
    blocks: Vec<(usize, usize, usize)>,
    next_block: usize,
    limit: Limit,
    /// Whether answers or keys are of variable size.
    varies: bool,
    /// The blocks that are being read, those before `next_block`.
    begun: VecDeque<Begun>,
}

/// Some of the keys: all, or those of a part.
struct Part {
    keys: Vec<ArrayRef>,
    source: Source,
    order: KeyOrder,
}

/// A block of which some batches may have been computed.
struct Begun {
    number: usize,
    /// `None` before its first batch, and after its last.
    block: Option<Block>,
    /// Batches that were not asked for yet; an error is the last of them.
    ready: VecDeque<Result<RecordBatch>>,
    /// Whether it has no more batches.
    is_read: bool,
}

/// Some keys, and which of their windows have been emitted.
struct Block {
    part: usize,
    slices: SliceTable,
    /// The windows that are determined by rows, if the query has such.
    ranked: Option<RankedLists>,
    /// Which of the query's windows are being listed, and how far.
    window: usize,
    cursor: Cursor,
    /// The listed windows of one type, and how many of them have been emitted.
    listed: Option<(usize, Windows, usize)>,
    /// How many rows the next batch may have.
    size: Size,
    /// Which windows without rows come next, where these are filled.
    gaps: Gaps,
}

impl Output {
    /// The windows over slices, of parts of keys that have none in common.
    pub(super) fn new(plan: Arc<Plan>, parts: Vec<(KeyIndex, SliceTable)>) -> Result<Self> {
        let part = |(keys, table): (KeyIndex, SliceTable)| {
            let order = table.order_by_key(keys.len(), check)?;
            Ok(Part { keys: keys.values()?, source: Source::Slices(table), order })
        };
        Self::of(plan, parts.into_iter().map(part).collect::<Result<_>>()?)
    }

    /// The windows over rows, whose order by key is in `order`.
    pub(super) fn of_rows(
        plan: Arc<Plan>,
        keys: Vec<ArrayRef>,
        rows: Ordered,
        order: KeyOrder,
    ) -> Result<Self> {
        Self::of(plan, vec![Part { keys, source: Source::Rows(rows), order }])
    }

    fn of(plan: Arc<Plan>, parts: Vec<Part>) -> Result<Self> {
        let limit = Limit::of(&plan, parts.iter().map(|part| (&part.source, &part.order)))?;
        let blocks = parts.iter().enumerate().flat_map(|(number, part)| {
            let bounds = blocks(&plan, &part.order);
            bounds.windows(2).map(|bound| (number, bound[0], bound[1])).collect::<Vec<_>>()
        });
        let blocks = blocks.collect();
        let fields = plan.output().fields();
        let answers = &fields[fields.len() - plan.aggregates().len()..];
        let varies = fields[..plan.by().len()].iter().chain(answers).any(|field| varies(field.data_type()));
        let parts = parts.into_iter().map(Some).collect();
        Ok(Self { plan, parts, blocks, next_block: 0, limit, varies, begun: VecDeque::new() })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        self.plan.output()
    }

    /// The next batches, from up to `blocks` blocks of keys for each of `threads` threads.
    ///
    /// Batches come in the same order whatever the number of threads.
    pub fn next_round(&mut self, threads: usize, blocks: usize) -> Result<Vec<RecordBatch>> {
        self.compute(blocks.saturating_mul(threads.max(1)), usize::MAX, threads)?;
        std::mem::take(&mut self.begun).into_iter().flat_map(|begun| begun.ready).collect()
    }

    /// The next batch, if there is one. Each of several threads computes a block of keys, a few batches ahead.
    pub fn next_batch(&mut self, threads: usize) -> Result<Option<RecordBatch>> {
        loop {
            let first = self.begun.front_mut();
            match first.map(|first| (first.ready.pop_front(), first.is_read)) {
                Some((Some(Ok(batch)), _)) => return Ok(Some(batch)),
                Some((Some(Err(error)), _)) => {
                    self.begun.clear();
                    self.next_block = self.blocks.len();
                    return Err(error);
                }
                Some((None, true)) => {
                    self.begun.pop_front();
                }
                None if self.is_done() => return Ok(None),
                _ => self.compute(threads.max(1), if threads > 1 { AHEAD } else { 1 }, threads)?,
            }
        }
    }

    /// Begins blocks until there are `count`, and computes batches of all of them until `ahead` are ready.
    ///
    /// # Errors
    /// That of an interrupt, after which nothing is left; other errors are in the place of the batches that they concern.
    fn compute(&mut self, count: usize, ahead: usize, threads: usize) -> Result<()> {
        let mut begun = std::mem::take(&mut self.begun);
        while begun.len() < count && self.next_block < self.blocks.len() {
            let ready = VecDeque::new();
            begun.push_back(Begun { number: self.next_block, block: None, ready, is_read: false });
            self.next_block += 1;
        }
        let unread: Vec<&mut Begun> =
            begun.iter_mut().filter(|begun| !begun.is_read && begun.ready.len() < ahead).collect();
        let this = &*self;
        // Nothing is read after the first block that fails.
        let failed = AtomicUsize::new(usize::MAX);
        let own = each(unread, threads, |begun| {
            if begun.number < failed.load(Ordering::Relaxed) {
                this.read(begun, ahead);
            }
            match begun.ready.back() {
                Some(Err(error @ Error::Interrupted(_))) => return Err(error.clone()),
                Some(Err(_)) => _ = failed.fetch_min(begun.number, Ordering::Relaxed),
                _ => {}
            }
            Ok(())
        });
        if own.is_err() {
            self.next_block = self.blocks.len();
            return own;
        }
        // What is read is freed: results take its memory.
        let unread = begun.iter().find(|begun| !begun.is_read).map_or(self.next_block, |begun| begun.number);
        let needed = self.blocks.get(unread).map_or(self.parts.len(), |block| block.0);
        self.parts[..needed].fill_with(|| None);
        self.begun = begun;
        Ok(())
    }

    fn part(&self, part: usize) -> &Part {
        self.parts[part].as_ref().expect("some of its blocks are not read")
    }

    /// Computes batches of a block until `ahead` are ready, or there are no more.
    fn read(&self, begun: &mut Begun, ahead: usize) {
        let mut next = || {
            let block = match &mut begun.block {
                Some(block) => block,
                none => none.insert(self.block(begun.number)?),
            };
            self.batch_of(block)
        };
        while begun.ready.len() < ahead && !begun.is_read {
            let batch = next().transpose();
            begun.is_read = batch.as_ref().is_none_or(Result::is_err);
            begun.ready.extend(batch);
        }
        if begun.is_read {
            begun.block = None;
        }
    }

    /// All batches that are left, on up to `threads` threads.
    pub fn collect(mut self, threads: usize) -> Result<Vec<RecordBatch>> {
        let mut all = Vec::new();
        while !self.is_done() {
            match self.next_round(threads, BLOCKS_PER_ROUND) {
                Ok(more) => all.extend(more),
                Err(error) => {
                    leave(&error, (all, self));
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Whether every block of keys has been read.
    pub fn is_done(&self) -> bool {
        self.begun.is_empty() && self.next_block >= self.blocks.len()
    }

    /// A block of keys, its slices sorted and merged.
    fn block(&self, number: usize) -> Result<Block> {
        check()?;
        let (part, from, to) = self.blocks[number];
        let Part { source, order, .. } = self.part(part);
        let (slices, ranked) = match source {
            Source::Slices(table) => (table.regroup(order, (from, to), self.plan.edges(), check)?, None),
            Source::Rows(rows) => {
                let (slices, lists) = ranked::block(rows, order, from, to)?;
                for (window, count) in lists.counts() {
                    self.limit.add(&self.plan, window, count as u64)?;
                }
                (slices, Some(lists))
            }
        };
        Ok(Block {
            part,
            slices,
            ranked,
            window: 0,
            cursor: Cursor::default(),
            listed: None,
            size: Size::new(),
            gaps: Gaps::default(),
        })
    }

    /// The next batch of a block's windows, if there is one.
    fn batch_of(&self, block: &mut Block) -> Result<Option<RecordBatch>> {
        let Some(fill) = self.plan.fill() else { return Ok(self.computed(block)?.map(|made| made.batch)) };
        loop {
            check()?;
            if let Some(batch) = block.gaps.next(&self.plan, fill, self.varies)? {
                return Ok(Some(batch));
            }
            let Some(made) = self.computed(block)? else { return Ok(None) };
            block.gaps.add(&self.plan, made)?;
        }
    }

    /// The next batch of a block's windows with rows, if there is one: as many as `BATCH_BYTES` hold by those before.
    fn computed(&self, block: &mut Block) -> Result<Option<Made>> {
        if !self.varies {
            let Some((window, windows)) = self.listed(block) else { return Ok(None) };
            return self.batch(block, window, windows).map(Some);
        }
        if block.listed.is_none() {
            block.listed = self.listed(block).map(|(window, windows)| (window, windows, 0));
        }
        let Some((window, windows, from)) = block.listed.take() else { return Ok(None) };
        loop {
            let rows = block.size.rows().min(windows.keys.len() - from);
            match self.batch(block, window, windows.part(from, from + rows)) {
                Ok(made) => {
                    block.size.follow(rows, bytes(made.batch.columns()));
                    if from + rows < windows.keys.len() {
                        block.listed = Some((window, windows, from + rows));
                    }
                    return Ok(Some(made));
                }
                Err(Error::Overflow(_)) if rows > 1 => block.size.halve(rows),
                Err(error) => return Err(error),
            }
        }
    }

    /// Lists more windows of one type, as many as a batch has; returns which type, if any are left.
    fn listed(&self, block: &mut Block) -> Option<(usize, Windows)> {
        while let Some((_, window)) = self.plan.windows().get(block.window) {
            let windows = match (window.by_time(), &mut block.ranked) {
                (None, Some(lists)) => lists.next(block.window, BATCH_ROWS, self.plan.has_ranks()),
                (None, None) => None,
                (Some(window), _) => {
                    let most = block.slices.len().saturating_mul(window.windows_per_span() as usize);
                    let mut windows = Windows::with_capacity(BATCH_ROWS.min(most));
                    block.cursor.list(window, &block.slices, &mut windows);
                    Some(windows).filter(|windows| !windows.keys.is_empty())
                }
            };
            if let Some(windows) = windows {
                return Some((block.window, windows));
            }
            block.window += 1;
            block.cursor = Cursor::default();
        }
        None
    }

    /// A batch of results for windows of a block, which are of the type with this number.
    fn batch(&self, block: &Block, number: usize, windows: Windows) -> Result<Made> {
        check()?;
        let rows = windows.keys.len();
        let (name, window) = &self.plan.windows()[number];
        let keys = UInt32Array::from(windows.keys);
        let mut columns: Vec<ArrayRef> = self
            .part(block.part)
            .keys
            .iter()
            .map(|key| take(key, &keys, None))
            .collect::<std::result::Result<_, _>>()?;
        if self.plan.windows().len() > 1 {
            columns.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows))));
        }
        let measure = self.plan.extents();
        let starts = measure.array(windows.starts)?;
        let ends = measure.array(windows.ends)?;
        columns.push(Arc::new(StructArray::try_new(extent_fields(measure), vec![starts, ends], None)?));
        if self.plan.has_ranks() {
            columns.push(ranks(window, windows.ranks, rows)?);
        }
        let answers = block.slices.partials().iter().map(|partials| {
            check()?;
            partials.answer(&windows.ranges)
        });
        let answers: Vec<Box<dyn Partials>> = answers.collect::<Result<_>>()?;
        let answers: Vec<&dyn Partials> = answers.iter().map(AsRef::as_ref).collect();
        let Lowered { columns: own, rows: of_windows } = lowered(&self.plan, &answers)?;
        columns.extend(own);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema().clone(), columns, &options)?;
        let Some(rows) = of_windows else { return Ok(Made { window: number, keys, batch }) };
        let is_there = rows.iter().map(|&rows| Some(rows > 0)).collect();
        let keys = filter(&keys, &is_there)?.as_primitive().clone();
        Ok(Made { window: number, keys, batch: filter_record_batch(&batch, &is_there)? })
    }
}

impl Iterator for Output {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch(1).transpose()
    }
}

/// The column of the ranks of the windows' rows: null for windows that are not measured by rows.
fn ranks(window: &Window, (starts, ends): (Vec<i64>, Vec<i64>), rows: usize) -> Result<ArrayRef> {
    let (columns, nulls) = match window.is_ranked() {
        true => ([starts, ends], None),
        false => ([vec![0; rows], vec![0; rows]], Some(NullBuffer::new_null(rows))),
    };
    let columns = columns.map(|column| -> ArrayRef { Arc::new(Int64Array::from(column)) });
    Ok(Arc::new(StructArray::try_new(rank_fields(), columns.into(), nulls)?))
}

/// Blocks of keys, each giving a few batches of results: small enough to limit memory and many enough to occupy
/// threads.
fn blocks(plan: &Plan, order: &KeyOrder) -> Vec<usize> {
    // No type by rows has more windows than rows, unless a user's has.
    let per_span = |window: &Window| window.by_time().map_or(1, |rules| rules.windows_per_span());
    let windows = plan.windows().iter().map(|(_, window)| per_span(window)).fold(0, i64::saturating_add);
    cut(&[order], (4 * BATCH_ROWS as i64 / windows.max(1)).clamp(64, BATCH_ROWS as i64) as usize)
}
