//! What Python's capsules hold: batches of a stream whose schema is known, and schemas that cannot be.

#![allow(unsafe_code, reason = "capsules hold pointers")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::input::AnyRecordBatch;

use super::errors::{detached, exception};
use super::given::Given;
use crate::import::{self, FFI_ArrowArrayStream, KnownSchema};
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

/// Refuses what an object hands over by a method of Arrow's interface if its schema cannot be. What is no such thing at
/// all is for those to refuse who read it.
#[pyfunction]
pub(super) fn check_schema(py: Python<'_>, argument: &str, handed: &Bound<'_, PyAny>) -> PyResult<()> {
    // Of an array, its schema comes first.
    let first = handed.cast::<PyTuple>().ok().and_then(|pair| pair.get_item(0).ok());
    let first = first.as_ref().unwrap_or(handed);
    let Ok(capsule) = first.cast::<PyCapsule>() else { return Ok(()) };
    if let Ok(schema) = capsule.pointer_checked(Some(c"arrow_schema")) {
        // SAFETY: a capsule of this name points to such a struct, and is kept until this returns.
        let checked = caught(|| unsafe { import::check_schema(argument, schema.cast()) });
        checked.map_err(|error| exception(py, &error))
    } else if let Ok(stream) = capsule.pointer_checked(Some(c"arrow_array_stream")) {
        let stream = AtomicPtr::new(stream.cast::<FFI_ArrowArrayStream>().as_ptr());
        detached(py, || match NonNull::new(stream.load(Relaxed)) {
            // SAFETY: likewise; who asks has the stream for itself.
            Some(stream) => unsafe { import::check_stream(argument, stream) },
            None => Ok(()),
        })
    } else {
        Ok(())
    }
}
