//! Results of windows that are due, from slices.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StructArray, UInt32Array, new_null_array,
};
use arrow_select::take::take;

use super::Keeper;
use super::due::Due;
use super::line::Line;
use super::store::Delta;
use crate::aggregate::Partials;
use crate::operator::output::lowered;
use crate::operator::plan::{extent_fields, rank_fields};
use crate::operator::stream::{Told, answers};
use crate::{Error, Result};

impl Keeper {
    /// The results for windows that are due, query by query.
    pub(super) fn answer(&mut self, due: Vec<Vec<Due>>, delta: &Delta) -> Result<Vec<RecordBatch>> {
        if due.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        // The slices of each key that some window needs.
        let mut keys: Vec<u32> =
            due.iter().flatten().filter(|each| each.lo < each.hi).map(|due| due.key).collect();
        if !keys.is_sorted() {
            keys.sort_unstable();
        }
        keys.dedup();
        let place_of = |key: u32| keys.partition_point(|&own| own < key);
        let mut needed = vec![(usize::MAX, 0); keys.len()];
        let mut ranges: Vec<Vec<(usize, usize)>> = Vec::with_capacity(due.len());
        for due in &due {
            let mut own = Vec::with_capacity(due.len());
            let mut at = 0;
            for each in due.iter().filter(|each| each.lo < each.hi) {
                if keys[at] != each.key {
                    at = place_of(each.key);
                }
                let line = &self.lines[each.key as usize];
                let range = (slice_at(line, each.lo)?, slice_at(line, each.hi)?);
                let (lo, hi) = &mut needed[at];
                (*lo, *hi) = (range.0.min(*lo), range.1.max(*hi));
                own.push(range);
            }
            ranges.push(own);
        }
        let (mut first, mut slices) = (vec![0i64; needed.len()], 0usize);
        for (first, &(lo, hi)) in first.iter_mut().zip(&needed) {
            *first = slices as i64 - lo as i64;
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
        let all =
            needed.iter().zip(&keys).flat_map(|(&(lo, hi), &key)| &self.lines[key as usize].slices[lo..hi]);
        let gathered = self.store.gather(delta, all, &which)?;
        let mut partials: Vec<Option<&dyn Partials>> = vec![None; self.queries.stored().len()];
        for (&at, gathered) in which.iter().zip(&gathered) {
            partials[at] = Some(gathered.as_ref());
        }
        let columns = self.keys.columns()?;
        let mut results = Vec::new();
        for (query, (mut due, ranges)) in due.into_iter().zip(ranges).enumerate() {
            let gone: Vec<Due> = due.extract_if(.., |each| each.lo == each.hi).collect();
            let own = self.queries.asked()[query].partials.iter();
            let own: Vec<&dyn Partials> = own.filter_map(|&at| partials[at]).collect();
            let mut windows: Vec<(Due, (u32, u32))> = due
                .into_iter()
                .zip(ranges)
                .map(|(due, (lo, hi))| {
                    let first = first[place_of(due.key)];
                    let place = |slice: usize| (first + slice as i64) as u32;
                    (due, (place(lo), place(hi)))
                })
                .collect();
            // Window type by window type, and key by key, as they were gathered.
            windows.sort_by_key(|(due, _)| (due.window, due.key));
            if !windows.is_empty() {
                let (due, ranges): (Vec<Due>, Vec<(u32, u32)>) = windows.into_iter().unzip();
                let answers = answers(&own, &ranges)?;
                let answers: Vec<&dyn Partials> = answers.iter().map(AsRef::as_ref).collect();
                let lowered = lowered(&self.queries.asked()[query].plan, &answers)?;
                results.push(self.batch(query, &due, &columns, Some(lowered))?);
            }
            if !gone.is_empty() {
                results.push(self.batch(query, &gone, &columns, None)?);
            }
        }
        Ok(results)
    }

    /// A batch of results; of windows that are no more if there are none.
    fn batch(
        &self,
        query: usize,
        due: &[Due],
        keys: &[ArrayRef],
        lowered: Option<Vec<ArrayRef>>,
    ) -> Result<RecordBatch> {
        let (ids, rows): (UInt32Array, usize) = (due.iter().map(|due| Some(due.key)).collect(), due.len());
        let keys =
            keys.iter().map(|values| take(values, &ids, None)).collect::<std::result::Result<_, _>>()?;
        let leader = self.queries.leader();
        let extents: ArrayRef = match &lowered {
            Some(_) => {
                let starts = leader.measure().array(due.iter().map(|due| due.start).collect())?;
                let ends = leader.measure().array(due.iter().map(|due| due.end).collect())?;
                Arc::new(StructArray::try_new(extent_fields(leader.measure()), vec![starts, ends], None)?)
            }
            None => self.queries.no_extents(rows),
        };
        let plan = &self.queries.asked()[query].plan;
        let kinds = plan.windows();
        let ranked: Vec<bool> = due.iter().map(|due| kinds[due.window].1.is_ranked()).collect();
        let rank = |of: fn(&Due) -> u64| -> ArrayRef {
            let ranks = due.iter().zip(&ranked).map(|(due, &ranked)| if ranked { of(due) as i64 } else { 0 });
            Arc::new(Int64Array::from_iter_values(ranks))
        };
        let ranks = StructArray::try_new(
            rank_fields(),
            vec![rank(|due| due.ranks.0), rank(|due| due.ranks.1)],
            Some(ranked.into()),
        )?;
        let is_numbered = |due: &Due| self.queries.is_numbered(&kinds[due.window].1);
        let numbers: Int64Array = due.iter().map(|due| is_numbered(due).then_some(due.number)).collect();
        let which: Vec<u32> = due.iter().map(|due| due.window as u32).collect();
        let updates: BooleanArray = due.iter().map(|due| Some(due.update)).collect();
        let lowered = lowered.unwrap_or_else(|| {
            let types = &plan.output().fields()[plan.output().fields().len() - plan.aggregates().len()..];
            types.iter().map(|field| new_null_array(field.data_type(), rows)).collect()
        });
        let (ranks, numbers): (ArrayRef, ArrayRef) = (Arc::new(ranks), Arc::new(numbers));
        let told = Told { extents, which, updates, ranks: Some(ranks), numbers: Some(numbers) };
        self.queries.batch(query, keys, told, lowered)
    }
}

/// The slice that begins at this place of a key's rows, or all of them at their end.
fn slice_at(line: &Line, place: usize) -> Result<usize> {
    let at = line.slices.partition_point(|slice| (slice.lo as usize) < place);
    match line.slices.get(at) {
        Some(slice) if slice.lo as usize == place => Ok(at),
        None if place == line.len() => Ok(at),
        _ => Err(Error::Internal(format!("no slice is cut at row {place}, where a window is"))),
    }
}
