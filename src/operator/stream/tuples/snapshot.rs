//! Snapshots of rows: rows by key and time, their values in the order of arrival, and what is remembered of windows.
//!
//! The checksum of a snapshot shows that it is unchanged, not who wrote it, so its contents are not trusted. A call
//! would fail if the rows of a window did not begin and end at slices, or if an emitted window did not exist: such
//! contents are rejected.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, UInt64Array, cast::AsArray, types::*};
use serde::{Deserialize, Serialize};

use super::Tuples;
use super::fresh::Row;
use super::rows::KeyTuples;
use crate::Result;
use crate::dictionary::plain;
use crate::interrupt::{Pace, check};
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::queries::Queries;
use crate::poll::sort_unstable;
use crate::slice::Timelines;
use crate::state::{Reader, Writer, broken};
use crate::window::{Call, Kept, Memory, New, Point};

/// Marks a slice without a last row.
const LIMIT: usize = u32::MAX as usize;

/// Greatest rank of a row: counting on from there cannot overflow.
const MOST: u64 = 1 << 62;

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// How many simple steps it takes to find a row among millions.
const SEARCHED: usize = 16;

/// What is stored of a key besides its rows.
#[derive(Serialize, Deserialize)]
struct Remembered {
    key: usize,
    /// By query, the rank of its first row.
    gone: Vec<u64>,
    /// By query and window type.
    memories: Vec<((usize, usize), Kept)>,
}

/// Writes rows, key by key, with other numbers of their arrival.
fn save_rows<R: Iterator<Item = (u32, Row)>>(
    to: &mut Writer,
    rows: impl Fn() -> R,
    number: impl Fn(u64) -> u64,
) -> Result<()> {
    let (mut ats, mut pace) = (Vec::new(), Pace::new());
    for (_, row) in rows() {
        pace.check(SEARCHED)?;
        ats.push(number(row.at));
    }
    let count = ats.len();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows().map(|(key, _)| key))),
        Arc::new(Int64Array::from_iter_values(rows().map(|(_, row)| row.time))),
        numbers(ats.into_iter()),
        numbers(rows().map(|(_, row)| row.marks)),
    ];
    check()?;
    to.columns(columns, count)
}

/// Reads what [`save_rows`] wrote.
fn load_rows(from: &mut Reader<'_>) -> Result<Vec<(u32, Row)>> {
    let (rows, count) = from.columns()?;
    let [keys, times, ats, marks] = &rows[..] else { return broken() };
    let (Some(keys), Some(times), Some(ats), Some(marks)) = (
        keys.as_primitive_opt::<UInt32Type>(),
        times.as_primitive_opt::<Int64Type>(),
        ats.as_primitive_opt::<UInt64Type>(),
        marks.as_primitive_opt::<UInt64Type>(),
    ) else {
        return broken();
    };
    check()?;
    let row = |row| Row { time: times.value(row), at: ats.value(row), marks: marks.value(row) };
    Ok((0..count).map(|at| (keys.value(at), row(at))).collect())
}

/// Whether an operator could have let these rows of a key wait: the watermark has not reached any, and none comes before one of
/// its time.
fn may_wait(queries: &Queries, own: &KeyTuples, call: Call) -> bool {
    let (least, most) = queries.edges().bounds();
    own.waiting.iter().all(|&Reverse(Row { time, at, .. })| {
        let is_last = own.place_from((time, at)) == own.place_of(Some(time));
        (least..=most).contains(&time) && !call.has_reached(Some(time)) && is_last
    })
}

impl Tuples {
    /// Writes everything it holds. O(rows).
    pub(in crate::operator::stream) fn save(&self, to: &mut Writer) -> Result<()> {
        let each = || (0u32..).zip(&self.keys);
        let in_place =
            || each().flat_map(|(key, own)| (0..own.len()).map(move |place| (key, own.row(place))));
        let waiting = || each().flat_map(|(key, own)| own.waiting.iter().map(move |row| (key, row.0)));
        let mut live: Vec<u64> = in_place().chain(waiting()).map(|(_, row)| row.at).collect();
        sort_unstable(&mut live, check)?;
        let renumbered = |at: u64| live.partition_point(|&own| own < at) as u64;
        let mut waiting: Vec<(u32, Row)> = waiting().collect();
        // The same rows lead to the same bytes.
        sort_unstable(&mut waiting, check)?;
        save_rows(to, in_place, renumbered)?;
        save_rows(to, || waiting.iter().copied(), renumbered)?;
        let values = self.store.read_columns().iter().map(|&position| {
            check()?;
            self.store.column(position, &live)
        });
        to.columns(values.collect::<Result<_>>()?, live.len())?;
        let remembered = (0..).zip(&self.keys).filter_map(|(key, KeyTuples { gone, memories, .. })| {
            let memories = memories.iter().filter(|(_, memory)| !memory.is_empty());
            let memories: Vec<_> = memories.map(|(of, memory)| (*of, memory.kept(renumbered))).collect();
            let is_there = gone.iter().any(|&gone| gone > 0) || !memories.is_empty();
            is_there.then(|| Remembered { key, gone: gone.clone(), memories })
        });
        to.value(&remembered.collect::<Vec<_>>());
        let points = self.points.iter().map(|point| Point { at: renumbered(point.at), ..*point });
        to.value(&points.collect::<Vec<_>>());
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
        let (in_place, waiting) = (load_rows(from)?, load_rows(from)?);
        let row_count = in_place.len() + waiting.len();
        if row_count > LIMIT {
            return broken();
        }
        let mut seen = vec![false; row_count];
        let mut pace = Pace::new();
        let in_place = in_place.into_iter().map(|row| (row, true));
        for ((key, row), is_in_place) in in_place.chain(waiting.iter().map(|&row| (row, false))) {
            pace.check(1)?;
            let place = (self.keys.get_mut(key as usize), seen.get_mut(row.at as usize));
            let (Some(own), Some(seen)) = place else { return broken() };
            let follows =
                own.len() == 0 || (own.times[own.len() - 1], own.ats[own.len() - 1]) < (row.time, row.at);
            if std::mem::replace(seen, true) || is_in_place && !follows {
                return broken();
            }
            match is_in_place {
                true => own.push(row),
                false => own.waiting.push(Reverse(row)),
            }
        }
        let (values, value_count) = from.columns()?;
        let types = values.iter().map(|values| plain(values.data_type()));
        let is_own = types.eq(self.store.types().iter().map(plain));
        if value_count != row_count || !is_own {
            return broken();
        }
        self.store.push(&[values], row_count)?;
        (self.kept, self.aside) = (row_count, waiting.len());
        for Remembered { key, gone, memories } in from.value::<Vec<Remembered>>()? {
            if key >= key_count {
                return broken();
            }
            self.keys[key].gone = gone;
            for (of, kept) in memories {
                let memory = self.memory(of, kept, queries, key)?;
                if self.keys[key].memories.iter().any(|(other, _)| *other == of) {
                    return broken();
                }
                self.keys[key].memories.push((of, memory));
            }
        }
        self.points = from.value()?;
        let is_there = |point: &Point| {
            point.at <= row_count as u64 && point.key.is_none_or(|key| (key as usize) < key_count)
        };
        if !self.points.iter().all(is_there) {
            return broken();
        }
        // The next watermark finds what is ready.
        self.keys.iter_mut().for_each(|own| own.next = (!own.has_no_rows()).then_some(i64::MIN));
        self.wait();
        Ok(())
    }

    /// The windows of one type and key from what was kept of them.
    fn memory(
        &self,
        (query, window): (usize, usize),
        kept: Kept,
        queries: &Queries,
        key: usize,
    ) -> Result<Memory> {
        if !queries.has_window(query, window) || kept.arrivals().any(|at| at > self.kept as u64) {
            return broken();
        }
        let mut memory = Memory::from(kept);
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
        Ok(memory)
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
        let is_sound = |(key, own): (u32, &KeyTuples)| {
            self.has_sound_windows(queries, key, own, calls.of(key))
                && self.is_cut(queries, slices, key, own)
                && may_wait(queries, own, calls.of(key))
        };
        match self.points.is_sorted() && (0..).zip(&self.keys).all(is_sound) {
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
            && self.cuts(queries, key, own, 0..own.len(), &[]).into_iter().all(|(place, _)| begins(place))
    }
}
