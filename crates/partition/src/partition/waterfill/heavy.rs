//! The heavy keys: found by hash, each with the worker it fills and the workers it knows.

use serde::{Deserialize, Serialize};

use super::super::Loads;

/// Heavy keys per worker: 1 / HEAVY of them, since so many can be heavy at once.
const PER_WORKER: usize = 16;
/// Workers known, over all heavy keys, per worker.
const KNOWN_PER_WORKER: usize = 64;
const FREE: u32 = u32::MAX;

/// A heavy key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    hash: u64,
    /// The worker that it fills.
    pub(super) worker: u32,
    /// The last known worker that was tried.
    at: u32,
    /// Rows in this epoch.
    pub(super) rows: u32,
    /// Whether it became heavy in this epoch.
    young: bool,
    /// Workers that got rows of it in this window.
    pub(super) known: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    tag: u32,
    slot: u32,
}

/// An open-addressed table of at most a constant number of keys per worker.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct HeavyKeys {
    #[serde(skip)]
    entries: Vec<Entry>,
    keys: Vec<Key>,
    #[serde(skip)]
    most: usize,
    #[serde(skip)]
    known: usize,
    #[serde(skip)]
    most_known: usize,
}

impl HeavyKeys {
    pub(super) fn new(workers: u32) -> Self {
        let workers = workers as usize;
        let most = (PER_WORKER * workers).clamp(64, 1 << 16);
        Self {
            entries: vec![Entry { tag: 0, slot: FREE }; (4 * most).next_power_of_two()],
            keys: Vec::new(),
            most,
            known: 0,
            most_known: (KNOWN_PER_WORKER * workers).max(4096),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let Entry { tag, slot } = self.entries[place];
            if slot == FREE {
                return None;
            }
            if tag == (hash >> 32) as u32 && self.keys[slot as usize].hash == hash {
                return Some(slot as usize);
            }
            place = (place + 1) & mask;
        }
    }

    /// Counts a row of the key.
    #[inline]
    pub(super) fn count(&mut self, slot: usize) -> &Key {
        let key = &mut self.keys[slot];
        key.rows = key.rows.saturating_add(1);
        key
    }

    pub(super) fn key(&self, slot: usize) -> &Key {
        &self.keys[slot]
    }

    pub(super) fn key_mut(&mut self, slot: usize) -> &mut Key {
        &mut self.keys[slot]
    }

    /// Makes a key heavy that was on `worker`, if there is room.
    #[cold]
    pub(super) fn insert(&mut self, hash: u64, worker: u32) {
        if self.keys.len() < self.most && self.has_room() {
            self.place(hash, self.keys.len() as u32);
            self.keys.push(Key { hash, worker, at: 0, rows: 0, young: true, known: vec![worker] });
            self.known += 1;
        }
    }

    fn place(&mut self, hash: u64, slot: u32) {
        let mask = self.entries.len() - 1;
        let mut place = hash as usize & mask;
        while self.entries[place].slot != FREE {
            place = (place + 1) & mask;
        }
        self.entries[place] = Entry { tag: (hash >> 32) as u32, slot };
    }

    /// Whether a key may be given one more worker.
    pub(super) fn has_room(&self) -> bool {
        self.known < self.most_known
    }

    /// Adds a worker to the key's known ones; returns whether it is new.
    pub(super) fn learn(&mut self, slot: usize, worker: u32) -> bool {
        let known = &mut self.keys[slot].known;
        let new = !known.contains(&worker);
        if new {
            known.push(worker);
            self.known += 1;
        }
        new
    }

    /// The first of the key's next `tried` known workers with a load below `enough`, or else the lowest of them and the
    /// key's own.
    pub(super) fn lowest_known(
        &mut self,
        slot: usize,
        tried: usize,
        enough: f64,
        loads: &Loads,
    ) -> (u32, u64) {
        let key = &mut self.keys[slot];
        let (mut best, mut least) = (key.worker, loads.of(key.worker));
        for _ in 0..tried.min(key.known.len()) {
            key.at = if key.at as usize + 1 >= key.known.len() { 0 } else { key.at + 1 };
            let worker = key.known[key.at as usize];
            let load = loads.of(worker);
            if load < least {
                (best, least) = (worker, load);
            }
            if (load as f64) < enough {
                break;
            }
        }
        (best, least)
    }

    /// Drops keys with fewer than `least` rows in this epoch; returns how many of them return to a home they do not
    /// know, which is one more pair of key and worker. Beyond `most` of those the others stay.
    pub(super) fn end_epoch(&mut self, least: u32, most: u64, home: impl Fn(u64) -> u32) -> u64 {
        let mut strangers = 0;
        self.keys.retain_mut(|key| {
            let mut stays = key.young || key.rows >= least;
            if !stays && !key.known.is_empty() && !key.known.contains(&home(key.hash)) {
                stays = strangers == most;
                strangers += u64::from(!stays);
            }
            (key.rows, key.young) = (0, false);
            stays
        });
        self.index();
        strangers
    }

    pub(super) fn end_window(&mut self) {
        self.keys.iter_mut().for_each(|key| key.known.clear());
        self.known = 0;
    }

    fn index(&mut self) {
        self.entries.fill(Entry { tag: 0, slot: FREE });
        for slot in 0..self.keys.len() {
            self.place(self.keys[slot].hash, slot as u32);
        }
        self.known = self.keys.iter().map(|key| key.known.len()).sum();
    }

    pub(super) fn bytes(&self) -> usize {
        let known: usize = self.keys.iter().map(|key| size_of_val(&key.known[..])).sum();
        size_of_val(&self.entries[..]) + size_of_val(&self.keys[..]) + known
    }

    /// These keys, which were read, in a table for so many workers; `None` if it cannot have them.
    pub(super) fn indexed(self, workers: u32) -> Option<Self> {
        let mut heavy = Self { keys: self.keys, ..Self::new(workers) };
        let are_there = |key: &Key| key.worker < workers && key.known.iter().all(|&worker| worker < workers);
        if heavy.keys.len() > heavy.most || !heavy.keys.iter().all(are_there) {
            return None;
        }
        heavy.index();
        (heavy.known <= heavy.most_known).then_some(heavy)
    }
}
