//! Rows of arrays: Arrow's selections, which also hold for values of width 0.
//!
//! Arrow reckons how long a new array is from its bytes, of which binary values and lists of fixed size 0 have none, so
//! that rows would get lost. Such values are selected as bits that are as many, and as null; also where they are nested in
//! others. All else costs a look at its type.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, cast::AsArray, make_array,
    new_null_array, types::UInt32Type,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use arrow_select::take::TakeOptions;

type Result<T> = std::result::Result<T, ArrowError>;

/// As [`arrow_select::take::take`].
///
/// # Errors
/// Errors of Arrow, as of all functions here.
pub fn take(values: &dyn Array, rows: &dyn Array, options: Option<TakeOptions>) -> Result<ArrayRef> {
    if let Some(rows) = rows.as_primitive_opt::<UInt32Type>()
        && rows.null_count() > 0
        && lacks_nulls(values.data_type())
    {
        // Arrow takes whatever row the null hides.
        let none = new_null_array(values.data_type(), 1);
        let rows: Vec<_> = rows.iter().map(|row| row.map_or((1, 0), |row| (0, row as usize))).collect();
        return interleave(&[values, &none], &rows);
    }
    selected(&[values], |values| arrow_select::take::take(values[0], rows, options))
}

/// As [`arrow_select::take::take_record_batch`].
pub fn take_record_batch(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    of_columns(batch, rows.len(), |column| take(column, rows, None))
}

/// As [`arrow_select::interleave::interleave`].
pub fn interleave(arrays: &[&dyn Array], rows: &[(usize, usize)]) -> Result<ArrayRef> {
    selected(arrays, |arrays| arrow_select::interleave::interleave(arrays, rows))
}

/// As [`arrow_select::concat::concat`].
pub fn concat(arrays: &[&dyn Array]) -> Result<ArrayRef> {
    selected(arrays, arrow_select::concat::concat)
}

/// As [`arrow_select::concat::concat_batches`].
pub fn concat_batches(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let column =
        |at: usize| concat(&batches.iter().map(|batch| batch.column(at).as_ref()).collect::<Vec<_>>());
    let columns = (0..schema.fields().len()).map(column).collect::<Result<_>>()?;
    of_rows(schema.clone(), columns, batches.iter().map(RecordBatch::num_rows).sum())
}

/// As [`arrow_select::filter::filter`].
pub fn filter(values: &dyn Array, is_kept: &BooleanArray) -> Result<ArrayRef> {
    selected(&[values], |values| arrow_select::filter::filter(values[0], is_kept))
}

/// As [`arrow_select::filter::filter_record_batch`].
pub fn filter_record_batch(batch: &RecordBatch, is_kept: &BooleanArray) -> Result<RecordBatch> {
    let filter = Filter::new(is_kept);
    of_columns(batch, filter.0.count(), |column| filter.of(column))
}

/// A filter of several columns.
pub struct Filter(FilterPredicate);

impl Filter {
    /// A filter that keeps these rows; a null excludes its row.
    pub fn new(is_kept: &BooleanArray) -> Self {
        Self(FilterBuilder::new(is_kept).optimize().build())
    }

    /// The rows of a column.
    pub fn of(&self, column: &dyn Array) -> Result<ArrayRef> {
        selected(&[column], |column| self.0.filter(column[0]))
    }
}

fn of_columns(
    batch: &RecordBatch,
    rows: usize,
    select: impl Fn(&dyn Array) -> Result<ArrayRef>,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| select(column.as_ref())).collect::<Result<_>>()?;
    of_rows(batch.schema(), columns, rows)
}

fn of_rows(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

/// What `select` makes of arrays of one type.
fn selected(
    arrays: &[&dyn Array],
    select: impl FnOnce(&[&dyn Array]) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let Some(own) = arrays.first().map(|array| array.data_type()).filter(|own| has_width_0(own)) else {
        return select(arrays);
    };
    let with_bits = |array: &&dyn Array| Ok(make_array(data_as(array.to_data(), &bits(array.data_type()))?));
    let arrays = arrays.iter().map(with_bits).collect::<Result<Vec<_>>>()?;
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(make_array(data_as(select(&arrays)?.to_data(), own)?))
}

/// Whether values of this type, or others in them, have no nulls of their own.
fn lacks_nulls(kind: &DataType) -> bool {
    matches!(kind, DataType::Union(..) | DataType::RunEndEncoded(..))
        || nested(kind).into_iter().any(lacks_nulls)
}

fn is_width_0(kind: &DataType) -> bool {
    matches!(kind, DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0))
}

/// Whether values of this type have width 0, or others in them.
fn has_width_0(kind: &DataType) -> bool {
    is_width_0(kind) || nested(kind).into_iter().any(has_width_0)
}

/// The types of the arrays within one of this type, in their order there.
fn nested(kind: &DataType) -> Vec<&DataType> {
    match kind {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::Dictionary(_, values) => vec![values],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

/// The type with bits in place of values of width 0.
fn bits(kind: &DataType) -> DataType {
    let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(bits(field.data_type())));
    match kind {
        kind if is_width_0(kind) => DataType::Boolean,
        DataType::List(of) => DataType::List(field(of)),
        DataType::LargeList(of) => DataType::LargeList(field(of)),
        DataType::ListView(of) => DataType::ListView(field(of)),
        DataType::LargeListView(of) => DataType::LargeListView(field(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(field(of), *size),
        DataType::Map(of, is_sorted) => DataType::Map(field(of), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Union(fields, mode) => {
            DataType::Union(fields.iter().map(|(id, of)| (id, field(of))).collect(), *mode)
        }
        DataType::Dictionary(codes, values) => DataType::Dictionary(codes.clone(), Box::new(bits(values))),
        DataType::RunEndEncoded(ends, of) => DataType::RunEndEncoded(ends.clone(), field(of)),
        other => other.clone(),
    }
}

/// The data as that of another type, which has bits where its own has values of width 0, or vice versa.
fn data_as(data: ArrayData, kind: &DataType) -> Result<ArrayData> {
    if data.data_type() == kind {
        return Ok(data);
    }
    let len = data.len();
    let flat = ArrayData::builder(kind.clone()).len(len).nulls(data.nulls().cloned());
    match kind {
        DataType::Boolean => flat.add_buffer(Buffer::from(vec![0u8; len.div_ceil(8)])).build(),
        DataType::FixedSizeBinary(0) => flat.add_buffer(Buffer::default()).build(),
        DataType::FixedSizeList(of, 0) => flat.add_child_data(ArrayData::new_empty(of.data_type())).build(),
        _ => {
            let inner = data.child_data().iter().zip(nested(kind));
            let inner = inner.map(|(data, kind)| data_as(data.clone(), kind)).collect::<Result<_>>()?;
            data.into_builder().data_type(kind.clone()).child_data(inner).build()
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{Int32Array, StringArray, StructArray, new_null_array};
    use arrow_schema::{Field, Fields};

    use super::*;

    /// Four values of width 0, of which the second is null if one is.
    fn empty(kind: &DataType, has_null: bool) -> ArrayRef {
        let bits =
            BooleanArray::from(vec![Some(false), (!has_null).then_some(false), Some(false), Some(false)]);
        make_array(data_as(bits.to_data(), kind).expect("as many values"))
    }

    #[test]
    fn selections_have_as_many_values_and_nulls_as_rows() {
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let rows = Int32Array::from(vec![Some(3), Some(1), None, Some(1), Some(0)]);
        let mask = BooleanArray::from(vec![true, true, false, true]);
        for kind in [DataType::FixedSizeBinary(0), DataType::FixedSizeList(item, 0)] {
            for has_null in [false, true] {
                let inner = empty(&kind, has_null);
                let taken = take(&inner, &rows, None).expect("rows that are there");
                let places = [(0, 3), (0, 1), (1, 0), (0, 1), (0, 0)];
                let null = new_null_array(&kind, 1);
                assert_eq!(&taken, &interleave(&[&inner, &null], &places).expect("the same rows"));
                assert_eq!((taken.data_type(), taken.len()), (&kind, 5));
                assert_eq!(
                    [0, 1, 2, 3, 4].map(|row| taken.is_null(row)),
                    [false, has_null, true, has_null, false]
                );
                let kept = filter(&inner, &mask).expect("a mask of its length");
                assert_eq!(&kept, &concat(&[&inner.slice(0, 2), &inner.slice(3, 1)]).expect("one type"));
                assert_eq!((kept.len(), kept.null_count()), (3, usize::from(has_null)));
                let fields = [("e", &kind), ("s", &DataType::Utf8)];
                let fields = fields.map(|(name, kind)| Field::new(name, kind.clone(), true));
                let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
                let outer = StructArray::new(Fields::from(fields.to_vec()), vec![inner, texts], None);
                let taken = take(&outer, &rows, None).expect("rows that are there");
                let same = taken.as_struct().column(0).slice(0, 2);
                assert_eq!((taken.len(), taken.null_count()), (5, 1));
                assert_eq!([0, 1].map(|row| same.is_null(row)), [false, has_null]);
                assert_eq!(filter(&outer, &mask).expect("a mask of its length").as_struct().column(0), &kept);
            }
        }
    }
}
