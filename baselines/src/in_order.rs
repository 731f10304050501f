//! The driver of techniques that slice streams in order at the edges of windows known in advance.
//!
//! Edges lie on two measures: on time, where all keys have the same, and on the number of a key's rows, which advances for
//! each key by itself. A slice ends at the next edge on either (Traub et al. 2019, §4.3: edges may lie on any advancing measure).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::edges::{Ahead, ContextFree, Families};
use crate::ranks::Ranked;
use crate::stream::{Stream, ready};
use crate::{Emitted, Setting, Stats, Technique, Windows, refused};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};
use windowkit::slice::strategy::Order;

/// Where a slice begins: the time and the rank of its first row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First {
    pub(crate) time: i64,
    pub(crate) rank: u64,
}

/// What a technique does with slices.
pub(crate) trait Answer: Send {
    /// Opens a slice behind all others of a key, which begins at `first`; whether a window starts with it.
    fn open(&mut self, key: u32, first: First, starts: bool) -> u32;

    /// Folds rows into their slots; returns how many states were joined.
    fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<u64>;

    /// Number of keys so far.
    fn keys(&self) -> usize;

    /// Where a key's slices begin.
    fn firsts(&self, key: u32) -> &[First];

    /// Aggregates of ranges of slices, and how many states were joined.
    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)>;

    /// Drops the first slices of a key.
    fn drop_first(&mut self, key: u32, slices: usize);

    /// All windows up to the watermark are answered. Whether slots have other numbers now.
    fn settle(&mut self, watermark: i64) -> Result<bool>;

    /// Slot of the last slice of a key.
    fn slot(&self, key: u32) -> Option<u32>;

    /// Slots and bytes held.
    fn held(&self) -> (usize, usize);
}

/// A slicing technique for streams in order.
pub(crate) struct ByEdges<A> {
    name: &'static str,
    stream: Stream,
    /// User-defined windows, numbered after the query's.
    own: Vec<(u32, Arc<dyn ContextFree>)>,
    /// The edges of windows over time, user-defined ones included.
    families: Families,
    /// The next edges; none before the first row.
    next: Option<Ahead>,
    /// Number of the current slice, over all keys.
    current: u64,
    starts: bool,
    /// For each key the number of its latest slice, and its slot.
    cursors: Vec<(u64, u32)>,
    /// The edges of windows of a number of rows.
    counted: Families,
    /// How far each key's rows are counted; none if no window is of a number of rows.
    ranked: Vec<Ranked>,
    answer: A,
}

/// Windows on their way out, and their ranges of slices.
#[derive(Default)]
struct Ready {
    emitted: Vec<Emitted>,
    ranges: Vec<(u32, usize, usize)>,
}

impl<A: Answer> ByEdges<A> {
    pub(crate) fn new(
        name: &'static str,
        mut setting: Setting,
        answer: impl FnOnce(Vec<Box<dyn Partials>>) -> Result<A>,
    ) -> Result<Self> {
        if setting.order == Order::OutOfOrder {
            return Err(refused(
                name,
                "rows out of order",
                "a slice that has ended is never changed",
                "rows in order (order=\"in-order\")",
            ));
        }
        // No row comes late, so that nothing need be kept for one.
        setting.lateness = setting.lateness.min(0);
        let own = std::mem::take(&mut setting.own);
        let own: Vec<_> = (setting.windows.len() as u32..).zip(own).collect();
        let (stream, partials) = Stream::new(name, setting)?;
        if !stream.sessions.is_empty() {
            return Err(refused(
                name,
                "session window",
                "its edges depend on the rows, and slices are cut at edges known before them",
                "windows whose edges are known in advance, as tumbling and sliding ones",
            ));
        }
        let over_time = stream.sliding.iter().map(|(_, window)| window.edges());
        let over_rows = stream.counted.iter().map(|(_, window)| {
            let (size, slide) = (window.size() as i64, window.slide() as i64);
            [(slide, 0), (slide, size % slide)]
        });
        Ok(Self {
            name,
            families: Families::new(over_time, own.iter().map(|(_, own)| own.clone()).collect()),
            counted: Families::new(over_rows, Vec::new()),
            own,
            next: None,
            current: 0,
            starts: true,
            cursors: Vec::new(),
            ranked: Vec::new(),
            answer: answer(partials)?,
            stream,
        })
    }

    /// Begins a slice if there is an edge between the last row and the one at `t`; returns the next edge.
    fn reach(&mut self, t: i64) -> i64 {
        let Some(next) = &mut self.next else {
            (self.current, self.starts) = (1, true);
            return self.next.insert(Ahead::of(&self.families, t)).edge();
        };
        if let Some(starts) = next.pass(&self.families, t) {
            (self.current, self.starts) = (self.current + 1, starts);
        }
        next.edge()
    }

    /// The slot of each row.
    fn assign(&mut self, keys: &[u32], times: &[i64]) -> Vec<u32> {
        let counts = !self.stream.counted.is_empty();
        let mut slots = Vec::with_capacity(times.len());
        let mut row = 0;
        while row < times.len() {
            let next = self.reach(times[row]);
            let run = times[row..].partition_point(|&t| t < next);
            for (&key, &t) in keys[row..row + run].iter().zip(&times[row..]) {
                if self.cursors.len() <= key as usize {
                    self.cursors.resize(key as usize + 1, (0, 0));
                }
                let cursor = &mut self.cursors[key as usize];
                let (mut rank, mut edge) = (0, None);
                if counts {
                    if self.ranked.len() <= key as usize {
                        self.ranked.resize_with(key as usize + 1, || Ranked::new(&self.counted));
                    }
                    (rank, edge) = self.ranked[key as usize].count(&self.counted, t);
                }
                if cursor.0 != self.current || edge.is_some() {
                    // A start that other keys' rows have passed is passed for this key as well.
                    let passed = self.starts || cursor.0 + 1 != self.current;
                    let starts = edge == Some(true) || (cursor.0 != self.current && passed);
                    *cursor = (self.current, self.answer.open(key, First { time: t, rank }, starts));
                }
                slots.push(cursor.1);
            }
            row += run;
        }
        slots
    }

    /// Windows over time that end after `since` and not after `until`.
    fn list(&self, key: u32, since: i64, until: i64, to: &mut Ready) {
        let firsts = self.answer.firsts(key);
        let Some(first) = firsts.first() else { return };
        let mut emit = |window: u32, start: i64, end: i64, lo: usize, hi: usize| {
            to.emitted.push(Emitted { key, window, start, end, ranks: None, update: false });
            to.ranges.push((key, lo, hi));
        };
        for (window, sliding) in &self.stream.sliding {
            let emit = |start, end, lo, hi| emit(*window, start, end, lo, hi);
            ready(sliding, firsts, |first| first.time, since, until, emit);
        }
        for (window, own) in &self.own {
            for (start, end) in own.windows(since.max(first.time), until) {
                let lo = firsts.partition_point(|first| first.time < start);
                let hi = firsts.partition_point(|first| first.time < end);
                if lo < hi {
                    emit(*window, start, end, lo, hi);
                }
            }
        }
    }

    /// Windows of a number of rows that are final and were not; at the end of the stream also what is unfinished.
    fn list_counted(&mut self, key: u32, closing: bool, to: &mut Ready) {
        let Some(own) = self.ranked.get_mut(key as usize) else { return };
        let firsts = self.answer.firsts(key);
        let slice = |rank: u64| firsts.partition_point(|first| first.rank < rank);
        let mut emit = |window: u32, (lo, hi): (u64, u64), end: i64| {
            let range = (key, slice(lo), slice(hi));
            let start = firsts[range.1].time;
            to.emitted.push(Emitted { key, window, start, end, ranks: Some((lo, hi)), update: false });
            to.ranges.push(range);
        };
        let final_ends = own.reach(|t| self.stream.is_final(t));
        for (window, counted) in &self.stream.counted {
            for ranks in counted.ending(final_ends.emitted, final_ends.until) {
                emit(*window, ranks, final_ends.time(ranks.1));
            }
            if closing && counted.partial().end {
                for (lo, _) in counted.unfinished(own.rows()) {
                    emit(*window, (lo, own.rows()), own.last());
                }
            }
        }
    }

    /// Answers windows.
    fn emit(&mut self, ready: Ready) -> Result<Windows> {
        let (partials, combines) = self.answer.answer(&ready.ranges)?;
        self.stream.counts.emit(&ready.emitted, combines);
        Ok(Windows::new(ready.emitted, partials))
    }

    /// What the watermark makes ready; at the end of the stream also unfinished windows.
    fn move_on(&mut self, watermark: i64, closing: bool) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let (since, until) = (self.stream.within(before), self.stream.within(watermark));
        let mut ready = Ready::default();
        for key in 0..self.answer.keys() as u32 {
            self.list(key, since, until, &mut ready);
            self.list_counted(key, closing, &mut ready);
        }
        let windows = self.emit(ready)?;
        self.forget(until, closing);
        if self.answer.settle(watermark)? {
            for (key, cursor) in self.cursors.iter_mut().enumerate() {
                match self.answer.slot(key as u32) {
                    Some(slot) => cursor.1 = slot,
                    None => cursor.0 = 0,
                }
            }
        }
        Ok(windows)
    }

    /// Drops slices that no window has any more; all at the end of the stream.
    fn forget(&mut self, until: i64, closing: bool) {
        let own = self.own.iter().map(|(_, own)| own.first_open(until)).min();
        let kept = [self.stream.first_kept(), own].into_iter().flatten().min().unwrap_or(i64::MAX);
        for key in 0..self.answer.keys() as u32 {
            let firsts = self.answer.firsts(key);
            let mut slices = firsts.partition_point(|first| first.time < kept);
            if let Some(ranked) = self.ranked.get(key as usize) {
                let needed = self.stream.counted.iter().map(|(_, kind)| kind.first_needed(ranked.emitted()));
                let needed = needed.min().unwrap_or(u64::MAX);
                slices = slices.min(firsts.partition_point(|first| first.rank < needed));
            }
            if closing {
                slices = firsts.len();
            }
            if slices > 0 {
                self.answer.drop_first(key, slices);
                if self.answer.firsts(key).is_empty() {
                    self.cursors[key as usize].0 = 0;
                }
            }
        }
    }
}

impl<A: Answer + 'static> Technique for ByEdges<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        let slots = self.assign(keys, times);
        self.stream.counts.combines += self.answer.update(inputs, Rows::all(&slots, times))?;
        let mut ready = Ready::default();
        if !self.ranked.is_empty() {
            // Rows on the watermark are final at once.
            for key in keys.iter().copied().collect::<BTreeSet<_>>() {
                self.list_counted(key, false, &mut ready);
            }
        }
        self.emit(ready)
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        self.move_on(watermark, false)
    }

    fn close(&mut self) -> Result<Windows> {
        self.move_on(i64::MAX, true)
    }

    fn stats(&self) -> Stats {
        let (partials, bytes) = self.answer.held();
        let cursors = self.cursors.capacity() * size_of::<(u64, u32)>();
        let ranked: usize = self.ranked.iter().map(Ranked::bytes).sum();
        self.stream.counts.stats(0, partials, bytes + cursors + ranked)
    }
}
