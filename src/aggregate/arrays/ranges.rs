//! States of ranges of slots, all ranges in a few calls.

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;

use super::function::{ArrayFunction, checked};
use super::{ArrayColumn, joined, picked};
use crate::{Error, Result};

impl<F: ArrayFunction> ArrayColumn<F> {
    /// States of ranges by the inverse: the state of all slots up to the end, less that of the slots before the range.
    pub(super) fn differences(&self, states: &ArrayRef, ranges: &[(u32, u32)]) -> Result<Option<ArrayRef>> {
        let mut running = states.clone();
        let mut step = 1;
        while step < states.len() {
            let more = states.len() - step;
            let longer = self.combined(&running.slice(0, more), &running.slice(step, more))?;
            running = joined(&[running.slice(0, step).as_ref(), longer.as_ref()])?;
            step *= 2;
        }
        let wholes = picked(&running, ranges.iter().map(|&(_, hi)| hi - 1).collect())?;
        let inner: Vec<usize> = (0..ranges.len()).filter(|&range| ranges[range].0 > 0).collect();
        let parts = picked(&running, inner.iter().map(|&range| ranges[range].0 - 1).collect())?;
        let inner_wholes = picked(&wholes, inner.iter().map(|&range| range as u32).collect())?;
        let Some(rests) = self.function.invert(&inner_wholes, &parts) else { return Ok(None) };
        let rests = checked(&*self.function, "invert", rests?, inner.len(), Some(&self.signature.state))?;
        let mut place: Vec<u32> = (0..ranges.len() as u32).collect();
        for (at, &range) in inner.iter().enumerate() {
            place[range] = (ranges.len() + at) as u32;
        }
        Ok(Some(picked(&joined(&[wholes.as_ref(), rests.as_ref()])?, place)?))
    }

    /// States of ranges from aligned blocks of 1, 2, 4, ... slots.
    pub(super) fn blocks(&self, states: &ArrayRef, ranges: &[(u32, u32)]) -> Result<ArrayRef> {
        let mut blocks = states.clone();
        let mut ranges = ranges.to_vec();
        let mut left = Sides::new(&self.signature.state, ranges.len());
        let mut right = Sides::new(&self.signature.state, ranges.len());
        loop {
            // A range begins, or ends, in the middle of a block of the next level: it takes this level's half.
            let (mut begins, mut ends) = (Vec::new(), Vec::new());
            for (range, (lo, hi)) in ranges.iter_mut().enumerate() {
                if *lo < *hi && *lo % 2 == 1 {
                    begins.push((range, *lo));
                    *lo += 1;
                }
                if *lo < *hi && *hi % 2 == 1 {
                    *hi -= 1;
                    ends.push((range, *hi));
                }
                (*lo, *hi) = (*lo / 2, *hi / 2);
            }
            left.join(&blocks, &begins, |own, block| self.combined(own, block))?;
            right.join(&blocks, &ends, |own, block| self.combined(block, own))?;
            if ranges.iter().all(|(lo, hi)| lo >= hi) {
                break;
            }
            let pairs = blocks.len() as u32 / 2;
            let halves = |odd: u32| picked(&blocks, (0..pairs).map(|pair| 2 * pair + odd).collect());
            blocks = self.combined(&halves(0)?, &halves(1)?)?;
        }
        let rights: Vec<(usize, u32)> =
            right.place.iter().enumerate().filter_map(|(range, place)| place.map(|at| (range, at))).collect();
        left.join(&right.states, &rights, |own, block| self.combined(own, block))?;
        let place: Option<Vec<u32>> = left.place.iter().copied().collect();
        picked(&left.states, place.ok_or_else(|| Error::Internal("a range over no slot".into()))?)
    }
}

/// The state of the ranges so far, on one of their sides.
struct Sides {
    states: ArrayRef,
    /// Where the state of each range is.
    place: Vec<Option<u32>>,
}

impl Sides {
    fn new(kind: &DataType, ranges: usize) -> Self {
        Self { states: new_empty_array(kind), place: vec![None; ranges] }
    }

    /// Joins `blocks[at]` to each range of `more`: with `combine` where it has a state.
    fn join(
        &mut self,
        blocks: &ArrayRef,
        more: &[(usize, u32)],
        combine: impl Fn(&ArrayRef, &ArrayRef) -> Result<ArrayRef>,
    ) -> Result<()> {
        let (mut own, mut theirs, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
        let (mut longer, mut begun) = (Vec::new(), Vec::new());
        for &(range, at) in more {
            match self.place[range] {
                Some(place) => {
                    own.push(place);
                    theirs.push(at);
                    longer.push(range);
                }
                None => {
                    fresh.push(at);
                    begun.push(range);
                }
            }
        }
        let mut parts = vec![self.states.clone()];
        if !own.is_empty() {
            parts.push(combine(&picked(&self.states, own)?, &picked(blocks, theirs)?)?);
        }
        parts.push(picked(blocks, fresh)?);
        for (at, range) in longer.into_iter().chain(begun).enumerate() {
            self.place[range] = Some((self.states.len() + at) as u32);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        // Replaced states are left out.
        let rows = self.place.iter().copied().flatten().collect();
        self.states = picked(&joined(&parts)?, rows)?;
        for (at, place) in self.place.iter_mut().flatten().enumerate() {
            *place = at as u32;
        }
        Ok(())
    }
}
