//! Keys that are complete further than the stream as a whole: group-wise punctuation (Li 2008, §2.1 and ch. 4).
//!
//! A key has a watermark of its own while that is ahead of the common one. Whatever depends on how far a stream is complete
//! depends on the key's then: which of its windows are final, and which of its rows are late. Once the common watermark gets
//! there, nothing is known of the key that is not known of all.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, cast::AsArray, new_empty_array};
use arrow_schema::{Field, Schema};

use crate::Result;
use crate::dictionary::plain;
use crate::keys::KeyIndex;
use crate::state::{Reader, Writer, broken};
use crate::window::Measure;

/// The mark of a key that is not ahead.
const NONE: i64 = i64::MIN;

/// Up to when keys are complete that are ahead of the stream, by their numbers.
#[derive(Debug, Default, Clone)]
pub(in crate::operator) struct Ahead {
    /// By number of the key, if any is ahead; those beyond its end are not.
    marks: Vec<i64>,
    count: usize,
    /// No mark is later.
    most: i64,
}

impl Ahead {
    /// The mark of a key, if it is ahead.
    #[inline]
    pub(in crate::operator) fn of(&self, key: u32) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        self.marks.get(key as usize).copied().filter(|&mark| mark != NONE)
    }

    /// The watermark of a key: its mark if it is ahead, and otherwise that of the stream.
    #[inline]
    pub(in crate::operator) fn watermark_of(&self, watermark: Option<i64>, key: u32) -> Option<i64> {
        watermark.max(self.of(key))
    }

    /// Whether no key is ahead.
    pub(in crate::operator) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many keys are ahead.
    pub(in crate::operator) fn len(&self) -> usize {
        self.count
    }

    /// Whether some of the rows whose earliest time is `least` may be before the mark of their key.
    pub(in crate::operator) fn some_may_be_late(&self, least: i64) -> bool {
        self.count > 0 && least < self.most
    }

    /// The latest mark, if a key is ahead.
    pub(in crate::operator) fn most(&self) -> Option<i64> {
        self.each().map(|(_, mark)| mark).max()
    }

    /// The keys that are ahead, ascending, and their marks.
    pub(in crate::operator) fn each(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        let known = if self.count == 0 { &[] } else { &self.marks[..] };
        (0..).zip(known).filter(|&(_, &mark)| mark != NONE).map(|(key, &mark)| (key, mark))
    }

    /// Makes room for the mark of a key, so that [`Ahead::set`] cannot fail.
    pub(in crate::operator) fn make_room(&mut self, key: u32) {
        if self.marks.len() <= key as usize {
            self.marks.resize(key as usize + 1, NONE);
        }
    }

    /// Records up to when a key is complete.
    pub(in crate::operator) fn set(&mut self, key: u32, mark: i64) {
        self.make_room(key);
        let known = &mut self.marks[key as usize];
        self.most = if self.count == 0 { mark } else { self.most.max(mark) };
        self.count = self.count + usize::from(mark != NONE) - usize::from(*known != NONE);
        *known = mark;
    }

    /// Drops the marks that the stream has reached.
    pub(in crate::operator) fn pass(&mut self, watermark: i64) {
        if self.count == 0 {
            return;
        }
        for mark in &mut self.marks {
            if *mark != NONE && *mark <= watermark {
                *mark = NONE;
                self.count -= 1;
            }
        }
        if self.count == 0 {
            *self = Self::default();
        }
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(in crate::operator) fn keep_keys(&mut self, kept: &[u32]) {
        if self.count > 0 {
            self.marks = kept.iter().map(|&key| self.of(key).unwrap_or(NONE)).collect();
            self.count = self.marks.iter().filter(|&&mark| mark != NONE).count();
        }
    }

    /// Bytes held.
    pub(in crate::operator) fn bytes(&self) -> usize {
        self.marks.capacity() * size_of::<i64>()
    }

    /// Writes the keys that are ahead, and their marks.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(in crate::operator) fn save(&self, to: &mut Writer) -> Result<()> {
        let (numbers, marks): (Vec<u32>, Vec<i64>) = self.each().unzip();
        let count = marks.len();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(UInt32Array::from(numbers)), Arc::new(Int64Array::from(marks))];
        to.columns(columns, count)
    }

    /// Reads what [`Ahead::save`] wrote, of a stream of so many keys that has come to this watermark.
    ///
    /// # Errors
    /// `InvalidValue` if it has other columns, or a mark is of no key or not ahead of the watermark.
    pub(in crate::operator) fn load(
        from: &mut Reader<'_>,
        keys: usize,
        watermark: Option<i64>,
    ) -> Result<Self> {
        let (marked, count) = from.columns()?;
        let [numbers, marks] = &marked[..] else { return broken() };
        let (Some(numbers), Some(marks)) =
            (numbers.as_primitive_opt::<UInt32Type>(), marks.as_primitive_opt::<Int64Type>())
        else {
            return broken();
        };
        let is_sound = numbers.null_count() + marks.null_count() == 0
            && numbers.values().is_sorted_by(|a, b| a < b)
            && numbers.values().last().is_none_or(|&last| (last as usize) < keys)
            && marks.values().iter().all(|&mark| Some(mark) > watermark);
        if !is_sound {
            return broken();
        }
        let mut ahead = Self::default();
        (0..count).for_each(|at| ahead.set(numbers.value(at), marks.value(at)));
        Ok(ahead)
    }

    /// The keys that are ahead, in columns of these fields, and up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(in crate::operator) fn table<'a>(
        &self,
        index: &KeyIndex,
        keys: impl Iterator<Item = &'a Field>,
        measure: &Measure,
    ) -> Result<RecordBatch> {
        let (numbers, marks): (Vec<u32>, Vec<i64>) = self.each().unzip();
        let mut fields: Vec<Field> = keys.map(|field| field.clone().with_nullable(true)).collect();
        let mut columns: Vec<ArrayRef> = match marks.is_empty() {
            true => fields.iter().map(|field| new_empty_array(plain(field.data_type()))).collect(),
            false => index.plain_values_of(&numbers)?,
        };
        for (field, column) in fields.iter_mut().zip(&columns) {
            field.set_data_type(column.data_type().clone());
        }
        fields.push(Field::new("watermark", measure.data_type(), false));
        columns.push(measure.array(marks)?);
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_dropped_once_the_stream_is_there() {
        let mut ahead = Ahead::default();
        assert_eq!((ahead.of(3), ahead.most(), ahead.bytes()), (None, None, 0));
        ahead.set(3, 10);
        ahead.set(1, 7);
        ahead.set(3, 12);
        assert_eq!((ahead.of(3), ahead.of(0), ahead.of(9), ahead.len()), (Some(12), None, None, 2));
        assert!(ahead.some_may_be_late(11) && !ahead.some_may_be_late(12));
        ahead.keep_keys(&[0, 3]);
        assert_eq!(ahead.each().collect::<Vec<_>>(), [(1, 12)]);
        // Key 1 was dropped, and is not counted any more.
        assert_eq!(ahead.len(), 1);
        ahead.pass(11);
        assert_eq!(ahead.most(), Some(12));
        ahead.pass(12);
        assert!(ahead.is_empty() && ahead.bytes() == 0);
    }
}
