//! Snapshots: what an operator holds, as bytes that outlive the process and are not believed blindly.
//!
//! A snapshot is a body in an `Envelope`. That of an operator is a list of numbers and of Arrow IPC streams, in an order
//! that only its operator knows; that of a partitioner is numbers. Bytes that are no snapshot, or damaged, or of another
//! version are refused, each with its own reason, before anything of the body is read.

mod envelope;
mod reader;
mod stream;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};

pub(crate) use envelope::Envelope;
pub use reader::Reader;

use crate::{Error, Result};

/// What a snapshot of an operator is in.
const OPERATOR: Envelope =
    Envelope { magic: *b"WKSTREAM", version: 3, of: "an operator; it is what op.snapshot() returned" };

/// A snapshot that is being written.
#[derive(Debug, Default)]
pub struct Writer {
    body: Vec<u8>,
}

impl Writer {
    /// Writes a number.
    pub fn number(&mut self, number: u64) {
        self.body.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes a number that may not be there.
    pub fn option(&mut self, number: Option<i64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or_default() as u64);
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes batches of one schema.
    pub fn batches(&mut self, schema: &Schema, batches: &[RecordBatch]) -> Result<()> {
        let mut stream = StreamWriter::try_new(Vec::new(), schema)?;
        batches.iter().try_for_each(|batch| stream.write(batch))?;
        let bytes = stream.into_inner()?;
        self.bytes(&bytes);
        Ok(())
    }

    /// Writes columns of `rows` rows.
    pub fn columns(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let field =
            |(at, column): (usize, &ArrayRef)| Field::new(at.to_string(), column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
        self.batches(&schema, &[batch])
    }

    /// The snapshot.
    pub fn finish(self) -> Vec<u8> {
        OPERATOR.seal(&self.body)
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.body.extend_from_slice(bytes);
    }
}

impl<'a> Reader<'a> {
    /// The body of a snapshot of an operator.
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, or damaged.
    pub fn new(snapshot: &'a [u8]) -> Result<Self> {
        OPERATOR.open(snapshot)
    }
}

/// What the checksum vouches for is not what is written.
pub(crate) fn broken<T>() -> Result<T> {
    Err(Error::InvalidValue("snapshot: it is damaged: its contents contradict each other".into()))
}
