//! Keys of any types and any number of columns, by their row encoding.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, FixedSizeListArray, GenericListArray,
    OffsetSizeTrait, StructArray, cast::AsArray, make_array, new_null_array, types::*,
};
use arrow_cast::cast;
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::{DataType, FieldRef};

use super::numbering::{Hashed, Numbering, Store, number_all};
use crate::{Error, Result};
use windowkit_kernels::types::named;

/// Keys by their row encoding.
pub(super) struct RowKeys {
    converter: RowConverter,
    batch: Rows,
    keys: Hashed<Rows>,
}

impl RowKeys {
    pub(super) fn new(types: Vec<DataType>) -> Result<Self> {
        if let Some(kind) = types.iter().find(|kind| !encodable(kind)) {
            return Err(Error::InvalidType(format!(
                "by: a column of type {kind} cannot be a key; allowed are all types but maps and types of \
                 width 0, also within others",
                kind = named(kind)
            )));
        }
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())?;
        let (batch, rows) = (converter.empty_rows(0, 0), converter.empty_rows(0, 0));
        Ok(Self { converter, batch, keys: Hashed::new(rows) })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn close(&mut self) {
        self.keys.close();
    }

    pub(super) fn bytes(&self) -> usize {
        self.batch.size() + self.converter.size() + self.keys.bytes()
    }

    pub(super) fn assign(&mut self, columns: &[ArrayRef], out: &mut Vec<u32>) -> Result<()> {
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        self.batch.clear();
        self.converter.append(&mut self.batch, &columns)?;
        let Self { batch, keys, .. } = self;
        number_all(keys, batch.num_rows(), |row| batch.row(row), out);
        Ok(())
    }

    /// As `assign`, of the keys of another index of these types. They are taken as they are encoded, which is the same
    /// for all: values that were decoded are not dictionaries any more where the types say so.
    pub(super) fn absorb(&mut self, other: &Self, out: &mut Vec<u32>) {
        let parser = self.converter.parser();
        let rows = &other.keys.store;
        number_all(&mut self.keys, rows.num_rows(), |row| parser.parse(rows.row(row).data()), out);
    }

    /// The values of these ids, or of all.
    pub(super) fn values(&self, of: Option<&[u32]>) -> Result<Vec<ArrayRef>> {
        let rows = &self.keys.store;
        match of {
            None => Ok(self.converter.convert_rows(rows)?),
            Some(ids) => Ok(self.converter.convert_rows(ids.iter().map(|&id| rows.row(id as usize)))?),
        }
    }
}

impl Store for Rows {
    type Key<'a> = Row<'a>;

    fn len(&self) -> usize {
        self.num_rows()
    }

    fn bytes(&self) -> usize {
        self.size()
    }

    fn is(&self, id: u32, row: Row<'_>) -> bool {
        self.row(id as usize) == row
    }

    fn add(&mut self, row: Row<'_>) {
        self.reserve(1, row.data().len());
        self.push(row);
    }
}

/// Whether values of a type have a row encoding that is equal where they are.
pub fn encodable(data_type: &DataType) -> bool {
    use DataType::{FixedSizeBinary, FixedSizeList};
    // Arrays of types without width do not know how long they are.
    let has_no_width = |kind: &DataType| matches!(kind, FixedSizeBinary(0) | FixedSizeList(_, 0));
    !holds_map(data_type)
        && !holds(data_type, has_no_width)
        && RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

/// Values as bytes that compare as the values do: by fields or items, one after the other, nulls first.
///
/// # Errors
/// Errors of Arrow: of types that are not [`encodable`], and of more bytes than its offsets can address.
pub fn encoded(values: &ArrayRef) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(&[normalised(values)])?;
    Ok(cast(&rows.try_into_binary()?, &DataType::BinaryView)?)
}

/// The values of this type of which these are the bytes, as [`encoded`] makes them; nulls of nulls.
pub fn decoded(bytes: &BinaryViewArray, data_type: &DataType) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
    let null = converter.convert_columns(&[new_null_array(data_type, 1)])?;
    let parser = converter.parser();
    let rows = bytes.iter().map(|row| row.map_or(null.row(0), |row| parser.parse(row)));
    let [values] = <[ArrayRef; 1]>::try_from(converter.convert_rows(rows)?)
        .map_err(|_| Error::Internal("one column was decoded to several".into()))?;
    // Dictionaries are not encoded as such.
    Ok(cast(&values, data_type)?)
}

/// Whether a type, or one within it, is such.
pub fn holds(data_type: &DataType, is: fn(&DataType) -> bool) -> bool {
    is(data_type)
        || match data_type {
            DataType::Struct(fields) => fields.iter().any(|field| holds(field.data_type(), is)),
            DataType::Union(fields, _) => fields.iter().any(|(_, field)| holds(field.data_type(), is)),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::RunEndEncoded(_, item) => holds(item.data_type(), is),
            DataType::Dictionary(_, values) => holds(values, is),
            _ => false,
        }
}

/// Whether maps are in it: two equal maps may list their entries in another order.
pub(super) fn holds_map(data_type: &DataType) -> bool {
    holds(data_type, |kind| matches!(kind, DataType::Map(..)))
}

/// The column with floats as SQL compares them: one NaN, one zero; also within other types.
pub fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float16 => canonical::<Float16Type>(column, |v| v.is_nan(), half_nan(), Default::default()),
        DataType::Float32 => canonical::<Float32Type>(column, |v| v.is_nan(), f32::NAN, 0.0),
        DataType::Float64 => canonical::<Float64Type>(column, |v| v.is_nan(), f64::NAN, 0.0),
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let children = parts.columns().iter().map(normalised).collect();
            match StructArray::try_new_with_length(
                fields.clone(),
                children,
                parts.nulls().cloned(),
                parts.len(),
            ) {
                Ok(array) => Arc::new(array),
                // Fields, lengths and nulls as before cannot fail to make a struct.
                Err(error) => unreachable!("{error}"),
            }
        }
        DataType::List(item) => normalised_list::<i32>(column, item),
        DataType::LargeList(item) => normalised_list::<i64>(column, item),
        DataType::FixedSizeList(item, size) => {
            let lists = column.as_fixed_size_list();
            let (values, nulls) = (normalised(lists.values()), lists.nulls().cloned());
            Arc::new(FixedSizeListArray::new(item.clone(), *size, values, nulls))
        }
        other if holds(other, DataType::is_floating) => {
            let data = column.to_data();
            let children = data.child_data().iter().map(|child| normalised(&make_array(child.clone())));
            let children = children.map(|child| child.to_data()).collect();
            match data.into_builder().child_data(children).build() {
                Ok(data) => make_array(data),
                // As above.
                Err(error) => unreachable!("{error}"),
            }
        }
        _ => column.clone(),
    }
}

fn normalised_list<O: OffsetSizeTrait>(column: &ArrayRef, item: &FieldRef) -> ArrayRef {
    let lists = column.as_list::<O>();
    let (offsets, values, nulls) =
        (lists.offsets().clone(), normalised(lists.values()), lists.nulls().cloned());
    Arc::new(GenericListArray::new(item.clone(), offsets, values, nulls))
}

fn half_nan() -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::NAN
}

fn canonical<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    is_nan: impl Fn(T::Native) -> bool,
    nan: T::Native,
    zero: T::Native,
) -> ArrayRef {
    let one = |value| {
        if is_nan(value) {
            nan
        } else if value == zero {
            zero
        } else {
            value
        }
    };
    Arc::new(column.as_primitive::<T>().unary::<_, T>(one))
}
