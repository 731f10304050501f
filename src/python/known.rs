//! Batches of a stream whose schema is known, in Python's capsules.

#![allow(unsafe_code, reason = "capsules hold pointers")]

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::input::AnyRecordBatch;

use super::errors::exception;
use super::given::Given;
use crate::import::KnownSchema;
use crate::memory::caught;

/// Rows: a batch as the stream has them, or whatever else is Arrow data.
pub(super) fn extract(known: &KnownSchema, data: &Bound<'_, PyAny>) -> PyResult<Given<AnyRecordBatch>> {
    let export = intern!(data.py(), "__arrow_c_array__");
    if !data.hasattr(export)? {
        return data.extract();
    }
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        data.call_method0(export)?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast();
    // SAFETY: capsules of these names point to such structs, and keep them while they live: until this returns.
    let batch = caught(|| unsafe { known.import(schema, array) });
    match batch.map_err(|error| exception(data.py(), &error))? {
        Some(batch) => Ok(Given(AnyRecordBatch::RecordBatch(PyRecordBatch::new(batch)))),
        None => data.extract(),
    }
}
