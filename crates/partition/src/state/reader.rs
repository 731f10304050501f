//! Reads bytes that may be damaged, from the front. Every read checks the length, and reports what it was reading if
//! too little is left.

use std::io::Cursor;
use std::panic::catch_unwind;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use serde::de::DeserializeOwned;

use super::{broken, stream};
use crate::{Error, Result};
use windowkit_kernels::memory::{OutOfMemory, unwind};
use windowkit_kernels::select::concat;

/// Bytes of a snapshot, or of a part of one.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which errors call `what`.
    pub fn of(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// Reads a value that [`Writer::value`](super::Writer::value) wrote. Whether its fields agree with each other is for
    /// its type to check, or for the caller.
    ///
    /// # Errors
    /// `InvalidValue` if the bytes are no such value.
    pub fn value<T: DeserializeOwned>(&mut self) -> Result<T> {
        let (value, rest) = postcard::take_from_bytes(self.bytes).or_else(|_| broken())?;
        self.bytes = rest;
        Ok(value)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| self.damaged(&format!("they end {} bytes too early", count - self.bytes.len())))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    /// The next 4 bytes, little-endian.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes, little-endian.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a count, of bytes or of items that follow and take at least one byte each.
    pub fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?)
            .ok()
            .filter(|&count| count <= self.bytes.len())
            .map_or_else(broken, Ok)
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
        // Arrow panics on some schemas and arrays that no writer produces, and owns none of our data at that point.
        match catch_unwind(read) {
            Ok(Ok((schema, batches))) if is_exported(&schema) => Ok((schema, batches)),
            // Sound bytes may be more than there is memory for.
            Err(panic) if panic.is::<OutOfMemory>() => unwind(panic),
            Ok(_) | Err(_) => broken(),
        }
    }

    /// Checks that everything was read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads columns, and how many rows they have.
    pub fn columns(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let (schema, batches) = self.batches()?;
        match batches.as_slice() {
            [] => broken(),
            [batch] => Ok((batch.columns().to_vec(), batch.num_rows())),
            _ => {
                let columns = (0..schema.fields().len()).map(|at| {
                    let parts: Vec<&dyn Array> =
                        batches.iter().map(|batch| batch.column(at).as_ref()).collect();
                    Ok(concat(&parts)?)
                });
                Ok((columns.collect::<Result<_>>()?, batches.iter().map(RecordBatch::num_rows).sum()))
            }
        }
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    /// All remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The error that says how these bytes are damaged.
    pub fn damaged(&self, how: &str) -> Error {
        Error::InvalidValue(format!("{}: its bytes are damaged: {how}", self.what))
    }
}

/// Whether Arrow's C interface has this schema, whose names and types are strings that end with a zero there.
fn is_exported(schema: &Schema) -> bool {
    let fields = schema.flattened_fields();
    fields.iter().all(|field| !field.name().contains('\0') && !field.data_type().to_string().contains('\0'))
}
