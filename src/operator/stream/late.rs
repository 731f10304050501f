//! Rows that no window of a query accepts: kept until the caller collects them, so that no row is lost silently. Of those that
//! nobody collects, there is a limit to how many are kept; further ones are counted.

use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::Result;
use crate::aggregate::held_bytes;
use crate::select::take_record_batch;
use crate::state::{Reader, Writer, broken};

/// Why a row is in no window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has no time.
    NullTime,
    /// It has no gap, where sessions take theirs from a column.
    NoGap,
    /// All windows it would belong to have expired.
    TooLate,
    /// The query was added when the stream was past it.
    BeforeQuery,
    /// It is further ahead of the other rows than is allowed.
    Future,
}

impl Reason {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Reason::NullTime => "null time",
            Reason::NoGap => "no gap",
            Reason::TooLate => "too late",
            Reason::BeforeQuery => "before the query",
            Reason::Future => "from the future",
        }
    }
}

/// Rows that came too late for a query or without a time, once for each such query.
#[derive(Debug)]
pub(crate) struct Late {
    schema: SchemaRef,
    /// Whether they name the query.
    named: bool,
    batches: Vec<RecordBatch>,
    count: u64,
    dropped: u64,
}

/// Late rows of one step.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    pub(crate) batches: Vec<RecordBatch>,
    /// How many more there were, which are not kept.
    dropped: u64,
}

/// How many rows these are.
fn rows(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

impl Late {
    /// No rows yet, for a stream of this schema.
    pub(crate) fn new(input: &Schema, named: bool) -> Self {
        let mut fields: Vec<Field> = input.fields().iter().map(|field| field.as_ref().clone()).collect();
        for name in ["query_name"].into_iter().filter(|_| named).chain(["late_reason"]) {
            let mut name = name.to_owned();
            while fields.iter().any(|field| *field.name() == name) {
                name.push('_');
            }
            fields.push(Field::new(name, DataType::Utf8, false));
        }
        Self { schema: Arc::new(Schema::new(fields)), named, batches: Vec::new(), count: 0, dropped: 0 }
    }

    /// These rows with the name of the query, which was the only one.
    pub(crate) fn with_names(&self, input: &Schema, name: &str) -> Result<Self> {
        let named = Self { count: self.count, dropped: self.dropped, ..Self::new(input, true) };
        let batches = self.batches.iter().map(|batch| named.naming(batch, name));
        Ok(Self { batches: batches.collect::<Result<_>>()?, ..named })
    }

    /// Rows with a reason, and now with the name of a query.
    pub(crate) fn naming(&self, late: &RecordBatch, name: &str) -> Result<RecordBatch> {
        let names = StringArray::from_iter_values(std::iter::repeat_n(name, late.num_rows()));
        let mut all = late.columns().to_vec();
        all.insert(all.len() - 1, Arc::new(names));
        Ok(RecordBatch::try_new(self.schema.clone(), all)?)
    }

    /// Writes the rows, and how many there were.
    pub(crate) fn save(&self, to: &mut Writer) -> Result<()> {
        to.value(&(self.count, self.dropped));
        to.batches(&self.schema, &self.batches)
    }

    /// Reads what [`Late::save`] wrote, of a stream with the same columns.
    ///
    /// # Errors
    /// `InvalidValue` for anything else.
    pub(crate) fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        let counts: (u64, u64) = from.value()?;
        let (schema, batches) = from.batches()?;
        if schema.fields() != self.schema.fields() || counts.0 >= 1 << 62 || counts.1 > counts.0 {
            return broken();
        }
        ((self.count, self.dropped), self.batches) = (counts, batches);
        Ok(())
    }

    /// All columns of the stream, and the reason.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many there were, including those already collected and those dropped.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many of them were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The late rows that were not collected yet.
    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Bytes of those not collected yet; a buffer shared by several batches is counted once.
    pub(crate) fn bytes(&self) -> usize {
        held_bytes(self.batches.iter().flat_map(RecordBatch::columns))
    }

    /// Rows with the query that they are late for and the reason.
    pub(crate) fn batch(&self, rows: &RecordBatch, query: &str, reason: Reason) -> Result<RecordBatch> {
        let mut columns = rows.columns().to_vec();
        for text in [query].into_iter().filter(|_| self.named).chain([reason.text()]) {
            let texts = std::iter::repeat_n(text, rows.num_rows());
            columns.push(Arc::new(StringArray::from_iter_values(texts)));
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// The first of the late rows of a step: as many as may be held, `limit` in all.
    pub(crate) fn limited(&self, mut batches: Vec<RecordBatch>, limit: Option<u64>) -> Result<Refused> {
        let all = rows(&batches);
        let mut room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(rows(&self.batches)));
        let dropped = all.saturating_sub(room);
        if dropped > 0 {
            for batch in &mut batches {
                let held = room.min(batch.num_rows() as u64);
                if held == 0 {
                    *batch = batch.slice(0, 0);
                } else if held < batch.num_rows() as u64 {
                    // A copy, as a slice would hold all of its rows.
                    *batch = take_record_batch(batch, &UInt32Array::from_iter_values(0..held as u32))?;
                }
                room -= held;
            }
            batches.retain(|batch| batch.num_rows() > 0);
        }
        Ok(Refused { batches, dropped })
    }

    /// Makes room for late rows, so that [`Late::add`] cannot fail.
    pub(crate) fn reserve(&mut self, refused: &Refused) {
        self.batches.reserve(refused.batches.len());
    }

    pub(crate) fn add(&mut self, refused: Refused) {
        self.count += rows(&refused.batches) + refused.dropped;
        self.dropped += refused.dropped;
        self.batches.extend(refused.batches);
    }

    /// Returns the rows collected so far, and removes them.
    pub(crate) fn take(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.batches)
    }
}
