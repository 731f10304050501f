//! Rows of key columns to 64-bit hashes that mean the same in every run, on every platform and in every release.
//!
//! | | |
//! |---|---|
//! | integers | the finaliser of SplitMix64 (Steele et al., OOPSLA 2014; constants: Stafford's *Mix13*), a bijection: integers of one column never collide |
//! | strings, binary | XXH3, 64 bits, seeded; its output is fixed since xxHash 0.8.0 |
//! | everything else | combinations of the two |
//! | time | O(rows); a dictionary's values are hashed once each |
//!
//! Keys that are equal as in SQL's `GROUP BY` have equal hashes: nulls, NaNs, and both zeros, at any depth. Equal
//! values of integer types of different widths do too, as do floats of different widths, and text whether it is a
//! string, a large string, a view, a dictionary or run-end encoded.

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RunArray, cast::AsArray, types::*};
use arrow_array::{ArrowPrimitiveType, GenericListViewArray};
use arrow_cast::cast;
use arrow_schema::{DataType, IntervalUnit};
use arrow_select::take::take;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::rows::holds_map;
use crate::{Error, Result};

// Arbitrary odd constants (digits of the golden ratio, pi and e) that keep kinds of values apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const NULL: u64 = 0x243F_6A88_85A3_08D3;
const LIST: u64 = 0xB7E1_5162_8AED_2A6B;
const STRUCT: u64 = 0x1319_8A2E_0370_7345;

/// Appends the hash of each of `rows` rows of key columns to `hashes`.
///
/// Take what else the hashes decide from [`remix`], as their own bits serve the sketches: a key's candidate workers
/// from `remix(hash, 1)`, `remix(hash, 2)` and so on.
///
/// # Errors
/// `InvalidType` for maps and unions, also within other types.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use windowkit::keys::hash_rows;
///
/// let keys: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, None]));
/// let mut hashes = Vec::new();
/// hash_rows(&[keys], 4, 7, &mut hashes)?;
/// assert_eq!(hashes[0], hashes[1]);
/// assert_eq!(hashes[2], hashes[3]);
/// assert_ne!(hashes[0], hashes[2]);
/// # Ok::<(), windowkit::Error>(())
/// ```
pub fn hash_rows(columns: &[ArrayRef], rows: usize, seed: u64, hashes: &mut Vec<u64>) -> Result<()> {
    let seed = mix(seed.wrapping_add(GOLDEN));
    let from = hashes.len();
    let Some((first, others)) = columns.split_first() else {
        hashes.resize(from + rows, seed);
        return Ok(());
    };
    for column in columns {
        supported(column.data_type())?;
        debug_assert_eq!(column.len(), rows);
    }
    append(first, seed, hashes)?;
    let mut next = Vec::new();
    for column in others {
        next.clear();
        append(column, seed, &mut next)?;
        hashes[from..].iter_mut().zip(&next).for_each(|(hash, &next)| *hash = combine(*hash, next));
    }
    Ok(())
}

/// Another hash of the same key, independent of the hash itself and of those under other salts. A bijection for each
/// salt; about a nanosecond, and vectorised in loops.
#[inline]
pub fn remix(hash: u64, salt: u64) -> u64 {
    mix(hash ^ mix(salt.wrapping_add(GOLDEN)))
}

/// Whether columns of this type can be hashed.
///
/// # Errors
/// `InvalidType` for maps and unions, also within other types.
pub(crate) fn supported(data_type: &DataType) -> Result<()> {
    if holds_map(data_type) || holds_union(data_type) {
        return Err(Error::InvalidType(format!(
            "keys: a column of type {data_type} cannot be hashed; allowed are all types but maps and unions"
        )));
    }
    Ok(())
}

fn holds_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| holds_union(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::RunEndEncoded(_, item) => holds_union(item.data_type()),
        DataType::Dictionary(_, values) => holds_union(values),
        _ => false,
    }
}

#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The hash of two columns, or of a list and its next item: not symmetric, a bijection in each argument.
#[inline]
fn combine(left: u64, right: u64) -> u64 {
    mix(left.wrapping_mul(GOLDEN) ^ right)
}

/// Appends one hash a row; `seed` is mixed already.
fn append(column: &dyn Array, seed: u64, out: &mut Vec<u64>) -> Result<()> {
    use DataType::*;
    let from = out.len();
    match column.data_type() {
        Null => out.resize(from + column.len(), mix(seed ^ NULL)),
        Boolean => out.extend(column.as_boolean().values().iter().map(|value| mix(seed ^ u64::from(value)))),
        Int8 => integers::<Int8Type>(column, seed, |v| v as u64, out),
        Int16 => integers::<Int16Type>(column, seed, |v| v as u64, out),
        Int32 => integers::<Int32Type>(column, seed, |v| v as u64, out),
        Int64 => integers::<Int64Type>(column, seed, |v| v as u64, out),
        UInt8 => integers::<UInt8Type>(column, seed, u64::from, out),
        UInt16 => integers::<UInt16Type>(column, seed, u64::from, out),
        UInt32 => integers::<UInt32Type>(column, seed, u64::from, out),
        UInt64 => integers::<UInt64Type>(column, seed, |v| v, out),
        Float16 => integers::<Float16Type>(column, seed, |v| float(v.to_f64()), out),
        Float32 => integers::<Float32Type>(column, seed, |v| float(v.into()), out),
        Float64 => integers::<Float64Type>(column, seed, float, out),
        Date32 | Time32(_) | Interval(IntervalUnit::YearMonth) => {
            let stored = column.to_data().into_builder().data_type(Int32).build()?;
            append(&arrow_array::make_array(stored), seed, out)?;
        }
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => {
            let stored = column.to_data().into_builder().data_type(Int64).build()?;
            append(&arrow_array::make_array(stored), seed, out)?;
        }
        Interval(IntervalUnit::DayTime) => {
            out.extend(column.as_primitive::<IntervalDayTimeType>().values().iter().map(|value| {
                mix(seed ^ (u64::from(value.days as u32) << 32 | u64::from(value.milliseconds as u32)))
            }))
        }
        Interval(IntervalUnit::MonthDayNano) => {
            out.extend(column.as_primitive::<IntervalMonthDayNanoType>().values().iter().map(|value| {
                let days = u64::from(value.months as u32) << 32 | u64::from(value.days as u32);
                combine(mix(seed ^ days), value.nanoseconds as u64)
            }))
        }
        Decimal32(..) => decimals::<Decimal32Type>(column, seed, i128::from, out),
        Decimal64(..) => decimals::<Decimal64Type>(column, seed, i128::from, out),
        Decimal128(..) => decimals::<Decimal128Type>(column, seed, |v| v, out),
        Decimal256(..) => {
            let values = column.as_primitive::<Decimal256Type>().values();
            out.extend(values.iter().map(|value| xxh3_64_with_seed(&value.to_le_bytes(), seed)));
        }
        Utf8 => bytes(column.as_string::<i32>().iter(), seed, out),
        LargeUtf8 => bytes(column.as_string::<i64>().iter(), seed, out),
        Utf8View => bytes(column.as_string_view().iter(), seed, out),
        Binary => bytes(column.as_binary::<i32>().iter(), seed, out),
        LargeBinary => bytes(column.as_binary::<i64>().iter(), seed, out),
        BinaryView => bytes(column.as_binary_view().iter(), seed, out),
        FixedSizeBinary(_) => bytes(column.as_fixed_size_binary().iter(), seed, out),
        Dictionary(..) => return dictionary(column, seed, out),
        RunEndEncoded(ends, _) => {
            match ends.data_type() {
                Int16 => runs::<Int16Type>(column, seed, out)?,
                Int32 => runs::<Int32Type>(column, seed, out)?,
                _ => runs::<Int64Type>(column, seed, out)?,
            }
            return Ok(());
        }
        Struct(_) => {
            out.resize(from + column.len(), mix(seed ^ STRUCT));
            let mut next = Vec::new();
            for child in column.as_struct().columns() {
                next.clear();
                append(child, seed, &mut next)?;
                out[from..].iter_mut().zip(&next).for_each(|(hash, &next)| *hash = combine(*hash, next));
            }
        }
        List(_) => lists::<i32>(column.as_list(), seed, out)?,
        LargeList(_) => lists::<i64>(column.as_list(), seed, out)?,
        ListView(_) => list_views::<i32>(column.as_list_view(), seed, out)?,
        LargeListView(_) => list_views::<i64>(column.as_list_view(), seed, out)?,
        FixedSizeList(..) => {
            let array = column.as_fixed_size_list();
            let length = array.value_length() as usize;
            let mut items = Vec::new();
            append(array.values(), seed, &mut items)?;
            out.extend((0..array.len()).map(|row| list(&items[row * length..(row + 1) * length], seed)));
        }
        // Refused before any column is read.
        other @ (Map(..) | Union(..)) => unreachable!("{other} is not supported"),
    }
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        let null = mix(seed ^ NULL);
        out[from..].iter_mut().zip(nulls).for_each(|(hash, valid)| *hash = if valid { *hash } else { null });
    }
    Ok(())
}

fn integers<T: ArrowPrimitiveType>(
    column: &dyn Array,
    seed: u64,
    bits: impl Fn(T::Native) -> u64,
    out: &mut Vec<u64>,
) {
    out.extend(column.as_primitive::<T>().values().iter().map(|&value| mix(seed ^ bits(value))));
}

/// The bits of a float as SQL compares floats: one NaN, one zero.
#[inline]
fn float(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn decimals<T: ArrowPrimitiveType>(
    column: &dyn Array,
    seed: u64,
    wide: impl Fn(T::Native) -> i128,
    out: &mut Vec<u64>,
) {
    out.extend(column.as_primitive::<T>().values().iter().map(|&value| {
        let value = wide(value);
        combine(mix(seed ^ value as u64), (value >> 64) as u64)
    }));
}

fn bytes<V: AsRef<[u8]>>(values: impl Iterator<Item = Option<V>>, seed: u64, out: &mut Vec<u64>) {
    // Nulls are overwritten by the caller.
    out.extend(values.map(|value| value.map_or(0, |value| xxh3_64_with_seed(value.as_ref(), seed))));
}

fn dictionary(column: &dyn Array, seed: u64, out: &mut Vec<u64>) -> Result<()> {
    let dictionary = column.as_any_dictionary();
    let null = mix(seed ^ NULL);
    if dictionary.values().len() > dictionary.len() {
        // More values than rows: a slice of a larger column.
        return append(&take(dictionary.values(), dictionary.keys(), None)?, seed, out);
    }
    let mut values = Vec::with_capacity(dictionary.values().len());
    append(dictionary.values(), seed, &mut values)?;
    let codes = cast(dictionary.keys(), &DataType::UInt64)?;
    out.extend(
        codes.as_primitive::<UInt64Type>().iter().map(|code| code.map_or(null, |c| values[c as usize])),
    );
    Ok(())
}

fn runs<R: RunEndIndexType>(column: &dyn Array, seed: u64, out: &mut Vec<u64>) -> Result<()> {
    let runs = column.as_any().downcast_ref::<RunArray<R>>().expect("the type of its run ends says so");
    let mut values = Vec::with_capacity(runs.values().len());
    append(runs.values(), seed, &mut values)?;
    out.extend((0..runs.len()).map(|row| values[runs.get_physical_index(row)]));
    Ok(())
}

/// The hash of a list: of its items in order, and of how many they are, so that neighbours cannot swap items.
fn list(items: &[u64], seed: u64) -> u64 {
    let hash = items.iter().fold(mix(seed ^ LIST), |hash, &item| combine(hash, item));
    combine(hash, items.len() as u64)
}

fn lists<O: OffsetSizeTrait>(array: &GenericListArray<O>, seed: u64, out: &mut Vec<u64>) -> Result<()> {
    let offsets = array.value_offsets();
    let (start, end) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    let mut items = Vec::new();
    append(&array.values().slice(start, end - start), seed, &mut items)?;
    out.extend(
        offsets
            .windows(2)
            .map(|pair| list(&items[pair[0].as_usize() - start..pair[1].as_usize() - start], seed)),
    );
    Ok(())
}

fn list_views<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    seed: u64,
    out: &mut Vec<u64>,
) -> Result<()> {
    let mut items = Vec::new();
    append(array.values(), seed, &mut items)?;
    out.extend(array.offsets().iter().zip(array.sizes()).map(|(offset, size)| {
        let offset = offset.as_usize();
        list(&items[offset..offset + size.as_usize()], seed)
    }));
    Ok(())
}
