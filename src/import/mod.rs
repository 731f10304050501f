//! Batches of a stream whose schema is known, from the C data interface: imported without reading theirs, a tenth of what
//! a small push costs here.
//!
//! A producer hands over two structs, which point to what the batch has. What can be told to be wrong without reading
//! beyond what a good batch would have is refused: numbers of buffers and children, pointers that are null, lengths.
//! Nothing can tell whether a buffer is as long as the array says. Whether offsets and codes stay within buffers is asked
//! of the imported batch ([`bounds`](crate::bounds)).

#![allow(unsafe_code, reason = "the C data interface hands over pointers")]

mod layout;
#[cfg(test)]
mod odd;
mod schema;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

pub use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
pub use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, SchemaRef};

use crate::memory::{OutOfMemory, unwind};
use crate::{Error, Result};
use layout::Layout;
pub use schema::{check_schema, check_stream};

/// A schema, and how the C data interface describes its fields.
pub struct KnownSchema {
    schema: SchemaRef,
    /// That of a struct with its columns, which a batch is handed over as.
    layout: Layout,
}

impl KnownSchema {
    /// A schema of which batches are expected.
    ///
    /// # Errors
    /// `InvalidValue` if the C data interface cannot describe it.
    pub fn new(schema: SchemaRef) -> Result<Self> {
        let layout = Layout::of(&DataType::Struct(schema.fields().clone()))?;
        Ok(Self { schema, layout })
    }

    /// Takes a batch, if its fields are those of the schema; `None`, and the array stays where it is, if they are not.
    ///
    /// # Errors
    /// `InvalidValue` if the array is not one of its schema.
    ///
    /// # Safety
    /// Both pointers are to such structs, as the C data interface has them: strings end, and pointers are null or to as many
    /// as the structs say. Nothing else refers to the array. Its buffers are at least as long as its lengths and offsets
    /// require.
    pub unsafe fn import(
        &self,
        schema: NonNull<FFI_ArrowSchema>,
        array: NonNull<FFI_ArrowArray>,
    ) -> Result<Option<RecordBatch>> {
        // SAFETY: as the caller says. It is not used once the array is taken.
        let described = unsafe { schema.as_ref() };
        imported("data", || {
            if described.release.is_none() {
                return Err(malformed("its schema was taken before"));
            }
            if !self.layout.has_fields(described) {
                return Ok(None);
            }
            // SAFETY: as the caller says; a released array is left there.
            let array = Arc::new(unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) });
            // SAFETY: as the caller says, and its own schema describes it so.
            let mut data = unsafe { self.layout.read(&array, &array) }.map_err(|why| malformed(&why))?;
            // Those of pyarrow may begin anywhere if they came over the network.
            data.align_buffers();
            let rows = RecordBatchOptions::new().with_row_count(Some(data.len()));
            let (_, columns, nulls) = StructArray::from(data).into_parts();
            if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
                return Err(malformed("rows of a batch are null"));
            }
            // Refused are nulls of fields that have none.
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)
                .map(Some)
                .map_err(|error| malformed(&error.to_string()))
        })
    }
}

fn malformed(why: &str) -> Error {
    Error::InvalidValue(format!("data: malformed Arrow data: {why}"))
}

/// Runs an import, which panics where lengths contradict each other.
///
/// # Errors
/// As `import`; `InvalidValue` if it panics.
pub fn imported<T>(argument: &str, import: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(import)).unwrap_or_else(|panic| {
        if panic.is::<OutOfMemory>() {
            unwind(panic);
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be imported");
        Err(Error::InvalidValue(format!("{argument}: malformed Arrow data: {text}")))
    })
}
