//! A join of two streams, whose rows come in any order: OA-Join (Li 2008, §7.1).
//!
//! | | |
//! |---|---|
//! | needs | rows of both sides in any order, and now and then how far each side is complete |
//! | time | O(1) amortised a row that comes in order of its key's times, O(log n) to find its partners among n stored rows of its key; O(1) a row of the result |
//! | space | rows of each side that a future row of the other side may still match |
//! | first appeared | Li, *Window Queries over Data Streams*, 2008, Figs. 7-1 to 7-4 |
//!
//! A row meets the stored rows of the other side when it comes, and is stored until the other side is complete beyond its
//! last possible partner; by windows, once for each of its windows. A row without a partner is in the result at that
//! moment, of kinds that have such rows. As of queries over streams, a call attempts a step, and commits it or
//! rolls it back: what an attempt changes are rows of the agenda, which are put back.

mod found;
mod options;
mod push;
mod reached;
mod relief;
mod snapshot;

pub use options::JoinOptions;
pub use snapshot::JoinContents;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use self::found::{Beside, Found, Origin, Pick};
use super::kind::Which;
use super::part::Part;
use super::plan::JoinPlan;
use crate::interrupt::Pace;
use crate::keys::KeyIndex;
use crate::operator::call::all_or_nothing;
use crate::operator::held::{Entry, Item, KEYS, New, Store, check_open, forget};
use crate::operator::outbox::{Labelled, Outbox};
use crate::operator::progress::{Ahead, Progress, followed, with_sources};
use crate::operator::shedding::{Drawn, ShedStats, Shedding};
use crate::operator::stream::{Late, Refused};
use crate::{Error, Result};

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub enum JoinStep<'a> {
    /// Rows of a side.
    Push(Which, &'a [RecordBatch]),
    /// A side is complete up to a time.
    Advance(Which, i64),
    /// The rows of a side are complete up to a time that have the key in these columns of one row: group-wise punctuation.
    AdvanceKey(Which, i64, &'a [ArrayRef]),
    /// The watermark of a side follows its sources to where they are by now.
    Follow(Which),
    /// A source of a side is named by the only row of this column, before any row of it has come.
    AddSource(Which, &'a ArrayRef),
    /// No more rows of a source of a side come.
    EndSource(Which, &'a ArrayRef),
    /// Hand out late rows of a side.
    TakeLate(Which),
    /// Both sides have ended.
    Close,
}

/// What an operator holds, and what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinStats {
    /// Keys that it knows.
    pub keys: usize,
    /// Rows that are stored, of each side; by windows, once for each.
    pub stored: [usize; 2],
    /// Bytes of these, and of keys.
    pub bytes: usize,
    /// Rows that were pushed, of each side, and rows of results.
    pub rows: [u64; 2],
    /// Late rows among them.
    pub late: [u64; 2],
    /// Late rows that were dropped.
    pub dropped: [u64; 2],
    /// Keys of each side whose own watermark is ahead of that of the side.
    pub keys_ahead: [usize; 2],
    /// What was dropped for want of memory.
    pub shed: ShedStats,
    /// Rows of results.
    pub results: u64,
}

/// A join of two streams.
pub struct JoinStream {
    plan: Arc<JoinPlan>,
    keys: KeyIndex,
    /// At how many keys it is looked for those without rows.
    full: usize,
    stores: [Store; 2],
    reached: [Option<i64>; 2],
    /// Keys that are complete further than their side.
    ahead: [Ahead; 2],
    /// What was seen of the sources of each side, if its watermark follows them.
    progress: [Option<Progress>; 2],
    shedding: Option<Shedding>,
    late: [Late; 2],
    /// Results that wait to be handed out.
    outbox: Outbox<[Option<i64>; 2]>,
    options: JoinOptions,
    closed: bool,
    /// Numbers rows in the order of arrival.
    next: u64,
    rows: [u64; 2],
    results: u64,
}

/// What a step changes when it is committed.
#[derive(Default)]
struct Attempted {
    /// What a push adds: its side, the rows to be stored, those that are late, and how many there were.
    pushed: Option<(Which, Vec<New>, Refused, u64)>,
    /// Stored rows that have a partner: side, key, and number in the timeline.
    met: Vec<(Which, u32, usize)>,
    /// How many partners stored rows have now, where these are counted: by side, key, and number in the timeline.
    partners: HashMap<(bool, u32, usize), u32>,
    /// Stored rows that are retracted, and their side.
    retracted: Option<(Which, HashSet<Item>)>,
    /// Where to look for the next row with a key, at a place and with a content, as those before are retracted.
    looked: HashMap<(u32, i64, u32), u64>,
    reached: Option<(Which, i64)>,
    /// The only key of a side that is complete up to a time.
    key_reached: Option<(Which, u32, i64)>,
    /// The last row of a key that is dropped before its time, and its side.
    dropped: Option<(Which, u32, Entry)>,
    drawn: Drawn,
    takes_late: Option<Which>,
    is_end: bool,
    results: u64,
    next: u64,
}

fn at(which: Which) -> usize {
    usize::from(which == Which::Right)
}

impl JoinStream {
    /// A join without rows.
    ///
    /// # Errors
    /// None but those of memory.
    pub fn new(plan: Arc<JoinPlan>, options: JoinOptions) -> Result<Self> {
        let late = [Which::Left, Which::Right].map(|which| Late::new(&plan.side(which).input, false));
        let [left, right] = [Which::Left, Which::Right].map(|which| {
            let delay = options.progress[at(which)];
            delay.map(|delay| Progress::new(delay, &plan.side(which).input)).transpose()
        });
        Ok(Self {
            keys: KeyIndex::new(plan.keys().to_vec())?,
            progress: [left?, right?],
            shedding: options.shed.map(Shedding::new),
            plan,
            full: KEYS,
            stores: Default::default(),
            reached: [None; 2],
            ahead: Default::default(),
            late,
            outbox: Outbox::default(),
            options,
            closed: false,
            next: 0,
            rows: [0; 2],
            results: 0,
        })
    }

    /// The schema of results.
    pub fn schema(&self) -> &SchemaRef {
        self.plan.output()
    }

    /// The schema of the late rows of a side.
    pub fn late_schema(&self, which: Which) -> &SchemaRef {
        self.late[at(which)].schema()
    }

    /// Whether both sides have ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Up to when a side was said to be complete.
    pub fn watermark(&self, which: Which) -> Option<i64> {
        self.reached[at(which)]
    }

    /// A time before which no row of a side is in a result that is still to come.
    pub fn individual(&self, which: Which) -> Option<i64> {
        self.plan.condition.individual(which, self.reached_out())
    }

    /// Times of both sides such that no pair with both times before these is still to come.
    pub fn joint(&self) -> Option<(i64, i64)> {
        self.plan.condition.joint(self.reached_out())
    }

    /// Up to when the sides were complete before the first call whose results wait, or are, if none do.
    fn reached_out(&self) -> [Option<i64>; 2] {
        self.outbox.since().unwrap_or(self.reached)
    }

    /// What it holds and has done.
    pub fn stats(&self) -> JoinStats {
        JoinStats {
            keys: self.keys.len(),
            stored: [0, 1].map(|side| self.stores[side].len()),
            bytes: self.keys.bytes()
                + self.stores.iter().map(Store::bytes).sum::<usize>()
                + self.ahead.iter().map(Ahead::bytes).sum::<usize>()
                + self.outbox.bytes(),
            rows: self.rows,
            late: [0, 1].map(|side| self.late[side].count()),
            dropped: [0, 1].map(|side| self.late[side].dropped()),
            keys_ahead: [0, 1].map(|side| self.ahead[side].len()),
            shed: self.shedding.as_ref().map(Shedding::dropped).unwrap_or_default(),
            results: self.results,
        }
    }

    /// The options of the stream.
    pub fn options(&self) -> JoinOptions {
        self.options
    }

    /// Sets the clock of a side: microseconds, which never decrease; see [`crate::operator::Operator::set_clock`].
    pub fn set_clock(&mut self, which: Which, now: i64, has_waited: bool) {
        self.progress[at(which)].iter_mut().for_each(|progress| progress.set_clock(now, has_waited));
    }

    /// What is known of the sources of a side, if its watermark follows them.
    ///
    /// # Errors
    /// `InvalidValue` if no watermark follows rows.
    pub fn progress(&self, which: Which) -> Result<RecordBatch> {
        let side = self.plan.side(which);
        followed(&self.progress[at(which)])?.table(&side.input, &side.measure)
    }

    fn found(&self) -> Found {
        Found::of(self.shedding.as_ref().map_or(1.0, Shedding::share))
    }

    /// The keys of a side whose own watermark is ahead of the side's, and in the last column up to when each is complete.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub fn keys_ahead(&self, which: Which) -> Result<RecordBatch> {
        let side = self.plan.side(which);
        let keys = side.by.iter().map(|&column| side.input.field(column));
        self.ahead[at(which)].table(&self.keys, keys, &side.measure)
    }

    /// Up to when the rows of a side with a key are complete.
    fn reached(&self, which: Which, key: u32) -> Option<i64> {
        self.ahead[at(which)].watermark_of(self.reached[at(which)], key)
    }

    /// Makes a call, which takes effect as a whole or not at all; returns the rows of the result that it has found, or
    /// late rows.
    ///
    /// # Errors
    /// `InvalidValue` once closed, for a watermark before the last one, and for a batch that the join was not bound to;
    /// `Overflow` for a time that is too far away for its windows.
    pub fn call(&mut self, step: JoinStep<'_>) -> Result<Vec<RecordBatch>> {
        self.relieve()?;
        let results = all_or_nothing(self, |this| this.tried(step), Self::commit, Self::take_back)?;
        self.progress.iter_mut().flatten().for_each(Progress::tidy);
        Ok(results)
    }

    fn take_back(&mut self) {
        self.outbox.take_back();
        self.stores.iter_mut().for_each(|store| store.agenda.take_back());
        self.progress.iter_mut().flatten().for_each(Progress::take_back);
    }

    fn commit(&mut self, attempted: Attempted) {
        let Attempted { pushed, met, partners, retracted, reached, key_reached, dropped, .. } = attempted;
        let Attempted { takes_late, is_end, results, next, drawn, .. } = attempted;
        let has_pairs = self.plan.kind.has_pairs();
        for &(which, key, place) in &met {
            self.stores[at(which)].meet(key, place, 1);
        }
        for ((is_right, key, place), count) in partners {
            self.stores[usize::from(is_right)].meet(key, place, count);
        }
        // Once it has had a partner, a row of such a kind is not needed any longer.
        for &(which, key, _) in met.iter().filter(|_| !has_pairs) {
            self.stores[at(which)].drop_met(key);
        }
        if let Some((which, new, refused, rows)) = pushed {
            new.into_iter().for_each(|new| self.stores[at(which)].add(new));
            self.late[at(which)].add(refused);
            self.rows[at(which)] += rows;
            self.next = next;
        }
        if let Some((which, items)) = retracted {
            items.into_iter().for_each(|item| self.stores[at(which)].remove(item));
        }
        if let Some((which, time)) = reached {
            self.reached[at(which)] = Some(time);
            self.ahead[at(which)].pass(time);
        }
        if let Some((which, key, time)) = key_reached {
            self.ahead[at(which)].set(key, time);
        }
        if let Some((which, key, last)) = dropped {
            self.stores[at(which)].drop_first(key, &last);
        }
        if let Some(which) = takes_late {
            self.late[at(which)].take();
        }
        self.outbox.keep();
        self.stores.iter_mut().for_each(Store::purge);
        self.progress.iter_mut().flatten().for_each(Progress::commit);
        self.shedding.iter_mut().for_each(|shedding| shedding.drew(drawn));
        self.closed |= is_end;
        self.results += results;
    }

    fn tried(&mut self, step: JoinStep<'_>) -> Result<(Attempted, Vec<RecordBatch>)> {
        if let JoinStep::TakeLate(which) = step {
            let late = self.late[at(which)].batches().to_vec();
            return Ok((Attempted { takes_late: Some(which), ..Attempted::default() }, late));
        }
        check_open(self.closed)?;
        let mut attempted = Attempted::default();
        let mut results = Vec::new();
        match step {
            JoinStep::Push(which, batches) => self.push(which, batches, &mut attempted, &mut results)?,
            JoinStep::Advance(which, time) => self.advance(which, time, &mut attempted, &mut results)?,
            JoinStep::AdvanceKey(which, time, key) => {
                self.advance_key(which, time, key, &mut attempted, &mut results)?;
            }
            JoinStep::Follow(which) => {
                let reached = followed(&self.progress[at(which)])?.watermark(self.reached[at(which)])?;
                self.follow(which, reached, &mut attempted, &mut results)?;
            }
            JoinStep::AddSource(which, name) => {
                with_sources(&mut self.progress[at(which)])?.add_source(name)?;
            }
            JoinStep::EndSource(which, name) => {
                let progress = with_sources(&mut self.progress[at(which)])?;
                progress.end_source(name)?;
                let reached = progress.watermark(self.reached[at(which)])?;
                self.follow(which, reached, &mut attempted, &mut results)?;
            }
            JoinStep::Close | JoinStep::TakeLate(_) => {
                for which in [Which::Left, Which::Right] {
                    self.expire(which, None, &attempted, &mut results)?;
                }
                attempted.is_end = true;
            }
        }
        attempted.results = results.iter().map(|batch| batch.num_rows() as u64).sum();
        if self.options.flush.holds() {
            results = self.flushed(results, &attempted);
        }
        Ok((attempted, results))
    }

    /// The results that leave with a call that finds these, and those that have waited for it. They wait by the watermark of
    /// the side that is less far.
    fn flushed(&mut self, results: Vec<RecordBatch>, attempted: &Attempted) -> Vec<RecordBatch> {
        let mut reached = self.reached;
        if let Some((which, time)) = attempted.reached {
            reached[at(which)] = Some(time);
        }
        let results = results.into_iter().map(|batch| Labelled::all(batch, 0)).collect();
        let moved = (self.reached, reached[0].min(reached[1]));
        let leaving = self.outbox.pass(self.options.flush, results, moved, attempted.is_end);
        leaving.into_iter().map(|results| results.batch).collect()
    }
}

impl JoinStream {
    /// Moves the watermark of a side on to where its sources are.
    fn follow(
        &mut self,
        which: Which,
        reached: Option<i64>,
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let Some(time) = reached.filter(|_| reached > self.reached[at(which)]) else { return Ok(()) };
        attempted.reached = Some((which, time));
        self.expire(which.other(), Some(time), attempted, results)
    }

    fn advance(
        &mut self,
        which: Which,
        time: i64,
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        self.check_watermark(which, time, self.reached[at(which)])?;
        attempted.reached = Some((which, time));
        self.expire(which.other(), Some(time), attempted, results)
    }

    /// Refuses a watermark of a side, or of a key of it, before the last one.
    fn check_watermark(&self, which: Which, time: i64, last: Option<i64>) -> Result<()> {
        let Some(last) = last.filter(|&last| time < last) else { return Ok(()) };
        let measure = &self.plan.side(which).measure;
        Err(Error::InvalidValue(format!(
            "watermark: {} is before the last one of the {} side, {}; a watermark must not decrease",
            measure.shown(time),
            which.name(),
            measure.shown(last)
        )))
    }

    fn advance_key(
        &mut self,
        which: Which,
        time: i64,
        key: &[ArrayRef],
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        self.tidy()?;
        let key = Part::key(&self.plan, which, key, &mut self.keys)?;
        let last = self.reached(which, key);
        self.check_watermark(which, time, last)?;
        if Some(time) == last {
            return Ok(());
        }
        self.ahead[at(which)].make_room(key);
        attempted.key_reached = Some((which, key, time));
        let (condition, other) = (&self.plan.condition, which.other());
        let mut pace = Pace::new();
        let over = self.stores[at(other)].first(key, |place| {
            pace.check(1)?;
            condition.is_over(other, place, time)
        })?;
        attempted.dropped = over.last().map(|&last| (other, key, last));
        let mut found = self.found();
        for entry in over.iter().filter(|entry| self.is_due(other, entry)) {
            found.push(other, Pick::Stored(entry.at), Pick::None, self.beside(entry));
        }
        self.lower(&found, results)
    }

    /// Whether a stored row that can have no partner any more is in the result for that.
    fn is_due(&self, which: Which, entry: &Entry) -> bool {
        self.plan.kind.keeps(which) && !self.plan.early && !entry.is_met()
    }

    /// What the result has besides a stored row without a partner.
    fn beside(&self, entry: &Entry) -> Beside {
        let by_windows = self.plan.condition.windows().is_some();
        Beside {
            window: by_windows.then_some(Some(entry.place)),
            weight: self.plan.has_weight().then_some(1),
        }
    }

    /// Appends rows of a result that are stored.
    fn lower(&self, found: &Found, results: &mut Vec<RecordBatch>) -> Result<()> {
        let [left, right] = &self.stores;
        let origin = |store| Origin { new: &[], store };
        found.lower(&self.plan, [origin(left), origin(right)], results)
    }

    /// Removes the rows of a side that can have no partner any more, as the other side is complete up to a time, or has
    /// ended; those that had none are results of some kinds.
    fn expire(
        &mut self,
        which: Which,
        reached: Option<i64>,
        attempted: &Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let own = attempted.met.iter().filter(|(side, ..)| *side == which);
        let met: HashSet<(u32, usize)> = own.map(|&(_, key, number)| (key, number)).collect();
        let condition = &self.plan.condition;
        let mut found = self.found();
        let mut pace = Pace::new();
        let is_due = |place| reached.map_or(Ok(true), |reached| condition.is_over(which, place, reached));
        while let Some(item) = self.stores[at(which)].agenda.pop(is_due)? {
            pace.check(1)?;
            let Some((number, entry)) = self.stores[at(which)].numbered(item) else { continue };
            // Partners may come with the call that ends the wait for them.
            let partners = attempted.partners.get(&(which == Which::Right, item.key, number));
            let now = Entry { met: partners.copied().unwrap_or(entry.met), ..*entry };
            if self.is_due(which, &now) && !met.contains(&(item.key, number)) {
                found.push(which, Pick::Stored(entry.at), Pick::None, self.beside(entry));
            }
        }
        self.lower(&found, results)
    }

    /// Drops what is no longer needed where that is worth it; changes no result.
    fn tidy(&mut self) -> Result<()> {
        for which in [Which::Left, Which::Right] {
            self.stores[at(which)].tidy(self.plan.side(which).held.len())?;
        }
        forget(&mut self.keys, &mut self.full, &mut self.stores, &mut self.ahead, |_| false)?;
        Ok(())
    }
}
