//! The driver of techniques that keep each window by itself (Li et al., SIGMOD 2005: window identifiers).
//!
//! A bucket is named by a slot. Rows go to their buckets in passes: pass k has the slot of the k-th window that each row
//! is in, counted from the one that starts last; one pass more per session. Windows of a number of rows have passes where
//! rows come in order, and are lists that rows are put into where these are kept ([`super::rank_buckets`]).

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::BooleanArray;

use crate::lists::Lists;
use crate::rank_buckets::RankBuckets;
use crate::row_store::Row;
use crate::sessions::{Live, Sessions};
use crate::stream::Stream;
use crate::{Emitted, Setting, Stats, Technique, Windows, filtered};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};
use windowkit::window::Session;

/// What buckets hold.
pub(crate) trait Contents: Send {
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

    /// The lists of rows that buckets are, if they are.
    fn lists(&mut self) -> Option<&mut Lists> {
        None
    }

    /// The new slots of all buckets, if they have been numbered anew.
    fn settle(&mut self) -> Result<Option<Vec<u32>>>;

    /// Drops all buckets.
    fn clear(&mut self);

    /// Rows, partials and bytes held.
    fn held(&self) -> (usize, usize, usize);
}

/// A bucket of a window over time.
struct Bucket {
    slot: u32,
    emitted: bool,
}

/// The buckets of one key.
struct Key {
    /// For each of the stream's windows over time, buckets by their starts.
    sliding: Vec<BTreeMap<i64, Bucket>>,
    /// For each of the stream's sessions.
    sessions: Vec<Sessions<Vec<u32>>>,
    /// For each of the stream's windows of a number of rows.
    counted: Vec<RankBuckets>,
}

/// Windows that are ready: names, the slots of their buckets, and where those of each begin.
#[derive(Default)]
struct Ready {
    emitted: Vec<Emitted>,
    slots: Vec<u32>,
    groups: Vec<u32>,
}

impl Ready {
    fn push(&mut self, emitted: Emitted, slots: &[u32]) {
        self.emitted.push(emitted);
        self.groups.push(self.slots.len() as u32);
        self.slots.extend_from_slice(slots);
    }
}

/// A bucket per window.
pub(crate) struct Buckets<C> {
    name: &'static str,
    stream: Stream,
    keys: Vec<Key>,
    contents: C,
}

/// Rows that a pass leaves out.
const NONE: u32 = u32::MAX;

impl<C: Contents> Buckets<C> {
    pub(crate) fn new(
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

    /// Makes room for keys.
    fn meet(&mut self, keys: &[u32]) {
        let most = keys.iter().max().map_or(0, |&key| key as usize + 1);
        let stream = &self.stream;
        while self.keys.len() < most {
            self.keys.push(Key {
                sliding: stream.sliding.iter().map(|_| BTreeMap::new()).collect(),
                sessions: stream.sessions.iter().map(|_| Sessions::default()).collect(),
                counted: stream.counted.iter().map(|_| RankBuckets::default()).collect(),
            });
        }
    }

    /// All sessions of a batch: the slots of each pass, which rows are in no window, and the keys of late rows.
    fn sessions(&mut self, keys: &[u32], times: &[i64]) -> (Vec<Vec<u32>>, Vec<u32>) {
        let Self { stream, keys: all, contents, .. } = self;
        let cutoff = stream.cutoff();
        let mut passes = vec![Vec::with_capacity(times.len()); stream.sessions.len()];
        let mut late_keys = Vec::new();
        for (&key, &t) in keys.iter().zip(times) {
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
                        own.entry(start).or_insert_with(|| Bucket { slot: contents.open(), emitted: false });
                    slot = bucket.slot;
                    if end <= watermark {
                        changed.insert((key, which, start));
                        bucket.emitted = true;
                    }
                }
            }
            any |= slot != NONE;
            slots.push(slot);
        }
        any
    }

    /// Puts the rows of a batch into windows of a number of rows. Returns the keys and the least rank of each one's rows,
    /// window by window.
    fn count(&mut self, inputs: &[Input], keys: &[u32], times: &[i64]) -> Result<BTreeMap<u32, Vec<u64>>> {
        let Self { stream, keys: all, contents, .. } = self;
        let Some(lists) = contents.lists() else { return self.count_in_order(inputs, keys, times) };
        let cutoff = stream.cutoff();
        let mut rows: Vec<(u32, Row)> = (0..keys.len())
            .filter(|&row| times[row] >= cutoff)
            .map(|row| (keys[row], (times[row], lists.place(row as u32))))
            .collect();
        if !rows.is_sorted() {
            rows.sort_unstable();
        }
        let mut changed = BTreeMap::new();
        for own in rows.chunk_by(|a, b| a.0 == b.0) {
            let (key, own): (u32, Vec<Row>) = (own[0].0, own.iter().map(|row| row.1).collect());
            let counted = all[key as usize].counted.iter_mut().zip(&stream.counted);
            let first = counted.map(|(buckets, (_, kind))| buckets.insert(kind, &own, lists)).collect();
            changed.insert(key, first);
        }
        Ok(changed)
    }

    /// Counts rows in order, which move no others.
    fn count_in_order(
        &mut self,
        inputs: &[Input],
        keys: &[u32],
        times: &[i64],
    ) -> Result<BTreeMap<u32, Vec<u64>>> {
        let mut changed = BTreeMap::new();
        for &key in keys {
            let first = || self.keys[key as usize].counted.iter().map(RankBuckets::rows).collect();
            changed.entry(key).or_insert_with(first);
        }
        let (mut ranks, mut slots) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for which in 0..self.stream.counted.len() {
            let kind = self.stream.counted[which].1;
            let (size, slide) = (kind.size() as u64, kind.slide() as u64);
            ranks.clear();
            for &key in keys {
                let own = &mut self.keys[key as usize].counted[which];
                ranks.push(own.rows());
                own.count();
            }
            for pass in 0..(size - 1) / slide + 1 {
                slots.clear();
                for ((&key, &t), &rank) in keys.iter().zip(times).zip(&ranks) {
                    let k = (rank / slide).checked_sub(pass).filter(|k| rank < k * slide + size);
                    let own = &mut self.keys[key as usize].counted[which];
                    slots.push(k.map_or(NONE, |k| own.slot(k, t, || self.contents.open())));
                }
                self.pass(inputs, &slots, times)?;
            }
        }
        Ok(changed)
    }

    /// Windows of a number of rows of a key that are final and were not, or that end after the rank where they changed.
    fn emit_counted(&mut self, key: u32, changed: Option<&[u64]>, ready: &mut Ready) {
        let Self { stream, keys, .. } = self;
        for (at, (buckets, (window, kind))) in
            keys[key as usize].counted.iter_mut().zip(&stream.counted).enumerate()
        {
            let changed = changed.map_or(u64::MAX, |changed| changed[at]);
            let is_final = |t| stream.is_final(t);
            buckets
                .emit(kind, changed, is_final, (key, *window), |emitted, slot| ready.push(emitted, &[slot]));
        }
    }

    /// Sessions of a key that are to be emitted, by what `is_ready` says of each and whether it is an update.
    fn emit_sessions(
        &mut self,
        key: u32,
        is_ready: impl Fn(&mut Live<Vec<u32>>, &Session) -> Option<bool>,
        ready: &mut Ready,
    ) {
        let own = &mut self.keys[key as usize].sessions;
        for (own, (window, session)) in own.iter_mut().zip(&self.stream.sessions) {
            for live in own.live_mut() {
                if let Some(update) = is_ready(live, session) {
                    let (start, end) = session.extent(live.first, live.last);
                    ready.push(Emitted { key, window: *window, start, end, ranks: None, update }, &live.part);
                }
            }
        }
    }

    fn answer(&mut self, ready: Ready) -> Result<Windows> {
        let (partials, combines) = self.contents.answer(&ready.slots, &ready.groups)?;
        self.stream.counts.emit(&ready.emitted, combines);
        Ok(Windows::new(ready.emitted, partials))
    }

    /// What the watermark makes ready; at the end of the stream also unfinished windows.
    fn reach(&mut self, watermark: i64, closing: bool) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let since = self.stream.within(before);
        let mut ready = Ready::default();
        for key in 0..self.keys.len() as u32 {
            let own = &mut self.keys[key as usize].sliding;
            for (own, (window, sliding)) in own.iter_mut().zip(&self.stream.sliding) {
                // Those that end before have been emitted.
                for (&start, bucket) in own.range_mut(since - sliding.size() + 1..) {
                    let end = sliding.extent(start).1;
                    if end > watermark {
                        break;
                    }
                    if !std::mem::replace(&mut bucket.emitted, true) {
                        let window = Emitted { key, window: *window, start, end, ranks: None, update: false };
                        ready.push(window, &[bucket.slot]);
                    }
                }
            }
            self.emit_sessions(key, |live, session| live.ends(session, before, watermark), &mut ready);
            self.emit_counted(key, None, &mut ready);
            let partial = self.keys[key as usize].counted.iter().zip(&self.stream.counted);
            for (buckets, (window, kind)) in partial.filter(|(_, (_, kind))| closing && kind.partial().end) {
                buckets.emit_unfinished(kind, (key, *window), |emitted, slot| ready.push(emitted, &[slot]));
            }
        }
        let windows = self.answer(ready)?;
        self.evict()?;
        Ok(windows)
    }

    /// Drops buckets that have expired.
    fn evict(&mut self) -> Result<()> {
        let (expired, cutoff, floor) = (self.stream.expired(), self.stream.cutoff(), self.stream.floor());
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
            for (own, (_, kind)) in key.counted.iter_mut().zip(&self.stream.counted) {
                own.drop_before(kind, floor, &mut gone);
            }
        }
        self.contents.free(&gone);
        if let Some(numbers) = self.contents.settle()? {
            for key in &mut self.keys {
                let sliding = key.sliding.iter_mut().flat_map(|own| own.values_mut());
                sliding.for_each(|bucket| bucket.slot = numbers[bucket.slot as usize]);
                let sessions = key.sessions.iter_mut().flat_map(|own| own.live_mut());
                let parts = sessions.flat_map(|live| &mut live.part);
                let counted = key.counted.iter_mut().flat_map(RankBuckets::slots_mut);
                parts.chain(counted).for_each(|slot| *slot = numbers[*slot as usize]);
            }
        }
        Ok(())
    }
}

impl<C: Contents + 'static> Technique for Buckets<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        self.contents.batch(inputs);
        self.meet(keys);
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
        let counted = match self.stream.counted.is_empty() {
            true => BTreeMap::new(),
            false => self.count(inputs, keys, times)?,
        };
        let mut ready = Ready::default();
        for (key, which, start) in changed {
            let (window, sliding) = self.stream.sliding[which];
            let (slot, end) = (self.keys[key as usize].sliding[which][&start].slot, sliding.extent(start).1);
            ready.push(Emitted { key, window, start, end, ranks: None, update: true }, &[slot]);
        }
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        for key in late_keys {
            let is_ready = |live: &mut Live<Vec<u32>>, session: &Session| {
                live.changes(session, watermark, expired).then_some(true)
            };
            self.emit_sessions(key, is_ready, &mut ready);
        }
        for (key, changed) in counted {
            self.emit_counted(key, Some(&changed), &mut ready);
        }
        self.answer(ready)
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        self.reach(watermark, false)
    }

    fn close(&mut self) -> Result<Windows> {
        let windows = self.reach(i64::MAX, true)?;
        self.keys.clear();
        self.contents.clear();
        Ok(windows)
    }

    fn stats(&self) -> Stats {
        let (rows, partials, bytes) = self.contents.held();
        let own = |key: &Key| {
            let buckets: usize = key.sliding.iter().map(BTreeMap::len).sum();
            let sessions: usize = key.sessions.iter().map(|own| own.live().len()).sum();
            let counted: usize = key.counted.iter().map(RankBuckets::bytes).sum();
            size_of::<Key>()
                + buckets * size_of::<(i64, Bucket)>()
                + sessions * size_of::<Live<Vec<u32>>>()
                + counted
        };
        self.stream.counts.stats(rows, partials, bytes + self.keys.iter().map(own).sum::<usize>())
    }
}
