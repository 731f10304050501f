//! Early results: windows that are not final and contain pending rows.

use super::Engine;
use super::call::{Move, Outcome};
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::policy::Share;
use crate::operator::stream::ahead::Reach;
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::outgoing::Outgoing;
use crate::window::{Call, Cursor, Ending, Listed};

/// How many simple steps a key takes, even without windows.
const VISIT: usize = 16;

/// What a query must emit early in a call.
pub(in crate::operator::stream) struct Asked {
    /// Its place in the operator.
    pub(in crate::operator::stream) entry: usize,
    /// The keys that fire.
    pub(in crate::operator::stream) keys: Vec<u32>,
    /// Windows are emitted when the watermark passes these shares of them.
    pub(in crate::operator::stream) shares: Vec<Share>,
}

impl Engine {
    /// Adds the early results of queries to an outcome.
    ///
    /// # Errors
    /// `InvalidValue` for more windows than a query allows; `Overflow` where a result does not fit its type; what a user's
    /// function raises.
    pub(in crate::operator::stream) fn emit_early(
        &mut self,
        outcome: &mut Outcome,
        asked: &[Asked],
        keys: &StreamKeys,
    ) -> Result<()> {
        let reach = Reach {
            before: self.horizon.watermark(),
            after: outcome.watermark,
            key_watermark: outcome.key_watermark,
            ahead: &keys.ahead,
        };
        let (mut by_time, mut by_rows) = (self.nothing_outgoing(), self.nothing_outgoing());
        for query in 0..self.queries.registered().len() {
            let entry = self.queries.registered()[query].entry;
            let Some(asked) = asked.iter().find(|asked| asked.entry == entry) else { continue };
            let mut pace = Pace::new();
            for &key in &asked.keys {
                pace.check(VISIT)?;
                self.list_pending((query, key), (&outcome.touched, &reach), &mut by_time[query])?;
                self.list_pending_rows((query, key), (&outcome.touched, &reach), &mut by_rows[query])?;
            }
            self.list_shares(query, asked, &reach, &mut by_time[query])?;
            let emitted = (by_time[query].windows.len() + by_rows[query].windows.len()) as u64;
            outcome.windows.push((entry, emitted));
            outcome.fired.push((query, asked.keys.clone()));
        }
        let mut early = self.answer(by_time, &outcome.delta, keys)?;
        for (query, emitted) in by_rows.iter().enumerate().filter(|(_, emitted)| !emitted.windows.is_empty())
        {
            let registered = &self.queries.registered()[query];
            let Some(tuples) = &self.tuples else { continue };
            let own = registered.partials.clone();
            let answers = tuples.folded((&self.queries, &self.store), &own, &emitted.windows)?;
            self.add_batch(query, (&emitted.windows, &emitted.of_rows), keys, Some(&answers), &mut early)?;
        }
        outcome.early.extend(early.results);
        outcome.vanished.extend(early.vanished.into_iter().map(|answer| (answer, false)));
        Ok(())
    }

    /// The times of a key's pending rows, ascending, even of those whose slices have expired in the meantime.
    fn pending_times(&self, query: usize, key: u32, touched: &[(u32, i64)]) -> Vec<i64> {
        let known = self.pending.as_ref().map_or(&[][..], |pending| pending.of(query, key));
        let from = touched.partition_point(|&(other, _)| other < key);
        let new = touched[from..].iter().take_while(|&&(other, _)| other == key);
        let mut times: Vec<i64> = known.iter().copied().chain(new.map(|&(_, time)| time)).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// The open windows by time of a key that contain pending rows.
    fn list_pending(
        &self,
        (query, key): (usize, u32),
        (touched, reach): (&[(u32, i64)], &Reach<'_>),
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let registered = &self.queries.registered()[query];
        let spans = self.slices.of(key);
        let from = registered.first_place(spans);
        let Some(&first) = spans.firsts.get(from) else { return Ok(()) };
        let mut times = self.pending_times(query, key, touched);
        times.retain(|&time| first <= time);
        if times.is_empty() {
            return Ok(());
        }
        let ending = self.open(reach.after(key), registered.since);
        let mut found = Vec::new();
        for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
            let Some(window) = window.by_time() else { continue };
            let at_most = window.at_most(times.len(), &ending);
            let count = || window.count(spans.from(from), &ending);
            outgoing.check(&registered.plan, number, at_most, count)?;
            found.clear();
            window.list_changed(spans.from(from), &times, &ending, &mut found);
            outgoing.extend(number, key, from, &found, false);
        }
        Ok(())
    }

    /// The open windows of a key determined by rows that have a row at or after the first pending one.
    fn list_pending_rows(
        &self,
        (query, key): (usize, u32),
        (touched, reach): (&[(u32, i64)], &Reach<'_>),
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let Some(tuples) = &self.tuples else { return Ok(()) };
        let first = match self.queries.registered()[query].lists_all() {
            true => Some(i64::MIN),
            false => self.pending_times(query, key, touched).first().copied(),
        };
        let Some(first) = first else { return Ok(()) };
        let ending = Move { watermark: Some(i64::MAX), closing: true, ..Move::default() };
        let calls = self.horizon.calls(ending, tuples.next(), (&self.queries, reach.ahead));
        let call = Call { before: reach.after(key), ..calls.common };
        tuples.list_open((&self.queries, query), key, first, call, outgoing)
    }

    /// The windows of which the watermark passed a share in this call.
    fn list_shares(
        &self,
        query: usize,
        asked: &Asked,
        reach: &Reach<'_>,
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let keys = match reach.key_watermark {
            _ if asked.shares.is_empty() => 0..0,
            Some((key, _)) => key..key + 1,
            None if reach.after > reach.before => 0..self.slices.keys() as u32,
            None => 0..0,
        };
        let registered = &self.queries.registered()[query];
        let (mut found, mut pace) = (Vec::new(), Pace::new());
        for key in keys {
            let (before, now) = (reach.before(key), reach.after(key));
            let Some(now) = now.filter(|&now| before.is_none_or(|before| before < now)) else { continue };
            let came_through = |window: &Listed| {
                asked.shares.iter().any(|share| {
                    let at = share.time((window.start, window.end));
                    at <= now && before.is_none_or(|before| before < at)
                })
            };
            let ending = self.open(Some(now), registered.since);
            let spans = self.slices.of(key);
            let from = registered.first_place(spans);
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(window) = window.by_time() else { continue };
                found.clear();
                window.list(spans.from(from), &ending, &mut Cursor::default(), usize::MAX, &mut found);
                pace.check(VISIT + found.len())?;
                found.retain(came_through);
                outgoing.check(&registered.plan, number, found.len() as u64, || found.len() as u64)?;
                outgoing.extend(number, key, from, &found, false);
            }
        }
        // Each once, although its key may have fired, too.
        outgoing.windows.sort_by_key(|each| (each.window, each.key, each.found.start, each.found.end));
        outgoing.windows.dedup_by_key(|each| (each.window, each.key, each.found.start, each.found.end));
        Ok(())
    }

    /// Requests the windows that are not final at a watermark.
    fn open(&self, now: Option<i64>, since: Option<i64>) -> Ending {
        Ending { after: now, upto: i64::MAX, since, bounds: self.queries.edges().bounds() }
    }

    /// Commits which rows of a call are pending, and which no longer are.
    pub(super) fn keep_pending(&mut self, touched: &[(u32, i64)], fired: &[(usize, Vec<u32>)]) {
        let Some(pending) = &mut self.pending else { return };
        pending.add(touched, &self.slices, self.tuples.is_some());
        for (query, keys) in fired {
            pending.clear(*query, keys);
        }
        if !self.discards {
            return;
        }
        for &key in fired.iter().flat_map(|(_, keys)| keys) {
            match &mut self.tuples {
                Some(tuples) => tuples.discard((&self.queries, &mut self.slices), key),
                None if (key as usize) < self.slices.keys() => {
                    self.slices.forget(key, self.slices.of(key).len(), 0);
                }
                None => {}
            }
        }
        self.eager.forget(&self.slices);
    }
}
