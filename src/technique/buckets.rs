//! The driver of techniques that keep each window by itself (Li et al., SIGMOD 2005: window identifiers).
//!
//! A bucket is named by a slot. Rows go to their buckets in passes: pass k has the slot of the k-th window that each row
//! is in, counted from the one that starts last; one pass more per session.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::BooleanArray;

use super::sessions::{Live, Sessions};
use super::stream::Stream;
use super::{Setting, Stats, Technique, Told, Windows, filtered};
use crate::Result;
use crate::aggregate::{Input, Partials, Rows};
use crate::window::Session;

/// What buckets hold.
pub(super) trait Contents: Send {
    /// Takes in the columns of a batch; passes over its rows follow.
    fn batch(&mut self, inputs: &[Input]);

    /// A new bucket.
    fn open(&mut self) -> u32;

    /// Puts rows of the batch, all or those of `kept`, into buckets; returns how many states were joined.
    fn fill(&mut self, inputs: &[Input], rows: Rows<'_>, kept: Option<&[u32]>) -> Result<u64>;

    /// Aggregates of groups of buckets: `slots[groups[g]..groups[g + 1]]`; and how many states were joined.
    fn answer(&mut self, slots: &[u32], groups: &[u32]) -> Result<(Vec<Box<dyn Partials>>, u64)>;

    /// Drops buckets.
    fn free(&mut self, slots: &[u32]);

    /// The new slots of all buckets, if they have been numbered anew.
    fn settle(&mut self) -> Result<Option<Vec<u32>>>;

    /// Rows, partials and bytes held.
    fn held(&self) -> (usize, usize, usize);
}

/// A bucket of a window over time.
struct Bucket {
    slot: u32,
    told: bool,
}

/// The buckets of one key.
struct Key {
    /// For each of the stream's windows over time, buckets by their starts.
    sliding: Vec<BTreeMap<i64, Bucket>>,
    /// For each of the stream's sessions.
    sessions: Vec<Sessions<Vec<u32>>>,
}

/// A bucket per window.
pub(super) struct Buckets<C> {
    name: &'static str,
    stream: Stream,
    keys: Vec<Key>,
    contents: C,
}

/// Rows that a pass leaves out.
const NONE: u32 = u32::MAX;

impl<C: Contents> Buckets<C> {
    pub(super) fn new(
        name: &'static str,
        setting: Setting,
        contents: impl FnOnce(Vec<Box<dyn Partials>>) -> C,
    ) -> Result<Self> {
        let (stream, partials) = Stream::new(name, setting)?;
        Ok(Self { name, stream, keys: Vec::new(), contents: contents(partials) })
    }

    fn pass(&mut self, inputs: &[Input], slots: &[u32], times: &[i64]) -> Result<()> {
        self.stream.counts.combines += if slots.contains(&NONE) {
            let kept: Vec<u32> = (0..slots.len() as u32).filter(|&row| slots[row as usize] != NONE).collect();
            if kept.is_empty() {
                return Ok(());
            }
            let mask: BooleanArray = slots.iter().map(|&slot| Some(slot != NONE)).collect();
            let inputs = inputs.iter().map(|input| filtered(input, &mask)).collect::<Result<Vec<_>>>()?;
            let slots: Vec<u32> = kept.iter().map(|&row| slots[row as usize]).collect();
            let times: Vec<i64> = kept.iter().map(|&row| times[row as usize]).collect();
            self.contents.fill(&inputs, Rows::all(&slots, &times), Some(&kept))?
        } else {
            self.contents.fill(inputs, Rows::all(slots, times), None)?
        };
        Ok(())
    }

    /// All sessions of a batch: the slots of each pass, which rows are in no window, and the keys of late rows.
    fn sessions(&mut self, keys: &[u32], times: &[i64]) -> (Vec<Vec<u32>>, Vec<u32>) {
        let Self { stream, keys: all, contents, .. } = self;
        let cutoff = stream.cutoff();
        let mut passes = vec![Vec::with_capacity(times.len()); stream.sessions.len()];
        let mut late_keys = Vec::new();
        for (&key, &t) in keys.iter().zip(times) {
            if all.len() <= key as usize {
                let sessions = stream.sessions.len();
                let windows = stream.sliding.len();
                all.resize_with(key as usize + 1, || Key {
                    sliding: (0..windows).map(|_| BTreeMap::new()).collect(),
                    sessions: (0..sessions).map(|_| Sessions::default()).collect(),
                });
            }
            if t < cutoff {
                stream.counts.late += 1;
                passes.iter_mut().for_each(|pass| pass.push(NONE));
                continue;
            }
            let own = all[key as usize].sessions.iter_mut();
            for ((own, (_, session)), pass) in own.zip(&stream.sessions).zip(&mut passes) {
                let live = own.add(session, t, |own: &mut Vec<u32>, other| own.extend(other));
                if live.part.is_empty() {
                    live.part.push(contents.open());
                }
                pass.push(live.part[0]);
            }
            if t < stream.watermark() {
                late_keys.push(key);
            }
        }
        late_keys.sort_unstable();
        late_keys.dedup();
        (passes, late_keys)
    }

    /// The slots of the `k`-th windows of the rows; whether any row has one. Buckets that late rows change are noted.
    fn slide(
        &mut self,
        which: usize,
        k: i64,
        (keys, times): (&[u32], &[i64]),
        slots: &mut Vec<u32>,
        changed: &mut BTreeSet<(u32, usize, i64)>,
    ) -> bool {
        let Self { stream, keys: all, contents, .. } = self;
        let window = stream.sliding[which].1;
        let (watermark, expired) = (stream.watermark(), stream.expired());
        slots.clear();
        let mut any = false;
        // Times of the rows of one key that go to the same bucket as the last one.
        let (mut of, mut from, mut to, mut slot) = (u32::MAX, 0, 0, NONE);
        for (&key, &t) in keys.iter().zip(times) {
            if key != of || t < from || t >= to {
                let latest = window.last_start(t);
                let start = latest - k * window.slide();
                let end = window.extent(start).1;
                (of, from, to) = (key, latest, latest + window.slide());
                slot = NONE;
                if t < end {
                    to = to.min(end);
                } else {
                    from = from.max(end);
                }
                if t < end && end > expired {
                    let own = &mut all[key as usize].sliding[which];
                    let bucket =
                        own.entry(start).or_insert_with(|| Bucket { slot: contents.open(), told: false });
                    slot = bucket.slot;
                    if end <= watermark {
                        changed.insert((key, which, start));
                        bucket.told = true;
                    }
                }
            }
            any |= slot != NONE;
            slots.push(slot);
        }
        any
    }

    /// Sessions of a key that are to be told, by what `due` says of each and whether it is an update.
    fn tell_sessions(
        &mut self,
        key: u32,
        due: impl Fn(&mut Live<Vec<u32>>, &Session) -> Option<bool>,
        told: &mut Vec<Told>,
        slots: &mut Vec<u32>,
        groups: &mut Vec<u32>,
    ) {
        let own = &mut self.keys[key as usize].sessions;
        for (own, (window, session)) in own.iter_mut().zip(&self.stream.sessions) {
            for live in own.live_mut() {
                if let Some(update) = due(live, session) {
                    let (start, end) = session.extent(live.first, live.last);
                    told.push(Told { key, window: *window, start, end, update });
                    groups.push(slots.len() as u32);
                    slots.extend_from_slice(&live.part);
                }
            }
        }
    }

    fn answer(&mut self, told: Vec<Told>, slots: &[u32], groups: &[u32]) -> Result<Windows> {
        let (partials, combines) = self.contents.answer(slots, groups)?;
        let counts = &mut self.stream.counts;
        counts.combines += combines;
        counts.windows += told.len() as u64;
        counts.updates += told.iter().filter(|window| window.update).count() as u64;
        Ok(Windows::new(told, partials))
    }

    /// Drops buckets that have expired.
    fn evict(&mut self) -> Result<()> {
        let (expired, cutoff) = (self.stream.expired(), self.stream.cutoff());
        let mut gone = Vec::new();
        for key in &mut self.keys {
            for (own, (_, window)) in key.sliding.iter_mut().zip(&self.stream.sliding) {
                while let Some(first) = own.first_entry()
                    && window.extent(*first.key()).1 <= expired
                {
                    gone.push(first.remove().slot);
                }
            }
            for (own, (_, session)) in key.sessions.iter_mut().zip(&self.stream.sessions) {
                own.drop_before(session, cutoff, |part| gone.extend(part));
            }
        }
        self.contents.free(&gone);
        if let Some(numbers) = self.contents.settle()? {
            for key in &mut self.keys {
                let sliding = key.sliding.iter_mut().flat_map(|own| own.values_mut());
                sliding.for_each(|bucket| bucket.slot = numbers[bucket.slot as usize]);
                let sessions = key.sessions.iter_mut().flat_map(|own| own.live_mut());
                sessions.flat_map(|live| &mut live.part).for_each(|slot| *slot = numbers[*slot as usize]);
            }
        }
        Ok(())
    }
}

impl<C: Contents> Technique for Buckets<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        self.contents.batch(inputs);
        let (passes, late_keys) = self.sessions(keys, times);
        for slots in passes {
            self.pass(inputs, &slots, times)?;
        }
        let mut changed = BTreeSet::new();
        let mut slots = Vec::with_capacity(times.len());
        for which in 0..self.stream.sliding.len() {
            let window = self.stream.sliding[which].1;
            for k in 0..(window.size() - 1) / window.slide() + 1 {
                if self.slide(which, k, (keys, times), &mut slots, &mut changed) {
                    self.pass(inputs, &slots, times)?;
                }
            }
        }
        let (mut told, mut slots, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for (key, which, start) in changed {
            let (window, sliding) = self.stream.sliding[which];
            told.push(Told { key, window, start, end: sliding.extent(start).1, update: true });
            groups.push(slots.len() as u32);
            slots.push(self.keys[key as usize].sliding[which][&start].slot);
        }
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        for key in late_keys {
            let due = |live: &mut Live<Vec<u32>>, session: &Session| {
                live.changes(session, watermark, expired).then_some(true)
            };
            self.tell_sessions(key, due, &mut told, &mut slots, &mut groups);
        }
        self.answer(told, &slots, &groups)
    }

    fn cutoff(&self) -> i64 {
        self.stream.cutoff()
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let since = self.stream.within(before);
        let (mut told, mut slots, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for key in 0..self.keys.len() as u32 {
            let own = &mut self.keys[key as usize].sliding;
            for (own, (window, sliding)) in own.iter_mut().zip(&self.stream.sliding) {
                // Those that end before have been told.
                for (&start, bucket) in own.range_mut(since - sliding.size() + 1..) {
                    let end = sliding.extent(start).1;
                    if end > watermark {
                        break;
                    }
                    if !std::mem::replace(&mut bucket.told, true) {
                        told.push(Told { key, window: *window, start, end, update: false });
                        groups.push(slots.len() as u32);
                        slots.push(bucket.slot);
                    }
                }
            }
            let due = |live: &mut Live<Vec<u32>>, session: &Session| live.ends(session, before, watermark);
            self.tell_sessions(key, due, &mut told, &mut slots, &mut groups);
        }
        let windows = self.answer(told, &slots, &groups)?;
        self.evict()?;
        Ok(windows)
    }

    fn stats(&self) -> Stats {
        let (rows, partials, bytes) = self.contents.held();
        let counts = self.stream.counts;
        let own = |key: &Key| {
            let buckets: usize = key.sliding.iter().map(BTreeMap::len).sum();
            let sessions: usize = key.sessions.iter().map(|own| own.live().len()).sum();
            size_of::<Key>() + buckets * size_of::<(i64, Bucket)>() + sessions * size_of::<Live<Vec<u32>>>()
        };
        Stats {
            rows,
            partials,
            bytes: bytes + self.keys.iter().map(own).sum::<usize>(),
            combines: counts.combines,
            late: counts.late,
            windows: counts.windows,
            updates: counts.updates,
        }
    }
}
