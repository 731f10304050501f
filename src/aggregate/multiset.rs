//! Multisets of values: what quantiles, modes and distinct values are lowered from. Holistic, commutative, invertible.
//!
//! | | |
//! |---|---|
//! | needs | an order of values |
//! | time | O(log n) per row once, when slots are put in order; lowering: see [`super::tally`] |
//! | space | a code and a slot per row until then, afterwards a rank (and a count, where values repeat) per distinct value of a slot |
//! | first appeared | sorted runs with run-length encoding in slices: Traub et al. 2019, §5.4.1 |
//!
//! Rows are appended in order of arrival. When slots are put in order ([`Partials::regroup`]) all of a block's values
//! are sorted at once, with a sort that merges existing runs, and distributed to their slots by rank: each slot's run
//! is then sorted and encoded, and all slots of the block use the same ranks. Windows are views that name their slots.
//! Computing them slides over the slots (`tally`), so that overlap costs nothing.

mod entries;
mod nodes;
mod ranked;
mod statistic;

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, ListArray, UInt32Array, UInt64Array, cast::AsArray, types::UInt64Type};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

use super::interned::Interned;
use super::lift::{cast_to, columns};
use super::order::{Codes, Family, Wides, Words, family};
use super::partials::{Partials, RunNodes, Upkeep};
use super::properties::{Kind, Properties};
use super::rows::Rows;
use super::sorted_runs::{SortedRun, union};
use super::tally::{Ordered, slide};
use crate::dictionary::plain;
use crate::kernels::Ranges;
use crate::poll::{Poll, sort_by_key};
use crate::select::take;
use crate::{Error, Result};
use entries::Entries;
use ranked::Ranked;
pub use statistic::Statistic;
pub(super) use statistic::{counted_fields, evaluate};

/// Rows that may accumulate before equal ones of one slot are counted instead.
const FIRST_COMPACTION: usize = 8 << 20;

/// Largest number of values in a multiset, with repetitions, when they arrive as counts: more than any stream has. A
/// count is split into parts of 32 bits, whose number this keeps small.
const MOST_COUNTED: u64 = 1 << 48;

/// An empty column of multisets of values of type `input`, if those have an order.
pub(super) fn multisets(input: &DataType, poll: Poll) -> Option<Box<dyn Partials>> {
    Some(match family(input)? {
        Family::Word => Box::new(Multiset::new(Words::new(input), poll)),
        Family::Wide => Box::new(Multiset::new(Wides::new(input), poll)),
        Family::Text => Box::new(Multiset::new(Interned::new(input), poll)),
    })
}

/// A column of multisets.
pub struct Multiset<C: Codes> {
    codes: C,
    held: Held<C::Key>,
    compact_at: usize,
    /// Called while the values of a single slot are put in order or counted, however many they are.
    poll: Poll,
}

enum Held<K> {
    /// Rows as they came.
    Rows(Entries<K>),
    /// A run of ranks per slot.
    Ranked(Arc<Ranked<K>>),
    /// A range of slots' runs per slot.
    View(Arc<Ranked<K>>, Vec<(u32, u32)>),
    /// Some sorted runs per slot: those of slot s are `runs[offsets[s]..offsets[s + 1]]`.
    Merged { runs: Vec<Arc<SortedRun<K>>>, offsets: Vec<usize> },
}

impl<C: Codes> Multiset<C> {
    fn new(codes: C, poll: Poll) -> Self {
        Self { codes, held: Held::Rows(Entries::new()), compact_at: FIRST_COMPACTION, poll }
    }

    /// A column of which slot s has the values of `runs[offsets[s]..offsets[s + 1]]`.
    pub(super) fn merged(
        codes: &C,
        runs: Vec<Arc<SortedRun<C::Key>>>,
        offsets: Vec<usize>,
        poll: Poll,
    ) -> Self {
        Self { held: Held::Merged { runs, offsets }, ..Self::new(codes.clone(), poll) }
    }

    fn with(&self, held: Held<C::Key>) -> Self {
        Self { held, ..Self::new(self.codes.clone(), self.poll) }
    }

    fn len(&self) -> usize {
        match &self.held {
            Held::Rows(entries) => entries.len,
            Held::Ranked(ranked) => ranked.runs.len(),
            Held::View(_, ranges) => ranges.len(),
            Held::Merged { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Calls `each` with the values of a slot and how often they occur.
    pub(super) fn visit(&self, slot: usize, mut each: impl FnMut(C::Key, u32)) {
        let (ranked, from, to) = match &self.held {
            Held::Rows(entries) => {
                for entry in entries.index().entries(slot..slot + 1) {
                    each(entries.codes[entry as usize], entries.count(entry as usize));
                }
                return;
            }
            Held::Ranked(ranked) => (ranked, slot, slot + 1),
            Held::View(ranked, ranges) => {
                let (from, to) = ranges[slot];
                (ranked, from as usize, to as usize)
            }
            Held::Merged { runs, offsets } => {
                for run in &runs[offsets[slot]..offsets[slot + 1]] {
                    run.visit(|code, count| in_parts(count, |count| each(code, count)));
                }
                return;
            }
        };
        ranked.runs.visit(from, to, |rank, count| each(ranked.codes[rank as usize], count));
    }

    /// How many runs of equal values the slots have, if that is known at once.
    fn runs(&self) -> usize {
        match &self.held {
            Held::Rows(entries) => entries.codes.len(),
            Held::Ranked(ranked) => ranked.runs.ranks.len(),
            Held::View(..) | Held::Merged { .. } => 0,
        }
    }

    /// The values as rows, however they were held.
    fn entries(&mut self) -> &mut Entries<C::Key> {
        if !matches!(self.held, Held::Rows(_)) {
            let mut entries = Entries::with_capacity(self.runs());
            entries.len = self.len();
            for slot in 0..entries.len {
                self.visit(slot, |code, count| entries.push(slot as u32, code, count));
            }
            self.held = Held::Rows(entries);
        }
        match &mut self.held {
            Held::Rows(entries) => {
                entries.index = OnceLock::new();
                entries
            }
            _ => unreachable!("they were made rows"),
        }
    }

    /// Counts equal values of one slot instead of keeping them, once the number of rows has doubled.
    fn compact(&mut self) -> Result<()> {
        let entries = self.entries();
        let rows = entries.codes.len();
        if rows > u32::MAX as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} distinct values of slices in one process; aggregate in parts, or in Spark",
                u32::MAX
            )));
        }
        if rows >= self.compact_at {
            let slots: Vec<u32> = (0..self.len() as u32).collect();
            let ranked = self.ranked(&slots, &slots)?;
            self.compact_at = FIRST_COMPACTION.max(2 * ranked.runs.ranks.len());
            self.held = Held::Ranked(Arc::new(ranked));
        }
        Ok(())
    }

    /// The values of a slot less those of the slot `slots` further on, ascending, and how often each occurs.
    ///
    /// # Errors
    /// `InvalidValue` if some of these are not there.
    fn difference(&self, slot: usize, slots: usize) -> Result<Vec<(C::Key, u64)>> {
        let (mut whole, mut lost) = (Vec::new(), Vec::new());
        for (at, counted) in [(slot, &mut whole), (slot + slots, &mut lost)] {
            self.visit(at, |code, count| counted.push((self.codes.rank_key(code), u64::from(count))));
            sort_by_key(counted, |item| item.0, self.poll)?;
            counted.dedup_by(|next, known| {
                let is_same = next.0 == known.0;
                known.1 += if is_same { next.1 } else { 0 };
                is_same
            });
        }
        let mut lost = lost.into_iter().peekable();
        for (key, count) in &mut whole {
            if let Some((_, taken)) = lost.next_if(|item| item.0 == *key) {
                match count.checked_sub(taken) {
                    Some(left) => *count = left,
                    None => return unmatched(),
                }
            }
        }
        match lost.next() {
            None => Ok(whole.into_iter().filter(|item| item.1 > 0).collect()),
            Some(_) => unmatched(),
        }
    }

    /// Distinct values of all slots and, if requested, how often each occurs, as lists.
    fn lists(&self, counted: bool) -> Result<Vec<ArrayRef>> {
        if let Held::Merged { runs, offsets: slots } = &self.held {
            let (mut codes, mut counts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            for slot in slots.windows(2) {
                for (code, count) in union(&runs[slot[0]..slot[1]]).counted() {
                    codes.push(code);
                    counts.push(count);
                }
                ends.push(codes.len());
            }
            return listed(self.codes.values(&codes, None)?, counted.then_some(counts), &ends);
        }
        let (ranked, ranges) = self.view()?;
        let (mut ranks, mut counts, mut ends) = (Vec::new(), Vec::new(), Vec::with_capacity(ranges.len()));
        let tally = &mut Ordered::<u64>::new(ranked.runs.distinct);
        slide(&ranked.runs, &ranges, tally, self.poll, |tally| {
            tally.visit(|rank, count| {
                ranks.push(rank);
                if counted {
                    counts.push(count);
                }
            });
            ends.push(ranks.len());
        })?;
        let values = take(&self.codes.values(&ranked.codes, None)?, &UInt32Array::from(ranks), None)?;
        listed(values, counted.then_some(counts), &ends)
    }
}

/// What is said where a value is retracted that is not there.
fn unmatched<T>() -> Result<T> {
    Err(Error::InvalidValue(
        "weight: a row of weight -1 retracts a value that no row of weight 1 in the same window has; each retracts a row \
         that came before, or comes in the same call, with the same key, time and values"
            .into(),
    ))
}

/// Lists of values that end here and, if they are there, of counts.
fn listed(values: ArrayRef, counts: Option<Vec<u64>>, ends: &[usize]) -> Result<Vec<ArrayRef>> {
    let offsets = offsets(ends)?;
    let mut lists = vec![list(offsets.clone(), values)];
    lists.extend(counts.map(|counts| list(offsets, Arc::new(UInt64Array::from(counts)))));
    Ok(lists)
}

/// Calls `each` with counts that fit and add up to `count`.
fn in_parts(count: u64, mut each: impl FnMut(u32)) {
    let mut left = count;
    while left > 0 {
        let part = u32::try_from(left).unwrap_or(u32::MAX);
        each(part);
        left -= u64::from(part);
    }
}

/// Offsets of lists that end here.
pub(super) fn offsets(ends: &[usize]) -> Result<OffsetBuffer<i32>> {
    if let Some(end) = ends.last().filter(|&&end| i32::try_from(end).is_err()) {
        return Err(Error::Overflow(format!(
            "the lists of a batch of {} windows have {end} values; Arrow's lists hold {}",
            ends.len(),
            i32::MAX
        )));
    }
    Ok(OffsetBuffer::new(std::iter::once(0).chain(ends.iter().map(|&end| end as i32)).collect()))
}

/// Lists of these values.
pub(super) fn list(offsets: OffsetBuffer<i32>, values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Arc::new(ListArray::new(field, offsets, values, None))
}

impl<C: Codes> Partials for Multiset<C> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Holistic).inverted(true)
    }

    fn run_nodes(&self) -> Option<Box<dyn RunNodes>> {
        C::ORDERED.then(|| Box::new(nodes::Nodes::new(self.codes.emptied(), self.poll)) as Box<dyn RunNodes>)
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values] = columns(inputs)?;
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let codes = self.codes.read(values)?;
        let entries = self.entries();
        entries.len = len;
        match nulls {
            None => {
                if let Some(counts) = &mut entries.counts {
                    counts.resize(counts.len() + codes.len(), 1);
                }
                entries.slots.extend_from_slice(rows.slots);
                entries.codes.extend(codes);
            }
            Some(nulls) => nulls.valid_indices().for_each(|row| entries.push(rows.slots[row], codes[row], 1)),
        }
        self.compact()
    }

    /// Lists of distinct values, and lists of how often each occurs.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, counts] = columns(state)?;
        let list = DataType::List(Arc::new(Field::new_list_field(plain(self.codes.output()).clone(), true)));
        let values = cast_to(values, &list)?;
        let counts =
            cast_to(counts, &DataType::List(Arc::new(Field::new_list_field(DataType::UInt64, true))))?;
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        let codes = self.codes.read(values.values())?;
        let how_often = counts.values().as_primitive::<UInt64Type>();
        let total = how_often.values().iter().fold(0u64, |total, &count| total.saturating_add(count));
        if total > MOST_COUNTED {
            return Err(Error::InvalidValue(format!(
                "a multiset of {total} values; one has {MOST_COUNTED} at most"
            )));
        }
        let entries = self.entries();
        entries.len = len;
        for (row, &slot) in rows.slots.iter().enumerate() {
            if values.is_null(row) {
                continue;
            }
            let from = values.value_offsets()[row] as usize;
            let others = counts.value_offsets()[row] as usize;
            if values.value_length(row) != counts.value_length(row) {
                return Err(Error::InvalidValue(format!(
                    "a multiset of {} distinct values and {} counts of them; each has one",
                    values.value_length(row),
                    counts.value_length(row)
                )));
            }
            for at in 0..values.value_length(row) as usize {
                in_parts(how_often.value(others + at), |count| entries.push(slot, codes[from + at], count));
            }
        }
        self.compact()
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let mut other = other.into_alike::<Self>();
        other.entries();
        let Held::Rows(mut theirs) = other.held else { unreachable!("they were made rows") };
        self.codes.adopt(other.codes, theirs.codes.iter_mut());
        if !matches!(self.held, Held::Rows(_)) {
            self.entries();
        }
        let Held::Rows(own) = &mut self.held else { unreachable!("they were made rows") };
        if let Some(index) = own.index.get_mut() {
            index.append(theirs.index());
        }
        let (base, rows) = (own.len as u32, own.codes.len());
        if own.counts.is_some() || theirs.counts.is_some() {
            let counts = own.counts.get_or_insert_with(|| vec![1; rows]);
            counts.extend(theirs.counts.unwrap_or_else(|| vec![1; theirs.codes.len()]));
        }
        own.slots.extend(theirs.slots.iter().map(|slot| base + slot));
        own.codes.extend(theirs.codes);
        own.len += theirs.len;
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(Self::new(self.codes.emptied(), self.poll))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        Ok(Box::new(self.with(Held::Ranked(Arc::new(self.ranked(slots, groups)?)))))
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let ranked = match &self.held {
            Held::Ranked(ranked) => ranked.clone(),
            _ => {
                let slots: Vec<u32> = (0..self.len() as u32).collect();
                Arc::new(self.ranked(&slots, &slots)?)
            }
        };
        Ok(Box::new(
            self.with(Held::View(ranked, ranges.iter().map(|(lo, hi)| (lo as u32, hi as u32)).collect())),
        ))
    }

    fn subtracts(&self) -> bool {
        true
    }

    /// O(n log n) for n values of both.
    fn without(&self, lost: &dyn Partials, left: &[bool]) -> Result<Box<dyn Partials>> {
        let lost: &Self = lost.alike();
        let as_rows = |sets: &Self| {
            let mut entries = Entries::new();
            entries.len = sets.len();
            (0..entries.len)
                .for_each(|slot| sets.visit(slot, |code, count| entries.push(slot as u32, code, count)));
            sets.with(Held::Rows(entries))
        };
        // In one column, equal values have equal codes.
        let mut both = as_rows(self);
        both.append(Box::new(as_rows(lost)));
        let mut rest = Entries::new();
        rest.len = left.len();
        for slot in (0..left.len()).filter(|&slot| left[slot]) {
            for (key, count) in both.difference(slot, left.len())? {
                in_parts(count, |count| rest.push(slot as u32, both.codes.of_key(key), count));
            }
        }
        Ok(Box::new(both.with(Held::Rows(rest))))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        self.lists(true)
    }

    /// The distinct values, ascending.
    fn lower(&self) -> Result<ArrayRef> {
        Ok(self.lists(false)?.remove(0))
    }

    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        if what == Upkeep::Shrink {
            self.entries();
            if let Held::Rows(entries) = &mut self.held {
                let live = entries.codes.len();
                self.codes.keep_up(what, live, entries.codes.iter_mut())?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let ranked =
            |ranked: &Ranked<C::Key>| ranked.runs.bytes() + ranked.codes.capacity() * size_of::<C::Key>();
        let held = match &self.held {
            Held::Rows(entries) => entries.bytes(),
            Held::Ranked(runs) => ranked(runs),
            Held::View(runs, ranges) => ranked(runs) + ranges.capacity() * size_of::<(u32, u32)>(),
            Held::Merged { runs, offsets } => {
                runs.iter().map(|run| run.bytes()).sum::<usize>() + offsets.capacity() * size_of::<usize>()
            }
        };
        held + self.codes.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::never;
    use arrow_array::Int64Array;
    use proptest::prelude::*;

    proptest! {
        /// Counting rows from time to time, as there are too many, gives the same results.
        #[test]
        fn compaction_changes_nothing(batches in prop::collection::vec(prop::collection::vec((0u32..5, 0i64..6), 1..20), 1..12)) {
            let mut often = Multiset::new(Words::new(&DataType::Int64), never);
            let mut never = Multiset::new(Words::new(&DataType::Int64), never);
            for batch in &batches {
                // Earlier than in production, so that it happens at all.
                often.compact_at = 7;
                let slots: Vec<u32> = batch.iter().map(|row| row.0).collect();
                let times = vec![0; batch.len()];
                let values: ArrayRef = Arc::new(Int64Array::from_iter_values(batch.iter().map(|row| row.1)));
                for sets in [&mut often, &mut never] {
                    sets.update(std::slice::from_ref(&values), Rows { sparse: true, ..Rows::all(&slots, &times) }, 5).unwrap();
                }
            }
            let rows: usize = batches.iter().map(Vec::len).sum();
            if let (Held::Rows(few), Held::Rows(all)) = (&often.held, &never.held) {
                prop_assert!(few.codes.len() <= 30 + 7 && all.codes.len() == rows);
            }
            prop_assert_eq!(&often.state().unwrap(), &never.state().unwrap());
            let mut windows = Ranges::default();
            (0..4).for_each(|slot| windows.push(slot, slot + 2));
            for statistic in [Statistic::Mode, Statistic::Distinct, Statistic::Quantile(0.4), Statistic::Top(2), Statistic::Frequent(0.3)] {
                let of = |sets: &Multiset<Words>| evaluate(&*sets.answer(&windows).unwrap(), statistic, &DataType::Int64).unwrap();
                prop_assert_eq!(&of(&often), &of(&never));
            }
        }
    }
}
