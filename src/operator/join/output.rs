//! Both sides row by row, and then the result batch by batch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int8Array, RecordBatch};
use arrow_schema::SchemaRef;

use super::kind::Which;
use super::lister::{Listed, Lister, Rows, What};
use super::partners::Partners;
use super::plan::{JoinPlan, Source};
use super::side::{Gathering, Side};
use crate::interrupt::check;
use crate::operator::batching::{BATCH_ROWS, Size, bytes, in_parts, varies};
use crate::operator::numbered::NumberedKeys;
use crate::operator::parts::each;
use crate::operator::spread::Spreading;
use crate::{Error, Result};

/// Rows of both sides, as they come.
pub struct JoinRows {
    plan: Arc<JoinPlan>,
    keys: NumberedKeys,
    sides: [Gathering; 2],
}

/// The result, of which only some batches are held.
pub struct JoinOutput {
    plan: Arc<JoinPlan>,
    sides: [Side; 2],
    /// `None` before the first row, and at the end.
    lister: Option<Lister>,
    /// What is listed once the current one has ended.
    then: VecDeque<(Which, What)>,
    size: Size,
    varies: bool,
    ready: VecDeque<RecordBatch>,
}

impl JoinRows {
    /// No rows.
    pub fn new(plan: Arc<JoinPlan>) -> Result<Self> {
        let keys = NumberedKeys::new(plan.keys().to_vec(), Spreading::DEFAULT)?;
        let sides = [Which::Left, Which::Right].map(|which| Gathering::new(plan.clone(), which));
        Ok(Self { plan, keys, sides })
    }

    /// Adds rows of a side, on up to `threads` threads; all of the left one before any of the right one.
    ///
    /// # Errors
    /// `InvalidValue` for rows of the left side after others.
    /// `InvalidType` or `InvalidValue` for a batch that the join was not bound to, or times above int64; `Overflow` for a
    /// time that is too far away for the windows.
    pub fn push(&mut self, which: Which, batches: &[RecordBatch], threads: usize) -> Result<()> {
        let [left, right] = &mut self.sides;
        let side = match which {
            Which::Left if right.rows > 0 => {
                return Err(Error::InvalidValue("left: its rows come before those of the right side".into()));
            }
            Which::Left => left,
            Which::Right => right,
        };
        if which == Which::Right && !self.plan.kind.keeps(Which::Right) {
            // A row whose key no left row has is in no result.
            self.keys.close();
        }
        side.push(&mut self.keys, batches, threads)
    }

    /// The result: pairs by the left row, in the order in which these were pushed, then (with windows) by window, then by
    /// the time of the right row, then by its order. A left row without a partner is where its pairs would be. The right
    /// rows without a partner follow, in their order.
    ///
    /// # Errors
    /// An interrupt.
    pub fn finish(self, threads: usize) -> Result<JoinOutput> {
        let Self { plan, keys, sides: [mut left, mut right] } = self;
        left.close(&keys)?;
        right.close(&keys)?;
        left.leave_out_unmet(&right, keys.len())?;
        let mut finished = [None, None];
        let work = [left, right].into_iter().zip(&mut finished).collect();
        each(work, threads, |(side, finished): (Gathering, _)| {
            *finished = Some(side.finish(&keys, threads)?);
            Ok(())
        })?;
        let [Some(left), Some(right)] = finished else {
            return Err(Error::Internal("a side of a join is in no order".into()));
        };
        let sides = [left, right];
        let mut then = VecDeque::from([(Which::Left, What::of(plan.kind))]);
        if plan.kind.keeps(Which::Right) {
            then.push_back((Which::Right, What::Rest));
        }
        let varies = plan.output().fields().iter().any(|field| varies(field.data_type()));
        Ok(JoinOutput { plan, sides, lister: None, then, size: Size::new(), varies, ready: VecDeque::new() })
    }
}

impl JoinOutput {
    /// The schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        self.plan.output()
    }

    /// The next batch, if there is one. Each of several threads makes one, some batches ahead.
    ///
    /// # Errors
    /// An interrupt; `Overflow` for a row that does not fit the types of Arrow.
    pub fn next_batch(&mut self, threads: usize) -> Result<Option<RecordBatch>> {
        if self.ready.is_empty() {
            let parts = self.list(threads.max(1), threads)?;
            let mut made: Vec<Vec<RecordBatch>> = vec![Vec::new(); parts.len()];
            let this = &*self;
            let work = parts.iter().zip(&mut made).collect();
            each(work, threads, |(rows, made)| this.make(rows, made))?;
            if let Some(largest) = made.iter().flatten().max_by_key(|batch| bytes(batch.columns())) {
                self.size.follow(largest.num_rows(), bytes(largest.columns()));
            }
            self.ready.extend(made.into_iter().flatten());
        }
        Ok(self.ready.pop_front())
    }

    /// Lists rows of up to `count` batches.
    fn list(&mut self, count: usize, threads: usize) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        let size = if self.varies { self.size.rows() } else { BATCH_ROWS };
        while listed.len() < count {
            let [left, right] = &self.sides;
            let of = |which| if which == Which::Left { (left, right) } else { (right, left) };
            let condition = &self.plan.condition;
            let Some(lister) = &mut self.lister else {
                let Some((which, what)) = self.then.pop_front() else { break };
                let (own, other) = of(which);
                let partners = Partners::of(condition, which, own, other, threads)?;
                self.lister = Some(Lister::new(which, what, partners));
                continue;
            };
            let (own, other) = of(lister.which());
            let rows = lister.next(condition, own, other, size)?;
            if rows.len() == 0 {
                self.lister = None;
            } else {
                listed.push(rows);
            }
        }
        Ok(listed)
    }

    /// Makes a batch of these rows, or more where they are larger than expected.
    fn make(&self, listed: &Listed, made: &mut Vec<RecordBatch>) -> Result<()> {
        let ([left, right], which) = (&self.sides, listed.which());
        let rows = &listed.rows(if which == Which::Left { right } else { left });
        in_parts(0..listed.len(), &mut |some| {
            check()?;
            let columns =
                self.plan.sources.iter().map(|&source| self.column(source, which, rows, some.clone()));
            made.push(self.plan.batch(some.len(), columns.collect::<Result<_>>()?)?);
            Ok(())
        })
    }

    /// A column of some of the rows, of which the side `which` leads.
    fn column(&self, source: Source, which: Which, rows: &Rows, some: Range<usize>) -> Result<ArrayRef> {
        let [left, right] = &self.sides;
        match (source, which) {
            (Source::Of(Which::Left, at) | Source::Key(at, _), Which::Left)
            | (Source::Of(Which::Left, at), Which::Right) => left.values(at, &rows.left[some]),
            (Source::Of(Which::Right, at), _) | (Source::Key(_, at), Which::Right) => {
                right.values(at, &rows.right[some])
            }
            (Source::Window, _) => match self.plan.condition.windows() {
                Some(windows) => windows.column(&rows.windows[some]),
                None => Err(Error::Internal("a join without windows has a column of them".into())),
            },
            (Source::Share, _) => Ok(Arc::new(Float64Array::from(vec![1.0; some.len()]))),
            (Source::Weight, _) => Ok(Arc::new(Int8Array::from(vec![1; some.len()]))),
        }
    }
}
