//! Bins of slide-by-tuple windows: two partials per row, one where its own window ends and one where the last window ends
//! that it is in (Li 2008, §6.1.4, Fig. 6-7).
//!
//! | | |
//! |---|---|
//! | needs | any function of rows in order, commutative ones of rows out of order |
//! | time | O(n) per row for n rows within the length of a window: that many bins are updated |
//! | space | two partials per row that a window may still need |
//! | source | Li 2008, Fig. 6-5 to 6-7; §6.1.4.2 for windows that every n-th arrival ends |
//!
//! A bin has the aggregate of the rows in the window that would end there. That of a new row begins as a copy of the bin
//! before it. Fig. 6-7 drops all bins before a punctuation; then the next row would begin with nothing, although rows before
//! the punctuation are in its window. As in the example of the thesis ("discard Ss1 and Ss5", and not Ss2), the last bin
//! before the punctuation stays.

use std::collections::BTreeMap;

use arrow_array::UInt32Array;
use arrow_select::take::take;

use crate::slots::{IDENTITY, Slots};
use windowkit::Result;
use windowkit::aggregate::{Input, Rows};
use windowkit::window::Arrivals;

/// Where a bin is: start bins come behind the end bin of the same time, in the order of arrival from 1 on.
type Id = (i64, u64);

/// A bin.
struct Bin {
    slot: u32,
    /// The number of the window that its row ends, if it ends one, and whether that was emitted.
    ends: Option<(u64, bool)>,
}

/// The bins of one key and window type.
#[derive(Default)]
pub(crate) struct Bins {
    bins: BTreeMap<Id, Bin>,
    /// Rows that arrived.
    arrived: u64,
}

/// A window that is ready: its number, the time of the row that ends it, and the slot of its bin.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) end: i64,
    pub(crate) slot: u32,
    pub(crate) update: bool,
}

impl Bins {
    /// Adds a row, what partials read of which is `inputs`; returns how many states were joined.
    pub(crate) fn add(
        &mut self,
        window: &Arrivals,
        time: i64,
        inputs: &[Input],
        slots: &mut Slots,
    ) -> Result<u64> {
        let (start, end) = ((time, self.arrived + 1), (time + window.size(), 0));
        self.arrived += 1;
        let step = window.rows() as u64;
        let ends = self.arrived.is_multiple_of(step).then(|| (self.arrived / step - 1, false));
        for (id, ends) in [(start, ends), (end, None)] {
            // The end bins of two rows of one time are one.
            if !self.bins.contains_key(&id) {
                let before = self.bins.range(..id).next_back().map_or(IDENTITY, |(_, bin)| bin.slot);
                let slot = slots.open();
                slots.combine(&[(slot, before, IDENTITY)])?;
                self.bins.insert(id, Bin { slot, ends });
            }
        }
        let into: Vec<u32> = self.bins.range(start..end).map(|(_, bin)| bin.slot).collect();
        let zeros = UInt32Array::from(vec![0; into.len()]);
        let repeated = |input: &Input| -> Result<Input> {
            let columns = input.columns.iter().map(|column| take(column, &zeros, None));
            let columns = columns.collect::<std::result::Result<_, _>>()?;
            let taken = input
                .taken
                .as_ref()
                .map(|taken| std::iter::repeat_n(taken.iter().next().flatten(), into.len()));
            Ok(Input { columns, taken: taken.map(|taken| taken.collect()) })
        };
        let inputs = inputs.iter().map(repeated).collect::<Result<Vec<_>>>()?;
        slots.update(&inputs, Rows { slots: &into, times: &vec![time; into.len()], sparse: true })?;
        Ok((into.len() * slots.width()) as u64)
    }

    /// Shows windows whose last row is at or after `from`, and at or before `until`, that were not emitted, or that a row
    /// at one of the times `late`, which ascend, has changed.
    pub(crate) fn ready(
        &mut self,
        window: &Arrivals,
        (from, until): (i64, i64),
        late: &[i64],
        mut show: impl FnMut(Found),
    ) {
        for (&(end, _), bin) in self.bins.range_mut((from, 0)..=(until, u64::MAX)) {
            let Some((number, emitted)) = &mut bin.ends else { continue };
            let first = late.partition_point(|&time| time <= end - window.size());
            // A late row of the same time follows the row that ends the window.
            let is_changed = *emitted && late.get(first).is_some_and(|&time| time < end);
            if !*emitted || is_changed {
                show(Found { number: *number, end, slot: bin.slot, update: *emitted });
            }
            *emitted = true;
        }
    }

    /// Drops the bins before this time but the last; adds their slots to `gone`.
    pub(crate) fn drop_before(&mut self, time: i64, gone: &mut Vec<u32>) {
        let Some(last) = self.bins.range(..(time, 0)).next_back().map(|(&id, _)| id) else { return };
        let kept = self.bins.split_off(&last);
        gone.extend(std::mem::replace(&mut self.bins, kept).into_values().map(|bin| bin.slot));
    }

    /// Drops all bins; adds their slots to `gone`.
    pub(crate) fn clear(&mut self, gone: &mut Vec<u32>) {
        gone.extend(std::mem::take(&mut self.bins).into_values().map(|bin| bin.slot));
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bins.len() * size_of::<(Id, Bin)>()
    }
}
