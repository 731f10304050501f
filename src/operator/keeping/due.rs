//! Which windows of a key are due: those that a watermark makes final, and final ones that late rows change.
//!
//! A key's windows are a function of its sorted rows. So they are listed anew from the first row that a call changes, or
//! that some window which is not final may have, and compared with what was final before the call.
//!
//! When a window is final: one by time once the watermark is not before its end (a session: past it); the last rows of
//! each stretch of time once it is not before the stretch's end; one by rows once it is not before its last row, since
//! rows tie by arrival; one by punctuation once it is not before the mark that closes it.

use arrow_array::ArrayRef;

use super::line::Line;
use super::told::{Final, Numbered, Reopened, Told, matched};
use crate::Result;
use crate::slice::gallop;
use crate::window::{Class, Counted, KeyRows, LastRows, LastTime, Listed, Session, User, Window};

/// A window on its way out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) window: usize,
    pub(super) key: u32,
    /// Places of its rows: `lo..hi`; none of a window that is no more.
    pub(super) lo: usize,
    pub(super) hi: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    /// Ranks of its rows.
    pub(super) ranks: (u64, u64),
    /// Its number, if it is told by rows.
    pub(super) number: i64,
    pub(super) update: bool,
}

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The watermark before it.
    pub(super) before: Option<i64>,
    /// The watermark after it.
    pub(super) now: Option<i64>,
    /// Windows that ended at or before this have expired.
    pub(super) horizon: Option<i64>,
    /// Rows that come are at or after this, and come after those there are of that time.
    pub(super) floor: Option<i64>,
    /// The arrival number of its first row.
    pub(super) base: u64,
    /// Whether the stream ends.
    pub(super) closing: bool,
}

impl Call {
    /// Whether the watermark is not before this time, if there is one.
    pub(super) fn has_reached(&self, time: Option<i64>) -> bool {
        time.is_some_and(|time| self.now.is_some_and(|now| time <= now))
    }
}

/// The places of a call's rows among a key's, ascending.
#[derive(Debug, Clone, Copy)]
pub(super) enum News<'a> {
    /// All from this one on.
    From(usize),
    /// These.
    At(&'a [usize]),
}

impl News<'_> {
    /// The first of `rows` rows that is new, or their number.
    fn first(&self, rows: usize) -> usize {
        match self {
            News::From(from) => *from,
            News::At(places) => places.first().copied().unwrap_or(rows),
        }
    }

    /// How many lie before this place.
    fn before(&self, place: usize) -> usize {
        match self {
            News::From(from) => place.saturating_sub(*from),
            News::At(places) => places.partition_point(|&row| row < place),
        }
    }
}

/// What a listing comes to, beside what is due.
pub(super) struct Listing<'a> {
    pub(super) due: &'a mut [Vec<Due>],
    pub(super) told: Vec<Told>,
    pub(super) numbers: Vec<Numbered>,
    pub(super) reopened: Vec<Reopened>,
    /// Edges of windows that the call made final or changed.
    pub(super) edges: Vec<usize>,
    /// Edges before this place are as they were.
    pub(super) from: usize,
    /// Whether some edge is none any longer.
    pub(super) is_shrunk: bool,
}

impl Listing<'_> {
    /// An edge is none any longer.
    pub(super) fn drop_edge(&mut self, edge: usize) {
        self.from = self.from.min(edge);
        self.is_shrunk = true;
    }
}

/// A key's rows of one query, and what a call did to them.
pub(super) struct View<'a> {
    pub(super) query: usize,
    pub(super) window: usize,
    pub(super) key: u32,
    pub(super) line: &'a Line,
    /// Place of the query's first row.
    pub(super) offset: usize,
    pub(super) since: Option<i64>,
    /// Rank of the query's first row that is there.
    pub(super) base: u64,
    pub(super) times: &'a [i64],
    /// Places of the new rows among these.
    pub(super) news: News<'a>,
    /// Whether rows that were there lie where they lay, before all new ones, so that no window that was final is another.
    pub(super) is_appended: bool,
    pub(super) call: Call,
}

impl View<'_> {
    /// Place of the first new row.
    pub(super) fn changed(&self) -> usize {
        self.news.first(self.times.len())
    }

    fn has_new(&self, lo: usize, hi: usize) -> bool {
        self.news.before(lo) < self.news.before(hi)
    }

    pub(super) fn upto(&self, t: Option<i64>) -> usize {
        t.map_or(0, |t| self.times.partition_point(|&time| time <= t))
    }

    /// How many rows were final before the call: no row can come before them.
    fn told_rows(&self) -> usize {
        let upto = self.upto(self.call.before);
        upto - self.news.before(upto)
    }

    /// How many are final now.
    pub(super) fn final_rows(&self) -> usize {
        if self.call.closing { self.times.len() } else { self.upto(self.call.now) }
    }

    /// The time at which the next row is final.
    pub(super) fn next_row(&self) -> Option<i64> {
        self.times.get(self.final_rows()).copied()
    }

    fn due(&self, lo: usize, hi: usize, (start, end): (i64, i64), update: bool) -> Due {
        Due {
            window: self.window,
            key: self.key,
            lo: self.offset + lo,
            hi: self.offset + hi,
            start,
            end,
            ranks: (self.base + lo as u64, self.base + hi as u64),
            number: 0,
            update,
        }
    }

    /// Windows over time: they end when the watermark says so, and are changed by the rows they have.
    pub(super) fn by_time(
        &self,
        kind: &Window,
        columns: &[ArrayRef],
        out: &mut Listing<'_>,
    ) -> Result<Option<i64>> {
        if let Window::User(user) = kind
            && !self.is_appended
        {
            out.from = out.from.min(self.offset + self.first_within(user.window().longest()));
        }
        let mut listed = Vec::new();
        kind.list(&KeyRows { times: self.times, columns }, self.since_row(kind), &mut listed)?;
        let session = if let Window::Session(session) = kind { Some(session) } else { None };
        let mut next = None;
        for Listed { lo, hi, start, end } in listed {
            let (lo, hi) = (lo as usize, hi as usize);
            if self.since.is_some_and(|since| start <= since) {
                continue;
            }
            if matches!(kind, Window::User(_)) {
                out.edges.extend([self.offset + lo, self.offset + hi]);
            }
            let end_of_wait = if matches!(kind, Window::Global(_)) { i64::MAX } else { end };
            let is_over = |watermark: i64| match session {
                // A row exactly on the end still joins.
                Some(_) => end < watermark,
                None => end_of_wait <= watermark,
            };
            if self.call.before.is_some_and(is_over) {
                if self.has_new(lo, hi) && !self.call.horizon.is_some_and(is_over) {
                    out.due[self.query].push(self.due(lo, hi, (start, end), true));
                }
                continue;
            }
            let told = session.is_some_and(|session| self.was_told(session, lo, hi, &mut out.reopened));
            if self.call.now.is_some_and(is_over) {
                out.due[self.query].push(self.due(lo, hi, (start, end), told));
                continue;
            }
            if told {
                out.reopened.push(Reopened { query: self.query, window: self.window, at: self.times[lo] });
            }
            let over = end_of_wait.saturating_add(i64::from(session.is_some()));
            next = earlier(next, Some(over));
        }
        Ok(next)
    }

    /// The first row from which on windows must be listed: those before have none that is not final or has changed.
    fn since_row(&self, kind: &Window) -> usize {
        let Some(before) = self.call.before else { return 0 };
        let reach = match kind {
            Window::Sliding(sliding) => sliding.size(),
            Window::Session(session) => session.gap(),
            Window::Landmark(landmark) => landmark.every(),
            Window::User(user) => match user.window().longest() {
                Some(longest) => longest,
                None => return 0,
            },
            _ => return 0,
        };
        let from = before.saturating_sub(reach);
        self.changed().min(self.times.partition_point(|&time| time < from))
    }

    /// The first row that is in a window of this length, or any length, with a row that the call changed or one after it.
    fn first_within(&self, length: Option<i64>) -> usize {
        match (self.times.get(self.changed()), length) {
            (Some(&time), Some(length)) => {
                self.times.partition_point(|&other| other < time.saturating_sub(length))
            }
            (None, Some(_)) => self.times.len(),
            (_, None) => 0,
        }
    }

    /// Whether rows of this session, which is not over before the call, were in one that was. What is noted of them is
    /// taken out.
    fn was_told(&self, session: &Session, lo: usize, hi: usize, reopened: &mut Vec<Reopened>) -> bool {
        let known = reopened.len();
        reopened.retain(|each| {
            (each.query, each.window) != (self.query, self.window)
                || !(self.times[lo]..=self.times[hi - 1]).contains(&each.at)
        });
        if reopened.len() < known {
            return true;
        }
        let Some(before) = self.call.before else { return false };
        if !self.has_new(lo, hi) {
            return false;
        }
        // Sessions of the rows that were there.
        let mut last: Option<i64> = None;
        for place in lo..hi {
            if self.line.ats[self.offset + place] >= self.call.base {
                continue;
            }
            let time = self.times[place];
            if let Some(last) = last
                && !session.joins(last, time)
                && last.saturating_add(session.gap()) < before
            {
                return true;
            }
            last = Some(time);
        }
        last.is_some_and(|last| last.saturating_add(session.gap()) < before)
    }

    /// Windows of a number of rows. A row put in shifts all that follow, so that each window that ends after it is
    /// another.
    pub(super) fn counted(&self, kind: &Counted, out: &mut Listing<'_>) -> Option<i64> {
        let (size, slide) = (kind.size() as u64, kind.slide() as u64);
        let rank = |row: usize| self.base + row as u64;
        let (told, changed) = (rank(self.told_rows()), rank(self.changed()));
        let (final_end, end) = (rank(self.final_rows()), rank(self.times.len()));
        let unchanged = told.min(changed);
        let mut k = if unchanged < size { 0 } else { (unchanged - size) / slide + 1 };
        loop {
            let (lo, hi) = (k * slide, k * slide + size);
            k += 1;
            let partial = hi > end && lo < end && self.call.closing && kind.partial();
            if hi > final_end && !partial {
                break;
            }
            if hi <= told && hi <= changed {
                continue;
            }
            let (lo, hi) = ((lo - self.base) as usize, (hi.min(end) - self.base) as usize);
            let update = !partial && rank(hi) <= told;
            out.due[self.query].push(self.due(lo, hi, (self.times[lo], self.times[hi - 1]), update));
        }
        self.next_row()
    }

    /// The last time at every n-th row.
    pub(super) fn last_time(&self, kind: &LastTime, out: &mut Listing<'_>) -> Option<i64> {
        let rows = kind.rows() as u64;
        let rank = |row: usize| self.base + row as u64;
        let (told, changed) = (rank(self.told_rows()), rank(self.changed()));
        if !self.is_appended {
            out.from = out.from.min(self.offset + self.first_within(Some(kind.size())));
        }
        let mut hi = (told.min(changed) / rows + 1) * rows;
        while hi <= rank(self.final_rows()) {
            let last = (hi - self.base) as usize - 1;
            let (lo, _) = kind.extent(last, self.times);
            out.edges.push(self.offset + lo);
            let extent = (self.times[last] - kind.size(), self.times[last]);
            out.due[self.query].push(self.due(lo, last + 1, extent, hi <= told));
            hi += rows;
        }
        self.next_row()
    }

    /// The last n rows of each stretch of time.
    pub(super) fn last_rows(&self, kind: &LastRows, out: &mut Listing<'_>) -> Option<i64> {
        let changed = self.changed();
        if !self.is_appended {
            out.from = out.from.min(self.offset + changed.saturating_sub(kind.rows()));
        }
        // The stretch of the first row that changed, or that was not final.
        let is_over = |time: i64| self.call.before.is_some_and(|before| kind.edge_after(time) <= before);
        let first = changed.min(self.times.partition_point(|&time| is_over(time)));
        let mut row = self.times.get(first).map_or(first, |&time| {
            let edge = kind.edge_after(time);
            self.times.partition_point(|&other| kind.edge_after(other) < edge)
        });
        let mut next = None;
        while let Some(&time) = self.times.get(row) {
            let (edge, first) = (kind.edge_after(time), row);
            row += gallop(&self.times[row..], |&time| time < edge);
            if !self.call.now.is_some_and(|now| edge <= now) {
                next = earlier(next, Some(edge));
                continue;
            }
            let lo = row.saturating_sub(kind.rows());
            out.edges.push(self.offset + lo);
            let was_final = is_over(time);
            let told = was_final && self.news.before(row) - self.news.before(first) < row - first;
            // A row put in shifts the ranks of all that follow.
            if !was_final || row > changed {
                out.due[self.query].push(self.due(lo, row, (self.times[lo], self.times[row - 1]), told));
            }
        }
        next
    }

    /// The window told by rows, `lo..hi`.
    pub(super) fn told_by_rows(&self, lo: usize, hi: usize) -> Final {
        let (first, last) = (self.offset + lo, self.offset + hi - 1);
        Final { lo, hi, time: self.times[lo], first: self.line.ats[first], last: self.line.ats[last] }
    }

    /// What is noted of a window told by rows.
    pub(super) fn as_told(&self, &Final { lo, hi, time, first, last }: &Final, number: i64) -> Told {
        Told { query: self.query, window: self.window, number, time, first, last, rows: (hi - lo) as u32 }
    }

    /// Compares windows told by rows with those that were handed out, has what is other handed out, and says which number
    /// each has.
    pub(super) fn compare(
        &self,
        told: &[Told],
        finals: &[Final],
        out: &mut Listing<'_>,
    ) -> Vec<(usize, i64)> {
        let own = |each: &Numbered| (each.query, each.window) == (self.query, self.window);
        let at = out.numbers.iter().position(own);
        let at = at.unwrap_or_else(|| {
            out.numbers.push(Numbered { query: self.query, window: self.window, next: 0, from: None });
            out.numbers.len() - 1
        });
        let next = &mut out.numbers[at].next;
        let is_within = |told: &Told, each: &Final| {
            let (first, last) = ((each.time, each.first), (self.times[each.hi - 1], each.last));
            first <= (told.time, told.first) && (told.time, told.first) <= last
        };
        let found = matched(told, finals, next, is_within);
        let due = &mut out.due[self.query];
        for (at, number, update) in found.due {
            let Final { lo, hi, .. } = finals[at];
            let extent = (self.times[lo], self.times[hi - 1]);
            due.push(Due { number, ..self.due(lo, hi, extent, update) });
        }
        due.extend(found.gone.into_iter().map(|number| Due { number, ..self.due(0, 0, (0, 0), true) }));
        found.told
    }
}

/// The earlier of two times, if there are any.
pub(super) fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether a user's window type is one by time: its windows are told in advance, by start and end.
pub(super) fn is_calendar(kind: &User) -> bool {
    let traits = kind.window().traits();
    traits.class == Class::ContextFree && !traits.count
}
