//! The driver of techniques that keep each key's rows in order, and read windows off them when they end.
//!
//! A window over time is a range of times, and a window of a number of rows a range of places: a row that comes late has
//! all that follow it move by one, and with them the rows of all windows that end after it (Traub et al. 2019, §4.3).

use std::collections::{BTreeMap, BTreeSet};

use crate::sessions::{Live, Sessions};
use crate::stream::{Stream, ready};
use crate::{Emitted, Setting, Stats, Technique, Windows};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials};
use windowkit::window::Session;

/// Rows of many keys, each key's in the order of time and of arrival.
pub(crate) trait SortedRows: Send {
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
pub(crate) struct ByRows<R> {
    name: &'static str,
    pub(crate) stream: Stream,
    pub(crate) rows: R,
    /// For each of the stream's sessions, those of each key.
    sessions: Vec<Vec<Sessions<()>>>,
    /// How far each key's rows are counted; none if no window is of a number of rows.
    ranks: Vec<Ranks>,
}

/// How far a key's rows are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Ranks {
    /// Rows that were dropped: the rank of the first one held.
    gone: u64,
    /// Rows that were final when windows were emitted last.
    emitted: u64,
}

/// A window that is ready, and its rows by their places among those that are held.
type Ready = (Emitted, usize, usize);

impl<R: SortedRows> ByRows<R> {
    pub(crate) fn new(
        name: &'static str,
        setting: Setting,
        rows: impl FnOnce(Vec<Box<dyn Partials>>) -> Result<R>,
    ) -> Result<Self> {
        let (stream, partials) = Stream::new(name, setting)?;
        let sessions = stream.sessions.iter().map(|_| Vec::new()).collect();
        Ok(Self { name, rows: rows(partials)?, sessions, ranks: Vec::new(), stream })
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

    /// The rank that a row at `t` gets, behind all others of its time.
    fn rank(&mut self, key: u32, t: i64) -> u64 {
        if self.ranks.len() <= key as usize {
            self.ranks.resize(key as usize + 1, Ranks::default());
        }
        let times = self.rows.times(key);
        let behind = match times.last() {
            Some(&last) if last > t => times.partition_point(|&other| other <= t),
            _ => times.len(),
        };
        self.ranks[key as usize].gone + behind as u64
    }

    /// Windows of a number of rows that are final and were not, and those that end after rank `changed`.
    fn emit_counted(&mut self, key: u32, changed: u64, emitted: &mut Vec<Ready>) {
        let Some(own) = self.ranks.get_mut(key as usize) else { return };
        let times = self.rows.times(key);
        let until = own.gone + self.stream.final_rows(times) as u64;
        for (window, counted) in &self.stream.counted {
            for ranks in counted.ending(own.emitted.min(changed), until) {
                let update = ranks.1 <= own.emitted;
                emitted.push(counted_rows(key, *window, ranks, own.gone, times, update));
            }
        }
        own.emitted = until;
    }

    /// Windows of a number of rows that the end of the stream leaves unfinished, where these are requested.
    fn emit_unfinished(&self, key: u32, emitted: &mut Vec<Ready>) {
        let (Some(own), times) = (self.ranks.get(key as usize), self.rows.times(key)) else { return };
        let rows = own.gone + times.len() as u64;
        for (window, counted) in self.stream.counted.iter().filter(|(_, counted)| counted.partial().end) {
            for (lo, _) in counted.unfinished(rows) {
                emitted.push(counted_rows(key, *window, (lo, rows), own.gone, times, false));
            }
        }
    }

    /// Sessions of a key that are to be emitted, by what `ready` says of each and whether it is an update.
    fn emit_sessions(
        &mut self,
        key: u32,
        ready: impl Fn(&mut Live<()>, &Session) -> Option<bool>,
        emitted: &mut Vec<Ready>,
    ) {
        let times = self.rows.times(key);
        for (all, (window, session)) in self.sessions.iter_mut().zip(&self.stream.sessions) {
            let Some(own) = all.get_mut(key as usize) else { continue };
            for live in own.live_mut() {
                if let Some(update) = ready(live, session) {
                    let (start, end) = session.extent(live.first, live.last);
                    let lo = times.partition_point(|&t| t < live.first);
                    let hi = times.partition_point(|&t| t <= live.last);
                    emitted.push((Emitted { key, window: *window, start, end, ranks: None, update }, lo, hi));
                }
            }
        }
    }

    fn answer(&mut self, emitted: Vec<Ready>) -> Result<Windows> {
        let ranges: Vec<_> = emitted.iter().map(|&(window, lo, hi)| (window.key, lo, hi)).collect();
        let (partials, combines) = self.rows.answer(&ranges)?;
        let emitted: Vec<Emitted> = emitted.into_iter().map(|(window, ..)| window).collect();
        self.stream.counts.emit(&emitted, combines);
        Ok(Windows::new(emitted, partials))
    }

    /// What the watermark makes ready; at the end of the stream also unfinished windows.
    fn reach(&mut self, watermark: i64, closing: bool) -> Result<Windows> {
        let before = self.stream.advance(watermark)?;
        let (since, until) = (self.stream.within(before), self.stream.within(watermark));
        let mut emitted = Vec::new();
        for key in 0..self.rows.keys() as u32 {
            let times = self.rows.times(key);
            for (window, sliding) in &self.stream.sliding {
                ready(
                    sliding,
                    times,
                    |&t| t,
                    since,
                    until,
                    |start, end, lo, hi| {
                        let window = Emitted { key, window: *window, start, end, ranks: None, update: false };
                        emitted.push((window, lo, hi));
                    },
                );
            }
            self.emit_sessions(key, |live, session| live.ends(session, before, watermark), &mut emitted);
            self.emit_counted(key, u64::MAX, &mut emitted);
            if closing {
                self.emit_unfinished(key, &mut emitted);
            }
        }
        let windows = self.answer(emitted)?;
        self.evict(closing)?;
        Ok(windows)
    }

    /// Drops rows that are in no window any more; all at the end of the stream.
    fn evict(&mut self, closing: bool) -> Result<()> {
        let (cutoff, floor) = (self.stream.cutoff(), self.stream.floor());
        let first_kept = self.stream.first_kept().unwrap_or(i64::MAX);
        for key in 0..self.rows.keys() as u32 {
            let mut kept = first_kept;
            for (all, (_, session)) in self.sessions.iter_mut().zip(&self.stream.sessions) {
                if let Some(own) = all.get_mut(key as usize) {
                    own.drop_before(session, cutoff, |()| ());
                    kept = kept.min(own.live().first().map_or(i64::MAX, |live| live.first));
                }
            }
            let times = self.rows.times(key);
            let mut rows = times.partition_point(|&t| t < kept);
            if let Some(own) = self.ranks.get(key as usize) {
                // Rows that come lie behind these, which stay where they are.
                let fixed = own.gone + times.partition_point(|&t| t <= floor) as u64;
                let needed = self.stream.counted.iter().map(|(_, counted)| counted.first_needed(fixed)).min();
                rows = needed.map_or(rows, |needed| rows.min((needed - own.gone) as usize));
            }
            if closing {
                rows = times.len();
            }
            if rows > 0 {
                self.rows.drop_first(key, rows)?;
                if let Some(own) = self.ranks.get_mut(key as usize) {
                    own.gone += rows as u64;
                }
            }
        }
        if closing {
            self.sessions.iter_mut().for_each(Vec::clear);
        }
        Ok(())
    }
}

/// The window of these ranks; the first of the rows that are held has rank `gone`.
fn counted_rows(key: u32, window: u32, ranks: (u64, u64), gone: u64, times: &[i64], update: bool) -> Ready {
    let (lo, hi) = ((ranks.0 - gone) as usize, (ranks.1 - gone) as usize);
    (Emitted { key, window, start: times[lo], end: times[hi - 1], ranks: Some(ranks), update }, lo, hi)
}

impl<R: SortedRows + 'static> Technique for ByRows<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        self.rows.batch(times, inputs)?;
        // Final windows that late rows change.
        let mut changed: BTreeSet<(u32, usize, i64)> = BTreeSet::new();
        let mut late_keys = Vec::new();
        // Of each key the least rank of a row that is final at once.
        let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
        let (cutoff, ranked) = (self.stream.cutoff(), !self.stream.counted.is_empty());
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
            if ranked {
                let rank = self.rank(key, t);
                if self.stream.is_final(t) {
                    counted.entry(key).and_modify(|least| *least = rank.min(*least)).or_insert(rank);
                }
            }
            self.rows.keep(key, t, row);
        }
        self.stream.counts.combines += self.rows.settle()?;
        let mut emitted = Vec::new();
        for (key, which, start) in changed {
            let (window, sliding) = &self.stream.sliding[which];
            let (times, end) = (self.rows.times(key), sliding.extent(start).1);
            let lo = times.partition_point(|&t| t < start);
            let hi = times.partition_point(|&t| t < end);
            emitted.push((Emitted { key, window: *window, start, end, ranks: None, update: true }, lo, hi));
        }
        late_keys.sort_unstable();
        late_keys.dedup();
        let (watermark, expired) = (self.stream.watermark(), self.stream.expired());
        for key in late_keys {
            let ready = |live: &mut Live<()>, session: &Session| {
                live.changes(session, watermark, expired).then_some(true)
            };
            self.emit_sessions(key, ready, &mut emitted);
        }
        for (key, changed) in counted {
            self.emit_counted(key, changed, &mut emitted);
        }
        self.answer(emitted)
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        self.reach(watermark, false)
    }

    fn close(&mut self) -> Result<Windows> {
        self.reach(i64::MAX, true)
    }

    fn stats(&self) -> Stats {
        let (rows, partials, bytes) = self.rows.held();
        let sessions: usize = self.sessions.iter().flatten().map(|own| own.live().len()).sum();
        let bytes = bytes + sessions * size_of::<Live<()>>() + self.ranks.capacity() * size_of::<Ranks>();
        self.stream.counts.stats(rows, partials, bytes)
    }
}
