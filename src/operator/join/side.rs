//! The rows of one side, as they come and then in order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};

use super::kind::Which;
use super::net::net;
use super::part::Part;
use super::plan::JoinPlan;
use super::windows::Span;
use crate::interrupt::check;
use crate::operator::numbered::{NONE, NumberedKeys};
use crate::operator::parts::each;
use crate::select::{interleave, take};
use crate::slice::KeyOrder;
use crate::{Error, Result};

/// Rows of a side, as they came.
pub(super) struct Gathering {
    plan: Arc<JoinPlan>,
    which: Which,
    parts: Vec<Part>,
    pub(super) rows: usize,
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

    /// Adds rows, on up to `threads` threads, and their keys to `all`.
    pub(super) fn push(
        &mut self,
        all: &mut NumberedKeys,
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
        let (plan, which) = (&self.plan, self.which);
        let mut read = Vec::with_capacity(batches.len());
        for batch in batches {
            read.push((batch, before, None));
            before += batch.num_rows();
        }
        each(read.iter_mut().collect(), threads, |(batch, before, part)| {
            *part = Some(Part::read(plan, which, (batch, *before))?);
            Ok(())
        })?;
        let (parts, keys): (Vec<Part>, Vec<RecordBatch>) =
            read.into_iter().filter_map(|(.., part)| part).unzip();
        let mut numbers = all.number(&keys, threads)?.into_iter();
        let parts = parts.into_iter().zip(&keys).map(|(part, keys)| {
            let numbers = numbers.by_ref().take(part.rows).collect();
            part.numbered(numbers, keys).meeting()
        });
        self.parts.extend(parts);
        Ok(())
    }

    /// Knows that all rows have come, of which the sides have these keys.
    ///
    /// # Errors
    /// `InvalidValue` for a row that retracts one that is not there.
    pub(super) fn close(&mut self, keys: &NumberedKeys) -> Result<()> {
        if self.plan.side(self.which).weight.is_some() {
            self.parts = net(self.which, std::mem::take(&mut self.parts))?;
        }
        for part in &mut self.parts {
            check()?;
            keys.settle(&mut part.keys);
        }
        Ok(())
    }

    /// Leaves rows out of the order whose key no row of another side has, if there are many. There are so many keys.
    pub(super) fn leave_out_unmet(&mut self, other: &Self, keys: usize) -> Result<()> {
        let has_key = |&&key: &&u32| key != NONE;
        let rows: usize = other.parts.iter().map(|part| part.keys.iter().filter(has_key).count()).sum();
        // Mostly, few keys are of this side alone then.
        if rows >= keys {
            return Ok(());
        }
        let mut are_met = vec![0u64; keys.div_ceil(64)];
        for part in &other.parts {
            check()?;
            part.keys.iter().filter(has_key).for_each(|&key| are_met[key as usize / 64] |= 1 << (key % 64));
        }
        for part in &mut self.parts {
            check()?;
            let known = part.keys.iter_mut().filter(|key| **key != NONE);
            known
                .filter(|key| are_met[**key as usize / 64] >> (**key % 64) & 1 == 0)
                .for_each(|key| *key = NONE);
        }
        Ok(())
    }

    /// The rows in order, once both sides are closed.
    pub(super) fn finish(self, keys: &NumberedKeys, threads: usize) -> Result<Side> {
        let Self { plan, which, mut parts, .. } = self;
        parts.retain(|part| part.rows > 0);
        let mut firsts = vec![0];
        for part in &parts {
            firsts.push(firsts[firsts.len() - 1] + part.rows);
        }
        let columns = parts.iter().map(|part| (&part.keys[..], &part.times[..]));
        let order = keys.order(columns, threads)?;
        parts.iter_mut().for_each(|part| part.keys = Vec::new());
        Ok(Side { plan, which, parts, firsts, order })
    }
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
