//! A call's rows: put among the rows of their keys, in order. Windows are listed over these, and slices are fitted to both.

use super::Tuples;
use super::fresh::{Fresh, Own};
use super::listing::Listed;
use super::mend::Changed;
use super::rows::KeyTuples;
use super::work::Work;
use crate::interrupt::Pace;
use crate::memory::lent;
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::outgoing::{OfRows, Outgoing};
use crate::operator::stream::queries::{Queries, windows};
use crate::slice::{Store, Timelines};
use crate::window::{ByRows, Call, New};
use crate::{Error, Result};

/// How many simple steps a key takes, even without rows.
const VISIT: usize = 64;

impl Tuples {
    /// Keys that a call may affect, ascending, with their rows.
    fn visited(&self, fresh: &Fresh, calls: &Calls<'_>) -> Vec<(u32, Option<Own>)> {
        let call = calls.common;
        if let Some((key, now)) = calls.key_watermark {
            let own = fresh.keys().iter().find(|own| own.key == key).copied();
            let known = self.keys.get(key as usize).filter(|tuples| own.is_some() || tuples.len() > 0);
            let is_due = |tuples: &&KeyTuples| tuples.next.is_some_and(|next| next <= now);
            let is_ready = |tuples: &&KeyTuples| own.is_some() || call.closing || is_due(tuples);
            return known.filter(is_ready).map(|_| (key, own)).into_iter().collect();
        }
        let mut visited: Vec<(u32, Option<Own>)> =
            fresh.keys().iter().map(|&own| (own.key, Some(own))).collect();
        let with_rows =
            || (0..).zip(&self.keys).filter(|(_, tuples)| tuples.len() > 0).map(|(key, _)| (key, None));
        if call.closing || self.point.is_some_and(|point| point.key.is_none()) {
            visited.extend(with_rows());
        } else {
            visited.extend(self.point.and_then(|point| point.key).map(|key| (key, None)));
            if let Some(now) = call.now.filter(|_| call.now > call.before) {
                visited.extend(self.waiting.range(..=(now, u32::MAX)).map(|&(_, key)| (key, None)));
            }
        }
        // Of two entries of a key, the one with rows is kept.
        visited.sort_by_key(|&(key, own)| (key, own.is_none()));
        visited.dedup_by_key(|&mut (key, _)| key);
        visited
    }

    /// Inserts rows in order, fits slices to them, and lists the windows determined by rows.
    pub(in crate::operator::stream) fn process(
        &mut self,
        (queries, slices): (&Queries, &mut Timelines),
        partials: &Store,
        fresh: &Fresh,
        calls: &Calls<'_>,
        outgoing: &mut [Outgoing],
    ) -> Result<Changed> {
        slices.make_room(self.keys.len());
        let mut work = Work::new(fresh.len(), partials.slots());
        let mut pace = Pace::new();
        for (key, own) in self.visited(fresh, calls) {
            pace.check(VISIT)?;
            let call = calls.of(key);
            let first = own.and_then(|own| fresh.first_time(own));
            self.note(key, first);
            let (slices, outgoing, work) = (&mut *slices, &mut *outgoing, &mut work);
            // All that it changes is in the undo logs.
            self.of_key(key, |all, tuples| {
                all.process_key((queries, slices), key, tuples, (fresh, own), call, outgoing, work)
            })?;
        }
        self.derive(queries.stored(), partials, &work, fresh)
    }

    /// Does `work` with a key's rows.
    fn of_key<T>(&mut self, key: u32, work: impl FnOnce(&mut Self, &mut KeyTuples) -> T) -> T {
        lent(self, |all| &mut all.keys[key as usize], work)
    }

    /// Records a key's rows from this time on in the undo log.
    fn note(&mut self, key: u32, from: Option<i64>) {
        // First of all: what was noted is rolled back, whatever there is memory for afterwards.
        self.undo.reserve(1);
        let (tuples, base) = (&mut self.keys[key as usize], self.base.unwrap_or(u64::MAX));
        self.undo.push(tuples.before(key, tuples.place_of(from), base));
    }

    /// Inserts a key's rows, lists windows, and fits slices.
    #[allow(clippy::too_many_arguments, reason = "a struct of them would have one user")]
    fn process_key(
        &self,
        (queries, slices): (&Queries, &mut Timelines),
        key: u32,
        tuples: &mut KeyTuples,
        (fresh, own): (&Fresh, Option<Own>),
        call: Call,
        outgoing: &mut [Outgoing],
        work: &mut Work,
    ) -> Result<()> {
        let old = tuples.len();
        let cut = self.point.filter(|point| old > 0 && point.key.is_none_or(|own| own == key));
        let first = own.and_then(|own| fresh.first_time(own));
        let mut changed = tuples.place_of(first);
        // A row before a punctuation belongs to the window that this ends, which may have been emitted.
        let is_ended = first.is_some_and(|first| self.points.last().is_some_and(|point| point.time > first));
        let is_appended = changed == old && cut.is_none() && !is_ended;
        let mut places = Vec::new();
        match own {
            Some(own) if is_appended => tuples.append(fresh, own),
            Some(own) => places = tuples.insert(fresh.rows_of(own).map(|row| fresh.row(row)))?,
            None => {}
        }
        if let Some(cut) = cut {
            changed = changed.min(tuples.place_from((cut.time, cut.at)));
        }
        let new = if is_appended { New::From(old) } else { New::At(&places) };
        let mut pace = Pace::new();
        pace.check(tuples.len() - changed)?;
        // Far behind a row nothing changes then, and before it no window is final.
        let is_local =
            cut.is_none() && !call.closing && by_rows(queries).all(|rules| rules.is_cut_by_neighbours());
        let is_unready = |time: i64| {
            let next = tuples.next.map_or(time, |next| next.min(time));
            call.now.is_none_or(|now| now < next) && by_rows(queries).next().is_some()
        };
        let put_off = first.filter(|&time| is_local && is_unready(time));
        let mut listed = match put_off {
            None => self.list(queries, key, tuples, new, is_appended, call)?,
            Some(time) => {
                tuples.put_off(time, is_appended);
                Listed::default()
            }
        };
        pace.check(tuples.len() - changed + listed.windows.len())?;
        let mut edges = std::mem::take(&mut listed.ready.edges);
        if is_appended && !listed.ready.is_shrunk {
            self.extend((queries, slices), key, tuples, (old, fresh, own), &mut edges, work)?;
        } else {
            let is_local = is_local && listed.windows.is_empty() && edges.is_empty();
            let from = edges.into_iter().chain(listed.ready.from).fold(changed, usize::min);
            let edges = self.final_edges(queries, key, tuples, from, call)?;
            let inserted = if is_local && from == changed { &places[..] } else { &[] };
            self.fit((queries, slices), key, tuples, (from, new, inserted), edges, work)?;
        }
        for (query, window) in listed.windows {
            let (lo, hi) = match window.lo < window.hi {
                true => {
                    (slice_at(slices, key, tuples, window.lo)?, slice_at(slices, key, tuples, window.hi)?)
                }
                false => (0, 0),
            };
            outgoing[query].push_of_rows(key, OfRows { lo, hi, ..window });
        }
        Ok(())
    }

    /// Fits all slices to the current windows: slices cut for windows that are gone are merged.
    pub(in crate::operator::stream) fn refit(
        &mut self,
        (queries, slices): (&Queries, &mut Timelines),
        partials: &Store,
        calls: &Calls<'_>,
    ) -> Result<Changed> {
        let mut work = Work::new(0, partials.slots());
        for key in 0..self.keys.len() as u32 {
            self.note(key, None);
            let call = calls.of(key);
            let (slices, work) = (&mut *slices, &mut work);
            self.of_key(key, |all, tuples| {
                let new = New::From(tuples.len());
                all.list(queries, key, tuples, new, true, call)?;
                let edges = all.final_edges(queries, key, tuples, 0, call)?;
                all.fit((queries, slices), key, tuples, (0, new, &[]), edges, work)
            })?;
        }
        let fresh = self.nothing();
        self.derive(queries.stored(), partials, &work, &fresh)
    }

    /// Keys and times of the call's rows, ascending.
    pub(in crate::operator::stream) fn touched(&self, fresh: &Fresh) -> Vec<(u32, i64)> {
        self.late(fresh, |_| Some(i64::MAX))
    }

    /// Keys and times of the call's rows that came before the watermark of their key, ascending.
    pub(in crate::operator::stream) fn late(
        &self,
        fresh: &Fresh,
        watermark: impl Fn(u32) -> Option<i64>,
    ) -> Vec<(u32, i64)> {
        let mut late = Vec::new();
        for &own in fresh.keys() {
            let Some(watermark) = watermark(own.key) else { continue };
            let times = fresh.rows_of(own).map(|row| fresh.times[row]);
            late.extend(times.take_while(|&time| time < watermark).map(|time| (own.key, time)));
        }
        late.dedup();
        late
    }
}

/// The windows that are determined by rows.
pub(super) fn by_rows(queries: &Queries) -> impl Iterator<Item = &dyn ByRows> {
    windows(queries.registered()).filter_map(|(_, window)| window.by_rows())
}

/// The slice that begins at this place of a key's rows, or the number of slices at their end.
fn slice_at(slices: &Timelines, key: u32, tuples: &KeyTuples, place: usize) -> Result<usize> {
    let los = slices.los(key);
    let at = los.partition_point(|&lo| (lo as usize) < place);
    match los.get(at) {
        Some(&lo) if lo as usize == place => Ok(at),
        None if place == tuples.len() => Ok(at),
        _ => Err(Error::Internal(format!("no slice is cut at row {place}, where a window is"))),
    }
}
