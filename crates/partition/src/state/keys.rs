//! Keys in snapshots: the distinct ones of an index, in the order of their ids.

use arrow_array::Array;
use windowkit_kernels::poll::Poll;

use super::{Reader, Writer, broken};
use crate::Result;
use crate::keys::KeyIndex;

impl Writer {
    /// Writes the keys of an index.
    ///
    /// # Errors
    /// Only those of Arrow.
    pub fn keys(&mut self, index: &KeyIndex) -> Result<()> {
        self.columns(index.plain_values()?, index.len())
    }
}

impl Reader<'_> {
    /// Reads the keys of an index into one of the same types that has none yet, where they get the ids that they had;
    /// `poll` is called before each of several parts of them.
    ///
    /// # Errors
    /// `InvalidValue` if they have other types, or some are equal; what `poll` returns.
    pub fn keys(&mut self, index: &mut KeyIndex, poll: Poll) -> Result<()> {
        let (columns, count) = self.columns()?;
        // A type that has a single value takes no memory, so that any number of rows could be claimed of it.
        let bytes: usize = columns.iter().map(|column| column.get_array_memory_size()).sum();
        let can_be_distinct = u32::try_from(count).is_ok() && count <= 1 + 8 * bytes;
        if !can_be_distinct || !columns.iter().map(|column| column.data_type()).eq(index.plain_types()) {
            return broken();
        }
        let mut ids = Vec::with_capacity(count);
        index.assign_all(&columns, count, &mut ids, poll)?;
        if ids.iter().copied().eq(0..count as u32) { Ok(()) } else { broken() }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int32Array, StringArray, new_null_array};
    use arrow_schema::DataType;

    use super::*;

    fn read(columns: Vec<ArrayRef>, rows: usize, types: &[DataType]) -> Result<KeyIndex> {
        let mut writer = Writer::default();
        writer.columns(columns, rows).unwrap();
        let snapshot = writer.finish();
        let mut index = KeyIndex::new(types.to_vec()).unwrap();
        Reader::new(&snapshot).unwrap().keys(&mut index, || Ok(()))?;
        Ok(index)
    }

    #[test]
    fn distinct_keys_come_back_with_their_ids() {
        let texts: ArrayRef = std::sync::Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]));
        let codes = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
        for kind in [DataType::Utf8, codes] {
            let index = read(vec![texts.clone()], 3, &[kind]).unwrap();
            assert_eq!(index.plain_values().unwrap(), std::slice::from_ref(&texts));
        }
        assert_eq!(read(vec![], 1, &[]).unwrap().len(), 1);
        assert_eq!(read(vec![], 0, &[]).unwrap().len(), 0);
    }

    #[test]
    fn keys_that_no_index_holds_are_refused() {
        let numbers: ArrayRef = std::sync::Arc::new(Int32Array::from(vec![1, 2, 1]));
        let refused = |columns: Vec<ArrayRef>, rows, types: &[DataType]| {
            read(columns, rows, types).is_err_and(|error| error.to_string().contains("damaged"))
        };
        assert!(refused(vec![numbers.clone()], 3, &[DataType::Int32]));
        assert!(refused(vec![numbers.slice(0, 2)], 2, &[DataType::Int64]));
        assert!(refused(vec![], 2, &[]));
        for rows in [2, 1 << 20, 1 << 31, 1 << 40] {
            assert!(refused(vec![new_null_array(&DataType::Null, rows)], rows, &[DataType::Null]));
        }
    }
}
