//! Early results: windows that are not final and contain pending rows.

use super::horizon::{Horizon, WatermarkMove};
use super::pending::Pending;
use super::slice_manager::SliceManager;
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::policy::Share;
use crate::operator::stream::ahead::Reach;
use crate::operator::stream::outgoing::Outgoing;
use crate::operator::stream::queries::Queries;
use crate::window::{Call, Cursor, Ending};

/// How many simple steps a key takes, even without windows.
const VISIT: usize = 16;

/// What a query must emit early in a call.
pub(in crate::operator::stream) struct EarlyRequest {
    /// Its place in the operator.
    pub(in crate::operator::stream) entry: usize,
    /// The keys that fire.
    pub(in crate::operator::stream) keys: Vec<u32>,
    /// Windows are emitted when the watermark passes these shares of them.
    pub(in crate::operator::stream) shares: Vec<Share>,
}

/// What the early results of a call are listed from.
pub(super) struct Early<'a> {
    pub(super) queries: &'a Queries,
    pub(super) slices: &'a SliceManager,
    pub(super) horizon: &'a Horizon,
    pub(super) pending: &'a Pending,
    /// Keys and times of the call's rows, ascending.
    pub(super) touched: &'a [(u32, i64)],
    pub(super) reach: Reach<'a>,
}

impl Early<'_> {
    /// Lists the early results that a query is asked for: windows by time, and those determined by rows.
    ///
    /// # Errors
    /// `InvalidValue` for more windows than a query allows; what a user's own window raises.
    pub(super) fn list(
        &self,
        query: usize,
        request: &EarlyRequest,
        (by_time, by_rows): (&mut Outgoing, &mut Outgoing),
    ) -> Result<()> {
        let mut pace = Pace::new();
        for &key in &request.keys {
            pace.check(VISIT)?;
            self.list_pending((query, key), by_time)?;
            self.list_pending_rows((query, key), by_rows)?;
        }
        self.list_shares(query, request, by_time)
    }

    /// The times of a key's pending rows, ascending, even of those whose slices have expired in the meantime.
    fn pending_times(&self, query: usize, key: u32) -> Vec<i64> {
        let known = self.pending.of(query, key);
        let from = self.touched.partition_point(|&(other, _)| other < key);
        let new = self.touched[from..].iter().take_while(|&&(other, _)| other == key);
        let mut times: Vec<i64> = known.iter().copied().chain(new.map(|&(_, time)| time)).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// The open windows by time of a key that contain pending rows.
    fn list_pending(&self, (query, key): (usize, u32), outgoing: &mut Outgoing) -> Result<()> {
        let registered = &self.queries.registered()[query];
        let spans = self.slices.timelines.of(key);
        let from = registered.first_place(spans);
        let Some(&first) = spans.firsts.get(from) else { return Ok(()) };
        let mut times = self.pending_times(query, key);
        times.retain(|&time| first <= time);
        if times.is_empty() {
            return Ok(());
        }
        let ending = self.open(self.reach.after(key), registered.since);
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
    fn list_pending_rows(&self, (query, key): (usize, u32), outgoing: &mut Outgoing) -> Result<()> {
        if !self.slices.is_cut_by_rows() {
            return Ok(());
        }
        let first = match self.queries.registered()[query].lists_all() {
            true => Some(i64::MIN),
            false => self.pending_times(query, key).first().copied(),
        };
        let Some(first) = first else { return Ok(()) };
        if let Some(positions) = &self.slices.positions {
            // Each of them has the key's last row, and no pending one is later.
            return positions.list_open((self.queries, &self.slices.timelines), query, key, outgoing);
        }
        let Some(tuples) = &self.slices.tuples else { return Ok(()) };
        let ending = WatermarkMove { watermark: Some(i64::MAX), closing: true, ..WatermarkMove::default() };
        let calls = self.horizon.calls(ending, tuples.next(), (self.queries, self.reach.ahead));
        let call = Call { before: self.reach.after(key), ..calls.common };
        tuples.list_open((self.queries, query), key, first, call, outgoing)
    }

    /// The windows of which the watermark passed a share in this call.
    fn list_shares(&self, query: usize, request: &EarlyRequest, outgoing: &mut Outgoing) -> Result<()> {
        let keys = match self.reach.key_watermark {
            _ if request.shares.is_empty() => 0..0,
            Some((key, _)) => key..key + 1,
            None if self.reach.after > self.reach.before => 0..self.slices.timelines.keys() as u32,
            None => 0..0,
        };
        let registered = &self.queries.registered()[query];
        let (mut found, mut pace) = (Vec::new(), Pace::new());
        for key in keys {
            let (before, now) = (self.reach.before(key), self.reach.after(key));
            let Some(now) = now.filter(|&now| before.is_none_or(|before| before < now)) else { continue };
            let came_through = |(start, end): (i64, i64)| {
                request.shares.iter().any(|share| {
                    let at = share.time((start, end));
                    at <= now && before.is_none_or(|before| before < at)
                })
            };
            let open = self.open(Some(now), registered.since);
            let spans = self.slices.timelines.of(key);
            let from = registered.first_place(spans);
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(window) = window.by_time() else { continue };
                found.clear();
                // Of windows that grow without end, only the next one to end has rows by now that none before has.
                let ending = Ending { upto: window.begun_upto(open.within(now)), ..open };
                window.list(spans.from(from), &ending, &mut Cursor::default(), usize::MAX, &mut found);
                pace.check(VISIT + found.len())?;
                found.retain(|each| came_through(window.news((each.start, each.end))));
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
}
