//! Snapshots: the state of an operator, as bytes that outlive the process and are validated when read.
//!
//! A snapshot is a body in an `Envelope`. The body is a sequence of values and of columns: a value is a struct that
//! derives its form (serde, written by postcard), and columns are an Arrow IPC stream. Whoever owns the state says in
//! which order they come, and checks that what was read is sound. Bytes that are not a snapshot, are damaged, or have
//! another version are rejected, each with its own reason, before anything of the body is read.

mod envelope;
mod keys;
mod reader;
mod stream;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Deserializer, Serialize, de};

pub use envelope::Envelope;
pub use reader::Reader;
pub use stream::check as check_stream;

use crate::{Error, Result};

/// The envelope of a snapshot of an operator.
const OPERATOR: Envelope = Envelope {
    magic: *b"WKSTREAM",
    version: 15,
    since: 15,
    of: "an operator; it is what op.snapshot() returned",
};

/// A snapshot that is being written.
#[derive(Debug)]
pub struct Writer {
    /// The body, after room for its envelope.
    bytes: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self { bytes: Envelope::room() }
    }
}

impl Writer {
    /// Writes a value, field by field, as its type declares it: what [`Reader::value`] reads.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes =
            postcard::to_extend(value, bytes).expect("bytes grow, and the lengths of all lists are known");
    }

    /// Writes a number.
    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes batches of one schema.
    pub fn batches(&mut self, schema: &Schema, batches: &[RecordBatch]) -> Result<()> {
        let at = self.bytes.len();
        self.number(0);
        let mut stream = StreamWriter::try_new(&mut self.bytes, schema)?;
        batches.iter().try_for_each(|batch| stream.write(batch))?;
        stream.finish()?;
        drop(stream);
        // Its length comes first, as that of all bytes.
        let (before, own) = self.bytes.split_at_mut(at + size_of::<u64>());
        before[at..].copy_from_slice(&(own.len() as u64).to_le_bytes());
        Ok(())
    }

    /// Writes columns of `rows` rows.
    pub fn columns(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let field =
            |(at, column): (usize, &ArrayRef)| Field::new(at.to_string(), column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
        // What is of variable width may be shared, and would be written with each part.
        let is_fixed = |kind: &DataType| kind.primitive_width().is_some() || *kind == DataType::Boolean;
        let has_parts = batch.columns().iter().all(|column| is_fixed(column.data_type()));
        let part = if has_parts { PART } else { rows.max(1) };
        let parts = (0..rows.max(1)).step_by(part).map(|from| batch.slice(from, part.min(rows - from)));
        self.batches(&schema, &parts.collect::<Vec<_>>())
    }

    /// The snapshot.
    pub fn finish(self) -> Vec<u8> {
        self.sealed(&OPERATOR)
    }

    /// The snapshot, in another envelope than that of operators.
    pub fn sealed(self, envelope: &Envelope) -> Vec<u8> {
        envelope.seal(self.bytes)
    }
}

/// Rows of columns that are written at once: Arrow encodes them in memory of their own.
pub const PART: usize = 1 << 19;

impl<'a> Reader<'a> {
    /// The body of a snapshot of an operator.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, or is damaged.
    pub fn new(snapshot: &'a [u8]) -> Result<Self> {
        OPERATOR.open(snapshot)
    }
}

/// Reads how many there were of something: so many that as many again can be counted.
pub fn tally<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u64, D::Error> {
    let tally = u64::deserialize(from)?;
    if tally < 1 << 62 { Ok(tally) } else { Err(de::Error::custom("more than there can be")) }
}

/// Contents with a valid checksum that no operator writes.
pub fn broken<T>() -> Result<T> {
    Err(Error::InvalidValue("snapshot: it is damaged: its contents contradict each other".into()))
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Int64Array, StringArray};

    use super::*;

    /// Numbers are encoded in parts, and strings, which may share what they refer to, at once.
    #[test]
    fn columns_of_any_length_come_back() {
        for rows in [0, 1, PART, PART + 1, 2 * PART + 3] {
            let numbers: ArrayRef =
                Arc::new(Int64Array::from_iter((0..rows as i64).map(|row| (row % 7 != 3).then_some(row))));
            let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 1))));
            let texts: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..rows).map(|row| "ab".repeat(row % 3))));
            let mut writer = Writer::default();
            writer.columns(vec![numbers.clone(), flags.clone()], rows).unwrap();
            writer.columns(vec![texts.clone(), numbers.clone()], rows).unwrap();
            let snapshot = writer.finish();
            let mut reader = Reader::new(&snapshot).unwrap();
            assert_eq!(reader.columns().unwrap(), (vec![numbers.clone(), flags], rows));
            assert_eq!(reader.columns().unwrap(), (vec![texts, numbers], rows));
            assert!(reader.is_empty());
        }
    }
}
