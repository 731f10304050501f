//! How far a watermark is behind the rows that it follows.

use serde::{Deserialize, Serialize};

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

impl Delay {
    /// For how many microseconds a source must be silent at least for that to matter, if it ever does.
    pub fn silence(&self) -> Option<i64> {
        self.idle.into_iter().chain(self.heartbeat.map(|heartbeat| heartbeat.after)).min()
    }

    /// Whether a stream with so many columns can have this one, which was read.
    pub(in crate::operator) fn is_sound(&self, columns: usize) -> bool {
        let is_delay = match self.by {
            By::Time(delay) => delay >= 0,
            By::Rows(_) => true,
            By::Share(share) => (0.0..1.0).contains(&share),
        };
        let is_beat = self.heartbeat.is_none_or(|heartbeat| heartbeat.after > 0 && heartbeat.unit > 0);
        is_delay && is_beat && self.source.is_none_or(|source| source < columns)
    }
}
