//! Few names, repeated down a column.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use crate::{Error, Result};

/// Names up to this length are copied as one block of this length, including what follows: a store instead of a loop.
const SHORT: usize = 16;

/// Names by number.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// Where each begins, and its length.
    places: Vec<(u32, u32)>,
    /// All names, followed by one block.
    bytes: Vec<u8>,
}

impl Names {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let (mut places, mut bytes) = (Vec::new(), Vec::new());
        for name in names {
            places.push((bytes.len() as u32, name.len() as u32));
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.resize(bytes.len() + SHORT, 0);
        Self { places, bytes }
    }

    /// A column of these names.
    ///
    /// # Errors
    /// `InvalidValue` for longer names than a column of strings can hold.
    pub(super) fn column(&self, which: &[u32]) -> Result<ArrayRef> {
        let len: usize = which.iter().map(|&name| self.places[name as usize].1 as usize).sum();
        if i32::try_from(len).is_err() {
            return Err(Error::InvalidValue(format!(
                "watermark: the names of the {} windows that become final at once take {len} bytes; a column \
                 holds at most {}, so advance in smaller steps",
                which.len(),
                i32::MAX
            )));
        }
        // Early results have one label.
        if let Some((&only, rest)) = which.split_first()
            && rest.iter().all(|&name| name == only)
        {
            let (from, len) = self.places[only as usize];
            let bytes = self.bytes[from as usize..(from + len) as usize].repeat(which.len());
            let offsets = OffsetBuffer::from_repeated_length(len as usize, which.len());
            return Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?));
        }
        let mut bytes = vec![0; len + SHORT];
        let mut offsets = Vec::with_capacity(which.len() + 1);
        let mut at = 0;
        offsets.push(0);
        for &name in which {
            let (from, len) = self.places[name as usize];
            let (from, len) = (from as usize, len as usize);
            if len <= SHORT {
                bytes[at..at + SHORT].copy_from_slice(&self.bytes[from..from + SHORT]);
            } else {
                bytes[at..at + len].copy_from_slice(&self.bytes[from..from + len]);
            }
            at += len;
            offsets.push(at as i32);
        }
        bytes.truncate(len);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_are_repeated_as_they_are(
            names in prop::collection::vec("\\PC{0,24}", 1..9),
            which in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
            is_one in any::<bool>(),
        ) {
            let mut which: Vec<u32> = which.iter().map(|at| at.index(names.len()) as u32).collect();
            if is_one {
                which.iter_mut().for_each(|name| *name = 0);
            }
            let column = Names::new(names.iter().map(String::as_str)).column(&which).unwrap();
            let want: Vec<&str> = which.iter().map(|&at| names[at as usize].as_str()).collect();
            prop_assert_eq!(column.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), want);
        }
    }
}
