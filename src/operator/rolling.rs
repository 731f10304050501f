//! Aggregates over frames: for every row, those of the rows around it, or of the rows before other rows.
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
//!
//! The rows that ask need not be those that are aggregated: labels ask for the aggregates of events at their times. They
//! are put in order by the same keys, and their frames are ranges of the events.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};

use super::batching::{BATCH_BYTES, BATCH_ROWS, Size, bytes, cut, in_parts, varies};
use super::gathered::{Gathered, InOrder, Ordered};
use super::length::length;
use super::parts::each;
use super::plan::{AggregateSpec, Plan};
use super::window_spec::Length;
use crate::aggregate::{Partials, TIMELESS};
use crate::interrupt::{Pace, check};
use crate::kernels::{Closed, Ranges, RowFrame, Unit};
use crate::select::interleave;
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
    /// It begins where `before` says or earlier, at a multiple of so much time.
    pub tail: Option<Length>,
    /// Whether it includes its ends.
    pub closed: Closed,
}

/// Aggregates over frames, bound to a schema.
pub struct Rolling {
    plan: Arc<Plan>,
    /// The plan of the rows that ask, if they are not those that are aggregated.
    labels: Option<Arc<Plan>>,
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
    labels: Option<Gathered>,
}

/// Rows, and their order by key.
type Sorted = (Ordered, KeyOrder);

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
    /// Errors of [`Plan::of_rows`]; `InvalidType` or `InvalidValue` if a length does not fit the time column.
    pub fn new(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        aggregates: Vec<(AggregateSpec, FrameSpec)>,
    ) -> Result<Self> {
        let (aggregates, specs): (Vec<AggregateSpec>, Vec<FrameSpec>) = aggregates.into_iter().unzip();
        let plan = Plan::of_rows(input, by, time, aggregates)?;
        let results = plan.output().fields()[plan.input().fields().len()..].to_vec();
        Self::bind(plan, None, &specs, Schema::new(results))
    }

    /// Binds aggregates of events, over frames of labels: rows with keys and times of their own, which are in no frame.
    /// A frame by time holds the events of a label's key around the time of the label; one by rows is that of the last
    /// event which is not after the label or, without its end, that of an event right before those at the label's time.
    /// Events without time are in no frame, and labels without time have empty ones.
    ///
    /// # Errors
    /// Errors of [`Rolling::new`] and [`Plan::of_labels`].
    pub fn at(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        aggregates: Vec<(AggregateSpec, FrameSpec)>,
        (labels, label_by, label_time): (SchemaRef, Vec<String>, String),
    ) -> Result<Self> {
        let (aggregates, specs): (Vec<AggregateSpec>, Vec<FrameSpec>) = aggregates.into_iter().unzip();
        let plan = Plan::of_events(input, by, time, aggregates)?;
        let labels = plan.of_labels(labels, label_by, label_time)?;
        let results = plan.output().as_ref().clone();
        Self::bind(plan, Some(Arc::new(labels)), &specs, results)
    }

    fn bind(plan: Plan, labels: Option<Arc<Plan>>, specs: &[FrameSpec], results: Schema) -> Result<Self> {
        let names = plan.aggregates().iter().map(|aggregate| &aggregate.name);
        let mut frames = Vec::new();
        let mut of = Vec::with_capacity(specs.len());
        for (spec, name) in specs.iter().zip(names) {
            let frame = spec.bind(name, plan.measure())?;
            of.push(frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
                frames.push(frame);
                frames.len() - 1
            }));
        }
        let varies = results.fields().iter().any(|field| varies(field.data_type()));
        Ok(Self { plan: Arc::new(plan), labels, frames, of, results: Arc::new(results), varies })
    }

    /// The aggregates; its output schema is that of the input with the results, or that of the results alone if labels ask
    /// for them.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What labels are read for, if there are labels; its output schema is theirs with the results.
    pub fn labels(&self) -> Option<&Arc<Plan>> {
        self.labels.as_ref()
    }

    /// The schema of the batches of [`RollingRows::finish`].
    pub fn results(&self) -> &SchemaRef {
        &self.results
    }

    /// The results of keys `from..to`, in the order of keys and times, of the labels if there are any.
    fn answer(
        &self,
        (ordered, order): &Sorted,
        labels: Option<&Sorted>,
        from: usize,
        to: usize,
    ) -> Result<Answered> {
        let labels = labels.map(|(labels, order)| labels.sorted(order, from, to)).transpose()?;
        if labels.as_ref().is_some_and(|labels| labels.rows.is_empty()) {
            return Ok(Answered::default());
        }
        let events = ordered.sorted(order, from, to)?;
        let ranges = self.ranges(&events, labels.as_ref())?;
        let InOrder { times, rows, .. } = events;
        // Each row is its own slice, and its own group: the partials themselves sort their contents.
        let slots: Vec<u32> = (0..rows.len() as u32).collect();
        let (partials, _) = ordered.fold(&rows, &slots, &times)?;
        let partials = partials.iter().map(|partials| partials.regroup(&slots, &slots));
        let partials = partials.collect::<Result<Vec<_>>>()?;
        let rows = labels.map_or(rows, |labels| labels.rows);
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

    /// The events of each frame of each label or, without labels, of each event.
    fn ranges(&self, events: &InOrder, labels: Option<&InOrder>) -> Result<Vec<Ranges>> {
        let mut pace = Pace::new();
        let (times, asking) = (&events.times[..], labels.unwrap_or(events));
        let frames = self.frames.iter().map(|frame| {
            let mut ranges = Ranges::with_capacity(asking.times.len());
            for (own, of) in events.ends.windows(2).zip(asking.ends.windows(2)) {
                pace.check(own[1] - own[0] + of[1] - of[0])?;
                let timeless = times[own[0]..own[1]].partition_point(|&time| time == TIMELESS);
                match labels {
                    None => frame.list(times, own[0]..own[1], timeless, &mut ranges),
                    Some(labels) => {
                        let moments = &labels.times[of[0]..of[1]];
                        frame.list_at(times, own[0] + timeless..own[1], moments, &mut ranges);
                    }
                }
            }
            Ok(ranges)
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
                    check()?;
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
                (Unit::Time, Length::Nanoseconds(_) | Length::Units(_)) => {
                    length(measure, &format!("aggs: the frame of {name}"), reach).map(|length| length as u64)
                }
                _ => Err(Error::InvalidType(format!(
                    "aggs: {name}: a frame by rows and by time; allowed are two lengths of one kind"
                ))),
            });
            reach.transpose()
        };
        let (before, after) = (bind(self.before)?, bind(self.after)?);
        let hop = bind(self.tail)?.map(|hop| hop as i64);
        if hop.is_some_and(|hop| hop <= 0 || self.unit == Unit::Rows || before.is_none()) {
            return Err(Error::InvalidValue(format!(
                "aggs: {name}: the tail of its frame is cut; allowed are hops above 0, of frames by time that have a \
                 start"
            )));
        }
        Ok(RowFrame { unit: self.unit, before, after, closed: self.closed, hop })
    }
}

impl RollingRows {
    /// No rows.
    pub fn new(rolling: Arc<Rolling>) -> Result<Self> {
        let labels = rolling.labels.clone().map(Gathered::new).transpose()?;
        Ok(Self { gathered: Gathered::new(rolling.plan.clone())?, labels, rolling })
    }

    /// Adds rows, on up to `threads` threads.
    ///
    /// # Errors
    /// `InvalidType` or `InvalidValue` for a batch that the aggregates were not bound to; `Overflow` for a time at the
    /// limit of int64.
    pub fn push(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        self.gathered.push(batches, threads)
    }

    /// Adds labels, on up to `threads` threads.
    ///
    /// # Errors
    /// As [`RollingRows::push`]; `InvalidValue` if there are none.
    pub fn push_labels(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        match &mut self.labels {
            Some(labels) => labels.push(batches, threads),
            None => Err(Error::InvalidValue("labels: the aggregates were bound without labels".into())),
        }
    }

    /// The aggregates of every row, or label, in the order in which these were pushed, computed on up to `threads`
    /// threads.
    ///
    /// # Errors
    /// `Overflow` if a result does not fit its type; those of users' own functions.
    pub fn finish(self, threads: usize) -> Result<Vec<RecordBatch>> {
        let Self { rolling, gathered, labels } = self;
        let (events, labels) = match labels {
            Some(labels) => {
                let [events, labels] = gathered.finish_with(labels)?;
                (events, Some(labels))
            }
            None => {
                let (_, ordered, order) = gathered.finish()?;
                ((ordered, order), None)
            }
        };
        let orders: Vec<&KeyOrder> = labels.iter().chain([&events]).map(|(_, order)| order).collect();
        let blocks = cut(&orders, BATCH_ROWS);
        let mut answered: Vec<Answered> = Vec::new();
        answered.resize_with(blocks.len() - 1, Answered::default);
        let work = blocks.windows(2).zip(&mut answered).collect();
        each(work, threads, |(keys, answered)| {
            *answered = rolling.answer(&events, labels.as_ref(), keys[0], keys[1])?;
            Ok(())
        })?;
        drop((events, labels));
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
        in_parts(0..places.len(), &mut |rows| {
            check()?;
            let each: Vec<(usize, usize)> =
                places[rows].iter().map(|&(chunk, at)| (chunk as usize, at as usize)).collect();
            let placed = columns.iter().map(|chunks| {
                let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
                Ok(interleave(&chunks, &each)?)
            });
            let placed = placed.collect::<Result<Vec<ArrayRef>>>()?;
            batches.push(RecordBatch::try_new(self.results.clone(), placed)?);
            Ok(())
        })
    }
}
