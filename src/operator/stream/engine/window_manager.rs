//! The window manager (Traub et al. 2019, §5.3): which windows are ready, as a watermark makes them final or late rows change
//! them after that. What they contain is computed by `answers`, from slices.

use super::call::Ingested;
use super::horizon::{Horizon, WatermarkMove};
use super::reopened::Reopened;
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::plan::Plan;
use crate::operator::progress::Ahead;
use crate::operator::stream::outgoing::Outgoing;
use crate::operator::stream::queries::Queries;
use crate::operator::stream::sharing::ClassGroup;
use crate::slice::Timelines;
use crate::slice::strategy::Order;
use crate::state::{Reader, Writer, broken};
use crate::window::{ByTime, Cursor, Ending, Listed, Spans};

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
}

impl WindowManager {
    /// The manager of windows of these classes, where the stream has come to this watermark.
    pub(super) fn new(queries: &Queries, order: Order, group: &ClassGroup, watermark: Option<i64>) -> Self {
        Self { horizon: Horizon::new(queries, order, group, watermark), reopened: Reopened::default() }
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

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        self.reopened.keep_keys(kept);
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) {
        self.reopened.clear();
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
            for key in keys.clone() {
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
