//! Keys that are complete further than the stream: what an engine does for them.

use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow_buffer::BooleanBuffer;

use super::{Brought, Engine, Outcome};
use crate::Result;
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::intake::Accepted;
use crate::operator::stream::sharing::Shared;
use crate::select::take;
use crate::slice::Keys;

/// Up to when a key is complete, before a call and after it.
pub(in crate::operator::stream) type BeforeAndAfter = (Option<i64>, Option<i64>);

/// Keys that are complete further than the stream, as columns, and up to when each is.
pub(in crate::operator::stream) struct Marks {
    pub(in crate::operator::stream) keys: Vec<ArrayRef>,
    pub(in crate::operator::stream) times: Int64Array,
}

impl Engine {
    /// Up to when a key is complete.
    #[inline]
    pub(super) fn reached(&self, key: u32) -> Option<i64> {
        self.watermark.max(self.ahead.of(key))
    }

    /// The same once a call has taken effect.
    pub(super) fn reached_by(&self, outcome: &Outcome, key: u32) -> Option<i64> {
        let own = outcome.only.filter(|only| only.0 == key).map(|only| only.1);
        outcome.watermark.max(self.ahead.of(key)).max(own)
    }

    /// Up to when the keys in these columns are complete, before and after a call.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn reached_by_each(
        &mut self,
        outcome: &Outcome,
        keys: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<BeforeAndAfter>> {
        let mut ids = Vec::new();
        self.keys.assign(keys, rows, &mut ids)?;
        Ok(ids.into_iter().map(|key| (self.reached(key), self.reached_by(outcome, key))).collect())
    }

    /// Whether a key is ahead of the stream.
    pub(in crate::operator::stream) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// The latest time up to which a key is complete that is ahead of the stream.
    pub(in crate::operator::stream) fn most_ahead(&self) -> Option<i64> {
        self.ahead.most()
    }

    /// Up to when a key is complete, by its columns.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn reached_by_key(&mut self, key: &[ArrayRef]) -> Result<Option<i64>> {
        self.ids.clear();
        self.keys.assign(key, 1, &mut self.ids)?;
        Ok(self.reached(self.ids[0]))
    }

    /// Moves the watermark of one key, and finds its windows that become ready.
    ///
    /// # Errors
    /// As [`Engine::try_push`].
    pub(in crate::operator::stream) fn try_advance(
        &mut self,
        key: &[ArrayRef],
        watermark: i64,
    ) -> Result<Box<Outcome>> {
        let mut outgoing = self.nothing_outgoing();
        self.ids.clear();
        self.keys.assign(key, 1, &mut self.ids)?;
        let key = self.ids[0];
        // A commit must not fail.
        self.ahead.make_room(key);
        let only = (Some(watermark) > self.reached(key)).then_some((key, watermark));
        let brought = match only {
            Some(_) => self.put(&[], (self.call(self.watermark, false), only), &mut outgoing)?,
            None => Brought::nothing(),
        };
        self.outcome(brought, (self.watermark, only), outgoing)
    }

    /// Commits the watermark of a key.
    pub(super) fn keep_mark(&mut self, (key, watermark): (u32, i64)) {
        self.ahead.set(key, watermark);
        self.forget_ahead(key);
        self.eager.forget(&self.slices);
        self.pending.iter_mut().for_each(|pending| pending.forget(&self.slices, self.tuples.is_some()));
        self.forget_reopened();
    }

    /// Drops what is no longer needed of a key that is ahead.
    pub(super) fn forget_ahead(&mut self, key: u32) {
        let Some(needed) = self.cutoff_ahead(key).filter(|_| (key as usize) < self.slices.keys()) else {
            return;
        };
        let (common, queries, lateness) = (self.call(self.watermark, false), &self.queries, self.lateness);
        let call = Calls { common, only: None, ahead: &self.ahead, queries, lateness }.of(key);
        self.forget_key(key, needed, call);
    }

    /// The earliest time of a row that is accepted of a key, if it is ahead.
    pub(super) fn cutoff_ahead(&self, key: u32) -> Option<i64> {
        let horizon = self.ahead.of(key)?.saturating_sub(self.lateness);
        self.queries.cutoff(|query| self.queries.takes_from(query, horizon))
    }

    /// The time up to which windows have expired of a key that is complete up to `mark`.
    pub(in crate::operator::stream) fn horizon_at(&self, mark: i64) -> i64 {
        mark.saturating_sub(self.lateness)
    }

    /// Whether some of these rows may be before the marks of their keys.
    pub(super) fn has_behind(&self, rows: &Accepted) -> bool {
        self.ahead.may_be_after(rows.least)
    }

    /// Rows before the marks of their keys, each with its mark, ascending by place; none while no key is ahead.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn behind(&mut self, rows: &Accepted) -> Result<Vec<(usize, i64)>> {
        if !self.has_behind(rows) {
            return Ok(Vec::new());
        }
        let ids = self.numbered(rows)?;
        let mark = |row: usize| self.ahead.of(ids[row]).filter(|&mark| rows.times[row] < mark);
        Ok((0..ids.len()).filter_map(|row| mark(row).map(|mark| (row, mark))).collect())
    }

    /// The key of each row.
    fn numbered(&mut self, rows: &Accepted) -> Result<Vec<u32>> {
        let by = self.queries.leader().by();
        let keys: Vec<ArrayRef> = by.iter().map(|&column| rows.rows.column(column).clone()).collect();
        let mut ids = Vec::with_capacity(rows.times.len());
        self.keys.assign(&keys, rows.times.len(), &mut ids)?;
        Ok(ids)
    }

    /// These rows but for those that are too late for every window of this engine, as their key is ahead.
    pub(super) fn without_late_of_ahead(&mut self, rows: Accepted) -> Result<Accepted> {
        let behind = self.behind(&rows)?;
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
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn divides(
        &mut self,
        shared: &Shared,
        rows: &[Accepted],
    ) -> Result<bool> {
        for batch in rows {
            for (row, mark) in self.behind(batch)? {
                let horizon = self.horizon_at(mark);
                let cutoff = self.queries.cutoff(|query| self.queries.takes_from(query, horizon));
                let (Some(before), Some(cutoff)) = (shared.differs_before(horizon), cutoff) else { continue };
                if (cutoff..before).contains(&batch.times[row]) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The times at which rows count for cumulative windows, if some are of keys that are ahead, and before the time up to
    /// which windows of their keys have expired.
    pub(super) fn put_at_horizon(&self, times: &[i64], keys: Keys<'_>) -> Option<Vec<i64>> {
        if self.ahead.is_empty() {
            return None;
        }
        let place = |(row, &time): (usize, &i64)| {
            let key = match keys {
                Keys::One(key) => key,
                Keys::Each(ids) => ids[row],
            };
            self.ahead.of(key).map_or(time, |mark| time.max(self.horizon_at(mark)))
        };
        Some(times.iter().enumerate().map(place).collect())
    }

    /// The keys that are ahead, and up to when they are complete; none if no key is.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn marks(&self) -> Result<Option<Marks>> {
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let (ids, times): (Vec<u32>, Vec<i64>) = self.ahead.each().unzip();
        let ids = UInt32Array::from(ids);
        let keys = self.keys.plain_columns()?.into_iter().map(|values| Ok(take(&values, &ids, None)?));
        Ok(Some(Marks { keys: keys.collect::<Result<_>>()?, times: times.into() }))
    }

    /// Takes over the marks of another engine.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn set_marks(&mut self, marks: &Marks) -> Result<()> {
        let mut ids = Vec::new();
        self.keys.assign(&marks.keys, marks.times.len(), &mut ids)?;
        ids.iter().zip(marks.times.values()).for_each(|(&key, &time)| self.ahead.set(key, time));
        Ok(())
    }
}
