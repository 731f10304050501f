//! When keys are looked at again, so that what a watermark does is found by time, and not by visiting all keys.
//!
//! | | |
//! |---|---|
//! | needs | for each key a time before which nothing can be due |
//! | time | O(1) an entry that is made in order of time, else O(log entries); a row of a key that has one makes none |
//! | space | an entry for each key, and its time |
//!
//! Entries are lazy: rows mostly put off what is due, and leave the entry of their key as it is. When its time has come,
//! the key is looked at, and has a new entry. What is too early costs a look, and never changes a result; so entries that
//! an attempted call makes may stay where it is rolled back.

use crate::Result;
use crate::interrupt::Pace;
use crate::operator::held::{Agenda, Placed};

/// So few keys are all looked at: to find one takes ten times as long as a look at it.
const FEW: usize = 128;

/// How many simple steps an entry takes.
const ENTRY: usize = 8;

/// The time of a key without an entry.
const NEVER: i64 = i64::MAX;

/// An entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: i64,
    key: u32,
}

impl Placed for Entry {
    fn place(&self) -> i64 {
        self.at
    }
}

/// Keys by the time when something may be due.
#[derive(Debug, Default)]
pub(super) struct Due {
    agenda: Agenda<Entry>,
    /// The time of the entry of each key that counts: its others were made before, for later.
    times: Vec<i64>,
    /// The keys that the attempted call has found, in order of time.
    found: Vec<u32>,
    /// Whether each key with something to come has an entry. Otherwise all keys are looked at.
    is_known: bool,
}

impl Due {
    /// Whether keys are found. Otherwise each of them may be due.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it pays off to know when each of so many keys is due.
    pub(super) fn pays(keys: usize) -> bool {
        keys > FEW
    }

    /// Knows that no key has anything to come but what is put from now on.
    pub(super) fn begin(&mut self) {
        *self = Self { is_known: true, ..Self::default() };
    }

    /// Knows no key any longer.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Has a key looked at from this time on. Where there is no memory for that, no key is known any longer.
    #[inline]
    pub(super) fn put(&mut self, key: u32, at: i64) {
        if self.is_known && self.times.get(key as usize).is_none_or(|&time| at < time) && at < NEVER {
            self.put_earlier(Entry { at, key });
        }
    }

    fn put_earlier(&mut self, entry: Entry) {
        let known = entry.key as usize + 1;
        let more = known.saturating_sub(self.times.len());
        if self.times.try_reserve(more).is_err() || !self.agenda.try_reserve(&[entry]) {
            return self.reset();
        }
        if more > 0 {
            self.times.resize(known, NEVER);
        }
        self.times[entry.key as usize] = entry.at;
        self.agenda.push(entry);
    }

    /// Finds the keys that are due at this time, until [`Due::take_back`]; they ascend.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn find(&mut self, now: i64, pace: &mut Pace) -> Result<Vec<u32>> {
        while let Some(Entry { at, key }) = self.agenda.pop(|at| Ok(at <= now))? {
            pace.check(ENTRY)?;
            if self.times[key as usize] == at {
                self.found.push(key);
            }
        }
        let mut ascending = self.found.clone();
        ascending.sort_unstable();
        ascending.dedup();
        Ok(ascending)
    }

    /// The keys that were found, in order of time; one may be there twice.
    pub(super) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Commits that keys were found, and returns them: they have no entries any longer.
    pub(super) fn keep(&mut self) -> Vec<u32> {
        self.agenda.keep();
        let found = std::mem::take(&mut self.found);
        found.iter().for_each(|&key| self.times[key as usize] = NEVER);
        found
    }

    /// Rolls back that keys were found.
    pub(super) fn take_back(&mut self) {
        self.agenda.take_back();
        self.found.clear();
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.agenda.bytes()
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
            )
        ) {
            let (mut due, mut model) = (Due::default(), BTreeMap::new());
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
                prop_assert_eq!(&due.find(now, &mut Pace::new()).unwrap(), &want);
                if takes_effect {
                    let mut found = due.keep();
                    prop_assert!(found.is_sorted_by_key(|key| model[key]));
                    found.sort_unstable();
                    found.dedup();
                    prop_assert_eq!(found, want);
                    model.retain(|_, &mut at| at > now);
                } else {
                    due.take_back();
                }
            }
        }
    }
}
