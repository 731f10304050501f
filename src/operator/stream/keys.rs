//! The keys of a stream: numbered once, when their rows are accepted. All that is held of a key is held by its number: by
//! engines, by emission policies, and in the marks of keys that are ahead.
//!
//! A call that fails may leave numbers of keys that nothing is held of. They are forgotten as those whose state has expired
//! are: together, for all holders of numbers, once they are many (`Operator::forget_keys`).

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;

use super::intake::Accepted;
use super::key_numbers::{KeyNumbers, NO_KEY};
use crate::Result;
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::memory::attempted;
use crate::operator::plan::Plan;
use crate::operator::progress::Ahead;
use crate::select::filter;
use crate::state::{Reader, Writer};

/// The keys that a stream has seen, except those that were forgotten.
pub(super) struct StreamKeys {
    index: KeyIndex,
    /// Positions of their columns in rows.
    by: Vec<usize>,
    /// Which of them are complete further than the stream, and up to when.
    pub(super) ahead: Ahead,
}

impl StreamKeys {
    /// No keys yet, of the columns that a plan groups by.
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        let index = KeyIndex::new(types.collect())?;
        Ok(Self { index, by: plan.by().to_vec(), ahead: Ahead::default() })
    }

    /// How many keys have a number.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.ahead.bytes()
    }

    /// The keys of rows. Rows before `cutoff`, which nothing accepts, get none.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn number(&mut self, rows: &Accepted, cutoff: Option<i64>) -> Result<KeyNumbers> {
        let count = rows.times.len();
        let late_before = cutoff.filter(|&cutoff| rows.least < cutoff);
        if self.by.is_empty() {
            let mut one = Vec::with_capacity(1);
            self.assign(&[], count.min(1), &mut one)?;
            return Ok(KeyNumbers::One(one.first().copied().unwrap_or(NO_KEY)));
        }
        let columns: Vec<ArrayRef> = self.by.iter().map(|&column| rows.rows.column(column).clone()).collect();
        let Some(cutoff) = late_before else {
            let mut each = Vec::with_capacity(count);
            self.assign(&columns, count, &mut each)?;
            return Ok(KeyNumbers::Each(each.into()));
        };
        let taken = BooleanBuffer::collect_bool(count, |row| rows.times[row] >= cutoff);
        let columns = columns.iter().map(|column| Ok(filter(column, &taken.clone().into())?));
        let (columns, mut own) = (columns.collect::<Result<Vec<ArrayRef>>>()?, Vec::new());
        self.assign(&columns, taken.count_set_bits(), &mut own)?;
        let mut each = vec![NO_KEY; count];
        taken.set_indices().zip(own).for_each(|(row, key)| each[row] = key);
        Ok(KeyNumbers::Each(each.into()))
    }

    /// The key given by columns of one row.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn number_one(&mut self, key: &[ArrayRef]) -> Result<u32> {
        let mut one = Vec::with_capacity(1);
        self.assign(key, 1, &mut one)?;
        Ok(one[0])
    }

    fn assign(&mut self, columns: &[ArrayRef], rows: usize, numbers: &mut Vec<u32>) -> Result<()> {
        self.index.assign_all(columns, rows, numbers, check)
    }

    /// The keys of these numbers as columns.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn columns_of(&self, keys: &[u32]) -> Result<Vec<ArrayRef>> {
        self.index.values_of(keys)
    }

    /// The keys as columns that are no dictionaries.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn plain_columns(&self) -> Result<Vec<ArrayRef>> {
        self.index.plain_values()
    }

    /// Rows before the marks of their keys, each with its mark, ascending by place; none while no key is ahead.
    pub(super) fn behind(&self, rows: &Accepted) -> Vec<(usize, i64)> {
        if !self.ahead.some_may_be_late(rows.least) {
            return Vec::new();
        }
        let mark = |row: usize| self.ahead.of(rows.keys.of(row)).filter(|&mark| rows.times[row] < mark);
        (0..rows.times.len()).filter_map(|row| mark(row).map(|mark| (row, mark))).collect()
    }

    /// The keys that are ahead of the stream, and in the last column up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn ahead_as_table(&self, plan: &Plan) -> Result<RecordBatch> {
        let keys = plan.by().iter().map(|&column| plan.input().field(column));
        self.ahead.table(&self.index, keys, plan.measure())
    }

    /// Forgets all keys but these, which ascend: the n-th of them becomes key n. Returns whether that was possible;
    /// otherwise, as without memory, nothing changes.
    pub(super) fn keep(&mut self, kept: &[u32]) -> bool {
        // Keys that were assigned once can be assigned again.
        let only = attempted(|| self.index.only(kept));
        only.map(|index| {
            self.index = index;
            self.ahead.keep_keys(kept);
        })
        .is_ok()
    }

    /// Forgets all keys, as the stream has ended.
    pub(super) fn forget_all(&mut self) {
        self.ahead = Ahead::default();
        self.keep(&[]);
    }

    /// Slices of keys as a batch: keys, `t_start`, `t_end`, `t_first` and `t_last`.
    pub(super) fn slices(&self, plan: &Plan, keys: Vec<u32>, times: [Vec<i64>; 4]) -> Result<RecordBatch> {
        let names = plan.by().iter().map(|&column| plan.input().field(column).name().clone());
        let mut columns: Vec<(String, ArrayRef)> = names.zip(self.columns_of(&keys)?).collect();
        for (name, times) in ["t_start", "t_end", "t_first", "t_last"].into_iter().zip(times) {
            columns.push((name.into(), plan.measure().array(times)?));
        }
        // Engines may have keys with nulls or without.
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )?)
    }

    /// Writes the keys, in the order of their numbers, and the marks of those that are ahead.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        to.keys(&self.index)?;
        self.ahead.save(to)
    }

    /// Reads what [`StreamKeys::save`] wrote; the stream has come to this watermark.
    ///
    /// # Errors
    /// `InvalidValue` if they have other columns, some are equal, or a mark is not ahead of the watermark.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, watermark: Option<i64>) -> Result<()> {
        from.keys(&mut self.index, check)?;
        let known = if self.by.is_empty() { 0 } else { self.len() };
        self.ahead = Ahead::load(from, known, watermark)?;
        Ok(())
    }
}
