//! Up to when a stream has come: rows that are too far ahead of that are of a broken clock, and do not count.
//!
//! A stream may jump, a clock not: where several rows agree that time has gone on, it has.

use arrow_buffer::BooleanBuffer;
use serde::{Deserialize, Serialize};

/// As many rows as it takes to say what time it is.
const ENOUGH: usize = 3;

/// The source of rows whose source has ended.
const ENDED: u32 = u32::MAX;

/// The time of the latest row that counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Present {
    latest: Option<i64>,
    /// The sources and times of the first rows, which are too few yet.
    first: Vec<(u32, i64)>,
    /// Times of rows that came in succession and were ahead.
    ahead: Vec<i64>,
}

impl Present {
    /// Whether so few rows have come that nobody knows.
    pub(super) fn is_unknown(&self) -> bool {
        self.latest.is_none()
    }

    /// Whether a stream of so many sources can have this, which was read.
    pub(super) fn is_sound(&self, sources: usize) -> bool {
        let are_few = self.first.len() < ENOUGH && self.ahead.len() < ENOUGH;
        are_few && self.first.iter().all(|&(source, _)| source == ENDED || (source as usize) < sources)
    }

    /// Whether rows of a source are held back.
    pub(super) fn holds(&self, source: u32) -> bool {
        self.first.iter().any(|row| row.0 == source)
    }

    /// Ends a source, whose rows that are held back still say what time it is; returns whether there were any.
    pub(super) fn end(&mut self, source: u32) -> bool {
        let own = self.first.iter_mut().filter(|row| row.0 == source);
        own.map(|row| row.0 = ENDED).count() > 0
    }

    /// This with other numbers of sources: the n-th of these, which ascend, becomes source n.
    pub(super) fn renumbered(&self, sources: &[u32]) -> Self {
        let place = |source| sources.partition_point(|&other| other < source) as u32;
        let new = |source| if source == ENDED { ENDED } else { place(source) };
        let first = self.first.iter().map(|&(source, time)| (new(source), time)).collect();
        Self { first, ..self.clone() }
    }

    /// Holds a row of a source back until there are more.
    pub(super) fn hold(&mut self, source: u32, time: i64) {
        self.first.push((source, time));
    }

    /// The rows that were held back and now count, as they are not further ahead than this; the others never will.
    pub(super) fn held(&mut self, future: i64) -> Vec<(u32, i64)> {
        let limit = self.limit(future);
        let first = std::mem::take(&mut self.first);
        first.into_iter().filter(|&(source, time)| source != ENDED && time <= limit).collect()
    }

    /// The latest time that is not too far ahead.
    fn limit(&self, future: i64) -> i64 {
        self.latest.map_or(i64::MAX, |latest| latest.saturating_add(future))
    }

    /// Which of these rows are further ahead of the others than this, if any are.
    ///
    /// The others are the latest row before, or half of the rows that come together, if these are [`ENOUGH`], or of the
    /// first ones. Of fewer that come together, rows that were ahead are not, once enough of them have come in succession:
    /// among many, those of one clock may follow each other.
    pub(super) fn ahead(&mut self, times: &[i64], future: i64) -> Option<BooleanBuffer> {
        let (limit, most) = (self.limit(future), times.iter().copied().max()?);
        let are_many = times.len() >= ENOUGH;
        match self.latest {
            // So it is for nearly all batches.
            Some(latest) if most <= limit => {
                self.ahead.clear();
                self.latest = Some(latest.max(most));
                return None;
            }
            None => {
                let mut all: Vec<i64> =
                    self.first.iter().map(|row| row.1).chain(times.iter().copied()).collect();
                if all.len() < ENOUGH {
                    return None;
                }
                self.latest = Some(middle(&mut all));
            }
            Some(latest) => {
                let ahead = times.iter().filter(|&&t| t > limit).count();
                if are_many && ahead * 2 > times.len() {
                    self.latest = Some(middle(&mut times.to_vec()).max(latest));
                }
            }
        }
        if are_many {
            self.ahead.clear();
        }
        let mut any = false;
        let ahead = BooleanBuffer::collect_bool(times.len(), |row| {
            let time = times[row];
            if time > self.limit(future) && (are_many || !self.is_confirmed(time, future)) {
                any = true;
                return true;
            }
            self.ahead.clear();
            self.latest = self.latest.max(Some(time));
            false
        });
        any.then_some(ahead)
    }

    /// Whether a row that is ahead is one of enough in succession that agree with it.
    fn is_confirmed(&mut self, time: i64, future: i64) -> bool {
        self.ahead.retain(|other| other.abs_diff(time) <= future.unsigned_abs());
        self.ahead.push(time);
        self.ahead.len() >= ENOUGH
    }
}

/// The time that half of these, of which there are some, do not pass.
fn middle(times: &mut [i64]) -> i64 {
    let half = times.len() / 2;
    *times.select_nth_unstable(half).1
}
