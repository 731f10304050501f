//! Snapshots of rows: rows by key and time, their values in the order of arrival, and what is remembered of windows.
//!
//! The checksum of a snapshot shows that it is unchanged, not who wrote it, so its contents are not trusted. A call
//! would fail if the rows of a window did not begin and end at slices, or if an emitted window did not exist: such
//! contents are rejected.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, UInt64Array, cast::AsArray, types::*};

use super::Tuples;
use super::fresh::Row;
use super::rows::KeyTuples;
use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::{Pace, check, sort_unstable, tick_at};
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::queries::Queries;
use crate::slice::Timelines;
use crate::state::{Reader, Writer, broken};
use crate::window::{Call, Emitted, Memory, New, Point};

/// Marks a slice without a last row.
const LIMIT: usize = u32::MAX as usize;

/// Greatest rank of a row: counting on from there cannot overflow.
const MOST: u64 = 1 << 62;

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

impl Tuples {
    /// Writes everything it holds. O(rows).
    pub(in crate::operator::stream) fn save(&self, to: &mut Writer) -> Result<()> {
        let each =
            || (0u32..).zip(&self.keys).flat_map(|(key, own)| (0..own.len()).map(move |at| (key, own, at)));
        let mut live: Vec<u64> = each().map(|(_, own, at)| own.ats[at]).collect();
        sort_unstable(&mut live);
        let renumbered = |at: u64| live.partition_point(|&own| own < at) as u64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(each().map(|(key, ..)| key))),
            Arc::new(Int64Array::from_iter_values(each().map(|(_, own, at)| own.times[at]))),
            numbers(each().enumerate().map(|(row, (_, own, at))| {
                tick_at(row);
                renumbered(own.ats[at])
            })),
            numbers(each().map(|(_, own, at)| own.marks_of(at))),
        ];
        to.columns(columns, live.len())?;
        let values = self.store.read_columns().iter().map(|&position| {
            check()?;
            self.store.column(position, &live)
        });
        to.columns(values.collect::<Result<_>>()?, live.len())?;
        for (key, KeyTuples { gone, memories, .. }) in (1u64..).zip(&self.keys) {
            let memories = memories.iter().filter(|(_, memory)| !memory.is_empty());
            if gone.iter().all(|&gone| gone == 0) && memories.clone().next().is_none() {
                continue;
            }
            to.number(key);
            to.number(gone.len() as u64);
            gone.iter().for_each(|&gone| to.number(gone));
            to.number(memories.clone().count() as u64);
            for ((query, window), memory) in memories {
                [*query as u64, *window as u64, memory.next as u64].into_iter().for_each(|n| to.number(n));
                to.option(memory.from.map(|(time, _)| time));
                to.number(memory.from.map_or(0, |(_, at)| renumbered(at)));
                to.number(memory.all_emitted().count() as u64);
                for emitted in memory.all_emitted() {
                    let rows = [renumbered(emitted.first), renumbered(emitted.last), u64::from(emitted.rows)];
                    let window = [emitted.number as u64, emitted.time as u64];
                    window.into_iter().chain(rows).for_each(|number| to.number(number));
                }
            }
        }
        to.number(0);
        to.number(self.points.len() as u64);
        for point in &self.points {
            to.number(point.time as u64);
            to.number(renumbered(point.at));
            to.option(point.key.map(i64::from));
        }
        Ok(())
    }

    /// Reads what [`Tuples::save`] wrote for these queries and this number of keys.
    ///
    /// # Errors
    /// `InvalidValue` if the contents contradict each other.
    pub(in crate::operator::stream) fn load(
        &mut self,
        from: &mut Reader<'_>,
        queries: &Queries,
        key_count: usize,
    ) -> Result<()> {
        self.keys.resize_with(key_count, KeyTuples::default);
        let (rows, row_count) = from.columns()?;
        let [keys, times, ats, marks] = &rows[..] else { return broken() };
        let (Some(keys), Some(times), Some(ats), Some(marks)) = (
            keys.as_primitive_opt::<UInt32Type>(),
            times.as_primitive_opt::<Int64Type>(),
            ats.as_primitive_opt::<UInt64Type>(),
            marks.as_primitive_opt::<UInt64Type>(),
        ) else {
            return broken();
        };
        if row_count > LIMIT {
            return broken();
        }
        let mut seen = vec![false; row_count];
        let mut pace = Pace::new();
        for row in 0..row_count {
            pace.check(1)?;
            let (time, at, marks) = (times.value(row), ats.value(row), marks.value(row));
            let place = (self.keys.get_mut(keys.value(row) as usize), seen.get_mut(at as usize));
            let (Some(own), Some(seen)) = place else { return broken() };
            let follows = own.len() == 0 || (own.times[own.len() - 1], own.ats[own.len() - 1]) < (time, at);
            if std::mem::replace(seen, true) || !follows {
                return broken();
            }
            own.push(Row { time, at, marks });
        }
        let (values, value_count) = from.columns()?;
        let types = values.iter().map(|values| plain(values.data_type()));
        let is_own = types.eq(self.store.types().iter().map(plain));
        if value_count != row_count || !is_own {
            return broken();
        }
        self.store.push(&[values], row_count)?;
        self.kept = row_count;
        while let Some(key) = from.place(key_count + 1)?.checked_sub(1) {
            self.keys[key].gone = (0..from.count()?).map(|_| from.number()).collect::<Result<_>>()?;
            for _ in 0..from.count()? {
                let (of, memory) = self.read_memory(from, queries, key)?;
                if self.keys[key].memories.iter().any(|(other, _)| *other == of) {
                    return broken();
                }
                self.keys[key].memories.push((of, memory));
            }
        }
        for _ in 0..from.count()? {
            let (time, at, key) = (from.number()? as i64, from.place(row_count + 1)? as u64, from.option()?);
            let key = key.map(u32::try_from).transpose();
            let Some(key) = key.ok().filter(|key| key.is_none_or(|key| (key as usize) < key_count)) else {
                return broken();
            };
            self.points.push(Point { time, at, key });
        }
        // The next watermark finds what is ready.
        self.keys.iter_mut().for_each(|own| own.next = (own.len() > 0).then_some(i64::MIN));
        self.wait();
        Ok(())
    }

    /// What is remembered of one window type of a key.
    fn read_memory(
        &self,
        from: &mut Reader<'_>,
        queries: &Queries,
        key: usize,
    ) -> Result<((usize, usize), Memory)> {
        let (query, window) = queries.read_window(from)?;
        let row = |from: &mut Reader<'_>| -> Result<u64> { Ok(from.place(self.kept + 1)? as u64) };
        let mut memory = Memory { next: from.number()? as i64, ..Memory::default() };
        let (time, at) = (from.option()?, row(from)?);
        memory.from = time.map(|time| (time, at));
        for _ in 0..from.count()? {
            let (number, time) = (from.number()? as i64, from.number()? as i64);
            let (first, last) = (row(from)?, row(from)?);
            let Ok(rows) = u32::try_from(from.number()?) else { return broken() };
            memory.emitted.push(Emitted { number, time, first, last, rows });
        }
        let registered = &queries.registered()[query];
        if !registered.plan.windows()[window].1.is_numbered() || !memory.has_numbers() {
            return broken();
        }
        if registered.plan.windows()[window].1.observes() {
            // They are found by the places of their rows.
            let own = &self.keys[key];
            let offset = own.first_of(registered.since);
            for emitted in std::mem::take(&mut memory.emitted) {
                let Some(range) = emitted.places(&own.times[offset..], &own.ats[offset..]) else {
                    return broken();
                };
                memory.observed.get_or_insert_default().restore(range, emitted);
            }
        }
        Ok(((query, window), memory))
    }

    /// Rejects contents that no operator can hold; `calls` bring no rows and no watermark. O(rows).
    ///
    /// # Errors
    /// `InvalidValue` if the contents contradict each other.
    pub(in crate::operator::stream) fn check(
        &self,
        queries: &Queries,
        slices: &Timelines,
        calls: &Calls<'_>,
    ) -> Result<()> {
        let mut pace = Pace::new();
        let mut is_sound = |(key, own): (u32, &KeyTuples)| {
            pace.tick(64 + own.len());
            self.has_sound_windows(queries, key, own, calls.of(key)) && self.is_cut(queries, slices, key, own)
        };
        match self.points.is_sorted() && (0..).zip(&self.keys).all(&mut is_sound) {
            true => Ok(()),
            false => broken(),
        }
    }

    fn has_sound_windows(&self, queries: &Queries, key: u32, own: &KeyTuples, call: Call) -> bool {
        let (least, most) = queries.edges().bounds();
        let is_within = |time: Option<&i64>| time.is_none_or(|time| (least..=most).contains(time));
        let nothing = Memory::default();
        let is_sound = |query: usize| {
            let registered = &queries.registered()[query];
            let offset = own.first_of(registered.since);
            let call = Call { since: registered.since, ..call };
            let view = self.view(own, (key, query, offset), New::From(own.len()), true, call);
            view.base <= MOST
                && registered.plan.windows().iter().enumerate().all(|(number, (_, window))| {
                    let known = own.memories.iter().find(|(of, _)| *of == (query, number));
                    let memory = known.map_or(&nothing, |(_, memory)| memory);
                    window.by_rows().is_none_or(|rules| rules.is_sound(&view, memory))
                })
        };
        is_within(own.times.first())
            && is_within(own.times.last())
            && own.gone.len() <= queries.registered().len()
            && (0..queries.registered().len()).all(is_sound)
    }

    /// Whether slices begin at every edge determined by rows. The other edges belong to windows that a call emits,
    /// which cuts slices there.
    fn is_cut(&self, queries: &Queries, slices: &Timelines, key: u32, own: &KeyTuples) -> bool {
        let los = slices.los(key);
        let begins = |place: usize| los.binary_search(&(place as u32)).is_ok();
        (own.len() == 0) == los.is_empty()
            && los.last().is_none_or(|&last| (last as usize) < own.len())
            && self.cuts(queries, key, own, 0, &[]).into_iter().all(|(place, _)| begins(place))
    }
}
