//! Maps key columns to dense ids, so that everything after works on `u32`.
//!
//! Keys are equal as in SQL's `GROUP BY`: null equals null, NaN equals NaN, and -0.0 equals 0.0. Ids count from zero
//! in the order of first appearance.

mod hash;
mod integers;
mod numbering;
mod packed;
mod rows;
mod text;

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::DataType;

pub use hash::{hash_rows, remix, supported as hashable};
use integers::IntegerKeys;
use packed::PackedKeys;
use rows::RowKeys;
pub use rows::{decoded, encodable, encoded, holds, normalised};
use text::TextKeys;
use windowkit_kernels::dictionary::{plain, widened};
use windowkit_kernels::poll::Poll;
use windowkit_kernels::select::take;

use crate::{Error, Result};

/// What an index that is closed has as the id of keys that it does not have.
pub const NONE: u32 = u32::MAX;

/// Rows whose keys are looked up at once.
const ROWS: usize = 1 << 18;

/// Keeps what belongs to these keys, which ascend, and drops the rest: the n-th of them becomes key n.
pub fn keep<T: Default>(of_keys: &mut Vec<T>, kept: &[u32]) {
    let moved = |&key: &u32| of_keys.get_mut(key as usize).map(std::mem::take).unwrap_or_default();
    let mut only = Vec::new();
    if only.try_reserve_exact(kept.len()).is_ok() {
        only.extend(kept.iter().map(moved));
        *of_keys = only;
        return;
    }
    // Without memory in place, as none is moved to where one comes from later.
    of_keys.resize_with(of_keys.len().max(kept.len()), T::default);
    for (at, &key) in kept.iter().enumerate() {
        of_keys[at] = of_keys.get_mut(key as usize).map(std::mem::take).unwrap_or_default();
    }
    of_keys.truncate(kept.len());
}

/// The values of dictionaries, and other columns as they are.
fn without_dictionaries(columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let decoded = |values: ArrayRef| match plain(values.data_type()) {
        kind if kind == values.data_type() => Ok(values),
        kind => Ok(cast(&values, kind)?),
    };
    columns.into_iter().map(decoded).collect()
}

/// Assigns each distinct key a dense id and remembers the keys.
pub struct KeyIndex {
    types: Vec<DataType>,
    kind: Kind,
}

enum Kind {
    /// No key columns: a single group, which exists once there is a row.
    Global { seen: bool, is_closed: bool },
    /// One column of integers or of values stored as integers.
    Integers(IntegerKeys),
    /// One column of strings or bytes.
    Text(TextKeys),
    /// Columns that take at most 16 bytes together.
    Packed(PackedKeys),
    /// Anything else, by its row encoding.
    Rows(RowKeys),
}

impl KeyIndex {
    /// An empty index over columns of these types.
    ///
    /// # Errors
    /// `InvalidType` for a type that cannot be a key.
    pub fn new(types: Vec<DataType>) -> Result<Self> {
        let kind = match &types[..] {
            [] => Kind::Global { seen: false, is_closed: false },
            [one] if IntegerKeys::supports(plain(one)) => {
                Kind::Integers(IntegerKeys::new(plain(one).clone()))
            }
            [one] if TextKeys::supports(plain(one)) => Kind::Text(TextKeys::new(plain(one).clone())),
            _ => {
                let types: Vec<DataType> = types.iter().map(plain).cloned().collect();
                match PackedKeys::new(&types) {
                    Some(keys) => Kind::Packed(keys),
                    None => Kind::Rows(RowKeys::new(types)?),
                }
            }
        };
        Ok(Self { types, kind })
    }

    /// Adds no key from now on: those that are not there have [`NONE`] as their id.
    pub fn close(&mut self) {
        match &mut self.kind {
            Kind::Global { is_closed, .. } => *is_closed = true,
            Kind::Integers(keys) => keys.close(),
            Kind::Text(keys) => keys.close(),
            Kind::Packed(keys) => keys.close(),
            Kind::Rows(keys) => keys.close(),
        }
    }

    /// The types of [`KeyIndex::plain_values`].
    pub fn plain_types(&self) -> impl Iterator<Item = &DataType> {
        self.types.iter().map(plain)
    }

    /// Number of distinct keys so far.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Global { seen, .. } => usize::from(*seen),
            Kind::Integers(keys) => keys.len(),
            Kind::Text(keys) => keys.len(),
            Kind::Packed(keys) => keys.len(),
            Kind::Rows(keys) => keys.len(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Global { .. } => 0,
            Kind::Integers(keys) => keys.bytes(),
            Kind::Text(keys) => keys.bytes(),
            Kind::Packed(keys) => keys.bytes(),
            Kind::Rows(keys) => keys.bytes(),
        }
    }

    /// Whether no key was seen yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`KeyIndex::assign`], of any number of rows; `poll` is called before each of several parts of them.
    pub fn assign_all(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        ids: &mut Vec<u32>,
        poll: Poll,
    ) -> Result<()> {
        if rows <= ROWS {
            return self.assign(columns, rows, ids);
        }
        for from in (0..rows).step_by(ROWS) {
            poll()?;
            let len = ROWS.min(rows - from);
            let some: Vec<ArrayRef> = columns.iter().map(|column| column.slice(from, len)).collect();
            self.assign(&some, len, ids)?;
        }
        Ok(())
    }

    /// Appends the id of each of `rows` rows to `ids`. O(1) per row.
    pub fn assign(&mut self, columns: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        // A single dictionary: look each of its few values up once.
        if let [column] = columns
            && let Some(dictionary) = column.as_any_dictionary_opt()
            && dictionary.values().len() < column.len()
        {
            let codes = cast(dictionary.keys(), &DataType::UInt32)?;
            let values = dictionary.values().clone();
            let mut of_value = Vec::with_capacity(values.len());
            self.assign_plain(&[values], dictionary.values().len(), &mut of_value)?;
            let of_row = take(&UInt32Array::from(of_value), &codes, None)?;
            let of_row = of_row.as_any().downcast_ref::<UInt32Array>().expect("taken from such an array");
            if of_row.null_count() == 0 {
                ids.extend_from_slice(of_row.values());
            } else {
                let mut of_null = Vec::with_capacity(1);
                self.assign_plain(&[arrow_array::new_null_array(plain(&self.types[0]), 1)], 1, &mut of_null)?;
                ids.extend(of_row.iter().map(|id| id.unwrap_or(of_null[0])));
            }
            return Ok(());
        }
        let columns: std::result::Result<Vec<ArrayRef>, _> = columns
            .iter()
            .zip(&self.types)
            .map(|(column, wanted)| match plain(wanted) {
                kind if kind == column.data_type() => Ok(column.clone()),
                kind => cast(column, kind),
            })
            .collect();
        self.assign_plain(&columns?, rows, ids)
    }

    fn assign_plain(&mut self, columns: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        match &mut self.kind {
            Kind::Global { seen, is_closed } => {
                *seen |= rows > 0 && !*is_closed;
                ids.resize(ids.len() + rows, if *seen { 0 } else { NONE });
                Ok(())
            }
            Kind::Integers(keys) => keys.assign(&columns[0], ids),
            Kind::Text(keys) => {
                keys.assign(&columns[0], ids);
                Ok(())
            }
            Kind::Packed(keys) => {
                if keys.assign(columns, rows, ids) {
                    return Ok(());
                }
                // A text is too long: keys are rows from now on, with the ids that they have.
                let mut unpacked = RowKeys::new(self.types.iter().map(plain).cloned().collect())?;
                unpacked.assign(&keys.values(None)?, &mut Vec::new())?;
                if keys.is_closed() {
                    unpacked.close();
                }
                unpacked.assign(columns, ids)?;
                self.kind = Kind::Rows(unpacked);
                Ok(())
            }
            Kind::Rows(keys) => keys.assign(columns, ids),
        }
    }

    /// The distinct keys, one entry per id, as columns of the types that were given (dictionaries with 32-bit
    /// codes).
    pub fn values(&self) -> Result<Vec<ArrayRef>> {
        self.as_given(self.kind_values(None)?)
    }

    /// The keys of these ids, which may repeat and are in any order, as [`KeyIndex::values`] has them. O(ids).
    pub fn values_of(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        if ids.len() < self.len() {
            return self.as_given(self.kind_values(Some(ids))?);
        }
        // Each is decoded once.
        let ids = UInt32Array::from(ids.to_vec());
        self.values()?.iter().map(|values| Ok(take(values, &ids, None)?)).collect()
    }

    fn as_given(&self, values: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let as_given = |(array, given): (ArrayRef, &DataType)| {
            let wanted = widened(given);
            if array.data_type() == &wanted { Ok(array) } else { Ok(cast(&array, &wanted)?) }
        };
        values.into_iter().zip(&self.types).map(as_given).collect()
    }

    /// The keys of these ids, or of all, of plain types.
    fn kind_values(&self, of: Option<&[u32]>) -> Result<Vec<ArrayRef>> {
        match &self.kind {
            Kind::Global { .. } => Ok(vec![]),
            Kind::Integers(keys) => Ok(vec![keys.values(of)?]),
            Kind::Text(keys) => Ok(vec![keys.values(of)?]),
            Kind::Packed(keys) => keys.values(of),
            Kind::Rows(keys) => keys.values(of),
        }
    }

    /// The distinct keys as [`KeyIndex::values`] has them, but not as dictionaries: those are numbered by their values.
    pub fn plain_values(&self) -> Result<Vec<ArrayRef>> {
        without_dictionaries(self.values()?)
    }

    /// The keys of these ids, as [`KeyIndex::plain_values`] has them. O(ids).
    pub fn plain_values_of(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        without_dictionaries(self.values_of(ids)?)
    }

    /// An index of only these keys, which ascend: the n-th of them becomes key n. O(keys).
    ///
    /// # Errors
    /// Only those of Arrow.
    pub fn only(&self, kept: &[u32]) -> Result<Self> {
        let (mut keys, mut ids) = (Self::new(self.types.clone())?, Vec::new());
        keys.assign(&self.plain_values_of(kept)?, kept.len(), &mut ids)?;
        match ids.iter().copied().eq(0..kept.len() as u32) {
            true => Ok(keys),
            false => Err(Error::Internal("keys in their order have other numbers".into())),
        }
    }

    /// Takes in the keys of another index, whose types may differ in the codes of dictionaries; entry `k` of the result
    /// is this index's id for the other's `k`.
    pub fn absorb(&mut self, other: &KeyIndex) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(other.len());
        match (&mut self.kind, &other.kind) {
            (Kind::Rows(keys), Kind::Rows(others)) => keys.absorb(others, &mut ids),
            (Kind::Text(keys), Kind::Text(others)) => keys.absorb(others, &mut ids),
            (Kind::Packed(keys), Kind::Packed(others)) => keys.absorb(others, &mut ids),
            _ => self.assign_plain(&other.kind_values(None)?, other.len(), &mut ids)?,
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, Float64Array, Int64Array, StringArray, types::Int32Type};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn ids(index: &mut KeyIndex, columns: Vec<ArrayRef>) -> Vec<u32> {
        let mut ids = Vec::new();
        index.assign(&columns, columns[0].len(), &mut ids).unwrap();
        ids
    }

    #[test]
    fn floats_are_equal_as_in_sql() {
        let mut index = KeyIndex::new(vec![DataType::Float64]).unwrap();
        let keys =
            Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, None]);
        assert_eq!(ids(&mut index, vec![Arc::new(keys)]), [0, 0, 1, 1, 2, 2]);
    }

    /// Sparse at first, dense later, then sparse again: through every kind of lookup and back.
    #[test]
    fn ids_outlive_changes_of_the_lookup() {
        let mut index = KeyIndex::new(vec![DataType::Int64]).unwrap();
        let far: Vec<i64> = (0..100).map(|i| i * 5_000).collect();
        let dense: Vec<i64> = (0..500_000).rev().collect();
        let mut of = |values: &[i64]| ids(&mut index, vec![Arc::new(Int64Array::from(values.to_vec()))]);
        let first = of(&far);
        let all: Vec<u32> = dense.chunks(1000).flat_map(&mut of).collect();
        of(&[i64::MAX, i64::MIN]);
        assert_eq!(of(&far), first);
        assert_eq!(of(&dense), all);
        assert_eq!(index.len(), 500_002);
    }

    /// An index takes memory for keys, however many rows it has seen.
    #[test]
    fn a_key_far_from_few_others_takes_little() {
        let mut index = KeyIndex::new(vec![DataType::Int64]).unwrap();
        let mut of = |values: Vec<i64>| {
            let ids = ids(&mut index, vec![Arc::new(Int64Array::from(values))]);
            (ids, index.bytes())
        };
        let few: Vec<i64> = (0..1 << 18).map(|row| row % 16).collect();
        for _ in 0..8 {
            of(few.clone());
        }
        let (ids, bytes) = of(vec![1 << 22, 3]);
        assert_eq!(ids, [16, 3]);
        assert!(bytes < 1 << 16, "{bytes} bytes of 17 keys");
    }

    proptest! {
        /// Keys of every kind are numbered as they come, also where they are looked up block by block.
        #[test]
        fn keys_of_every_kind_are_numbered_as_they_come(
            parts in prop::collection::vec(prop::collection::vec(prop::option::of(0i64..60), 0..300), 1..5),
        ) {
            let far = |number: i64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64);
            let column = |part: &[Option<i64>], kind: usize| -> Vec<ArrayRef> {
                let numbers = || -> ArrayRef {
                    Arc::new(part.iter().map(|number| number.map(far)).collect::<Int64Array>())
                };
                let text = || -> ArrayRef {
                    Arc::new(part.iter().map(|number| number.map(|n| format!("k{n}"))).collect::<StringArray>())
                };
                match kind {
                    0 => vec![numbers()],
                    1 => vec![text()],
                    _ => vec![numbers(), text()],
                }
            };
            for kind in 0..3 {
                let types = column(&[], kind).iter().map(|column| column.data_type().clone()).collect();
                let mut index = KeyIndex::new(types).unwrap();
                let mut known: Vec<Option<i64>> = Vec::new();
                for part in &parts {
                    let mut found = Vec::new();
                    index.assign(&column(part, kind), part.len(), &mut found).unwrap();
                    let naive: Vec<u32> = part.iter().map(|number| {
                        let at = known.iter().position(|own| own == number);
                        at.unwrap_or_else(|| {
                            known.push(*number);
                            known.len() - 1
                        }) as u32
                    }).collect();
                    prop_assert_eq!(found, naive);
                }
                if !known.is_empty() {
                    prop_assert_eq!(&index.plain_values().unwrap(), &column(&known, kind));
                }
                // Closed, it has the same ones for these, and none for others.
                index.close();
                let (all, mut found): (Vec<_>, _) = ((0..80).map(Some).chain([None]).collect(), Vec::new());
                index.assign(&column(&all, kind), all.len(), &mut found).unwrap();
                let naive = all.iter().map(|number| {
                    known.iter().position(|own| own == number).map_or(NONE, |at| at as u32)
                });
                prop_assert_eq!(found, naive.collect::<Vec<_>>());
                prop_assert_eq!(index.len(), known.len());
            }
        }
    }

    #[test]
    fn floats_within_lists_and_structs_too() {
        let lists = |values: [f64; 2]| -> ArrayRef {
            let mut builder =
                arrow_array::builder::ListBuilder::new(arrow_array::builder::Float64Builder::new());
            values.into_iter().for_each(|value| builder.append_value([Some(value), None]));
            Arc::new(builder.finish())
        };
        let column = lists([0.0, -0.0]);
        let mut index = KeyIndex::new(vec![column.data_type().clone()]).unwrap();
        assert_eq!(ids(&mut index, vec![column]), [0, 0]);
        let field = arrow_schema::Field::new("f", DataType::Float64, true);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -f64::NAN]));
        let column: ArrayRef = Arc::new(arrow_array::StructArray::from(vec![(Arc::new(field), floats)]));
        let mut index = KeyIndex::new(vec![column.data_type().clone()]).unwrap();
        assert_eq!(ids(&mut index, vec![column]), [0, 0]);
    }

    #[test]
    fn dictionaries_with_different_codes_agree() {
        let mut index =
            KeyIndex::new(vec![DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())]).unwrap();
        let first: DictionaryArray<Int32Type> =
            vec![Some("a"), Some("b"), None, Some("a")].into_iter().collect();
        let second: DictionaryArray<Int32Type> =
            vec![Some("b"), Some("a"), Some("c"), None].into_iter().collect();
        let (first, second) =
            (ids(&mut index, vec![Arc::new(first)]), ids(&mut index, vec![Arc::new(second)]));
        assert_eq!(first[0], first[3]);
        assert_eq!([second[0], second[1], second[3]], [first[1], first[0], first[2]]);
        let values = cast(&index.values().unwrap()[0], &DataType::Utf8).unwrap();
        let values = values.as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(values.value(first[1] as usize), "b");
        assert!(values.is_null(first[2] as usize));
    }

    /// As where two inputs are compared, of which one has a dictionary.
    #[test]
    fn an_index_of_plain_values_takes_dictionaries_of_them() {
        let mut index = KeyIndex::new(vec![DataType::Utf8]).unwrap();
        let few: DictionaryArray<Int32Type> = vec![Some("a")].into_iter().collect();
        let many: DictionaryArray<Int32Type> =
            vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        assert_eq!(ids(&mut index, vec![Arc::new(few)]), [0]);
        assert_eq!(ids(&mut index, vec![Arc::new(many)]), [1, 2, 0, 1]);
        assert_eq!(ids(&mut index, vec![Arc::new(StringArray::from(vec![Some("b"), None]))]), [1, 2]);
    }

    #[test]
    fn far_apart_integers_leave_the_direct_table() {
        let mut index = KeyIndex::new(vec![DataType::Int64]).unwrap();
        let near = Int64Array::from(vec![Some(5), Some(7), None, Some(5)]);
        let far = Int64Array::from(vec![Some(i64::MIN), Some(7), Some(i64::MAX), None]);
        assert_eq!(ids(&mut index, vec![Arc::new(near)]), [0, 1, 2, 0]);
        assert_eq!(ids(&mut index, vec![Arc::new(far)]), [3, 1, 4, 2]);
        let values = index.values().unwrap();
        let values = values[0].as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(values, &Int64Array::from(vec![Some(5), Some(7), None, Some(i64::MIN), Some(i64::MAX)]));
    }
}
