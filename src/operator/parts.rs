//! Batches on their way into an operator: shared out to threads, and read by column without rows whose time is null.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::ScalarBuffer;

use super::plan::Plan;
use crate::aggregate::TIMELESS;
use crate::interrupt::{Helpers, check};
use crate::memory::{has_room_for_thread, unwind};
use crate::select::filter;
use crate::types::named;
use crate::{Error, Result};

/// Rows that pass through keys, slicer and partials at a time, so that their columns stay in the cache.
pub(super) const CHUNK_ROWS: usize = 8192;

/// Runs `own` over the first part of the batches, and `helper` over each other part on a thread of its own; returns the
/// helpers' results in the order of their parts. Parts are contiguous, so that rows in order stay in order.
pub(super) fn share_out<T: Send>(
    batches: &[RecordBatch],
    threads: usize,
    own: impl FnOnce(&[RecordBatch]) -> Result<()>,
    helper: impl Fn(&[RecordBatch]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let threads = threads.clamp(1, rows.div_ceil(4 * CHUNK_ROWS).max(1));
    let parts = split(batches, rows.div_ceil(threads));
    let (helper, rest) = (&helper, &parts[1..]);
    let helpers = Helpers::new();
    thread::scope(|scope| {
        let threads: Vec<_> =
            rest.iter().map(|part| spawned(scope, &helpers, move || helper(part))).collect();
        let pushed = own(&parts[0]);
        // What no thread could be had for is done here.
        let left = |(thread, part): (Option<_>, &Vec<RecordBatch>)| match thread {
            Some(thread) => Ok(thread),
            None => Err(helper(part)),
        };
        let others: Vec<_> = threads.into_iter().zip(rest).map(left).collect();
        let pushed = helpers.wait(pushed);
        let others: Vec<Result<T>> =
            others.into_iter().map(|other| other.map_or_else(|done| done, joined)).collect();
        pushed.and_then(|()| others.into_iter().collect())
    })
}

/// A thread that does this work; `None` where the system has none left, or no memory for it.
pub(super) fn spawned<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    helpers: &Helpers,
    work: impl FnOnce() -> Result<T> + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, Result<T>>> {
    if !has_room_for_thread() {
        return None;
    }
    let helper = helpers.add();
    thread::Builder::new().spawn_scoped(scope, move || helper.work(work)).ok()
}

/// Frees what an error leaves behind: after an interrupt on another thread, as gigabytes take longer to free than the
/// call may go on.
pub(super) fn leave<T: Send + 'static>(error: &Error, rest: T) {
    if matches!(error, Error::Interrupted(_)) && has_room_for_thread() {
        // Where no thread can be had, this drops it.
        let _ = thread::Builder::new().spawn(move || drop(rest));
    }
}

/// The result of a thread, or its panic.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| unwind(panic))
}

/// Batches in contiguous parts of `rows` rows (the last may have fewer).
fn split(batches: &[RecordBatch], rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut parts = vec![Vec::new()];
    let mut room = rows;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            if room == 0 {
                parts.push(Vec::new());
                room = rows;
            }
            let take = room.min(batch.num_rows() - from);
            parts.last_mut().expect("there is a part").push(batch.slice(from, take));
            (from, room) = (from + take, room - take);
        }
    }
    parts
}

/// Does the work for each of the items, one after the other on each of up to `threads` threads, until one fails.
pub(super) fn each<T: Send>(
    items: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.into_iter());
    let left = || items.lock().unwrap_or_else(PoisonError::into_inner);
    let all = || {
        loop {
            let Some(item) = left().next() else { return check() };
            work(item).inspect_err(|_| *left() = Vec::new().into_iter())?;
        }
    };
    let helpers = Helpers::new();
    thread::scope(|scope| {
        // With fewer threads than requested, each takes more items.
        let threads: Vec<_> = (1..threads).filter_map(|_| spawned(scope, &helpers, all)).collect();
        let own = helpers.wait(all());
        threads.into_iter().map(joined).fold(own, Result::and)
    })
}

/// A batch without the rows whose time is null, unless these are kept, or that have no gap where sessions take theirs from a column.
pub(super) struct Timed<'a> {
    plan: &'a Plan,
    batch: &'a RecordBatch,
    valid: Option<BooleanArray>,
}

impl<'a> Timed<'a> {
    pub(super) fn of(plan: &'a Plan, batch: &'a RecordBatch) -> Result<Self> {
        if batch.schema_ref().fields().len() != plan.input().fields().len() {
            return Err(Error::InvalidValue(
                "batch: its schema is not the one that the query was bound to".into(),
            ));
        }
        let nulls = if plan.keeps_all_rows() { None } else { batch.column(plan.time()).logical_nulls() };
        let valid = nulls.filter(|nulls| nulls.null_count() > 0);
        let mut valid = valid.map(|nulls| nulls.inner().clone());
        if let Some(gaps) = plan.gap_column() {
            let with = gaps.valid(&Self::whole(plan, batch).column(gaps.position)?)?;
            valid = Some(valid.map_or(with.clone(), |valid| &valid & &with));
        }
        Ok(Self { plan, batch, valid: valid.map(|valid| BooleanArray::new(valid, None)) })
    }

    /// A batch with all of its rows.
    pub(super) fn whole(plan: &'a Plan, batch: &'a RecordBatch) -> Self {
        Self { plan, batch, valid: None }
    }

    /// The column at a position of the plan's schema.
    pub(super) fn column(&self, position: usize) -> Result<ArrayRef> {
        let (array, field) = (self.batch.column(position), self.plan.input().field(position));
        if array.data_type() != field.data_type() {
            return Err(Error::InvalidType(format!(
                "batch: column '{}' is {}; the query was bound to {}",
                field.name(),
                named(array.data_type()),
                named(field.data_type())
            )));
        }
        Ok(match &self.valid {
            Some(valid) => filter(array, valid)?,
            None => array.clone(),
        })
    }

    /// The key columns.
    pub(super) fn keys(&self) -> Result<Vec<ArrayRef>> {
        self.plan.by().iter().map(|&position| self.column(position)).collect()
    }

    /// The times.
    pub(super) fn times(&self) -> Result<ScalarBuffer<i64>> {
        self.plan.measure().read(&self.column(self.plan.time())?)
    }

    /// The times, after [`check_times`]; [`TIMELESS`] for rows without time, where these are kept.
    pub(super) fn checked_times(&self) -> Result<ScalarBuffer<i64>> {
        let column = self.column(self.plan.time())?;
        let times = self.plan.measure().read(&column)?;
        let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            check_times(self.plan, &times)?;
            return Ok(times);
        };
        let known: Vec<i64> = nulls.valid_indices().map(|row| times[row]).collect();
        check_times(self.plan, &known)?;
        let each = times.iter().zip(nulls.iter());
        Ok(each.map(|(&time, is_known)| if is_known { time } else { TIMELESS }).collect::<Vec<_>>().into())
    }
}

/// Rejects times whose windows' edges would leave the range of int64.
pub(super) fn check_times(plan: &Plan, times: &[i64]) -> Result<()> {
    let (least, most) = plan.edges().bounds();
    times.iter().find(|&&t| t < least || t > most).map_or(Ok(()), |&t| Err(out_of_bounds(plan, t)))
}

/// The error for a time whose windows' edges would leave the range of int64.
pub(super) fn out_of_bounds(plan: &Plan, t: i64) -> Error {
    let (least, most) = plan.edges().bounds();
    Error::Overflow(format!(
        "time: column '{}' holds {t} {}, which is too close to the limit of int64 for its windows; allowed are \
         values from {least} to {most}",
        plan.measure().column(),
        plan.measure().unit_name()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    use arrow_array::Int64Array;

    use super::*;
    use crate::interrupt::{Look, watching};

    /// Works for a second, unless it is stopped; returns whether it was.
    fn is_stopped(look: impl Fn() -> Result<()>) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            if look().is_err() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn threads_end_when_the_work_beside_them_is_interrupted() {
        let stopped = Mutex::new(Vec::new());
        let helper = || stopped.lock().unwrap().push(is_stopped(check));
        let own_work = || if is_stopped(check) { check() } else { Ok(()) };
        let values: ArrayRef = Arc::new(Int64Array::from(vec![0; 16 * CHUNK_ROWS]));
        let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
        let enough = Look(|| Err(Error::InvalidValue("enough".into())));
        let shared = watching(enough, || {
            share_out(
                &[batch],
                2,
                |_| own_work(),
                |_| {
                    helper();
                    Ok(())
                },
            )
        });
        assert!(shared.is_err());
        let (own, both) = (thread::current().id(), Barrier::new(2));
        let done = watching(enough, || {
            each(vec![(), ()], 2, |()| {
                both.wait();
                if thread::current().id() == own {
                    return own_work();
                }
                helper();
                Ok(())
            })
        });
        assert!(done.is_err());
        assert_eq!(stopped.into_inner().unwrap(), [true, true]);
    }
}
