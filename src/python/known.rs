//! Batches of a stream whose schema is known: imported without reading theirs, a tenth of what a small push costs here.

#![allow(unsafe_code, reason = "the C data interface hands over pointers")]

use std::fmt::Display;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::{RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, SchemaRef};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::input::AnyRecordBatch;

use super::errors::exception;
use super::given::{Given, imported};
use crate::memory::caught;
use crate::{Error, Result};

/// The format of structs, as which batches are handed over.
const STRUCT: &str = "+s";

/// A schema, and how the C data interface describes its fields.
pub(super) struct KnownSchema {
    schema: SchemaRef,
    /// That of a struct with its columns.
    kind: DataType,
    fields: Vec<Description>,
}

impl KnownSchema {
    pub(super) fn new(schema: SchemaRef) -> Result<Self> {
        let described = FFI_ArrowSchema::try_from(&*schema).map_err(Error::from)?;
        let fields = described.children().map(Description::of).collect();
        Ok(Self { kind: DataType::Struct(schema.fields().clone()), schema, fields })
    }

    /// Rows: a batch as the stream has them, or whatever else is Arrow data.
    pub(super) fn extract(&self, data: &Bound<'_, PyAny>) -> PyResult<Given<AnyRecordBatch>> {
        let batch =
            self.next(data)?.map(|batch| Given(AnyRecordBatch::RecordBatch(PyRecordBatch::new(batch))));
        batch.map_or_else(|| data.extract(), Ok)
    }

    /// A batch, if its fields are those of the schema.
    fn next(&self, data: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
        let export = intern!(data.py(), "__arrow_c_array__");
        if !data.hasattr(export)? {
            return Ok(None);
        }
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            data.call_method0(export)?.extract()?;
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
        // SAFETY: a capsule of this name points to such a schema, and keeps it while it lives: until this returns.
        let described = unsafe { schema.as_ref() };
        let read = || {
            let mut given = described.children();
            if described.format() != STRUCT
                || !self.fields.iter().all(|field| given.next().is_some_and(|given| field.is(given)))
                || given.next().is_some()
            {
                return Ok(None);
            }
            // SAFETY: a capsule of this name points to such an array; who takes it leaves a released one there.
            let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
            if array.is_released() {
                return Err(malformed("its array was taken before"));
            }
            if !is_countable(&array) {
                return Err(malformed("an offset or a length is below zero, or beyond all memory"));
            }
            self.batch(array).map(Some)
        };
        caught(|| imported("data", read)).map_err(|error| exception(data.py(), &error))
    }

    /// The batch of an array that has the fields of the schema.
    fn batch(&self, array: FFI_ArrowArray) -> Result<RecordBatch> {
        // SAFETY: the array's own schema describes this type: a struct, with the same formats for all fields within it.
        let data = unsafe { from_ffi_and_data_type(array, self.kind.clone()) }.map_err(malformed)?;
        let rows = RecordBatchOptions::new().with_row_count(Some(data.len()));
        let (_, columns, nulls) = StructArray::from(data).into_parts();
        if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
            return Err(malformed("rows of a batch are null"));
        }
        // Refused are nulls of fields that have none.
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows).map_err(malformed)
    }
}

/// Whether offsets and lengths, those of all that is within, are such that sums of two of them, in bits, are numbers.
fn is_countable(array: &FFI_ArrowArray) -> bool {
    const MOST: usize = 1 << 56;
    array.len() <= MOST
        && array.offset() <= MOST
        && (0..array.num_children()).all(|child| is_countable(array.child(child)))
        && array.dictionary().is_none_or(is_countable)
}

fn malformed(why: impl Display) -> Error {
    Error::InvalidValue(format!("data: malformed Arrow data: {why}"))
}

/// What the C data interface says of a field, but for its metadata, which nothing here reads.
struct Description {
    name: Option<String>,
    format: String,
    flags: Option<i64>,
    children: Vec<Self>,
    dictionary: Option<Box<Self>>,
}

impl Description {
    fn of(field: &FFI_ArrowSchema) -> Self {
        Self {
            name: field.name().map(str::to_owned),
            format: field.format().to_owned(),
            flags: field.flags().map(|flags| flags.bits()),
            children: field.children().map(Self::of).collect(),
            dictionary: field.dictionary().map(|values| Box::new(Self::of(values))),
        }
    }

    /// Whether a field is described so.
    fn is(&self, field: &FFI_ArrowSchema) -> bool {
        let mut given = field.children();
        self.name.as_deref() == field.name()
            && self.format == field.format()
            && self.flags == field.flags().map(|flags| flags.bits())
            && self.children.iter().all(|child| given.next().is_some_and(|given| child.is(given)))
            && given.next().is_none()
            && match (&self.dictionary, field.dictionary()) {
                (None, None) => true,
                (Some(own), Some(values)) => own.is(values),
                _ => false,
            }
    }
}
