//! What can be told to be wrong with a schema before it is read. Libraries trust these parts, and end the process.

#![allow(unsafe_code, reason = "the C data interface hands over pointers")]

use std::ptr::NonNull;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;

use crate::{Error, Result};

/// The most fields within one, as in Arrow C++.
const MOST: i64 = i32::MAX as i64;
/// How many fields are within each other at most, as in Arrow C++.
const DEEPEST: usize = 64;

/// Refuses a schema whose numbers or pointers cannot be; errors call the data `argument`.
///
/// # Errors
/// `InvalidValue` if a number of fields is below zero or beyond all schemas, or a pointer to what there should be is null.
///
/// # Safety
/// It points to such a struct, as the C data interface has it: pointers are null or to as many as the structs say.
pub unsafe fn check_schema(argument: &str, schema: NonNull<FFI_ArrowSchema>) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { check(schema, DEEPEST) }
        .map_err(|why| Error::InvalidValue(format!("{argument}: malformed Arrow data: {why}")))
}

/// Refuses a stream whose schema cannot be. What it fails with is for those to say who read it.
///
/// # Errors
/// As `check_schema`.
///
/// # Safety
/// It points to such a struct, as the C stream interface has it, whose schema is as `check_schema` needs it.
pub unsafe fn check_stream(argument: &str, stream: NonNull<FFI_ArrowArrayStream>) -> Result<()> {
    // SAFETY: as the caller says; a stream that was released is not asked.
    let asked = unsafe { stream.as_ref() }.release.and(unsafe { stream.as_ref() }.get_schema);
    let mut schema = FFI_ArrowSchema::empty();
    match asked {
        // SAFETY: a stream writes its schema there, which is released when it is dropped.
        Some(ask) if unsafe { ask(stream.as_ptr(), &raw mut schema) } == 0 => unsafe {
            check_schema(argument, NonNull::from(&mut schema))
        },
        _ => Ok(()),
    }
}

/// # Safety
/// As for `check_schema`.
unsafe fn check(schema: NonNull<FFI_ArrowSchema>, depth: usize) -> std::result::Result<(), String> {
    // SAFETY: as the caller says.
    let own = unsafe { schema.as_ref() };
    if own.release.is_none() {
        // Refused by all who read it.
        return Ok(());
    }
    if depth == 0 {
        return Err(format!("fields are within each other; allowed are {DEEPEST}"));
    }
    if own.format.is_null() {
        return Err("a field has no type".to_owned());
    }
    if !(0..=MOST).contains(&own.n_children) {
        return Err(format!("a schema says that it has {} fields", own.n_children));
    }
    for at in 0..own.n_children as usize {
        // SAFETY: where it points, there are as many.
        let child = NonNull::new(own.children).and_then(|all| NonNull::new(unsafe { all.add(at).read() }));
        let child = child.ok_or_else(|| format!("field {at} of {} is null", own.n_children))?;
        // SAFETY: it is one, as the caller says.
        unsafe { check(child, depth - 1)? };
    }
    // SAFETY: as for children.
    NonNull::new(own.dictionary).map_or(Ok(()), |values| unsafe { check(values, depth - 1) })
}
