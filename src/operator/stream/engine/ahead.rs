//! Keys that are complete further than the stream: what an engine does for them.

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;

use super::Engine;
use crate::Result;
use crate::operator::stream::ahead::{Ahead, Calls};
use crate::operator::stream::intake::Accepted;
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::sharing::Shared;
use crate::slice::Keys;

impl Engine {
    /// Drops what nothing needs any longer, as the watermark of a key has moved.
    pub(super) fn forget_of_key(&mut self, key: u32, ahead: &Ahead) {
        self.forget_ahead(key, ahead);
        self.eager.forget(&self.slices);
        self.pending.iter_mut().for_each(|pending| pending.forget(&self.slices, self.tuples.is_some()));
        self.reopened.forget(&self.slices);
    }

    /// Drops what is no longer needed of a key that is ahead.
    pub(super) fn forget_ahead(&mut self, key: u32, ahead: &Ahead) {
        let Some(needed) = self.cutoff_ahead(key, ahead).filter(|_| (key as usize) < self.slices.keys())
        else {
            return;
        };
        let (common, queries, lateness) = (self.call(self.watermark, false), &self.queries, self.lateness);
        let call = Calls { common, key_watermark: None, ahead, queries, lateness }.of(key);
        self.forget_key(key, needed, call);
    }

    /// The earliest time of a row that is accepted of a key, if it is ahead.
    pub(super) fn cutoff_ahead(&self, key: u32, ahead: &Ahead) -> Option<i64> {
        let horizon = ahead.of(key)?.saturating_sub(self.lateness);
        self.queries.cutoff(|query| self.queries.takes_from(query, horizon))
    }

    /// The time up to which windows have expired of a key that is complete up to `mark`.
    pub(in crate::operator::stream) fn horizon_at(&self, mark: i64) -> i64 {
        mark.saturating_sub(self.lateness)
    }

    /// These rows but for those that are too late for every window of this engine, as their key is ahead.
    pub(super) fn without_late_of_ahead(&self, rows: Accepted, keys: &StreamKeys) -> Result<Accepted> {
        let behind = keys.behind(&rows);
        let is_late = |&(row, mark): &(usize, i64)| {
            let horizon = self.horizon_at(mark);
            let cutoff = self.queries.cutoff(|query| self.queries.takes_from(query, horizon));
            cutoff.is_some_and(|cutoff| rows.times[row] < cutoff)
        };
        let late: Vec<usize> = behind.iter().filter(|each| is_late(each)).map(|&(row, _)| row).collect();
        if late.is_empty() {
            return Ok(rows);
        }
        let taken = BooleanBuffer::collect_bool(rows.times.len(), |row| late.binary_search(&row).is_err());
        rows.only(&BooleanArray::new(taken, None))
    }

    /// Whether some of these rows are not alike for all windows of this engine, whose classes these are, as their key is
    /// ahead.
    pub(in crate::operator::stream) fn divides(
        &self,
        shared: &Shared,
        rows: &[Accepted],
        keys: &StreamKeys,
    ) -> bool {
        rows.iter().any(|batch| {
            keys.behind(batch).into_iter().any(|(row, mark)| {
                let horizon = self.horizon_at(mark);
                let cutoff = self.queries.cutoff(|query| self.queries.takes_from(query, horizon));
                let between = cutoff.zip(shared.differs_before(horizon));
                between.is_some_and(|(cutoff, before)| (cutoff..before).contains(&batch.times[row]))
            })
        })
    }

    /// The times at which rows count for cumulative windows, if some are of keys that are ahead, and before the time up to
    /// which windows of their keys have expired.
    pub(super) fn put_at_horizon(&self, times: &[i64], keys: Keys<'_>, ahead: &Ahead) -> Option<Vec<i64>> {
        if ahead.is_empty() {
            return None;
        }
        let place = |(row, &time): (usize, &i64)| {
            let key = match keys {
                Keys::One(key) => key,
                Keys::Each(ids) => ids[row],
            };
            ahead.of(key).map_or(time, |mark| time.max(self.horizon_at(mark)))
        };
        Some(times.iter().enumerate().map(place).collect())
    }
}
