//! Results of windows that are due, from slices or from trees above them.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StructArray, UInt32Array};
use arrow_cast::cast;
use arrow_select::take::take;

use super::Stream;
use super::due::Due;
use super::queries::Told;
use crate::aggregate::Partials;
use crate::dictionary::plain;
use crate::kernels::Ranges;
use crate::operator::output::lowered;
use crate::slice::{Delta, Forest, Grove, Wanted};
use crate::{Error, Result};

impl Stream {
    /// The results for windows that are due, query by query.
    pub(super) fn answer(&mut self, due: Vec<Vec<Due>>, delta: &Delta) -> Result<Vec<RecordBatch>> {
        if due.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        // The slices of each key that some window needs, one key after the other.
        let mut needed = vec![(usize::MAX, 0); self.slices.keys()];
        for due in due.iter().flatten() {
            let (lo, hi) = &mut needed[due.key as usize];
            (*lo, *hi) = (due.found.lo.min(*lo), due.found.hi.max(*hi));
        }
        let (mut wanted, mut places, mut slices) = (Vec::new(), vec![0; needed.len()], 0);
        for (key, &(lo, hi)) in needed.iter().enumerate().filter(|(_, (lo, hi))| lo < hi) {
            wanted.push(Wanted { key: key as u32, slices: lo..hi });
            // May be below zero on the way: it is the place of slice 0.
            places[key] = slices as i64 - lo as i64;
            slices += hi - lo;
        }
        if u32::try_from(slices).is_err() {
            return Err(Error::InvalidValue(format!(
                "watermark: {slices} slices are due at once; at most {} can be, so advance in smaller steps",
                u32::MAX
            )));
        }
        let mut which: Vec<usize> = Vec::new();
        for (asked, _) in self.queries.asked().iter().zip(&due).filter(|(_, due)| !due.is_empty()) {
            which.extend(&asked.partials);
        }
        which.sort_unstable();
        which.dedup();
        let planted: &[usize] = self.forest.as_ref().map_or(&[], Forest::which);
        let grown: &[usize] = self.grove.as_ref().map_or(&[], Grove::which);
        which.retain(|at| !planted.contains(at) && !grown.contains(at));
        let gathered = if which.is_empty() {
            Vec::new()
        } else {
            self.store.gather(delta, &self.slices, &wanted, &which)?
        };
        let mut partials: Vec<Option<&dyn Partials>> = vec![None; self.queries.stored().len()];
        for (&at, gathered) in which.iter().zip(&gathered) {
            partials[at] = Some(gathered.as_ref());
        }
        let range = |due: &Due| {
            let place = places[due.key as usize];
            ((place + due.found.lo as i64) as u32, (place + due.found.hi as i64) as u32)
        };
        let keys = self.key_columns()?;
        let mut results = Vec::new();
        for (query, due) in due.iter().enumerate() {
            let own: Vec<Option<&dyn Partials>> =
                self.queries.asked()[query].partials.iter().map(|&at| partials[at]).collect();
            let by_trees = own.iter().all(Option::is_none);
            let due = if by_trees && !due.is_empty() { vec![&due[..]] } else { batches(due, slices, range) };
            for due in due {
                let gathered: Vec<&dyn Partials> = own.iter().copied().flatten().collect();
                let ranges: Vec<(u32, u32)> = due.iter().map(range).collect();
                let mut gathered = answers(&gathered, &ranges)?.into_iter();
                let mut planted = self.by_trees(query, due)?;
                let mut grown = self.by_runs(query, due, delta);
                let by_runs: &[usize] = self.grove.as_ref().map_or(&[], Grove::which);
                let next = |(own, at): (&Option<&dyn Partials>, &usize)| match own {
                    Some(_) => gathered.next(),
                    None if by_runs.contains(at) => grown.pop_front(),
                    None => planted.pop_front(),
                };
                let asked = &self.queries.asked()[query];
                let answers: Vec<Box<dyn Partials>> =
                    own.iter().zip(&asked.partials).filter_map(next).collect();
                let answers: Vec<&dyn Partials> = answers.iter().map(AsRef::as_ref).collect();
                let aggregates = lowered(&self.queries.asked()[query].plan, &answers)?;
                results.push(self.batch(query, due, &keys, aggregates)?);
            }
        }
        Ok(results)
    }

    /// The partials of windows that come from trees, in the order of the query.
    pub(super) fn by_trees(&self, query: usize, due: &[Due]) -> Result<VecDeque<Box<dyn Partials>>> {
        let Some(forest) = &self.forest else { return Ok(VecDeque::new()) };
        let own = self.queries.asked()[query].partials.iter();
        let which: Vec<usize> =
            own.filter_map(|own| forest.which().iter().position(|which| which == own)).collect();
        let windows = due.iter().map(|due| Wanted { key: due.key, slices: due.found.lo..due.found.hi });
        forest.answer(&self.slices, &which, windows)
    }

    /// The partials of windows that come from sorted runs, in the order of the query.
    fn by_runs(&mut self, query: usize, due: &[Due], delta: &Delta) -> VecDeque<Box<dyn Partials>> {
        let Some(grove) = &mut self.grove else { return VecDeque::new() };
        let windows = due.iter().map(|due| Wanted { key: due.key, slices: due.found.lo..due.found.hi });
        grove.answer((&self.store, delta), &self.slices, windows, &self.queries.asked()[query].partials)
    }

    pub(super) fn batch(
        &self,
        query: usize,
        due: &[Due],
        keys: &[ArrayRef],
        lowered: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let ids: UInt32Array = due.iter().map(|due| due.key).collect();
        let keys =
            keys.iter().map(|values| take(values, &ids, None)).collect::<std::result::Result<_, _>>()?;
        let measure = self.queries.leader().measure();
        let starts = measure.array(due.iter().map(|due| due.found.start).collect())?;
        let ends = measure.array(due.iter().map(|due| due.found.end).collect())?;
        let extents =
            Arc::new(StructArray::try_new(self.queries.extents().clone(), vec![starts, ends], None)?);
        let which: Vec<u32> = due.iter().map(|due| due.window as u32).collect();
        let updates: BooleanArray = due.iter().map(|due| Some(due.update)).collect();
        let told = Told { extents, which, updates, ranks: None, numbers: None };
        self.queries.batch(query, keys, told, lowered)
    }

    /// The keys as columns, in the order of their numbers, not as dictionaries: those are numbered by their values.
    pub(super) fn plain_keys(&self) -> Result<Vec<ArrayRef>> {
        let decoded = |values: ArrayRef| match plain(values.data_type()) {
            kind if kind == values.data_type() => Ok(values),
            kind => Ok(cast(&values, kind)?),
        };
        self.keys.values()?.into_iter().map(decoded).collect()
    }

    /// The keys as columns.
    pub(super) fn key_columns(&mut self) -> Result<Vec<ArrayRef>> {
        let len = self.keys.len();
        if let Some((known, columns)) = &self.key_columns
            && *known == len
        {
            return Ok(columns.clone());
        }
        let columns = self.keys.values()?;
        self.key_columns = Some((len, columns.clone()));
        Ok(columns)
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
