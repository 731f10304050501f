//! Hashes rows of key columns to 64 bits that are the same in every run, on every platform and in every release.
//!
//! | | |
//! |---|---|
//! | integers | the finaliser of SplitMix64 (Steele et al., OOPSLA 2014; constants: Stafford's *Mix13*), a bijection: integers of one column never collide |
//! | strings, binary | XXH3, 64 bits, seeded; its output is fixed since xxHash 0.8.0 |
//! | everything else | combinations of the two |
//! | time | O(rows); a dictionary's values are hashed once each |
//!
//! Keys that are equal as in SQL's `GROUP BY` have equal hashes: nulls, NaNs, and both zeros, at any depth. Equal
//! values of integer types of different widths do too, as do floats of different widths, and strings of any layout:
//! string, large string, view, dictionary or run-end encoded.

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RunArray, cast::AsArray, types::*};
use arrow_array::{ArrowPrimitiveType, GenericListViewArray};
use arrow_cast::cast;
use arrow_schema::{DataType, IntervalUnit};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::rows::holds;
use crate::{Error, Result};
use windowkit_kernels::select::take;
use windowkit_kernels::simd::Word;
use windowkit_kernels::simd::mix::{mix, mix_words};
use windowkit_kernels::types::named;

// Arbitrary odd constants (digits of the golden ratio, pi and e) that keep kinds of values apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const NULL: u64 = 0x243F_6A88_85A3_08D3;
const LIST: u64 = 0xB7E1_5162_8AED_2A6B;
const STRUCT: u64 = 0x1319_8A2E_0370_7345;

/// Appends the hash of each of `rows` rows of key columns to `hashes`.
///
/// Derive everything else that depends on the hashes from [`remix`], as the sketches use their own bits: a key's
/// candidate workers from `remix(hash, 1)`, `remix(hash, 2)` and so on.
///
/// # Errors
/// `InvalidType` for maps and unions, also within other types.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// use windowkit_partition::keys::hash_rows;
///
/// let keys: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, None]));
/// let mut hashes = Vec::new();
/// hash_rows(&[keys], 4, 7, &mut hashes)?;
/// assert_eq!(hashes[0], hashes[1]);
/// assert_eq!(hashes[2], hashes[3]);
/// assert_ne!(hashes[0], hashes[2]);
/// # Ok::<(), windowkit_partition::Error>(())
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
pub fn supported(data_type: &DataType) -> Result<()> {
    if holds(data_type, |kind| matches!(kind, DataType::Map(..) | DataType::Union(..))) {
        return Err(Error::InvalidType(format!(
            "keys: a column of type {data_type} cannot be hashed; allowed are all types but maps and unions",
            data_type = named(data_type)
        )));
    }
    Ok(())
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
        Int8 => numbers::<Int8Type>(column, seed, out),
        Int16 => numbers::<Int16Type>(column, seed, out),
        Int32 => numbers::<Int32Type>(column, seed, out),
        Int64 => numbers::<Int64Type>(column, seed, out),
        UInt8 => numbers::<UInt8Type>(column, seed, out),
        UInt16 => numbers::<UInt16Type>(column, seed, out),
        UInt32 => numbers::<UInt32Type>(column, seed, out),
        UInt64 => numbers::<UInt64Type>(column, seed, out),
        Float16 => {
            let values = column.as_primitive::<Float16Type>().values();
            out.extend(values.iter().map(|value| mix(seed ^ value.to_f64().word())));
        }
        Float32 => numbers::<Float32Type>(column, seed, out),
        Float64 => numbers::<Float64Type>(column, seed, out),
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
        // Rejected before any column is read.
        other @ (Map(..) | Union(..)) => unreachable!("{other} is not supported"),
    }
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        let null = mix(seed ^ NULL);
        out[from..].iter_mut().zip(nulls).for_each(|(hash, valid)| *hash = if valid { *hash } else { null });
    }
    Ok(())
}

fn numbers<T: ArrowPrimitiveType<Native: Word>>(column: &dyn Array, seed: u64, out: &mut Vec<u64>) {
    let from = out.len();
    out.resize(from + column.len(), 0);
    mix_words(column.as_primitive::<T>().values(), seed, &mut out[from..]);
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

/// The hash of a list: of its items in order, and of their number, so that neighbours cannot swap items.
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

#[cfg(test)]
mod tests {
    use super::super::KeyIndex;
    use super::*;
    use arrow_array::builder::*;
    use arrow_array::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn hashes(columns: &[ArrayRef], seed: u64) -> Vec<u64> {
        let mut hashes = Vec::new();
        hash_rows(columns, columns[0].len(), seed, &mut hashes).unwrap();
        hashes
    }

    /// With this seed the hash of strings is XXH3 with seed 0, and of integers SplitMix64's finaliser: both published.
    #[test]
    fn hashes_stay_what_they_are() {
        let seed = GOLDEN.wrapping_neg();
        let text: ArrayRef = Arc::new(StringArray::from(vec![""]));
        assert_eq!(hashes(&[text], seed), [0x2D06_8005_38D3_94C2]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![GOLDEN as i64, 0]));
        assert_eq!(hashes(&[numbers], seed), [0xE220_A839_7B1D_CDAF, 0]);
    }

    #[test]
    fn widths_and_encodings_do_not_matter() {
        let small: ArrayRef = Arc::new(Int8Array::from(vec![Some(-3), Some(100), None]));
        for wider in [DataType::Int16, DataType::Int32, DataType::Int64] {
            assert_eq!(
                hashes(&[cast(&small, &wider).unwrap()], 1),
                hashes(std::slice::from_ref(&small), 1),
                "{wider}"
            );
        }
        let halves: ArrayRef =
            Arc::new(Float32Array::from(vec![Some(0.5), Some(-0.0), Some(f32::NAN), None]));
        assert_eq!(
            hashes(&[cast(&halves, &DataType::Float64).unwrap()], 1),
            hashes(std::slice::from_ref(&halves), 1)
        );
        assert_eq!(hashes(&[cast(&halves, &DataType::Float16).unwrap()], 1), hashes(&[halves], 1));
        let text: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some(""),
            None,
            Some("a"),
            Some("längere Zeichenkette"),
        ]));
        let dictionary = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
        for other in
            [DataType::LargeUtf8, DataType::Utf8View, DataType::Binary, DataType::BinaryView, dictionary]
        {
            let column = cast(&text, &other).unwrap();
            assert_eq!(
                hashes(std::slice::from_ref(&column), 1),
                hashes(std::slice::from_ref(&text), 1),
                "{other}"
            );
            assert_eq!(
                hashes(&[column.slice(3, 2)], 1),
                hashes(std::slice::from_ref(&text), 1)[3..],
                "{other}, sliced"
            );
        }
        let ends = Int32Array::from(vec![2, 3]);
        let runs = RunArray::try_new(&ends, &StringArray::from(vec![Some("x"), None])).unwrap();
        let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("x"), None]));
        assert_eq!(hashes(&[Arc::new(runs.slice(1, 2))], 1), hashes(&[plain], 1)[1..]);
    }

    #[test]
    fn columns_and_lists_keep_their_items_apart() {
        let lists = |rows: &[&[i32]]| -> ArrayRef {
            let mut builder = ListBuilder::new(Int32Builder::new());
            rows.iter().for_each(|row| builder.append_value(row.iter().map(|&item| Some(item))));
            Arc::new(builder.finish())
        };
        let (left, right) = (lists(&[&[1], &[1, 2], &[]]), lists(&[&[2, 3], &[3], &[1]]));
        let all = hashes(&[left.clone(), right], 0);
        assert_ne!(all[0], all[1]);
        assert_eq!(hashes(&[left.slice(1, 2)], 0), hashes(std::slice::from_ref(&left), 0)[1..]);
        assert_eq!(
            hashes(&[cast(&left, &DataType::new_large_list(DataType::Int32, true)).unwrap()], 0),
            hashes(&[left], 0)
        );
        let (a, b): (ArrayRef, ArrayRef) =
            (Arc::new(Int32Array::from(vec![1, 2])), Arc::new(Int32Array::from(vec![2, 1])));
        assert_ne!(hashes(&[a.clone(), b.clone()], 0)[0], hashes(&[b, a], 0)[0]);
    }

    #[test]
    fn no_columns_are_one_key_and_no_rows_none() {
        let mut out = vec![7];
        hash_rows(&[], 3, 5, &mut out).unwrap();
        assert!(out.len() == 4 && out[0] == 7 && out[1] == out[2] && out[2] == out[3]);
        for data_type in
            [DataType::Int32, DataType::Utf8, DataType::new_list(DataType::Utf8, true), DataType::Null]
        {
            assert!(hashes(&[arrow_array::new_empty_array(&data_type)], 0).is_empty());
        }
    }

    #[test]
    fn maps_and_unions_are_refused() {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        builder.append(true).unwrap();
        let map: ArrayRef = Arc::new(builder.finish());
        let nested = DataType::new_list(map.data_type().clone(), true);
        for column in [map, arrow_array::new_null_array(&nested, 1)] {
            let error = hash_rows(&[column], 1, 0, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, Error::InvalidType(text) if text.contains("map<")));
        }
    }

    /// Rows of five columns with few values each, nested ones among them.
    fn rows() -> impl Strategy<Value = Vec<ArrayRef>> {
        let float = prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(1.5)];
        let row = (
            prop::option::of(-2_i64..2),
            prop::option::of(float.clone()),
            prop::option::of("[ab]{0,2}"),
            prop::option::of(prop::collection::vec(prop::option::of(float), 0..3)),
            prop::option::of(0_i128..3),
        );
        prop::collection::vec(row, 1..60).prop_map(|rows| {
            let mut lists = ListBuilder::new(Float64Builder::new());
            rows.iter().for_each(|row| lists.append_option(row.3.clone()));
            let lists: ArrayRef = Arc::new(lists.finish());
            let decimals: Decimal128Array = rows.iter().map(|row| row.4).collect();
            let field = |name, array: &ArrayRef| {
                Arc::new(arrow_schema::Field::new(name, array.data_type().clone(), true))
            };
            let decimals: ArrayRef = Arc::new(decimals);
            let parts = StructArray::from(vec![
                (field("lists", &lists), lists.clone()),
                (field("decimals", &decimals), decimals.clone()),
            ]);
            vec![
                Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()) as ArrayRef,
                Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
                Arc::new(rows.iter().map(|row| row.2.clone()).collect::<StringArray>()),
                lists,
                Arc::new(parts),
            ]
        })
    }

    proptest! {
        /// Equal keys have equal hashes and others do not, with equality as defined by the index of keys.
        #[test]
        fn equal_as_keys_are(columns in rows(), from in 0_usize..5, count in 1_usize..5, seed in any::<u64>()) {
            let columns: Vec<ArrayRef> = columns.into_iter().cycle().skip(from).take(count).collect();
            let types = columns.iter().map(|column| column.data_type().clone()).collect();
            let mut index = KeyIndex::new(types).unwrap();
            let mut ids = Vec::new();
            index.assign(&columns, columns[0].len(), &mut ids).unwrap();
            let hashes = hashes(&columns, seed);
            for (row, other) in (0..ids.len()).flat_map(|row| (0..row).map(move |other| (row, other))) {
                prop_assert_eq!(ids[row] == ids[other], hashes[row] == hashes[other], "{} and {}", row, other);
            }
        }

        #[test]
        fn slices_hash_as_the_whole(columns in rows(), seed in any::<u64>(), from in 0_usize..10) {
            let from = from.min(columns[0].len());
            let slices: Vec<ArrayRef> = columns.iter().map(|c| c.slice(from, c.len() - from)).collect();
            prop_assert_eq!(hashes(&slices, seed), &hashes(&columns, seed)[from..]);
        }
    }
}
