//! The rows that are held, of a side of a join for instance: by key, in order of time.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef};

use super::agenda::{Agenda, Item};
use super::entry::{Address, Entry};
use super::timeline::{Spare, Timeline};
use crate::aggregate::held_bytes;
use crate::interrupt::{Pace, check};
use crate::poll::{sort_by_key, sort_unstable};
use crate::select::interleave;
use crate::state::broken;
use crate::{Error, Result};

/// Chunks are joined once there are more of them than this, and one more for as many rows.
const CHUNKS: usize = 256;

/// Columns of rows that came together.
#[derive(Debug)]
pub(in crate::operator) struct Chunk {
    pub(in crate::operator) columns: Vec<ArrayRef>,
    pub(in crate::operator) rows: usize,
    /// How many entries point to it.
    live: usize,
}

/// Rows that a step adds.
#[derive(Debug)]
pub(in crate::operator) struct New {
    pub(in crate::operator) chunk: Chunk,
    /// With their keys, by key, place and arrival.
    entries: Vec<(u32, Entry)>,
    /// The rows by place.
    items: Vec<Item>,
}

/// Stretches of timelines that a step has passed.
#[derive(Default)]
pub(in crate::operator) struct Passed(HashMap<(u32, usize), usize>);

impl Passed {
    /// The first number from `at` on that was not passed.
    fn end(&mut self, key: u32, at: usize) -> usize {
        let mut end = at;
        while let Some(&next) = self.0.get(&(key, end)) {
            end = next;
        }
        // All of the way leads there now, so that it is gone once.
        let mut from = at;
        while from < end {
            from = self.0.insert((key, from), end).unwrap_or(end);
        }
        end
    }
}

/// Stored rows.
#[derive(Debug, Default)]
pub(in crate::operator) struct Store {
    timelines: Vec<Timeline>,
    /// Room that they have for the rows of a step.
    spare: Spare,
    /// How many rows of each timeline have had a partner.
    met: Vec<u32>,
    chunks: Vec<Option<Chunk>>,
    pub(in crate::operator) agenda: Agenda,
    entries: usize,
    /// Rows of all chunks, those that no entry points to included.
    held: usize,
}

impl New {
    /// Rows of these columns, with their keys.
    pub(in crate::operator) fn of(
        columns: Vec<ArrayRef>,
        rows: usize,
        mut entries: Vec<(u32, Entry)>,
    ) -> Result<Self> {
        let item = |&(key, Entry { place, order, .. }): &(u32, Entry)| Item { place, order, key };
        let mut items: Vec<Item> = entries.iter().map(item).collect();
        sort_unstable(&mut items, check)?;
        sort_by_key(&mut entries, |(key, entry)| (*key, entry.rank()), check)?;
        Ok(Self { chunk: Chunk { columns, rows, live: entries.len() }, entries, items })
    }
}

impl Store {
    /// The number of the chunk that is added next.
    pub(in crate::operator) fn next_chunk(&self) -> usize {
        self.chunks.len()
    }

    /// Rows of a key at some places, with their numbers in its timeline.
    pub(in crate::operator) fn within(
        &self,
        key: u32,
        (first, last): (i64, i64),
    ) -> impl Iterator<Item = (usize, &Entry)> {
        let timeline = self.timelines.get(key as usize);
        timeline.into_iter().flat_map(move |timeline| {
            let rows = timeline.from(timeline.partition_point(|entry| entry.place < first));
            rows.take_while(move |(_, entry)| entry.place <= last)
        })
    }

    /// Visits the rows of a key at some places that have had no partner and were not visited with the same `passed`.
    /// Rows are passed once, however often this is called.
    ///
    /// # Errors
    /// Errors of `visit`, which is called for those that are passed, too, with none.
    pub(in crate::operator) fn unmet(
        &self,
        key: u32,
        (first, last): (i64, i64),
        passed: &mut Passed,
        mut visit: impl FnMut(Option<(usize, &Entry)>) -> Result<()>,
    ) -> Result<()> {
        let Some(timeline) = self.timelines.get(key as usize) else { return Ok(()) };
        let mut at = timeline.partition_point(|entry| entry.place < first);
        while timeline.get(at).is_some_and(|entry| entry.place <= last) {
            let next = passed.end(key, at);
            if next > at {
                visit(None)?;
                at = next;
                continue;
            }
            let from = at;
            while timeline.get(at).is_some_and(|entry| entry.is_met() && entry.place <= last) {
                visit(None)?;
                at = timeline.after(at);
            }
            if at == from {
                visit(timeline.get(at).map(|entry| (at, entry)))?;
                at = timeline.after(at);
            }
            passed.0.insert((key, from), at);
        }
        Ok(())
    }

    /// The stored row of an item of the agenda, with its number in its timeline, unless it was dropped before its time.
    pub(in crate::operator) fn numbered(&self, item: Item) -> Option<(usize, &Entry)> {
        entry_of(&self.timelines, item)
    }

    /// The columns of rows: stored ones, and new ones, whose chunks have the next numbers.
    pub(in crate::operator) fn rows(
        &self,
        rows: &[Address],
        columns: usize,
        new: &[Vec<ArrayRef>],
    ) -> Result<Vec<ArrayRef>> {
        let (mut chunks, mut known) = (Vec::new(), HashMap::new());
        let mut places = Vec::with_capacity(rows.len());
        for &Address { chunk, row } in rows {
            let at = *known.entry(chunk).or_insert(chunks.len());
            if at == chunks.len() {
                let new = (chunk as usize).checked_sub(self.chunks.len()).and_then(|at| new.get(at));
                chunks.push(new.map_or_else(|| self.columns(chunk), |columns| Ok(columns))?);
            }
            places.push((at, row as usize));
        }
        let column = |at: usize| {
            let arrays: Vec<&dyn Array> = chunks.iter().map(|columns| columns[at].as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        };
        (0..columns).map(column).collect()
    }

    /// The columns of a chunk.
    pub(in crate::operator) fn columns(&self, chunk: u32) -> Result<&[ArrayRef]> {
        match self.chunks.get(chunk as usize) {
            Some(Some(chunk)) => Ok(&chunk.columns),
            _ => Err(Error::Internal(format!("there is no chunk {chunk}"))),
        }
    }

    /// Makes room for rows, so that [`Store::add`] cannot fail, of so many keys in all.
    ///
    /// # Errors
    /// An interrupt.
    pub(in crate::operator) fn reserve(&mut self, new: &[New], keys: usize) -> Result<()> {
        self.timelines.reserve(keys.saturating_sub(self.timelines.len()));
        self.timelines.resize_with(keys.max(self.timelines.len()), Timeline::default);
        self.met.resize(self.timelines.len(), 0);
        self.chunks.reserve(new.len());
        self.agenda.reserve(new.iter().flat_map(|new| &new.items));
        // What is left of the rows before.
        self.spare = Spare::default();
        let mut all = Vec::new();
        let entries = match new {
            [one] => &one.entries,
            several => {
                all.extend(several.iter().flat_map(|new| &new.entries).copied());
                sort_by_key(&mut all, |(key, entry)| (*key, entry.rank()), check)?;
                &all
            }
        };
        for own in entries.chunk_by(|(key, _), (next, _)| key == next) {
            let timeline = &mut self.timelines[own[0].0 as usize];
            timeline.reserve(own, new.len() == 1, &mut self.spare);
        }
        Ok(())
    }

    /// Adds rows, whose chunks have the next numbers.
    pub(in crate::operator) fn add(&mut self, new: New) {
        let New { chunk, entries, items } = new;
        self.held += chunk.rows;
        self.entries += entries.len();
        self.chunks.push((chunk.live > 0).then_some(chunk));
        items.into_iter().for_each(|item| self.agenda.push(item));
        for own in entries.chunk_by(|(key, _), (next, _)| key == next) {
            let key = own[0].0 as usize;
            self.met[key] += own.iter().filter(|(_, entry)| entry.is_met()).count() as u32;
            self.timelines[key].extend(own, &mut self.spare);
        }
    }

    /// Notes that a stored row has so many partners now.
    pub(in crate::operator) fn meet(&mut self, key: u32, at: usize, partners: u32) {
        let Some(entry) = self.timelines[key as usize].get_mut(at) else { return };
        let met = &mut self.met[key as usize];
        *met = *met - u32::from(entry.is_met()) + u32::from(partners > 0);
        entry.met = partners;
    }

    /// The rows of a key at a place, from a number in the order of arrival on.
    pub(in crate::operator) fn at(&self, key: u32, place: i64, order: u64) -> impl Iterator<Item = &Entry> {
        let timeline = self.timelines.get(key as usize);
        timeline.into_iter().flat_map(move |timeline| {
            let rows = timeline.from(timeline.partition_point(|entry| entry.rank() < (place, order)));
            rows.map(|(_, entry)| entry).take_while(move |entry| entry.place == place)
        })
    }

    /// Removes the row of an item before its time: the agenda keeps the item.
    pub(in crate::operator) fn remove(&mut self, Item { place, order, key }: Item) {
        let timeline = &mut self.timelines[key as usize];
        let number = timeline.partition_point(|entry| entry.rank() < (place, order));
        let Some(entry) = timeline.remove(number) else { return };
        if timeline.is_empty() {
            *timeline = Timeline::default();
        }
        self.met[key as usize] -= u32::from(entry.is_met());
        self.entries -= 1;
        release(&mut self.chunks, &mut self.held, entry.at);
    }

    /// Removes the rows of a key that have a partner, once they are half of its rows: O(1) amortised for each of them.
    pub(in crate::operator) fn drop_met(&mut self, key: u32) {
        let (timeline, met) = (&mut self.timelines[key as usize], &mut self.met[key as usize]);
        if 2 * (*met as usize) < timeline.len() {
            return;
        }
        let (chunks, held, entries) = (&mut self.chunks, &mut self.held, &mut self.entries);
        timeline.retain(|entry| {
            if entry.is_met() {
                *entries -= 1;
                release(chunks, held, entry.at);
            }
            !entry.is_met()
        });
        if timeline.is_empty() {
            *timeline = Timeline::default();
        }
        *met = 0;
    }

    /// Removes the rows that the agenda has no longer.
    pub(in crate::operator) fn purge(&mut self) {
        for &Item { key, place, order } in self.agenda.popped() {
            let mut held = (&mut self.chunks, &mut self.held, &mut self.entries, &mut self.met);
            drop_up_to(&mut self.timelines, &mut held, key, (place, order));
        }
        self.agenda.keep();
    }

    /// The rows of a key from its first on that are such, which none after them is.
    ///
    /// # Errors
    /// Errors of `is_such`.
    pub(in crate::operator) fn first(
        &self,
        key: u32,
        mut is_such: impl FnMut(i64) -> Result<bool>,
    ) -> Result<Vec<Entry>> {
        let mut rows = Vec::new();
        for entry in self.timelines.get(key as usize).into_iter().flat_map(Timeline::iter) {
            if !is_such(entry.place)? {
                break;
            }
            rows.push(*entry);
        }
        Ok(rows)
    }

    /// Removes the rows of a key up to this one, before their time: the agenda keeps its items.
    pub(in crate::operator) fn drop_first(&mut self, key: u32, last: &Entry) {
        let mut held = (&mut self.chunks, &mut self.held, &mut self.entries, &mut self.met);
        drop_up_to(&mut self.timelines, &mut held, key, last.rank());
    }

    /// Joins chunks into one if there are many, or most of their rows are not needed.
    pub(in crate::operator) fn tidy(&mut self, columns: usize) -> Result<()> {
        if self.agenda.len() > 2 * self.entries + 2 * CHUNKS {
            let timelines = &self.timelines;
            self.agenda.retain(|item| entry_of(timelines, *item).is_some());
        }
        let is_scattered = self.chunks.len() > CHUNKS + self.entries / CHUNKS;
        if !is_scattered && self.held <= 2 * self.entries + 2 * CHUNKS {
            return Ok(());
        }
        self.compact(columns)
    }

    /// Frees all that belongs to no row, which is otherwise only done once that is the larger part.
    ///
    /// # Errors
    /// An interrupt, and those of memory; nothing is lost then.
    pub(in crate::operator) fn shrink(&mut self, columns: usize) -> Result<()> {
        let timelines = &self.timelines;
        self.agenda.retain(|item| entry_of(timelines, *item).is_some());
        self.agenda.shrink();
        self.spare = Spare::default();
        if self.held > self.entries { self.compact(columns) } else { Ok(()) }
    }

    /// Removes the rows of all keys but those of a sample, before their time: the agenda keeps its items.
    pub(in crate::operator) fn drop_others(&mut self, is_kept: impl Fn(u32) -> bool) {
        for key in (0..self.timelines.len() as u32).filter(|&key| !is_kept(key)) {
            let mut held = (&mut self.chunks, &mut self.held, &mut self.entries, &mut self.met);
            drop_up_to(&mut self.timelines, &mut held, key, (i64::MAX, u64::MAX));
        }
    }

    /// Joins chunks into one.
    fn compact(&mut self, columns: usize) -> Result<()> {
        let mut pace = Pace::new();
        let given = |chunk: &Option<Chunk>| vec![None; chunk.as_ref().map_or(0, |chunk| chunk.rows)];
        let mut numbers: Vec<Vec<Option<u32>>> = self.chunks.iter().map(given).collect();
        let (mut places, mut held) = (Vec::new(), Vec::new());
        let mut arrays: Vec<usize> = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            arrays.push(held.len());
            held.extend(chunk);
        }
        for entry in self.timelines.iter().flat_map(Timeline::iter) {
            pace.check(1)?;
            let number = &mut numbers[entry.at.chunk as usize][entry.at.row as usize];
            if number.is_none() {
                *number = Some(places.len() as u32);
                places.push((arrays[entry.at.chunk as usize], entry.at.row as usize));
            }
        }
        let column = |at: usize| -> Result<ArrayRef> {
            check()?;
            let arrays: Vec<&dyn Array> = held.iter().map(|chunk| chunk.columns[at].as_ref()).collect();
            Ok(interleave(&arrays, &places)?)
        };
        let joined = match places.is_empty() {
            true => Vec::new(),
            false => match (0..columns).map(column).collect() {
                Ok(columns) => {
                    vec![Some(Chunk { columns, rows: places.len(), live: self.entries })]
                }
                // Too large for one array: they stay as they are.
                Err(Error::Overflow(_)) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        for entry in self.timelines.iter_mut().flat_map(Timeline::iter_mut) {
            let number = numbers[entry.at.chunk as usize][entry.at.row as usize];
            entry.at = Address { chunk: 0, row: number.unwrap_or_default() };
        }
        (self.chunks, self.held) = (joined, places.len());
        Ok(())
    }

    /// Whether a row of the key is stored.
    pub(in crate::operator) fn has(&self, key: usize) -> bool {
        self.timelines.get(key).is_some_and(|timeline| !timeline.is_empty())
    }

    /// Room for the rows of so many keys, for [`Store::renumber`].
    pub(in crate::operator) fn room(keys: usize) -> Room {
        (Vec::with_capacity(keys), Vec::with_capacity(keys))
    }

    /// Gives keys other numbers; those of `kept`, which ascend, remain.
    pub(in crate::operator) fn renumber(
        &mut self,
        (mut timelines, mut met): Room,
        kept: &[u32],
        numbers: &[u32],
    ) {
        for &key in kept {
            timelines.push(self.timelines.get_mut(key as usize).map(std::mem::take).unwrap_or_default());
            met.push(self.met.get(key as usize).copied().unwrap_or_default());
        }
        (self.timelines, self.met) = (timelines, met);
        self.agenda.renumber(numbers);
    }

    /// Stored rows with their keys, once for each place.
    pub(in crate::operator) fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let keys = self.timelines.iter().zip(0u32..);
        keys.flat_map(|(timeline, key)| timeline.iter().map(move |entry| (key, entry)))
    }

    /// The chunks, with their numbers.
    pub(in crate::operator) fn chunks(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        self.chunks.iter().enumerate().filter_map(|(at, chunk)| Some((at, chunk.as_ref()?)))
    }

    /// Adds a chunk of a snapshot, to which entries are added by [`Store::restore`].
    pub(in crate::operator) fn push_chunk(&mut self, columns: Vec<ArrayRef>, rows: usize) {
        self.chunks.push(Some(Chunk { columns, rows, live: 0 }));
        self.held += rows;
    }

    /// Adds the entries of a snapshot, with their keys.
    ///
    /// # Errors
    /// The snapshot is broken: one of them is of no row.
    pub(in crate::operator) fn restore(&mut self, mut entries: Vec<(u32, Entry)>, keys: usize) -> Result<()> {
        sort_by_key(&mut entries, |(key, entry)| (*key, entry.rank()), check)?;
        let (mut items, mut pace) = (Vec::with_capacity(entries.len()), Pace::new());
        self.timelines.resize_with(keys, Timeline::default);
        self.met.resize(keys, 0);
        for (key, entry) in entries {
            pace.check(1)?;
            let chunk = self.chunks.get_mut(entry.at.chunk as usize).and_then(Option::as_mut);
            let (Some(chunk), Some(timeline)) = (chunk, self.timelines.get_mut(key as usize)) else {
                return broken();
            };
            if entry.at.row as usize >= chunk.rows {
                return broken();
            }
            chunk.live += 1;
            self.met[key as usize] += u32::from(entry.is_met());
            timeline.extend(&[(key, entry)], &mut Spare::default());
            items.push(Item { place: entry.place, order: entry.order, key });
        }
        // No two rows have one place and number, or they could not be told apart.
        sort_unstable(&mut items, check)?;
        let are_distinct =
            items.windows(2).all(|pair| (pair[0].place, pair[0].order) < (pair[1].place, pair[1].order));
        self.entries = items.len();
        self.agenda.reserve(items.iter());
        items.into_iter().for_each(|item| self.agenda.push(item));
        if are_distinct { Ok(()) } else { broken() }
    }

    /// How many entries there are.
    pub(in crate::operator) fn len(&self) -> usize {
        self.entries
    }

    pub(in crate::operator) fn bytes(&self) -> usize {
        let entries: usize = self.timelines.iter().map(Timeline::bytes).sum();
        let timelines =
            self.timelines.capacity() * size_of::<Timeline>() + self.met.capacity() * size_of::<u32>();
        let columns = held_bytes(self.chunks.iter().flatten().flat_map(|chunk| &chunk.columns));
        entries + timelines + columns + self.agenda.bytes()
    }
}

/// See [`Store::numbered`].
fn entry_of(timelines: &[Timeline], item: Item) -> Option<(usize, &Entry)> {
    let (timeline, rank) = (timelines.get(item.key as usize)?, (item.place, item.order));
    let number = timeline.partition_point(|entry| entry.rank() < rank);
    timeline.get(number).filter(|entry| entry.rank() == rank).map(|entry| (number, entry))
}

/// Removes the rows of a key up to a rank. Rows leave a timeline in its own order; some may have been dropped before.
fn drop_up_to(
    timelines: &mut [Timeline],
    (chunks, held, entries, met): &mut (&mut Vec<Option<Chunk>>, &mut usize, &mut usize, &mut Vec<u32>),
    key: u32,
    rank: (i64, u64),
) {
    let timeline = &mut timelines[key as usize];
    while let Some(entry) = timeline.pop_front_if(|entry| entry.rank() <= rank) {
        met[key as usize] -= u32::from(entry.is_met());
        **entries -= 1;
        release(chunks, held, entry.at);
    }
    if timeline.is_empty() {
        *timeline = Timeline::default();
    }
}

/// Timelines, and how many rows of each have had a partner.
type Room = (Vec<Timeline>, Vec<u32>);

/// Notes that one entry less points to a chunk, and drops it if that was the last one.
fn release(chunks: &mut [Option<Chunk>], held: &mut usize, at: Address) {
    let place = &mut chunks[at.chunk as usize];
    if let Some(chunk) = place {
        chunk.live -= 1;
        if chunk.live == 0 {
            *held -= chunk.rows;
            *place = None;
        }
    }
}
