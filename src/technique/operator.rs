//! A technique with the operator's own face: Arrow batches and watermarks in, Arrow batches of windows out.
//!
//! Keys, lateness, lowering and the columns of results are those of [`crate::operator::Stream`], so that what differs is
//! the technique alone. Unlike that one it has one query, no snapshots, and cannot take back a call that fails halfway: it
//! refuses all that follow.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;

use super::{Method, Setting, Technique, Windows};
use crate::aggregate::Partials;
use crate::keys::KeyIndex;
use crate::operator::{Columns, Gate, Late, Options, Plan, Stats, check_schema, extent_fields, lowered};
use crate::slice::strategy::Order;
use crate::{Error, Result};

/// A query over a stream by one of the techniques.
pub struct Operator {
    plan: Arc<Plan>,
    options: Options,
    technique: Box<dyn Technique>,
    keys: KeyIndex,
    schema: SchemaRef,
    late: Late,
    watermark: Option<i64>,
    latest: Option<i64>,
    rows: u64,
    closed: bool,
    /// Whether a call failed halfway.
    broken: bool,
}

impl Operator {
    /// An operator of this technique; how slices are held is not asked.
    ///
    /// # Errors
    /// `InvalidValue` with the reason for what the technique cannot do, and for a result column named as the operator's.
    pub fn new(method: Method, plan: Arc<Plan>, options: Options) -> Result<Self> {
        let technique = method.make(Setting::of(&plan, options.order, options.allowed_lateness)?)?;
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        let mut fields: Vec<Field> =
            plan.output().fields().iter().map(|field| field.as_ref().clone()).collect();
        if fields.iter().any(|field| field.name() == "update") {
            return Err(Error::InvalidValue(
                "aggs: results would have two columns 'update'; give one of them another name with .alias()"
                    .into(),
            ));
        }
        fields.push(Field::new("update", DataType::Boolean, false));
        Ok(Self {
            keys: KeyIndex::new(types.collect())?,
            schema: Arc::new(Schema::new(fields)),
            late: Late::new(plan.input()),
            plan,
            options,
            technique,
            watermark: None,
            latest: None,
            rows: 0,
            closed: false,
            broken: false,
        })
    }

    /// The schema of results: that of the query, and `update`.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The schema of rows.
    pub fn input(&self) -> &SchemaRef {
        self.plan.input()
    }

    /// How far the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        self.watermark
    }

    /// Whether [`Operator::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes in rows, and hands out windows as [`crate::operator::Stream::push`] does.
    ///
    /// # Errors
    /// As there. If it is none of the batches' own, the operator is of no use any longer.
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.check_open("push")?;
        let gate = Gate {
            order: self.options.order,
            watermark: self.watermark,
            cutoff: self.watermark.map(|_| self.technique.cutoff()),
            bounds: self.plan.edges().bounds(),
        };
        let (mut accepted, mut late, mut latest) = (Vec::new(), Vec::new(), self.latest);
        let mut before = 0;
        for batch in batches {
            check_schema(self.plan.input(), batch)?;
            accepted.push(gate.accept(&self.plan, (batch, before), &mut latest, (&self.late, &mut late))?.0);
            before += batch.num_rows();
        }
        let rows = concat_batches(self.plan.input(), &accepted)?;
        let columns = Columns::of(&self.plan, self.plan.partials(), &rows)?;
        self.broken = true;
        let mut ids = Vec::new();
        self.keys.assign(&columns.keys, columns.times.len(), &mut ids)?;
        let windows = self.technique.push(&ids, &columns.times, &columns.inputs)?;
        let mut results = self.told(&windows)?;
        let now = match (self.options.order, self.options.disorder, latest) {
            (Order::InOrder, _, latest) => latest,
            (Order::OutOfOrder, Some(disorder), Some(latest)) => Some(latest.saturating_sub(disorder)),
            _ => None,
        };
        if let Some(now) = now.filter(|_| now > self.watermark) {
            results.extend(self.reach(now)?);
        }
        self.late.add(late);
        self.latest = latest;
        self.rows += columns.times.len() as u64;
        self.broken = false;
        Ok(results)
    }

    /// Moves the watermark, and hands out the windows that end there or before.
    ///
    /// # Errors
    /// As [`crate::operator::Stream::advance`].
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.check_open("advance")?;
        if let Some(last) = self.watermark.filter(|&last| watermark < last) {
            return Err(Error::InvalidValue(format!(
                "watermark: {watermark} is before the last one, {last} (both in {} of '{}'); a watermark never goes \
                 back",
                self.plan.measure().unit_name(),
                self.plan.measure().column()
            )));
        }
        self.broken = true;
        let results = self.reach(watermark)?;
        self.broken = false;
        Ok(results)
    }

    /// Ends the stream: hands out all windows that are left.
    ///
    /// # Errors
    /// As [`Operator::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        let results = self.check_open("close").and_then(|()| self.advance(i64::MAX))?;
        self.closed = true;
        Ok(results)
    }

    /// Rows that came too late or without a time, with the reason, those handed out before left out.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.late.take()
    }

    /// The schema of [`Operator::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and did; its slices are the partials that the technique keeps.
    pub fn stats(&self) -> Stats {
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

    fn check_open(&self, call: &str) -> Result<()> {
        if self.closed {
            return Err(Error::InvalidValue(format!(
                "{call}: the operator is closed; nothing comes after close()"
            )));
        }
        if self.broken {
            return Err(Error::InvalidValue(format!(
                "{call}: a call before failed halfway, which technique='{}' cannot take back; begin anew",
                self.technique.name()
            )));
        }
        Ok(())
    }

    fn reach(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        let windows = self.technique.advance(watermark)?;
        self.watermark = Some(watermark);
        self.told(&windows)
    }

    /// Windows as the columns of results.
    fn told(&self, windows: &Windows) -> Result<Vec<RecordBatch>> {
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let ids = UInt32Array::from(windows.keys.clone());
        let mut columns: Vec<ArrayRef> = Vec::new();
        for values in self.keys.values()? {
            columns.push(take(&values, &ids, None)?);
        }
        if self.plan.windows().len() > 1 {
            let names = windows.windows.iter().map(|&window| self.plan.windows()[window as usize].0.as_str());
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        let measure = self.plan.measure();
        let (starts, ends) = (measure.array(windows.starts.clone())?, measure.array(windows.ends.clone())?);
        columns.push(Arc::new(StructArray::try_new(extent_fields(measure), vec![starts, ends], None)?));
        let answers: Vec<&dyn Partials> = windows.partials.iter().map(AsRef::as_ref).collect();
        columns.extend(lowered(&self.plan, &answers)?);
        columns.push(Arc::new(BooleanArray::from(windows.updates.clone())));
        let options = RecordBatchOptions::new().with_row_count(Some(windows.len()));
        Ok(vec![RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?])
    }
}
