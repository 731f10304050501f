//! Results of windows that are due, from slices or from what is kept above them.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_select::take::take;

use super::Stream;
use super::due::Due;
use super::queries::Told;
use crate::aggregate::Partials;
use crate::kernels::Ranges;
use crate::operator::output::lowered;
use crate::slice::{Delta, Wanted};
use crate::{Error, Result};

impl Stream {
    /// The results for windows that are due, query by query.
    pub(super) fn answer(&mut self, due: Vec<Vec<Due>>, delta: &Delta) -> Result<Vec<RecordBatch>> {
        if due.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let keys = self.keys.columns()?;
        let gathered = self.gather(&due, delta)?;
        let mut results = Vec::new();
        for (query, due) in due.iter().enumerate().filter(|(_, due)| !due.is_empty()) {
            let own = self.queries.asked()[query].partials.clone();
            if own.iter().all(|&at| self.eager.has(at)) {
                // What lies above the slices answers windows in any order.
                let answers: Vec<Box<dyn Partials>> = self.answers_above(&own, due, delta)?.into();
                results.push(self.batch(query, due, &keys, &answers)?);
                continue;
            }
            for due in batches(due, gathered.slices, |due| gathered.range(due)) {
                let of_slices: Vec<&dyn Partials> =
                    own.iter().filter_map(|&at| gathered.partial(at)).collect();
                let ranges: Vec<(u32, u32)> = due.iter().map(|due| gathered.range(due)).collect();
                let mut of_slices = answers(&of_slices, &ranges)?.into_iter();
                let mut above = self.answers_above(&own, due, delta)?;
                let next =
                    |&at: &usize| if self.eager.has(at) { above.pop_front() } else { of_slices.next() };
                let answers: Vec<Box<dyn Partials>> = own.iter().filter_map(next).collect();
                results.push(self.batch(query, due, &keys, &answers)?);
            }
        }
        Ok(results)
    }

    /// Those of the partials `own` of windows that come from above the slices.
    fn answers_above(
        &mut self,
        own: &[usize],
        due: &[Due],
        delta: &Delta,
    ) -> Result<VecDeque<Box<dyn Partials>>> {
        let wanted = |due: &Due| Wanted { key: due.key, slices: due.found.lo..due.found.hi };
        self.eager.answer((&self.store, delta), &self.slices, own, due.iter().map(wanted))
    }

    /// The slices that windows need, of those partials that nothing above the slices answers for.
    fn gather(&self, due: &[Vec<Due>], delta: &Delta) -> Result<Gathered> {
        let mut which: Vec<usize> = Vec::new();
        for (asked, _) in self.queries.asked().iter().zip(due).filter(|(_, due)| !due.is_empty()) {
            which.extend(asked.partials.iter().filter(|&&at| !self.eager.has(at)));
        }
        if which.is_empty() {
            return Ok(Gathered::default());
        }
        which.sort_unstable();
        which.dedup();
        // The slices of each key that some window needs, one key after the other.
        let mut needed = vec![(usize::MAX, 0); self.slices.keys()];
        for due in due.iter().flatten() {
            let (lo, hi) = &mut needed[due.key as usize];
            (*lo, *hi) = (due.found.lo.min(*lo), due.found.hi.max(*hi));
        }
        let (mut wanted, mut places, mut slices) = (Vec::new(), vec![0; needed.len()], 0);
        for (key, &(lo, hi)) in needed.iter().enumerate().filter(|(_, (lo, hi))| lo < hi) {
            wanted.push(Wanted { key: key as u32, slices: lo..hi });
            places[key] = slices as i64 - lo as i64;
            slices += hi - lo;
        }
        if u32::try_from(slices).is_err() {
            return Err(Error::InvalidValue(format!(
                "watermark: {slices} slices are due at once; at most {} can be, so advance in smaller steps",
                u32::MAX
            )));
        }
        let partials = self.store.gather(delta, &self.slices, &wanted, &which)?;
        Ok(Gathered { which, partials, places, slices })
    }

    fn batch(
        &self,
        query: usize,
        due: &[Due],
        keys: &[ArrayRef],
        answers: &[Box<dyn Partials>],
    ) -> Result<RecordBatch> {
        let answers: Vec<&dyn Partials> = answers.iter().map(AsRef::as_ref).collect();
        let lowered = lowered(&self.queries.asked()[query].plan, &answers)?;
        let mut own: Vec<ArrayRef> = Vec::with_capacity(self.queries.schema().fields().len());
        if !keys.is_empty() {
            let ids: UInt32Array = due.iter().map(|due| due.key).collect();
            for values in keys {
                own.push(take(values, &ids, None)?);
            }
        }
        let measure = self.queries.leader().measure();
        let starts = measure.array(due.iter().map(|due| due.found.start).collect())?;
        let ends = measure.array(due.iter().map(|due| due.found.end).collect())?;
        let extents =
            Arc::new(StructArray::try_new(self.queries.extents().clone(), vec![starts, ends], None)?);
        let which: Vec<u32> = due.iter().map(|due| due.window as u32).collect();
        let updates = BooleanBuffer::collect_bool(due.len(), |at| due[at].update);
        let told = Told { extents, which, updates: updates.into(), ranks: None, numbers: None };
        self.queries.batch(query, own, told, lowered)
    }
}

/// Partials of slices that windows need, one slice after the other.
#[derive(Default)]
struct Gathered {
    /// Which partials these are.
    which: Vec<usize>,
    partials: Vec<Box<dyn Partials>>,
    /// Where slice 0 of each key would be: may be below zero.
    places: Vec<i64>,
    slices: usize,
}

impl Gathered {
    /// Where the slices of a window are.
    fn range(&self, due: &Due) -> (u32, u32) {
        let place = self.places[due.key as usize];
        ((place + due.found.lo as i64) as u32, (place + due.found.hi as i64) as u32)
    }

    fn partial(&self, partial: usize) -> Option<&dyn Partials> {
        let at = self.which.binary_search(&partial).ok()?;
        Some(self.partials[at].as_ref())
    }
}

/// Whether a range may come after another, both ends not before its.
fn follows(before: (u32, u32), after: (u32, u32)) -> bool {
    before.0 <= after.0 && before.1 <= after.1
}

/// Windows of one query whose partials are answered together: all of them, or those of one window type. Which is less
/// work follows from how many types, slices and windows there are.
fn batches(due: &[Due], slices: usize, range: impl Fn(&Due) -> (u32, u32)) -> Vec<&[Due]> {
    let types: Vec<&[Due]> = due.chunk_by(|a, b| follows(range(a), range(b))).collect();
    let height = (usize::BITS - slices.leading_zeros()) as usize;
    // Type by type each goes over its slices; together there is one tree over the slices, of which a window asks its
    // height, twice.
    if types.len() * slices > slices + 2 * height * due.len() && !due.is_empty() { vec![due] } else { types }
}

/// The partials of windows, each a range of slices.
pub(in crate::operator) fn answers(
    partials: &[&dyn Partials],
    pairs: &[(u32, u32)],
) -> Result<Vec<Box<dyn Partials>>> {
    let in_order = pairs.is_sorted_by(|&a, &b| follows(a, b));
    let ranges = |pairs: &[(u32, u32)]| {
        let mut ranges = Ranges::with_capacity(pairs.len());
        pairs.iter().for_each(|&(lo, hi)| ranges.push(lo, hi));
        ranges
    };
    let answer = |partials: &&dyn Partials| {
        if in_order {
            return partials.answer(&ranges(pairs));
        }
        if let Some(answer) = partials.answer_any(pairs) {
            return Ok(answer);
        }
        // Window type by window type, in the order they are listed.
        let mut all = partials.empty();
        for pairs in pairs.chunk_by(|&a, &b| follows(a, b)) {
            all.append(partials.answer(&ranges(pairs))?);
        }
        Ok(all)
    };
    partials.iter().map(answer).collect()
}
