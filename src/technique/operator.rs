//! A technique with the operator's own face: Arrow batches and watermarks in, Arrow batches of windows out.
//!
//! Keys, lateness, lowering and the columns of results are those of [`crate::operator::Stream`], so that what differs is
//! the technique alone. Unlike that one it has one query and no snapshots. A call that fails leaves it as it was: not by
//! doing what can fail first, as the operator does, but by going back to a copy ([`super::tape`]).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;

use super::tape::{Call, Pushed, Tape};
use super::{Method, Setting, Technique, Windows};
use crate::aggregate::Input;
use crate::dictionary::widened;
use crate::keys::KeyIndex;
use crate::operator::{
    Columns, Face, Gate, Late, Named, Options, Plan, Results, Running, Stats, check_open, check_schema,
    check_watermark,
};
use crate::slice::strategy::Order;
use crate::{Error, Result};

/// A query over a stream by one of the techniques.
pub struct Operator {
    results: Results,
    options: Options,
    technique: Box<dyn Technique>,
    keys: KeyIndex,
    late: Late,
    watermark: Option<i64>,
    latest: Option<i64>,
    rows: u64,
    closed: bool,
    tape: Tape,
    /// Whether a call failed that could not be taken back.
    broken: bool,
}

impl Operator {
    /// An operator of this technique; how slices are held is not asked.
    ///
    /// # Errors
    /// `InvalidValue` with the reason for what the technique cannot do, and for a result column named as the operator's.
    pub fn new(method: Method, plan: Arc<Plan>, options: Options) -> Result<Self> {
        let mut technique = method.make(Setting::of(&plan, options.order, options.allowed_lateness)?)?;
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        Ok(Self {
            keys: KeyIndex::new(types.collect())?,
            late: Late::new(plan.input()),
            results: Results::of(plan)?,
            options,
            tape: Tape::of(&mut *technique)?,
            technique,
            watermark: None,
            latest: None,
            rows: 0,
            closed: false,
            broken: false,
        })
    }

    /// The rows of batches that are taken.
    fn rows(&mut self, batches: &[RecordBatch]) -> Result<Pushed> {
        let plan = self.results.plan();
        let mut inputs: Vec<Vec<Input>> = plan.partials().iter().map(|_| Vec::new()).collect();
        let mut rows = Pushed::default();
        for batch in batches {
            let columns = Columns::of(plan, plan.partials(), batch)?;
            self.keys.assign(&columns.keys, columns.times.len(), &mut rows.keys)?;
            rows.times.extend_from_slice(&columns.times);
            inputs.iter_mut().zip(columns.inputs).for_each(|(all, input)| all.push(input));
        }
        rows.inputs = inputs.iter().map(|inputs| joined(inputs)).collect::<Result<_>>()?;
        Ok(rows)
    }

    fn check_open(&self, call: &str) -> Result<()> {
        check_open(self.closed, call)?;
        match self.broken {
            false => Ok(()),
            true => Err(Error::InvalidValue(format!(
                "{call}: a call before failed, and taking it back failed, too, in a function that had not raised with \
                 the same rows; begin anew"
            ))),
        }
    }

    /// Does what can fail; if it does, the technique is as it was.
    fn attempt(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Vec<RecordBatch>>,
    ) -> Result<Vec<RecordBatch>> {
        let done = work(self);
        if done.is_err() {
            match self.tape.rewound() {
                Ok(technique) => self.technique = technique,
                Err(_) => self.broken = true,
            }
        }
        done
    }

    /// Windows as the columns of results.
    fn told(&self, windows: &Windows) -> Result<Vec<RecordBatch>> {
        let Windows { keys, windows, starts, ends, ranks, updates, partials } = windows;
        self.results.batch(&self.keys, Named { keys, windows, starts, ends, ranks, updates }, partials)
    }
}

/// What a partial reads of several batches as what it reads of one. A dictionary has codes of 32 bits then: those of all
/// batches may have more values than the codes of one can tell apart.
fn joined(inputs: &[Input]) -> Result<Input> {
    let one = |arrays: Vec<ArrayRef>| -> Result<ArrayRef> {
        let arrays: Vec<ArrayRef> = arrays
            .iter()
            .map(|array| match widened(array.data_type()) {
                wide if wide == *array.data_type() => Ok(array.clone()),
                wide => cast(array, &wide),
            })
            .collect::<std::result::Result<_, _>>()?;
        match &arrays[..] {
            [only] => Ok(only.clone()),
            several => Ok(concat(&several.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        }
    };
    let Some(first) = inputs.first() else {
        return Err(Error::Internal("a call has at least one batch".into()));
    };
    let columns = (0..first.columns.len())
        .map(|column| one(inputs.iter().map(|input| input.columns[column].clone()).collect()));
    let taken: Option<Vec<ArrayRef>> = inputs
        .iter()
        .map(|input| input.taken.as_ref().map(|taken| Arc::new(taken.clone()) as ArrayRef))
        .collect();
    let taken =
        taken.map(one).transpose()?.map(|taken: ArrayRef| -> BooleanArray { taken.as_boolean().clone() });
    Ok(Input { columns: columns.collect::<Result<_>>()?, taken })
}

impl Face for Operator {
    fn input(&self) -> &SchemaRef {
        self.results.plan().input()
    }

    fn schema(&self) -> &SchemaRef {
        self.results.schema()
    }

    fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.check_open("push")?;
        let plan = self.results.plan();
        let gate = Gate {
            order: self.options.order,
            watermark: self.watermark,
            cutoff: self.watermark.map(|_| self.technique.cutoff()),
            bounds: plan.edges().bounds(),
        };
        let (mut accepted, mut late, mut latest) = (Vec::new(), Vec::new(), self.latest);
        let mut before = 0;
        for batch in batches {
            check_schema(plan.input(), batch)?;
            accepted.push(gate.accept(plan, (batch, before), &mut latest, Some((&self.late, &mut late)))?.0);
            before += batch.num_rows();
        }
        let rows = if accepted.is_empty() { None } else { Some(self.rows(&accepted)?) };
        let now = match (self.options.order, self.options.disorder, latest) {
            (Order::InOrder, _, latest) => latest,
            (Order::OutOfOrder, Some(disorder), Some(latest)) => Some(latest.saturating_sub(disorder)),
            _ => None,
        };
        let now = now.filter(|_| now > self.watermark);
        let results = self.attempt(|this| {
            let mut results = Vec::new();
            if let Some(rows) = &rows {
                let windows = this.technique.push(&rows.keys, &rows.times, &rows.inputs)?;
                results = this.told(&windows)?;
            }
            if let Some(now) = now {
                let windows = this.technique.advance(now)?;
                results.extend(this.told(&windows)?);
            }
            Ok(results)
        })?;
        self.late.add(late);
        (self.latest, self.watermark) = (latest, now.max(self.watermark));
        self.rows += rows.as_ref().map_or(0, |rows| rows.times.len() as u64);
        let calls = rows.map(Call::Push).into_iter().chain(now.map(Call::Advance));
        self.tape.note(calls, &mut *self.technique);
        Ok(results)
    }

    fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.check_open("advance")?;
        check_watermark(self.results.plan().measure(), self.watermark, watermark)?;
        let results = self.attempt(|this| {
            let windows = this.technique.advance(watermark)?;
            this.told(&windows)
        })?;
        self.watermark = Some(watermark);
        self.tape.note([Call::Advance(watermark)], &mut *self.technique);
        Ok(results)
    }

    fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.check_open("close")?;
        let results = self.attempt(|this| {
            let windows = this.technique.close()?;
            this.told(&windows)
        })?;
        (self.watermark, self.closed) = (Some(i64::MAX), true);
        // Nothing is taken back any more.
        self.tape = Tape::of(&mut *self.technique)?;
        Ok(results)
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        self.late.take()
    }

    fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// Its slices are the partials that the technique keeps; what it would go back to is not counted.
    fn stats(&self) -> Stats {
        let own = self.technique.stats();
        Stats {
            keys: self.keys.len(),
            slices: own.partials,
            rows_kept: own.rows,
            bytes: own.bytes,
            rows: self.rows,
            late: self.late.count(),
            late_bytes: self.late.bytes(),
            windows: own.windows,
            updates: own.updates,
            ..Stats::default()
        }
    }

    fn slicing(&mut self) -> Result<&mut Running> {
        Err(Error::InvalidValue(format!(
            "technique: {} is there to compare with: it has one query, no slices to show and no snapshots; use \
             technique='slicing'",
            self.technique.name()
        )))
    }
}
