//! The rows of one side, as they come and then in order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::DataType;

use super::kind::Which;
use super::net::net;
use super::part::{NONE, Part};
use super::plan::JoinPlan;
use super::windows::Span;
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::operator::batching::{BATCH_ROWS, cut};
use crate::operator::parts::{each, share_out};
use crate::poll::sort_unstable;
use crate::select::{interleave, take};
use crate::slice::KeyOrder;
use crate::{Error, Result};

/// Rows of a side, as they came.
pub(super) struct Gathering {
    plan: Arc<JoinPlan>,
    which: Which,
    parts: Vec<Part>,
    rows: usize,
}

/// All rows of a side.
pub(super) struct Side {
    plan: Arc<JoinPlan>,
    which: Which,
    parts: Vec<Part>,
    /// Number of the first row of each part, and of all rows.
    firsts: Vec<usize>,
    /// Times and numbers of the rows that meet others, by key, time and number.
    pub(super) order: KeyOrder,
}

impl Gathering {
    pub(super) fn new(plan: Arc<JoinPlan>, which: Which) -> Self {
        Self { plan, which, parts: Vec::new(), rows: 0 }
    }

    /// Adds rows, on up to `threads` threads, and their keys to `index`.
    pub(super) fn push(
        &mut self,
        index: &mut KeyIndex,
        batches: &[RecordBatch],
        threads: usize,
    ) -> Result<()> {
        let mut before = self.rows;
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if self.rows >= NONE as usize {
            return Err(Error::InvalidValue(format!(
                "{}: more than {} rows; join in parts",
                self.which.name(),
                NONE - 1
            )));
        }
        let (plan, which, parts) = (&self.plan, self.which, &mut self.parts);
        // To read integer keys takes less time than to translate those of several threads.
        let is_one = plan.keys().iter().all(DataType::is_integer) || plan.side(which).weight.is_some();
        let threads = if is_one { 1 } else { threads };
        let others = share_out(
            batches,
            threads,
            |own| {
                for batch in own {
                    parts.push(Part::of(plan, which, (batch, before), index)?.meeting());
                    before += batch.num_rows();
                }
                Ok(())
            },
            |own| {
                let mut index = KeyIndex::new(plan.keys().to_vec())?;
                let part = |batch| Ok(Part::of(plan, which, (batch, 0), &mut index)?.meeting());
                let parts = own.iter().map(part);
                let parts = parts.collect::<Result<Vec<Part>>>()?;
                Ok((index, parts))
            },
        )?;
        for (keys, mut parts) in others {
            let translate = index.absorb(&keys)?;
            for part in &mut parts {
                check()?;
                let meeting = part.keys.iter_mut().filter(|key| **key != NONE);
                meeting.for_each(|key| *key = translate[*key as usize]);
            }
            self.parts.append(&mut parts);
        }
        Ok(())
    }

    /// The rows in order, of which the sides have so many keys.
    pub(super) fn finish(self, key_count: usize, threads: usize) -> Result<Side> {
        let Self { plan, which, mut parts, .. } = self;
        if plan.side(which).weight.is_some() {
            parts = net(which, parts)?;
        }
        parts.retain(|part| part.rows > 0);
        let mut firsts = vec![0];
        for part in &mut parts {
            check()?;
            firsts.push(firsts[firsts.len() - 1] + part.rows);
            part.keys.iter_mut().filter(|key| **key == NONE).for_each(|key| *key = key_count as u32);
        }
        let columns = parts.iter().map(|part| (&part.keys[..], &part.times[..]));
        // The last key is that of the rows that meet no others.
        let mut order = KeyOrder::of(columns, key_count + 1, check)?;
        order.bounds.pop();
        order.slots.truncate(order.bounds[key_count]);
        parts.iter_mut().for_each(|part| part.keys = Vec::new());
        sort(&mut order, threads)?;
        Ok(Side { plan, which, parts, firsts, order })
    }
}

/// Sorts the rows of each key by time and number.
fn sort(order: &mut KeyOrder, threads: usize) -> Result<()> {
    let blocks = cut(&[order], BATCH_ROWS);
    let KeyOrder { slots, bounds } = order;
    let mut rest = &mut slots[..];
    let mut work = Vec::new();
    for keys in blocks.windows(2) {
        let (own, others) = rest.split_at_mut(bounds[keys[1]] - bounds[keys[0]]);
        work.push((&bounds[keys[0]..=keys[1]], own));
        rest = others;
    }
    each(work, threads, |(bounds, slots)| {
        let mut pace = Pace::new();
        for key in bounds.windows(2) {
            let own = &mut slots[key[0] - bounds[0]..key[1] - bounds[0]];
            pace.check(own.len())?;
            if !own.is_sorted_by_key(|&(time, _)| time) {
                sort_unstable(own, check)?;
            }
        }
        Ok(())
    })
}

impl Side {
    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.firsts[self.firsts.len() - 1]
    }

    /// Part of a row, and its place there.
    fn place(&self, row: u32) -> (usize, usize) {
        let part = self.firsts.partition_point(|&first| first <= row as usize) - 1;
        (part, row as usize - self.firsts[part])
    }

    /// The windows of a row, in whichever order it is asked for.
    ///
    /// # Errors
    /// Errors of the condition, which a row that was taken in does not have.
    pub(super) fn windows(&self, row: u32) -> Result<Option<Span>> {
        let (part, at) = self.place(row);
        let part = &self.parts[part];
        let is_timed = part.timed.as_ref().is_none_or(|timed| timed.is_valid(at));
        if is_timed { self.plan.condition.places(part.times[at]) } else { Ok(None) }
    }

    /// The values of a held column in some rows, null for [`NONE`].
    pub(super) fn values(&self, column: usize, rows: &[u32]) -> Result<ArrayRef> {
        let kind = &self.plan.side(self.which).held[column].1;
        let arrays: Vec<&dyn Array> = self.parts.iter().map(|part| part.columns[column].as_ref()).collect();
        match arrays[..] {
            [] => Ok(new_null_array(kind, rows.len())),
            [only] => Ok(take(only, &numbers(rows), None)?),
            _ => {
                let null = new_null_array(kind, 1);
                let arrays: Vec<&dyn Array> = arrays.iter().copied().chain([null.as_ref()]).collect();
                let place = |&row: &u32| if row == NONE { (arrays.len() - 1, 0) } else { self.place(row) };
                Ok(interleave(&arrays, &rows.iter().map(place).collect::<Vec<_>>())?)
            }
        }
    }
}

/// Numbers of rows as Arrow takes them.
fn numbers(rows: &[u32]) -> UInt32Array {
    let nulls = rows.contains(&NONE).then(|| rows.iter().map(|&row| row != NONE).collect());
    UInt32Array::new(rows.to_vec().into(), nulls)
}
