use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Int32Builder, ListViewBuilder, MapBuilder, StringBuilder,
    UnionBuilder,
};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::types::{Float64Type, Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, LargeStringArray, ListArray, NullArray, RecordBatch,
    RecordBatchIterator, RunArray, StringArray, StringViewArray, StructArray,
};
use arrow_buffer::{IntervalMonthDayNano, NullBuffer, i256};
use arrow_schema::{DataType, Field, Fields};

use super::odd::{OF_ARRAYS, OF_SCHEMAS, Produced};
use super::{FFI_ArrowArrayStream, KnownSchema, check_schema, check_stream, imported};
use crate::bounds::check_columns;
use crate::{Error, Result};

/// Rows of columns of all layouts, the third of which is null where any is.
const ROWS: usize = 5;

fn columns() -> Vec<ArrayRef> {
    let numbers = || (0..ROWS as i64).map(|row| (row != 2).then_some(row));
    let texts = || {
        numbers()
            .map(|row| row.map(|row| "of more than twelve bytes, or of less"[..row as usize * 9].to_owned()))
    };
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    let mut bytes = FixedSizeBinaryBuilder::new(3);
    let mut lists = ListViewBuilder::new(Int32Builder::new());
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    let (mut dense, mut sparse) = (UnionBuilder::new_dense(), UnionBuilder::new_sparse());
    for row in 0..ROWS as i32 {
        fixed.values().append_slice(&[row, -row]);
        fixed.append(row != 2);
        bytes.append_value([row as u8; 3]).unwrap();
        lists.append_value((0..row).map(Some));
        map.keys().append_value("key");
        map.values().append_value(row);
        map.append(row != 2).unwrap();
        for union in [&mut dense, &mut sparse] {
            if row % 2 == 0 {
                union.append::<Int32Type>("a", row).unwrap();
            } else {
                union.append::<Float64Type>("b", 0.5).unwrap();
            }
        }
    }
    let within: ArrayRef = Arc::new(numbers().collect::<Int64Array>());
    let fields =
        Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Utf8, true)]);
    let structs = StructArray::new(
        fields,
        vec![within.clone(), Arc::new(texts().collect::<StringArray>())],
        Some(NullBuffer::from(vec![true, true, true, false, true])),
    );
    vec![
        within,
        Arc::new(numbers().map(|row| row.map(|row| row as f64)).collect::<Float64Array>()),
        Arc::new(numbers().map(|row| row.map(|row| row > 1)).collect::<BooleanArray>()),
        Arc::new(texts().collect::<StringArray>()),
        Arc::new(texts().collect::<LargeStringArray>()),
        Arc::new(texts().map(|text| text.map(String::into_bytes)).collect::<BinaryArray>()),
        Arc::new(texts().collect::<StringViewArray>()),
        Arc::new(texts().map(|text| text.map(String::into_bytes)).collect::<BinaryViewArray>()),
        Arc::new(["a", "b", "a", "c", "b"].into_iter().collect::<arrow_array::DictionaryArray<Int8Type>>()),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            (0..ROWS as i32).map(|row| (row != 2).then(|| (0..row).map(Some))),
        )),
        Arc::new(lists.finish()),
        Arc::new(fixed.finish()),
        Arc::new(bytes.finish()),
        Arc::new(map.finish()),
        Arc::new(structs),
        Arc::new(dense.build().unwrap()),
        Arc::new(sparse.build().unwrap()),
        Arc::new(["a", "a", "b", "b", "b"].into_iter().collect::<RunArray<Int32Type>>()),
        Arc::new(NullArray::new(ROWS)),
        Arc::new(numbers().map(|row| row.map(i128::from)).collect::<Decimal128Array>()),
        Arc::new(
            numbers().map(|row| row.map(|row| i256::from_i128(row.into()))).collect::<Decimal256Array>(),
        ),
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3); ROWS])),
    ]
}

fn batch(column: &ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("v", column.clone(), true), ("t", column.clone(), true)])
        .unwrap()
}

fn produced(batch: &RecordBatch) -> Produced {
    Produced::new(&StructArray::from(batch.clone()).into_data())
}

fn import(known: &KnownSchema, produced: &Produced) -> Result<Option<RecordBatch>> {
    let (schema, array) = produced.structs();
    // SAFETY: these are such structs, and outlive what is imported, which no test returns.
    unsafe { known.import(schema, array) }
}

/// What an odd batch must come to: another schema, a refusal that says why, or rows that stay within their buffers.
fn is_told(outcome: &Result<Option<RecordBatch>>) -> bool {
    match outcome {
        Ok(None) => true,
        Ok(Some(batch)) => {
            let sound = check_columns("data", batch, 0..batch.num_columns());
            sound.is_err()
                || batch.columns().iter().all(|column| {
                    let data = column.to_data();
                    // All values are looked at.
                    data.validate_full().is_ok() || data.validate().is_ok()
                })
        }
        Err(Error::InvalidValue(text)) => text.starts_with("data: malformed Arrow data: "),
        Err(_) => false,
    }
}

#[test]
fn good_batches_of_all_layouts_are_imported_as_they_are() {
    for column in columns() {
        let whole = batch(&column);
        let known = KnownSchema::new(whole.schema()).unwrap();
        for (from, len) in [(0, ROWS), (1, 3), (3, 0), (0, 0), (4, 1)] {
            let own = whole.slice(from, len);
            let produced = produced(&own);
            let imported = import(&known, &produced).unwrap().unwrap();
            assert_eq!(imported, own);
            drop(imported);
            assert_eq!(produced.released(), 1, "{}", column.data_type());
        }
    }
}

#[test]
fn buffers_may_begin_anywhere() {
    for column in columns() {
        let own = batch(&column);
        let known = KnownSchema::new(own.schema()).unwrap();
        let mut produced = produced(&own);
        for node in 0..produced.len().0 {
            for buffer in 0..4 {
                produced.change_array(node, 11, buffer, 2);
            }
        }
        assert_eq!(import(&known, &produced).unwrap().unwrap(), own);
    }
}

#[test]
fn odd_batches_are_refused_or_stay_within_their_buffers() {
    const VALUES: [i64; 11] = [-1, 0, 1, 2, 3, 7, 255, i64::MAX, i64::MIN, 1 << 56, 1 << 40];
    // Interpreted, each takes a while.
    let every = if cfg!(miri) { 199 } else { 1 };
    let mut case = 0;
    let (mut refused, mut taken) = (0, 0);
    for column in columns() {
        let own = batch(&column);
        let known = KnownSchema::new(own.schema()).unwrap();
        let (arrays, schemas) = produced(&own).len();
        // The second column is as the first.
        let (arrays, schemas) = (arrays.div_ceil(2), schemas.div_ceil(2));
        let changes = (0..arrays * OF_ARRAYS).map(|at| (true, at / OF_ARRAYS, at % OF_ARRAYS));
        let changes =
            changes.chain((0..schemas * OF_SCHEMAS).map(|at| (false, at / OF_SCHEMAS, at % OF_SCHEMAS)));
        for (of_array, node, what) in changes {
            for value in VALUES {
                for which in 0..4 {
                    case += 1;
                    if case % every != 0 {
                        continue;
                    }
                    let mut odd = produced(&own);
                    if of_array {
                        odd.change_array(node, what, which, value);
                    } else {
                        odd.change_schema(node, what, which, value);
                    }
                    let outcome = import(&known, &odd);
                    assert!(
                        is_told(&outcome),
                        "{}: {of_array} {node} {what} {which} {value}: {outcome:?}",
                        column.data_type()
                    );
                    match outcome {
                        Ok(Some(_)) => taken += 1,
                        _ => refused += 1,
                    }
                }
            }
        }
    }
    assert!(refused > case / every / 5 && taken > case / every / 5, "{refused} refused, {taken} taken");
}

/// A change, and what is said of it.
#[test]
fn refusals_say_what_is_odd() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let codes: ArrayRef =
        Arc::new(["a", "b"].into_iter().collect::<arrow_array::DictionaryArray<Int8Type>>());
    let cases: [(&ArrayRef, usize, usize, usize, i64, &str); 13] = [
        (&texts, 0, 0, 0, -1, "an offset or a length is below zero, or beyond all memory"),
        (&texts, 1, 1, 0, i64::MAX, "field 'v': an offset or a length is below zero, or beyond all memory"),
        (&texts, 1, 2, 0, 1, ""),
        (&texts, 1, 3, 0, 2, "field 'v': there are 2 buffers, and its type has 3"),
        (&texts, 1, 3, 0, -1, "field 'v': there are -1 buffers, and its type has 3"),
        (&texts, 0, 4, 0, -1, "there are -1 arrays within it, and its type has 2"),
        (&texts, 1, 5, 0, 0, "field 'v': a pointer to pointers is null"),
        (&texts, 0, 6, 0, 0, "a pointer to pointers is null"),
        (&codes, 1, 7, 0, 0, "field 'v': either its type has a dictionary or its array"),
        (&texts, 0, 8, 0, 0, "its array was taken before"),
        (&texts, 2, 8, 0, 0, "field 't': its array was taken before"),
        (&texts, 1, 9, 1, 0, "field 'v': buffer 1 is null"),
        (&texts, 0, 10, 1, 0, "field 't': its array is null"),
    ];
    for (column, node, what, which, value, says) in cases {
        let own = batch(column);
        let known = KnownSchema::new(own.schema()).unwrap();
        let mut odd = produced(&own);
        odd.change_array(node, what, which, value);
        match import(&known, &odd) {
            Ok(batch) => assert_eq!((batch, says), (Some(own), "")),
            Err(error) => assert_eq!(error.to_string(), format!("data: malformed Arrow data: {says}")),
        }
    }
}

#[test]
fn schemas_that_cannot_be_are_refused_before_anything_reads_them() {
    // Nothing can tell that there are a few more fields than pointers.
    const VALUES: [i64; 6] = [0, -1, i64::MIN, 1 << 31, 1 << 56, i64::MAX];
    let (mut refused, mut read) = (0, 0);
    for column in columns() {
        let own = batch(&column);
        for node in 0..produced(&own).len().1 {
            for (what, which, value) in (0..OF_SCHEMAS)
                .flat_map(|what| (0..8).flat_map(move |which| VALUES.map(|value| (what, which, value))))
            {
                let mut odd = produced(&own);
                odd.change_schema(node, what, which, value);
                let (schema, _) = odd.structs();
                // SAFETY: it is one, and outlives this.
                match unsafe { check_schema("left", schema) } {
                    Ok(()) => {
                        // SAFETY: likewise. Formats that arrow does not know are for it to refuse.
                        let _ = imported("left", || Ok(DataType::try_from(unsafe { schema.as_ref() })?));
                        read += 1;
                    }
                    Err(Error::InvalidValue(text)) => {
                        assert!(text.starts_with("left: malformed Arrow data: "), "{text}");
                        refused += 1;
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    assert!(refused > read / 5 && read > refused / 5, "{refused} refused, {read} read");
}

#[test]
fn a_stream_is_asked_for_its_schema_unless_it_was_released() {
    let own = batch(&columns()[0]);
    let reader = || Box::new(RecordBatchIterator::new([Ok(own.clone())], own.schema()));
    let mut stream = FFI_ArrowArrayStream::new(reader());
    // SAFETY: it is one.
    unsafe { check_stream("data", NonNull::from(&mut stream)) }.unwrap();
    let mut rows = ArrowArrayStreamReader::try_new(stream).unwrap();
    assert_eq!((rows.next().unwrap().unwrap(), rows.next().is_none()), (own.clone(), true));
    unsafe extern "C" fn wrong(_: *mut FFI_ArrowArrayStream, to: *mut FFI_ArrowSchema) -> i32 {
        let mut schema = FFI_ArrowSchema::try_from(&DataType::Int32).unwrap();
        schema.n_children = -1;
        // SAFETY: there is room for one.
        unsafe { to.write(schema) };
        0
    }
    let mut stream = FFI_ArrowArrayStream::new(reader());
    stream.get_schema = Some(wrong);
    // SAFETY: it is one.
    let error = unsafe { check_stream("right", NonNull::from(&mut stream)) }.unwrap_err();
    assert_eq!(error.to_string(), "right: malformed Arrow data: a schema says that it has -1 fields");
    let mut released = FFI_ArrowArrayStream::empty();
    released.get_schema = Some(wrong);
    // SAFETY: it is one.
    unsafe { check_stream("data", NonNull::from(&mut released)) }.unwrap();
}

#[test]
fn nulls_are_counted_and_must_be_somewhere() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None]));
    let own = batch(&column);
    let known = KnownSchema::new(own.schema()).unwrap();
    for count in [-1, 0, 1, 2, 3, 100] {
        let mut odd = produced(&own);
        odd.change_array(1, 2, 0, count);
        assert_eq!(import(&known, &odd).unwrap().unwrap().column(0).null_count(), 2);
        odd = produced(&own);
        odd.change_array(1, 2, 0, count);
        odd.change_array(1, 9, 0, 0);
        match import(&known, &odd) {
            Ok(batch) => assert!(count < 1 && batch.unwrap().column(0).null_count() == 0),
            Err(error) => assert!(error.to_string().contains("rows are null, and it does not say which")),
        }
    }
}

#[test]
fn batches_of_other_schemas_stay_where_they_are() {
    let own = batch(&columns()[0]);
    let known = KnownSchema::new(own.schema()).unwrap();
    for other in columns().iter().skip(1).map(batch).chain([own.project(&[0]).unwrap()]) {
        let produced = produced(&other);
        assert_eq!(import(&known, &produced).unwrap(), None);
        assert_eq!(produced.released(), 0);
        let own = KnownSchema::new(other.schema()).unwrap();
        assert_eq!(import(&own, &produced).unwrap().unwrap(), other);
    }
}

#[test]
fn a_batch_is_taken_once_and_has_no_rows_that_are_null() {
    let own = batch(&columns()[0]);
    let known = KnownSchema::new(own.schema()).unwrap();
    let given = produced(&own);
    drop(import(&known, &given).unwrap().unwrap());
    let again = import(&known, &given).unwrap_err().to_string();
    assert_eq!(again, "data: malformed Arrow data: its array was taken before");
    let mut released = produced(&own);
    released.change_schema(0, 8, 0, 0);
    let error = import(&known, &released).unwrap_err().to_string();
    assert_eq!(error, "data: malformed Arrow data: its schema was taken before");
    let masked = StructArray::from(own.clone()).into_data().into_builder();
    let masked = masked.nulls(Some(NullBuffer::from(vec![true, true, true, false, true]))).build().unwrap();
    let error = import(&known, &Produced::new(&masked)).unwrap_err().to_string();
    assert_eq!(error, "data: malformed Arrow data: rows of a batch are null");
}
