//! Arrow data from Python: imported, and checked before anything reads it.

use std::iter::from_fn;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PyRecordBatch};

use super::errors::{counted, exception};
use super::exits::Call;
use crate::bounds::{check_array, check_columns};
use crate::import::imported;
use crate::memory::caught;
use crate::{Error, Result};

/// An argument that is Arrow data, not checked yet.
pub(super) struct Given<T>(pub(super) T);

/// How Arrow's own refusals begin; the last is that of names and metadata that are not UTF-8.
const REFUSALS: [&str; 4] =
    ["Invalid argument error", "C Data interface error", "Schema error", "Parser error"];

impl<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Given<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let extracted = counted(object.py(), || {
            let extracted = caught(|| imported("data", || Ok(object.extract::<T>())));
            extracted.map_err(|error| exception(object.py(), &error))
        })?;
        extracted.map(Self).map_err(|error| {
            let text = error.value(object.py()).to_string();
            if !REFUSALS.iter().any(|refusal| text.starts_with(refusal)) {
                // Raised by the object itself.
                return error;
            }
            exception(object.py(), &Error::InvalidValue(format!("data: malformed Arrow data: {text}")))
        })
    }
}

/// An argument whose attributes Python may have to compute, and the call that begins with it.
pub(super) struct Asked<T>(
    pub(super) T,
    #[allow(dead_code, reason = "it lasts as long as the argument")] Call,
);

impl<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Asked<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let call = Call::begin().map_err(|error| exception(object.py(), &error))?;
        Ok(Self(object.extract()?, call))
    }
}

impl Given<PyArray> {
    /// The array, checked.
    pub(super) fn array(self, argument: &str) -> Result<ArrayRef> {
        let (array, _) = self.0.into_inner();
        check_array(argument, &array)?;
        Ok(array)
    }
}

impl Given<PyRecordBatch> {
    /// The batch, checked.
    pub(super) fn batch(self, argument: &str) -> Result<RecordBatch> {
        let batch = self.0.into_inner();
        check_columns(argument, &batch, 0..batch.num_columns())?;
        Ok(batch)
    }
}

/// The chunks of a stream of arrays, each checked.
pub(super) fn arrays(
    argument: &str,
    stream: impl Iterator<Item = std::result::Result<ArrayRef, ArrowError>>,
) -> impl Iterator<Item = Result<ArrayRef>> {
    read(argument, stream, move |array| check_array(argument, array))
}

/// The batches of a stream, each with these columns checked: all, if it is not said which.
pub(super) fn batches(
    argument: &str,
    columns: Option<&[usize]>,
    stream: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> impl Iterator<Item = Result<RecordBatch>> {
    read(argument, stream, move |batch: &RecordBatch| match columns {
        Some(columns) => check_columns(argument, batch, columns.iter().copied()),
        None => check_columns(argument, batch, 0..batch.num_columns()),
    })
}

fn read<T>(
    argument: &str,
    mut stream: impl Iterator<Item = std::result::Result<T, ArrowError>>,
    check: impl Fn(&T) -> Result<()>,
) -> impl Iterator<Item = Result<T>> {
    let mut next = move || {
        let item = imported(argument, || {
            let failed = |error| Error::InvalidValue(format!("{argument}: its stream failed: {error}"));
            stream.next().transpose().map_err(failed)
        })?;
        item.as_ref().map_or(Ok(()), &check)?;
        Ok(item)
    };
    from_fn(move || next().transpose())
}
