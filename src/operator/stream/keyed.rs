//! The keys of a stream: their numbers and their columns.

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};

use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::memory::attempted;
use crate::operator::plan::Plan;
use crate::select::take;
use crate::state::{Reader, Writer, broken};

/// The keys that the stream has seen, except those that were forgotten.
pub(in crate::operator) struct Keyed {
    index: KeyIndex,
    /// The keys as columns, as of the last time they were read.
    columns: Option<(usize, Vec<ArrayRef>)>,
}

impl Keyed {
    /// No keys yet, of the columns that a plan groups by.
    pub(in crate::operator) fn new(plan: &Plan) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        Ok(Self { index: KeyIndex::new(types.collect())?, columns: None })
    }

    /// Number of keys.
    pub(in crate::operator) fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes held.
    pub(in crate::operator) fn bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Appends the number of each row's key.
    pub(in crate::operator) fn assign(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        self.index.assign_all(columns, rows, ids, check)
    }

    /// The keys as columns, in the order of their numbers.
    pub(in crate::operator) fn columns(&mut self) -> Result<Vec<ArrayRef>> {
        let len = self.index.len();
        if let Some((known, columns)) = &self.columns
            && *known == len
        {
            return Ok(columns.clone());
        }
        let columns = self.index.values()?;
        self.columns = Some((len, columns.clone()));
        Ok(columns)
    }

    /// The same, but not as dictionaries.
    pub(in crate::operator) fn plain_columns(&self) -> Result<Vec<ArrayRef>> {
        self.index.plain_values()
    }

    /// The same keys, with the same numbers.
    pub(in crate::operator) fn copied(&self) -> Result<Self> {
        let all: Vec<u32> = (0..self.index.len() as u32).collect();
        Ok(Self { index: self.index.only(&all)?, columns: None })
    }

    /// Forgets all keys but these, which ascend: the n-th of them becomes key n. Returns whether that was possible;
    /// otherwise, as without memory, nothing changes.
    pub(in crate::operator) fn keep(&mut self, kept: &[u32]) -> bool {
        // Keys that were assigned once can be assigned again.
        let only = attempted(|| self.index.only(kept));
        only.map(|index| *self = Self { index, columns: None }).is_ok()
    }

    /// Slices of keys as a batch: keys, `t_start`, `t_end`, `t_first` and `t_last`.
    pub(in crate::operator) fn slices(
        &self,
        plan: &Plan,
        keys: Vec<u32>,
        times: [Vec<i64>; 4],
    ) -> Result<RecordBatch> {
        let names = plan.by().iter().map(|&column| plan.input().field(column).name().clone());
        let keys = UInt32Array::from(keys);
        let columns = self.index.values()?.into_iter().map(|values| Ok(take(&values, &keys, None)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let mut columns: Vec<(String, ArrayRef)> = names.zip(columns).collect();
        for (name, times) in ["t_start", "t_end", "t_first", "t_last"].into_iter().zip(times) {
            columns.push((name.into(), plan.measure().array(times)?));
        }
        // Engines may have keys with nulls or without.
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )?)
    }

    /// Writes the keys, in the order of their numbers.
    pub(in crate::operator) fn save(&self, to: &mut Writer) -> Result<()> {
        to.columns(self.index.plain_values()?, self.index.len())
    }

    /// Reads what [`Keyed::save`] wrote; also returns the number of keys.
    ///
    /// # Errors
    /// `InvalidValue` if they have other columns, or some are equal.
    pub(in crate::operator) fn load(&mut self, from: &mut Reader<'_>) -> Result<usize> {
        let (columns, count) = from.columns()?;
        let own = self.index.values()?;
        let types = own.iter().map(|column| plain(column.data_type()));
        // Without columns, or with types that have a single value, there is one key.
        let held: usize = columns.iter().map(|column| column.get_array_memory_size()).sum();
        if !columns.iter().map(|column| column.data_type()).eq(types)
            || u32::try_from(count).is_err()
            || count > 1 + 8 * held
            || columns.is_empty() && count > 1
        {
            return broken();
        }
        let mut ids = Vec::new();
        self.index.assign(&columns, count, &mut ids)?;
        match columns.is_empty() || ids.iter().copied().eq(0..count as u32) {
            true => Ok(count),
            false => broken(),
        }
    }
}
