//! Rows of a result that a step has found, and their columns.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int8Array, RecordBatch, new_null_array};

use crate::interrupt::check;
use crate::operator::batching::{BATCH_ROWS, in_parts};
use crate::operator::held::{Address, Store};
use crate::operator::join::kind::Which;
use crate::operator::join::plan::{JoinPlan, Source};
use crate::select::interleave;
use crate::{Error, Result};

/// A row of a side.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pick {
    /// There is none.
    None,
    /// One of those that are being pushed.
    New(u32),
    Stored(Address),
}

/// Rows of a result.
#[derive(Debug, Default)]
pub(super) struct Found {
    left: Vec<Pick>,
    right: Vec<Pick>,
    /// Empty if rows are not joined by windows.
    windows: Vec<Option<i64>>,
    /// Empty if rows have no weights.
    weights: Vec<i8>,
    /// Which share of the keys is left.
    share: f64,
}

/// What a row of a result has besides the rows of the sides: a window, and a weight, if rows are joined by windows and have
/// weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) window: Option<Option<i64>>,
    pub(super) weight: Option<i8>,
}

impl Beside {
    /// What stands beside a row of another weight.
    pub(super) fn weighing(self, weight: i8) -> Self {
        Self { weight: Some(weight), ..self }
    }
}

/// Where rows of a side come from: the columns of those that are being pushed, and the others.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) new: &'a [ArrayRef],
    pub(super) store: &'a Store,
}

/// Arrays of a side, and the place of each row in them: 0 for none, then the new rows, then chunks.
struct Places {
    chunks: Vec<u32>,
    rows: Vec<(usize, usize)>,
}

impl Found {
    /// No rows, of a call at which this share of the keys is left.
    pub(super) fn of(share: f64) -> Self {
        Self { share, ..Self::default() }
    }

    pub(super) fn push(&mut self, which: Which, own: Pick, other: Pick, beside: Beside) {
        let (left, right) = match which {
            Which::Left => (own, other),
            Which::Right => (other, own),
        };
        self.left.push(left);
        self.right.push(right);
        self.windows.extend(beside.window);
        self.weights.extend(beside.weight);
    }

    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// Appends the rows in batches.
    pub(super) fn lower(
        &self,
        plan: &JoinPlan,
        origins: [Origin<'_>; 2],
        to: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        for from in (0..self.len()).step_by(BATCH_ROWS) {
            let rows = from..self.len().min(from + BATCH_ROWS);
            in_parts(rows, &mut |some| self.lower_some(plan, origins, some, to))?;
        }
        Ok(())
    }

    /// Appends some of the rows in one batch.
    fn lower_some(
        &self,
        plan: &JoinPlan,
        origins: [Origin<'_>; 2],
        some: Range<usize>,
        to: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        check()?;
        let (left, right) = (&self.left[some.clone()], &self.right[some.clone()]);
        let (of_left, of_right) = (Places::of(left), Places::of(right));
        let column = |source: &Source| -> Result<ArrayRef> {
            match *source {
                Source::Of(Which::Left, at) => of_left.values(origins[0], plan, Which::Left, at),
                Source::Of(Which::Right, at) => of_right.values(origins[1], plan, Which::Right, at),
                Source::Key(at, other) => {
                    // One array of all values, and one that has those of the right side where there is no left row.
                    let own = of_left.values(origins[0], plan, Which::Left, at)?;
                    let others = of_right.values(origins[1], plan, Which::Right, other)?;
                    let place = |(row, pick): (usize, &Pick)| (usize::from(matches!(pick, Pick::None)), row);
                    let places: Vec<(usize, usize)> = left.iter().enumerate().map(place).collect();
                    Ok(interleave(&[own.as_ref(), others.as_ref()], &places)?)
                }
                Source::Window => match plan.condition.windows() {
                    Some(windows) => windows.column(&self.windows[some.clone()]),
                    None => Err(Error::Internal("a join without windows has a column of them".into())),
                },
                Source::Share => Ok(Arc::new(Float64Array::from(vec![self.share; some.len()]))),
                Source::Weight => Ok(Arc::new(Int8Array::from(self.weights[some.clone()].to_vec()))),
            }
        };
        let columns = plan.sources.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        to.push(plan.batch(some.len(), columns)?);
        Ok(())
    }
}

impl Places {
    fn of(picks: &[Pick]) -> Self {
        let (mut chunks, mut known) = (Vec::new(), HashMap::new());
        let mut place = |pick: &Pick| match *pick {
            Pick::None => (0, 0),
            Pick::New(row) => (1, row as usize),
            Pick::Stored(Address { chunk, row }) => {
                let at = *known.entry(chunk).or_insert_with(|| {
                    chunks.push(chunk);
                    chunks.len() + 1
                });
                (at, row as usize)
            }
        };
        let rows = picks.iter().map(&mut place).collect();
        Self { chunks, rows }
    }

    fn values(&self, origin: Origin<'_>, plan: &JoinPlan, which: Which, at: usize) -> Result<ArrayRef> {
        let kind = &plan.side(which).held[at].1;
        let none = new_null_array(kind, 1);
        let new = origin.new.get(at).unwrap_or(&none);
        let mut arrays: Vec<&dyn Array> = vec![none.as_ref(), new.as_ref()];
        for &chunk in &self.chunks {
            let columns = origin.store.columns(chunk)?;
            let column = columns.get(at);
            arrays.push(
                column.ok_or_else(|| Error::Internal("a chunk of a join lacks a column".into()))?.as_ref(),
            );
        }
        Ok(interleave(&arrays, &self.rows)?)
    }
}
