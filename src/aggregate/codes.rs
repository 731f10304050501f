//! Values of multisets as small codes: equal values have equal codes.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::order::{Keys, Wides, Words, bytes_of, from_views, integer, view_type, views};
use crate::dictionary::{plain, widened};
use crate::{Error, Result};

/// Codes of the values of one column.
pub trait Codes: Clone + Send + Sync + 'static {
    /// A value's code.
    type Code: Copy + Default + Ord + Send + Sync + 'static;

    /// Whether codes themselves compare as the values do.
    const ORDERED: bool;

    /// Codes of values; those of nulls mean nothing.
    fn read(&mut self, values: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Vec<Self::Code>>;

    /// A number that compares with others as the values do.
    fn rank_key(&self, code: Self::Code) -> Self::Code;

    /// The code of which this is the [`Codes::rank_key`].
    fn of_key(&self, key: Self::Code) -> Self::Code;

    /// The values, in the type of results.
    fn values(&self, codes: &[Self::Code]) -> Result<ArrayRef>;

    /// The numbers that codes stand for; `InvalidType` for values that are none.
    fn numbers(&self, codes: &[Self::Code]) -> Result<Vec<f64>>;

    /// The integers that codes of temporal values stand for; `InvalidType` for other values.
    fn integers(&self, codes: &[Self::Code]) -> Result<Vec<i64>>;

    /// Makes codes of `other` codes of `self`.
    fn adopt(&mut self, other: &Self, codes: &mut [Self::Code]);

    /// Forgets values that none of these codes stands for, and numbers the others anew.
    fn squeeze(&mut self, codes: &mut [Self::Code]) {
        let _ = codes;
    }

    /// Bytes of what codes refer to.
    fn bytes(&self) -> usize {
        0
    }

    /// No values yet.
    fn emptied(&self) -> Self;

    /// The type of results that are values.
    fn output(&self) -> &DataType;
}

impl Codes for Words {
    type Code = u64;
    const ORDERED: bool = true;

    fn read(&mut self, values: &ArrayRef, _: Option<&NullBuffer>) -> Result<Vec<u64>> {
        Keys::read(self, values)
    }

    #[inline]
    fn rank_key(&self, code: u64) -> u64 {
        code
    }

    #[inline]
    fn of_key(&self, key: u64) -> u64 {
        key
    }

    fn values(&self, codes: &[u64]) -> Result<ArrayRef> {
        Keys::values(self, codes, None)
    }

    fn numbers(&self, codes: &[u64]) -> Result<Vec<f64>> {
        Ok(self.numbers(codes))
    }

    fn integers(&self, codes: &[u64]) -> Result<Vec<i64>> {
        Ok(codes.iter().map(|&code| integer(code)).collect())
    }

    fn adopt(&mut self, _: &Self, _: &mut [u64]) {}

    fn emptied(&self) -> Self {
        self.clone()
    }

    fn output(&self) -> &DataType {
        self.output()
    }
}

impl Codes for Wides {
    type Code = i128;
    const ORDERED: bool = true;

    fn read(&mut self, values: &ArrayRef, _: Option<&NullBuffer>) -> Result<Vec<i128>> {
        Keys::read(self, values)
    }

    #[inline]
    fn rank_key(&self, code: i128) -> i128 {
        code
    }

    #[inline]
    fn of_key(&self, key: i128) -> i128 {
        key
    }

    fn values(&self, codes: &[i128]) -> Result<ArrayRef> {
        Keys::values(self, codes, None)
    }

    fn numbers(&self, codes: &[i128]) -> Result<Vec<f64>> {
        self.numbers(codes)
    }

    fn integers(&self, _: &[i128]) -> Result<Vec<i64>> {
        Err(Error::Internal("decimals are not temporal".into()))
    }

    fn adopt(&mut self, _: &Self, _: &mut [i128]) {}

    fn emptied(&self) -> Self {
        self.clone()
    }

    fn output(&self) -> &DataType {
        self.output()
    }
}

/// Strings or binaries, numbered as they came. Clones share them.
#[derive(Clone)]
pub struct Interned {
    kind: DataType,
    output: DataType,
    texts: Arc<Texts>,
}

/// Distinct byte strings, one after the other.
#[derive(Clone, Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: FixedState,
    /// The rank of each text, and the text of each rank, once it is asked for.
    order: OnceLock<(Vec<u32>, Vec<u32>)>,
}

impl Texts {
    fn get(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    fn intern(&mut self, text: &[u8]) -> u64 {
        let hash = self.hasher.hash_one(text);
        let known = |&number: &u32| {
            let number = number as usize;
            let start = if number == 0 { 0 } else { self.ends[number - 1] };
            &self.bytes[start..self.ends[number]] == text
        };
        if let Some(&number) = self.numbers.find(hash, known) {
            return number.into();
        }
        self.order = OnceLock::new();
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        let Self { bytes, ends, numbers, hasher, .. } = self;
        numbers.insert_unique(hash, number, |&number| {
            let number = number as usize;
            let start = if number == 0 { 0 } else { ends[number - 1] };
            hasher.hash_one(&bytes[start..ends[number]])
        });
        number.into()
    }

    fn order(&self) -> &(Vec<u32>, Vec<u32>) {
        self.order.get_or_init(|| {
            let mut by_rank: Vec<u32> = (0..self.ends.len() as u32).collect();
            by_rank.sort_unstable_by(|&a, &b| self.get(a as usize).cmp(self.get(b as usize)));
            let mut ranks = vec![0; by_rank.len()];
            for (rank, &number) in by_rank.iter().enumerate() {
                ranks[number as usize] = rank as u32;
            }
            (ranks, by_rank)
        })
    }
}

impl Interned {
    pub(super) fn new(input: &DataType) -> Self {
        Self { kind: view_type(plain(input)), output: widened(input), texts: Arc::default() }
    }
}

impl Codes for Interned {
    type Code = u64;
    const ORDERED: bool = false;

    fn read(&mut self, values: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Vec<u64>> {
        let values = views(values)?;
        let texts = Arc::make_mut(&mut self.texts);
        if texts.ends.len() + values.len() > u32::MAX as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} distinct texts in one process; aggregate in parts, or in Spark",
                u32::MAX
            )));
        }
        let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let code = |row| if valid(row) { texts.intern(bytes_of(&values, row)) } else { 0 };
        Ok((0..values.len()).map(code).collect())
    }

    #[inline]
    fn rank_key(&self, code: u64) -> u64 {
        self.texts.order().0[code as usize].into()
    }

    #[inline]
    fn of_key(&self, key: u64) -> u64 {
        self.texts.order().1[key as usize].into()
    }

    fn values(&self, codes: &[u64]) -> Result<ArrayRef> {
        let texts = codes.iter().map(|&code| self.texts.get(code as usize));
        let views: ArrayRef = match self.kind {
            DataType::Utf8View => {
                let strings = texts.map(|text| {
                    std::str::from_utf8(text).map_err(|_| Error::Internal("a string is not UTF-8".into()))
                });
                let strings = strings.collect::<Result<Vec<&str>>>()?;
                Arc::new(StringViewArray::from_iter_values(strings))
            }
            _ => Arc::new(BinaryViewArray::from_iter_values(texts)),
        };
        from_views(&views, &self.output)
    }

    fn numbers(&self, _: &[u64]) -> Result<Vec<f64>> {
        Err(Error::Internal("texts are no numbers".into()))
    }

    fn integers(&self, _: &[u64]) -> Result<Vec<i64>> {
        Err(Error::Internal("texts are no integers".into()))
    }

    fn adopt(&mut self, other: &Self, codes: &mut [u64]) {
        let texts = Arc::make_mut(&mut self.texts);
        let translated: Vec<u64> =
            (0..other.texts.ends.len()).map(|number| texts.intern(other.texts.get(number))).collect();
        codes.iter_mut().for_each(|code| *code = translated[*code as usize]);
    }

    fn squeeze(&mut self, codes: &mut [u64]) {
        let mut texts = Texts::default();
        for code in codes {
            *code = texts.intern(self.texts.get(*code as usize));
        }
        self.texts = Arc::new(texts);
    }

    fn bytes(&self) -> usize {
        let Texts { bytes, ends, numbers, .. } = &*self.texts;
        bytes.capacity() + ends.capacity() * size_of::<usize>() + numbers.allocation_size()
    }

    fn emptied(&self) -> Self {
        Self { texts: Arc::default(), ..self.clone() }
    }

    fn output(&self) -> &DataType {
        &self.output
    }
}
