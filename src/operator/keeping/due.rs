//! Which windows of a key are due: those that a watermark makes final, and final ones that late rows change.
//!
//! A key's windows are a function of its sorted rows. So they are listed anew from the first row that a call changes, or
//! that some window which is not final may have, and compared with what was final before the call.
//!
//! When a window is final: one by time once the watermark is not before its end (a session: past it); the last rows of
//! each stretch of time once it is not before the stretch's end; one by rows once it is not before its last row, since
//! rows tie by arrival; one by punctuation once it is not before the mark that closes it.

use arrow_array::ArrayRef;

use super::Keeper;
use super::line::Line;
use super::told::{Final, Numbered, Reopened, Told, matched};
use crate::Result;
use crate::operator::stream::Asked;
use crate::window::{
    Class, Counted, KeyRows, LastRows, LastTime, Listed, Mark, Punctuation, Session, User, Window,
};

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
    /// The arrival number of its first row.
    pub(super) base: u64,
    /// Whether the stream ends.
    pub(super) closing: bool,
}

/// Where slices must be cut for windows whose edges were not known when their rows came.
pub(super) type Edges = Vec<usize>;

/// A key's rows of one query, and what a call did to them.
struct View<'a> {
    query: usize,
    window: usize,
    key: u32,
    line: &'a Line,
    /// Place of the query's first row.
    offset: usize,
    since: Option<i64>,
    /// Rank of the query's first row that is there.
    base: u64,
    times: &'a [i64],
    /// Places of the new rows among these, ascending.
    news: &'a [usize],
    call: Call,
}

impl View<'_> {
    /// Place of the first new row.
    fn changed(&self) -> usize {
        self.news.first().copied().unwrap_or(self.times.len())
    }

    fn has_new(&self, lo: usize, hi: usize) -> bool {
        self.news[self.news.partition_point(|&row| row < lo)..].first().is_some_and(|&row| row < hi)
    }

    fn upto(&self, t: Option<i64>) -> usize {
        t.map_or(0, |t| self.times.partition_point(|&time| time <= t))
    }

    /// How many rows were final before the call: no row can come before them.
    fn told_rows(&self) -> usize {
        let upto = self.upto(self.call.before);
        upto - self.news.partition_point(|&row| row < upto)
    }

    /// How many are final now.
    fn final_rows(&self) -> usize {
        if self.call.closing { self.times.len() } else { self.upto(self.call.now) }
    }

    /// The time at which the next row is final.
    fn next_row(&self) -> Option<i64> {
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
    fn by_time(
        &self,
        kind: &Window,
        columns: &[ArrayRef],
        reopened: &mut Vec<Reopened>,
        due: &mut Vec<Due>,
        edges: &mut Edges,
    ) -> Result<Option<i64>> {
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
                edges.extend([self.offset + lo, self.offset + hi]);
            }
            let end_of_wait = if matches!(kind, Window::Global(_)) { i64::MAX } else { end };
            let is_over = |watermark: i64| match session {
                // A row exactly on the end still joins.
                Some(_) => end < watermark,
                None => end_of_wait <= watermark,
            };
            if self.call.before.is_some_and(is_over) {
                if self.has_new(lo, hi) && !self.call.horizon.is_some_and(is_over) {
                    due.push(self.due(lo, hi, (start, end), true));
                }
                continue;
            }
            let told = session.is_some_and(|session| self.was_told(session, lo, hi, reopened));
            if self.call.now.is_some_and(is_over) {
                due.push(self.due(lo, hi, (start, end), told));
                continue;
            }
            if told {
                reopened.push(Reopened { query: self.query, window: self.window, at: self.times[lo] });
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
            Window::LastRows(last) => last.every(),
            _ => return 0,
        };
        let from = before.saturating_sub(reach);
        self.changed().min(self.times.partition_point(|&time| time < from))
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
        let news = &self.news[self.news.partition_point(|&row| row < lo)..];
        let mut news = news.iter().copied().peekable();
        let mut last: Option<i64> = None;
        for place in lo..hi {
            if news.next_if_eq(&place).is_some() {
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
    fn counted(&self, kind: &Counted, due: &mut Vec<Due>) -> Option<i64> {
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
            due.push(self.due(lo, hi, (self.times[lo], self.times[hi - 1]), update));
        }
        self.next_row()
    }

    /// The last time at every n-th row.
    fn last_time(&self, kind: &LastTime, due: &mut Vec<Due>, edges: &mut Edges) -> Option<i64> {
        let rows = kind.rows() as u64;
        let rank = |row: usize| self.base + row as u64;
        let (told, changed) = (rank(self.told_rows()), rank(self.changed()));
        // Those before stay, and so do the edges where they begin.
        let mut hi = (self.base / rows + 1) * rows;
        while hi <= rank(self.final_rows()) {
            let last = (hi - self.base) as usize - 1;
            let (lo, _) = kind.extent(last, self.times);
            edges.push(self.offset + lo);
            if hi > told || hi > changed {
                let extent = (self.times[last] - kind.size(), self.times[last]);
                due.push(self.due(lo, last + 1, extent, hi <= told));
            }
            hi += rows;
        }
        self.next_row()
    }

    /// The last n rows of each stretch of time.
    fn last_rows(&self, kind: &LastRows, due: &mut Vec<Due>, edges: &mut Edges) -> Option<i64> {
        let mut next = None;
        let mut row = 0;
        while let Some(&time) = self.times.get(row) {
            let (edge, first) = (kind.edge_after(time), row);
            row += self.times[row..].iter().take_while(|&&time| time < edge).count();
            if !self.call.now.is_some_and(|now| edge <= now) {
                next = earlier(next, Some(edge));
                continue;
            }
            let lo = row.saturating_sub(kind.rows());
            edges.push(self.offset + lo);
            let was_final = self.call.before.is_some_and(|before| edge <= before);
            let told = was_final && !(first..row).all(|row| self.has_new(row, row + 1));
            // A row put in shifts the ranks of all that follow.
            if !was_final || row > self.changed() {
                due.push(self.due(lo, row, (self.times[lo], self.times[row - 1]), told));
            }
        }
        next
    }

    /// The window told by rows, `lo..hi`.
    fn told_by_rows(&self, lo: usize, hi: usize) -> Final {
        let (first, last) = (self.offset + lo, self.offset + hi - 1);
        Final { lo, hi, time: self.times[lo], first: self.line.ats[first], last: self.line.ats[last] }
    }

    /// Compares the windows told by rows with those that were handed out.
    fn compare(&self, finals: &[Final], known: &mut Known<'_>, due: &mut Vec<Due>) {
        let own = |told: &Told| (told.query, told.window) == (self.query, self.window);
        let told: Vec<Told> = known.told.iter().copied().filter(own).collect();
        let at = known.numbers.iter().position(|each| (each.query, each.window) == (self.query, self.window));
        let at = at.unwrap_or_else(|| {
            known.numbers.push(Numbered { query: self.query, window: self.window, next: 0, from: None });
            known.numbers.len() - 1
        });
        let next = &mut known.numbers[at].next;
        let is_within = |told: &Told, each: &Final| {
            let (first, last) = ((each.time, each.first), (self.times[each.hi - 1], each.last));
            first <= (told.time, told.first) && (told.time, told.first) <= last
        };
        let found = matched(&told, finals, next, is_within);
        for (at, number, update) in found.due {
            let Final { lo, hi, .. } = finals[at];
            let extent = (self.times[lo], self.times[hi - 1]);
            due.push(Due { number, ..self.due(lo, hi, extent, update) });
        }
        due.extend(found.gone.into_iter().map(|number| Due { number, ..self.due(0, 0, (0, 0), true) }));
        known.told.retain(|told| !own(told));
        known.told.extend(found.told.into_iter().map(|(at, number)| {
            let Final { lo, hi, time, first, last } = finals[at];
            let rows = (hi - lo) as u32;
            Told { query: self.query, window: self.window, number, time, first, last, rows }
        }));
    }

    /// Windows between marks.
    fn punctuated(&self, cuts: &Cuts<'_>, known: &mut Known<'_>, due: &mut Vec<Due>) -> Option<i64> {
        let (mut finals, mut next) = (Vec::new(), None);
        let rows = self.times.len();
        let own = |each: &&Numbered| (each.query, each.window) == (self.query, self.window);
        let from = known.numbers.iter().find(own).and_then(|each| each.from);
        let mut lo = from.map_or(0, |from| self.line.place_from(from).saturating_sub(self.offset));
        for row in lo + 1..=rows {
            let closed = cuts.before(self.line, self.offset + row);
            if closed.is_none() && row < rows {
                continue;
            }
            let is_final = self.call.closing
                || closed.is_some_and(|closed| self.call.now.is_some_and(|now| closed <= now));
            if is_final {
                finals.push(self.told_by_rows(lo, row));
            } else {
                next = earlier(next, closed);
            }
            lo = row;
        }
        self.compare(&finals, known, due);
        next
    }

    /// A user's own windows that rows tell: over the rows that no other can come before.
    fn of_user(
        &self,
        kind: &User,
        columns: &[ArrayRef],
        known: &mut Known<'_>,
        due: &mut Vec<Due>,
        edges: &mut Edges,
    ) -> Result<Option<i64>> {
        let rows = self.final_rows();
        let mut listed = Vec::new();
        if rows > 0 {
            let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(0, rows)).collect();
            let rows = KeyRows { times: &self.times[..rows], columns: &columns };
            kind.list_so_far(&rows, self.call.closing, &mut listed)?;
        }
        listed.sort_unstable_by_key(|each| (each.lo, each.hi));
        listed.dedup_by_key(|each| (each.lo, each.hi));
        let finals: Vec<Final> =
            listed.iter().map(|each| self.told_by_rows(each.lo as usize, each.hi as usize)).collect();
        edges.extend(finals.iter().flat_map(|each| [self.offset + each.lo, self.offset + each.hi]));
        self.compare(&finals, known, due);
        Ok(self.next_row())
    }
}

/// What is known of a key's windows that were handed out.
struct Known<'a> {
    told: &'a mut Vec<Told>,
    numbers: &'a mut Vec<Numbered>,
}

fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A punctuation by a call: between the rows that had come by then, up to its time, and all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) time: i64,
    /// The arrival number of the next row then.
    pub(super) at: u64,
    /// Whose; every key's if there is none.
    pub(super) key: Option<u32>,
}

/// Where marks and punctuations cut a key's rows.
pub(super) struct Cuts<'a> {
    pub(super) points: &'a [Point],
    pub(super) key: u32,
    pub(super) mark: Mark,
    /// The bit of the column of marks.
    pub(super) bit: u32,
}

impl Cuts<'_> {
    fn marked(&self, line: &Line, place: usize) -> bool {
        line.marks[place] >> self.bit & 1 == 1
    }

    /// Whether the row at this place is marked as the last of its window, so that no other can come after it.
    pub(super) fn closes(&self, line: &Line, place: usize) -> bool {
        self.mark == Mark::End && self.marked(line, place)
    }

    /// Whether there is a cut before the row at this place, or after the last; the time of what cuts first.
    pub(super) fn before(&self, line: &Line, place: usize) -> Option<i64> {
        let mark = match self.mark {
            Mark::End => self.marked(line, place - 1).then(|| line.times[place - 1]),
            Mark::Start => (place < line.len() && self.marked(line, place)).then(|| line.times[place]),
        };
        if self.points.is_empty() {
            return mark;
        }
        let before = (line.times[place - 1], line.ats[place - 1]);
        let after = (place < line.len()).then(|| (line.times[place], line.ats[place]));
        // A row of its time that came before it lies before it.
        let from = self.points.partition_point(|point| (point.time, point.at) <= before);
        let point = self.points[from..]
            .iter()
            .take_while(|point| after.is_none_or(|after| (point.time, point.at) <= after))
            .find(|point| point.key.is_none_or(|key| key == self.key))
            .map(|point| point.time);
        earlier(mark, point)
    }
}

/// Whether a user's window type is one by time: its windows are told in advance, by start and end.
pub(super) fn is_calendar(kind: &User) -> bool {
    let traits = kind.window().traits();
    traits.class == Class::ContextFree && !traits.count
}

impl Keeper {
    /// Where a punctuation window cuts a key's rows.
    pub(super) fn cuts(&self, kind: &Punctuation, key: u32) -> Cuts<'_> {
        let bit = self.mark_columns.iter().position(|&column| column == kind.column());
        Cuts { points: &self.points, key, mark: kind.mark(), bit: bit.unwrap_or_default() as u32 }
    }

    /// Lists what is due of a key, query by query, notes what is told, and when there is more. `news` are the places of
    /// the call's rows.
    pub(super) fn list(
        &self,
        key: u32,
        line: &mut Line,
        news: &[usize],
        call: Call,
        due: &mut [Vec<Due>],
    ) -> Result<Edges> {
        let (mut told, mut numbers) = (std::mem::take(&mut line.told), std::mem::take(&mut line.numbers));
        let mut reopened = std::mem::take(&mut line.reopened);
        let (mut next, mut edges) = (None, Vec::new());
        let mut own_news = Vec::new();
        let result = self.queries.asked().iter().enumerate().try_for_each(|(query, asked)| {
            let offset = line.first_of(asked.since);
            own_news.clear();
            own_news.extend(news.iter().filter(|&&row| row >= offset).map(|row| row - offset));
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                let view = View {
                    query,
                    window,
                    key,
                    line,
                    offset,
                    since: asked.since,
                    base: line.gone.get(query).copied().unwrap_or_default(),
                    times: &line.times[offset..],
                    news: &own_news,
                    call,
                };
                let due = &mut due[query];
                let mut known = Known { told: &mut told, numbers: &mut numbers };
                let later = match kind {
                    Window::Counted(kind) => view.counted(kind, due),
                    Window::LastTime(kind) => view.last_time(kind, due, &mut edges),
                    Window::LastRows(kind) => view.last_rows(kind, due, &mut edges),
                    Window::Punctuation(kind) => view.punctuated(&self.cuts(kind, key), &mut known, due),
                    Window::User(user) => {
                        let columns = self.read_for(asked, kind, &line.ats[offset..])?;
                        match is_calendar(user) {
                            true => view.by_time(kind, &columns, &mut reopened, due, &mut edges)?,
                            false => view.of_user(user, &columns, &mut known, due, &mut edges)?,
                        }
                    }
                    _ => view.by_time(kind, &[], &mut reopened, due, &mut edges)?,
                };
                next = earlier(next, later);
            }
            Ok(())
        });
        told.sort_unstable_by_key(|told| (told.query, told.window, told.time, told.first));
        (line.told, line.numbers, line.reopened, line.due) = (told, numbers, reopened, next);
        result.map(|()| edges)
    }

    fn read_for(&self, _: &Asked, kind: &Window, ats: &[u64]) -> Result<Vec<ArrayRef>> {
        kind.columns().into_iter().map(|column| self.heap.column(column, ats)).collect()
    }
}
