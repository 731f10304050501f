//! Keys of several columns that take at most 16 bytes together, as one number each.
//!
//! | | |
//! |---|---|
//! | needs | numbers, booleans, times; strings and bytes, of which all rows must be short enough: otherwise keys are encoded as rows from then on |
//! | time | O(1) per row and column, without a copy of strings |
//! | space | 16 bytes per key, beside its entry in the table |
//! | layout | column by column from the highest bits on: a value and, below it, whether it is valid; text and, below it, how long it is. So each column says where the one before it ends, and different keys are different numbers |

use std::sync::Arc;

use arrow_array::{Array, ArrayAccessor, ArrayRef, BooleanArray, cast::AsArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use super::integers::{read, stored_array};
use super::numbering::{Hashed, Numbering, Store, number_all};
use super::rows::normalised;
use super::text::{TextKeys, text_array, typed};
use crate::Result;

/// Bits that say how long a text is.
const LENGTH_BITS: u32 = 5;

/// The length of text that is null: longer than any other.
const NULL_LENGTH: u128 = (1 << LENGTH_BITS) - 1;

/// Distinct keys as numbers.
pub(super) struct PackedKeys {
    types: Vec<DataType>,
    keys: Hashed<Vec<u128>>,
    /// The keys of a batch.
    words: Vec<u128>,
    /// Bits that are left for text.
    room: u32,
}

impl PackedKeys {
    /// Keys of these columns, if there is room for them as long as texts are short.
    pub(super) fn new(types: &[DataType]) -> Option<Self> {
        let bits = types.iter().map(fixed_bits).sum::<Option<u32>>()?;
        let room = u128::BITS.checked_sub(bits)?;
        Some(Self { types: types.to_vec(), keys: Hashed::new(Vec::new()), words: Vec::new(), room })
    }

    pub(super) fn close(&mut self) {
        self.keys.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.keys.is_closed()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.words.capacity() * size_of::<u128>()
    }

    /// Appends the id of each row, unless a text of them is too long: then nothing is done, and the answer is no.
    pub(super) fn assign(&mut self, columns: &[ArrayRef], rows: usize, out: &mut Vec<u32>) -> bool {
        let Self { types, keys, words, room } = self;
        words.clear();
        words.resize(rows, 0);
        // Of each row, where there are several texts.
        let mut taken =
            vec![0; if types.iter().filter(|kind| TextKeys::supports(kind)).count() > 1 { rows } else { 0 }];
        for column in columns {
            match column.data_type() {
                DataType::Boolean => {
                    let values = column.as_boolean().values().iter().map(u64::from);
                    push(words, 1, values, column.nulls());
                }
                kind if TextKeys::supports(kind) => {
                    if !typed!(column, push_texts, words, &mut taken, *room) {
                        return false;
                    }
                }
                kind => {
                    let bits = 8 * kind.primitive_width().unwrap_or_default() as u32;
                    let values = read(&normalised(column));
                    push(words, bits, values.iter().map(|&value| value as u64), column.nulls());
                }
            }
        }
        number_all(keys, rows, |row| words[row], out);
        true
    }

    /// As `assign`, of the keys of another index of these types.
    pub(super) fn absorb(&mut self, other: &Self, out: &mut Vec<u32>) {
        let words = &other.keys.store;
        number_all(&mut self.keys, words.len(), |id| words[id], out);
    }

    /// The values of these ids, or of all.
    pub(super) fn values(&self, of: Option<&[u32]>) -> Result<Vec<ArrayRef>> {
        let mut words: Vec<u128> = match of {
            None => self.keys.store.clone(),
            Some(ids) => ids.iter().map(|&id| self.keys.store[id as usize]).collect(),
        };
        let values = self.types.iter().rev().map(|kind| match kind {
            DataType::Boolean => {
                let (values, nulls) = pop(&mut words, 1);
                let values = BooleanBuffer::collect_bool(values.len(), |at| values[at] != 0);
                Ok(Arc::new(BooleanArray::new(values, nulls)) as ArrayRef)
            }
            kind if TextKeys::supports(kind) => pop_texts(&mut words, kind),
            kind => {
                let (values, nulls) = pop(&mut words, 8 * kind.primitive_width().unwrap_or_default() as u32);
                stored_array(kind, &values, nulls)
            }
        });
        let mut values = values.collect::<Result<Vec<_>>>()?;
        values.reverse();
        Ok(values)
    }
}

impl Store for Vec<u128> {
    type Key<'a> = u128;

    fn len(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<u128>()
    }

    fn is(&self, id: u32, key: u128) -> bool {
        self[id as usize] == key
    }

    fn add(&mut self, key: u128) {
        self.push(key);
    }
}

/// The bits that each value of a type takes, without the bytes of text; none if it cannot be packed.
fn fixed_bits(data_type: &DataType) -> Option<u32> {
    use DataType::{Boolean, Decimal32, Decimal64};
    match data_type {
        Boolean => Some(2),
        kind if TextKeys::supports(kind) => Some(LENGTH_BITS),
        kind if kind.is_integer()
            || kind.is_floating()
            || kind.is_temporal()
            || matches!(kind, Decimal32(..) | Decimal64(..)) =>
        {
            let bits = 8 * kind.primitive_width()? as u32;
            (bits <= u64::BITS).then_some(bits + 1)
        }
        _ => None,
    }
}

/// Appends values of so many bits to the words of their rows, of which zeros stand for nulls.
fn push(words: &mut [u128], bits: u32, values: impl Iterator<Item = u64>, nulls: Option<&NullBuffer>) {
    let mask = u64::MAX >> (u64::BITS - bits);
    let pushed = |word: u128, value: u64| word << (bits + 1) | u128::from(value & mask) << 1 | 1;
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => words.iter_mut().zip(values).for_each(|(word, value)| *word = pushed(*word, value)),
        Some(nulls) => {
            for ((word, value), is_valid) in words.iter_mut().zip(values).zip(nulls) {
                *word = if is_valid { pushed(*word, value) } else { *word << (bits + 1) };
            }
        }
    }
}

/// Takes values of so many bits off the words, and which of them are valid.
fn pop(words: &mut [u128], bits: u32) -> (Vec<i64>, Option<NullBuffer>) {
    let valid = BooleanBuffer::collect_bool(words.len(), |row| words[row] & 1 == 1);
    let mask = u64::MAX >> (u64::BITS - bits);
    let taken = words.iter_mut().map(|word| {
        let value = (*word >> 1) as u64 & mask;
        *word >>= bits + 1;
        value as i64
    });
    (taken.collect(), Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0))
}

/// Appends texts to the words of their rows, unless one of them is too long: the answer says so. `taken` are the bits
/// of earlier texts, if there may be any.
fn push_texts<'a, A: ArrayAccessor>(
    texts: A,
    bytes: impl Fn(A::Item) -> &'a [u8],
    words: &mut [u128],
    taken: &mut [u32],
    room: u32,
) -> bool {
    let nulls = texts.nulls().filter(|nulls| nulls.null_count() > 0);
    for (row, word) in words.iter_mut().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            *word = *word << LENGTH_BITS | NULL_LENGTH;
            continue;
        }
        let text = bytes(texts.value(row));
        let before = taken.get(row).copied().unwrap_or_default();
        if text.len() > (room.saturating_sub(before) / 8) as usize {
            return false;
        }
        let bits = 8 * text.len() as u32;
        *word = (*word << bits | number_of(text)) << LENGTH_BITS | text.len() as u128;
        if let Some(taken) = taken.get_mut(row) {
            *taken += bits;
        }
    }
    true
}

/// Takes texts off the words.
fn pop_texts(words: &mut [u128], data_type: &DataType) -> Result<ArrayRef> {
    let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
    let mut nulls = Vec::with_capacity(words.len());
    for word in words {
        let length = *word & NULL_LENGTH;
        *word >>= LENGTH_BITS;
        nulls.push(length != NULL_LENGTH);
        if length != NULL_LENGTH {
            bytes.extend_from_slice(&word.to_le_bytes()[..length as usize]);
            *word >>= 8 * length as u32;
        }
        offsets.push(bytes.len() as i64);
    }
    let nulls = Some(NullBuffer::from(nulls)).filter(|nulls| nulls.null_count() > 0);
    text_array(data_type, &bytes, offsets, nulls)
}

/// At most 15 bytes as a number, the first of them lowest.
#[inline]
fn number_of(bytes: &[u8]) -> u128 {
    /// `N` bytes from `at` on.
    fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().unwrap_or([0; N])
    }
    // Two parts that overlap are read sooner than any number of bytes is copied.
    match bytes.len() {
        8.. => {
            let last = bytes.len() - 8;
            let high = u128::from(u64::from_le_bytes(part(bytes, last)));
            u128::from(u64::from_le_bytes(part(bytes, 0))) | high << (8 * last)
        }
        4.. => {
            let last = bytes.len() - 4;
            let high = u64::from(u32::from_le_bytes(part(bytes, last)));
            u128::from(u64::from(u32::from_le_bytes(part(bytes, 0))) | high << (8 * last))
        }
        _ => bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Date32Array, Float64Array, Int16Array, Int64Array, StringArray, UInt8Array};
    use arrow_cast::cast;
    use proptest::prelude::*;

    use super::super::KeyIndex;
    use super::*;

    /// What a column has in a row: text, or the number of one.
    type Cell = Option<(i64, String)>;

    fn column(kind: usize, cells: &[Cell]) -> ArrayRef {
        let numbers = || cells.iter().map(|cell| cell.as_ref().map(|&(number, _)| number));
        let texts = cells.iter().map(|cell| cell.as_ref().map(|(_, text)| text)).collect::<StringArray>();
        match kind {
            0 => Arc::new(
                numbers()
                    .map(|n| n.map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)))
                    .collect::<Int64Array>(),
            ),
            1 => Arc::new(numbers().map(|n| n.map(|n| n as i16 - 3)).collect::<Int16Array>()),
            2 => Arc::new(numbers().map(|n| n.map(|n| n as u8 * 50)).collect::<UInt8Array>()),
            3 => Arc::new(numbers().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
            4 => Arc::new(numbers().map(|n| n.map(|n| n as f64 / 3.0)).collect::<Float64Array>()),
            5 => Arc::new(numbers().map(|n| n.map(|n| -n as i32)).collect::<Date32Array>()),
            6 => Arc::new(texts),
            7 => cast(&texts, &DataType::Utf8View).unwrap(),
            _ => cast(&texts, &DataType::LargeBinary).unwrap(),
        }
    }

    /// The rows of columns, as they are to be compared.
    fn rows(columns: &[ArrayRef]) -> Vec<String> {
        let one = |row: usize| {
            format!("{:?}", columns.iter().map(|column| column.slice(row, 1)).collect::<Vec<_>>())
        };
        (0..columns[0].len()).map(one).collect()
    }

    proptest! {
        /// Whether they are packed, are rows, or become such on the way: ids are in the order of first appearance.
        #[test]
        fn keys_of_several_columns_are_numbered_as_they_come(
            kinds in prop::collection::vec(0usize..9, 1..5),
            parts in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(prop::option::of((0i64..5, "[ab]{0,3}")), 5), 0..40), 1..5),
            is_long in prop::option::of(any::<prop::sample::Index>()),
            closing in 1usize..5,
            picked in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let long = is_long.map(|at| at.index(parts.len()));
            let parts: Vec<Vec<ArrayRef>> = parts.iter().enumerate().map(|(number, part)| {
                let of = |(at, &kind): (usize, &usize)| {
                    let cells = part.iter().map(|row| row[at].clone().map(|(n, text)| {
                        (n, if long == Some(number) && n == 4 { text.repeat(4) + "0123456" } else { text })
                    }));
                    column(kind, &cells.collect::<Vec<_>>())
                };
                kinds.iter().enumerate().map(of).collect()
            }).collect();
            let types: Vec<DataType> = parts[0].iter().map(|column| column.data_type().clone()).collect();
            let mut index = KeyIndex::new(types.clone()).unwrap();
            let mut known: Vec<String> = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                if number == closing {
                    index.close();
                }
                let mut ids = Vec::new();
                index.assign(part, part[0].len(), &mut ids).unwrap();
                for (row, id) in rows(part).into_iter().zip(ids) {
                    let at = known.iter().position(|own| *own == row);
                    if at.is_none() && number < closing {
                        known.push(row);
                        prop_assert_eq!(id as usize, known.len() - 1);
                    } else {
                        prop_assert_eq!(id, at.map_or(super::super::NONE, |at| at as u32));
                    }
                }
            }
            let values = index.values().unwrap();
            prop_assert_eq!(rows(&values), known.clone());
            // Fewer than there are, and more.
            let picked: Vec<u32> =
                picked.iter().filter(|_| !known.is_empty()).map(|at| at.index(known.len()) as u32).collect();
            if !picked.is_empty() {
                let of_picked = picked.iter().map(|&id| known[id as usize].clone()).collect::<Vec<_>>();
                prop_assert_eq!(rows(&index.values_of(&picked).unwrap()), of_picked);
            }
            // Another index has the same keys afterwards, whether it is packed or not.
            let mut other = KeyIndex::new(types).unwrap();
            other.assign(&parts[0], parts[0][0].len(), &mut Vec::new()).unwrap();
            let ids = other.absorb(&index).unwrap();
            let taken = rows(&other.values().unwrap());
            prop_assert!(ids.iter().zip(&known).all(|(&id, row)| taken[id as usize] == *row));
        }
    }

    #[test]
    fn floats_are_equal_as_in_sql_beside_others() {
        let floats =
            Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, None]);
        let columns: Vec<ArrayRef> = vec![Arc::new(floats), Arc::new(Int16Array::from(vec![1; 6]))];
        let mut index =
            KeyIndex::new(columns.iter().map(|column| column.data_type().clone()).collect()).unwrap();
        let mut ids = Vec::new();
        index.assign(&columns, 6, &mut ids).unwrap();
        assert_eq!(ids, [0, 0, 1, 1, 2, 2]);
    }
}
