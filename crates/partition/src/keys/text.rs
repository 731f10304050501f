//! Keys of one column of strings or bytes of any layout, which are compared as they are.

use std::sync::Arc;

use arrow_array::{Array, ArrayAccessor, ArrayRef, LargeBinaryArray, LargeStringArray, cast::AsArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::numbering::{Hashed, Numbering, Store, nulls_of, number_all};
use crate::{Error, Result};

/// Calls a function with a column of strings or bytes as what it is, the bytes of a value, and these arguments.
macro_rules! typed {
    ($column:expr, $function:ident, $($argument:expr),*) => {
        match $column.data_type() {
            DataType::Utf8 => $function($column.as_string::<i32>(), str::as_bytes, $($argument),*),
            DataType::LargeUtf8 => $function($column.as_string::<i64>(), str::as_bytes, $($argument),*),
            DataType::Utf8View => $function($column.as_string_view(), str::as_bytes, $($argument),*),
            DataType::Binary => $function($column.as_binary::<i32>(), |bytes| bytes, $($argument),*),
            DataType::LargeBinary => $function($column.as_binary::<i64>(), |bytes| bytes, $($argument),*),
            _ => $function($column.as_binary_view(), |bytes| bytes, $($argument),*),
        }
    };
}
pub(super) use typed;

/// Distinct strings or bytes.
pub(super) struct TextKeys {
    data_type: DataType,
    keys: Hashed<Texts>,
}

/// Strings or bytes, one after the other.
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// Text k has `bytes[offsets[k]..offsets[k + 1]]`.
    offsets: Vec<i64>,
    /// Which of them is null.
    null: Option<u32>,
}

impl TextKeys {
    pub(super) fn supports(data_type: &DataType) -> bool {
        use DataType::*;
        matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
    }

    pub(super) fn new(data_type: DataType) -> Self {
        let texts = Texts { bytes: Vec::new(), offsets: vec![0], null: None };
        Self { data_type, keys: Hashed::new(texts) }
    }

    pub(super) fn close(&mut self) {
        self.keys.close();
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes()
    }

    pub(super) fn assign(&mut self, column: &ArrayRef, out: &mut Vec<u32>) {
        typed!(column, number_each, &mut self.keys, out);
    }

    /// As `assign`, of the keys of another index, whatever their layout.
    pub(super) fn absorb(&mut self, other: &Self, out: &mut Vec<u32>) {
        let texts = &other.keys.store;
        let key = |id| (texts.null != Some(id as u32)).then(|| texts.value(id as u32));
        number_all(&mut self.keys, texts.len(), key, out);
    }

    /// The values of these ids, or of all.
    pub(super) fn values(&self, of: Option<&[u32]>) -> Result<ArrayRef> {
        let texts = &self.keys.store;
        let nulls = nulls_of(texts.null, of, self.len());
        let Some(ids) = of else {
            return text_array(&self.data_type, &texts.bytes, texts.offsets.clone(), nulls);
        };
        let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
        for &id in ids {
            bytes.extend_from_slice(texts.value(id));
            offsets.push(bytes.len() as i64);
        }
        text_array(&self.data_type, &bytes, offsets, nulls)
    }
}

fn number_each<'a, A: ArrayAccessor>(
    column: A,
    bytes: impl Fn(A::Item) -> &'a [u8],
    keys: &mut Hashed<Texts>,
    out: &mut Vec<u32>,
) {
    let key = |row| Some(bytes(column.value(row)));
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => number_all(keys, column.len(), key, out),
        Some(nulls) => {
            let key = |row| if nulls.is_valid(row) { key(row) } else { None };
            number_all(keys, column.len(), key, out);
        }
    }
}

impl Texts {
    fn value(&self, id: u32) -> &[u8] {
        &self.bytes[self.offsets[id as usize] as usize..self.offsets[id as usize + 1] as usize]
    }
}

impl Store for Texts {
    type Key<'a> = Option<&'a [u8]>;

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn bytes(&self) -> usize {
        self.bytes.capacity() + self.offsets.capacity() * size_of::<i64>()
    }

    #[inline]
    fn is(&self, id: u32, key: Self::Key<'_>) -> bool {
        match key {
            // Null is stored as an empty one.
            Some(text) => self.value(id) == text && (!text.is_empty() || self.null != Some(id)),
            None => self.null == Some(id),
        }
    }

    fn add(&mut self, key: Self::Key<'_>) {
        let (id, text) = (self.len() as u32, key.unwrap_or_default());
        self.bytes.reserve(text.len());
        self.offsets.reserve(1);
        self.bytes.extend_from_slice(text);
        self.offsets.push(self.bytes.len() as i64);
        if key.is_none() {
            self.null = Some(id);
        }
    }
}

/// Keys of this type, of which the n-th has `bytes[offsets[n]..offsets[n + 1]]`.
pub(super) fn text_array(
    data_type: &DataType,
    bytes: &[u8],
    offsets: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let bytes = Buffer::from_slice_ref(bytes);
    let values: ArrayRef = match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = LargeStringArray::try_new(offsets, bytes, nulls);
            Arc::new(text.map_err(|error| {
                Error::InvalidValue(format!(
                    "by: a key is not text in UTF-8, as its column says ({error}); validate=True looks at all data first"
                ))
            })?)
        }
        _ => Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls)?),
    };
    Ok(if values.data_type() == data_type { values } else { cast(&values, data_type)? })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::StringArray;
    use proptest::prelude::*;

    use super::*;

    const TYPES: [DataType; 6] = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ];

    proptest! {
        /// Ids count from zero in the order of first appearance, and values are those that were given.
        #[test]
        fn keys_are_numbered_as_they_come(
            parts in prop::collection::vec(prop::collection::vec(prop::option::of("[ab]{0,3}|a{0,40}"), 0..30), 1..4),
            of in any::<prop::sample::Index>(), skip in 0usize..5,
        ) {
            let kind = &TYPES[of.index(TYPES.len())];
            let mut keys = TextKeys::new(kind.clone());
            let mut known: HashMap<Option<String>, u32> = HashMap::new();
            let mut in_order = Vec::new();
            for part in parts {
                let column: ArrayRef = Arc::new(StringArray::from(part.clone()));
                let (skip, mut ids) = (skip.min(part.len()), Vec::new());
                keys.assign(&cast(&column, kind).unwrap().slice(skip, part.len() - skip), &mut ids);
                let expected: Vec<u32> = part[skip..].iter().map(|value| {
                    let next = known.len() as u32;
                    *known.entry(value.clone()).or_insert_with(|| {
                        in_order.push(value.clone());
                        next
                    })
                }).collect();
                prop_assert_eq!(ids, expected);
            }
            let wanted: ArrayRef = Arc::new(StringArray::from(in_order));
            prop_assert_eq!(&keys.values(None).unwrap(), &cast(&wanted, kind).unwrap());
            // Whatever it has already, it has those of another afterwards.
            let mut other = TextKeys::new(TYPES[5 - of.index(TYPES.len())].clone());
            other.assign(&cast(&(Arc::new(StringArray::from(vec!["b"])) as ArrayRef), &other.data_type).unwrap(), &mut Vec::new());
            let mut ids = Vec::new();
            other.absorb(&keys, &mut ids);
            let wanted = keys.values(None).unwrap();
            let taken = other.values(None).unwrap();
            for (key, id) in ids.into_iter().enumerate() {
                let binary = |array: &ArrayRef, at: usize| cast(&array.slice(at, 1), &DataType::LargeBinary).unwrap();
                prop_assert_eq!(&binary(&taken, id as usize), &binary(&wanted, key));
            }
        }
    }
}
