//! Snapshots of the operator that keeps rows: keys, rows, slices and their partials, and what was told.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, UInt64Array, cast::AsArray, types::*};

use super::context::Shown;
use super::due::is_calendar;
use super::line::{Line, Row, Slice};
use super::punctuated::Point;
use super::told::{Numbered, Reopened, Told};
use super::{Keeper, Store};
use crate::Result;
use crate::aggregate::Rows;
use crate::dictionary::plain;
use crate::operator::stream::{Options, Queries, Stats, read_partials, read_window};
use crate::state::{Reader, Writer, broken};
use crate::window::Window;

/// Where the last row of no slice is.
const LIMIT: usize = u32::MAX as usize;

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

impl Keeper {
    /// Writes all that is held. O(rows).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub(in crate::operator) fn save(&self, to: &mut Writer) -> Result<()> {
        to.option(self.watermark);
        to.option(self.latest);
        let Stats { rows, windows, updates, splits, merges, shifts, recomputations, .. } = self.counts;
        for count in [rows, windows, updates, splits, merges, shifts, recomputations] {
            to.number(count);
        }
        self.keys.save(to)?;
        // Rows by key and time; their values in the order of arrival.
        let each = || {
            self.lines
                .iter()
                .enumerate()
                .flat_map(|(key, line)| (0..line.len()).map(move |at| (key, line, at)))
        };
        let mut live: Vec<u64> = each().map(|(_, line, at)| line.ats[at]).collect();
        live.sort_unstable();
        let renumbered = |at: u64| live.partition_point(|&own| own < at) as u64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(each().map(|(key, ..)| key as u32))),
            Arc::new(Int64Array::from_iter_values(each().map(|(_, line, at)| line.times[at]))),
            numbers(each().map(|(_, line, at)| renumbered(line.ats[at]))),
            numbers(each().map(|(_, line, at)| line.marks_of(at))),
        ];
        to.columns(columns, live.len())?;
        let values = self.heap.read().iter().map(|&position| self.heap.column(position, &live));
        to.columns(values.collect::<Result<_>>()?, live.len())?;
        let slices = || {
            self.lines.iter().enumerate().flat_map(|(key, line)| line.slices.iter().map(move |s| (key, s)))
        };
        let count = slices().count();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(slices().map(|(key, _)| key as u32))),
            Arc::new(UInt32Array::from_iter_values(slices().map(|(_, slice)| slice.lo))),
        ];
        to.columns(columns, count)?;
        let which: Vec<usize> = (0..self.store.partials().len()).collect();
        let partials = self.store.gather(&self.store.nothing(), slices().map(|(_, slice)| slice), &which)?;
        for partials in partials {
            to.columns(partials.state()?, count)?;
        }
        for (key, line) in self.lines.iter().enumerate() {
            let Line { gone, told, numbers, reopened, .. } = line;
            if gone.iter().all(|&gone| gone == 0) && numbers.is_empty() && reopened.is_empty() {
                continue;
            }
            to.number(key as u64 + 1);
            to.number(gone.len() as u64);
            gone.iter().for_each(|&gone| to.number(gone));
            let told: Vec<&Told> = told.iter().chain(line.shown.iter().flat_map(Shown::told)).collect();
            to.number(told.len() as u64);
            for told in told {
                let places = [told.query as u64, told.window as u64, told.number as u64, told.time as u64];
                let rows = [renumbered(told.first), renumbered(told.last), u64::from(told.rows)];
                places.into_iter().chain(rows).for_each(|number| to.number(number));
            }
            to.number(numbers.len() as u64);
            for each in numbers {
                [each.query as u64, each.window as u64, each.next as u64]
                    .into_iter()
                    .for_each(|n| to.number(n));
                to.option(each.from.map(|(time, _)| time));
                to.number(each.from.map_or(0, |(_, at)| renumbered(at)));
            }
            to.number(reopened.len() as u64);
            for each in reopened {
                [each.query as u64, each.window as u64, each.at as u64]
                    .into_iter()
                    .for_each(|n| to.number(n));
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

    /// Reads what [`Keeper::save`] wrote of these queries.
    ///
    /// # Errors
    /// `InvalidValue` if the contents contradict each other.
    pub(in crate::operator) fn load(
        from: &mut Reader<'_>,
        queries: Queries,
        options: Options,
    ) -> Result<Self> {
        let reached = (from.option()?, from.option()?);
        let mut this = Self::new(queries, options, reached)?;
        let counts: Vec<u64> = (0..7).map(|_| from.number()).collect::<Result<_>>()?;
        let [rows, windows, updates, splits, merges, shifts, recomputations] = counts[..] else {
            return broken();
        };
        this.counts =
            Stats { rows, windows, updates, splits, merges, shifts, recomputations, ..Stats::default() };
        let key_count = this.keys.load(from)?;
        this.lines.resize_with(key_count, Line::default);
        let (rows, row_count) = from.columns()?;
        let [keys, times, ats, marks] = &rows[..] else { return broken() };
        let (Some(keys), Some(times)) =
            (keys.as_primitive_opt::<UInt32Type>(), times.as_primitive_opt::<Int64Type>())
        else {
            return broken();
        };
        let (Some(ats), Some(marks)) =
            (ats.as_primitive_opt::<UInt64Type>(), marks.as_primitive_opt::<UInt64Type>())
        else {
            return broken();
        };
        if row_count > LIMIT {
            return broken();
        }
        let mut seen = vec![false; row_count];
        for row in 0..row_count {
            let (time, at, marks) = (times.value(row), ats.value(row), marks.value(row));
            let (Some(line), Some(seen)) =
                (this.lines.get_mut(keys.value(row) as usize), seen.get_mut(at as usize))
            else {
                return broken();
            };
            let follows =
                line.len() == 0 || (line.times[line.len() - 1], line.ats[line.len() - 1]) < (time, at);
            if std::mem::replace(seen, true) || !follows {
                return broken();
            }
            line.push(Row { time, at, marks });
        }
        let (values, value_count) = from.columns()?;
        if value_count != row_count || values.len() != this.heap.read().len() {
            return broken();
        }
        if values
            .iter()
            .zip(this.heap.types())
            .any(|(values, wanted)| plain(values.data_type()) != plain(wanted))
        {
            return broken();
        }
        this.heap.push(&[values], row_count)?;
        this.kept = row_count;
        let (slices, slice_count) = from.columns()?;
        let [keys, los] = &slices[..] else { return broken() };
        let (Some(keys), Some(los)) =
            (keys.as_primitive_opt::<UInt32Type>(), los.as_primitive_opt::<UInt32Type>())
        else {
            return broken();
        };
        let mut firsts = Vec::with_capacity(slice_count);
        for slot in 0..slice_count {
            let lo = los.value(slot) as usize;
            let Some(line) = this.lines.get_mut(keys.value(slot) as usize) else { return broken() };
            let follows = line.slices.last().map_or(lo == 0, |last| (last.lo as usize) < lo);
            if !follows || lo >= line.len() {
                return broken();
            }
            firsts.push(line.times[lo]);
            line.slices.push(Slice::new(lo, slot as u32));
        }
        if this.lines.iter().any(|line| line.len() > 0 && line.slices.is_empty()) {
            return broken();
        }
        let own: Vec<u32> = (0..slice_count as u32).collect();
        let mut partials = this.queries.columns(None, 0)?;
        for (partials, stored) in partials.iter_mut().zip(this.queries.stored()) {
            let rows = Rows { slots: &own, times: &firsts, sparse: true };
            read_partials(from, &stored.partial, &mut **partials, rows)?;
        }
        this.store = Store::new(partials, this.queries.stored(), slice_count);
        while let Some(key) = from.place(key_count + 1)?.checked_sub(1) {
            read_told(from, &this.queries, row_count, &mut this.lines[key])?;
            this.restore_shown(key)?;
        }
        for _ in 0..from.count()? {
            let (time, at, key) = (from.number()? as i64, from.place(row_count + 1)? as u64, from.option()?);
            let key = key.map(u32::try_from).transpose();
            let Some(key) = key.ok().filter(|key| key.is_none_or(|key| (key as usize) < key_count)) else {
                return broken();
            };
            this.points.push(Point { time, at, key });
        }
        if !from.is_empty() {
            return broken();
        }
        this.check()?;
        // What is due is found by the next watermark.
        this.lines.iter_mut().for_each(|line| line.due = (line.len() > 0).then_some(i64::MIN));
        this.wait();
        Ok(this)
    }

    /// Gives users' windows that were told back what they are compared with.
    fn restore_shown(&mut self, key: usize) -> Result<()> {
        let (asked, line) = (self.queries.asked(), &mut self.lines[key]);
        let kind = |told: &Told| &asked[told.query].plan.windows()[told.window].1;
        let is_user = |told: &mut Told| matches!(kind(told), Window::User(user) if !is_calendar(user));
        for told in line.told.extract_if(.., is_user).collect::<Vec<_>>() {
            let offset = line.first_of(asked[told.query].since);
            let range =
                line.places_of(&told).and_then(|(lo, hi)| Some((lo.checked_sub(offset)?, hi - offset)));
            let Some(range) = range else { return broken() };
            let own = |each: &Shown| (each.query, each.window) == (told.query, told.window);
            let at = line.shown.iter().position(own).unwrap_or_else(|| {
                line.shown.push(Shown::new(told.query, told.window));
                line.shown.len() - 1
            });
            line.shown[at].restore(range, told);
        }
        Ok(())
    }
}

/// Reads what was told of a key; rows are numbered up to `rows`.
fn read_told(from: &mut Reader<'_>, queries: &Queries, rows: usize, line: &mut Line) -> Result<()> {
    line.gone = (0..from.count()?).map(|_| from.number()).collect::<Result<_>>()?;
    let row = |from: &mut Reader<'_>| -> Result<u64> { Ok(from.place(rows + 1)? as u64) };
    for _ in 0..from.count()? {
        let ((query, window), number) = (read_window(from, queries)?, from.number()? as i64);
        let (time, first, last) = (from.number()? as i64, row(from)?, row(from)?);
        let Ok(rows) = u32::try_from(from.number()?) else { return broken() };
        line.told.push(Told { query, window, number, time, first, last, rows });
    }
    for _ in 0..from.count()? {
        let ((query, window), next) = (read_window(from, queries)?, from.number()? as i64);
        let (time, at) = (from.option()?, row(from)?);
        line.numbers.push(Numbered { query, window, next, from: time.map(|time| (time, at)) });
    }
    for _ in 0..from.count()? {
        let ((query, window), at) = (read_window(from, queries)?, from.number()? as i64);
        line.reopened.push(Reopened { query, window, at });
    }
    Ok(())
}
