//! Rows that wait for their places, as long as others may come before them.
//!
//! A row that comes among others of its key moves all rows behind it, and where slices are cut at ranks, one row of each later
//! slice. No window that has it is final before the watermark reaches it; until then it is as good as not there. So from
//! the first row on that comes before another, rows of its key that the watermark has not reached wait in a heap. Each of
//! them is put in its place once, behind all others, and n rows in any order take O(n log n). Rows that come in order are
//! in slices at once, and so are those that early results may show, or that a user's own code may refuse.

use super::Tuples;
use super::fresh::{Chosen, Fresh, Own, Row};
use super::process::by_rows;
use super::rows::{KeyTuples, SLACK};
use crate::Result;
use crate::aggregate::Partial;
use crate::interrupt::Pace;
use crate::operator::plan::Stored;
use crate::operator::stream::ahead::Calls;
use crate::operator::stream::queries::Queries;
use crate::window::{ByRows, earlier};
use std::cmp::Reverse;

/// How many simple steps it takes to put a row into a heap, or to take it out.
const HEAPED: usize = 16;

/// An entry of the undo log: which of a key's rows no longer wait, and how many more do.
pub(super) struct Sifted {
    pub(super) key: u32,
    /// Since when it waits for a watermark, before the call.
    pub(super) next: Option<i64>,
    /// In order.
    waited: Vec<Row>,
    held: usize,
}

/// Whether rows may wait, as far as queries are concerned.
pub(super) fn lets_wait(queries: &Queries) -> bool {
    let is_user = |stored: &Stored| matches!(stored.partial, Partial::User(_));
    by_rows(queries).all(ByRows::lets_wait) && !queries.stored().iter().any(is_user)
}

/// The rows of a key that no longer wait.
pub(super) fn waited(sifted: &[Sifted], key: u32) -> &[Row] {
    let at = sifted.binary_search_by_key(&key, |sifted| sifted.key);
    at.map_or(&[], |at| &sifted[at].waited)
}

impl Tuples {
    /// Whether rows of a key wait for their places.
    pub(in crate::operator::stream) fn has_waiting(&self, key: u32) -> bool {
        self.keys.get(key as usize).is_some_and(|tuples| !tuples.waiting.is_empty())
    }

    /// Lets those of a call's rows wait that come among others of their keys, and adds those that no longer need to; none may
    /// unless `may_wait`.
    pub(in crate::operator::stream) fn sift(
        &mut self,
        fresh: Fresh,
        keys: usize,
        calls: &Calls<'_>,
        may_wait: bool,
    ) -> Result<Fresh> {
        self.keys.resize_with(keys.max(self.keys.len()), KeyTuples::default);
        let may_wait = may_wait && self.lets_wait && calls.common.is_out_of_order;
        let due = self.due(calls, may_wait);
        let waits = |own: &Own| {
            let tuples = &self.keys[own.key as usize];
            !tuples.waiting.is_empty() || fresh.first_time(*own) < tuples.times.last().copied()
        };
        if due.is_empty() && !(may_wait && fresh.keys().iter().any(waits)) {
            return Ok(fresh);
        }
        let (mut chosen, mut pace) = (Chosen::default(), Pace::new());
        let (mut fresh_keys, mut due) = (fresh.keys().iter().copied().peekable(), due.into_iter().peekable());
        loop {
            let next = fresh_keys.peek().map(|own| own.key).into_iter().chain(due.peek().copied()).min();
            let Some(key) = next else { break };
            due.next_if_eq(&key);
            let rows: Vec<usize> = fresh_keys
                .next_if(|own| own.key == key)
                .map_or_else(Vec::new, |own| fresh.rows_of(own).collect());
            let call = calls.of(key);
            let is_reached = |time: i64| !may_wait || call.closing || call.has_reached(Some(time));
            let sifted = self.release(key, is_reached, &mut pace)?;
            let reached = rows.partition_point(|&row| is_reached(fresh.times[row]));
            let held = match rows.get(reached) {
                Some(&row) if self.comes_among(sifted, fresh.times[row]) => rows.len() - reached,
                _ => 0,
            };
            pace.check(HEAPED * held)?;
            let (now, later) = rows.split_at(rows.len() - held);
            self.hold(sifted, later.iter().map(|&row| fresh.row(row)));
            chosen.add((&fresh, key), now.iter().copied(), &self.sifted[sifted].waited);
        }
        Ok(fresh.only(chosen))
    }

    /// The keys whose rows no longer wait, at least in part; ascending.
    fn due(&self, calls: &Calls<'_>, may_wait: bool) -> Vec<u32> {
        let call = calls.common;
        if self.aside == 0 {
            return Vec::new();
        }
        if let Some((key, _)) = calls.key_watermark {
            return Some(key).filter(|&key| self.has_waiting(key)).into_iter().collect();
        }
        if call.closing || !may_wait {
            return (0..self.keys.len() as u32).filter(|&key| self.has_waiting(key)).collect();
        }
        let Some(now) = call.now.filter(|_| call.now > call.before) else { return Vec::new() };
        let first = |key: u32| self.keys[key as usize].first_waiting();
        let keys = self.waiting.range(..=(now, u32::MAX)).map(|&(_, key)| key);
        let mut due: Vec<u32> = keys.filter(|&key| call.has_reached(first(key))).collect();
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Takes those rows of a key out of its heap that the watermark has reached; returns the place of what is noted of
    /// them in the undo log.
    fn release(&mut self, key: u32, is_reached: impl Fn(i64) -> bool, pace: &mut Pace) -> Result<usize> {
        let (at, tuples) = (self.sifted.len(), &mut self.keys[key as usize]);
        // First of all: what is noted is rolled back, whatever there is memory for afterwards.
        self.sifted.reserve(1);
        self.sifted.push(Sifted { key, next: tuples.next, waited: Vec::new(), held: 0 });
        let waited = &mut self.sifted[at].waited;
        while tuples.first_waiting().is_some_and(&is_reached) {
            pace.check(HEAPED)?;
            waited.reserve(1);
            waited.extend(tuples.waiting.pop().map(|row| row.0));
        }
        Ok(at)
    }

    /// Whether a row comes before one of its key that is there.
    fn comes_among(&self, sifted: usize, time: i64) -> bool {
        let Sifted { key, waited, .. } = &self.sifted[sifted];
        let tuples = &self.keys[*key as usize];
        let last = waited.last().map(|row| row.time).max(tuples.times.last().copied());
        !tuples.waiting.is_empty() || Some(time) < last
    }

    /// Lets rows of a key wait.
    fn hold(&mut self, sifted: usize, rows: impl ExactSizeIterator<Item = Row>) {
        let sifted = &mut self.sifted[sifted];
        let tuples = &mut self.keys[sifted.key as usize];
        tuples.waiting.reserve(rows.len());
        sifted.held = rows.len();
        tuples.waiting.extend(rows.map(Reverse));
        tuples.next = earlier(tuples.next, tuples.first_waiting());
    }

    /// Commits which rows wait.
    pub(super) fn settle_waiting(&mut self) {
        for Sifted { key, waited, held, .. } in &self.sifted {
            self.aside = self.aside + held - waited.len();
            let waiting = &mut self.keys[*key as usize].waiting;
            if waiting.capacity() > SLACK + 4 * waiting.len() {
                waiting.shrink_to(2 * waiting.len());
            }
        }
    }

    /// Rolls back which rows wait.
    pub(super) fn take_back_waiting(&mut self) {
        let base = self.base.unwrap_or(u64::MAX);
        while let Some(Sifted { key, next, waited, held }) = self.sifted.pop() {
            let tuples = &mut self.keys[key as usize];
            if held > 0 {
                tuples.waiting.retain(|row| row.0.at < base);
            }
            // There is room, as they were there.
            tuples.waiting.extend(waited.into_iter().map(Reverse));
            tuples.next = next;
        }
    }
}
