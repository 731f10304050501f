//! Snapshots: what an operator holds, as bytes that outlive the process and are not believed blindly.
//!
//! A snapshot is a magic number, a version, a length, a checksum and a body; the body is a list of numbers and of Arrow
//! IPC streams, in an order that only its operator knows. Bytes that are not one, or damaged, or of another version are
//! refused, each with its own reason, before anything of the body is read.

mod stream;

use std::io::Cursor;
use std::panic::catch_unwind;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::{Error, Result};

/// What every snapshot begins with.
const MAGIC: [u8; 8] = *b"WKSTREAM";

/// The version that is written and read.
const VERSION: u32 = 3;

/// Magic number, version, length of the body, its checksum.
const HEADER: usize = 8 + 4 + 8 + 4;

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
        let mut bytes = Vec::with_capacity(HEADER + self.body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&self.body).to_le_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.body.extend_from_slice(bytes);
    }
}

/// A snapshot that is being read.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The body of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, or damaged.
    pub fn new(snapshot: &'a [u8]) -> Result<Self> {
        let refused = |why: String| Err(Error::InvalidValue(format!("snapshot: {why}")));
        if snapshot.get(..8) != Some(&MAGIC) {
            return refused(
                "these bytes are no snapshot of an operator; it is what op.snapshot() returned".into(),
            );
        }
        let number = |from: usize, len: usize| -> Option<u64> {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(snapshot.get(from..from + len)?);
            Some(u64::from_le_bytes(bytes))
        };
        match number(8, 4) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return refused(format!(
                    "it is of version {version}; this windowkit reads version {VERSION}"
                ));
            }
            None => return refused("it is cut off".into()),
        }
        let (Some(len), Some(checksum), Some(body)) = (number(12, 8), number(20, 4), snapshot.get(HEADER..))
        else {
            return refused("it is cut off".into());
        };
        if (body.len() as u64) < len {
            return refused(format!("it is cut off: {} bytes of {len} are there", body.len()));
        }
        if body.len() as u64 > len {
            return refused(format!("it is damaged: {} bytes follow it", body.len() as u64 - len));
        }
        if u64::from(crc32fast::hash(body)) != checksum {
            return refused("it is damaged: its checksum does not match".into());
        }
        Ok(Self { rest: body })
    }

    /// Reads a number.
    pub fn number(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads a number of bytes, or of things that follow and take at least one each.
    pub fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).ok().filter(|&count| count <= self.rest.len()).map_or_else(broken, Ok)
    }

    /// Reads the place of a thing among `len` ones.
    pub fn place(&mut self, len: usize) -> Result<usize> {
        usize::try_from(self.number()?).ok().filter(|&place| place < len).map_or_else(broken, Ok)
    }

    /// Reads a number that may not be there.
    pub fn option(&mut self) -> Result<Option<i64>> {
        let is_there = self.number()? != 0;
        let number = self.number()? as i64;
        Ok(is_there.then_some(number))
    }

    /// Reads a text.
    pub fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).or_else(|_| broken())
    }

    /// Reads batches of one schema.
    pub fn batches(&mut self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let bytes = self.bytes()?;
        if stream::check(bytes).is_none() {
            return broken();
        }
        let read = || -> std::result::Result<_, ArrowError> {
            let stream = StreamReader::try_new(Cursor::new(bytes), None)?;
            let schema = stream.schema();
            Ok((schema, stream.collect::<std::result::Result<_, _>>()?))
        };
        // Arrow panics at some schemas and arrays that no writer makes, and owns nothing of ours then.
        catch_unwind(read).ok().and_then(std::result::Result::ok).map_or_else(broken, Ok)
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads columns, and how many rows they have.
    pub fn columns(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        match self.batches()?.1.as_slice() {
            [batch] => Ok((batch.columns().to_vec(), batch.num_rows())),
            _ => broken(),
        }
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else { return broken() };
        self.rest = rest;
        Ok(bytes)
    }
}

/// What the checksum vouches for is not what is written.
pub(crate) fn broken<T>() -> Result<T> {
    Err(Error::InvalidValue("snapshot: it is damaged: its contents contradict each other".into()))
}
