//! Buckets of windows of a number of rows, of one key and window type.
//!
//! In order a row goes to the buckets of its rank and no other changes: partial aggregates will do. A row that comes late
//! has all behind it move by one, so that each later bucket passes its last row on to the next; that takes lists of rows
//! (Traub et al. 2019, §3.3: "some use-cases require us to keep individual tuples"). Lists are put right once a batch, from
//! its first row on.

use std::collections::VecDeque;

use crate::Emitted;
use crate::lists::Lists;
use crate::row_store::Row;
use windowkit::window::Counted;

/// Buckets in order: those of window `first` and after.
#[derive(Default)]
pub(crate) struct RankBuckets {
    first: u64,
    buckets: VecDeque<Bucket>,
    /// Rows so far, those of dropped buckets included.
    rows: u64,
}

/// A bucket, with the times of its first and last row.
struct Bucket {
    slot: u32,
    first: i64,
    last: i64,
    emitted: bool,
}

impl RankBuckets {
    /// Rows so far: the rank of a row that comes behind all others.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Counts a row behind all others.
    pub(crate) fn count(&mut self) {
        self.rows += 1;
    }

    /// The slot of window `k` for a row of it at `t`, behind all others; it is opened by its first row.
    pub(crate) fn slot(&mut self, k: u64, t: i64, open: impl FnOnce() -> u32) -> u32 {
        let at = (k - self.first) as usize;
        if at == self.buckets.len() {
            self.buckets.push_back(Bucket { slot: open(), first: t, last: t, emitted: false });
        }
        let bucket = &mut self.buckets[at];
        bucket.last = t;
        bucket.slot
    }

    /// Puts rows, ascending, where they belong in lists; rows behind them move on. Returns the rank of the first one.
    ///
    /// O(rows behind the first one, for each bucket that has them).
    pub(crate) fn insert(&mut self, kind: &Counted, new: &[Row], lists: &mut Lists) -> u64 {
        let Some(first) = new.first() else { return self.rows };
        let (size, slide) = (kind.size() as u64, kind.slide() as u64);
        let from = self.rank(slide, first.0, lists);
        let mut rows = self.behind(slide, from, lists);
        rows.extend_from_slice(new);
        // Two runs, which a stable sort merges.
        rows.sort();
        self.rows = from + rows.len() as u64;
        lists.hold(&rows);
        let mut k = (kind.first_needed(from) / slide).max(self.first);
        while k * slide < self.rows {
            let (lo, hi) = (k * slide, (k * slide + size).min(self.rows));
            let at = (k - self.first) as usize;
            if at == self.buckets.len() {
                self.buckets.push_back(Bucket { slot: lists.open_list(), first: 0, last: 0, emitted: false });
            }
            let bucket = &mut self.buckets[at];
            let own = &rows[(lo.max(from) - from) as usize..(hi - from) as usize];
            lists.put(bucket.slot, from.saturating_sub(lo) as usize, own);
            let list = lists.list(bucket.slot);
            (bucket.first, bucket.last) = (list[0].0, list[list.len() - 1].0);
            k += 1;
        }
        lists.release(&rows);
        from
    }

    /// The rank of a row at `t`, behind all others of its time.
    fn rank(&self, slide: u64, t: i64, lists: &Lists) -> u64 {
        let after = self.buckets.partition_point(|bucket| bucket.first <= t);
        let Some(at) = after.checked_sub(1) else {
            return if self.buckets.is_empty() { self.rows } else { self.first * slide };
        };
        let list = lists.list(self.buckets[at].slot);
        let behind = match self.buckets[at].last <= t {
            true => list.len(),
            false => list.partition_point(|&(other, _)| other <= t),
        };
        (self.first + at as u64) * slide + behind as u64
    }

    /// The rows of rank `from` and after.
    fn behind(&self, slide: u64, from: u64, lists: &Lists) -> Vec<Row> {
        let mut rows = Vec::new();
        let first = (from / slide).saturating_sub(self.first).min(self.buckets.len() as u64) as usize;
        for (at, bucket) in self.buckets.iter().enumerate().skip(first) {
            let (lo, list) = ((self.first + at as u64) * slide, lists.list(bucket.slot));
            // The next bucket has the others.
            let to = if at + 1 < self.buckets.len() { slide as usize } else { list.len() };
            rows.extend_from_slice(&list[(from.saturating_sub(lo) as usize).min(to)..to]);
        }
        rows
    }

    /// Calls `each` with the slots and names of the windows that are whole and final and end after rank `changed`, or have
    /// not been emitted.
    pub(crate) fn emit(
        &mut self,
        kind: &Counted,
        changed: u64,
        is_final: impl Fn(i64) -> bool,
        (key, window): (u32, u32),
        mut each: impl FnMut(Emitted, u32),
    ) {
        let whole = self.rows;
        for (k, bucket) in (self.first..).zip(&mut self.buckets) {
            let (lo, hi) = (k * kind.slide() as u64, k * kind.slide() as u64 + kind.size() as u64);
            if hi > whole || !is_final(bucket.last) {
                return;
            }
            if hi > changed || !bucket.emitted {
                let update = std::mem::replace(&mut bucket.emitted, true);
                let (start, end) = (bucket.first, bucket.last);
                each(Emitted { key, window, start, end, ranks: Some((lo, hi)), update }, bucket.slot);
            }
        }
    }

    /// Calls `each` with the slots and names of the windows that are not whole.
    pub(crate) fn emit_unfinished(
        &self,
        kind: &Counted,
        (key, window): (u32, u32),
        mut each: impl FnMut(Emitted, u32),
    ) {
        for (lo, _) in kind.unfinished(self.rows) {
            let bucket = &self.buckets[(lo / kind.slide() as u64 - self.first) as usize];
            let (start, end, ranks) = (bucket.first, bucket.last, Some((lo, self.rows)));
            each(Emitted { key, window, start, end, ranks, update: false }, bucket.slot);
        }
    }

    /// Drops the windows that are whole and have no row after `floor`, before which no row comes any more.
    pub(crate) fn drop_before(&mut self, kind: &Counted, floor: i64, gone: &mut Vec<u32>) {
        while let Some(bucket) = self.buckets.front()
            && self.first * kind.slide() as u64 + kind.size() as u64 <= self.rows
            && bucket.last <= floor
        {
            gone.push(bucket.slot);
            self.buckets.pop_front();
            self.first += 1;
        }
    }

    /// The slots of all buckets.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.buckets.iter_mut().map(|bucket| &mut bucket.slot)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.capacity() * size_of::<Bucket>()
    }
}
