//! Whether an array stays within its buffers: offsets, views, dictionary codes, run ends, type ids.
//!
//! Arrays of this process are built by functions that check this. Arrow's C data interface imports arrays without a look
//! at their contents, and an offset that points elsewhere then reads memory of someone else. These checks take one pass
//! over offsets, views or codes, without a branch per value, and never look at the values that these point to: whether
//! strings are UTF-8, for instance, is not checked.
//!
//! Nor do values that have no nulls by their type have any: arrow-rs makes no array of them otherwise.

use arrow_array::types::{ByteArrayType, ByteViewType, RunEndIndexType};
use arrow_array::{
    Array, GenericByteArray, GenericByteViewArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    RecordBatch, RunArray, UnionArray, cast::AsArray, downcast_dictionary_array, downcast_run_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Field, UnionMode};

use crate::{Error, Result};

/// Values that are checked between two branches: enough for SIMD, few enough to stop early.
const STEP: usize = 1024;

/// Checks an array that an argument was given.
///
/// # Errors
/// `InvalidValue` if it refers to what it does not hold, with the row.
pub fn check_array(argument: &str, array: &dyn Array) -> Result<()> {
    match fault(array) {
        None => Ok(()),
        Some(fault) => Err(Error::InvalidValue(format!("{argument}: malformed Arrow data: {fault}"))),
    }
}

/// Checks columns of a batch that an argument was given.
///
/// # Errors
/// `InvalidValue` if one refers to what it does not hold, with the name of the column and the row.
pub fn check_columns(
    argument: &str,
    batch: &RecordBatch,
    mut columns: impl Iterator<Item = usize>,
) -> Result<()> {
    columns.try_for_each(|at| match fault(batch.column(at)) {
        None => Ok(()),
        Some(fault) => Err(Error::InvalidValue(format!(
            "{argument}: column '{}' is malformed Arrow data: {fault}",
            batch.schema_ref().field(at).name()
        ))),
    })
}

/// What is wrong with an array; `None` if it, and what is nested in it, stays within its buffers.
fn fault(array: &dyn Array) -> Option<String> {
    match array.data_type() {
        DataType::Utf8 => bytes(array.as_string::<i32>()),
        DataType::LargeUtf8 => bytes(array.as_string::<i64>()),
        DataType::Binary => bytes(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes(array.as_binary::<i64>()),
        DataType::Utf8View => views(array.as_string_view()),
        DataType::BinaryView => views(array.as_binary_view()),
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        DataType::ListView(_) => list_view(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>()),
        DataType::FixedSizeList(field, size) => {
            let (values, nulls) = (array.as_fixed_size_list().values(), array.nulls());
            let masked = nulls.map(|nulls| nulls.expand(*size as usize));
            fault(values).or_else(|| absent(field, values, masked.as_ref()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            offsets(map.offsets(), map.entries().len()).or_else(|| fault(map.entries()))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            columns.into_iter().find_map(|(field, column)| {
                let fault = fault(column).or_else(|| absent(field, column, array.nulls()));
                fault.map(|fault| format!("field '{}': {fault}", field.name()))
            })
        }
        DataType::Dictionary(..) => downcast_dictionary_array!(
            array => codes(array.keys().values(), array, array.values().len()).or_else(|| fault(array.values())),
            _ => None
        ),
        DataType::RunEndEncoded(..) => downcast_run_array!(array => runs(array), _ => None),
        DataType::Union(_, mode) => union(array.as_union(), *mode),
        _ => None,
    }
}

/// Nulls among the values of a field that has none, unless what they are part of is null itself. Arrow's functions make no
/// array of such values. Of sound values only: codes of dictionaries are looked up.
fn absent(field: &Field, values: &dyn Array, masked: Option<&NullBuffer>) -> Option<String> {
    let nulls = (!field.is_nullable()).then(|| values.logical_nulls()).flatten()?;
    let is_masked = nulls.null_count() == 0 || masked.is_some_and(|masked| masked.contains(&nulls));
    (!is_masked).then(|| "a value is null, and its type says that none is".to_owned())
}

/// The first value that fails, if one does; values under nulls may be anything.
fn first<T: Copy>(values: &[T], array: &dyn Array, fits: impl Fn(T) -> bool) -> Option<(usize, T)> {
    let all = |step: &[T]| step.iter().fold(true, |all, &value| all & fits(value));
    if values.chunks(STEP).all(all) {
        return None;
    }
    let counts = |row: &usize| array.is_valid(*row) && !fits(values[*row]);
    (0..values.len()).find(counts).map(|row| (row, values[row]))
}

fn offsets<O: OffsetSizeTrait>(offsets: &[O], len: usize) -> Option<String> {
    let (begin, end) = (offsets[0].to_usize(), offsets[offsets.len() - 1].to_usize());
    let ascend = |(a, b): (&[O], &[O])| a.iter().zip(b).fold(true, |all, (a, b)| all & (a <= b));
    let pairs = offsets[..offsets.len() - 1].chunks(STEP).zip(offsets[1..].chunks(STEP));
    if !pairs.into_iter().all(ascend) {
        let row = offsets.windows(2).position(|pair| pair[0] > pair[1])?;
        let (from, to) = (offsets[row].as_usize() as i64, offsets[row + 1].as_usize() as i64);
        return Some(format!("row {row} extends from offset {from} to {to}; offsets do not decrease"));
    }
    match (begin, end) {
        // What an array without rows points to is not imported, where it is a slice of another.
        (Some(_), Some(end)) if end <= len || offsets.len() == 1 => None,
        (Some(_), Some(end)) => Some(format!("its last offset is {end}; there are {len} to point to")),
        _ => Some(format!("its first offset is {}; offsets are not negative", offsets[0].as_usize() as i64)),
    }
}

fn bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<String> {
    offsets(array.offsets(), array.values().len())
}

fn views<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> Option<String> {
    let lens: Vec<u64> = array.data_buffers().iter().map(|buffer| buffer.len() as u64).collect();
    // In a view, four bytes each: length, prefix, buffer, offset; or the length and up to 12 bytes of the string.
    let parts = |view: u128| (view as u32, (view >> 64) as u32, (view >> 96) as u32);
    let fits = |view: u128| {
        let (len, buffer, from) = parts(view);
        len <= 12 || lens.get(buffer as usize).is_some_and(|&all| u64::from(from) + u64::from(len) <= all)
    };
    let (row, view) = first(array.views(), array, fits)?;
    let (len, buffer, from) = parts(view);
    let there = lens
        .get(buffer as usize)
        .map_or_else(|| format!("there are {} buffers", lens.len()), |all| format!("that has {all} bytes"));
    Some(format!(
        "row {row} is a view of {} bytes from {} of buffer {}; {there}",
        len as i32, from as i32, buffer as i32
    ))
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Option<String> {
    offsets(array.offsets(), array.values().len())
        .or_else(|| fault(array.values()))
        .or_else(|| absent(item(array.data_type())?, array.values(), None))
}

/// The field of a list's values.
fn item(list: &DataType) -> Option<&Field> {
    match list {
        DataType::List(item) | DataType::LargeList(item) => Some(item),
        DataType::ListView(item) | DataType::LargeListView(item) => Some(item),
        _ => None,
    }
}

fn list_view<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> Option<String> {
    let len = array.values().len();
    let ends = |row: usize| {
        let (from, size) = (array.offsets()[row].to_usize()?, array.sizes()[row].to_usize()?);
        from.checked_add(size)
    };
    let outside = |&row: &usize| array.is_valid(row) && ends(row).is_none_or(|end| end > len);
    match (0..array.len()).find(outside) {
        Some(row) => Some(format!(
            "row {row} is a list of {} values from {}; there are {len} to point to",
            array.sizes()[row].as_usize() as i64,
            array.offsets()[row].as_usize() as i64
        )),
        None => fault(array.values()).or_else(|| absent(item(array.data_type())?, array.values(), None)),
    }
}

fn codes<C: ArrowNativeType>(codes: &[C], array: &dyn Array, len: usize) -> Option<String> {
    // A negative code is a huge one then.
    let (row, code) = first(codes, array, |code| code.as_usize() < len)?;
    Some(format!("row {row} has code {code:?}; its dictionary has {len} values"))
}

fn runs<R: RunEndIndexType>(array: &RunArray<R>) -> Option<String> {
    let ends = array.run_ends().inner();
    let number = |end: R::Native| end.as_usize() as i64;
    let first = ends.first().filter(|&&end| number(end) < 1);
    if let Some(&end) = first {
        return Some(format!("run 0 ends at {}; a run has a row", number(end)));
    }
    if let Some(run) = ends.windows(2).position(|pair| pair[0] >= pair[1]) {
        let (end, next) = (number(ends[run]), number(ends[run + 1]));
        return Some(format!("run {run} ends at {end} and the next at {next}; ends of runs ascend"));
    }
    let (rows, last) = (array.offset() + array.len(), ends.last().map_or(0, |&end| end.as_usize()));
    if last < rows {
        return Some(format!("its last run ends at {last}; it has {rows} rows"));
    }
    if array.values().len() < ends.len() {
        return Some(format!("it has {} values for {} runs", array.values().len(), ends.len()));
    }
    fault(array.values())
}

fn union(array: &UnionArray, mode: UnionMode) -> Option<String> {
    let DataType::Union(fields, _) = array.data_type() else { return None };
    for row in 0..array.len() {
        let id = array.type_ids()[row];
        if !fields.iter().any(|(known, _)| known == id) {
            return Some(format!("row {row} has type id {id}, which the type does not have"));
        }
        let (at, len) = match (mode, array.offsets()) {
            (UnionMode::Dense, Some(offsets)) => (offsets[row].as_usize(), array.child(id).len()),
            _ => (row, array.child(id).len()),
        };
        if at >= len {
            return Some(format!("row {row} is value {} of type id {id}, which has {len}", at as i64));
        }
    }
    fields.iter().find_map(|(id, _)| fault(array.child(id)))
}
