//! A key's rows in the order of time, and of arrival where times are equal, and what is remembered of its windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fresh::{Fresh, Own, Row};
use crate::Result;
use crate::interrupt::Pace;
use crate::window::{Kept, Memory, place_from};

/// Identifies a window type of a query.
pub(super) type WindowAt = (usize, usize);

/// Rows that there may be room for beyond those that a key has.
pub(super) const SLACK: usize = 16;

/// A key's rows.
#[derive(Debug, Default)]
pub(super) struct KeyTuples {
    pub(super) times: Vec<i64>,
    pub(super) ats: Vec<u64>,
    /// Marks of the first rows; later rows are unmarked.
    pub(super) marks: Vec<u64>,
    /// Rows that wait for their places.
    pub(super) waiting: BinaryHeap<Reverse<Row>>,
    /// How many rows were dropped for each query whose windows have ranks: the rank of its first row.
    pub(super) gone: Vec<u64>,
    /// What is remembered of windows that have numbers.
    pub(super) memories: Vec<(WindowAt, Memory)>,
    /// No watermark before this one makes a window determined by rows final, or gives a row its place.
    pub(super) next: Option<i64>,
}

/// An entry of the undo log: which of a key's rows a call inserts, all from place `at` on, and what was remembered before.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) key: u32,
    at: usize,
    /// The arrival number of the first of them.
    base: u64,
    memories: Vec<Kept>,
    pub(super) next: Option<i64>,
}

impl KeyTuples {
    /// Number of rows in their places.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether it has no rows, in their places or waiting for them.
    pub(super) fn has_no_rows(&self) -> bool {
        self.times.is_empty() && self.waiting.is_empty()
    }

    /// The time of the first row that waits for its place.
    pub(super) fn first_waiting(&self) -> Option<i64> {
        self.waiting.peek().map(|row| row.0.time)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.times.capacity() + self.ats.capacity() + self.marks.capacity()) * size_of::<u64>()
            + self.waiting.capacity() * size_of::<Row>()
            + self.gone.capacity() * size_of::<u64>()
            + self.memories.iter().map(|(_, memory)| memory.bytes()).sum::<usize>()
    }

    /// How many rows are at or before `t`.
    fn upto(&self, t: i64) -> usize {
        // Usually all of them.
        match self.times.last() {
            Some(&last) if last > t => self.times.partition_point(|&time| time <= t),
            _ => self.len(),
        }
    }

    /// The place of the first row of a query that only sees rows after `since`.
    pub(super) fn first_of(&self, since: Option<i64>) -> usize {
        since.map_or(0, |since| self.times.partition_point(|&time| time <= since))
    }

    /// The place of the first row that is not before this time and arrival number.
    pub(super) fn place_from(&self, place: (i64, u64)) -> usize {
        place_from(&self.times, &self.ats, place)
    }

    /// The row at a place.
    pub(super) fn row(&self, place: usize) -> Row {
        Row { time: self.times[place], at: self.ats[place], marks: self.marks_of(place) }
    }

    /// The marks of the row at a place.
    pub(super) fn marks_of(&self, place: usize) -> u64 {
        self.marks.get(place).copied().unwrap_or_default()
    }

    /// What is remembered of a window, if anything is.
    pub(super) fn known(&self, of: WindowAt) -> Option<&Memory> {
        self.memories.iter().find(|(own, _)| *own == of).map(|(_, memory)| memory)
    }

    /// What is remembered of a window.
    pub(super) fn memory(&mut self, of: WindowAt) -> &mut Memory {
        let at = self.memories.iter().position(|(own, _)| *own == of).unwrap_or_else(|| {
            // There are few window types, and many keys.
            self.memories.reserve_exact(1);
            self.memories.push((of, Memory::default()));
            self.memories.len() - 1
        });
        &mut self.memories[at].1
    }

    /// Records the current state, as far as rows from arrival number `base` on may change it that are inserted at place `at`
    /// or later.
    pub(super) fn before(&mut self, key: u32, at: usize, base: u64) -> Before {
        Before {
            key,
            at,
            base,
            memories: self.memories.iter_mut().map(|(_, memory)| memory.save()).collect(),
            next: self.next,
        }
    }

    /// Restores the recorded state. Of the rows inserted, `waited` have come before the call.
    pub(super) fn take_back(&mut self, before: Before, waited: &[Row]) {
        // Where memory ran out, rows that were being appended have times, and no numbers yet.
        let rows = self.len().min(self.ats.len());
        let from = before.at.min(rows);
        let mut kept = from;
        for place in from..rows {
            let (time, at) = (self.times[place], self.ats[place]);
            let has_waited = || waited.binary_search_by_key(&(time, at), |row| (row.time, row.at)).is_ok();
            if at >= before.base || has_waited() {
                continue;
            }
            (self.times[kept], self.ats[kept]) = (time, at);
            if kept < self.marks.len() {
                self.marks[kept] = self.marks_of(place);
            }
            kept += 1;
        }
        self.times.truncate(kept);
        self.ats.truncate(kept);
        self.marks.truncate(kept);
        self.memories.truncate(before.memories.len());
        for ((_, memory), saved) in self.memories.iter_mut().zip(before.memories) {
            memory.take_back(saved);
        }
        self.next = before.next;
    }

    /// Adds a row after all others.
    pub(super) fn push(&mut self, row: Row) {
        if row.marks != 0 {
            self.marks.resize(self.times.len(), 0);
            self.marks.push(row.marks);
        }
        self.times.push(row.time);
        self.ats.push(row.at);
    }

    /// The place after all rows at or before this time; after all rows if no time is given.
    pub(super) fn place_of(&self, time: Option<i64>) -> usize {
        time.map_or(self.len(), |time| self.upto(time))
    }

    /// Appends a key's rows, none of which comes before an existing one. O(rows).
    pub(super) fn append(&mut self, fresh: &Fresh, own: Own) {
        let old = self.len();
        self.times.extend(fresh.rows_of(own).map(|row| fresh.times[row]));
        self.ats.extend(fresh.rows_of(own).map(|row| fresh.at(row)));
        if let Some(marks) = fresh.marks() {
            self.marks.resize(old, 0);
            self.marks.extend(fresh.rows_of(own).map(|row| marks[row]));
        }
    }

    /// Inserts rows, which ascend and follow all existing ones of their times, in order; returns their places. O(log n) a
    /// row, and a move of those after the first of them.
    ///
    /// # Errors
    /// An interrupt, before anything is inserted.
    pub(super) fn insert(&mut self, rows: impl Iterator<Item = Row>) -> Result<Vec<usize>> {
        let (rows, mut pace) = (rows.collect::<Vec<Row>>(), Pace::new());
        pace.check(rows.len())?;
        let mut from = self.len();
        let mut to = from + rows.len();
        let mut places = vec![0; rows.len()];
        let is_marked = !self.marks.is_empty() || rows.iter().any(|row| row.marks != 0);
        // Nothing can fail once anything has changed.
        self.times.reserve(rows.len());
        self.ats.reserve(rows.len());
        if is_marked {
            self.marks.reserve(to - self.marks.len());
        }
        self.times.resize(to, 0);
        self.ats.resize(to, 0);
        if is_marked {
            self.marks.resize(to, 0);
        }
        // From the last one on, so that each of the rows after them is moved once.
        for (row, place) in rows.iter().zip(&mut places).rev() {
            let at = self.times[..from].partition_point(|&time| time <= row.time);
            to -= from - at;
            self.times.copy_within(at..from, to);
            self.ats.copy_within(at..from, to);
            if is_marked {
                self.marks.copy_within(at..from, to);
            }
            (from, to) = (at, to - 1);
            (self.times[to], self.ats[to], *place) = (row.time, row.at, to);
            if is_marked {
                self.marks[to] = row.marks;
            }
        }
        Ok(places)
    }

    /// Takes note of rows from this time on for which no window was listed, as none can be final before; what is known of
    /// others holds if these follow them.
    pub(super) fn put_off(&mut self, time: i64, is_appended: bool) {
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
        if !is_appended {
            self.memories.iter_mut().for_each(|(_, memory)| memory.scanned = Default::default());
        }
    }

    /// Adapts to `queries` queries: `places` has the new place of each former one, and `bits` that of each column of
    /// marks.
    pub(super) fn change(&mut self, queries: usize, places: &[Option<usize>], bits: &[Option<usize>]) {
        let mut gone = vec![0; queries];
        for (place, &rows) in places.iter().zip(&self.gone) {
            if let Some(place) = *place {
                gone[place] = rows;
            }
        }
        self.gone = gone;
        let place = |query: usize| places.get(query).copied().flatten();
        self.memories.retain_mut(|((query, _), _)| place(*query).inspect(|&place| *query = place).is_some());
        let moved = |own: u64| {
            let moved = bits.iter().enumerate().filter(|&(bit, _)| own >> bit & 1 == 1);
            moved.filter_map(|(_, bit)| *bit).fold(0, |marks, bit| marks | 1 << bit)
        };
        self.marks.iter_mut().for_each(|marks| *marks = moved(*marks));
        self.change_waiting(|row| Row { marks: moved(row.marks), ..row });
    }

    /// Changes rows that wait, but not their order.
    pub(super) fn change_waiting(&mut self, change: impl Fn(Row) -> Row) {
        let mut rows = std::mem::take(&mut self.waiting).into_vec();
        rows.iter_mut().for_each(|row| row.0 = change(row.0));
        self.waiting = rows.into();
    }

    /// Drops its first `rows` rows. `own` says after which time each query's rows begin, and whether its windows have
    /// ranks.
    pub(super) fn forget(&mut self, rows: usize, own: impl Iterator<Item = (Option<i64>, bool)>) {
        for (query, (since, _)) in own.enumerate().filter(|(_, (_, is_ranked))| *is_ranked) {
            if self.gone.len() <= query {
                // There are few queries, and many keys.
                self.gone.reserve_exact(query + 1 - self.gone.len());
                self.gone.resize(query + 1, 0);
            }
            self.gone[query] += rows.saturating_sub(self.first_of(since)) as u64;
        }
        self.times.drain(..rows);
        self.ats.drain(..rows);
        self.marks.drain(..rows.min(self.marks.len()));
        let first = self.times.first().copied().zip(self.ats.first().copied());
        for (_, memory) in &mut self.memories {
            memory
                .emitted
                .retain(|emitted| first.is_some_and(|first| (emitted.time, emitted.first) >= first));
            if memory.emitted.is_empty() {
                memory.emitted = Vec::new();
            }
        }
        if self.times.is_empty() {
            (self.times, self.ats, self.marks) = (Vec::new(), Vec::new(), Vec::new());
            self.next = self.first_waiting();
        } else if self.times.capacity() > SLACK + 4 * self.len() {
            let room = 2 * self.len();
            self.times.shrink_to(room);
            self.ats.shrink_to(room);
            self.marks.shrink_to(room);
        }
    }

    /// Frees all memory that its rows do not take: there may be many keys, most of them idle.
    pub(super) fn shrink(&mut self) {
        self.times.shrink_to_fit();
        self.ats.shrink_to_fit();
        self.marks.shrink_to_fit();
        self.waiting.shrink_to_fit();
        self.memories.iter_mut().for_each(|(_, memory)| memory.emitted.shrink_to_fit());
    }

    /// Whether it has no state that a future row may need: no rows, no ranks and no numbers.
    pub(super) fn is_done(&self) -> bool {
        let has_rank = self.gone.iter().any(|&gone| gone > 0);
        let has_number = self.memories.iter().any(|(_, memory)| memory.next > 0);
        self.has_no_rows() && !has_rank && !has_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rows are in the order of (time, arrival), and a call that is rolled back leaves no trace.
        #[test]
        fn rows_are_in_order(calls in prop::collection::vec((prop::collection::vec(0i64..20, 0..6), any::<bool>()), 0..12)) {
            let (mut tuples, mut kept, mut next) = (KeyTuples::default(), Vec::new(), 0);
            for (times, fails) in calls {
                let mut rows: Vec<Row> =
                    times.iter().enumerate().map(|(at, &time)| Row { time, at: next + at as u64, marks: 0 }).collect();
                next += rows.len() as u64;
                rows.sort_unstable();
                let at = tuples.place_of(rows.first().map(|row| row.time));
                let before = tuples.before(0, at, next - times.len() as u64);
                let places = tuples.insert(rows.iter().copied()).unwrap();
                let there: Vec<Row> = places.iter().map(|&place| tuples.row(place)).collect();
                prop_assert_eq!(&there, &rows);
                if fails {
                    tuples.take_back(before, &[]);
                } else {
                    kept.extend(rows);
                    kept.sort_unstable();
                }
                let got: Vec<Row> = (0..tuples.len()).map(|place| tuples.row(place)).collect();
                prop_assert_eq!(&got, &kept);
            }
        }
    }
}
