//! The driver of techniques that slice streams in order at the edges of windows known in advance.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::stream::{Stream, due};
use super::{Setting, Stats, Technique, Told, Windows, refused};
use crate::Result;
use crate::aggregate::{Input, Partials, Rows};
use crate::slice::strategy::Order;

/// Windows whose edges are known before rows come: the interface for users' own (Traub et al. 2019, §5.4.2).
pub trait ContextFree: Send + Sync {
    /// The least edge, start or end of a window, after `t`.
    fn next_edge(&self, t: i64) -> i64;

    /// Whether a window starts after `t` and not after `until`.
    fn starts_within(&self, t: i64, until: i64) -> bool;

    /// Start and end of the windows with `since < end <= until`, by their ends.
    fn windows(&self, since: i64, until: i64) -> Vec<(i64, i64)>;

    /// The least start of all windows that end after `t`.
    fn first_open(&self, t: i64) -> i64;
}

/// What a technique does with slices.
pub(super) trait Answer: Send {
    /// Opens a slice behind all others of a key, of which the first row comes at `first`; whether a window starts with it.
    fn open(&mut self, key: u32, first: i64, starts: bool) -> u32;

    /// Folds rows into their slots; returns how many states were joined.
    fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<u64>;

    /// Number of keys so far.
    fn keys(&self) -> usize;

    /// Times of the first rows of a key's slices.
    fn firsts(&self, key: u32) -> &[i64];

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
pub(super) struct ByEdges<A> {
    name: &'static str,
    stream: Stream,
    /// Windows of users' own, numbered after the query's.
    own: Vec<(u32, Arc<dyn ContextFree>)>,
    /// Period and offset of the edges of windows over time, and whether they are starts.
    families: Vec<(i64, i64, bool)>,
    /// The next edge of each family, and of users' windows after them; empty before the first row.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    /// Number of the current slice, over all keys.
    current: u64,
    starts: bool,
    /// For each key the number of its latest slice, and its slot.
    cursors: Vec<(u64, u32)>,
    answer: A,
}

impl<A: Answer> ByEdges<A> {
    pub(super) fn new(
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
        let own = (setting.windows.len() as u32..).zip(own).collect();
        let (stream, partials) = Stream::new(name, setting)?;
        if !stream.sessions.is_empty() {
            return Err(refused(
                name,
                "session window",
                "its edges depend on the rows, and slices are cut at edges known before them",
                "windows whose edges are known in advance, as tumbling and sliding ones",
            ));
        }
        let mut starts = BTreeSet::new();
        let mut ends = BTreeSet::new();
        for (_, window) in &stream.sliding {
            let [start, end] = window.edges();
            starts.insert(start);
            ends.insert(end);
        }
        let ends: Vec<_> =
            ends.difference(&starts).map(|&(period, offset)| (period, offset, false)).collect();
        let families =
            starts.into_iter().map(|(period, offset)| (period, offset, true)).chain(ends).collect();
        Ok(Self {
            name,
            own,
            families,
            next: BinaryHeap::new(),
            current: 0,
            starts: true,
            cursors: Vec::new(),
            answer: answer(partials)?,
            stream,
        })
    }

    /// The edge after `t` of family `at`.
    fn edge_after(&self, at: usize, t: i64) -> i64 {
        match self.families.get(at) {
            Some(&(period, offset, _)) => t - (t - offset).rem_euclid(period) + period,
            None => self.own[at - self.families.len()].1.next_edge(t),
        }
    }

    /// Begins a slice if there is an edge between the last row and the one at `t`; returns the next edge.
    fn reach(&mut self, t: i64) -> i64 {
        if self.next.is_empty() {
            let families = self.families.len() + self.own.len();
            self.next = (0..families).map(|at| Reverse((self.edge_after(at, t), at))).collect();
            (self.current, self.starts) = (1, true);
        } else if self.next.peek().is_some_and(|&Reverse((edge, _))| edge <= t) {
            (self.current, self.starts) = (self.current + 1, false);
            while let Some(&Reverse((edge, at))) = self.next.peek().filter(|Reverse((edge, _))| *edge <= t) {
                self.starts |= match self.families.get(at) {
                    Some(&(_, _, starts)) => starts,
                    None => self.own[at - self.families.len()].1.starts_within(edge - 1, t),
                };
                let after = self.edge_after(at, t);
                self.next.pop();
                self.next.push(Reverse((after, at)));
            }
        }
        self.next.peek().map_or(i64::MAX, |&Reverse((edge, _))| edge)
    }

    /// The slot of each row.
    fn assign(&mut self, keys: &[u32], times: &[i64]) -> Vec<u32> {
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
                if cursor.0 != self.current {
                    // A start that other keys' rows have passed is passed for this key as well.
                    let starts = self.starts || cursor.0 + 1 != self.current;
                    *cursor = (self.current, self.answer.open(key, t, starts));
                }
                slots.push(cursor.1);
            }
            row += run;
        }
        slots
    }
}

impl<A: Answer> Technique for ByEdges<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        let slots = self.assign(keys, times);
        self.stream.counts.combines += self.answer.update(inputs, Rows::all(&slots, times))?;
        let (partials, _) = self.answer.answer(&[])?;
        Ok(Windows::new(Vec::new(), partials))
    }

    fn cutoff(&self) -> i64 {
        i64::MIN
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let (since, until) = (self.stream.within(before), self.stream.within(watermark));
        let (mut told, mut ranges) = (Vec::new(), Vec::new());
        for key in 0..self.answer.keys() as u32 {
            let firsts = self.answer.firsts(key);
            let Some(&first) = firsts.first() else { continue };
            let mut tell = |window: u32, start: i64, end: i64, lo: usize, hi: usize| {
                told.push(Told { key, window, start, end, update: false });
                ranges.push((key, lo, hi));
            };
            for (window, sliding) in &self.stream.sliding {
                due(sliding, firsts, since, until, |start, end, lo, hi| tell(*window, start, end, lo, hi));
            }
            for (window, own) in &self.own {
                for (start, end) in own.windows(since.max(first), until) {
                    let lo = firsts.partition_point(|&t| t < start);
                    let hi = firsts.partition_point(|&t| t < end);
                    if lo < hi {
                        tell(*window, start, end, lo, hi);
                    }
                }
            }
        }
        let (partials, combines) = self.answer.answer(&ranges)?;
        self.stream.counts.combines += combines;
        self.stream.counts.windows += told.len() as u64;
        // Slices that no window has any more.
        let own = self.own.iter().map(|(_, own)| own.first_open(until)).min();
        let kept = [self.stream.first_kept(), own].into_iter().flatten().min().unwrap_or(i64::MAX);
        for key in 0..self.answer.keys() as u32 {
            let slices = self.answer.firsts(key).partition_point(|&t| t < kept);
            if slices > 0 {
                self.answer.drop_first(key, slices);
                if self.answer.firsts(key).is_empty() {
                    self.cursors[key as usize].0 = 0;
                }
            }
        }
        if self.answer.settle(watermark)? {
            for (key, cursor) in self.cursors.iter_mut().enumerate() {
                match self.answer.slot(key as u32) {
                    Some(slot) => cursor.1 = slot,
                    None => cursor.0 = 0,
                }
            }
        }
        Ok(Windows::new(told, partials))
    }

    fn stats(&self) -> Stats {
        let (partials, bytes) = self.answer.held();
        let counts = self.stream.counts;
        Stats {
            rows: 0,
            partials,
            bytes: bytes + self.cursors.capacity() * size_of::<(u64, u32)>(),
            combines: counts.combines,
            late: counts.late,
            windows: counts.windows,
            updates: counts.updates,
        }
    }
}
