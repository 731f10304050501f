//! Which rows are duplicates, bound to a schema.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_cast::cast;
use arrow_schema::{Schema, SchemaRef};

use super::last::{Last, Per};
use crate::dictionary::widened;
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::operator::length::length;
use crate::operator::schema::find;
use crate::operator::window_spec::Length;
use crate::poll::sort_unstable;
use crate::window::Measure;
use crate::{Error, Result};

/// Which rows are duplicates, bound to a schema.
#[derive(Debug)]
pub struct DistinctPlan {
    pub(super) input: SchemaRef,
    /// That of rows, but for dictionaries, whose codes have 32 bits.
    pub(super) output: SchemaRef,
    pub(super) by: Vec<usize>,
    pub(super) time: usize,
    pub(super) measure: Measure,
    pub(super) within: i64,
    pub(super) per: Per,
}

impl DistinctPlan {
    /// Binds to a schema; a row is a duplicate at most `within` after another one of its key, of columns `by`: after any, or
    /// after one that is left.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue` for columns that there are not, types that cannot be keys or times,
    /// and lengths that do not fit these.
    pub fn new(input: SchemaRef, by: &[String], time: &str, within: Length, per: Per) -> Result<Self> {
        let by: Vec<usize> = by.iter().map(|name| find(&input, "by", name)).collect::<Result<_>>()?;
        KeyIndex::new(by.iter().map(|&key| input.field(key).data_type().clone()).collect())?;
        let at = find(&input, "time", time)?;
        let measure = Measure::new(time, input.field(at).data_type())?;
        let within = length(&measure, "within", within)?;
        let fields = input.fields().iter().map(|field| {
            let kind = widened(field.data_type());
            field.as_ref().clone().with_data_type(kind)
        });
        let output =
            Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), input.metadata().clone()));
        Ok(Self { input, output, by, time: at, measure, within, per })
    }

    /// The schema of rows.
    pub fn input(&self) -> &SchemaRef {
        &self.input
    }

    /// The times of rows.
    pub fn measure(&self) -> &Measure {
        &self.measure
    }

    /// The distance of duplicates, in units of the times.
    pub fn within(&self) -> i64 {
        self.within
    }

    /// Refuses a batch of another schema.
    pub(super) fn check(&self, batch: &RecordBatch) -> Result<()> {
        let (fields, own) = (self.input.fields(), batch.schema_ref().fields());
        if fields.len() != own.len() || fields.iter().zip(own).any(|(a, b)| a.data_type() != b.data_type()) {
            return Err(Error::InvalidType("batch: its schema is not the one of the stream".into()));
        }
        Ok(())
    }

    /// The columns of rows as results have them.
    pub(super) fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let columns = batch.columns().iter().zip(self.output.fields());
        columns.map(|(column, field)| Ok(cast(column, field.data_type())?)).collect()
    }

    /// The key columns of rows.
    pub(super) fn keys(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.by.iter().map(|&key| batch.column(key).clone()).collect()
    }

    /// Numbers of keys, none of which is known.
    pub(super) fn index(&self) -> Result<KeyIndex> {
        KeyIndex::new(self.by.iter().map(|&key| self.input.field(key).data_type().clone()).collect())
    }

    /// Which rows of a table are no duplicates; of rows of one time, the first come first. O(n) for n rows in order of time,
    /// and O(n log n) for others.
    ///
    /// # Errors
    /// `InvalidType` for batches of another schema; interrupts.
    pub fn left(&self, batches: &[RecordBatch]) -> Result<BooleanArray> {
        let (mut index, mut keys, mut order) = (self.index()?, Vec::new(), Vec::new());
        let mut pace = Pace::new();
        for batch in batches {
            self.check(batch)?;
            let times = self.measure.read(batch.column(self.time))?;
            let timed = batch.column(self.time).logical_nulls();
            let first = keys.len() as u64;
            index.assign_all(&self.keys(batch), batch.num_rows(), &mut keys, check)?;
            for (row, &time) in times.iter().enumerate() {
                pace.check(1)?;
                if timed.as_ref().is_none_or(|timed| timed.is_valid(row)) {
                    order.push((time, first + row as u64));
                }
            }
        }
        if !order.is_sorted() {
            sort_unstable(&mut order, check)?;
        }
        let mut left = BooleanBufferBuilder::new(keys.len());
        // Rows without a time are.
        left.append_n(keys.len(), true);
        let mut last = Last::default();
        last.make_room(index.len());
        for (time, row) in order {
            pace.check(1)?;
            left.set_bit(row as usize, last.passes((self.per, self.within), keys[row as usize], time));
            last.keep();
        }
        Ok(BooleanArray::new(left.finish(), None))
    }
}
