//! Arrow columns to coupons, a chunk at a time: first the hashes, then the registers, so that each loop is short.

use arrow_array::{Array, ArrowPrimitiveType, RunArray, cast::AsArray, types::*};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::{Error, Result};
use windowkit_kernels::select::take;
use windowkit_kernels::simd::Word;
use windowkit_kernels::simd::murmur::{coupon_of_bytes, coupon_of_word, coupons_of_words};
use windowkit_kernels::types::named;

/// Values of a chunk: their coupons stay in the nearest cache.
const CHUNK: usize = 1024;

/// Passes the coupons of a column's values to `sink`, in order; those of nulls are 0.
///
/// # Errors
/// `InvalidType`, before anything was passed on.
pub(super) fn coupons(column: &dyn Array, sink: &mut dyn FnMut(&[u32])) -> Result<()> {
    use DataType::*;
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    match column.data_type() {
        Null => {}
        Boolean => {
            let values = column.as_boolean().values();
            chunks(column.len(), nulls, |row| coupon_of_word(u8::from(values.value(row))), sink);
        }
        Int8 => words::<Int8Type>(column, nulls, sink),
        Int16 => words::<Int16Type>(column, nulls, sink),
        Int32 => words::<Int32Type>(column, nulls, sink),
        Int64 => words::<Int64Type>(column, nulls, sink),
        UInt8 => words::<UInt8Type>(column, nulls, sink),
        UInt16 => words::<UInt16Type>(column, nulls, sink),
        UInt32 => words::<UInt32Type>(column, nulls, sink),
        UInt64 => words::<UInt64Type>(column, nulls, sink),
        Date32 | Time32(_) => return coupons(&stored(column, Int32)?, sink),
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => return coupons(&stored(column, Int64)?, sink),
        Float16 => {
            let values = column.as_primitive::<Float16Type>().values();
            chunks(column.len(), nulls, |row| coupon_of_word(values[row].to_f64()), sink);
        }
        Float32 => words::<Float32Type>(column, nulls, sink),
        Float64 => words::<Float64Type>(column, nulls, sink),
        Utf8 => {
            let values = column.as_string::<i32>();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row).as_bytes()), sink);
        }
        LargeUtf8 => {
            let values = column.as_string::<i64>();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row).as_bytes()), sink);
        }
        Utf8View => {
            let values = column.as_string_view();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row).as_bytes()), sink);
        }
        Binary => {
            let values = column.as_binary::<i32>();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row)), sink);
        }
        LargeBinary => {
            let values = column.as_binary::<i64>();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row)), sink);
        }
        BinaryView => {
            let values = column.as_binary_view();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row)), sink);
        }
        FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            chunks(column.len(), nulls, |row| coupon_of_bytes(values.value(row)), sink);
        }
        Dictionary(..) => return dictionary(column, sink),
        RunEndEncoded(ends, _) => {
            return match ends.data_type() {
                Int16 => runs::<Int16Type>(column, sink),
                Int32 => runs::<Int32Type>(column, sink),
                _ => runs::<Int64Type>(column, sink),
            };
        }
        other => {
            return Err(Error::InvalidType(format!(
                "values: a column of type {other} was given; allowed are integers, floats, booleans, dates, times, \
                 timestamps, durations, strings, binary, and dictionaries of them",
                other = named(other)
            )));
        }
    }
    Ok(())
}

/// The coupon of each row of a column; 0 of a null.
///
/// # Errors
/// `InvalidType`
pub fn coupons_by_row(column: &dyn Array) -> Result<Vec<u32>> {
    if let DataType::RunEndEncoded(_, values) = column.data_type() {
        return coupons_by_row(&cast(column, values.data_type())?);
    }
    let mut all = Vec::with_capacity(column.len());
    coupons(column, &mut |coupons| all.extend_from_slice(coupons))?;
    // A column of only nulls may have passed on none.
    all.resize(column.len(), 0);
    Ok(all)
}

fn words<T: ArrowPrimitiveType<Native: Word>>(
    column: &dyn Array,
    nulls: Option<&NullBuffer>,
    sink: &mut dyn FnMut(&[u32]),
) {
    let values = column.as_primitive::<T>().values();
    slices(values, nulls, sink);
}

/// The coupons of values of a fixed width: of nulls too, as a loop without branches is faster, and then not.
fn slices<T: Word>(values: &[T], nulls: Option<&NullBuffer>, sink: &mut dyn FnMut(&[u32])) {
    let mut out = [0; CHUNK];
    for (number, chunk) in values.chunks(CHUNK).enumerate() {
        let out = &mut out[..chunk.len()];
        coupons_of_words(chunk, out);
        if let Some(nulls) = nulls {
            let valid = nulls.slice(number * CHUNK, chunk.len());
            let bits = valid.inner().bit_chunks();
            for (group, bits) in out.chunks_mut(64).zip(bits.iter_padded()) {
                for (place, coupon) in group.iter_mut().enumerate() {
                    *coupon &= ((bits >> place & 1) as u32).wrapping_neg();
                }
            }
        }
        sink(out);
    }
}

/// The coupons of values by row.
fn chunks(
    rows: usize,
    nulls: Option<&NullBuffer>,
    coupon: impl Fn(usize) -> u32,
    sink: &mut dyn FnMut(&[u32]),
) {
    let mut out = [0; CHUNK];
    for start in (0..rows).step_by(CHUNK) {
        let out = &mut out[..CHUNK.min(rows - start)];
        for (row, out) in (start..).zip(out.iter_mut()) {
            *out = if nulls.is_none_or(|nulls| nulls.is_valid(row)) { coupon(row) } else { 0 };
        }
        sink(out);
    }
}

/// A column of values stored as integers, as these integers.
fn stored(column: &dyn Array, integers: DataType) -> Result<arrow_array::ArrayRef> {
    Ok(arrow_array::make_array(column.to_data().into_builder().data_type(integers).build()?))
}

/// Each value is hashed once, and counted only if a row has it.
fn dictionary(column: &dyn Array, sink: &mut dyn FnMut(&[u32])) -> Result<()> {
    let dictionary = column.as_any_dictionary();
    if dictionary.values().len() > dictionary.len() {
        return coupons(&take(dictionary.values(), dictionary.keys(), None)?, sink);
    }
    let mut of_value = Vec::with_capacity(dictionary.values().len());
    coupons(dictionary.values(), &mut |coupons| of_value.extend_from_slice(coupons))?;
    if of_value.is_empty() {
        // Nothing but nulls.
        return Ok(());
    }
    let codes = cast(dictionary.keys(), &DataType::UInt64)?;
    let codes = codes.as_primitive::<UInt64Type>();
    let nulls = codes.nulls().filter(|nulls| nulls.null_count() > 0);
    chunks(codes.len(), nulls, |row| of_value[codes.value(row) as usize], sink);
    Ok(())
}

/// Each run's value once.
fn runs<R: RunEndIndexType>(column: &dyn Array, sink: &mut dyn FnMut(&[u32])) -> Result<()> {
    if column.is_empty() {
        return Ok(());
    }
    let runs = column.as_any().downcast_ref::<RunArray<R>>().expect("the type of its run ends says so");
    let (first, last) = (runs.get_physical_index(0), runs.get_physical_index(runs.len() - 1));
    coupons(&runs.values().slice(first, last + 1 - first), sink)
}
