//! The partners of each row of a side: a range of the rows of the other side in order.

use super::condition::Condition;
use super::kind::Which;
use super::side::Side;
use crate::Result;
use crate::interrupt::{Pace, check};
use crate::operator::batching::{BATCH_ROWS, cut};
use crate::operator::parts::each;

/// Where the partners of each row of a side begin and end in the order of the other side.
pub(super) struct Partners(Vec<[u32; 2]>);

impl Partners {
    /// The partners of all rows of `asking`, which is the side `which`, among those of `answering`.
    ///
    /// # Errors
    /// Errors of the condition.
    pub(super) fn of(
        condition: &Condition,
        which: Which,
        asking: &Side,
        answering: &Side,
        threads: usize,
    ) -> Result<Self> {
        let mut found = vec![[0, 0]; asking.order.slots.len()];
        let blocks = cut(&[&asking.order, &answering.order], BATCH_ROWS);
        let (bounds, mut rest, mut work) = (&asking.order.bounds, &mut found[..], Vec::new());
        for keys in blocks.windows(2) {
            let (own, others) = rest.split_at_mut(bounds[keys[1]] - bounds[keys[0]]);
            work.push((keys[0]..keys[1], own));
            rest = others;
        }
        each(work, threads, |(keys, found)| {
            let mut pace = Pace::new();
            let base = bounds[keys.start];
            for key in keys {
                let (own, others) = (bounds[key], answering.order.bounds[key]);
                let (asks, answers) = (bounds[key + 1], answering.order.bounds[key + 1]);
                pace.check(asks - own + answers - others)?;
                let asks = &asking.order.slots[own..asks];
                let answers = &answering.order.slots[others..answers];
                sweep(condition, which, asks, answers, others as u32, &mut found[own - base..])?;
            }
            Ok(())
        })?;
        let mut of_rows = vec![[0, 0]; asking.rows()];
        check()?;
        for (&(_, row), range) in asking.order.slots.iter().zip(found) {
            of_rows[row as usize] = range;
        }
        Ok(Self(of_rows))
    }

    /// How many rows the side has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where those of a row begin and end.
    pub(super) fn of_row(&self, row: usize) -> [u32; 2] {
        self.0[row]
    }
}

/// Finds the partners of rows of one key, in order of time, among others of the key in order of time.
fn sweep(
    condition: &Condition,
    which: Which,
    asks: &[(i64, u32)],
    answers: &[(i64, u32)],
    base: u32,
    found: &mut [[u32; 2]],
) -> Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    let (mut begin, mut end) = (0, 0);
    let mut pace = Pace::new();
    for (&(time, _), found) in asks.iter().zip(found) {
        pace.check(1)?;
        let Some((first, last)) = condition.met(which, time)? else { continue };
        while begin < answers.len() && condition.places(answers[begin].0)?.is_some_and(|(_, to)| to < first) {
            pace.check(1)?;
            begin += 1;
        }
        end = end.max(begin);
        while end < answers.len() && condition.places(answers[end].0)?.is_some_and(|(from, _)| from <= last) {
            pace.check(1)?;
            end += 1;
        }
        *found = [base + begin as u32, base + end as u32];
    }
    Ok(())
}
