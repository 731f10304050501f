//! How far a stream is complete, by its rows: a watermark behind the latest row of each source.
//!
//! The watermark of several sources is the least of theirs (Li 2008, §2.1: progress of a stream; §7.2, Meld). A source
//! that has had no rows for some time is left out until it has some again. Each operator has the [`Progress`] of each of its
//! streams; [`Ahead`] has the keys that are complete further than their stream.

mod ahead;
mod clock;
mod completeness;
mod delay;
mod present;
mod seen;
mod source;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, UInt64Array, make_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema};

use crate::dictionary::widened;
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::memory::attempted;
use crate::select::filter_record_batch;
use crate::simd;
use crate::state::{Reader, Writer, broken};
use crate::window::Measure;
use crate::{Error, Result};
pub(super) use ahead::Ahead;
use clock::Clock;
use completeness::Completeness;
pub use delay::{By, Delay, Heartbeat};
use present::Present;
use seen::Seen;
use source::Source;

/// Names of sources that may accumulate before those that have ended are forgotten.
const ENDED: usize = 64;

/// The progress of a stream. What a step sees of it counts within the step, and is kept once that is committed.
pub(super) struct Progress {
    /// The numbers of sources.
    index: KeyIndex,
    /// What was seen of them by steps that took effect.
    seen: Seen,
    /// What was seen with the step that is attempted, if that has seen anything.
    attempted: Option<Seen>,
    clock: Clock,
}

impl Progress {
    /// Nothing seen yet of a stream of this schema.
    pub(super) fn new(delay: Delay, input: &Schema) -> Result<Self> {
        let types = delay.source.iter().map(|&at| input.field(at).data_type().clone()).collect();
        let clock = Clock::default();
        let mut seen = Seen { delay, sources: Vec::new(), ended: None, present: Present::default() };
        if delay.source.is_none() && delay.heartbeat.is_some() {
            // A stream that nobody divides is a source, which may be silent from the beginning.
            seen.announce(0, clock)?;
        }
        Ok(Self { index: KeyIndex::new(types)?, seen, attempted: None, clock })
    }

    /// How the watermark follows rows.
    pub(super) fn delay(&self) -> &Delay {
        &self.seen.delay
    }

    /// Sets the clock: microseconds, which never decrease. While nobody calls, no source can speak, so that a long pause
    /// since the last call counts as a short one, unless the caller has waited for rows all the time.
    pub(super) fn set_clock(&mut self, now: i64, has_waited: bool) {
        self.clock.set(now, self.seen.delay.silence(), has_waited);
    }

    fn attempt(&mut self) -> &mut Seen {
        self.attempted.get_or_insert_with(|| self.seen.clone())
    }

    /// Takes note of rows, some of which may have no time; returns which are further ahead of the others than is allowed, if
    /// any are: they are set aside.
    ///
    /// # Errors
    /// As [`Progress::see`].
    pub(super) fn note(
        &mut self,
        rows: &RecordBatch,
        times: &[i64],
        timed: Option<&NullBuffer>,
    ) -> Result<Option<BooleanBuffer>> {
        let Some(timed) = timed.filter(|timed| timed.null_count() > 0) else {
            return self.note_timed(rows, times);
        };
        let own: Vec<i64> = timed.valid_indices().map(|row| times[row]).collect();
        let rows = filter_record_batch(rows, &BooleanArray::new(timed.inner().clone(), None))?;
        let Some(ahead) = self.note_timed(&rows, &own)? else { return Ok(None) };
        let mut all = BooleanBufferBuilder::new(times.len());
        all.append_n(times.len(), false);
        timed.valid_indices().enumerate().for_each(|(at, row)| all.set_bit(row, ahead.value(at)));
        Ok(Some(all.finish()))
    }

    fn note_timed(&mut self, rows: &RecordBatch, times: &[i64]) -> Result<Option<BooleanBuffer>> {
        let Some(ahead) = self.ahead(times) else {
            self.see(rows, times, simd::span(times).map_or(i64::MIN, |(_, most)| most))?;
            return Ok(None);
        };
        let others = !&ahead;
        let own: Vec<i64> = others.set_indices().map(|row| times[row]).collect();
        let rows = filter_record_batch(rows, &BooleanArray::new(others, None))?;
        self.see(&rows, &own, simd::span(&own).map_or(i64::MIN, |(_, most)| most))?;
        Ok(Some(ahead))
    }

    /// Which of these rows are further ahead of the others than is allowed, if any are: they are set aside.
    pub(super) fn ahead(&mut self, times: &[i64]) -> Option<BooleanBuffer> {
        self.attempt().ahead(times)
    }

    /// Takes note of rows with these times, of which `most` is the latest.
    ///
    /// # Errors
    /// Errors of Arrow, and interrupts.
    pub(super) fn see(&mut self, rows: &RecordBatch, times: &[i64], most: i64) -> Result<()> {
        let mut sources = Vec::new();
        if let Some(source) = self.seen.delay.source {
            self.index.assign_all(&[rows.column(source).clone()], rows.num_rows(), &mut sources, check)?;
        }
        let clock = self.clock;
        self.attempt().see((times, most), &sources, clock)
    }

    /// Up to when the stream is complete, by its sources and the clock; `watermark` says what is so already.
    ///
    /// # Errors
    /// Errors of the sketch.
    pub(super) fn watermark(&self, watermark: Option<i64>) -> Result<Option<i64>> {
        Ok(self.attempted.as_ref().unwrap_or(&self.seen).watermark(self.clock)?.max(watermark))
    }

    /// Waits for rows of the source that is named by the only row of a column, before any has come.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn add_source(&mut self, name: &ArrayRef) -> Result<()> {
        let (number, clock) = (self.number(name)?, self.clock);
        self.attempt().announce(number, clock)
    }

    /// Waits no longer for rows of such a source.
    ///
    /// # Errors
    /// `InvalidValue` if it is none.
    pub(super) fn end_source(&mut self, name: &ArrayRef) -> Result<()> {
        let (number, clock) = (self.number(name)?, self.clock);
        if self.attempt().end(number, clock)? {
            return Ok(());
        }
        let name = if name.is_null(0) { "null".to_owned() } else { array_value_to_string(name, 0)? };
        Err(Error::InvalidValue(format!(
            "source: no row of '{name}' has come, and it was not added; progress() lists the sources of a stream"
        )))
    }

    /// The number of a source that is named by the only row of this column.
    fn number(&mut self, name: &ArrayRef) -> Result<u32> {
        let mut ids = Vec::new();
        self.index.assign_all(std::slice::from_ref(name), 1, &mut ids, check)?;
        Ok(ids[0])
    }

    /// Keeps what the step has seen.
    pub(super) fn commit(&mut self) {
        if let Some(seen) = self.attempted.take() {
            self.seen = seen;
        }
    }

    /// Forgets what the step has seen.
    pub(super) fn take_back(&mut self) {
        self.attempted = None;
    }

    /// One row for each source: its name if there are several, its latest row, its watermark, how many rows there were,
    /// and whether it is left out.
    pub(super) fn table(&self, input: &Schema, measure: &Measure) -> Result<RecordBatch> {
        let (Seen { delay, sources, .. }, clock) = (&self.seen, self.clock);
        let live: Vec<usize> = (0..sources.len()).filter(|&at| sources[at].is_live()).collect();
        let each = || live.iter().map(|&at| &sources[at]);
        let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
        if let Some(source) = delay.source {
            let places: Vec<u32> = live.iter().map(|&at| at as u32).collect();
            fields.push(Field::new("source", widened(input.field(source).data_type()), true));
            columns.extend(self.index.values_of(&places)?);
        }
        let watermarks =
            each().map(|source| source.watermark(delay, clock)).collect::<Result<Int64Array>>()?;
        for (name, times) in
            [("latest", each().map(|source| source.latest).collect()), ("watermark", watermarks)]
        {
            fields.push(Field::new(name, measure.data_type(), true));
            columns.push(nullable(measure, &times)?);
        }
        fields.push(Field::new("rows", DataType::UInt64, false));
        columns.push(Arc::new(UInt64Array::from_iter_values(each().map(|source| source.rows))));
        fields.push(Field::new("idle", DataType::Boolean, false));
        let idle: BooleanArray = each().map(|source| Some(self.seen.is_idle(source, clock))).collect();
        columns.push(Arc::new(idle));
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// Which share of the rows of windows can be expected to have arrived, and how much that may be wrong: columns
    /// `complete` and `complete_error` for columns of starts and ends, null where either is and before any row.
    ///
    /// # Errors
    /// `InvalidValue` if no delays are measured; errors of the sketch.
    pub(super) fn completeness(&self, windows: &RecordBatch, measure: &Measure) -> Result<RecordBatch> {
        if !self.delay().measures() {
            return Err(Error::InvalidValue(
                "complete: how late rows are is not measured; progress=windowkit.delay(share=...) measures it, where the \
                 operator is made"
                    .into(),
            ));
        }
        let kind = measure.data_type();
        let columns = windows.columns().iter().map(|column| Ok(cast(column, &kind)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let [starts, ends] = &columns[..] else {
            return Err(Error::Internal("windows without a start and an end".into()));
        };
        let (from, to) = (measure.read(starts)?, measure.read(ends)?);
        let extent = |row: usize| (starts.is_valid(row) && ends.is_valid(row)).then(|| (from[row], to[row]));
        let extents = (0..windows.num_rows()).map(extent);
        let sources = self.seen.sources.iter().map(Source::arrivals);
        let sources = sources.filter_map(Result::transpose).collect::<Result<_>>()?;
        let found = match Completeness::of(sources) {
            None => vec![None; windows.num_rows()],
            Some(known) => known.of_windows(extents),
        };
        let column = |of: fn((f64, f64)) -> f64| -> ArrayRef {
            Arc::new(found.iter().map(|each| each.map(of)).collect::<Float64Array>())
        };
        let field = |name: &str| Field::new(name, DataType::Float64, true);
        let schema = Schema::new(vec![field("complete"), field("complete_error")]);
        Ok(RecordBatch::try_new(Arc::new(schema), vec![column(|each| each.0), column(|each| each.1)])?)
    }

    /// The sources that have not ended: their numbers, and what was seen of them.
    fn of_live(&self) -> Result<(KeyIndex, Seen)> {
        let Seen { delay, sources, ended, present } = &self.seen;
        let is_live = |&at: &u32| sources[at as usize].is_live() || present.holds(at);
        let live: Vec<u32> = (0..sources.len() as u32).filter(is_live).collect();
        let sources = live.iter().map(|&at| sources[at as usize].clone()).collect();
        let seen = Seen { delay: *delay, sources, ended: *ended, present: present.renumbered(&live) };
        let index = if delay.source.is_some() { &live[..] } else { &[] };
        Ok((self.index.only(index)?, seen))
    }

    /// Forgets the sources that have ended, once they are many and if there is the memory for that; no step is attempted
    /// meanwhile.
    pub(super) fn tidy(&mut self) {
        if self.index.len() <= ENDED {
            return;
        }
        let live = self.seen.sources.iter().filter(|source| source.is_live()).count();
        if self.index.len() > ENDED + 2 * live
            && let Ok(live) = attempted(|| self.of_live())
        {
            (self.index, self.seen) = live;
        }
    }

    /// Writes what was seen.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        let (index, seen) = self.of_live()?;
        if seen.delay.source.is_some() {
            to.keys(&index)?;
        }
        to.value(&(&seen.present, &seen.sources, seen.ended));
        Ok(())
    }

    /// Reads what [`Progress::save`] wrote.
    pub(super) fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        let delay = self.seen.delay;
        if delay.source.is_some() {
            from.keys(&mut self.index, check)?;
        }
        let (present, sources, ended): (Present, Vec<Source>, _) = from.value()?;
        let known = if delay.source.is_some() { self.index.len() } else { 1 };
        let are_sound =
            sources.iter().all(|source| source.is_sound(delay.by)) && present.is_sound(sources.len());
        if sources.len() > known || !are_sound {
            return broken();
        }
        (self.seen.present, self.seen.sources, self.seen.ended) = (present, sources, ended);
        Ok(())
    }
}

/// The progress of a stream whose watermark follows its rows.
///
/// # Errors
/// `InvalidValue` for others.
pub(super) fn followed(progress: &Option<Progress>) -> Result<&Progress> {
    progress.as_ref().ok_or_else(|| {
        Error::InvalidValue(
            "progress: no watermark follows the rows of this operator; progress=windowkit.delay(...) makes one do so where \
             the operator is made, left_progress and right_progress of a join"
                .into(),
        )
    })
}

/// The progress of a stream whose rows name their source.
///
/// # Errors
/// `InvalidValue` for others.
pub(super) fn with_sources(progress: &mut Option<Progress>) -> Result<&mut Progress> {
    progress.as_mut().filter(|progress| progress.delay().source.is_some()).ok_or_else(|| {
        Error::InvalidValue(
            "source: the rows of this operator have no column that names it; progress=windowkit.delay(..., source=...) \
             says which one does where the operator is made, left_progress and right_progress of a join"
                .into(),
        )
    })
}

/// Times, some of which are not known.
fn nullable(measure: &Measure, times: &Int64Array) -> Result<ArrayRef> {
    let values = measure.array(times.values().to_vec())?;
    Ok(make_array(values.to_data().into_builder().nulls(times.nulls().cloned()).build()?))
}
