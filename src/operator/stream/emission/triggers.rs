//! Which keys of a query fire: how many rows of each came since it last fired, and the latches and stages of its trigger.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array, UInt64Array, cast::AsArray, types::*};
use arrow_buffer::BooleanBuffer;

use crate::Result;
use crate::operator::policy::{Cause, Moved, Policy};
use crate::operator::stream::ahead::Reach;
use crate::operator::stream::intake::Accepted;
use crate::operator::stream::key_numbers::KeyNumbers;
use crate::state::{Reader, Writer, broken};

/// What the triggers of a query's keys know.
pub(super) struct Triggers {
    pub(super) policy: Arc<Policy>,
    /// By key, rows since it last fired.
    rows: Vec<u64>,
    /// By key, the clock when the first of them came, if an event waits from then on.
    since: Vec<i64>,
    /// No key has waited long enough before this.
    due: i64,
    /// By key, [`Policy::words`] words.
    words: Vec<u32>,
    /// Keys that the current call changed, with what was known before.
    undo: Vec<Known>,
    undo_words: Vec<u32>,
    /// By key, whether it is among them.
    is_changed: Vec<bool>,
}

/// What was known of a key before the current call, except for its words.
struct Known {
    key: u32,
    rows: u64,
    since: i64,
}

impl Triggers {
    pub(super) fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            rows: Vec::new(),
            since: Vec::new(),
            due: i64::MAX,
            words: Vec::new(),
            undo: Vec::new(),
            undo_words: Vec::new(),
            is_changed: Vec::new(),
        }
    }

    /// Makes room for keys.
    pub(super) fn make_room(&mut self, keys: usize) {
        if self.rows.len() < keys {
            self.words.resize(keys * self.policy.words(), 0);
            self.is_changed.resize(keys, false);
            if self.policy.waits().is_some() {
                self.since.resize(keys, 0);
            }
            // Last: its length is the number of keys there is room for.
            self.rows.resize(keys, 0);
        }
    }

    /// Where the words of a key are.
    fn place(&self, key: u32) -> Range<usize> {
        let width = self.policy.words();
        key as usize * width..(key as usize + 1) * width
    }

    fn words(&self, key: u32) -> &[u32] {
        &self.words[self.place(key)]
    }

    /// Records what is known of a key, before the current call changes it.
    #[inline]
    fn touch(&mut self, key: u32) {
        if !self.is_changed[key as usize] {
            self.record(key);
        }
    }

    #[inline(never)]
    fn record(&mut self, key: u32) {
        let width = self.policy.words();
        // What was noted is rolled back, whatever there is memory for afterwards.
        self.undo.reserve(1);
        self.undo_words.reserve(width);
        self.is_changed[key as usize] = true;
        let since = self.since.get(key as usize).copied().unwrap_or_default();
        self.undo.push(Known { key, rows: self.rows[key as usize], since });
        let place = self.place(key);
        self.undo_words.extend_from_slice(&self.words[place]);
    }

    #[inline]
    fn count(&mut self, key: u32, rows: u64) {
        self.touch(key);
        self.rows[key as usize] += rows;
    }

    /// Takes note of rows, except those that are late for the query; `now` is the clock.
    pub(super) fn note(&mut self, rows: &Accepted, late: Option<&BooleanBuffer>, now: Option<i64>) {
        let touched = self.undo.len();
        self.count_all(rows, late);
        if let (Some(length), Some(now)) = (self.policy.waits(), now) {
            // A key that fired before and was not touched in this call has no row before it.
            for Known { key, rows, .. } in &self.undo[touched..] {
                if *rows == 0 {
                    self.since[*key as usize] = now;
                    self.due = self.due.min(now.saturating_add(length));
                }
            }
        }
    }

    fn count_all(&mut self, rows: &Accepted, late: Option<&BooleanBuffer>) {
        let comes = |row: usize| late.is_none_or(|late| !late.value(row));
        let (count, keys) = (rows.times.len(), &rows.keys);
        match (keys, late) {
            (_, Some(_)) => (0..count).filter(|&row| comes(row)).for_each(|row| self.count(keys.of(row), 1)),
            (KeyNumbers::Each(keys), None) => keys.iter().for_each(|&key| self.count(key, 1)),
            (KeyNumbers::One(_), None) if count == 0 => {}
            (KeyNumbers::One(key), None) => self.count(*key, count as u64),
        }
        let (policy, width) = (self.policy.clone(), self.policy.words());
        for (latch, event) in policy.events().iter().enumerate() {
            let Some(marked) = event.marked(&rows.rows) else { continue };
            for row in marked.set_indices().filter(|&row| comes(row)) {
                self.words[keys.of(row) as usize * width + latch] = 1;
            }
        }
    }

    /// Sets the stages of a key back to the first.
    pub(super) fn begin_again(&mut self, key: u32) {
        self.touch(key);
        let place = self.place(key);
        self.policy.begin_again(&mut self.words[place]);
    }

    /// The keys that fire at the end of a call; nothing is known of them any longer but their stages. `clock` is the time
    /// before the call, and after it.
    pub(super) fn look(&mut self, reach: &Reach<'_>, clock: (Option<i64>, Option<i64>)) -> Vec<u32> {
        let policy = self.policy.clone();
        let mut has_passed = self.look_at_waits(clock.1);
        for (latch, event) in policy.events().iter().enumerate() {
            let is_of_key = event.cause() == Cause::Watermark && !reach.is_uniform();
            let of_all = event.is_passed(Moved { watermark: (reach.before, reach.after), clock });
            if !of_all && !is_of_key {
                continue;
            }
            has_passed = true;
            for key in 0..self.rows.len() as u32 {
                let passes = match is_of_key {
                    false => of_all,
                    true => {
                        event.is_passed(Moved { watermark: (reach.before(key), reach.after(key)), clock })
                    }
                };
                if self.rows[key as usize] > 0 && passes {
                    self.touch(key);
                    self.words[key as usize * policy.words() + latch] = 1;
                }
            }
        }
        let candidates: Vec<u32> = match has_passed {
            true => (0..self.rows.len() as u32).collect(),
            false => self.undo.iter().map(|known| known.key).collect(),
        };
        let fires = |key: &u32| {
            let rows = self.rows[*key as usize];
            rows > 0 && policy.fires(rows, self.words(*key))
        };
        let fired: Vec<u32> = candidates.into_iter().filter(fires).collect();
        fired.iter().for_each(|&key| self.fire(key));
        fired
    }

    /// Latches the keys that have waited long enough by now; returns whether there are any. O(keys) if there may be.
    fn look_at_waits(&mut self, now: Option<i64>) -> bool {
        let Some(now) = now.filter(|&now| now >= self.due) else { return false };
        let (policy, mut any) = (self.policy.clone(), false);
        self.due = i64::MAX;
        for (latch, event) in policy.events().iter().enumerate() {
            let Some(length) = event.waits() else { continue };
            for key in 0..self.rows.len() as u32 {
                let due = self.since[key as usize].saturating_add(length);
                if self.rows[key as usize] > 0 && due <= now {
                    self.touch(key);
                    self.words[key as usize * policy.words() + latch] = 1;
                    any = true;
                } else if self.rows[key as usize] > 0 {
                    self.due = self.due.min(due);
                }
            }
        }
        any
    }

    /// Has one key fire, or all that have pending rows.
    pub(super) fn fire_by_hand(&mut self, key: Option<u32>) -> Vec<u32> {
        let has_rows = |key: &u32| self.rows.get(*key as usize).is_some_and(|&rows| rows > 0);
        let fired: Vec<u32> = match key {
            Some(key) => [key].into_iter().filter(has_rows).collect(),
            None => (0..self.rows.len() as u32).filter(has_rows).collect(),
        };
        fired.iter().for_each(|&key| self.fire(key));
        fired
    }

    fn fire(&mut self, key: u32) {
        self.touch(key);
        let place = self.place(key);
        self.policy.fired(self.rows[key as usize], &mut self.words[place]);
        self.rows[key as usize] = 0;
    }

    /// Commits what the current call changed.
    pub(super) fn keep(&mut self) {
        for known in self.undo.drain(..) {
            self.is_changed[known.key as usize] = false;
        }
        self.undo_words.clear();
    }

    /// Rolls it back.
    pub(super) fn take_back(&mut self) {
        let width = self.policy.words();
        // What was put off is due again.
        self.due = i64::MIN;
        for (at, &Known { key, rows, since }) in self.undo.iter().enumerate() {
            self.rows[key as usize] = rows;
            self.since.get_mut(key as usize).into_iter().for_each(|own| *own = since);
            let place = self.place(key);
            self.words[place].copy_from_slice(&self.undo_words[at * width..(at + 1) * width]);
        }
        self.keep();
    }

    /// Forgets what is known of a key.
    pub(super) fn end_key(&mut self, key: u32) {
        if let Some(rows) = self.rows.get_mut(key as usize) {
            *rows = 0;
            let place = self.place(key);
            self.words[place].fill(0);
        }
    }

    /// Sets the marks of the keys of which something is known.
    pub(super) fn mark_live(&self, is_live: &mut [bool]) {
        let keys = (0..).zip(&self.rows).zip(is_live);
        keys.for_each(|((key, &rows), is_live)| {
            *is_live |= rows > 0 || self.words(key).iter().any(|&word| word > 0);
        });
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        let mut other = Self { due: self.due, ..Self::new(self.policy.clone()) };
        other.make_room(kept.len());
        for (at, &key) in kept.iter().enumerate().filter(|&(_, &key)| (key as usize) < self.rows.len()) {
            other.rows[at] = self.rows[key as usize];
            other.since.get_mut(at).into_iter().for_each(|own| *own = self.since[key as usize]);
            let width = self.policy.words();
            other.words[at * width..(at + 1) * width].copy_from_slice(self.words(key));
        }
        *self = other;
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        (self.rows.capacity() + self.since.capacity()) * size_of::<u64>()
            + self.words.capacity() * size_of::<u32>()
            + self.is_changed.capacity()
    }

    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        let rows: ArrayRef = Arc::new(UInt64Array::from(self.rows.clone()));
        to.columns(vec![rows], self.rows.len())?;
        let words: ArrayRef = Arc::new(UInt32Array::from(self.words.clone()));
        to.columns(vec![words], self.words.len())?;
        to.value(&self.since);
        Ok(())
    }

    pub(super) fn load(&mut self, from: &mut Reader<'_>, keys: usize) -> Result<()> {
        let (rows, count) = from.columns()?;
        let (words, width) = from.columns()?;
        let since: Vec<i64> = from.value()?;
        let ([rows], [words]) = (rows.as_slice(), words.as_slice()) else { return broken() };
        let (Some(rows), Some(words)) =
            (rows.as_primitive_opt::<UInt64Type>(), words.as_primitive_opt::<UInt32Type>())
        else {
            return broken();
        };
        let waits = if self.policy.waits().is_some() { count } else { 0 };
        if count > keys || width != count * self.policy.words() || since.len() != waits {
            return broken();
        }
        let words = words.values().to_vec();
        if count > 0 && !words.chunks(self.policy.words().max(1)).all(|own| self.policy.is_sound(own)) {
            return broken();
        }
        (self.rows, self.words, self.since) = (rows.values().to_vec(), words, since);
        self.due = i64::MIN;
        self.is_changed = vec![false; count];
        self.make_room(keys);
        Ok(())
    }
}
