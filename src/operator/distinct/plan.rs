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
use crate::operator::batching::{BATCH_ROWS, cut};
use crate::operator::length::length;
use crate::operator::numbered::{NONE, NumberedKeys};
use crate::operator::parts::each;
use crate::operator::schema::find;
use crate::operator::spread::{Spreading, of_keys};
use crate::operator::window_spec::Length;
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

    /// Which rows of a table are no duplicates, found on up to `threads` threads; of rows of one time, the first come first.
    /// O(n) for n rows in order of time, and O(n log n) for others.
    ///
    /// # Errors
    /// `InvalidType` for batches of another schema; `InvalidValue` for more rows than 32 bits can number; interrupts.
    pub fn left(&self, batches: &[RecordBatch], threads: usize) -> Result<BooleanArray> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= NONE as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} rows; leave out duplicates in parts of the keys",
                NONE - 1
            )));
        }
        batches.iter().try_for_each(|batch| self.check(batch))?;
        let read = batches.iter().map(|batch| self.measure.read(batch.column(self.time)));
        let times = read.collect::<Result<Vec<_>>>()?;
        let types = self.by.iter().map(|&key| self.input.field(key).data_type().clone());
        let mut keys = NumberedKeys::new(types.collect(), Spreading::DEFAULT)?;
        let columns = batches.iter().map(|batch| of_keys(self.keys(batch), batch.num_rows()));
        let mut numbers = keys.number(&columns.collect::<Result<Vec<_>>>()?, threads)?;
        keys.settle(&mut numbers);
        let (mut parts, mut rest) = (Vec::with_capacity(batches.len()), &mut numbers[..]);
        for (batch, times) in batches.iter().zip(&times) {
            let (own, others) = rest.split_at_mut(times.len());
            let untimed = batch.column(self.time).logical_nulls().filter(|nulls| nulls.null_count() > 0);
            for (number, is_timed) in own.iter_mut().zip(untimed.iter().flatten()) {
                *number = if is_timed { *number } else { NONE };
            }
            parts.push((&*own, &times[..]));
            rest = others;
        }
        let order = keys.order(parts.iter().copied(), threads)?;
        let blocks = cut(&[&order], BATCH_ROWS);
        let mut found = vec![Vec::new(); blocks.len() - 1];
        each(blocks.windows(2).zip(&mut found).collect(), threads, |(block, duplicates)| {
            let (mut last, mut pace) = (Last::default(), Pace::new());
            last.make_room(1);
            for key in block[0]..block[1] {
                let rows = &order.slots[order.bounds[key]..order.bounds[key + 1]];
                pace.check(rows.len())?;
                last.forget(0);
                for &(time, row) in rows {
                    if !last.passes((self.per, self.within), 0, time) {
                        duplicates.push(row);
                    }
                    last.keep();
                }
            }
            Ok(())
        })?;
        let mut left = BooleanBufferBuilder::new(rows);
        // Rows without a time are.
        left.append_n(rows, true);
        for duplicates in found {
            check()?;
            duplicates.into_iter().for_each(|row| left.set_bit(row as usize, false));
        }
        Ok(BooleanArray::new(left.finish(), None))
    }
}
