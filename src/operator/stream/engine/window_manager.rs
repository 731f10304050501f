//! The window manager (Traub et al. 2019, §5.3): which windows are ready, as a watermark makes them final or late rows change
//! them after that. What they contain is computed by `answers`, from slices.

use super::call::Ingested;
use super::due::Due;
use super::horizon::{Horizon, WatermarkMove};
use super::reopened::Reopened;
use crate::Result;
use crate::interrupt::Pace;
use crate::memory::attempted;
use crate::operator::plan::Plan;
use crate::operator::progress::Ahead;
use crate::operator::stream::outgoing::Outgoing;
use crate::operator::stream::queries::{Queries, windows};
use crate::operator::stream::sharing::ClassGroup;
use crate::slice::strategy::Order;
use crate::slice::{Cell, Timelines};
use crate::state::{Reader, Writer, broken};
use crate::window::{ByTime, Cursor, Ending, Listed, Session, Spans};

/// How many simple steps a key takes, even without windows.
const VISIT: usize = 16;

/// Windows that are listed before it is estimated how many there are.
const FEW: usize = 1024;

/// A window type of a plan, given by its number.
struct WindowType<'a> {
    plan: &'a Plan,
    number: usize,
    rules: &'a dyn ByTime,
}

impl WindowType<'_> {
    /// Lists the windows that end over the slices of a key.
    ///
    /// # Errors
    /// `InvalidValue` if there are more than the plan allows.
    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        outgoing: &Outgoing,
        found: &mut Vec<Listed>,
    ) -> Result<()> {
        let Self { plan, number, rules } = *self;
        found.clear();
        rules.list(spans, ending, cursor, FEW, found);
        if found.len() < FEW {
            let listed = found.len() as u64;
            return outgoing.check(plan, number, listed, || listed);
        }
        // They are counted before they take memory.
        outgoing.check(plan, number, rules.at_most(spans.len(), ending), || rules.count(spans, ending))?;
        rules.list(spans, ending, cursor, usize::MAX, found);
        Ok(())
    }
}

/// Windows of a query, a window type and a key that became final, over the slices of the key from number `from` on.
struct Ended<'a> {
    query: usize,
    window: usize,
    key: u32,
    found: &'a [Listed],
    from: usize,
}

impl Ended<'_> {
    /// Adds them to what is emitted; those that were final before, as sessions that late rows reopened, are updates.
    fn add(&self, outgoing: &mut Outgoing, reopened: &mut Reopened, pace: &mut Pace) -> Result<()> {
        let Self { query, window, key, found, from } = *self;
        if reopened.is_empty() {
            outgoing.extend(window, key, from, found, false);
            return Ok(());
        }
        for each in found {
            let update = reopened.take((query, window, key), each, pace)?;
            outgoing.extend(window, key, from, std::slice::from_ref(each), update);
        }
        Ok(())
    }
}

/// What decides which windows are ready.
pub(super) struct WindowManager {
    pub(super) horizon: Horizon,
    /// Sessions that were final, and are open again.
    reopened: Reopened,
    /// By which watermark keys have sessions that may be final, where these are found by time.
    ending: Due,
    /// By which cutoff slices of keys without such sessions may have expired. A key that is in neither has no slices, or has
    /// an entry in `ending` before its first slice can expire.
    expiring: Due,
}

/// The sessions of queries.
fn sessions(queries: &Queries) -> impl Iterator<Item = &Session> {
    windows(queries.registered()).filter_map(|(_, window)| window.merging())
}

impl WindowManager {
    /// The manager of windows of these classes, where the stream has come to this watermark.
    pub(super) fn new(queries: &Queries, order: Order, group: &ClassGroup, watermark: Option<i64>) -> Self {
        Self {
            horizon: Horizon::new(queries, order, group, watermark),
            reopened: Reopened::default(),
            ending: Due::default(),
            expiring: Due::default(),
        }
    }

    /// Looks at the keys of these rows once their sessions may be final: later ones only put that off.
    pub(super) fn see(&mut self, queries: &Queries, cells: &[Cell]) {
        if self.is_found_by_time()
            && let Some(after) = sessions(queries).map(|session| session.final_at(session.gap())).min()
        {
            cells.iter().for_each(|cell| self.ending.put(cell.key, cell.last.saturating_add(after)));
        }
    }

    /// The keys whose sessions a call may have made final that moved the watermark of the stream; `None` if these may be any.
    pub(super) fn keys_found(&self) -> Option<&[u32]> {
        self.is_found_by_time().then(|| self.ending.found())
    }

    /// Commits that keys were found whose sessions may be final, and looks at them again in time.
    pub(super) fn settle(&mut self, queries: &Queries, slices: &Timelines, ahead: &Ahead) {
        let found = self.ending.keep(slices.keys());
        self.look_later_at(queries, slices, &found, ahead);
    }

    /// Looks at a key again once one of its sessions may be final, or once slices may have expired before that.
    fn look_later(&mut self, queries: &Queries, slices: &Timelines, key: u32, ahead: &Ahead) {
        let (spans, watermark) = (slices.of(key), ahead.watermark_of(self.watermark(), key));
        let ends = sessions(queries).filter_map(|session| session.next_final(spans, watermark)).min();
        ends.into_iter().for_each(|ends| self.ending.put(key, ends));
        let expires = queries.widest_gap().and_then(|gap| slices.expires_at(key, gap));
        let expires = expires.filter(|&expires| ends.is_none_or(|ends| expires < ends));
        expires.into_iter().for_each(|expires| self.expiring.put(key, expires));
    }

    /// The keys whose slices may have expired; `None` if these may be any.
    pub(super) fn keys_expired(&mut self, slices: &Timelines) -> Option<Vec<u32>> {
        let cutoff = self.horizon.cutoff().filter(|_| self.is_found_by_time())?;
        if attempted(|| self.expiring.find(cutoff, &mut Pace::new())).is_err() {
            // There is no memory for it.
            self.expiring.take_back();
            return None;
        }
        Some(self.expiring.keep(slices.keys()))
    }

    /// Looks again in time at keys that were found, and of which what was due is done.
    pub(super) fn look_later_at(
        &mut self,
        queries: &Queries,
        slices: &Timelines,
        keys: &[u32],
        ahead: &Ahead,
    ) {
        if !self.is_found_by_time() {
            return self.look_at_all();
        }
        keys.iter().for_each(|&key| self.look_later(queries, slices, key, ahead));
    }

    /// Whether keys whose sessions or slices are over are found by time.
    fn is_found_by_time(&self) -> bool {
        self.ending.is_known() && self.expiring.is_known()
    }

    /// Takes note of how many windows were final in a call that moved the watermark.
    pub(super) fn count(&mut self, ended: u64, slices: &Timelines) {
        self.ending.count(slices.keys(), ended);
    }

    /// Finds keys by time from now on, where there are sessions, and few of many keys are due.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn find_by_time(&mut self, queries: &Queries, slices: &Timelines) -> Result<()> {
        if queries.widest_gap().is_none() || !self.ending.would_pay() {
            return Ok(());
        }
        self.ending.begin();
        self.expiring.begin();
        let mut pace = Pace::new();
        for key in 0..slices.keys() as u32 {
            if let Err(error) = pace.check(VISIT) {
                self.look_at_all();
                return Err(error);
            }
            // Of one that is ahead, this may be early.
            self.look_later(queries, slices, key, &Ahead::default());
        }
        Ok(())
    }

    /// Looks at all keys until they are found by time again.
    pub(super) fn look_at_all(&mut self) {
        self.ending.reset();
        self.expiring.reset();
    }

    /// The watermark of the stream.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.horizon.watermark()
    }

    /// The windows by time that are ready: those that late rows changed after they were final, and those that become final as
    /// the watermark of the stream moves, or that of one key. What the call has reopened is then what is open after it.
    ///
    /// # Errors
    /// `InvalidValue` if there are more than a query allows.
    pub(super) fn list_ready(
        &mut self,
        (queries, slices): (&Queries, &Timelines),
        ingested: &mut Ingested,
        moved: WatermarkMove,
        ahead: &Ahead,
        outgoing: &mut [Outgoing],
    ) -> Result<()> {
        let watermark = self.watermark();
        ingested.reopened.keep_open(queries, slices, |key| ahead.watermark_of(watermark, key));
        self.list_changed((queries, slices), &ingested.late, ahead, outgoing)?;
        ingested.reopened = self.reopened.with(&ingested.reopened);
        self.list_final((queries, slices), moved, ahead, outgoing, &mut ingested.reopened)
    }

    /// Commits a call: what it has reopened, and its watermark. Returns whether that has moved.
    pub(super) fn keep(&mut self, queries: &Queries, reopened: Reopened, watermark: Option<i64>) -> bool {
        self.reopened = reopened;
        self.horizon.advance(queries, watermark)
    }

    /// Forgets reopened sessions without slices.
    pub(super) fn forget(&mut self, slices: &Timelines) {
        self.reopened.forget(slices);
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        self.ending.take_back();
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        self.reopened.keep_keys(kept);
        self.look_at_all();
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) {
        self.reopened.clear();
        self.look_at_all();
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.ending.bytes() + self.expiring.bytes()
    }

    /// Takes over the reopened sessions of another engine, which has the same queries.
    pub(super) fn take_over(&mut self, other: &Self) {
        self.reopened = other.reopened.clone();
    }

    /// Keeps the reopened sessions of queries that stay; `place` says which number each has now.
    pub(super) fn change(&mut self, queries: (&Queries, &Queries), place: impl Fn(usize) -> Option<usize>) {
        self.reopened.change(queries, place);
    }

    /// Writes the reopened sessions; the horizon follows from the watermark.
    pub(super) fn save(&self, to: &mut Writer) {
        to.value(&self.reopened);
    }

    /// Reads what [`WindowManager::save`] wrote, for these queries and so many keys.
    ///
    /// # Errors
    /// `InvalidValue` for anything else.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, queries: &Queries, keys: usize) -> Result<()> {
        self.reopened = from.value()?;
        if self.reopened.is_sound(queries, keys) { Ok(()) } else { broken() }
    }

    /// Windows by time that were final and that late rows changed: `changed` has their keys and times, ascending.
    ///
    /// # Errors
    /// `InvalidValue` if there are more than the query allows.
    fn list_changed(
        &self,
        (queries, slices): (&Queries, &Timelines),
        changed: &[(u32, i64)],
        ahead: &Ahead,
        outgoing: &mut [Outgoing],
    ) -> Result<()> {
        if changed.is_empty() {
            return Ok(());
        }
        let bounds = queries.edges().bounds();
        let (mut times, mut found) = (Vec::new(), Vec::new());
        let mut pace = Pace::new();
        for (registered, outgoing) in queries.registered().iter().zip(outgoing) {
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(window) = window.by_time() else { continue };
                for of_key in changed.chunk_by(|a, b| a.0 == b.0) {
                    let (key, spans) = (of_key[0].0, slices.of(of_key[0].0));
                    // They are late, so there is a watermark.
                    let Some(upto) = ahead.watermark_of(self.watermark(), key) else { continue };
                    let after = self.horizon.expired(Some(upto));
                    let ending = Ending { after, upto, since: registered.since, bounds };
                    let from = registered.first_place(spans);
                    times.clear();
                    times.extend(of_key.iter().map(|&(_, t)| t).filter(|&t| registered.has(t)));
                    let at_most = window.at_most(times.len(), &ending);
                    let count = || window.count(Spans::of_rows(&times), &ending);
                    outgoing.check(&registered.plan, number, at_most, count)?;
                    found.clear();
                    window.list_changed(spans.from(from), &times, &ending, &mut found);
                    outgoing.extend(number, key, from, &found, true);
                    pace.check(VISIT + found.len())?;
                }
            }
        }
        Ok(())
    }

    /// Windows by time that become final as the watermark of the stream moves, or that of one key.
    ///
    /// # Errors
    /// `InvalidValue` if there are more than the query allows.
    fn list_final(
        &mut self,
        (queries, slices): (&Queries, &Timelines),
        moved: WatermarkMove,
        ahead: &Ahead,
        outgoing: &mut [Outgoing],
        reopened: &mut Reopened,
    ) -> Result<()> {
        let is_found = moved.key_watermark.is_none() && !moved.closing && self.is_found_by_time();
        let (watermark, agenda) = (self.horizon.watermark(), &mut self.horizon.agenda);
        let (now, keys) = match (moved.key_watermark, moved.watermark) {
            (Some((key, now)), _) => (now, key..key + 1),
            (None, Some(now)) if moved.watermark > watermark => (now, 0..slices.keys() as u32),
            _ => return Ok(()),
        };
        // Of one key among many, what the agenda knows of the next search is not worth keeping.
        let (is_common, is_only) = (moved.key_watermark.is_none(), keys.len() == 1);
        let bounds = queries.edges().bounds();
        // Where each key's slices begin that the ending windows may contain.
        let mut fresh: Vec<usize> = Vec::new();
        let mut found = Vec::new();
        let mut pace = Pace::new();
        let of_sessions = match is_found {
            true => {
                self.ending.find(now, &mut pace)?;
                Some(self.ending.found())
            }
            false => None,
        };
        for topic in agenda.upto(now) {
            let (query, number) = (topic.query as usize, topic.window as usize);
            let registered = &queries.registered()[query];
            let window = &registered.plan.windows()[number].1;
            let ending = Ending { after: watermark, upto: now, since: registered.since, bounds };
            let Some(rules) = window.by_time().filter(|rules| rules.may_end(&ending)) else { continue };
            if let (Some(_), Some(after), true, true) =
                (topic.sliding, ending.after, fresh.is_empty(), is_common)
            {
                fresh.extend(keys.clone().map(|key| slices.of(key).before(after, usize::MAX)));
            }
            // No others have sessions that end.
            let few = of_sessions.filter(|_| window.merging().is_some());
            for at in 0..few.map_or(keys.len(), <[u32]>::len) {
                let key = few.map_or(keys.start + at as u32, |few| few[at]);
                let spans = slices.of(key);
                let mark = ahead.of(key);
                if spans.is_empty() || mark.is_some_and(|mark| mark >= now) {
                    continue;
                }
                let ending = mark.map_or(ending, |_| Ending { after: mark, ..ending });
                let sliding = topic.sliding.filter(|_| mark.is_none() && is_common);
                let from = registered.first_place(spans);
                let spans = spans.from(from);
                let mut cursor = Cursor::default();
                if let Some(sliding) = sliding {
                    cursor.resume = agenda.start(sliding);
                    cursor.hi = fresh.get(key as usize).map_or(0, |hi| hi.saturating_sub(from));
                    if is_only {
                        let near = agenda.near(sliding).saturating_sub(slices.gone(key)) as usize;
                        cursor.lo = near.saturating_sub(from);
                    }
                }
                let window_type = WindowType { plan: &registered.plan, number, rules };
                window_type.list(spans, &ending, &mut cursor, &outgoing[query], &mut found)?;
                if let Some(sliding) = sliding.filter(|_| is_only) {
                    agenda.set_near(sliding, slices.gone(key) + (from + cursor.lo) as u64);
                }
                pace.check(VISIT + found.len())?;
                let ended = Ended { query, window: number, key, found: &found, from };
                ended.add(&mut outgoing[query], reopened, &mut pace)?;
            }
        }
        Ok(())
    }
}
