//! Rows that no window accepts: kept until the caller collects them, so that no row is lost silently.

use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::Result;
use crate::aggregate::held_bytes;

/// Why a row is in no window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has no time.
    NullTime,
    /// All windows it would belong to have expired.
    TooLate,
}

impl Reason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Reason::NullTime => "null time",
            Reason::TooLate => "too late",
        }
    }
}

/// Rows that came too late or without a time.
#[derive(Debug)]
pub(crate) struct Late {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    count: u64,
}

impl Late {
    /// No rows yet, for a stream of this schema.
    pub(crate) fn new(input: &Schema) -> Self {
        let mut fields: Vec<Field> = input.fields().iter().map(|field| field.as_ref().clone()).collect();
        let mut name = "late_reason".to_owned();
        while fields.iter().any(|field| *field.name() == name) {
            name.push('_');
        }
        fields.push(Field::new(name, DataType::Utf8, false));
        Self { schema: Arc::new(Schema::new(fields)), batches: Vec::new(), count: 0 }
    }

    /// Restores rows written by another operator.
    pub(crate) fn restore(input: &Schema, batches: Vec<RecordBatch>, count: u64) -> Self {
        Self { batches, count, ..Self::new(input) }
    }

    /// All columns of the stream, and the reason.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many there were, including those already collected.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Those not collected yet.
    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Bytes of those not collected yet; a buffer shared by several batches is counted once.
    pub(crate) fn bytes(&self) -> usize {
        held_bytes(self.batches.iter().flat_map(RecordBatch::columns))
    }

    /// Rows with their reason.
    pub(crate) fn batch(&self, rows: &RecordBatch, reason: Reason) -> Result<RecordBatch> {
        let mut columns = rows.columns().to_vec();
        let reasons = std::iter::repeat_n(reason.text(), rows.num_rows());
        columns.push(Arc::new(StringArray::from_iter_values(reasons)));
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    pub(crate) fn add(&mut self, batches: Vec<RecordBatch>) {
        self.count += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        self.batches.extend(batches);
    }

    /// Returns the rows collected so far, and removes them.
    pub(crate) fn take(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.batches)
    }
}
