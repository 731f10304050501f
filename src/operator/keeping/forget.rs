//! What is kept, and for how long: rows that no row and no window to come needs are forgotten, slice by slice.

use super::Keeper;
use super::due::is_calendar;
use super::line::Line;
use super::told::Numbered;
use crate::operator::stream::Asked;
use crate::slice::strategy::Order;
use crate::window::Window;

/// Keys of which nothing is left that may gather before they are forgotten.
const IDLE_KEYS: usize = 4096;

impl Keeper {
    /// The least time of a row that is taken: that of the earliest window, as a row alone would open it, which has not
    /// expired. None while every row is taken.
    ///
    /// Windows by rows expire with their last row, so that for them it is the time at which windows expire.
    pub(in crate::operator) fn cutoff(&self) -> Option<i64> {
        let horizon = self.watermark?.saturating_sub(self.options.allowed_lateness);
        let (least, most) = self.queries.edges().bounds();
        let within = horizon.clamp(least, most);
        let alive = |asked: &Asked, window: &Window| {
            let alive = match window {
                _ if horizon > most => horizon,
                Window::Sliding(sliding) => sliding.first_covering(within),
                Window::Session(session) => horizon.saturating_sub(session.gap()),
                Window::Band(band) if horizon < band.extent().1 => horizon.min(band.extent().0),
                Window::Landmark(landmark) => {
                    let first = landmark.first_wid(within);
                    first.map_or(horizon, |(_, end)| horizon.min(end - landmark.every()))
                }
                // The stretch of time that has not ended.
                Window::LastRows(last) => last.edge_after(within) - last.every(),
                Window::Global(_) => i64::MIN,
                Window::User(user) if is_calendar(user) => {
                    user.window().longest().map_or(horizon, |longest| horizon.saturating_sub(longest))
                }
                _ => horizon,
            };
            asked.since.map_or(alive, |since| alive.max(since.saturating_add(1)))
        };
        let windows = self.queries.asked().iter();
        windows
            .flat_map(|asked| asked.plan.windows().iter().map(move |(_, window)| alive(asked, window)))
            .min()
    }

    /// Rows that come are at or after this time, and rows before it are in no window that is still to be told but as the
    /// watermark has found them.
    pub(super) fn floor(&self) -> Option<i64> {
        let (watermark, cutoff) = (self.watermark?, self.cutoff()?);
        Some(match self.options.order {
            Order::InOrder => watermark,
            // Queries that came late may take no row before them, and yet the watermark is behind them: what it has not
            // reached is in windows that are not told.
            Order::OutOfOrder => cutoff.min(watermark),
        })
    }

    /// Forgets what is not needed of each key, once that is worth it: `rows` came with this call.
    pub(super) fn forget(&mut self, rows: u64) {
        self.unswept += rows;
        // As much work as there are keys and rows, at most.
        if rows > 0 && 8 * self.unswept < self.kept.max(self.lines.len()) as u64 {
            return;
        }
        self.unswept = 0;
        let (Some(watermark), Some(floor)) = (self.watermark, self.floor()) else { return };
        let horizon = watermark.saturating_sub(self.options.allowed_lateness);
        let mut lines = std::mem::take(&mut self.lines);
        for (key, line) in lines.iter_mut().enumerate() {
            if line.len() > 0 {
                self.forget_of(key as u32, line, horizon, floor);
            }
        }
        self.lines = lines;
        self.kept = self.lines.iter().map(Line::len).sum();
        self.forget_points(floor);
        let done = self.lines.iter().filter(|line| line.is_done()).count();
        if done > IDLE_KEYS && done > self.lines.len() / 2 {
            self.drop_keys();
        }
    }

    /// Gives keys of which something is left new numbers, and forgets the others.
    fn drop_keys(&mut self) {
        let mut is_live: Vec<bool> = self.lines.iter().map(|line| !line.is_done()).collect();
        for key in self.points.iter().filter_map(|point| point.key) {
            is_live[key as usize] = true;
        }
        let live: Vec<u32> =
            (0..).zip(&is_live).filter_map(|(key, &is_live)| is_live.then_some(key)).collect();
        if !self.keys.keep(&live) {
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        self.lines = live.iter().map(|&key| std::mem::take(&mut lines[key as usize])).collect();
        let number = |key: u32| live.partition_point(|&live| live < key) as u32;
        for key in self.points.iter_mut().filter_map(|point| point.key.as_mut()) {
            *key = number(*key);
        }
        self.wait();
    }

    /// Drops punctuations before all rows there are, if none can come before them.
    fn forget_points(&mut self, floor: i64) {
        let first = |line: &Line| line.times.first().copied();
        let all = self.lines.iter().filter_map(first).min().unwrap_or(i64::MAX).min(floor);
        let lines = &self.lines;
        self.points.retain(|point| {
            let least = |line: &Line| first(line).map_or(floor, |own| own.min(floor));
            point.time >= point.key.and_then(|key| lines.get(key as usize)).map_or(all, least)
        });
    }

    fn forget_of(&self, key: u32, line: &mut Line, horizon: i64, floor: i64) {
        let mut needed = line.len();
        for (query, asked) in self.queries.asked().iter().enumerate() {
            let offset = line.first_of(asked.since);
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                let from = self.first_needed(key, line, (query, window, kind), offset, (horizon, floor));
                needed = needed.min(offset + from);
                if let Window::Punctuation(_) = kind
                    && let Some(known) =
                        line.numbers.iter_mut().find(|each| (each.query, each.window) == (query, window))
                {
                    settle(known, &line.times, &line.ats, offset + from);
                    let (known, told) = (*known, &mut line.told);
                    told.retain(|told| {
                        (told.query, told.window) != (query, window)
                            || known.from.is_none_or(|from| (told.time, told.first) >= from)
                    });
                }
            }
        }
        // Whole slices, and many at a time: what is left is moved.
        let slice = match line.slices.partition_point(|slice| slice.lo as usize <= needed) {
            all if needed == line.len() => all,
            after => after.saturating_sub(1),
        };
        let rows = line.slices.get(slice).map_or(line.len(), |slice| slice.lo as usize);
        if 4 * rows >= line.len() && rows > 0 {
            let is_ranked = |asked: &Asked| asked.plan.windows().iter().any(|(_, window)| window.is_ranked());
            line.forget(slice, self.queries.asked().iter().map(|asked| (asked.since, is_ranked(asked))));
        }
        let (first, last) = (line.times.first().copied(), line.times.last().copied());
        line.reopened.retain(|known| {
            first.is_some_and(|first| first <= known.at) && last.is_some_and(|last| known.at <= last)
        });
    }

    /// The first of a query's rows that a window of this type still needs. Rows that come are at or after `floor`, and
    /// come after those there are of that time.
    fn first_needed(
        &self,
        key: u32,
        line: &Line,
        (query, window, kind): (usize, usize, &Window),
        offset: usize,
        (horizon, floor): (i64, i64),
    ) -> usize {
        let times = &line.times[offset..];
        let base = line.gone.get(query).copied().unwrap_or_default();
        let from = |t: i64| times.partition_point(|&time| time < t);
        let after = |t: i64| times.partition_point(|&time| time <= t);
        // Rows that stay where they are.
        let fixed = after(floor);
        match kind {
            Window::Sliding(sliding) => after(horizon.saturating_sub(sliding.size())),
            Window::Session(session) => {
                let mut first = from(floor.min(horizon).saturating_sub(session.gap()));
                while first > 0 && first < times.len() && session.joins(times[first - 1], times[first]) {
                    first -= 1;
                }
                first
            }
            Window::Band(band) if horizon < band.extent().1 => from(band.extent().0),
            Window::Band(_) => times.len(),
            Window::Landmark(landmark) => {
                let (least, most) = self.queries.edges().bounds();
                let end = landmark.first_wid(horizon.min(floor).clamp(least, most));
                end.map_or_else(|| landmark.first().map_or(times.len(), from), |(start, _)| from(start))
            }
            Window::Global(_) => 0,
            Window::Counted(kind) => {
                let needed = kind.first_needed(base + fixed as u64);
                needed.saturating_sub(base).min(times.len() as u64) as usize
            }
            Window::LastTime(kind) => after(floor.saturating_sub(kind.size())),
            Window::LastRows(kind) => fixed.saturating_sub(kind.rows()),
            Window::Punctuation(kind) => {
                let cuts = self.cuts_of(kind, key);
                let begins = |place: &usize| cuts.before(line, offset + place).is_some();
                let own = |each: &&Numbered| (each.query, each.window) == (query, window);
                let settled = line.numbers.iter().find(own);
                let least = settled.map_or(0, |known| known.first_of(line, offset) - offset);
                if fixed > least && cuts.closes(line, offset + fixed - 1) {
                    return fixed;
                }
                (least.max(1)..fixed).rev().find(begins).unwrap_or(least.min(times.len()))
            }
            Window::User(user) => match user.window().longest() {
                Some(longest) if is_calendar(user) => after(floor.min(horizon).saturating_sub(longest)),
                _ => 0,
            },
        }
    }
}

/// Rows before this place are in no window that is listed any longer.
fn settle(known: &mut Numbered, times: &[i64], ats: &[u64], place: usize) {
    let at = place.checked_sub(1).map(|last| (times[last], ats[last] + 1));
    known.from = known.from.max(at);
}
