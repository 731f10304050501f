//! Keys of one column of strings or bytes of any layout, which are compared as they are.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::{Array, ArrayAccessor, ArrayRef, LargeBinaryArray, LargeStringArray, cast::AsArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::NONE;
use super::numbering::{Numbering, number_all};
use crate::{Error, Result};

/// Distinct strings or bytes.
pub(super) struct TextKeys {
    data_type: DataType,
    /// The bytes of all keys, one key after the other; key k has `bytes[offsets[k]..offsets[k + 1]]`.
    bytes: Vec<u8>,
    offsets: Vec<i64>,
    null: Option<u32>,
    /// Half of a key's hash, and its id: a table that grows reads nothing else, and another key is seldom looked at.
    table: HashTable<(u32, u32)>,
    hasher: FixedState,
    is_closed: bool,
}

impl TextKeys {
    pub(super) fn supports(data_type: &DataType) -> bool {
        use DataType::*;
        matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
    }

    pub(super) fn new(data_type: DataType) -> Self {
        let (table, hasher) = (HashTable::new(), FixedState::default());
        Self { data_type, bytes: Vec::new(), offsets: vec![0], null: None, table, hasher, is_closed: false }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.offsets.capacity() * size_of::<i64>() + self.table.allocation_size()
    }

    pub(super) fn assign(&mut self, column: &ArrayRef, out: &mut Vec<u32>) {
        use DataType::*;
        match column.data_type() {
            Utf8 => self.number_each(column.as_string::<i32>(), str::as_bytes, out),
            LargeUtf8 => self.number_each(column.as_string::<i64>(), str::as_bytes, out),
            Utf8View => self.number_each(column.as_string_view(), str::as_bytes, out),
            Binary => self.number_each(column.as_binary::<i32>(), |bytes| bytes, out),
            LargeBinary => self.number_each(column.as_binary::<i64>(), |bytes| bytes, out),
            _ => self.number_each(column.as_binary_view(), |bytes| bytes, out),
        }
    }

    fn number_each<'a, A: ArrayAccessor>(
        &mut self,
        column: A,
        bytes: impl Fn(A::Item) -> &'a [u8],
        out: &mut Vec<u32>,
    ) {
        let key = |row| Some(bytes(column.value(row)));
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => number_all(self, column.len(), key, out),
            Some(nulls) => {
                let key = |row| if nulls.is_valid(row) { key(row) } else { None };
                number_all(self, column.len(), key, out);
            }
        }
    }

    /// As `assign`, of the keys of another index, whatever their layout.
    pub(super) fn absorb(&mut self, other: &Self, out: &mut Vec<u32>) {
        let key = |id| (other.null != Some(id as u32)).then(|| other.value(id as u32));
        number_all(self, other.len(), key, out);
    }

    fn value(&self, id: u32) -> &[u8] {
        &self.bytes[self.offsets[id as usize] as usize..self.offsets[id as usize + 1] as usize]
    }

    #[inline]
    fn number_of(&mut self, value: &[u8], half: u32) -> u32 {
        if let Some(&(_, id)) =
            self.table.find(place(half), |&(own, id)| own == half && self.value(id) == value)
        {
            return id;
        }
        if self.is_closed {
            return NONE;
        }
        // First of all: a key that was added half-way would remain if there were no memory for the rest.
        self.table.reserve(1, |&(half, _)| place(half));
        let id = self.add(value);
        self.table.insert_unique(place(half), (half, id), |&(half, _)| place(half));
        id
    }

    fn number_of_null(&mut self) -> u32 {
        if let Some(id) = self.null {
            return id;
        }
        if self.is_closed {
            return NONE;
        }
        let id = self.add(&[]);
        self.null = Some(id);
        id
    }

    fn add(&mut self, value: &[u8]) -> u32 {
        self.bytes.reserve(value.len());
        self.offsets.reserve(1);
        let id = self.len() as u32;
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as i64);
        id
    }

    pub(super) fn values(&self) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets.clone()));
        let bytes = Buffer::from_slice_ref(&self.bytes);
        let nulls = self.null.map(|null| (0..self.len() as u32).map(|id| id != null).collect::<NullBuffer>());
        let values: ArrayRef = match self.data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let text = LargeStringArray::try_new(offsets, bytes, nulls);
                Arc::new(text.map_err(|error| {
                    Error::InvalidValue(format!(
                        "by: a key is not text in UTF-8, as its column says ({error}); validate=True looks at all data \
                         first"
                    ))
                })?)
            }
            _ => Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls)?),
        };
        Ok(if *values.data_type() == self.data_type { values } else { cast(&values, &self.data_type)? })
    }
}

impl Numbering for TextKeys {
    type Key<'a> = Option<&'a [u8]>;

    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn hash(&self, value: Self::Key<'_>) -> u64 {
        value.map_or(0, |value| self.hasher.hash_one(value) >> 32)
    }

    fn candidate(&self, half: u64) -> Option<u32> {
        let half = half as u32;
        self.table.find(place(half), |&(own, _)| own == half).map(|&(_, id)| id)
    }

    fn is(&self, id: u32, value: Self::Key<'_>) -> bool {
        value.is_some_and(|value| self.value(id) == value)
    }

    #[inline]
    fn number(&mut self, value: Self::Key<'_>, half: u64) -> u32 {
        match value {
            Some(value) => self.number_of(value, half as u32),
            None => self.number_of_null(),
        }
    }
}

/// Where the table has keys of this half of a hash: its first bits say in which group, its last ones which of that.
fn place(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9E37_79B9_7F4A_7C15)
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
            prop_assert_eq!(&keys.values().unwrap(), &cast(&wanted, kind).unwrap());
            // Whatever it has already, it has those of another afterwards.
            let mut other = TextKeys::new(TYPES[5 - of.index(TYPES.len())].clone());
            other.assign(&cast(&(Arc::new(StringArray::from(vec!["b"])) as ArrayRef), &other.data_type).unwrap(), &mut Vec::new());
            let mut ids = Vec::new();
            other.absorb(&keys, &mut ids);
            let wanted = keys.values().unwrap();
            let taken = other.values().unwrap();
            for (key, id) in ids.into_iter().enumerate() {
                let binary = |array: &ArrayRef, at: usize| cast(&array.slice(at, 1), &DataType::LargeBinary).unwrap();
                prop_assert_eq!(&binary(&taken, id as usize), &binary(&wanted, key));
            }
        }
    }
}
