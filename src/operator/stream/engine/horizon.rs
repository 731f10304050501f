//! How far the stream has come for the windows of an engine: its watermark, and the horizon behind it, up to which windows
//! have expired. Until then late rows update a window, so allowed lateness is the distance between the two.
//!
//! Keys may be ahead of the stream ([`Ahead`]). Methods take a key's mark, up to which the key is complete, and treat it as the
//! watermark; without a mark they use what was computed when the watermark moved.

use std::borrow::Cow;

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;

use crate::Result;
use crate::operator::progress::Ahead;
use crate::operator::stream::agenda::Agenda;
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::intake::Accepted;
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::queries::Queries;
use crate::operator::stream::sharing::ClassGroup;
use crate::slice::Keys;
use crate::slice::strategy::Order;
use crate::window::Call;

/// How a call moves the watermarks.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operator::stream) struct WatermarkMove {
    /// The watermark of the stream after the call; it never goes back.
    pub(in crate::operator::stream) watermark: Option<i64>,
    /// The only key whose watermark moves, and where to.
    pub(in crate::operator::stream) key_watermark: Option<(u32, i64)>,
    /// Whether the stream ends, or the only key, so that all windows are final.
    pub(in crate::operator::stream) closing: bool,
}

/// Watermark and horizon, and what follows from them.
pub(in crate::operator::stream) struct Horizon {
    order: Order,
    /// For how long after its end a window is updated.
    lateness: i64,
    /// Whether late rows of landmark windows may be put at the horizon: all of the engine's windows are such.
    is_cumulative: bool,
    watermark: Option<i64>,
    /// The next window of each window type, seen from the watermark.
    pub(super) agenda: Agenda,
    /// The next window of each type, seen from the horizon, if that is not the watermark.
    expiring: Option<Agenda>,
    /// The earliest time of a row that each query accepts, unless it was added later, and the earliest that some query
    /// accepts. Empty while every row is accepted.
    accepted_from: Vec<i64>,
    cutoff: Option<i64>,
    /// Up to which such time all slices were dropped.
    swept: Option<i64>,
}

impl Horizon {
    /// The horizon of windows of these classes, where the stream has come to this watermark.
    pub(super) fn new(queries: &Queries, order: Order, group: &ClassGroup, watermark: Option<i64>) -> Self {
        let lateness = group.lateness();
        let mut this = Self {
            order,
            lateness,
            is_cumulative: group.is_cumulative(),
            watermark: None,
            agenda: Agenda::new(queries),
            expiring: (lateness > 0).then(|| Agenda::new(queries)),
            accepted_from: Vec::with_capacity(queries.registered().len()),
            cutoff: None,
            swept: None,
        };
        this.restore(queries, watermark);
        this
    }

    /// Puts the watermark where a snapshot has it.
    pub(super) fn restore(&mut self, queries: &Queries, watermark: Option<i64>) {
        self.watermark = watermark;
        self.find_cutoffs(queries);
    }

    /// Takes over other queries, whose windows are of these classes.
    pub(super) fn change(&mut self, queries: &Queries, group: &ClassGroup) {
        self.is_cumulative = group.is_cumulative();
        // What was known of upcoming windows may concern former queries.
        self.agenda = Agenda::new(queries);
        self.expiring = self.expiring.is_some().then(|| Agenda::new(queries));
        self.accepted_from.reserve(queries.registered().len());
        self.swept = None;
        self.find_cutoffs(queries);
    }

    /// Commits that the watermark has moved; returns whether it has.
    pub(super) fn advance(&mut self, queries: &Queries, watermark: Option<i64>) -> bool {
        let (Some(to), true) = (watermark, watermark > self.watermark) else { return false };
        self.watermark = watermark;
        let bounds = queries.edges().bounds();
        self.agenda.move_to(to, bounds);
        if let Some(expiring) = &mut self.expiring {
            expiring.move_to(to.saturating_sub(self.lateness), bounds);
        }
        self.find_cutoffs(queries);
        true
    }

    fn find_cutoffs(&mut self, queries: &Queries) {
        let mut from = std::mem::take(&mut self.accepted_from);
        from.clear();
        if let Some(horizon) = self.expired(None) {
            let each = 0..queries.registered().len();
            from.extend(each.map(|query| self.found_from(queries, query, horizon)));
        }
        self.cutoff = (!from.is_empty()).then(|| queries.cutoff(|query| from[query])).flatten();
        self.accepted_from = from;
    }

    fn found_from(&self, queries: &Queries, query: usize, horizon: i64) -> i64 {
        let (bounds, windows) = (queries.edges().bounds(), queries.registered()[query].plan.windows());
        let agenda = self.expiring.as_ref().unwrap_or(&self.agenda);
        let takes_from = |at: usize| windows[at].1.takes_from(horizon, bounds);
        match agenda.least_start(query) {
            // What the agenda knows need not be computed.
            Some(least) => agenda.others(query).map(takes_from).fold(least, i64::min),
            None => queries.takes_from(query, horizon),
        }
    }

    /// Up to when the stream is complete.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// The time up to which windows have expired, of a key that is complete up to `mark` or of all others.
    pub(in crate::operator::stream) fn expired(&self, mark: Option<i64>) -> Option<i64> {
        Some(mark.or(self.watermark)?.saturating_sub(self.lateness))
    }

    /// The earliest time of a row that is accepted: the start of the earliest window that has not expired, if a row may open
    /// it, and otherwise the time up to which windows have expired. `None` while every row is accepted.
    pub(in crate::operator::stream) fn cutoff(&self) -> Option<i64> {
        self.cutoff
    }

    /// The cutoff of a key that is complete up to `mark`, or of all others.
    pub(super) fn cutoff_at(&self, queries: &Queries, mark: Option<i64>) -> Option<i64> {
        mark.map_or(self.cutoff, |_| queries.cutoff_at(self.expired(mark)?))
    }

    /// The earliest time of a row that a query accepts, unless it was added later, of a key that is complete up to `mark` or
    /// of all others.
    pub(in crate::operator::stream) fn takes_from(
        &self,
        queries: &Queries,
        query: usize,
        mark: Option<i64>,
    ) -> i64 {
        match self.expired(mark).filter(|_| mark.is_some()) {
            Some(horizon) => queries.takes_from(query, horizon),
            None => self.accepted_from.get(query).copied().unwrap_or(i64::MIN),
        }
    }

    /// Whether the cutoff has moved since slices were last dropped: it moves from window to window.
    pub(super) fn is_unswept(&self) -> bool {
        self.cutoff != self.swept
    }

    /// Takes note that the slices before the cutoff are dropped.
    pub(super) fn sweep(&mut self) {
        self.swept = self.cutoff;
    }

    /// Future rows are at or after this time. Windows still to be emitted contain no rows before it other than those
    /// present when the watermark moved.
    pub(super) fn floor(&self) -> Option<i64> {
        let (watermark, cutoff) = (self.watermark?, self.cutoff?);
        Some(match self.order {
            Order::InOrder => watermark,
            // A query that was added late accepts no row before it begins. The watermark may still be behind that time,
            // and windows that it has not reached are not emitted.
            Order::OutOfOrder => cutoff.min(watermark),
        })
    }

    /// The parameters of a call for the windows of each key, where the next row to arrive has number `base`.
    pub(super) fn calls<'a>(
        &self,
        moved: WatermarkMove,
        base: u64,
        (queries, ahead): (&'a Queries, &'a Ahead),
    ) -> Calls<'a> {
        let common = Call {
            before: self.watermark,
            now: moved.watermark,
            horizon: self.expired(None),
            floor: self.floor(),
            base,
            since: None,
            closing: moved.closing,
            is_out_of_order: self.order == Order::OutOfOrder,
        };
        Calls { common, key_watermark: moved.key_watermark, ahead, queries, lateness: self.lateness }
    }

    /// The parameters of a call that moves nothing.
    pub(super) fn calls_at_rest<'a>(&self, base: u64, own: (&'a Queries, &'a Ahead)) -> Calls<'a> {
        self.calls(WatermarkMove { watermark: self.watermark, ..WatermarkMove::default() }, base, own)
    }

    /// The rows that some window accepts.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(in crate::operator::stream) fn own_rows<'a>(
        &self,
        queries: &Queries,
        rows: &'a [Accepted],
        keys: &StreamKeys,
    ) -> Result<Cow<'a, [Accepted]>> {
        let cutoff = self.cutoff.unwrap_or(i64::MIN);
        if rows.iter().all(|batch| cutoff <= batch.least && !keys.ahead.some_may_be_late(batch.least)) {
            return Ok(Cow::Borrowed(rows));
        }
        let own = |batch: &Accepted| {
            let rows = batch.since(cutoff)?;
            // Too late for every window, as their key is ahead.
            let is_late = |&(row, mark): &(usize, i64)| {
                self.cutoff_at(queries, Some(mark)).is_some_and(|cutoff| rows.times[row] < cutoff)
            };
            let late: Vec<usize> =
                keys.behind(&rows).into_iter().filter(is_late).map(|(row, _)| row).collect();
            if late.is_empty() {
                return Ok(rows);
            }
            let taken =
                BooleanBuffer::collect_bool(rows.times.len(), |row| late.binary_search(&row).is_err());
            rows.only(&BooleanArray::new(taken, None))
        };
        rows.iter().map(own).collect()
    }

    /// Whether some of these rows are not alike for all windows, whose classes these are.
    pub(in crate::operator::stream) fn divides(
        &self,
        queries: &Queries,
        group: &ClassGroup,
        rows: &[Accepted],
        keys: &StreamKeys,
    ) -> bool {
        let between = |mark: Option<i64>| {
            let before = group.differs_before(self.expired(mark)?)?;
            Some(self.cutoff_at(queries, mark)?..before)
        };
        let of_all = between(None);
        rows.iter().any(|batch| {
            let divides = |range: &std::ops::Range<i64>| {
                batch.least < range.end && batch.times.iter().any(|time| range.contains(time))
            };
            let behind = || keys.behind(batch).into_iter();
            of_all.as_ref().is_some_and(divides)
                || behind()
                    .any(|(row, mark)| between(Some(mark)).is_some_and(|own| own.contains(&batch.times[row])))
        })
    }

    /// The times at which rows count for cumulative windows, if not all count at their own. A row before the horizon counts at
    /// the horizon, and so is new to the first window that has not expired. No row is before `least`.
    pub(super) fn places(
        &self,
        times: &[i64],
        least: i64,
        keys: Keys<'_>,
        ahead: &Ahead,
    ) -> Option<Vec<i64>> {
        let horizon = self.expired(None).filter(|&horizon| least < horizon);
        if !self.is_cumulative || horizon.is_none() && ahead.is_empty() {
            return None;
        }
        let horizon = horizon.unwrap_or(i64::MIN);
        let place = |(row, &time): (usize, &i64)| {
            let key = match keys {
                Keys::One(key) => key,
                Keys::Each(ids) => ids[row],
            };
            let own = ahead.of(key).and_then(|mark| self.expired(Some(mark)));
            time.max(own.unwrap_or(horizon))
        };
        Some(times.iter().enumerate().map(place).collect())
    }
}
