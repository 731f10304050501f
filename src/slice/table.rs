//! The table of slices: one slot per slice, a column per property.

use arrow_array::ArrayRef;

use crate::aggregate::{Input, Partials, Rows};
use crate::poll::Poll;
use crate::{Error, Result};

/// Slices as columns: key, start (with sessions: first time), last time (with sessions), and partials.
pub struct SliceTable {
    keys: Vec<u32>,
    starts: Vec<i64>,
    /// Last times; kept only where sessions need them.
    lasts: Option<Vec<i64>>,
    partials: Vec<Box<dyn Partials>>,
}

impl SliceTable {
    /// An empty table with these (empty) partials.
    pub fn new(partials: Vec<Box<dyn Partials>>, sessions: bool) -> Self {
        Self { keys: Vec::new(), starts: Vec::new(), lasts: sessions.then(Vec::new), partials }
    }

    /// Slots with these keys, starts, last times and partials.
    pub(crate) fn from_parts(
        keys: Vec<u32>,
        starts: Vec<i64>,
        lasts: Option<Vec<i64>>,
        partials: Vec<Box<dyn Partials>>,
    ) -> Self {
        Self { keys, starts, lasts, partials }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let times = self.starts.capacity() + self.lasts.as_ref().map_or(0, Vec::capacity);
        let partials: usize = self.partials.iter().map(|partials| partials.bytes()).sum();
        self.keys.capacity() * size_of::<u32>() + times * size_of::<i64>() + partials
    }

    /// Key of each slot.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// Start of each slot's slice; with sessions, the slot's first time.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// Last time of each slot; without sessions, none.
    pub fn lasts(&self) -> Option<&[i64]> {
        self.lasts.as_deref()
    }

    /// The partials, in the order of the plan.
    pub fn partials(&self) -> &[Box<dyn Partials>] {
        &self.partials
    }

    /// Opens a slot.
    ///
    /// # Panics
    /// After 2^32 - 1 slots; [`SliceTable::check_room`] comes before.
    #[inline]
    pub(super) fn open(&mut self, key: u32, start: i64) -> u32 {
        let slot = self.keys.len() as u32;
        self.keys.push(key);
        self.starts.push(start);
        if let Some(lasts) = &mut self.lasts {
            lasts.push(start);
        }
        slot
    }

    /// Whether the slot belongs to the slice of `key` that starts at `start`.
    #[inline]
    pub(super) fn is_at(&self, slot: u32, key: u32, start: i64) -> bool {
        self.keys[slot as usize] == key && self.starts[slot as usize] == start
    }

    /// Extends a session's fragment to `t` if `t` is within the gap of it.
    #[inline]
    pub(super) fn extend(&mut self, slot: u32, t: i64, gap: i64) -> bool {
        let Some(lasts) = &mut self.lasts else {
            return false;
        };
        let (first, last) = (&mut self.starts[slot as usize], &mut lasts[slot as usize]);
        if t.saturating_sub(*last) > gap || first.saturating_sub(t) > gap {
            return false;
        }
        *first = t.min(*first);
        *last = t.max(*last);
        true
    }

    /// Rejects more slots than 32 bits can number.
    pub fn check_room(&self, rows: usize) -> Result<()> {
        if self.len() + rows >= u32::MAX as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} slices in one process; aggregate in parts, or in Spark",
                u32::MAX
            )));
        }
        Ok(())
    }

    /// Folds rows into their slots' partials: `inputs[i]` is what partial `i` reads. `poll` is called before each, as
    /// columns that grow are copied.
    pub fn update(&mut self, inputs: &[Input], rows: Rows<'_>, poll: Poll) -> Result<()> {
        let len = self.len();
        self.partials.iter_mut().zip(inputs).try_for_each(|(partial, input)| {
            poll()?;
            input.feed(&mut **partial, rows, len)
        })
    }

    /// Adds slots that are partials already, one per entry of `keys` (stage 2 of a distributed job).
    pub fn push_slices(
        &mut self,
        keys: &[u32],
        starts: &[i64],
        lasts: Option<&[i64]>,
        states: &[Vec<ArrayRef>],
    ) -> Result<()> {
        let slots: Vec<u32> = (self.len() as u32..(self.len() + keys.len()) as u32).collect();
        self.keys.extend_from_slice(keys);
        self.starts.extend_from_slice(starts);
        if let (Some(own), Some(lasts)) = (&mut self.lasts, lasts) {
            own.extend_from_slice(lasts);
        }
        let len = self.len();
        let rows = Rows::all(&slots, starts);
        self.partials.iter_mut().zip(states).try_for_each(|(partial, state)| partial.merge(state, rows, len))
    }

    /// Appends another table's slots; `translate[k]` is this table's number for the other's key `k`.
    pub fn append(&mut self, other: SliceTable, translate: &[u32]) {
        let mut keys = other.keys;
        keys.iter_mut().for_each(|key| *key = translate[*key as usize]);
        self.keys.extend(keys);
        self.starts.extend(other.starts);
        if let (Some(own), Some(lasts)) = (&mut self.lasts, &other.lasts) {
            own.extend(lasts);
        }
        for (own, partials) in self.partials.iter_mut().zip(other.partials) {
            own.append(partials);
        }
    }

    /// Renumbers keys: `names[k]` is the new number of key `k`.
    pub fn rename_keys(&mut self, names: &[u32]) {
        self.keys.iter_mut().for_each(|key| *key = names[*key as usize]);
    }

    /// Empties the table and returns its contents.
    pub fn take(&mut self) -> SliceTable {
        let empty = self.partials.iter().map(|partials| partials.empty()).collect();
        let sessions = self.lasts.is_some();
        std::mem::replace(self, SliceTable::new(empty, sessions))
    }
}
