//! When keys are looked at again, so that what a watermark does is found by time, and not by visiting all keys.
//!
//! | | |
//! |---|---|
//! | needs | for each key a time before which nothing can be due |
//! | time | O(1) an entry, beside a search among [`BUCKETS`]; a row of a key that has one makes none. To find keys reads the entries of the buckets that are due, one of which may have others, too |
//! | space | an entry for each key, and its time |
//! | first appeared | calendar queues: Brown, CACM 31(10), 1988; here a bucket is as wide as there are few enough of them |
//!
//! Entries are lazy: rows mostly put off what is due, and leave the entry of their key as it is. When its time has come,
//! the key is looked at, and has a new entry. What is too early costs a look, and never changes a result; so entries that
//! an attempted call makes may stay where it is rolled back.

use crate::Result;
use crate::interrupt::Pace;

/// So few keys are all looked at: to find one takes ten times as long as a look at it.
const FEW: usize = if cfg!(test) { 2 } else { 128 };

/// Keys are found if fewer than one in so many is due in a call...
const SPARSE: u64 = 32;

/// ... and all are looked at if more than one in so many is found: that takes as long for all as to find a tenth or so.
const DENSE: usize = 8;

/// So many calls in a row look at all keys although few are due, before keys are found: to begin takes as long.
const CALLS: u32 = if cfg!(test) { 1 } else { 8 };

/// Buckets that there are at most.
const BUCKETS: usize = if cfg!(test) { 4 } else { 256 };

/// The time of a key without an entry.
const NEVER: i64 = i64::MAX;

/// An entry of a key.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: i64,
    key: u32,
}

/// Entries whose times have these highest bits, in no order.
#[derive(Debug)]
struct Bucket {
    number: i64,
    entries: Vec<Entry>,
}

/// Keys by the time when something may be due.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// They ascend, and none is empty.
    buckets: Vec<Bucket>,
    /// Bits of a time that do not say in which bucket it is.
    shift: u32,
    /// The time of the entry of each key that counts: its others were made before, for later.
    times: Vec<i64>,
    /// The keys that the attempted call has found; they ascend.
    found: Vec<u32>,
    /// Up to when it has found them all.
    upto: Option<i64>,
    /// Whether each key with something to come has an entry. Otherwise all keys are looked at.
    is_known: bool,
    /// How many calls in a row have looked at all keys although few were due.
    sparse_calls: u32,
}

impl Due {
    /// Whether keys are found. Otherwise each of them may be due.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Takes note that a call looked at all keys, of which so many were due.
    pub(super) fn count(&mut self, keys: usize, due: u64) {
        let is_sparse = keys > FEW && SPARSE * due < keys as u64;
        self.sparse_calls = if is_sparse { self.sparse_calls.saturating_add(1) } else { 0 };
    }

    /// Whether it seems to pay off to know when each key is due, and this is not known.
    pub(super) fn would_pay(&self) -> bool {
        !self.is_known && self.sparse_calls >= CALLS
    }

    /// Knows that no key has anything to come but what is put from now on.
    pub(super) fn begin(&mut self) {
        *self = Self { is_known: true, ..Self::default() };
    }

    /// Knows no key any longer.
    pub(super) fn reset(&mut self) {
        if self.is_known {
            *self = Self::default();
        }
    }

    /// Has a key looked at from this time on. Where there is no memory for that, no key is known any longer.
    #[inline]
    pub(super) fn put(&mut self, key: u32, at: i64) {
        if self.is_known
            && self.times.get(key as usize).is_none_or(|&time| at < time)
            && at < NEVER
            && self.put_earlier(Entry { at, key }).is_none()
        {
            self.reset();
        }
    }

    /// Puts an entry; `None` if there is no memory for it.
    fn put_earlier(&mut self, entry: Entry) -> Option<()> {
        let known = entry.key as usize + 1;
        let more = known.saturating_sub(self.times.len());
        self.times.try_reserve(more).ok()?;
        let place = loop {
            let number = entry.at >> self.shift;
            match self.buckets.binary_search_by_key(&number, |bucket| bucket.number) {
                Ok(place) => break place,
                Err(_) if self.buckets.len() >= BUCKETS => self.widen()?,
                Err(place) => {
                    self.buckets.try_reserve(1).ok()?;
                    self.buckets.insert(place, Bucket { number, entries: Vec::new() });
                    break place;
                }
            }
        };
        let entries = &mut self.buckets[place].entries;
        entries.try_reserve(1).ok()?;
        entries.push(entry);
        if more > 0 {
            self.times.resize(known, NEVER);
        }
        self.times[entry.key as usize] = entry.at;
        Some(())
    }

    /// Makes buckets twice as wide; `None` if there is no memory for that.
    fn widen(&mut self) -> Option<()> {
        self.shift += 1;
        let mut wider: Vec<Bucket> = Vec::new();
        wider.try_reserve(BUCKETS).ok()?;
        for Bucket { number, mut entries } in self.buckets.drain(..) {
            match wider.last_mut().filter(|last| last.number == number >> 1) {
                Some(last) => {
                    last.entries.try_reserve(entries.len()).ok()?;
                    last.entries.append(&mut entries);
                }
                None => wider.push(Bucket { number: number >> 1, entries }),
            }
        }
        self.buckets = wider;
        Some(())
    }

    /// Finds the keys that are due at this time, until [`Due::take_back`]; nothing is put before that, or [`Due::keep`].
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn find(&mut self, now: i64, pace: &mut Pace) -> Result<()> {
        let Self { buckets, shift, times, found, upto, .. } = self;
        for bucket in buckets.iter().take_while(|bucket| bucket.number <= now >> *shift) {
            pace.check(bucket.entries.len())?;
            let due = bucket.entries.iter().filter(|entry| entry.at <= now);
            found.extend(due.filter(|entry| times[entry.key as usize] == entry.at).map(|entry| entry.key));
        }
        pace.check(found.len())?;
        found.sort_unstable();
        found.dedup();
        *upto = Some(now);
        Ok(())
    }

    /// The keys that were found; they ascend.
    pub(super) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Commits that keys were found, and returns them: they have no entries any longer. Where it would have paid off to look
    /// at all of so many, no key is known any longer.
    pub(super) fn keep(&mut self, keys: usize) -> Vec<u32> {
        let found = std::mem::take(&mut self.found);
        if let Some(now) = self.upto.take() {
            let last = now >> self.shift;
            self.buckets.drain(..self.buckets.partition_point(|bucket| bucket.number < last));
            if let Some(first) = self.buckets.first_mut().filter(|bucket| bucket.number == last) {
                first.entries.retain(|entry| entry.at > now);
                if first.entries.is_empty() {
                    self.buckets.remove(0);
                }
            }
        }
        found.iter().for_each(|&key| self.times[key as usize] = NEVER);
        if DENSE * found.len() > keys {
            self.reset();
        }
        found
    }

    /// Rolls back that keys were found.
    pub(super) fn take_back(&mut self) {
        self.found.clear();
        self.upto = None;
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let entries: usize = self.buckets.iter().map(|bucket| bucket.entries.capacity()).sum();
        entries * size_of::<Entry>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.times.capacity() * size_of::<i64>()
            + self.found.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Calls that put keys off to an earlier time, find those that are due, and take effect or are rolled back.
        #[test]
        fn keys_are_found_when_they_are_due(
            calls in prop::collection::vec(
                (prop::collection::vec((0u32..9, -30i64..30), 0..8), -30i64..30, any::<bool>()),
                0..40,
            ),
            keys in 1usize..200,
        ) {
            let (mut due, mut model) = (Due::default(), BTreeMap::<u32, i64>::new());
            due.put(1, 1);
            due.begin();
            for (puts, now, takes_effect) in calls {
                for (key, at) in puts {
                    due.put(key, at);
                    let time = model.entry(key).or_insert(at);
                    *time = at.min(*time);
                }
                let want: Vec<u32> =
                    model.iter().filter(|&(_, &at)| at <= now).map(|(&key, _)| key).collect();
                due.find(now, &mut Pace::new()).unwrap();
                prop_assert_eq!(due.found(), &want);
                if takes_effect {
                    prop_assert!(due.is_known());
                    prop_assert_eq!(&due.keep(keys), &want);
                    model.retain(|_, &mut at| at > now);
                    prop_assert_eq!(due.is_known(), DENSE * want.len() <= keys);
                    if !due.is_known() {
                        due.begin();
                        model.iter().for_each(|(&key, &at)| due.put(key, at));
                    }
                } else {
                    due.take_back();
                }
            }
        }
    }
}
