//! Rows of a side that come: which of them are late, which partners they have, and what is stored of them.

use std::collections::HashSet;

use arrow_array::{Array, BooleanArray, RecordBatch, UInt32Array};

use super::found::{Beside, Found, Origin, Pick};
use super::{Attempted, JoinStream, at};
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::held::{Address, Entry, Item, New, Passed};
use crate::operator::join::kind::{JoinKind, Which};
use crate::operator::join::net::{not_there, remaining};
use crate::operator::join::part::{Part, keys_of};
use crate::operator::numbered::NONE;
use crate::operator::stream::Reason;
use crate::select::{filter_record_batch, take, take_record_batch};

/// Rows of a call that are being pushed.
#[derive(Clone, Copy)]
struct Given<'a> {
    part: &'a Part,
    /// Those that others of the call do not retract; `None` for all.
    remain: Option<&'a [bool]>,
    /// How many rows of the call come before.
    before: usize,
    /// How many chunks of the call come before.
    chunk: u32,
}

impl JoinStream {
    pub(super) fn push(
        &mut self,
        which: Which,
        batches: &[RecordBatch],
        attempted: &mut Attempted,
        results: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        self.tidy()?;
        let (mut late, mut new, mut passed) = (Vec::new(), Vec::new(), Passed::default());
        attempted.next = self.next;
        let pushed: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let batches = batches.iter().map(|batch| self.accepted(which, batch, &mut late, attempted));
        let batches = &batches.collect::<Result<Vec<RecordBatch>>>()?;
        let (mut parts, mut before) = (Vec::with_capacity(batches.len()), 0);
        for batch in batches {
            parts.push(Part::of(&self.plan, which, (batch, before), &mut self.keys)?);
            before += batch.num_rows();
        }
        let remain = match self.plan.side(which).weight {
            Some(_) => remaining(&parts, |part, row| !self.is_late(which, part, row))?,
            None => vec![None; parts.len()],
        };
        before = 0;
        for ((batch, part), remain) in batches.iter().zip(&parts).zip(&remain) {
            let given = Given { part, remain: remain.as_deref(), before, chunk: new.len() as u32 };
            before += batch.num_rows();
            let (refused, stored, found) = self.meet(which, given, attempted, &mut passed)?;
            if !refused.is_empty() {
                let rows = take_record_batch(batch, &UInt32Array::from(refused))?;
                late.push(self.late[at(which)].batch(&rows, "", Reason::TooLate)?);
            }
            let [left, right] = &self.stores;
            let none = &[][..];
            let own = &part.columns[..];
            let (of_left, of_right) = if which == Which::Left { (own, none) } else { (none, own) };
            let origins = [Origin { new: of_left, store: left }, Origin { new: of_right, store: right }];
            found.lower(&self.plan, origins, results)?;
            new.push(stored);
        }
        let rows = pushed - attempted.drawn.shed;
        let refused = self.late[at(which)].limited(late, self.options.late_limit)?;
        self.late[at(which)].reserve(&refused);
        self.stores[at(which)].reserve(&new, self.keys.len())?;
        attempted.pushed = Some((which, new, refused, rows));
        match &self.progress[at(which)] {
            None => Ok(()),
            Some(progress) => {
                // Rows of one call are not late for each other.
                let reached = progress.watermark(self.reached[at(which)])?;
                self.follow(which, reached, attempted, results)
            }
        }
    }

    /// The rows of a batch without those from the future, which are late, and those of keys that are dropped.
    fn accepted(
        &mut self,
        which: Which,
        batch: &RecordBatch,
        late: &mut Vec<RecordBatch>,
        attempted: &mut Attempted,
    ) -> Result<RecordBatch> {
        let side = self.plan.side(which);
        side.check(which, batch)?;
        let mut rows = batch.clone();
        if let Some(progress) = &mut self.progress[at(which)] {
            let column = rows.column(side.time);
            let (times, timed) = (side.measure.read(column)?, column.logical_nulls());
            if let Some(ahead) = progress.note(&rows, &times, timed.as_ref())? {
                let set_aside = filter_record_batch(&rows, &BooleanArray::new(ahead.clone(), None))?;
                late.push(self.late[at(which)].batch(&set_aside, "", Reason::Future)?);
                rows = filter_record_batch(&rows, &BooleanArray::new(!&ahead, None))?;
            }
        }
        if let Some(shedding) = &self.shedding {
            // In the types in which keys of both sides are compared, as their hashes are.
            let keys = keys_of(&self.plan, which, &rows)?;
            let by: Vec<usize> = (0..keys.len()).collect();
            let keys = RecordBatch::try_from_iter(keys.into_iter().map(|column| ("", column)))?;
            if let Some(kept) = shedding.pick((&keys, rows.num_rows()), &by, &mut attempted.drawn)? {
                rows = filter_record_batch(&rows, &BooleanArray::new(kept, None))?;
            }
        }
        Ok(rows)
    }

    /// Whether a row of a side is late.
    fn is_late(&self, which: Which, part: &Part, row: usize) -> bool {
        let reached = self.reached(which, part.keys[row]);
        part.is_timed(row) && reached.is_some_and(|reached| part.times[row] < reached)
    }

    /// Finds the stored row that a row retracts at a place, unless it was retracted by the same call.
    fn retract(
        &self,
        which: Which,
        (Given { part, before, .. }, row): (&Given<'_>, usize),
        place: i64,
        attempted: &mut Attempted,
    ) -> Result<()> {
        let (key, content, store) = (part.keys[row], part.content(row), &self.stores[at(which)]);
        let (_, retracted) = attempted.retracted.get_or_insert_with(|| (which, HashSet::new()));
        let looked = attempted.looked.entry((key, place, content)).or_default();
        let (next, mut pace) = (*looked, Pace::new());
        for from in [next].into_iter().chain((next > 0).then_some(0)) {
            for entry in store.at(key, place, from) {
                pace.check(1)?;
                let item = Item { place, order: entry.order, key };
                if entry.content != content || retracted.contains(&item) {
                    continue;
                }
                let Address { chunk, row: other } = entry.at;
                if part.is_equal(row, store.columns(chunk)?, other as usize) {
                    retracted.insert(item);
                    *looked = entry.order + 1;
                    return Ok(());
                }
            }
        }
        Err(not_there(which, before + row))
    }

    /// Finds the partners of the rows of a part: which rows are late, what is stored of the others, and the results.
    fn meet(
        &self,
        which: Which,
        given: Given<'_>,
        attempted: &mut Attempted,
        passed: &mut Passed,
    ) -> Result<(Vec<u32>, New, Found)> {
        let (condition, kind) = (&self.plan.condition, self.plan.kind);
        let (Given { part, remain, chunk, .. }, other) = (given, which.other());
        // Whose partners are counted, as these may come and go, or rows are in the result before they are known to have none.
        let (weighs, early) = (self.plan.has_weight(), self.plan.early);
        let counts = weighs && (kind.keeps(other) || kind == JoinKind::Semi && which == Which::Right);
        let others = &self.stores[at(other)];
        let chunk = self.stores[at(which)].next_chunk() as u32 + chunk;
        let (mut late, mut rows, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = self.found();
        let mut pace = Pace::new();
        let by_windows = condition.windows().is_some();
        for (row, (&key, &time)) in part.keys.iter().zip(part.times.iter()).enumerate() {
            pace.check(1)?;
            if remain.is_some_and(|remain| !remain[row]) {
                continue;
            }
            if self.is_late(which, part, row) {
                late.push(row as u32);
                continue;
            }
            let (is_timed, weight) = (part.is_timed(row), part.weight(row));
            let row = row as u32;
            let order = attempted.next;
            attempted.next += 1;
            let own = Pick::New(row);
            let places = if is_timed { condition.places(time)? } else { None };
            let Some((first, last)) = places else {
                if kind.keeps(which) {
                    let beside =
                        Beside { window: by_windows.then_some(None), weight: weighs.then_some(weight) };
                    found.push(which, own, Pick::None, beside);
                }
                continue;
            };
            let mut is_stored = false;
            let mut next = Some(first);
            while let Some(place) = next {
                pace.check(1)?;
                next = if place < last { Some(condition.next(place)?) } else { None };
                let window = by_windows.then_some(Some(place));
                let beside = Beside { window, weight: weighs.then_some(weight) };
                // By windows, rows meet those in one of them.
                let span = if by_windows { Some((place, place)) } else { condition.met(which, place)? };
                let span = span.filter(|_| key != NONE);
                let (mut is_met, mut met) = (false, 0);
                if weighs {
                    for (number, partner) in span.into_iter().flat_map(|span| others.within(key, span)) {
                        pace.check(1)?;
                        (is_met, met) = (true, met + 1);
                        let stored = Pick::Stored(partner.at);
                        let pair = |found: &mut Found| found.push(which, own, stored, beside);
                        if !counts {
                            if kind.has_pairs() {
                                pair(&mut found);
                            }
                            continue;
                        }
                        let place = (other == Which::Right, key, number);
                        let count = attempted.partners.entry(place).or_insert(partner.met);
                        // A row that is stored has the partners that it was counted for.
                        *count = count.saturating_add_signed(i32::from(weight));
                        let is_first = weight > 0 && *count == 1;
                        let is_last = weight < 0 && *count == 0;
                        let alone = |found: &mut Found, weight| {
                            found.push(other, stored, Pick::None, beside.weighing(weight));
                        };
                        if is_first && kind == JoinKind::Semi {
                            alone(&mut found, 1);
                        } else if is_first && early {
                            alone(&mut found, -1);
                        }
                        if kind.has_pairs() {
                            pair(&mut found);
                        }
                        if is_last && kind == JoinKind::Semi {
                            alone(&mut found, -1);
                        } else if is_last && early {
                            alone(&mut found, 1);
                        }
                    }
                } else if let Some(span) = span.filter(|_| !kind.has_pairs() && which == Which::Right) {
                    // A row of the left side is in the result once, or not at all, however many partners come.
                    others.unmet(key, span, passed, |partner| {
                        pace.check(1)?;
                        is_met = true;
                        let Some((number, partner)) = partner else { return Ok(()) };
                        if kind == JoinKind::Semi {
                            found.push(other, Pick::Stored(partner.at), Pick::None, beside);
                        }
                        attempted.met.push((other, key, number));
                        Ok(())
                    })?;
                } else if kind.has_pairs() {
                    for (number, partner) in span.into_iter().flat_map(|span| others.within(key, span)) {
                        pace.check(1)?;
                        is_met = true;
                        found.push(which, own, Pick::Stored(partner.at), beside);
                        if !partner.is_met() && kind.keeps(other) {
                            attempted.met.push((other, key, number));
                        }
                    }
                } else {
                    is_met = span.is_some_and(|span| others.within(key, span).next().is_some());
                }
                if kind == JoinKind::Semi && which == Which::Left && is_met {
                    found.push(which, own, Pick::None, beside);
                }
                let is_over = match self.reached(other, key) {
                    Some(reached) => condition.is_over(which, place, reached)?,
                    None => false,
                };
                let is_certain = key == NONE || is_over;
                if (is_certain || early) && !is_met && kind.keeps(which) {
                    found.push(which, own, Pick::None, beside);
                }
                if is_certain {
                    continue;
                }
                if weight < 0 {
                    self.retract(which, (&given, row as usize), place, attempted)?;
                } else if weighs || kind.has_pairs() || which == Which::Right || !is_met {
                    is_stored = true;
                    let at = Address { chunk, row: rows.len() as u32 };
                    let met = if weighs { met } else { u32::from(is_met) };
                    entries.push((key, Entry { place, order, at, met, content: part.content(row as usize) }));
                }
            }
            if is_stored {
                rows.push(row);
            }
        }
        let count = rows.len();
        // Copies, as slices would hold all rows of the batch.
        let places = UInt32Array::from(rows);
        let columns = part.columns.iter().map(|column| Ok(take(column, &places, None)?));
        Ok((late, New::of(columns.collect::<Result<_>>()?, count, entries)?, found))
    }
}
