//! How far a stream is complete, by its rows: a watermark behind the latest row of each source.
//!
//! The watermark of several sources is the least of theirs (Li 2008, §2.1: progress of a stream; §7.2, Meld). A source
//! that has had no rows for some time is left out until it has some again.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array, make_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema};
use datasketches::common::SearchCriteria;
use datasketches::kll::KllSketch;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Operator;
use super::intake::Accepted;
use super::present::Present;
use crate::dictionary::widened;
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::select::take;
use crate::state::{Reader, Writer, broken, tally};
use crate::window::Measure;
use crate::{Error, Result};

/// Names of sources that may accumulate before those that have ended are forgotten.
const ENDED: usize = 64;

/// Blocks of rows that a bound by rows is divided into.
const BLOCKS: u64 = 256;

/// The size of a sketch of delays, which determines its error: 1.33 % of the rank.
const K: u16 = 200;

/// How the watermark follows rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// How far it is behind the latest row.
    pub by: By,
    /// Position of the column that says which source a row is from; a single one if there is none.
    pub source: Option<usize>,
    /// A source is left out once no row of it has come for so many microseconds.
    pub idle: Option<i64>,
    /// Rows further ahead of the others than this are set aside.
    pub future: Option<i64>,
    /// How a source's watermark follows the clock while no row of it comes.
    pub heartbeat: Option<Heartbeat>,
}

/// How far a watermark is behind the clock in a lull (Li 2008, §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// By so many microseconds, once no row has come for as long.
    pub after: i64,
    /// Nanoseconds of a unit of the time column.
    pub unit: i64,
}

/// The clock, in microseconds, as sources are judged by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The time in which the operator listened.
    pub(super) heard: i64,
    pub(super) now: Option<i64>,
}

/// How far a watermark is behind the latest row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum By {
    /// By a time.
    Time(i64),
    /// No row comes after this many rows that follow it in time.
    Rows(u64),
    /// By the time that this share of all rows is behind the latest row.
    Share(f64),
}

/// What was seen of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Source {
    latest: Option<i64>,
    #[serde(deserialize_with = "tally")]
    rows: u64,
    /// When its last row came, by the time in which the operator listened; a restored one begins to listen anew.
    #[serde(skip)]
    seen: i64,
    /// Whether it was announced: it holds the watermark before its first row, too.
    is_announced: bool,
    /// At which row the latest time so far became which, block by block; those from the one that counts on.
    reached: VecDeque<(u64, i64)>,
    /// How far rows were behind the latest one.
    #[serde(serialize_with = "write_sketch", deserialize_with = "read_sketch")]
    delays: Option<KllSketch<i64>>,
}

/// What was seen of all sources.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    delay: Delay,
    /// By number; those without rows never spoke.
    sources: Vec<Source>,
    /// Up to when those were complete that have ended: the greatest of them.
    ended: Option<i64>,
    present: Present,
}

/// The progress of a stream.
pub(super) struct Progress {
    /// The numbers of sources.
    index: KeyIndex,
    /// What was seen of them.
    pub(super) seen: Seen,
}

fn failed(error: datasketches::error::Error) -> Error {
    Error::Internal(format!("KLL sketch of delays: {error}"))
}

impl Source {
    fn new(delay: &Delay) -> Result<Self> {
        let delays = match delay.by {
            By::Share(_) => Some(KllSketch::new(K).map_err(failed)?),
            By::Time(_) | By::Rows(_) => None,
        };
        Ok(Self { latest: None, rows: 0, seen: 0, is_announced: false, reached: VecDeque::new(), delays })
    }

    /// Whether a stream can have seen this, which was read.
    fn is_sound(&self, by: By) -> bool {
        self.latest.is_some() == (self.rows > 0)
            && self.delays.is_some() == matches!(by, By::Share(_))
            && self.reached.iter().is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
    }

    /// Whether rows of it are to be waited for: those without any, and those that have ended, never spoke.
    fn is_live(&self) -> bool {
        self.rows > 0 || self.is_announced
    }

    /// Takes note of a row.
    fn see(&mut self, by: By, time: i64) {
        let latest = self.latest.map_or(time, |latest| latest.max(time));
        if let Some(delays) = &mut self.delays {
            delays.update(latest.saturating_sub(time));
        }
        (self.rows, self.latest) = (self.rows + 1, Some(latest));
        let By::Rows(bound) = by else { return };
        let block = bound / BLOCKS + 1;
        if self.rows.is_multiple_of(block) {
            self.reached.push_back((self.rows, latest));
            while self.reached.get(1).is_some_and(|&(row, _)| row + bound <= self.rows) {
                self.reached.pop_front();
            }
        }
    }

    fn watermark(&self, delay: &Delay, clock: Clock) -> Result<Option<i64>> {
        let is_lull = |heartbeat: &Heartbeat| clock.heard - self.seen >= heartbeat.after;
        let beat = delay.heartbeat.filter(is_lull).zip(clock.now).map(|(Heartbeat { after, unit }, now)| {
            let nanoseconds = (i128::from(now) - i128::from(after)) * 1_000;
            nanoseconds.div_euclid(i128::from(unit.max(1))) as i64
        });
        Ok(self.of_rows(delay.by)?.max(beat))
    }

    /// Up to when it is complete by its rows.
    fn of_rows(&self, by: By) -> Result<Option<i64>> {
        Ok(match by {
            By::Time(delay) => self.latest.map(|latest| latest.saturating_sub(delay)),
            By::Rows(bound) => {
                let past = self.reached.iter().take_while(|&&(row, _)| row + bound <= self.rows);
                past.last().map(|&(_, time)| time)
            }
            // As many rows as it takes for one of them to be later.
            By::Share(share) if (self.rows as f64) < 1.0 / (1.0 - share) => None,
            By::Share(share) => {
                let delays =
                    self.delays.as_ref().map(|delays| delays.quantile(share, SearchCriteria::Inclusive));
                let delay = delays.transpose().map_err(failed)?.flatten();
                self.latest.zip(delay).map(|(latest, delay)| latest.saturating_sub(delay))
            }
        })
    }
}

impl Seen {
    /// Whether a source is left out, as it has been silent.
    fn is_idle(&self, source: &Source, clock: Clock) -> bool {
        self.delay.idle.is_some_and(|idle| clock.heard - source.seen > idle)
    }

    /// Which of these rows are further ahead of the others than is allowed, if any are.
    pub(super) fn ahead(&mut self, rows: &Accepted) -> Option<BooleanBuffer> {
        self.present.ahead(&rows.times, self.delay.future?)
    }

    /// Takes note of rows, with the number of each one's source if there are several.
    pub(super) fn see(&mut self, rows: &Accepted, sources: &[u32], Clock { heard, .. }: Clock) -> Result<()> {
        let future = self.delay.future.filter(|_| !self.present.is_unknown());
        for (source, time) in future.map(|future| self.present.held(future)).into_iter().flatten() {
            let source = &mut self.sources[source as usize];
            source.see(self.delay.by, time);
            source.seen = heard;
        }
        if rows.times.is_empty() {
            return Ok(());
        }
        self.make_room(sources.iter().max().map_or(1, |&most| most as usize + 1))?;
        let source_of = |row: usize| sources.get(row).copied().unwrap_or_default();
        if self.delay.future.is_some() && self.present.is_unknown() {
            let each = rows.times.iter().enumerate();
            each.for_each(|(row, &time)| self.present.hold(source_of(row), time));
            return Ok(());
        }
        if let (By::Time(_), [], [source, ..]) = (self.delay.by, sources, &mut self.sources[..]) {
            // Nothing but the latest row matters.
            source.see(self.delay.by, rows.most);
            source.rows += rows.times.len() as u64 - 1;
            source.seen = heard;
            return Ok(());
        }
        let mut pace = Pace::new();
        for (row, &time) in rows.times.iter().enumerate() {
            pace.check(1)?;
            let source = &mut self.sources[source_of(row) as usize];
            source.see(self.delay.by, time);
            source.seen = heard;
        }
        Ok(())
    }

    fn make_room(&mut self, sources: usize) -> Result<()> {
        while self.sources.len() < sources {
            self.sources.push(Source::new(&self.delay)?);
        }
        Ok(())
    }

    /// Whether a column names sources.
    pub(super) fn has_sources(&self) -> bool {
        self.delay.source.is_some()
    }

    /// Waits for rows of a source.
    pub(super) fn announce(&mut self, source: u32, Clock { heard, .. }: Clock) -> Result<()> {
        self.make_room(source as usize + 1)?;
        let source = &mut self.sources[source as usize];
        (source.is_announced, source.seen) = (true, heard);
        Ok(())
    }

    /// Waits no longer for rows of a source; returns whether it was one.
    pub(super) fn end(&mut self, source: u32, clock: Clock) -> Result<bool> {
        let Some(known) = self.sources.get_mut(source as usize) else { return Ok(false) };
        let ended = std::mem::replace(known, Source::new(&self.delay)?);
        if ended.is_live() {
            self.ended = self.ended.max(ended.watermark(&self.delay, clock)?);
        }
        Ok(self.present.end(source) || ended.is_live())
    }

    /// Up to when the stream is complete, by its sources: the least of those that are not idle, or else the greatest of
    /// all, whichever of them was idle first, or ended.
    pub(super) fn watermark(&self, clock: Clock) -> Result<Option<i64>> {
        let (mut awake, mut quiet) = (Vec::new(), self.ended);
        for source in self.sources.iter().filter(|source| source.is_live()) {
            let watermark = source.watermark(&self.delay, clock)?;
            match self.is_idle(source, clock) {
                true => quiet = quiet.max(watermark),
                false => awake.push(watermark),
            }
        }
        // None of one is none of all.
        Ok(awake.into_iter().min().unwrap_or(quiet))
    }
}

impl Progress {
    /// Nothing seen yet of a stream of this schema.
    pub(super) fn new(delay: Delay, input: &Schema) -> Result<Self> {
        let types = delay.source.iter().map(|&at| input.field(at).data_type().clone()).collect();
        Ok(Self {
            index: KeyIndex::new(types)?,
            seen: Seen { delay, sources: Vec::new(), ended: None, present: Present::default() },
        })
    }

    /// The number of each row's source; none if there is a single one.
    pub(super) fn sources(&mut self, rows: &RecordBatch) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        if let Some(source) = self.seen.delay.source {
            self.index.assign_all(&[rows.column(source).clone()], rows.num_rows(), &mut ids, check)?;
        }
        Ok(ids)
    }

    /// One row for each source: its name if there are several, its latest row, its watermark, how many rows there were,
    /// and whether it is left out.
    pub(super) fn table(&self, input: &Schema, measure: &Measure, clock: Clock) -> Result<RecordBatch> {
        let Seen { delay, sources, .. } = &self.seen;
        let live: Vec<usize> = (0..sources.len()).filter(|&at| sources[at].is_live()).collect();
        let each = || live.iter().map(|&at| &sources[at]);
        let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
        if let Some(source) = delay.source {
            let places = UInt32Array::from_iter_values(live.iter().map(|&at| at as u32));
            fields.push(Field::new("source", widened(input.field(source).data_type()), true));
            columns.push(take(&self.index.values()?[0], &places, None)?);
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

    /// The number of a source that is named by the only row of this column.
    pub(super) fn number(&mut self, name: &ArrayRef) -> Result<u32> {
        let mut ids = Vec::new();
        self.index.assign_all(std::slice::from_ref(name), 1, &mut ids, check)?;
        Ok(ids[0])
    }

    /// This without the sources that have ended.
    fn of_live(&self) -> Result<Self> {
        let Seen { delay, sources, ended, present } = &self.seen;
        let is_live = |&at: &u32| sources[at as usize].is_live() || present.holds(at);
        let live: Vec<u32> = (0..sources.len() as u32).filter(is_live).collect();
        let sources = live.iter().map(|&at| sources[at as usize].clone()).collect();
        let seen = Seen { delay: *delay, sources, ended: *ended, present: present.renumbered(&live) };
        let index = if delay.source.is_some() { &live[..] } else { &[] };
        Ok(Self { index: self.index.only(index)?, seen })
    }

    /// Forgets the sources that have ended, once they are many.
    ///
    /// # Errors
    /// Only those of memory; nothing is changed then.
    pub(super) fn tidy(&mut self) -> Result<()> {
        if self.index.len() <= ENDED {
            return Ok(());
        }
        let live = self.seen.sources.iter().filter(|source| source.is_live()).count();
        if self.index.len() > ENDED + 2 * live {
            *self = self.of_live()?;
        }
        Ok(())
    }

    /// Writes what was seen.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        let live = self.of_live()?;
        if live.seen.delay.source.is_some() {
            to.keys(&live.index)?;
        }
        to.value(&(&live.seen.present, &live.seen.sources, live.seen.ended));
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

/// Times, some of which are not known.
fn nullable(measure: &Measure, times: &Int64Array) -> Result<ArrayRef> {
    let values = measure.array(times.values().to_vec())?;
    Ok(make_array(values.to_data().into_builder().nulls(times.nulls().cloned()).build()?))
}

/// A pause between two calls counts as this part of the time for which a source must be silent at most.
const PART: i64 = 10;

impl Operator {
    /// Sets the clock: microseconds, which never decrease. While nobody calls, no source can speak, so that a long pause
    /// since the last call counts as a short one, unless the caller has waited for rows all the time.
    pub fn set_clock(&mut self, now: i64, has_waited: bool) {
        let pause = self.now.map_or(0, |before| now.saturating_sub(before));
        let delay = self.progress.as_ref().map(|progress| progress.seen.delay);
        let silence = delay.and_then(|delay| delay.silence());
        let most = silence.map_or(0, |least| if has_waited { i64::MAX } else { (least / PART).max(1) });
        self.heard = self.heard.saturating_add(pause.clamp(0, most));
        self.now = self.now.max(Some(now));
    }

    pub(super) fn clock(&self) -> Clock {
        Clock { heard: self.heard, now: self.now }
    }

    /// What is known of the sources of the stream, if its watermark follows them: a row for each, with its name where a
    /// column has it.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows.
    pub fn progress(&self) -> Result<RecordBatch> {
        self.followed()?.table(self.input(), self.leader().measure(), self.clock())
    }

    pub(super) fn followed(&self) -> Result<&Progress> {
        self.progress.as_ref().ok_or_else(|| {
            Error::InvalidValue(
                "progress: no watermark follows the rows of this operator; progress=windowkit.delay(...) of \
                 query.operator() makes one do so"
                    .into(),
            )
        })
    }
}

impl Delay {
    /// For how many microseconds a source must be silent at least for that to matter, if it ever does.
    pub fn silence(&self) -> Option<i64> {
        self.idle.into_iter().chain(self.heartbeat.map(|heartbeat| heartbeat.after)).min()
    }

    /// Whether a stream with so many columns can have this one, which was read.
    pub(super) fn is_sound(&self, columns: usize) -> bool {
        let is_delay = match self.by {
            By::Time(delay) => delay >= 0,
            By::Rows(_) => true,
            By::Share(share) => (0.0..1.0).contains(&share),
        };
        let is_beat = self.heartbeat.is_none_or(|heartbeat| heartbeat.after > 0 && heartbeat.unit > 0);
        is_delay && is_beat && self.source.is_none_or(|source| source < columns)
    }
}

fn write_sketch<S: Serializer>(
    sketch: &Option<KllSketch<i64>>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    sketch.as_ref().map(KllSketch::serialize).serialize(to)
}

fn read_sketch<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<KllSketch<i64>>, D::Error> {
    let bytes: Option<Vec<u8>> = Option::deserialize(from)?;
    bytes.map(|bytes| KllSketch::deserialize(&bytes)).transpose().map_err(de::Error::custom)
}
