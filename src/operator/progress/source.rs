//! What was seen of one source, and up to when it is complete by that.

use std::collections::VecDeque;

use datasketches::common::SearchCriteria;
use datasketches::kll::KllSketch;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::clock::Clock;
use super::delay::{By, Delay, Heartbeat};
use crate::state::tally;
use crate::{Error, Result};

/// Blocks of rows that a bound by rows is divided into.
const BLOCKS: u64 = 256;

/// The size of a sketch of delays, which determines its error: 1.33 % of the rank.
const K: u16 = 200;

/// What was seen of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Source {
    pub(super) latest: Option<i64>,
    #[serde(deserialize_with = "tally")]
    pub(super) rows: u64,
    /// When its last row came, by the time in which the operator listened; a restored one begins to listen anew.
    #[serde(skip)]
    pub(super) seen: i64,
    /// Whether it was announced: it holds the watermark before its first row, too.
    pub(super) is_announced: bool,
    /// At which row the latest time so far became which, block by block; those from the one that counts on.
    reached: VecDeque<(u64, i64)>,
    /// How far rows were behind the latest one.
    #[serde(serialize_with = "write_sketch", deserialize_with = "read_sketch")]
    delays: Option<KllSketch<i64>>,
}

fn failed(error: datasketches::error::Error) -> Error {
    Error::Internal(format!("KLL sketch of delays: {error}"))
}

impl Source {
    pub(super) fn new(delay: &Delay) -> Result<Self> {
        let delays = match delay.by {
            By::Share(_) => Some(KllSketch::new(K).map_err(failed)?),
            By::Time(_) | By::Rows(_) => None,
        };
        Ok(Self { latest: None, rows: 0, seen: 0, is_announced: false, reached: VecDeque::new(), delays })
    }

    /// Whether a stream can have seen this, which was read.
    pub(super) fn is_sound(&self, by: By) -> bool {
        self.latest.is_some() == (self.rows > 0)
            && self.delays.is_some() == matches!(by, By::Share(_))
            && self.reached.iter().is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
    }

    /// Whether rows of it are to be waited for: those without any, and those that have ended, never spoke.
    pub(super) fn is_live(&self) -> bool {
        self.rows > 0 || self.is_announced
    }

    /// Takes note of a row.
    pub(super) fn see(&mut self, by: By, time: i64) {
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

    /// Up to when it is complete, by its rows or by the clock.
    pub(super) fn watermark(&self, delay: &Delay, clock: Clock) -> Result<Option<i64>> {
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
