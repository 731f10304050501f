//! Open windows of which panes have come out, where a query discards: of such a window nothing may be left when it ends,
//! and its key's chains begin again nevertheless.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array, cast::AsArray, types::*};

use crate::Result;
use crate::operator::stream::ahead::Reach;
use crate::state::{Reader, Writer, broken};

/// Ends of windows of keys.
#[derive(Default)]
pub(super) struct Panes {
    ends: BTreeSet<(i64, u32)>,
    /// What the current call has added, and removed.
    added: Vec<(i64, u32)>,
    removed: Vec<(i64, u32)>,
}

impl Panes {
    /// Takes note of a window of a key that ends here, of which a pane comes out.
    pub(super) fn add(&mut self, end: i64, key: u32) {
        self.added.reserve(1);
        if self.ends.insert((end, key)) {
            self.added.push((end, key));
        }
    }

    /// The keys of which a window ends as the stream moves so. O(windows that end between the two watermarks).
    pub(super) fn pass(&mut self, reach: &Reach<'_>) -> Vec<u32> {
        let moved = reach.key_watermark.map(|(key, mark)| (Some(key), mark));
        let Some((key, mark)) = moved.or_else(|| reach.after.map(|after| (None, after))) else {
            return Vec::new();
        };
        let ended = self.ends.range(..=(mark, u32::MAX)).filter(|(_, own)| key.is_none_or(|key| key == *own));
        self.removed = ended.copied().collect();
        self.removed.iter().for_each(|one| {
            self.ends.remove(one);
        });
        self.removed.iter().map(|&(_, key)| key).collect()
    }

    /// Commits the current call.
    pub(super) fn keep(&mut self) {
        self.added.clear();
        self.removed.clear();
    }

    /// Rolls it back.
    pub(super) fn take_back(&mut self) {
        for one in self.added.drain(..) {
            self.ends.remove(&one);
        }
        self.ends.extend(self.removed.drain(..));
    }

    /// Forgets the windows of a key.
    pub(super) fn end_key(&mut self, key: u32) {
        self.ends.retain(|&(_, own)| own != key);
    }

    /// The keys that have such windows.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.ends.iter().map(|&(_, key)| key)
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        let number = |&(end, key): &(i64, u32)| kept.binary_search(&key).ok().map(|new| (end, new as u32));
        self.ends = self.ends.iter().filter_map(number).collect();
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        self.ends.len() * size_of::<(i64, u32)>()
    }

    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        let ends: ArrayRef = Arc::new(self.ends.iter().map(|&(end, _)| end).collect::<Int64Array>());
        let keys: ArrayRef = Arc::new(self.keys().collect::<UInt32Array>());
        to.columns(vec![ends, keys], self.ends.len())
    }

    pub(super) fn load(&mut self, from: &mut Reader<'_>, keys: usize) -> Result<()> {
        let (columns, _) = from.columns()?;
        let [ends, numbers] = columns.as_slice() else { return broken() };
        let (Some(ends), Some(numbers)) =
            (ends.as_primitive_opt::<Int64Type>(), numbers.as_primitive_opt::<UInt32Type>())
        else {
            return broken();
        };
        if numbers.values().iter().any(|&key| key as usize >= keys) {
            return broken();
        }
        self.ends = ends.values().iter().copied().zip(numbers.values().iter().copied()).collect();
        Ok(())
    }
}
