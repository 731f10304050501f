//! The partials of changed slices: how they are derived from the old ones and from rows.
//!
//! A call changes nothing that exists: changed slices get slots of their own, which are linked in once nothing can fail
//! any more.

use super::Tuples;
use super::fresh::Fresh;
use super::rows::KeyTuples;
use super::store::TupleStore;
use super::work::{Change, NONE, Work};
use crate::Result;
use crate::aggregate::{Input, Partial, Partials, Rows};
use crate::interrupt::{Pace, STEPS, check};
use crate::operator::plan::Stored;
use crate::operator::stream::options::Stats;
use crate::poll::sort_by_key;
use crate::slice::{Delta, Store, copied};
use arrow_array::ArrayRef;

/// What determines how a partial is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// Whether rows of one time must be folded in order of arrival.
    pub(super) ordered: bool,
    /// Whether rows may otherwise be folded in any order.
    pub(super) commutative: bool,
}

impl Kind {
    pub(super) fn of(stored: &Stored, partials: &dyn Partials) -> Self {
        use Partial::{
            ArgMax, ArgMin, Count, CountAll, First, FirstValid, HyperLogLog, Last, LastValid, List, LogSum,
            Max, MaxCount, Min, MinCount, Moments, Rows, Sketch, Sum, Term, User, Values,
        };
        let commutative = partials.properties().commutative;
        // Every partial is named: one that was left out would have its ties in any order.
        let ordered = match stored.partial {
            First | Last | FirstValid | LastValid | ArgMin | ArgMax | List | Rows(_) => true,
            User(_) => !commutative,
            CountAll | Count | Sum | LogSum | Moments | Term(_) => false,
            Min | Max | MinCount | MaxCount | Values | Sketch | HyperLogLog(_) => false,
        };
        Self { ordered, commutative }
    }
}

/// The changes a call makes to slices: their partials, and how many were split, merged or recomputed.
#[derive(Default)]
pub(in crate::operator::stream) struct Changed {
    pub(in crate::operator::stream) delta: Delta,
    pub(in crate::operator::stream) did: Stats,
}

impl Tuples {
    /// The partials of changed slices. O(rows added and removed), and O(rows of a slice) where partials cannot be
    /// updated.
    pub(super) fn derive(
        &self,
        stored: &[Stored],
        slots: &Store,
        work: &Work,
        fresh: &Fresh,
    ) -> Result<Changed> {
        let keys = &self.keys;
        let changes = &work.changes;
        let mut pace = Pace::new();
        let added = |change: &Change| -> Result<Vec<(u64, i64)>> {
            pace.check(8 + change.added.len())?;
            let tuples = &keys[change.key as usize];
            Ok(change.added.iter().map(|&place| (tuples.ats[place], tuples.times[place])).collect())
        };
        let added = changes.iter().map(added).collect::<Result<Vec<Vec<(u64, i64)>>>>()?;
        // New slices with rows from other slices.
        let mut recomputed: Vec<bool> =
            changes.iter().map(|change| change.bases.is_empty() && !change.chained && change.known).collect();
        let mut derived = Vec::with_capacity(stored.len());
        for (which, ((stored, own), kind)) in stored.iter().zip(slots.partials()).zip(&self.kinds).enumerate()
        {
            check()?;
            let column = Stretch { which, stored, like: own.as_ref(), kind, slots, rows: &self.store };
            let mut all = match changes.is_empty() {
                true => own.empty(),
                false => self.mended(column, changes, &added, keys, &mut recomputed)?,
            };
            if !work.groups.is_empty() {
                let grouped = grouped(column, work, fresh)?;
                if changes.is_empty() {
                    all = grouped;
                } else {
                    // In the order of their slots.
                    all.append(grouped);
                    let of_call = work.of_changes.iter().chain(work.groups.iter().map(|(slot, _)| slot));
                    let mut places = vec![0; work.slots()];
                    of_call.zip(0..).for_each(|(&slot, place)| places[slot as usize] = place);
                    all = copied(all.as_ref(), &places)?;
                }
            }
            derived.push(all);
        }
        let rows = changes.iter().map(|change| change.hi - change.lo).sum::<usize>() + work.grouped;
        let mut delta = Delta::of(derived, work.slots(), rows);
        delta.settle()?;
        let recomputations = recomputed.into_iter().filter(|&recomputed| recomputed).count() as u64;
        Ok(Changed { delta, did: Stats { recomputations, ..work.did } })
    }

    /// One partial of changed slices, a slot each; says which of them were recomputed.
    fn mended(
        &self,
        column: Stretch<'_>,
        changes: &[Change],
        added: &[Vec<(u64, i64)>],
        keys: &[KeyTuples],
        recomputed: &mut [bool],
    ) -> Result<Box<dyn Partials>> {
        let kind = column.kind;
        let whole = |change: &Change| -> Vec<(u64, i64)> {
            let tuples = &keys[change.key as usize];
            (change.lo..change.hi).map(|place| (tuples.ats[place], tuples.times[place])).collect()
        };
        let mends = |change: &Change| {
            let in_order = !kind.ordered || !change.refolds;
            !change.bases.is_empty() && in_order && (kind.commutative || change.appended)
        };
        // The slices that keep their partials, less the rows they lost.
        let mended: Vec<usize> = (0..changes.len()).filter(|&at| mends(&changes[at])).collect();
        let mut kept = merged(column, mended.iter().map(|&at| &changes[at].bases[..]))?;
        // A step a change, each of which is anywhere in memory.
        let mut pace = Pace::new();
        pace.check(changes.len())?;
        // The slot of each change among them, if it is in fact updated and not recomputed.
        let mut place: Vec<Option<u32>> = vec![None; changes.len()];
        mended.iter().zip(0..).for_each(|(&at, slot)| place[at] = Some(slot));
        let losing: Vec<usize> = mended.into_iter().filter(|&at| !changes[at].removed.is_empty()).collect();
        if !losing.is_empty() {
            let lost: Vec<&[(u64, i64)]> = losing.iter().map(|&at| &changes[at].removed[..]).collect();
            let lost = fold(column, &lost)?;
            pace.check(losing.len())?;
            let slots: Vec<u32> = losing.iter().filter_map(|&at| place[at]).collect();
            let left: Vec<bool> = losing
                .iter()
                .map(|&at| column.is_left(&changes[at], &keys[changes[at].key as usize]))
                .collect();
            let done = kept.take_out(&slots, lost.as_ref(), &left)?;
            for (&at, _) in losing.iter().zip(done).filter(|(_, done)| !done) {
                place[at] = None;
            }
        }
        let is_anew = |at: usize| !changes[at].bases.is_empty() && place[at].is_none();
        recomputed.iter_mut().enumerate().for_each(|(at, recomputed)| *recomputed |= is_anew(at));
        let whole: Vec<Vec<(u64, i64)>> =
            (0..changes.len()).map(|at| if is_anew(at) { whole(&changes[at]) } else { Vec::new() }).collect();
        pace.check(changes.len())?;
        let rows: Vec<&[(u64, i64)]> =
            (0..changes.len()).map(|at| if is_anew(at) { &whole[at][..] } else { &added[at] }).collect();
        let filled: Vec<&[(u64, i64)]> = rows.iter().copied().filter(|rows| !rows.is_empty()).collect();
        // One slot for each change that keeps something, followed by those of rows.
        let slots: Vec<u32> = place.iter().copied().flatten().collect();
        let mut both = copied(kept.as_ref(), &slots)?;
        let kept_slots = slots.len() as u32;
        if !filled.is_empty() {
            both.append(fold(column, &filled)?);
        }
        let (mut slots, mut groups) = (Vec::new(), Vec::new());
        let (mut next_kept, mut next_fresh) = (0..kept_slots, kept_slots..kept_slots + changes.len() as u32);
        for (place, rows) in place.iter().zip(&rows) {
            groups.push(slots.len() as u32);
            slots.extend(place.and_then(|_| next_kept.next()));
            slots.extend((!rows.is_empty()).then(|| next_fresh.next()).flatten());
        }
        pace.check(slots.len())?;
        let both = both.regroup(&slots, &groups)?;
        pace.check(slots.len())?;
        let times: Vec<i64> =
            changes.iter().zip(added).map(|(change, added)| first_time(change, added, keys)).collect();
        reduced(both, kind, &times)
    }
}

/// The time of the first row of a change's slot.
fn first_time(change: &Change, added: &[(u64, i64)], keys: &[KeyTuples]) -> i64 {
    let of_rows = added.first().filter(|_| change.chained).map(|&(_, time)| time);
    of_rows.unwrap_or(keys[change.key as usize].times[change.lo])
}

/// A column of partials, and the rows it is over.
#[derive(Clone, Copy)]
pub(super) struct Stretch<'a> {
    pub(super) which: usize,
    pub(super) stored: &'a Stored,
    pub(super) like: &'a dyn Partials,
    pub(super) kind: &'a Kind,
    pub(super) slots: &'a Store,
    pub(super) rows: &'a TupleStore,
}

impl Stretch<'_> {
    /// What it reads, of columns as `read` reads them.
    fn input(&self, read: impl Fn(usize) -> Result<ArrayRef>) -> Result<Input> {
        self.stored.input(read)
    }
}

impl Stretch<'_> {
    /// Whether some row that a slice takes over has a value. Usually the first one does.
    fn is_left(&self, change: &Change, tuples: &KeyTuples) -> bool {
        let mut added = change.added.iter().peekable();
        let mut taken = (change.lo..change.hi).filter(|place| added.next_if_eq(&place).is_none());
        taken.any(|place| self.rows.has_values(self.stored, tuples.ats[place]))
    }
}

/// A column with a slot for each group of slots, combined in their order.
fn merged<'a>(column: Stretch<'_>, groups: impl Iterator<Item = &'a [u32]>) -> Result<Box<dyn Partials>> {
    let (mut slots, mut firsts) = (Vec::new(), Vec::new());
    for group in groups {
        firsts.push(slots.len() as u32);
        slots.extend_from_slice(group);
    }
    column.slots.merged(column.which, column.like, &slots, &firsts)
}

/// A column with a slot for each of these lists of rows, none of which is empty.
pub(super) fn fold(column: Stretch<'_>, rows: &[&[(u64, i64)]]) -> Result<Box<dyn Partials>> {
    let mut partials = column.like.empty();
    let each = || rows.iter().flat_map(|rows| rows.iter());
    let ats: Vec<u64> = each().map(|&(at, _)| at).collect();
    let times: Vec<i64> = each().map(|&(_, time)| time).collect();
    let of_slot = |(slot, rows): (usize, &&[(u64, i64)])| std::iter::repeat_n(slot as u32, rows.len());
    let slots: Vec<u32> = rows.iter().enumerate().flat_map(of_slot).collect();
    // Slots ascend and have no gaps, so that some rows have all slots up to that of the last of them.
    let chunks = slots.chunks(STEPS).zip(ats.chunks(STEPS)).zip(times.chunks(STEPS));
    for (place, ((slots, ats), times)) in chunks.enumerate() {
        if place > 0 {
            check()?;
        }
        let input = column.input(|position| column.rows.column(position, ats))?;
        input.feed(&mut *partials, Rows::all(slots, times), slots[slots.len() - 1] as usize + 1)?;
    }
    Ok(partials)
}

/// A column with a slot for each group of a call's rows, which are folded in order of arrival.
fn grouped(column: Stretch<'_>, work: &Work, fresh: &Fresh) -> Result<Box<dyn Partials>> {
    let (store, groups) = (column.rows, work.groups.len());
    let mut partials = column.like.empty();
    if work.grouped == fresh.len() && fresh.is_of_call() {
        let input = column.input(|position| store.stretch(position, fresh.base, fresh.len()))?;
        let by_runs = input.taken.is_none() && !work.runs.is_empty();
        if !by_runs || !partials.update_runs(&input.columns, &work.runs, groups)? {
            input.feed(&mut *partials, Rows::all(&work.group_of, &fresh.times), groups)?;
        }
    } else {
        let mut rows: Vec<usize> = (0..fresh.len()).filter(|&row| work.group_of[row] != NONE).collect();
        if !fresh.is_of_call() {
            sort_by_key(&mut rows, |&row| fresh.at(row), check)?;
        }
        let ats: Vec<u64> = rows.iter().map(|&row| fresh.at(row)).collect();
        let slots: Vec<u32> = rows.iter().map(|&row| work.group_of[row]).collect();
        let times: Vec<i64> = rows.iter().map(|&row| fresh.times[row]).collect();
        let input = column.input(|position| store.column(position, &ats))?;
        input.feed(&mut *partials, Rows::all(&slots, &times), groups)?;
    }
    let times: Vec<i64> = work.groups.iter().map(|&(_, first)| first).collect();
    reduced(partials, column.kind, &times)
}

/// Merges the slots of functions that do not commute into one state each, as their parts will not be separated again.
/// `times` are those of their first rows.
fn reduced(partials: Box<dyn Partials>, kind: &Kind, times: &[i64]) -> Result<Box<dyn Partials>> {
    if kind.commutative {
        return Ok(partials);
    }
    let states = partials.state()?;
    let slots: Vec<u32> = (0..times.len() as u32).collect();
    let mut reduced = partials.empty();
    reduced.merge(&states, Rows { slots: &slots, times, sparse: true }, times.len())?;
    Ok(reduced)
}
