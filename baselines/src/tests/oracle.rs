//! The definition of windows over a stream, evaluated naively: after each call, every window over all rows taken.
//!
//! A window over time is emitted when the watermark passes its end, and again when a late row is in it. A window of a number of
//! rows is emitted when it is final, and again when it has other rows than it was emitted with.

use std::collections::{BTreeMap, BTreeSet};

use windowkit::window::{Arrivals, Window};

use super::functions::Tested;
use super::{Answers, Row};

/// All rows that were taken, and which of them sessions were emitted with.
pub(super) struct Oracle<'a> {
    windows: &'a [Window],
    lateness: i64,
    watermark: Option<i64>,
    rows: Vec<Row>,
    /// Windows and rows of sessions that were over.
    emitted: BTreeSet<(usize, usize)>,
    /// Rows of the windows of a number of rows that are final, by key, window and first rank.
    counted: BTreeMap<(u32, usize, usize), Vec<usize>>,
    /// Rows that each window which arrivals end accepted, in the order of arrival.
    arrived: BTreeMap<usize, Vec<usize>>,
    /// Rows of those windows that are final, by key, window and number.
    ended: BTreeMap<(u32, usize, usize), Vec<usize>>,
    late: u64,
}

/// Whether a window that ends there is over.
fn past(window: &Window, end: i64, watermark: i64) -> bool {
    if matches!(window, Window::Session(_)) { end < watermark } else { end <= watermark }
}

impl<'a> Oracle<'a> {
    pub(super) fn new(windows: &'a [Window], lateness: i64) -> Self {
        Self {
            windows,
            lateness,
            watermark: None,
            rows: Vec::new(),
            emitted: BTreeSet::new(),
            counted: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ended: BTreeMap::new(),
            late: 0,
        }
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Start and end of the windows over these times, which ascend.
    fn extents(window: &Window, times: &[i64]) -> Vec<(i64, i64)> {
        match window {
            Window::Sliding(window) => {
                let starts: BTreeSet<i64> = times.iter().flat_map(|&t| window.wids(t)).collect();
                starts.into_iter().map(|start| window.extent(start)).collect()
            }
            Window::Session(session) => {
                let sessions = session.windows(times).into_iter();
                sessions.map(|(first, last)| session.extent(first, last)).collect()
            }
            other => unreachable!("{other:?} is not over time, or unknown to all techniques"),
        }
    }

    /// Each key's rows in the order of time and arrival.
    fn keys(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut keys: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            keys.entry(row.0).or_default().push(at);
        }
        keys.values_mut().for_each(|own| own.sort_by_key(|&at| self.rows[at].1));
        keys
    }

    /// The results of functions over rows.
    fn texts(&self, rows: &[usize], functions: &[Tested]) -> Vec<String> {
        let rows: Vec<Row> = rows.iter().map(|&at| self.rows[at]).collect();
        functions.iter().map(|asked| asked.over(&rows)).collect()
    }

    /// Windows of a number of rows that are final and were not emitted with these rows; at the end also unfinished ones.
    fn emit_counted(&mut self, closing: bool, functions: &[Tested]) -> Answers {
        let (mut answers, mut now) = (Answers::new(), BTreeMap::new());
        for (key, own) in self.keys() {
            for (number, window) in self.windows.iter().enumerate() {
                let Window::Counted(kind) = window else { continue };
                for lo in (0..own.len()).step_by(kind.slide()) {
                    let (hi, whole) = ((lo + kind.size()).min(own.len()), lo + kind.size() <= own.len());
                    let last = self.rows[own[hi - 1]].1;
                    let is_final = closing || self.watermark.is_some_and(|watermark| last <= watermark);
                    if !is_final || !(whole || (closing && kind.partial().end)) {
                        continue;
                    }
                    let rows = own[lo..hi].to_vec();
                    let known = self.counted.get(&(key, number, lo));
                    if known != Some(&rows) {
                        let (update, ranks) = (known.is_some(), Some((lo as u64, hi as u64)));
                        let name = (key, number as u32, self.rows[rows[0]].1, last, ranks, update);
                        answers.insert(name, self.texts(&rows, functions));
                    }
                    now.insert((key, number, lo), rows);
                }
            }
        }
        self.counted = now;
        answers
    }

    /// Whether a window that a row alone would open has not expired.
    fn waits_for(&self, t: i64) -> bool {
        let Some(watermark) = self.watermark else { return true };
        let horizon = watermark.saturating_sub(self.lateness);
        let alive = |window: &Window| match window {
            // It ends with its last row, whichever that will be.
            Window::Counted(_) => t >= horizon,
            Window::Arrivals(window) => t > horizon.saturating_sub(window.size()),
            _ => Self::extents(window, &[t]).into_iter().any(|(_, end)| !past(window, end, horizon)),
        };
        self.windows.iter().any(alive)
    }

    /// The windows that are ready; given `fresh` rows, those windows that contain one of them and have not expired, as updates.
    fn emit(
        &mut self,
        ready: impl Fn(&Window, i64) -> bool,
        fresh: Option<usize>,
        functions: &[Tested],
    ) -> Answers {
        let horizon = self.watermark.map(|watermark| watermark.saturating_sub(self.lateness));
        let mut answers = Answers::new();
        for (key, own) in self.keys() {
            let times: Vec<i64> = own.iter().map(|&at| self.rows[at].1).collect();
            for (number, window) in self.windows.iter().enumerate() {
                if matches!(window, Window::Counted(_) | Window::Arrivals(_)) {
                    continue;
                }
                let session = matches!(window, Window::Session(_));
                for (start, end) in Self::extents(window, &times) {
                    if !ready(window, end) {
                        continue;
                    }
                    let inside: Vec<usize> = own
                        .iter()
                        .copied()
                        .filter(|&at| start <= self.rows[at].1 && self.rows[at].1 < end)
                        .collect();
                    let emitted: Vec<(usize, usize)> =
                        inside.iter().filter(|_| session).map(|&at| (number, at)).collect();
                    let mut update = emitted.iter().any(|row| self.emitted.contains(row));
                    self.emitted.extend(emitted);
                    if let Some(fresh) = fresh {
                        let expired = horizon.is_some_and(|horizon| past(window, end, horizon));
                        if expired || inside.iter().all(|&at| at < fresh) {
                            continue;
                        }
                        update = true;
                    }
                    let name = (key, number as u32, start, end, None, update);
                    answers.insert(name, self.texts(&inside, functions));
                }
            }
        }
        answers
    }

    /// Final windows that end at every n-th arrival. Left out are those that were emitted with the same rows before, and
    /// those that had expired before the call. A window has its key's rows in the stretch of time up to the row that ends
    /// it; of rows at that row's own time, it has those that arrived earlier.
    fn emit_arrivals(&mut self, horizon: Option<i64>, closing: bool, functions: &[Tested]) -> Answers {
        let mut answers = Answers::new();
        let keys: BTreeSet<u32> = self.rows.iter().map(|row| row.0).collect();
        for (number, window) in self.windows.iter().enumerate() {
            let Window::Arrivals(kind) = window else { continue };
            for &key in &keys {
                let all = self.arrived.get(&number).map_or(&[][..], Vec::as_slice);
                let own: Vec<usize> = all.iter().copied().filter(|&at| self.rows[at].0 == key).collect();
                for (k, counted) in own.chunks_exact(kind.rows()).enumerate() {
                    let last = counted[kind.rows() - 1];
                    let end = self.rows[last].1;
                    let is_final = closing || self.watermark.is_some_and(|watermark| end <= watermark);
                    if !is_final || horizon.is_some_and(|horizon| end < horizon) {
                        continue;
                    }
                    let rows = Self::up_to(kind, &own, &self.rows, last);
                    let known = self.ended.insert((key, number, k), rows.clone());
                    if known.as_ref() != Some(&rows) {
                        let ranks = Some(((k * kind.rows()) as u64, ((k + 1) * kind.rows()) as u64));
                        let name = (key, number as u32, end - kind.size(), end, ranks, known.is_some());
                        answers.insert(name, self.texts(&rows, functions));
                    }
                }
            }
        }
        answers
    }

    /// The rows of the window that a row ends, in the order of time and arrival.
    fn up_to(kind: &Arrivals, own: &[usize], rows: &[Row], last: usize) -> Vec<usize> {
        let end = rows[last].1;
        let is_inside = |&at: &usize| end - kind.size() < rows[at].1 && (rows[at].1, at) <= (end, last);
        let mut inside: Vec<usize> = own.iter().copied().filter(is_inside).collect();
        inside.sort_by_key(|&at| (rows[at].1, at));
        inside
    }

    /// The time before which windows have expired.
    fn horizon(&self) -> Option<i64> {
        self.watermark.map(|watermark| watermark.saturating_sub(self.lateness))
    }

    pub(super) fn push(&mut self, rows: &[Row], functions: &[Tested]) -> Answers {
        let fresh = self.rows.len();
        for &row in rows {
            if self.waits_for(row.1) {
                for (number, window) in self.windows.iter().enumerate() {
                    let Window::Arrivals(kind) = window else { continue };
                    if self.horizon().is_none_or(|horizon| row.1 > horizon.saturating_sub(kind.size())) {
                        self.arrived.entry(number).or_default().push(self.rows.len());
                    }
                }
                self.rows.push(row);
            } else {
                self.late += 1;
            }
        }
        let watermark = self.watermark;
        let ready =
            |window: &Window, end: i64| watermark.is_some_and(|watermark| past(window, end, watermark));
        let mut answers = self.emit(ready, Some(fresh), functions);
        answers.extend(self.emit_counted(false, functions));
        answers.extend(self.emit_arrivals(self.horizon(), false, functions));
        answers
    }

    pub(super) fn advance(&mut self, watermark: i64, functions: &[Tested]) -> Answers {
        self.reach(watermark, false, functions)
    }

    pub(super) fn close(&mut self, functions: &[Tested]) -> Answers {
        self.reach(i64::MAX, true, functions)
    }

    fn reach(&mut self, watermark: i64, closing: bool, functions: &[Tested]) -> Answers {
        let horizon = self.horizon();
        let before = self.watermark.replace(watermark);
        let ready = |window: &Window, end: i64| {
            past(window, end, watermark) && before.is_none_or(|before| !past(window, end, before))
        };
        let mut answers = self.emit(ready, None, functions);
        answers.extend(self.emit_counted(closing, functions));
        answers.extend(self.emit_arrivals(horizon, closing, functions));
        answers
    }
}
