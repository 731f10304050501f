//! The workloads of Traub et al. 2019, §6.1: a football's positions, and machines' states, with gaps and disorder.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};

use crate::shared::noise;
use crate::shared::sides::Batch;

/// Microseconds.
pub const SECOND: i64 = 1_000_000;
/// Updates per second of the football's sensor.
pub const RATE: i64 = 2_000;
/// Distinct values of the football's column.
const POSITIONS: u64 = 84_232;
/// Gaps a minute, each longer than a session's gap of one second.
const GAPS: i64 = 5;
const GAP: i64 = 3 * SECOND / 2;
/// Rows generated; a stream that is longer repeats them later.
const ROWS: usize = 1 << 18;

/// Which values the column has.
#[derive(Clone)]
pub enum Values {
    /// As many distinct values as the football's column has.
    Football,
    /// So many distinct values.
    Distinct(u64),
    /// These, again and again.
    Given(Arc<Vec<i64>>),
}

/// A stream of rows in the order of arrival.
#[derive(Clone)]
pub struct Stream {
    times: Arc<[i64]>,
    /// No row that follows row `i` has a time below `watermarks[i]`.
    watermarks: Arc<[i64]>,
    values: Int64Array,
    /// By how much times grow from one repetition to the next.
    span: i64,
    at: usize,
    round: i64,
}

impl Stream {
    /// A stream of which `share` of the rows come up to `delay` late.
    pub fn new(values: &Values, share: f64, delay: i64) -> Self {
        let period = 60 * SECOND / GAPS;
        // Rows of a period lie in what the gap leaves of it.
        let rows_per_period = (period - GAP) * RATE / SECOND;
        let step = (period - GAP) / rows_per_period;
        let time = |i: i64| i / rows_per_period * period + i % rows_per_period * step;
        let rows = ROWS as i64 / rows_per_period * rows_per_period;
        let mut arrivals: Vec<(i64, i64)> = (0..rows)
            .map(|i| {
                let luck = noise(i as u64);
                let is_late = (luck % 1_000_000) as f64 <= share * 1e6 && share > 0.0;
                let behind = if is_late && delay > 0 { (luck >> 20) as i64 % (delay + 1) } else { 0 };
                (time(i) + behind, time(i))
            })
            .collect();
        arrivals.sort_unstable();
        let times: Vec<i64> = arrivals.iter().map(|&(_, t)| t).collect();
        let mut watermarks = times.clone();
        let span = rows / rows_per_period * period;
        // What the next repetition brings is no earlier than this.
        let mut least = span;
        for at in (0..watermarks.len()).rev() {
            (watermarks[at], least) = (least, least.min(times[at]));
        }
        let value = |i: u64| match values {
            Values::Football => (noise(i ^ 0xF00D) % POSITIONS) as i64,
            Values::Distinct(values) => (noise(i ^ 0xF00D) % values) as i64,
            Values::Given(values) => values[i as usize % values.len()],
        };
        let values = Int64Array::from_iter_values((0..rows as u64).map(value));
        Self { times: times.into(), watermarks: watermarks.into(), values, span, at: 0, round: 0 }
    }

    /// The next rows, at most so many, and the watermark that follows them.
    pub fn next(&mut self, rows: usize) -> (Batch, i64) {
        let to = (self.at + rows).min(self.times.len());
        let shift = self.round * self.span;
        let times: Vec<i64> = self.times[self.at..to].iter().map(|t| t + shift).collect();
        let values: ArrayRef = Arc::new(self.values.slice(self.at, to - self.at));
        let watermark = self.watermarks[to - 1] + shift;
        self.at = to;
        if to == self.times.len() {
            (self.at, self.round) = (0, self.round + 1);
        }
        (Batch { keys: vec![0; times.len()], times, values }, watermark)
    }
}
