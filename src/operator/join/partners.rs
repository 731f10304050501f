//! The partners of each row of a side: a range of the rows of the other side in order.

use std::sync::atomic::{AtomicU64, Ordering};

use super::condition::Condition;
use super::kind::Which;
use super::side::Side;
use crate::Result;
use crate::interrupt::{Pace, check};
use crate::operator::batching::{BATCH_ROWS, cut};
use crate::operator::parts::each;

/// The [`Range`] of the partners of each row of a side, as words that threads set in the order of keys.
pub(super) struct Partners(Vec<AtomicU64>);

/// Where the partners of a row are in the order of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl Range {
    /// There are none.
    pub(super) const NONE: Self = Self { begin: 0, end: 0 };

    /// The end of the range of a row that has one partner, and is not joined by windows: its begin is the partner.
    pub(super) const ONE: u32 = u32::MAX;

    /// How many partners there are.
    pub(super) fn len(self) -> u32 {
        if self.end == Self::ONE { 1 } else { self.end - self.begin }
    }

    fn of(word: u64) -> Self {
        Self { begin: (word >> 32) as u32, end: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.begin) << 32 | u64::from(self.end)
    }
}

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
        let mut of_rows = Vec::new();
        of_rows.resize_with(asking.rows(), AtomicU64::default);
        check()?;
        let blocks = cut(&[&asking.order, &answering.order], BATCH_ROWS);
        let (bounds, found) = (&asking.order.bounds, &of_rows);
        each(blocks.windows(2).collect(), threads, |keys| {
            let (mut pace, mut ranges) = (Pace::new(), Vec::new());
            for key in keys[0]..keys[1] {
                let (own, others) = (bounds[key], answering.order.bounds[key]);
                let (asks, answers) = (bounds[key + 1], answering.order.bounds[key + 1]);
                pace.check(asks - own + answers - others)?;
                let asks = &asking.order.slots[own..asks];
                let answers = &answering.order.slots[others..answers];
                ranges.clear();
                sweep(condition, which, asks, answers, others as u32, &mut ranges)?;
                for (&(_, row), range) in asks.iter().zip(&ranges) {
                    found[row as usize].store(range.word(), Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        Ok(Self(of_rows))
    }

    /// How many rows the side has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The partners of a row.
    pub(super) fn of_row(&self, row: usize) -> Range {
        Range::of(self.0[row].load(Ordering::Relaxed))
    }
}

/// Finds the partners of rows of one key, in order of time, among others of the key in order of time.
fn sweep(
    condition: &Condition,
    which: Which,
    asks: &[(i64, u32)],
    answers: &[(i64, u32)],
    base: u32,
    ranges: &mut Vec<Range>,
) -> Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    let (mut begin, mut end) = (0, 0);
    let mut pace = Pace::new();
    for &(time, _) in asks {
        pace.check(1)?;
        let Some((first, last)) = condition.met(which, time)? else {
            ranges.push(Range::NONE);
            continue;
        };
        while begin < answers.len() && condition.places(answers[begin].0)?.is_some_and(|(_, to)| to < first) {
            pace.check(1)?;
            begin += 1;
        }
        end = end.max(begin);
        while end < answers.len() && condition.places(answers[end].0)?.is_some_and(|(from, _)| from <= last) {
            pace.check(1)?;
            end += 1;
        }
        // The only partner is at hand here, and would be looked up in the order again.
        let range = match condition.windows() {
            None if end == begin + 1 => Range { begin: answers[begin].1, end: Range::ONE },
            _ => Range { begin: base + begin as u32, end: base + end as u32 },
        };
        ranges.push(range);
    }
    Ok(())
}
