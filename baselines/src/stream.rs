//! What all techniques share: the stream's order and watermark, and which windows are ready.

use crate::{Emitted, Setting, Stats, refused};
use windowkit::aggregate::{Input, Partials};
use windowkit::slice::Edges;
use windowkit::slice::strategy::Order;
use windowkit::window::{Arrivals, Counted, Session, Sliding, Window};
use windowkit::{Error, Result};

/// A stream's windows, and how far it has come.
pub(crate) struct Stream {
    name: &'static str,
    /// Windows over time, each with its number in the query.
    pub(crate) sliding: Vec<(u32, Sliding)>,
    /// Sessions, each with its number in the query.
    pub(crate) sessions: Vec<(u32, Session)>,
    /// Windows of a number of rows, each with its number in the query.
    pub(crate) counted: Vec<(u32, Counted)>,
    /// Windows that every so many arrivals end, each with its number in the query; only `wid` takes them.
    pub(crate) arrivals: Vec<(u32, Arrivals)>,
    order: Order,
    lateness: i64,
    watermark: i64,
    /// Whether there was a watermark.
    begun: bool,
    latest: i64,
    bounds: (i64, i64),
    inputs: usize,
    pub(crate) counts: Counts,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) late: u64,
    pub(crate) windows: u64,
    pub(crate) updates: u64,
    pub(crate) combines: u64,
}

impl Counts {
    /// These windows are on their way out; so many states were joined for them.
    pub(crate) fn emit(&mut self, emitted: &[Emitted], combines: u64) {
        self.combines += combines;
        self.windows += emitted.len() as u64;
        self.updates += emitted.iter().filter(|window| window.update).count() as u64;
    }

    /// With what is held now.
    pub(crate) fn stats(&self, rows: usize, partials: usize, bytes: usize) -> Stats {
        let Self { late, windows, updates, combines } = *self;
        Stats { rows, partials, bytes, combines, late, windows, updates }
    }
}

impl Stream {
    /// The stream of a setting, and empty columns of its partials.
    ///
    /// # Errors
    /// `InvalidValue` for windows that no technique knows, or a lateness below zero.
    pub(crate) fn new(name: &'static str, setting: Setting) -> Result<(Self, Vec<Box<dyn Partials>>)> {
        let Setting { windows, own, order, lateness, partials } = setting;
        if lateness < 0 {
            return Err(Error::InvalidValue(format!(
                "allowed_lateness: {lateness} is below zero; allowed are zero and above"
            )));
        }
        if !own.is_empty() {
            return Err(refused(
                name,
                "user-defined window",
                "only cutty slices at any edge",
                "tumbling, sliding and session windows, and windows of a number of rows",
            ));
        }
        let (mut sliding, mut sessions, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        let mut arrivals = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            match window {
                Window::Sliding(window) => sliding.push((number as u32, *window)),
                Window::Session(session) => sessions.push((number as u32, *session)),
                Window::Counted(counts) => counted.push((number as u32, *counts)),
                Window::Arrivals(window) if name == "wid" => arrivals.push((number as u32, *window)),
                other => {
                    let why = match other.needs_rows() {
                        true => "its start depends on later rows, and a technique sees only times and values",
                        false => {
                            "the paper's experiments have none, and tumbling and sliding windows stand for those over \
                             time (§6.1)"
                        }
                    };
                    let allowed = "tumbling, sliding and session windows, and windows of a number of rows";
                    return Err(refused(name, "window of this type", why, allowed));
                }
            }
        }
        let bounds = Edges::of(&windows).bounds();
        let stream = Self {
            name,
            sliding,
            sessions,
            counted,
            arrivals,
            order,
            lateness,
            watermark: i64::MIN,
            begun: false,
            latest: i64::MIN,
            bounds,
            inputs: partials.len(),
            counts: Counts::default(),
        };
        Ok((stream, partials))
    }

    pub(crate) fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Windows over time that end here or before have expired, and sessions that end before.
    pub(crate) fn expired(&self) -> i64 {
        self.watermark.saturating_sub(self.lateness)
    }

    /// Whether no row can come before one of this time any more.
    pub(crate) fn is_final(&self, t: i64) -> bool {
        self.begun && t <= self.watermark
    }

    /// The first of these ascending times that is not final.
    pub(crate) fn final_rows(&self, times: &[i64]) -> usize {
        if self.begun { times.partition_point(|&t| t <= self.watermark) } else { 0 }
    }

    /// No row comes before this time any more: one that does is too late, or was promised not to come.
    pub(crate) fn floor(&self) -> i64 {
        match self.order {
            Order::InOrder => self.watermark,
            Order::OutOfOrder => self.cutoff(),
        }
    }

    /// Checks rows before anything of them is taken in.
    pub(crate) fn check(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<()> {
        if keys.len() != times.len() || inputs.len() != self.inputs {
            return Err(Error::Internal(format!(
                "{}: {} keys, {} times and {} inputs, of {} partials",
                self.name,
                keys.len(),
                times.len(),
                inputs.len(),
                self.inputs
            )));
        }
        let (least, most) = self.bounds;
        if let Some(t) = times.iter().find(|&&t| t < least || t > most) {
            return Err(Error::Overflow(format!(
                "time: {t} is too close to the limit of int64 for its windows; allowed are values from \
                 {least} to {most}"
            )));
        }
        if self.order == Order::InOrder {
            let mut before = self.latest.max(self.watermark);
            for &t in times {
                if t < before {
                    return Err(Error::InvalidValue(format!(
                        "time: {t} comes after {before}; allowed are rows in order, as was said of this stream"
                    )));
                }
                before = t;
            }
            self.latest = before;
        }
        Ok(())
    }

    /// Moves the watermark; the one before is returned.
    pub(crate) fn advance(&mut self, watermark: i64) -> Result<i64> {
        if watermark < self.watermark {
            return Err(Error::InvalidValue(format!(
                "watermark: {watermark} is before the last one, {}; a watermark never steps back",
                self.watermark
            )));
        }
        self.begun = true;
        Ok(std::mem::replace(&mut self.watermark, watermark))
    }

    /// The least time of a row that is not too late: that of the earliest window, as a row alone would open it, which has
    /// not expired.
    pub(crate) fn cutoff(&self) -> i64 {
        if self.watermark == i64::MIN {
            return i64::MIN;
        }
        let (least, most) = self.bounds;
        let horizon = self.expired();
        let sliding = self.sliding.iter().map(|(_, window)| match horizon > most {
            true => i64::MAX,
            false => window.first_covering(horizon.max(least)),
        });
        let sessions = self.sessions.iter().map(|(_, session)| horizon.saturating_sub(session.gap()));
        // Windows of a number of rows expire with their last row.
        let counted = self.counted.iter().map(|_| horizon);
        let arrivals = self.arrivals.iter().map(|(_, window)| horizon.saturating_sub(window.size() - 1));
        sliding.chain(sessions).chain(counted).chain(arrivals).min().unwrap_or(horizon)
    }

    /// The final windows over time that a late row at `t` changes: which of [`Stream::sliding`], and the start.
    pub(crate) fn changed(&self, t: i64) -> impl Iterator<Item = (usize, i64)> + use<'_> {
        let (watermark, expired) = (self.watermark, self.expired());
        self.sliding.iter().enumerate().flat_map(move |(which, (_, window))| {
            let ends = move |start: &i64| {
                let end = window.extent(*start).1;
                expired < end && end <= watermark
            };
            window.wids(t).filter(ends).map(move |start| (which, start))
        })
    }

    /// `at` as near as windows' edges can be to the ends of int64.
    pub(crate) fn within(&self, at: i64) -> i64 {
        // The bounds leave room for two reaches at either end; edges lie within one of them.
        let reach = (i64::MAX - self.bounds.1) / 2;
        at.clamp(i64::MIN + reach, i64::MAX - reach)
    }

    /// The start of the first window that has not expired: rows before it are in none that has not.
    pub(crate) fn first_kept(&self) -> Option<i64> {
        let expired = self.within(self.expired());
        self.sliding.iter().map(|(_, window)| window.first_covering(expired)).min()
    }
}

/// Calls `each` with start, end and range of the windows with an entry that end after `since` and not after `until`.
/// Entries ascend by their `time`.
///
/// O(log n) per window of n entries; windows without any are skipped.
pub(crate) fn ready<T>(
    window: &Sliding,
    entries: &[T],
    time: impl Fn(&T) -> i64,
    since: i64,
    until: i64,
    mut each: impl FnMut(i64, i64, usize, usize),
) {
    let Some(first) = entries.first().map(&time) else { return };
    let mut start = window.first_covering(first).max(window.first_covering(since));
    let mut lo = 0;
    loop {
        let end = start + window.size();
        if end > until {
            return;
        }
        lo += entries[lo..].partition_point(|entry| time(entry) < start);
        let Some(next) = entries.get(lo).map(&time) else { return };
        if next >= end {
            start = window.first_covering(next);
            continue;
        }
        each(start, end, lo, lo + entries[lo..].partition_point(|entry| time(entry) < end));
        start += window.slide();
    }
}
