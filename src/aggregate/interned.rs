//! Strings and binaries of multisets as small codes: equal values have equal codes.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::order::{Codes, Keys, bytes_of, from_views, view_type, views};
use super::partials::Upkeep;
use crate::dictionary::{plain, widened};
use crate::{Error, Result};

/// Strings or binaries, numbered in order of arrival. Clones share them.
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
    /// The rank of each string, and the string of each rank, once they are needed.
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

impl Keys for Interned {
    type Key = u64;

    fn read(&mut self, values: &ArrayRef) -> Result<Vec<u64>> {
        let values = views(values)?;
        let texts = Arc::make_mut(&mut self.texts);
        if texts.ends.len() + values.len() > u32::MAX as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} distinct strings in one process; aggregate in parts, or in Spark",
                u32::MAX
            )));
        }
        let code = |row| if values.is_valid(row) { texts.intern(bytes_of(&values, row)) } else { 0 };
        Ok((0..values.len()).map(code).collect())
    }

    fn compare(&self, a: u64, b: u64) -> Ordering {
        self.texts.get(a as usize).cmp(self.texts.get(b as usize))
    }

    fn values(&self, codes: &[u64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let valid = |row| nulls.as_ref().is_none_or(|nulls: &NullBuffer| nulls.is_valid(row));
        let texts = codes.iter().enumerate();
        let texts = texts.map(|(row, &code)| valid(row).then(|| self.texts.get(code as usize)));
        let views: ArrayRef = match self.kind {
            DataType::Utf8View => {
                let string = |text| {
                    std::str::from_utf8(text).map_err(|_| {
                        Error::InvalidValue("values: a string is not valid UTF-8, as Arrow requires".into())
                    })
                };
                let strings = texts.map(|text| text.map(string).transpose());
                Arc::new(strings.collect::<Result<StringViewArray>>()?)
            }
            _ => Arc::new(texts.collect::<BinaryViewArray>()),
        };
        from_views(&views, &self.output)
    }

    fn adopt<'a>(&mut self, other: Self, codes: impl Iterator<Item = &'a mut u64>) {
        let texts = Arc::make_mut(&mut self.texts);
        let translated: Vec<u64> =
            (0..other.texts.ends.len()).map(|number| texts.intern(other.texts.get(number))).collect();
        codes.for_each(|code| *code = translated[*code as usize]);
    }

    fn keep_up<'a>(
        &mut self,
        what: Upkeep,
        _: usize,
        codes: impl Iterator<Item = &'a mut u64>,
    ) -> Result<()> {
        if what == Upkeep::Shrink {
            let mut texts = Texts::default();
            codes.for_each(|code| *code = texts.intern(self.texts.get(*code as usize)));
            self.texts = Arc::new(texts);
        }
        Ok(())
    }

    fn are_plain(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        let Texts { bytes, ends, numbers, .. } = &*self.texts;
        bytes.capacity() + ends.capacity() * size_of::<usize>() + numbers.allocation_size()
    }

    fn emptied(&self) -> Self {
        Self { texts: Arc::default(), ..self.clone() }
    }
}

impl Codes for Interned {
    const ORDERED: bool = false;

    #[inline]
    fn rank_key(&self, code: u64) -> u64 {
        self.texts.order().0[code as usize].into()
    }

    #[inline]
    fn of_key(&self, key: u64) -> u64 {
        self.texts.order().1[key as usize].into()
    }

    fn numbers(&self, _: &[u64]) -> Result<Vec<f64>> {
        Err(Error::Internal("strings are no numbers".into()))
    }

    fn output(&self) -> &DataType {
        &self.output
    }
}
