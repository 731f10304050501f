//! Windows that need a key's rows in order: by rank, by punctuation, over two measures, users' own.
//!
//! | | |
//! |---|---|
//! | needs | all rows, in any order |
//! | time | O(rows) to order them by key, O(n log n) where a key's rows are out of order; then O(rows + windows) |
//! | space | the input columns that are read, unchanged; rows in order, slices and windows by rows of one block of keys |
//! | first appeared | slices over several measures: Carbone et al., *Cutty*, CIKM 2016; Traub et al. 2019, §4.3 and §5.1 |
//!
//! Every window is a range of ranks ([`crate::window::Window::list`]), however it is defined. So all windows by rows of
//! a query are listed over a key's sorted rows, slices are cut only where such a window begins or ends and at the edges
//! of windows by time, rows are folded into slices once, and windows are computed from slices by the same kernels as
//! everywhere else: a row is aggregated once, however many windows contain it. There are no more windows by rows than
//! rows, unless a user's own are; windows by time may be any number, and are listed over the slices as they are read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use super::output::Windows;
use super::parts::{CHUNK_ROWS, Timed, check_times, share_out};
use super::plan::Plan;
use crate::aggregate::{Input, Partials, Rows};
use crate::dictionary::widened;
use crate::interrupt::{Pace, check, copied, sort_unstable};
use crate::keys::KeyIndex;
use crate::slice::{Edges, KeyOrder, SliceTable};
use crate::window::{KeyRows, Listed};
use crate::{Error, Result};

/// Largest number of bytes in a column of a part, so that 32-bit offsets suffice.
const PART_BYTES: usize = i32::MAX as usize;

/// Rows as they arrived, with their keys.
pub(super) struct Gathered {
    plan: Arc<Plan>,
    /// Positions of the columns of parts.
    read: Vec<usize>,
    keys: KeyIndex,
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

/// The windows by rows of some keys, as ranges of slices.
pub(super) struct RankedLists {
    first_key: usize,
    /// First row of each key, by its place in the block.
    first_rows: Vec<usize>,
    /// Slice of each row, and of the place after the last.
    slice_of: Vec<u32>,
    lists: Vec<List>,
    /// How far the lists have been read.
    list: usize,
    at: usize,
}

/// Windows of one type whose ends never decrease, by places of rows in the block.
struct List {
    window: usize,
    keys: Vec<u32>,
    windows: Vec<Listed>,
}

impl Gathered {
    /// No rows.
    pub(super) fn new(plan: Arc<Plan>) -> Result<Self> {
        let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
        let keys = KeyIndex::new(types.collect())?;
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
        let plan = &self.plan;
        let read = &self.read;
        let (keys, parts) = (&mut self.keys, &mut self.parts);
        let others = share_out(
            batches,
            threads,
            |own| {
                for batch in own {
                    parts.push(Part::of(plan, read, batch, keys)?);
                }
                Ok(())
            },
            |own| {
                let mut keys = Self::new(plan.clone())?.keys;
                let parts: Result<Vec<Part>> =
                    own.iter().map(|batch| Part::of(plan, read, batch, &mut keys)).collect();
                Ok((keys, parts?))
            },
        )?;
        for (keys, parts) in others {
            check()?;
            let translate = self.keys.absorb(&keys)?;
            for mut part in parts {
                check()?;
                part.ids.iter_mut().for_each(|id| *id = translate[*id as usize]);
                self.parts.push(part);
            }
        }
        Ok(())
    }

    /// The keys, the rows, and their order by key.
    pub(super) fn finish(mut self) -> Result<(KeyIndex, Ordered, KeyOrder)> {
        self.parts.retain(|part| !part.ids.is_empty());
        let parts = joined(self.parts)?;
        let columns = parts.iter().map(|part| (&part.ids[..], &part.times[..]));
        let order = KeyOrder::of(columns, self.keys.len());
        let mut firsts = vec![0];
        for part in &parts {
            firsts.push(firsts[firsts.len() - 1] + part.ids.len());
        }
        firsts.pop();
        Ok((self.keys, Ordered { plan: self.plan, read: self.read, parts, firsts }, order))
    }
}

impl Part {
    fn of(plan: &Plan, read: &[usize], batch: &RecordBatch, keys: &mut KeyIndex) -> Result<Self> {
        let batch = Timed::of(plan, batch)?;
        let times = batch.times()?;
        check_times(plan, &times)?;
        let mut ids = Vec::with_capacity(times.len());
        keys.assign_all(&batch.keys()?, times.len(), &mut ids)?;
        let columns = read.iter().map(|&position| batch.column(position)).collect::<Result<_>>()?;
        Ok(Self { ids, times, columns })
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

fn holds_dictionary(data_type: &DataType) -> bool {
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
            ids: group.iter().flat_map(|part| part.ids.iter().copied()).collect(),
            times: group.iter().flat_map(|part| part.times.iter().copied()).collect::<Vec<i64>>().into(),
        })
    };
    groups.into_iter().map(join).collect()
}

impl Ordered {
    /// The slices of keys `from..to`, and their windows by rows.
    pub(super) fn block(
        &self,
        order: &KeyOrder,
        from: usize,
        to: usize,
    ) -> Result<(SliceTable, RankedLists)> {
        let base = order.bounds[from];
        let mut rows = copied(&order.slots[base..order.bounds[to]]);
        let ends: Vec<usize> = order.bounds[from..=to].iter().map(|bound| bound - base).collect();
        for own in ends.windows(2) {
            let own = &mut rows[own[0]..own[1]];
            if !own.is_sorted_by_key(|&(time, _)| time) {
                sort_unstable(own);
            }
        }
        let times: Vec<i64> = rows.iter().map(|&(time, _)| time).collect();
        let rows: Vec<u32> = rows.into_iter().map(|(_, row)| row).collect();
        let (lists, mut cut) = self.list(from, &ends, &times, &rows)?;
        cut_by_time(self.plan.edges(), &ends, &times, &mut cut);
        let mut slice = 0;
        let slice_of: Vec<u32> = cut
            .iter()
            .enumerate()
            .map(|(row, is_cut)| {
                slice += u32::from(*is_cut && row > 0);
                slice
            })
            .collect();
        let (partials, count) = self.fold(&rows, &slice_of[..rows.len()], &times)?;
        let (mut keys, mut firsts, mut lasts) =
            (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
        for (key, own) in ends.windows(2).enumerate() {
            for row in own[0]..own[1] {
                if cut[row] {
                    keys.push((from + key) as u32);
                    firsts.push(times[row]);
                }
                if cut[row + 1] {
                    lasts.push(times[row]);
                }
            }
        }
        // Each slice is its own group: the partials themselves sort their contents.
        let groups: Vec<u32> = (0..count as u32).collect();
        let partials = partials.iter().map(|partials| partials.regroup(&groups, &groups));
        let slices = SliceTable::from_parts(keys, firsts, Some(lasts), partials.collect::<Result<_>>()?);
        Ok((slices, RankedLists { first_key: from, first_rows: ends, slice_of, lists, list: 0, at: 0 }))
    }

    /// The windows by rows of the keys from `from` on, whose rows end at `ends`, and the rows before which they begin or
    /// end.
    fn list(
        &self,
        from: usize,
        ends: &[usize],
        times: &[i64],
        rows: &[u32],
    ) -> Result<(Vec<List>, Vec<bool>)> {
        let mut lists = Vec::new();
        let mut cut = vec![false; times.len() + 1];
        let mut listed = Vec::new();
        let mut pace = Pace::new();
        for (number, (_, window)) in self.plan.windows().iter().enumerate() {
            let Some(by_rows) = window.by_rows() else { continue };
            let columns = window.columns().into_iter().map(|column| self.gathered(column, rows));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let first = lists.len();
            for (place, own) in ends.windows(2).enumerate() {
                let (lo, hi) = (own[0], own[1]);
                let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(lo, hi - lo)).collect();
                listed.clear();
                pace.check(hi - lo)?;
                by_rows.list(&KeyRows { times: &times[lo..hi], columns: &columns }, &mut listed)?;
                for window in &mut listed {
                    pace.check(1)?;
                    (window.lo, window.hi) = (window.lo + lo as u32, window.hi + lo as u32);
                    cut[window.lo as usize] = true;
                    cut[window.hi as usize] = true;
                }
                place_in(&mut lists, first, number, (from + place) as u32, &mut listed);
            }
        }
        Ok((lists, cut))
    }

    /// The rows of a column, in order, as one array; dictionaries with codes of 32 bits.
    fn gathered(&self, position: usize, rows: &[u32]) -> Result<ArrayRef> {
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
    fn fold(&self, rows: &[u32], slices: &[u32], times: &[i64]) -> Result<(Vec<Box<dyn Partials>>, usize)> {
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
            let inputs = self.plan.partials().iter().map(|stored| {
                let filter = stored.filter.as_ref().map(&mut column).transpose()?;
                let columns = stored.inputs.iter().map(&mut column).collect::<Result<_>>()?;
                Ok(Input { columns, taken: filter.map(|filter| filter.as_boolean().clone()) })
            });
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

/// Cuts slices at the edges of windows by time, and between keys, whose rows end at `ends`.
fn cut_by_time(edges: &Edges, ends: &[usize], times: &[i64], cut: &mut [bool]) {
    let has_gap = edges.gap().is_some();
    for own in ends.windows(2) {
        let (mut last, mut end) = (0, i64::MIN);
        for row in own[0]..own[1] {
            let time = times[row];
            if time >= end || (has_gap && !edges.within_gap(last, time)) {
                cut[row] = true;
                end = edges.slice_of(time).1;
            }
            last = time;
        }
        cut[own[1]] = true;
    }
}

/// Adds the windows of a key to lists of their type in which ends never decrease: usually a single list.
///
/// Each window goes to the list whose last end is the nearest before its own, so that there are as few lists as
/// possible: as many as windows are nested in each other (Dilworth 1950). O(n log n) if windows are out of order or
/// nested, else O(n).
fn place_in(lists: &mut Vec<List>, first: usize, window: usize, key: u32, listed: &mut [Listed]) {
    let in_order = |pair: &[Listed]| pair[0].lo <= pair[1].lo && pair[0].hi <= pair[1].hi;
    let new = || List { window, keys: Vec::new(), windows: Vec::new() };
    if listed.windows(2).all(in_order) {
        if lists.len() == first && !listed.is_empty() {
            lists.push(new());
        }
        if let Some(list) = lists.get_mut(first) {
            list.keys.resize(list.keys.len() + listed.len(), key);
            list.windows.extend_from_slice(listed);
        }
        return;
    }
    listed.sort_unstable_by_key(|window| (window.lo, window.hi));
    // Last ends of this key's lists from `first` on: they descend, as each list is the first that accepted a window.
    let mut last: Vec<u32> = Vec::new();
    for &each in listed.iter() {
        let at = last.partition_point(|&end| end > each.hi);
        match last.get_mut(at) {
            Some(end) => *end = each.hi,
            None => last.push(each.hi),
        }
        if lists.len() == first + at {
            lists.push(new());
        }
        lists[first + at].keys.push(key);
        lists[first + at].windows.push(each);
    }
}

impl RankedLists {
    /// How many windows there are of each number.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.lists.iter().map(|list| (list.window, list.windows.len()))
    }

    /// Some of the remaining windows with this number, if there are any.
    pub(super) fn next(&mut self, window: usize, most: usize, with_ranks: bool) -> Option<Windows> {
        let list = loop {
            let list = self.lists.get(self.list).filter(|list| list.window == window)?;
            if self.at < list.windows.len() {
                break list;
            }
            (self.list, self.at) = (self.list + 1, 0);
        };
        let range: Range<usize> = self.at..list.windows.len().min(self.at + most);
        self.at = range.end;
        let mut windows = Windows::with_capacity(range.len());
        for (&key, window) in list.keys[range.clone()].iter().zip(&list.windows[range]) {
            let slice = |row: u32| self.slice_of[row as usize] as usize;
            windows.push(key, (window.start, window.end), slice(window.lo), slice(window.hi));
            if with_ranks {
                let first = self.first_rows[key as usize - self.first_key] as i64;
                windows.push_ranks((i64::from(window.lo) - first, i64::from(window.hi) - first));
            }
        }
        Some(windows)
    }
}
