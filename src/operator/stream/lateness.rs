//! Which rows are late, query by query: those that no window of the query accepts. The other queries do not matter.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;

use super::Operator;
use super::entry::Entry;
use super::intake::{Accepted, InputKind};
use super::late::Reason;
use super::slices::{counted, row_counts};
use crate::Result;
use crate::select::{filter_record_batch, take};
use crate::window::KeyRows;

/// Which rows a query accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Rows at or after this are accepted, unless the query's windows know better.
    from: i64,
    /// Only rows after this are accepted: the query was added then.
    since: Option<i64>,
    /// The time up to which its windows have expired, and the least and the greatest time of a row; `None` while no
    /// window has.
    expired: Option<(i64, (i64, i64))>,
}

impl Limit {
    fn reason(&self, time: i64) -> Option<Reason> {
        match self.since.is_some_and(|since| time <= since) {
            true => Some(Reason::BeforeQuery),
            false => (time < self.from).then_some(Reason::TooLate),
        }
    }

    /// Whether a row at or after `least` is accepted without a look at the query's windows.
    fn is_safe(&self, entry: &Entry, least: i64) -> bool {
        let is_open = self.expired.is_none_or(|(horizon, _)| horizon <= least);
        self.from <= least
            && self.since.is_none_or(|since| since < least)
            && (is_open || !entry.plan.has_holes())
    }
}

impl Operator {
    /// Which rows each query accepts, of keys that are complete up to `mark` or of all that are not ahead.
    pub(super) fn limits(&self, mark: Option<i64>) -> Vec<Limit> {
        let limit = |entry: &Entry| Limit { from: i64::MAX, since: entry.since, expired: None };
        let mut limits: Vec<Limit> = self.entries.iter().map(limit).collect();
        for engine in self.engines() {
            let (bounds, horizon) = (engine.queries.edges().bounds(), engine.horizon().expired(mark));
            for (query, registered) in engine.queries.registered().iter().enumerate() {
                let limit = &mut limits[registered.entry];
                limit.from = limit.from.min(engine.horizon().takes_from(&engine.queries, query, mark));
                limit.expired = horizon.map(|horizon| (horizon, bounds));
            }
        }
        limits
    }

    /// Rows before the marks of their keys, by the mark, each with what queries accept of such keys.
    fn of_keys_ahead(&self, rows: &Accepted) -> Vec<(Vec<Limit>, Vec<usize>)> {
        let mut by_mark = BTreeMap::<i64, Vec<usize>>::new();
        for (row, mark) in self.keys.behind(rows) {
            by_mark.entry(mark).or_default().push(row);
        }
        by_mark.into_iter().map(|(mark, own)| (self.limits(Some(mark)), own)).collect()
    }

    /// Adds the rows that are late to `refused`, once for each query that they are late for; returns how many are late
    /// for all, and of each query with an emission policy which are, if any are late.
    pub(super) fn refuse(
        &self,
        rows: &Accepted,
        limits: &[Limit],
        refused: &mut Vec<RecordBatch>,
    ) -> Result<(u64, Vec<Option<BooleanBuffer>>)> {
        let of_ahead = self.of_keys_ahead(rows);
        let of_all = || self.entries.iter().zip(limits);
        if of_ahead.is_empty() && of_all().all(|(entry, limit)| limit.is_safe(entry, rows.least)) {
            return Ok((0, Vec::new()));
        }
        let counts =
            if rows.kind == InputKind::Slices { row_counts(self.leader(), &rows.rows) } else { Vec::new() };
        let mut late_for_all = BooleanBuffer::new_set(rows.times.len());
        let mut of_emitters = Vec::new();
        for (at, (entry, limit)) in of_all().enumerate() {
            let mut reasons: Vec<Option<Reason>> = rows.times.iter().map(|&t| limit.reason(t)).collect();
            if entry.plan.has_holes() {
                look_closer(entry, limit, rows, &mut reasons)?;
            }
            for (limits, own) in &of_ahead {
                look_at_ahead(entry, &limits[at], (rows, own), &mut reasons)?;
            }
            let is_late = BooleanBuffer::collect_bool(reasons.len(), |row| reasons[row].is_some());
            late_for_all = &late_for_all & &is_late;
            of_emitters.push(entry.plan.policy().is_some().then_some(is_late));
            for reason in [Reason::TooLate, Reason::BeforeQuery] {
                let these = BooleanBuffer::collect_bool(reasons.len(), |row| reasons[row] == Some(reason));
                if these.count_set_bits() > 0 {
                    refused.push(match rows.kind {
                        InputKind::Slices => counted(these.set_indices().map(|at| counts[at]).sum())?,
                        InputKind::Rows => {
                            let these = filter_record_batch(&rows.rows, &BooleanArray::new(these, None))?;
                            self.late.batch(&these, &entry.name, reason)?
                        }
                    });
                }
            }
        }
        let late_for_all = match rows.kind {
            InputKind::Rows => late_for_all.count_set_bits() as u64,
            InputKind::Slices => late_for_all.set_indices().map(|at| counts[at]).sum(),
        };
        Ok((late_for_all, of_emitters))
    }
}

/// Refuses those rows of keys that are ahead, at these places, that are late for a query.
fn look_at_ahead(
    entry: &Entry,
    limit: &Limit,
    (rows, own): (&Accepted, &[usize]),
    reasons: &mut [Option<Reason>],
) -> Result<()> {
    let these = BooleanBuffer::collect_bool(rows.times.len(), |row| own.binary_search(&row).is_ok());
    let rows = rows.only(&BooleanArray::new(these, None))?;
    let mut found: Vec<Option<Reason>> = rows.times.iter().map(|&t| limit.reason(t)).collect();
    if entry.plan.has_holes() {
        look_closer(entry, limit, &rows, &mut found)?;
    }
    for (&row, reason) in own.iter().zip(found) {
        reasons[row] = reasons[row].or(reason);
    }
    Ok(())
}

/// Refuses those rows before the horizon that all windows refuse, where times alone do not say so.
fn look_closer(entry: &Entry, limit: &Limit, rows: &Accepted, reasons: &mut [Option<Reason>]) -> Result<()> {
    let Some((horizon, bounds)) = limit.expired else { return Ok(()) };
    let mut near: Vec<u32> = (0..rows.times.len())
        .filter(|&row| reasons[row].is_none() && rows.times[row] < horizon)
        .map(|row| row as u32)
        .collect();
    near.sort_by_key(|&row| rows.times[row as usize]);
    let mut taken = vec![false; near.len()];
    for (_, window) in entry.plan.windows().iter().filter(|_| !near.is_empty()) {
        let from = window.takes_from(horizon, bounds);
        let begin = near.partition_point(|&row| rows.times[row as usize] < from);
        let own = UInt32Array::from_iter_values(near[begin..].iter().copied());
        let times: Vec<i64> = own.values().iter().map(|&row| rows.times[row as usize]).collect();
        let columns = window.columns().into_iter().map(|column| take(rows.rows.column(column), &own, None));
        let columns: Vec<ArrayRef> = columns.collect::<std::result::Result<_, ArrowError>>()?;
        let some = window.takes(&KeyRows { times: &times, columns: &columns, arrivals: &[] }, horizon)?;
        let each = taken[begin..].iter_mut().enumerate();
        each.for_each(|(at, taken)| *taken |= some.as_ref().is_none_or(|some| some[at]));
    }
    for (row, _) in near.iter().zip(taken).filter(|(_, taken)| !taken) {
        reasons[*row as usize] = Some(Reason::TooLate);
    }
    Ok(())
}
