//! The driver of techniques that keep each key's rows in order, and read windows off them when they end.

use std::collections::BTreeSet;

use super::sessions::{Live, Sessions};
use super::stream::{Stream, due};
use super::{Setting, Stats, Technique, Told, Windows};
use crate::Result;
use crate::aggregate::{Input, Partials};
use crate::window::Session;

/// Rows of many keys, each key's in the order of time and of arrival.
pub(super) trait SortedRows: Send {
    /// Takes in the columns of a batch; those of its rows follow that are kept.
    fn batch(&mut self, times: &[i64], inputs: &[Input]) -> Result<()>;

    /// Keeps row `row` of the batch, of time `t`.
    fn keep(&mut self, key: u32, t: i64, row: usize);

    /// All rows of the batch that are kept have come. Returns how many states were joined.
    fn settle(&mut self) -> Result<u64>;

    /// Times of the rows of a key; none of a key that never had any.
    fn times(&self, key: u32) -> &[i64];

    /// Number of keys so far.
    fn keys(&self) -> usize;

    /// Drops the first rows of a key.
    fn drop_first(&mut self, key: u32, rows: usize) -> Result<()>;

    /// Aggregates of ranges of rows, and how many states were joined.
    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)>;

    /// Rows, partials and bytes held.
    fn held(&self) -> (usize, usize, usize);
}

/// A technique over rows in order.
pub(super) struct ByRows<R> {
    name: &'static str,
    pub(super) stream: Stream,
    pub(super) rows: R,
    /// For each of the stream's sessions, those of each key.
    sessions: Vec<Vec<Sessions<()>>>,
}

impl<R: SortedRows> ByRows<R> {
    pub(super) fn new(
        name: &'static str,
        setting: Setting,
        rows: impl FnOnce(Vec<Box<dyn Partials>>) -> Result<R>,
    ) -> Result<Self> {
        let (stream, partials) = Stream::new(name, setting)?;
        let sessions = stream.sessions.iter().map(|_| Vec::new()).collect();
        Ok(Self { name, rows: rows(partials)?, sessions, stream })
    }

    /// Puts a row into its sessions.
    fn admit(&mut self, key: u32, t: i64) {
        for (all, (_, session)) in self.sessions.iter_mut().zip(&self.stream.sessions) {
            if all.len() <= key as usize {
                all.resize_with(key as usize + 1, Sessions::default);
            }
            all[key as usize].add(session, t, |(), ()| ());
        }
    }

    /// Sessions of a key that are to be told, by what `due` says of each and whether it is an update.
    fn tell_sessions(
        &mut self,
        key: u32,
        due: impl Fn(&mut Live<()>, &Session) -> Option<bool>,
        told: &mut Vec<(Told, usize, usize)>,
    ) {
        let times = self.rows.times(key);
        for (all, (window, session)) in self.sessions.iter_mut().zip(&self.stream.sessions) {
            let Some(own) = all.get_mut(key as usize) else { continue };
            for live in own.live_mut() {
                if let Some(update) = due(live, session) {
                    let (start, end) = session.extent(live.first, live.last);
                    let lo = times.partition_point(|&t| t < live.first);
                    let hi = times.partition_point(|&t| t <= live.last);
                    told.push((Told { key, window: *window, start, end, update }, lo, hi));
                }
            }
        }
    }

    fn answer(&mut self, told: Vec<(Told, usize, usize)>) -> Result<Windows> {
        let ranges: Vec<_> = told.iter().map(|&(window, lo, hi)| (window.key, lo, hi)).collect();
        let (partials, combines) = self.rows.answer(&ranges)?;
        let told: Vec<Told> = told.into_iter().map(|(window, ..)| window).collect();
        let counts = &mut self.stream.counts;
        counts.combines += combines;
        counts.windows += told.len() as u64;
        counts.updates += told.iter().filter(|window| window.update).count() as u64;
        Ok(Windows::new(told, partials))
    }

    /// Drops rows that are in no window any more.
    fn evict(&mut self) -> Result<()> {
        let cutoff = self.stream.cutoff();
        let first_kept = self.stream.first_kept().unwrap_or(i64::MAX);
        for key in 0..self.rows.keys() as u32 {
            let mut kept = first_kept;
            for (all, (_, session)) in self.sessions.iter_mut().zip(&self.stream.sessions) {
                if let Some(own) = all.get_mut(key as usize) {
                    own.drop_before(session, cutoff, |()| ());
                    kept = kept.min(own.live().first().map_or(i64::MAX, |live| live.first));
                }
            }
            let rows = self.rows.times(key).partition_point(|&t| t < kept);
            if rows > 0 {
                self.rows.drop_first(key, rows)?;
            }
        }
        Ok(())
    }
}

impl<R: SortedRows> Technique for ByRows<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        self.rows.batch(times, inputs)?;
        // Final windows that late rows change.
        let mut changed: BTreeSet<(u32, usize, i64)> = BTreeSet::new();
        let mut late_keys = Vec::new();
        let cutoff = self.stream.cutoff();
        for (row, (&key, &t)) in keys.iter().zip(times).enumerate() {
            if t < cutoff {
                self.stream.counts.late += 1;
                continue;
            }
            self.admit(key, t);
            if t < self.stream.watermark() {
                late_keys.push(key);
                changed.extend(self.stream.changed(t).map(|(which, start)| (key, which, start)));
            }
            self.rows.keep(key, t, row);
        }
        self.stream.counts.combines += self.rows.settle()?;
        let mut told = Vec::new();
        for (key, which, start) in changed {
            let (window, sliding) = &self.stream.sliding[which];
            let (times, end) = (self.rows.times(key), sliding.extent(start).1);
            let lo = times.partition_point(|&t| t < start);
            let hi = times.partition_point(|&t| t < end);
            told.push((Told { key, window: *window, start, end, update: true }, lo, hi));
        }
        late_keys.sort_unstable();
        late_keys.dedup();
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        for key in late_keys {
            let due = |live: &mut Live<()>, session: &Session| {
                live.changes(session, watermark, expired).then_some(true)
            };
            self.tell_sessions(key, due, &mut told);
        }
        self.answer(told)
    }

    fn cutoff(&self) -> i64 {
        self.stream.cutoff()
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let (since, until) = (self.stream.within(before), self.stream.within(watermark));
        let mut told = Vec::new();
        for key in 0..self.rows.keys() as u32 {
            let times = self.rows.times(key);
            for (window, sliding) in &self.stream.sliding {
                due(sliding, times, since, until, |start, end, lo, hi| {
                    told.push((Told { key, window: *window, start, end, update: false }, lo, hi));
                });
            }
            self.tell_sessions(key, |live, session| live.ends(session, before, watermark), &mut told);
        }
        let windows = self.answer(told)?;
        self.evict()?;
        Ok(windows)
    }

    fn stats(&self) -> Stats {
        let (rows, partials, bytes) = self.rows.held();
        let counts = self.stream.counts;
        let sessions: usize = self.sessions.iter().flatten().map(|own| own.live().len()).sum();
        Stats {
            rows,
            partials,
            bytes: bytes + sessions * size_of::<Live<()>>(),
            combines: counts.combines,
            late: counts.late,
            windows: counts.windows,
            updates: counts.updates,
        }
    }
}
