//! The steps of a stream, each attempted without being committed.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};

use super::ahead::{Ends, Reach};
use super::emission::{Emission, Emitted};
use super::engine::{Emptied, Engine, Outcome, WatermarkMove};
use super::entry::Entry;
use super::intake::{Accepted, Gate, InputKind, check_open, check_schema, check_watermark, nth_valid};
use super::keys::StreamKeys;
use super::late::{Reason, Refused};
use super::outgoing::Answer;
use super::sharing::ClassGroup;
use super::slices::row_counts;
use super::sparse::{SparseRows, Waited};
use super::{Operator, Step};
use crate::operator::progress::{followed, with_sources};
use crate::operator::shedding::{Drawn, Shedding};
use crate::slice::strategy::Order;
use crate::{Error, Result};

/// What a step changes besides what the undo logs of the engines know of, once it is committed.
#[derive(Default)]
pub(super) struct Attempted {
    /// One for each engine, unless no engine takes part.
    #[allow(clippy::vec_box, reason = "outcomes are large, and are not moved about")]
    pub(super) outcomes: Vec<Box<Outcome>>,
    pub(super) watermark: Option<i64>,
    /// The only key whose watermark moves, and where to.
    pub(super) key_watermark: Option<(u32, i64)>,
    /// The only key that ends, and up to when it is complete.
    pub(super) ended_key: Option<(u32, Option<i64>)>,
    pub(super) latest: Option<i64>,
    pub(super) rows: u64,
    pub(super) drawn: Drawn,
    pub(super) refused: Refused,
    pub(super) takes_late: bool,
    /// The engines without their contents, if the stream ends.
    pub(super) emptied: Option<Vec<Emptied>>,
    /// Rows that wait, and that no longer do.
    pub(super) waited: Waited,
    /// Whether rows that waited are in slices now.
    pub(super) is_settled: bool,
}

impl Operator {
    pub(super) fn tried(&mut self, step: Step<'_>) -> Result<(Box<Attempted>, Vec<RecordBatch>)> {
        let mut attempted = Box::new(match step {
            Step::Push(batches) => self.try_push(batches),
            Step::PushSlices(batches) => self.try_push_slices(batches),
            Step::Advance(watermark) => self.try_advance(watermark),
            Step::AdvanceKey(watermark, key) => self.try_advance_key(watermark, key),
            Step::EndKey(key) => self.try_end_key(key),
            Step::Follow => self.try_follow(),
            Step::AddSource(name) => self.try_add_source(name),
            Step::EndSource(name) => self.try_end_source(name),
            Step::Punctuate(time, key) => self.try_punctuate(time, key),
            Step::Close => self.try_close(),
            Step::Fire(_) => self.try_fire(),
            Step::Settle => self.try_settle(),
            Step::TakeLate => {
                let late = self.late.batches().to_vec();
                return Ok((Box::new(Attempted { takes_late: true, ..self.unchanged() }), late));
            }
        }?);
        let by_hand = if let Step::Fire(key) = step { Some(self.numbered(key)?) } else { None };
        let mut results = self.recorded(&mut attempted, by_hand)?;
        let bounds = self.bounds();
        if let Some(sparse) = self.sparse.as_mut().filter(|_| !attempted.is_settled) {
            let found = sparse.moved(&mut attempted.waited, (attempted.watermark, bounds))?;
            let mut windows = [attempted.waited.windows];
            attempted.outcomes.iter().for_each(|outcome| outcome.count(&mut windows));
            if let Some(most) = self.leader().max_windows().filter(|&most| windows[0] > most) {
                return Err(self.leader().too_many("this call", most.saturating_add(1), 0));
            }
            let found = found.into_iter().map(|batch| self.finals(batch));
            results.extend(found.collect::<Result<Vec<_>>>()?);
        }
        Ok((attempted, results))
    }

    /// Windows of a batch query as this operator's results are.
    fn finals(&self, windows: RecordBatch) -> Result<RecordBatch> {
        let mut columns = windows.columns().to_vec();
        columns.push(Arc::new(BooleanArray::from(vec![false; windows.num_rows()])));
        Ok(RecordBatch::try_new(self.plain_schema().clone(), columns)?)
    }

    /// Rows that wait become slices.
    fn try_settle(&mut self) -> Result<Attempted> {
        let mut accepted = self.sparse.as_ref().map_or(Ok(Vec::new()), SparseRows::accepted)?;
        for rows in &mut accepted {
            rows.keys = self.keys.number(rows, None)?;
        }
        let outcomes = self.all(|engine, keys| {
            let own = engine.horizon().own_rows(&engine.queries, &accepted, keys)?;
            engine.attempt(&own, WatermarkMove::default(), keys)
        })?;
        Ok(Attempted { outcomes, is_settled: true, ..self.unchanged() })
    }

    /// The results of a step: final windows, and early ones by emission policies.
    fn recorded(
        &mut self,
        attempted: &mut Attempted,
        by_hand: Option<Option<u32>>,
    ) -> Result<Vec<RecordBatch>> {
        let finals = attempted.outcomes.iter_mut().flat_map(|outcome| outcome.take_results());
        let finals: Vec<Answer> = marked(self.shedding.as_ref(), finals)?;
        let Some(emission) = &mut self.emission else {
            return Ok(finals.into_iter().map(|answer| answer.batch).collect());
        };
        let ended_key = attempted.ended_key.map(|(key, _)| key);
        let reach = Reach {
            before: self.watermark,
            after: attempted.watermark,
            key_watermark: attempted.key_watermark.or(ended_key.map(|key| (key, i64::MAX))),
            ends: match (&attempted.emptied, ended_key) {
                (Some(_), _) => Ends::Stream,
                (None, Some(key)) => Ends::Key(key),
                (None, None) => Ends::Nothing,
            },
            ahead: &self.keys.ahead,
        };
        let requests = match by_hand {
            _ if reach.ends != Ends::Nothing => Vec::new(),
            Some(key) => emission.ask_by_hand(key),
            None => emission.ask(&reach, self.now, &finals),
        };
        if !requests.is_empty() {
            for ((_, engine), outcome) in self.engines.iter_mut().zip(&mut attempted.outcomes) {
                engine.emit_early(outcome, &requests, &self.keys)?;
            }
        }
        let early = attempted.outcomes.iter_mut().flat_map(|outcome| outcome.take_early());
        let early = marked(self.shedding.as_ref(), early)?;
        // Only retracting queries have such, from which nothing is dropped.
        let vanished = attempted.outcomes.iter_mut().flat_map(|outcome| outcome.take_vanished());
        let vanished = vanished.filter(|_| self.shedding.is_none()).collect();
        let entries = &self.entries;
        let horizon = |entry: usize| entries[entry].horizon(attempted.watermark);
        emission.emit(Emitted { finals, early, vanished }, &requests, horizon, &reach)
    }

    /// The key given by these columns of one row, if one is given.
    fn numbered(&mut self, key: Option<&[ArrayRef]>) -> Result<Option<u32>> {
        key.map(|key| self.keys.number_one(key)).transpose()
    }

    fn try_fire(&mut self) -> Result<Attempted> {
        check_open(self.closed, "fire")?;
        if !self.emission.as_ref().is_some_and(Emission::has_policies) {
            return Err(Error::InvalidValue(
                "fire: no query of this operator has an emission policy; emit=windowkit.emit(...) gives it one".into(),
            ));
        }
        let outcomes = self.moved(WatermarkMove::default())?;
        Ok(Attempted { outcomes, ..self.unchanged() })
    }

    fn unchanged(&self) -> Attempted {
        Attempted { watermark: self.watermark, latest: self.latest, ..Attempted::default() }
    }

    fn try_push(&mut self, batches: &[RecordBatch]) -> Result<Attempted> {
        check_open(self.closed, "push")?;
        let input = self.input().clone();
        batches.iter().try_for_each(|batch| check_schema(&input, batch))?;
        self.try_take(batches, InputKind::Rows)
    }

    fn try_push_slices(&mut self, batches: &[RecordBatch]) -> Result<Attempted> {
        check_open(self.closed, "push_slices")?;
        if self.shedding.is_some() {
            return Err(Error::InvalidValue(
                "push_slices: the operator has shed=..., by which it drops keys or rows, and it cannot tell which of them \
                 slices hold; push rows"
                    .into(),
            ));
        }
        let rows = self.slices_as_rows(batches)?;
        self.try_take(&rows, InputKind::Slices)
    }

    fn try_take(&mut self, batches: &[RecordBatch], kind: InputKind) -> Result<Attempted> {
        let (mut gate, limits) = (self.gate(), self.limits(None));
        // None is the least.
        let cutoff = self.engines().map(|engine| engine.horizon().cutoff()).min().flatten();
        let (mut accepted, mut refused, mut before) = (Vec::with_capacity(batches.len()), Vec::new(), 0);
        let (mut drawn, mut waited) = (Drawn::default(), Waited::default());
        let mut rows = 0;
        for batch in batches {
            let weights = self.entries.iter().filter_map(|entry| entry.plan.weights());
            for weights in weights.filter(|_| kind == InputKind::Rows) {
                weights.check(batch, before)?;
            }
            let (mut timed, untimed) = gate.accept(self.leader(), (batch, before), kind)?;
            if let Some(rows) = untimed {
                refused.extend(self.late_for_all(&rows, Reason::NullTime)?);
            }
            if let Some(progress) = &mut self.progress
                && let Some(ahead) = progress.ahead(&timed.times)
            {
                let rows = timed.only(&BooleanArray::new(ahead.clone(), None))?.rows;
                refused.extend(self.late_for_all(&rows, Reason::Future)?);
                timed = timed.only(&BooleanArray::new(!&ahead, None))?;
            }
            if let Some(progress) = &mut self.progress {
                progress.see(&timed.rows, &timed.times, timed.most)?;
            }
            gate.see(&timed);
            if let Some(gaps) = self.leader().gap_column() {
                let valid = gaps.valid(timed.rows.column(gaps.position))?;
                let rows = timed.only(&BooleanArray::new(!&valid, None))?.rows;
                refused.extend(self.late_for_all(&rows, Reason::NoGap)?);
                timed = timed.only(&BooleanArray::new(valid, None))?;
            }
            if self.options.order == Order::InOrder {
                self.refuse_behind(&timed, (batch, before))?;
            }
            before += batch.num_rows();
            if let Some(shedding) = &self.shedding {
                let rows = (&timed.rows, timed.times.len());
                if let Some(kept) = shedding.pick(rows, self.leader().by(), &mut drawn)? {
                    timed = timed.only(&BooleanArray::new(kept, None))?;
                    timed.weight = shedding.weight();
                }
            }
            let waits = self.sparse.as_ref().and_then(|sparse| sparse.waiting(&timed, cutoff));
            if let (Some(sparse), Some(waits)) = (&self.sparse, waits) {
                // Keys are not ahead while rows wait, so that all may have no numbers.
                rows += timed.times.len() as u64 - self.refuse(&timed, &limits, &mut refused)?.0;
                waited.add(sparse.piece(&timed.only(&BooleanArray::new(waits.clone(), None))?)?);
                timed = timed.only(&BooleanArray::new(!&waits, None))?;
                timed.keys = self.keys.number(&timed, cutoff)?;
                accepted.push(timed);
                continue;
            }
            timed.keys = self.keys.number(&timed, cutoff)?;
            let (late_for_all, late) = self.refuse(&timed, &limits, &mut refused)?;
            let all = match kind {
                InputKind::Rows => timed.times.len() as u64,
                InputKind::Slices => row_counts(self.leader(), &timed.rows).iter().sum(),
            };
            rows += all - late_for_all;
            if let Some(emission) = &mut self.emission {
                emission.note(&timed, &late, self.keys.len(), self.now);
            }
            // Engines leave out what is before their own cutoffs: all rows without a number.
            accepted.push(timed);
        }
        let limit = if kind == InputKind::Slices { Some(0) } else { self.options.late_limit };
        let refused = self.late.limited(refused, limit)?;
        let watermark = match (self.options.order, &self.progress) {
            (Order::InOrder, _) => gate.latest_row,
            (Order::OutOfOrder, progress) => {
                progress.as_ref().map_or(Ok(None), |progress| progress.watermark(None))?
            }
        };
        self.divide(&accepted)?;
        if kind == InputKind::Slices {
            self.check_whole(&accepted)?;
        }
        let moved = WatermarkMove { watermark, ..WatermarkMove::default() };
        let slices = self.slices_now();
        let outcomes = self.all(|engine, keys| {
            let own = engine.horizon().own_rows(&engine.queries, &accepted, keys)?;
            engine.attempt(&own, moved, keys)
        })?;
        let in_slices = accepted.iter().map(|batch| batch.times.len()).sum();
        waited.see(self.slices_now().saturating_sub(slices), in_slices);
        let (watermark, latest) = (watermark.max(self.watermark), gate.latest_row);
        Ok(Attempted { outcomes, watermark, latest, rows, drawn, refused, waited, ..Attempted::default() })
    }

    fn slices_now(&self) -> usize {
        self.engines().map(|engine| engine.slices.timelines.len()).sum()
    }

    /// The results of [`Operator::peek`], which leaves what it changes to be rolled back.
    pub(super) fn peeked(&mut self, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        let results = self.windows_so_far(key)?;
        match &self.emission {
            None => Ok(results.into_iter().map(|answer| answer.batch).collect()),
            Some(emission) => emission.labelled_early(results),
        }
    }

    fn windows_so_far(&mut self, key: Option<&[ArrayRef]>) -> Result<Vec<Answer>> {
        check_open(self.closed, "peek")?;
        let of_key = match key {
            Some(key) => match self.known_key(key)? {
                None => return Ok(Vec::new()),
                number => number,
            },
            None => None,
        };
        let (all, one) = (of_key.is_none().then_some(i64::MAX), of_key.map(|key| (key, i64::MAX)));
        let moved = WatermarkMove { watermark: all, key_watermark: one, closing: true };
        let mut outcomes = self.moved(moved)?;
        let results = outcomes.iter_mut().flat_map(|outcome| outcome.take_results());
        let results = marked(self.shedding.as_ref(), results)?;
        Ok(results)
    }

    /// Rows that are late for all queries, once for each.
    fn late_for_all(&self, rows: &RecordBatch, reason: Reason) -> Result<Vec<RecordBatch>> {
        if rows.num_rows() == 0 {
            return Ok(Vec::new());
        }
        self.names().map(|name| self.late.batch(rows, name, reason)).collect()
    }

    fn try_follow(&mut self) -> Result<Attempted> {
        check_open(self.closed, "advance")?;
        let watermark = match &self.progress {
            // What comes out by the clock alone.
            None if self.uses_clock() => self.watermark,
            _ => followed(&self.progress)?.watermark(self.watermark)?,
        };
        let outcomes = self.moved(WatermarkMove { watermark, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    fn try_add_source(&mut self, name: &ArrayRef) -> Result<Attempted> {
        check_open(self.closed, "add_source")?;
        with_sources(&mut self.progress)?.add_source(name)?;
        let outcomes = self.moved(WatermarkMove { watermark: self.watermark, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, ..self.unchanged() })
    }

    fn try_end_source(&mut self, name: &ArrayRef) -> Result<Attempted> {
        check_open(self.closed, "end_source")?;
        let progress = with_sources(&mut self.progress)?;
        progress.end_source(name)?;
        let watermark = progress.watermark(self.watermark)?;
        let outcomes = self.moved(WatermarkMove { watermark, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    fn try_advance(&mut self, watermark: i64) -> Result<Attempted> {
        check_open(self.closed, "advance")?;
        check_watermark(self.leader().measure(), self.watermark, watermark)?;
        let watermark = Some(watermark);
        let outcomes = self.moved(WatermarkMove { watermark, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    fn try_advance_key(&mut self, watermark: i64, key: &[ArrayRef]) -> Result<Attempted> {
        check_open(self.closed, "advance")?;
        self.check_key(key, "advance(watermark) without a key moves the watermark of the stream")?;
        let key = self.keys.number_one(key)?;
        let reached = self.keys.ahead.watermark_of(self.watermark, key);
        check_watermark(self.leader().measure(), reached, watermark)?;
        // A commit must not fail.
        self.keys.ahead.make_room(key);
        let key_watermark = (Some(watermark) > reached).then_some((key, watermark));
        let outcomes = self.moved(WatermarkMove { key_watermark, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, key_watermark, ..self.unchanged() })
    }

    fn try_end_key(&mut self, key: &[ArrayRef]) -> Result<Attempted> {
        check_open(self.closed, "end_key")?;
        self.check_key(key, "close() ends the stream")?;
        let Some(key) = self.known_key(key)? else {
            let outcomes = self.moved(WatermarkMove::default())?;
            return Ok(Attempted { outcomes, ..self.unchanged() });
        };
        let moved =
            WatermarkMove { key_watermark: Some((key, i64::MAX)), closing: true, ..WatermarkMove::default() };
        let outcomes = self.moved(moved)?;
        let end = outcomes.iter().filter_map(|outcome| outcome.ended_at()).max();
        let end = end.max(self.keys.ahead.watermark_of(self.watermark, key));
        // No window that it was in may be updated any more.
        let lateness = self.entries.iter().map(|entry| entry.lateness).max().unwrap_or_default();
        let mark = end.map(|end| end.saturating_add(lateness));
        // A commit must not fail.
        self.keys.ahead.make_room(key);
        Ok(Attempted { outcomes, ended_key: Some((key, mark)), ..self.unchanged() })
    }

    /// Refuses a key where there are none.
    fn check_key(&self, key: &[ArrayRef], instead: &str) -> Result<()> {
        if !key.is_empty() {
            return Ok(());
        }
        Err(Error::InvalidValue(format!(
            "key: one is given, but the queries group by nothing (by=[]); {instead}"
        )))
    }

    /// The number of a key given by columns of one row, if it has one; a look leaves nothing behind.
    fn known_key(&mut self, key: &[ArrayRef]) -> Result<Option<u32>> {
        let known = self.keys.len() as u32;
        let number = self.keys.number_one(key)?;
        if number >= known {
            self.keys.keep(&(0..known).collect::<Vec<u32>>());
            return Ok(None);
        }
        Ok(Some(number))
    }

    /// Rejects rows before the marks of their keys on a stream in order; `before` rows of the same call come before the
    /// batch that they are of.
    fn refuse_behind(&mut self, rows: &Accepted, (batch, before): (&RecordBatch, usize)) -> Result<()> {
        if !self.keys.ahead.some_may_be_late(rows.least) {
            return Ok(());
        }
        let numbered = Accepted { keys: self.keys.number(rows, None)?, ..rows.clone() };
        let Some(&(row, mark)) = self.keys.behind(&numbered).first() else { return Ok(()) };
        let (plan, time) = (self.leader(), batch.column(self.leader().time()));
        Err(Error::InvalidValue(format!(
            "batch: row {} has time {} in column '{}', which is before {}, up to which its key is complete by \
             advance(..., key=...) or end_key(...); rows come in order unless order='out-of-order' is given",
            before + nth_valid(time, row),
            plan.measure().shown(rows.times[row]),
            plan.measure().column(),
            plan.measure().shown(mark)
        )))
    }

    fn try_close(&mut self) -> Result<Attempted> {
        check_open(self.closed, "close")?;
        let emptied =
            self.engines().map(|engine| engine.slices.emptied(&engine.queries)).collect::<Result<_>>()?;
        let watermark = Some(i64::MAX);
        let outcomes = self.moved(WatermarkMove { watermark, closing: true, ..WatermarkMove::default() })?;
        Ok(Attempted { outcomes, watermark, emptied: Some(emptied), ..self.unchanged() })
    }

    fn try_punctuate(&mut self, time: i64, key: Option<&[ArrayRef]>) -> Result<Attempted> {
        check_open(self.closed, "punctuate")?;
        let marked = |entry: &&Entry| entry.plan.windows().iter().any(|(_, window)| window.is_punctuated());
        let key = self.numbered(key)?;
        let reached = key.map_or(self.watermark, |key| self.keys.ahead.watermark_of(self.watermark, key));
        let accepted_from = |entry: &Entry| {
            let horizon = reached.map(|watermark| watermark.saturating_sub(entry.lateness));
            horizon.max(entry.since.map(|since| since.saturating_add(1)))
        };
        let Some(cutoff) = self.entries.iter().filter(marked).map(accepted_from).min() else {
            return Err(Error::InvalidValue(
                "punctuate: no window of this operator is bounded by punctuation; those of windowkit.punctuation() are"
                    .into(),
            ));
        };
        let (measure, is_in_order) = (self.leader().measure(), self.options.order == Order::InOrder);
        let least = if is_in_order { self.latest.max(reached) } else { cutoff };
        // A mark of all keys must not cut what is final of a key that is ahead.
        let ahead = if key.is_none() { self.keys.ahead.most() } else { None };
        let least = least.max(ahead);
        if let Some(least) = least.filter(|&least| time < least) {
            return Err(Error::InvalidValue(format!(
                "punctuate: {} is before {} in column '{}'; no row can have that time any more",
                measure.shown(time),
                measure.shown(least),
                measure.column()
            )));
        }
        let (low, high) = self.bounds();
        if time < low || time > high {
            return Err(Error::Overflow(format!(
                "punctuate: {time} is too close to the limit of int64 for windows; allowed are times from {low} to {high}"
            )));
        }
        let watermark = if is_in_order { Some(time) } else { self.watermark };
        let moved = WatermarkMove { watermark, ..WatermarkMove::default() };
        let outcomes = self.all(|engine, keys| engine.try_punctuate((time, key), moved, keys))?;
        Ok(Attempted { outcomes, watermark, ..self.unchanged() })
    }

    /// Tries a call in all engines.
    #[allow(clippy::vec_box, reason = "outcomes are large, and are not moved about")]
    fn all(
        &mut self,
        call: impl Fn(&mut Engine, &StreamKeys) -> Result<Box<Outcome>>,
    ) -> Result<Vec<Box<Outcome>>> {
        let mut windows = vec![0; self.entries.len()];
        let Self { engines, keys, .. } = self;
        let mut one = |(_, engine): &mut (ClassGroup, Engine)| {
            engine.begin(&windows);
            call(engine, keys).inspect(|outcome| outcome.count(&mut windows))
        };
        engines.iter_mut().map(&mut one).collect()
    }

    /// Tries a call without rows in all engines.
    #[allow(clippy::vec_box, reason = "outcomes are large, and are not moved about")]
    fn moved(&mut self, moved: WatermarkMove) -> Result<Vec<Box<Outcome>>> {
        self.all(|engine, keys| engine.attempt(&[], moved, keys))
    }

    /// Which rows may come.
    fn gate(&self) -> Gate {
        Gate {
            order: self.options.order,
            latest: self.latest.max(self.watermark),
            latest_row: self.latest,
            bounds: self.bounds(),
        }
    }

    /// The least and the greatest time whose windows' edges fit int64.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let bounds = self.engines().map(|engine| engine.queries.edges().bounds());
        bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1))).unwrap_or((i64::MIN, i64::MAX))
    }
}

/// Results with what they say of what was dropped.
fn marked(shedding: Option<&Shedding>, results: impl Iterator<Item = Answer>) -> Result<Vec<Answer>> {
    let Some(shedding) = shedding else { return Ok(results.collect()) };
    results.map(|answer| Ok(Answer { batch: shedding.marked(answer.batch)?, ..answer })).collect()
}
