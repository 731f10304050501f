//! Aggregates over frames: for every row, those of the rows around it.
//!
//! | | |
//! |---|---|
//! | needs | all rows, in any order |
//! | time | O(rows) to order them by key, O(n log n) where a key's rows are out of order; then what the aggregates take per window, O(1) amortised or, for those that hold all values, O(log n) |
//! | space | the input columns that are read, unchanged; rows in order and their partials of one block of keys; the results twice, while they are put into the order of the input |
//! | first appeared | window functions of SQL:2003; computed by sliding: Wesley and Xu, *Incremental Computation of Common Windowed Holistic Aggregates*, VLDB 2016 |
//!
//! A frame is a window of one row, and so a range of the rows of its key in order: each row is a slice of its own, and
//! the kernels that compute windows from slices compute frames. All frames share one sort, and each distinct partial is
//! computed once per distinct frame.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::interleave::interleave;

use super::gathered::{Gathered, InOrder, Ordered};
use super::length::length;
use super::output::{BATCH_BYTES, BATCH_ROWS, Size, bytes, cut, varies};
use super::parts::each;
use super::plan::{AggregateSpec, Plan};
use super::window_spec::Length;
use crate::aggregate::{Partials, TIMELESS};
use crate::interrupt::{Pace, check, within};
use crate::kernels::{Closed, Ranges, RowFrame, Unit};
use crate::slice::KeyOrder;
use crate::window::Measure;
use crate::{Error, Result};

/// A frame as a query states it: how far it reaches before a row and after it, `None` without a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameSpec {
    /// Whether lengths are numbers of rows.
    pub unit: Unit,
    /// How far it reaches back.
    pub before: Option<Length>,
    /// How far it reaches ahead.
    pub after: Option<Length>,
    /// Whether it includes its ends.
    pub closed: Closed,
}

/// Aggregates over frames, bound to a schema.
pub struct Rolling {
    plan: Arc<Plan>,
    /// The distinct frames.
    frames: Vec<RowFrame>,
    /// The frame of each aggregate.
    of: Vec<usize>,
    /// The schema of the aggregates alone.
    results: SchemaRef,
    /// Whether some results are of variable size.
    varies: bool,
}

/// Rows for a [`Rolling`], as they come.
pub struct RollingRows {
    rolling: Arc<Rolling>,
    gathered: Gathered,
}

/// The results of a block of keys.
#[derive(Default)]
struct Answered {
    /// The numbers of its rows, in the order of the results.
    rows: Vec<u32>,
    /// The columns of the results, some rows after the other.
    chunks: Vec<Vec<ArrayRef>>,
}

impl Rolling {
    /// Binds aggregates over frames to a schema.
    ///
    /// # Errors
    /// Those of [`Plan::of_rows`]; `InvalidType` or `InvalidValue` if a length does not fit the time column.
    pub fn new(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        aggregates: Vec<(AggregateSpec, FrameSpec)>,
    ) -> Result<Self> {
        let (aggregates, specs): (Vec<AggregateSpec>, Vec<FrameSpec>) = aggregates.into_iter().unzip();
        let names: Vec<String> = aggregates.iter().map(|aggregate| aggregate.name.clone()).collect();
        let plan = Plan::of_rows(input, by, time, aggregates)?;
        let mut frames = Vec::new();
        let mut of = Vec::with_capacity(specs.len());
        for (spec, name) in specs.iter().zip(&names) {
            let frame = spec.bind(name, plan.measure())?;
            of.push(frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
                frames.push(frame);
                frames.len() - 1
            }));
        }
        let fields = &plan.output().fields()[plan.input().fields().len()..];
        let results = Arc::new(Schema::new(fields.to_vec()));
        let varies = fields.iter().any(|field| varies(field.data_type()));
        Ok(Self { plan: Arc::new(plan), frames, of, results, varies })
    }

    /// The aggregates; its output schema is that of the input with the results.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The schema of the batches of [`RollingRows::finish`].
    pub fn results(&self) -> &SchemaRef {
        &self.results
    }

    /// The results of keys `from..to`, in the order of keys and times.
    fn answer(&self, ordered: &Ordered, order: &KeyOrder, from: usize, to: usize) -> Result<Answered> {
        let InOrder { ends, times, rows } = ordered.sorted(order, from, to);
        // Each row is its own slice, and its own group: the partials themselves sort their contents.
        let slots: Vec<u32> = (0..rows.len() as u32).collect();
        let (partials, _) = ordered.fold(&rows, &slots, &times)?;
        let partials = partials.iter().map(|partials| partials.regroup(&slots, &slots));
        let partials = partials.collect::<Result<Vec<_>>>()?;
        let ranges = self.ranges(&ends, &times);
        let (mut chunks, mut size, mut done) = (Vec::new(), Size::new(), 0);
        while done < rows.len() {
            check()?;
            let count = if self.varies { size.rows().min(rows.len() - done) } else { rows.len() };
            match self.columns(&partials, &ranges, done..done + count) {
                Ok(columns) => {
                    size.follow(count, bytes(&columns));
                    chunks.push(columns);
                    done += count;
                }
                Err(Error::Overflow(_)) if self.varies && count > 1 => size.halve(count),
                Err(error) => return Err(error),
            }
        }
        Ok(Answered { rows, chunks })
    }

    /// The rows of each frame of each row.
    fn ranges(&self, ends: &[usize], times: &[i64]) -> Vec<Ranges> {
        let mut pace = Pace::new();
        let frames = self.frames.iter().map(|frame| {
            let mut ranges = Ranges::with_capacity(times.len());
            for own in ends.windows(2) {
                pace.tick(own[1] - own[0]);
                let timeless = times[own[0]..own[1]].partition_point(|&time| time == TIMELESS);
                frame.list(times, own[0]..own[1], timeless, &mut ranges);
            }
            ranges
        });
        frames.collect()
    }

    /// The aggregates of some rows, from partials of all.
    fn columns(
        &self,
        partials: &[Box<dyn Partials>],
        ranges: &[Ranges],
        rows: Range<usize>,
    ) -> Result<Vec<ArrayRef>> {
        let all = rows.len() == ranges.first().map_or(0, Ranges::len);
        let parts: Vec<Ranges> =
            if all { Vec::new() } else { ranges.iter().map(|ranges| ranges.part(rows.clone())).collect() };
        let ranges = if all { ranges } else { &parts };
        let mut answers: Vec<Option<Box<dyn Partials>>> = Vec::new();
        answers.resize_with(partials.len() * self.frames.len(), || None);
        let place = |frame: usize, partial: usize| frame * partials.len() + partial;
        for (aggregate, &frame) in self.plan.aggregates().iter().zip(&self.of) {
            for &partial in &aggregate.partials {
                let answer = &mut answers[place(frame, partial)];
                if answer.is_none() {
                    *answer = Some(partials[partial].answer(&ranges[frame])?);
                }
            }
        }
        let lowered = self.plan.aggregates().iter().zip(&self.of).map(|(aggregate, &frame)| {
            let own =
                aggregate.partials.iter().filter_map(|&partial| answers[place(frame, partial)].as_deref());
            aggregate.lower(&own.collect::<Vec<_>>(), self.plan.time_type())
        });
        lowered.collect()
    }
}

impl FrameSpec {
    fn bind(&self, name: &str, measure: &Measure) -> Result<RowFrame> {
        let bind = |reach: Option<Length>| {
            let reach = reach.map(|reach| match (self.unit, reach) {
                (Unit::Rows, Length::Rows(count)) => u64::try_from(count).map_err(|_| {
                    Error::InvalidValue(format!("aggs: {name}: a frame of {count} rows; expected 0 or more"))
                }),
                (Unit::Time, Length::Nanoseconds(count)) => bound(name, measure, count, true),
                (Unit::Time, Length::Units(count)) => bound(name, measure, count, false),
                _ => Err(Error::InvalidType(format!(
                    "aggs: {name}: a frame by rows and by time; allowed are two lengths of one kind"
                ))),
            });
            reach.transpose()
        };
        let (before, after) = (bind(self.before)?, bind(self.after)?);
        Ok(RowFrame { unit: self.unit, before, after, closed: self.closed })
    }
}

/// A length of time in units of the measure.
fn bound(name: &str, measure: &Measure, count: i128, is_time: bool) -> Result<u64> {
    length(measure, &format!("aggs: the frame of {name}"), count, is_time).map(|length| length as u64)
}

impl RollingRows {
    /// No rows.
    pub fn new(rolling: Arc<Rolling>) -> Result<Self> {
        Ok(Self { gathered: Gathered::new(rolling.plan.clone())?, rolling })
    }

    /// Adds rows, on up to `threads` threads.
    ///
    /// # Errors
    /// `InvalidType` or `InvalidValue` for a batch that the aggregates were not bound to; `Overflow` for a time at the
    /// limit of int64.
    pub fn push(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        // To read integer keys takes less time than to join the columns of several threads again.
        let plan = &self.rolling.plan;
        let is_quick = |&column: &usize| plan.input().field(column).data_type().is_integer();
        self.gathered.push(batches, if plan.by().iter().all(is_quick) { 1 } else { threads })
    }

    /// The aggregates of every row, in the order in which rows were pushed, computed on up to `threads` threads.
    ///
    /// # Errors
    /// `Overflow` if a result does not fit its type; those of users' own functions.
    pub fn finish(self, threads: usize) -> Result<Vec<RecordBatch>> {
        let Self { rolling, gathered } = self;
        let (_, ordered, order) = gathered.finish()?;
        let blocks = cut(&order, BATCH_ROWS);
        let mut answered: Vec<Answered> = Vec::new();
        answered.resize_with(blocks.len() - 1, Answered::default);
        let work = blocks.windows(2).zip(&mut answered).collect();
        each(work, threads, |(keys, answered)| {
            *answered = within(|| rolling.answer(&ordered, &order, keys[0], keys[1]))?;
            Ok(())
        })?;
        drop((ordered, order));
        rolling.put_back(answered, threads)
    }
}

impl Rolling {
    /// The results in the order of the rows' numbers.
    fn put_back(&self, answered: Vec<Answered>, threads: usize) -> Result<Vec<RecordBatch>> {
        let count = answered.iter().map(|answered| answered.rows.len()).sum();
        // The chunk of each row, and its place there.
        let mut places = vec![(0u32, 0u32); count];
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.results.fields().len()];
        let mut sizes = Vec::new();
        for Answered { rows, chunks } in answered {
            check()?;
            let mut rows = rows.into_iter();
            for chunk in chunks {
                let len = chunk[0].len();
                for (at, row) in rows.by_ref().take(len).enumerate() {
                    places[row as usize] = (sizes.len() as u32, at as u32);
                }
                sizes.push(bytes(&chunk) / len);
                columns.iter_mut().zip(chunk).for_each(|(column, chunk)| column.push(chunk));
            }
        }
        let parts = self.parts(&places, &sizes);
        let mut batches: Vec<Vec<RecordBatch>> = vec![Vec::new(); parts.len()];
        let work = parts.into_iter().zip(&mut batches).collect();
        each(work, threads, |(part, batches)| self.put_in(&columns, &places[part], batches))?;
        Ok(batches.into_iter().flatten().collect())
    }

    /// Rows in parts of about as many as a batch has, where a row of each chunk has so many bytes.
    fn parts(&self, places: &[(u32, u32)], sizes: &[usize]) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut from, mut size) = (0, 0);
        for (row, &(chunk, _)) in places.iter().enumerate() {
            size += if self.varies { sizes[chunk as usize] } else { 0 };
            if row + 1 == places.len() || row + 1 - from == BATCH_ROWS || size >= BATCH_BYTES {
                parts.push(from..row + 1);
                (from, size) = (row + 1, 0);
            }
        }
        parts
    }

    /// Appends the results at these places, in one batch, or in more where they are larger than expected.
    fn put_in(
        &self,
        columns: &[Vec<ArrayRef>],
        places: &[(u32, u32)],
        batches: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        check()?;
        let each: Vec<(usize, usize)> =
            places.iter().map(|&(chunk, at)| (chunk as usize, at as usize)).collect();
        let placed = columns.iter().map(|chunks| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            Ok(interleave(&chunks, &each)?)
        });
        match placed.collect::<Result<Vec<ArrayRef>>>() {
            Ok(placed) => batches.push(RecordBatch::try_new(self.results.clone(), placed)?),
            Err(Error::Overflow(_)) if places.len() > 1 => {
                let (first, rest) = places.split_at(places.len() / 2);
                self.put_in(columns, first, batches)?;
                self.put_in(columns, rest, batches)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
