//! Rows as they came, and the same rows in order: by key, by time, and as they arrived.
//!
//! | | |
//! |---|---|
//! | needs | all rows, in any order |
//! | time | O(rows) to order them by key, O(n log n) where a key's rows are out of order |
//! | space | the input columns that are read, unchanged; a number and a time a row |
//! | first appeared | a counting sort by key, then a sort of each key's rows: nothing new |

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;

use super::numbered::NumberedKeys;
use super::parts::{CHUNK_ROWS, Timed, each};
use super::plan::Plan;
use super::spread::{Spreading, of_keys};
use crate::aggregate::{Input, Partials, Rows};
use crate::dictionary::{compared, widened};
use crate::interrupt::check;
use crate::poll::sort_unstable;
use crate::select::{concat, interleave, take};
use crate::slice::KeyOrder;
use crate::{Error, Result};

/// Largest number of bytes in a column of a part, so that 32-bit offsets suffice.
const PART_BYTES: usize = i32::MAX as usize;

/// Rows as they arrived, with their keys.
pub(super) struct Gathered {
    plan: Arc<Plan>,
    /// Positions of the columns of parts.
    read: Vec<usize>,
    keys: NumberedKeys,
    parts: Vec<Part>,
    rows: usize,
}

/// Some rows that arrived one after the other.
struct Part {
    ids: Vec<u32>,
    times: ScalarBuffer<i64>,
    columns: Vec<ArrayRef>,
}

/// All rows, to be read a block of keys at a time.
pub(super) struct Ordered {
    plan: Arc<Plan>,
    read: Vec<usize>,
    parts: Vec<Part>,
    /// Number of the first row of each part.
    firsts: Vec<usize>,
}

/// The rows of some keys, in order.
pub(super) struct InOrder {
    /// Where the rows of each key end, after a 0.
    pub(super) ends: Vec<usize>,
    /// Their times.
    pub(super) times: Vec<i64>,
    /// Their numbers, in the order of arrival.
    pub(super) rows: Vec<u32>,
}

impl Gathered {
    /// No rows.
    pub(super) fn new(plan: Arc<Plan>) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        let keys = NumberedKeys::new(types.collect(), Spreading::DEFAULT)?;
        Ok(Self { read: plan.read(), plan, keys, parts: Vec::new(), rows: 0 })
    }

    /// Adds rows, on up to `threads` threads.
    pub(super) fn push(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if self.rows >= u32::MAX as usize {
            return Err(Error::InvalidValue(format!(
                "data: more than {} rows to sort in one process; aggregate in parts, or in Spark",
                u32::MAX
            )));
        }
        let (plan, read) = (&self.plan, &self.read);
        let mut read_parts: Vec<(&RecordBatch, Option<(Part, RecordBatch)>)> =
            batches.iter().map(|batch| (batch, None)).collect();
        each(read_parts.iter_mut().collect(), threads, |(batch, part)| {
            *part = Some(Part::of(plan, read, batch)?);
            Ok(())
        })?;
        let (mut parts, keys): (Vec<Part>, Vec<RecordBatch>) =
            read_parts.into_iter().filter_map(|(_, part)| part).unzip();
        let mut numbers = self.keys.number(&keys, threads)?.into_iter();
        parts.iter_mut().for_each(|part| part.ids = numbers.by_ref().take(part.times.len()).collect());
        self.parts.append(&mut parts);
        Ok(())
    }

    /// The keys, the rows, and their order by key.
    pub(super) fn finish(mut self) -> Result<(NumberedKeys, Ordered, KeyOrder)> {
        settle(&self.keys, &mut self.parts)?;
        let (ordered, order) = Ordered::of(self.plan, self.read, self.parts, self.keys.len())?;
        Ok((self.keys, ordered, order))
    }

    /// These rows and others, each in their order by the keys of both.
    pub(super) fn finish_with(mut self, mut other: Self) -> Result<[(Ordered, KeyOrder); 2]> {
        settle(&other.keys, &mut other.parts)?;
        let has_nulls = |keys: &NumberedKeys| keys.types().contains(&DataType::Null);
        if has_nulls(&self.keys) || has_nulls(&other.keys) {
            settle(&self.keys, &mut self.parts)?;
            // Nulls without a type are keys of the other's.
            let kinds = self.keys.types().iter().zip(other.keys.types());
            let kinds: Vec<_> = kinds.filter_map(|(own, its)| compared(own, its)).collect();
            let mut keys = NumberedKeys::new(kinds.clone(), Spreading::DEFAULT)?;
            for gathered in [&mut self, &mut other] {
                let columns = gathered.keys.values()?.into_iter().zip(&kinds);
                let columns = columns.map(|(column, kind)| cast(&column, kind));
                let columns: Vec<ArrayRef> = columns.collect::<std::result::Result<_, _>>()?;
                let translate = keys.number(&[of_keys(columns, gathered.keys.len())?], 1)?;
                renumber(&mut gathered.parts, &translate)?;
            }
            self.keys = keys;
        } else {
            renumber(&mut other.parts, &self.keys.absorb(&other.keys)?)?;
        }
        settle(&self.keys, &mut self.parts)?;
        settle(&self.keys, &mut other.parts)?;
        let own = Ordered::of(self.plan, self.read, self.parts, self.keys.len())?;
        Ok([own, Ordered::of(other.plan, other.read, other.parts, self.keys.len())?])
    }
}

/// Gives the keys of rows the numbers that theirs have elsewhere.
fn renumber(parts: &mut [Part], translate: &[u32]) -> Result<()> {
    for part in parts {
        check()?;
        part.ids.iter_mut().for_each(|id| *id = translate[*id as usize]);
    }
    Ok(())
}

/// See [`NumberedKeys::settle`].
fn settle(keys: &NumberedKeys, parts: &mut [Part]) -> Result<()> {
    for part in parts {
        check()?;
        keys.settle(&mut part.ids);
    }
    Ok(())
}

impl Part {
    /// The rows of a batch, whose keys have no numbers yet, and these.
    fn of(plan: &Plan, read: &[usize], batch: &RecordBatch) -> Result<(Self, RecordBatch)> {
        let batch = Timed::of(plan, batch)?;
        let times = batch.checked_times()?;
        let keys = of_keys(batch.keys()?, times.len())?;
        let columns = read.iter().map(|&position| batch.column(position)).collect::<Result<_>>()?;
        Ok((Self { ids: Vec::new(), times, columns }, keys))
    }

    /// Whether the rows of the other part can be appended to the same arrays.
    fn takes(&self, other: &Self) -> bool {
        self.columns.iter().zip(&other.columns).all(|(own, other)| {
            match (own.as_any_dictionary_opt(), other.as_any_dictionary_opt()) {
                // Dictionaries are not concatenated: their code type may be too narrow for all values.
                (Some(own), Some(other)) => {
                    Arc::ptr_eq(own.values(), other.values())
                        || own.values().to_data().ptr_eq(&other.values().to_data())
                }
                _ => !holds_dictionary(own.data_type()),
            }
        })
    }

    /// The number of bytes in the largest column of variable width.
    fn bytes(&self) -> usize {
        let wide = self.columns.iter().filter(|column| column.data_type().primitive_width().is_none());
        wide.map(|column| column.to_data().get_slice_memory_size().unwrap_or(PART_BYTES)).max().unwrap_or(0)
    }
}

pub(super) fn holds_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_dictionary(field.data_type())),
        DataType::RunEndEncoded(_, values) => holds_dictionary(values.data_type()),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| holds_dictionary(field.data_type())),
        _ => false,
    }
}

/// Merges neighbouring parts where possible, so that rows are taken from one array.
fn joined(parts: Vec<Part>) -> Result<Vec<Part>> {
    let mut groups: Vec<(usize, Vec<Part>)> = Vec::new();
    for part in parts {
        let bytes = part.bytes();
        match groups.last_mut() {
            Some((held, group)) if *held + bytes < PART_BYTES && group[0].takes(&part) => {
                *held += bytes;
                group.push(part);
            }
            _ => groups.push((bytes, vec![part])),
        }
    }
    let join = |(_, mut group): (usize, Vec<Part>)| {
        if group.len() == 1 {
            return Ok(group.remove(0));
        }
        let columns = (0..group[0].columns.len()).map(|at| {
            check()?;
            let arrays: Vec<&dyn Array> = group.iter().map(|part| part.columns[at].as_ref()).collect();
            Ok(concat(&arrays)?)
        });
        Ok(Part {
            columns: columns.collect::<Result<_>>()?,
            ids: group.iter().flat_map(|part| &part.ids).copied().collect(),
            times: group.iter().flat_map(|part| &part.times[..]).copied().collect(),
        })
    };
    groups.into_iter().map(join).collect()
}

impl Ordered {
    /// The rows of these parts, and their order by key.
    fn of(
        plan: Arc<Plan>,
        read: Vec<usize>,
        mut parts: Vec<Part>,
        key_count: usize,
    ) -> Result<(Self, KeyOrder)> {
        parts.retain(|part| !part.ids.is_empty());
        let parts = joined(parts)?;
        let by_key = parts.iter().map(|part| (&part.ids[..], &part.times[..]));
        let order = KeyOrder::of(by_key, key_count, check)?;
        let mut firsts = vec![0];
        for part in &parts {
            firsts.push(firsts[firsts.len() - 1] + part.ids.len());
        }
        firsts.pop();
        Ok((Self { plan, read, parts, firsts }, order))
    }

    /// What the rows are aggregated by.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The rows of keys `from..to`, in order. O(rows) where each key's rows already ascend, else O(n log n).
    pub(super) fn sorted(&self, order: &KeyOrder, from: usize, to: usize) -> Result<InOrder> {
        let base = order.bounds[from];
        let mut rows = order.slots[base..order.bounds[to]].to_vec();
        let ends: Vec<usize> = order.bounds[from..=to].iter().map(|bound| bound - base).collect();
        for own in ends.windows(2) {
            let own = &mut rows[own[0]..own[1]];
            if !own.is_sorted_by_key(|&(time, _)| time) {
                sort_unstable(own, check)?;
            }
        }
        let times: Vec<i64> = rows.iter().map(|&(time, _)| time).collect();
        let rows: Vec<u32> = rows.into_iter().map(|(_, row)| row).collect();
        Ok(InOrder { ends, times, rows })
    }

    /// The rows of a column, in order, as one array; dictionaries with codes of 32 bits.
    pub(super) fn gathered(&self, position: usize, rows: &[u32]) -> Result<ArrayRef> {
        let at = self.read.binary_search(&position).expect("a plan's windows are among what it reads");
        let wanted = widened(self.plan.input().field(position).data_type());
        let arrays = self.parts.iter().map(|part| match part.columns[at].data_type() == &wanted {
            true => Ok(part.columns[at].clone()),
            false => cast(&part.columns[at], &wanted),
        });
        let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
        if let [only] = &arrays[..] {
            return picked(only, rows);
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let places: Vec<(usize, usize)> = rows.iter().map(|&row| self.place(row)).collect();
        Ok(interleave(&arrays, &places)?)
    }

    /// Part of a row, and its place there.
    fn place(&self, row: u32) -> (usize, usize) {
        let part = self.firsts.partition_point(|&first| first <= row as usize) - 1;
        (part, row as usize - self.firsts[part])
    }

    /// Rows folded into slices, and how many of these there are.
    pub(super) fn fold(
        &self,
        rows: &[u32],
        slices: &[u32],
        times: &[i64],
    ) -> Result<(Vec<Box<dyn Partials>>, usize)> {
        let count = slices.last().map_or(0, |&last| last as usize + 1);
        let mut partials = self.plan.empty_partials()?;
        if let [only] = &self.parts[..] {
            self.feed(only, rows, Rows::all(slices, times), count, &mut partials)?;
            return Ok((partials, count));
        }
        // Part by part: what functions compute depends on the rows' times and, where these are equal, on the order of
        // arrival.
        let mut of_part = vec![(Vec::new(), Vec::new(), Vec::new()); self.parts.len()];
        for ((&row, &slice), &time) in rows.iter().zip(slices).zip(times) {
            let (part, at) = self.place(row);
            let (own, into, when) = &mut of_part[part];
            own.push(at as u32);
            into.push(slice);
            when.push(time);
        }
        for (part, (rows, slices, times)) in self.parts.iter().zip(&of_part) {
            self.feed(part, rows, Rows { slots: slices, times, sparse: true }, count, &mut partials)?;
        }
        Ok((partials, count))
    }

    /// Folds rows of a part into `count` slices.
    fn feed(
        &self,
        part: &Part,
        rows: &[u32],
        into: Rows<'_>,
        count: usize,
        partials: &mut [Box<dyn Partials>],
    ) -> Result<()> {
        let at = |position: &usize| self.read.binary_search(position).expect("a plan's inputs are read");
        for from in (0..rows.len().max(1)).step_by(CHUNK_ROWS) {
            if from > 0 {
                check()?;
            }
            let chunk = from..rows.len().min(from + CHUNK_ROWS);
            let mut taken: Vec<Option<ArrayRef>> = vec![None; self.read.len()];
            let mut column = |position: &usize| -> Result<ArrayRef> {
                let at = at(position);
                if taken[at].is_none() {
                    taken[at] = Some(picked(&part.columns[at], &rows[chunk.clone()])?);
                }
                Ok(taken[at].clone().expect("it was taken"))
            };
            let inputs = self.plan.partials().iter().map(|stored| stored.input(|position| column(&position)));
            let inputs = inputs.collect::<Result<Vec<Input>>>()?;
            let slots = &into.slots[chunk.clone()];
            // Slices ascend and have no gaps, so their number so far is that of the last row's slice plus one.
            let len = if into.sparse { count } else { slots.last().map_or(count, |&last| last as usize + 1) };
            let own = Rows { slots, times: &into.times[chunk.clone()], sparse: into.sparse };
            for (partials, input) in partials.iter_mut().zip(&inputs) {
                input.feed(&mut **partials, own, len)?;
            }
        }
        Ok(())
    }
}

/// The values of `array` at these places: a view of it where they are consecutive.
fn picked(array: &ArrayRef, rows: &[u32]) -> Result<ArrayRef> {
    match rows {
        [] => Ok(array.slice(0, 0)),
        [first, ..] if rows.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) => {
            Ok(array.slice(*first as usize, rows.len()))
        }
        _ => Ok(take(array, &UInt32Array::from(rows.to_vec()), None)?),
    }
}
