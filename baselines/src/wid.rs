//! Window ids: a row is tagged with the range of ids of its windows, and aggregated into a hash table by key and id (Li
//! 2008, §6.1).
//!
//! | | |
//! |---|---|
//! | needs | any function of rows in order, commutative ones of rows out of order; windows whose ids a row's time gives, and slide-by-tuple windows in the order of arrival |
//! | time | O(o) look-ups in a hash table per row that o windows have; the watermark goes over the whole table. Slide by tuple: O(n) per row for n rows in the length of a window |
//! | space | a partial per key and window that has not expired; slide by tuple: two per row |
//! | refuses | sessions, and windows of a number of rows; of rows out of order functions that do not commute |
//! | source | Li 2008, Fig. 6-2 (Bucket), Fig. 6-4 (Aggregate), Fig. 6-7 (slide by tuple: [`crate::wid_bins`]) |
//!
//! In contrast to aggregate buckets, one hash table has the windows of all keys, and nothing knows which of them end next.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_array::BooleanArray;
use foldhash::fast::FixedState;

use crate::slots::Slots;
use crate::stream::Stream;
use crate::wid_bins::Bins;
use crate::{Emitted, Setting, Stats, Technique, Windows, filtered, refused};
use windowkit::Result;
use windowkit::aggregate::{Input, Rows};
use windowkit::slice::strategy::Order;
use windowkit::window::{Sliding, Window};

const NAME: &str = "wid";

/// Rows that a pass leaves out.
const NONE: u32 = u32::MAX;

/// A table without rows.
///
/// # Errors
/// `InvalidValue` for sessions, windows of a number of rows, a window type that no technique knows, a lateness below zero,
/// and of rows out of order for functions that do not commute.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let allowed = "tumbling and sliding windows over time, and the last time at every n-th arrival";
    if setting.windows.iter().any(|window| matches!(window, Window::Session(_))) {
        return Err(refused(NAME, "session window", "it has no id before its rows", allowed));
    }
    if setting.windows.iter().any(|window| matches!(window, Window::Counted(_))) {
        return Err(refused(
            NAME,
            "window of a number of rows",
            "its ids count rows as they arrive, and windows here count them in the order of time",
            allowed,
        ));
    }
    let commutative = setting.partials.iter().all(|partials| partials.properties().commutative);
    if setting.order == Order::OutOfOrder && !commutative {
        return Err(refused(
            NAME,
            "function that does not commute, of rows out of order",
            "a bucket takes rows as they come",
            "functions that commute, or rows in order",
        ));
    }
    let (stream, partials) = Stream::new(NAME, setting)?;
    Ok(Box::new(Wid {
        stream,
        slots: Slots::new(partials),
        table: HashMap::default(),
        bins: Vec::new(),
        punctuated: Vec::new(),
    }))
}

/// Key, which of the stream's windows over time, and where the window starts: its id, but for the unit.
type Id = (u32, u32, i64);

/// The partial of a window.
struct Entry {
    slot: u32,
    emitted: bool,
}

struct Wid {
    stream: Stream,
    slots: Slots,
    table: HashMap<Id, Entry, FixedState>,
    /// For each key, of each of the stream's windows that arrivals end.
    bins: Vec<Vec<Bins>>,
    /// Up to which ids windows over time have been emitted and dropped.
    punctuated: Vec<(i64, i64)>,
}

impl Wid {
    /// Folds rows into the windows of these slots.
    fn pass(&mut self, inputs: &[Input], slots: &[u32], times: &[i64]) -> Result<()> {
        let mask: BooleanArray = slots.iter().map(|&slot| Some(slot != NONE)).collect();
        let kept: Vec<usize> = (0..slots.len()).filter(|&row| slots[row] != NONE).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let inputs = inputs.iter().map(|input| filtered(input, &mask)).collect::<Result<Vec<_>>>()?;
        let slots: Vec<u32> = kept.iter().map(|&row| slots[row]).collect();
        let times: Vec<i64> = kept.iter().map(|&row| times[row]).collect();
        self.slots.update(&inputs, Rows { slots: &slots, times: &times, sparse: true })?;
        self.stream.counts.combines += (slots.len() * self.slots.width()) as u64;
        Ok(())
    }

    /// Hashes rows into the windows over time of one type; final ones that they change are added to `changed`.
    fn hash(
        &mut self,
        which: usize,
        (keys, times): (&[u32], &[i64]),
        inputs: &[Input],
        changed: &mut BTreeSet<Id>,
    ) -> Result<()> {
        let window = self.stream.sliding[which].1;
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        // The k-th of each row's windows, counted from the one that starts last.
        for k in 0..(window.size() - 1) / window.slide() + 1 {
            let mut into = Vec::with_capacity(times.len());
            for (&key, &t) in keys.iter().zip(times) {
                let start = window.last_start(t) - k * window.slide();
                let end = window.extent(start).1;
                if t >= end || end <= expired {
                    into.push(NONE);
                    continue;
                }
                let id = (key, which as u32, start);
                let slots = &mut self.slots;
                let entry =
                    self.table.entry(id).or_insert_with(|| Entry { slot: slots.open(), emitted: false });
                into.push(entry.slot);
                if end <= watermark {
                    changed.insert(id);
                    entry.emitted = true;
                }
            }
            self.pass(inputs, &into, times)?;
        }
        Ok(())
    }

    /// Puts rows into bins, one after the other; returns the times of late rows by key and window.
    fn bin(
        &mut self,
        (keys, times): (&[u32], &[i64]),
        inputs: &[Input],
    ) -> Result<BTreeMap<(u32, usize), Vec<i64>>> {
        let mut late: BTreeMap<(u32, usize), Vec<i64>> = BTreeMap::new();
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        for (row, (&key, &t)) in keys.iter().zip(times).enumerate() {
            if self.bins.len() <= key as usize {
                let none = || self.stream.arrivals.iter().map(|_| Bins::default()).collect();
                self.bins.resize_with(key as usize + 1, none);
            }
            let one: Vec<Input> = inputs.iter().map(|input| input.slice(row, 1)).collect();
            for (which, (_, window)) in self.stream.arrivals.iter().enumerate() {
                if t <= expired.saturating_sub(window.size()) {
                    continue;
                }
                let bins = &mut self.bins[key as usize][which];
                self.stream.counts.combines += bins.add(window, t, &one, &mut self.slots)?;
                if t <= watermark {
                    late.entry((key, which)).or_default().push(t);
                }
            }
        }
        late.values_mut().for_each(|times| times.sort_unstable());
        Ok(late)
    }

    /// The windows of a key that arrivals end that are ready.
    fn bins_ready(
        &mut self,
        (key, which): (u32, usize),
        (from, until): (i64, i64),
        late: &[i64],
        ready: &mut Vec<(Emitted, u32)>,
    ) {
        let (window, kind) = self.stream.arrivals[which];
        let rows = kind.rows() as u64;
        if until < from {
            return;
        }
        self.bins[key as usize][which].ready(&kind, (from, until), late, |found| {
            let (start, ranks) = (found.end - kind.size(), (found.number * rows, (found.number + 1) * rows));
            let emitted =
                Emitted { key, window, start, end: found.end, ranks: Some(ranks), update: found.update };
            ready.push((emitted, found.slot));
        });
    }

    fn answer(&mut self, ready: Vec<(Emitted, u32)>) -> Result<Windows> {
        let (emitted, slots): (Vec<Emitted>, Vec<u32>) = ready.into_iter().unzip();
        let groups: Vec<u32> = (0..slots.len() as u32).collect();
        let partials = self.slots.regroup(&slots, &groups)?;
        self.stream.counts.emit(&emitted, 0);
        Ok(Windows::new(emitted, partials))
    }

    /// Drops what has expired; nothing over time has without a punctuation on ids.
    fn evict(&mut self, is_punctuated: bool) {
        let (expired, floor) = (self.stream.expired(), self.stream.floor());
        let mut gone = Vec::new();
        let stream = &self.stream;
        if is_punctuated {
            self.table.retain(|&(_, which, start), entry| {
                let is_kept = stream.sliding[which as usize].1.extent(start).1 > expired;
                if !is_kept {
                    gone.push(entry.slot);
                }
                is_kept
            });
        }
        // Windows that have not expired need the bins where they end, and rows to come the bin before them.
        let least = floor.min(expired);
        self.bins.iter_mut().flatten().for_each(|bins| bins.drop_before(least, &mut gone));
        self.slots.free(&gone);
    }
}

impl Technique for Wid {
    fn name(&self) -> &'static str {
        NAME
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        let cutoff = self.stream.cutoff();
        self.stream.counts.late += times.iter().filter(|&&t| t < cutoff).count() as u64;
        let mut changed = BTreeSet::new();
        for which in 0..self.stream.sliding.len() {
            self.hash(which, (keys, times), inputs, &mut changed)?;
        }
        let late = match self.stream.arrivals.is_empty() {
            true => BTreeMap::new(),
            false => self.bin((keys, times), inputs)?,
        };
        let mut ready = Vec::new();
        for id in changed {
            let (key, which, start) = id;
            let (window, sliding) = self.stream.sliding[which as usize];
            let (slot, end) = (self.table[&id].slot, sliding.extent(start).1);
            ready.push((Emitted { key, window, start, end, ranks: None, update: true }, slot));
        }
        let within = (self.stream.expired(), self.stream.watermark());
        for (at, late) in late {
            self.bins_ready(at, within, &late, &mut ready);
        }
        self.answer(ready)
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        // What expires by this watermark has not been emitted yet.
        let within = (self.stream.expired(), watermark);
        self.stream.advance(watermark)?;
        let mut ready = Vec::new();
        for key in 0..self.bins.len() as u32 {
            (0..self.stream.arrivals.len())
                .for_each(|which| self.bins_ready((key, which), within, &[], &mut ready));
        }
        // A punctuation on times that none on ids follows from makes nothing ready.
        let until = [watermark, self.stream.expired()].map(|time| self.stream.within(time));
        let ids =
            |(_, window): &(u32, Sliding)| (window.first_covering(until[0]), window.first_covering(until[1]));
        let punctuated: Vec<(i64, i64)> = self.stream.sliding.iter().map(ids).collect();
        let is_punctuated = std::mem::replace(&mut self.punctuated, punctuated.clone()) != punctuated;
        for (&(key, which, start), entry) in self.table.iter_mut().filter(|_| is_punctuated) {
            let (window, sliding) = self.stream.sliding[which as usize];
            let end = sliding.extent(start).1;
            if end <= watermark && !std::mem::replace(&mut entry.emitted, true) {
                ready.push((Emitted { key, window, start, end, ranks: None, update: false }, entry.slot));
            }
        }
        // A hash table has no order.
        ready.sort_by_key(|(emitted, _)| (emitted.key, emitted.window, emitted.start, emitted.ranks));
        let windows = self.answer(ready)?;
        self.evict(is_punctuated);
        Ok(windows)
    }

    fn close(&mut self) -> Result<Windows> {
        let windows = self.advance(i64::MAX)?;
        let mut gone: Vec<u32> =
            std::mem::take(&mut self.table).into_values().map(|entry| entry.slot).collect();
        for mut bins in std::mem::take(&mut self.bins).into_iter().flatten() {
            bins.clear(&mut gone);
        }
        self.slots.free(&gone);
        Ok(windows)
    }

    fn stats(&self) -> Stats {
        let bins = self.bins.iter().flatten();
        let table = self.table.capacity() * (size_of::<(Id, Entry)>() + 1);
        let bytes = self.slots.bytes() + table + bins.map(Bins::bytes).sum::<usize>();
        self.stream.counts.stats(0, self.slots.used(), bytes)
    }
}
