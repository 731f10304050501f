//! Keeps the slices of a key as few as possible while rows arrive: split, merge, shift and update (Traub et al. 2019,
//! §5.2).
//!
//! The rows and the final windows determine where slices are cut. After a call the cuts are recomputed from the first
//! change on, and the old slices are fitted to them. A slice passes its partials on to the new slice that has most of
//! its rows: the rows that slice does not have are taken out of them, additional rows are put in, and a slice whose
//! rows are unchanged is left alone. So one row among windows of a hundred rows moves one row from slice to slice (Fig.
//! 6), and a mark splits one slice.

use std::ops::Range;

use super::Tuples;
use super::rows::KeyTuples;
use super::work::{Change, Work};
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::stream::options::Stats;
use crate::operator::stream::queries::Queries;
use crate::slice::{Slice, Timelines};
use crate::window::{Call, New, RowCuts, gallop};

/// A slice is cut here because a number of rows is reached: rows inserted earlier move the cut.
const BY_RANK: u8 = 1;

/// A slice is cut here by time, by a mark, or where a final window begins or ends.
const BY_EDGE: u8 = 2;

/// Rows of an old slice that lie in one new slice: those at places `lo..hi` that are not new.
#[derive(Debug, Clone, Copy)]
struct Piece {
    new: usize,
    lo: usize,
    hi: usize,
    rows: usize,
}

/// Slots that a slice may have before those of rows inserted among others are merged.
const CHAIN: usize = 8;

impl Tuples {
    /// Where slices begin at these places, ascending, and why. `edges` are those of final windows. O(cuts) and little work
    /// per cut, but O(rows) for marks and gaps.
    pub(super) fn cuts(
        &self,
        queries: &Queries,
        key: u32,
        tuples: &KeyTuples,
        Range { start: from, end: len }: Range<usize>,
        edges: &[usize],
    ) -> Vec<(usize, u8)> {
        let times = &tuples.times;
        let mut cuts: Vec<(usize, u8)> = Vec::new();
        if from == len {
            return cuts;
        }
        let mut by_edge = |place: usize| {
            if (from..len).contains(&place) {
                cuts.push((place, BY_EDGE));
            }
        };
        let slice_of = |place: usize| queries.edges().slice_of(times[place]);
        by_edge(0);
        let (mut place, mut end) = (from.max(1), slice_of(from.saturating_sub(1)).1);
        while place < len {
            if times[place] < end {
                place += gallop(&times[place..], |&time| time < end);
                continue;
            }
            by_edge(place);
            end = slice_of(place).1;
            place += 1;
        }
        if let Some(gap) = queries.edges().gap().filter(|&gap| gap < i64::MAX) {
            let apart = |&place: &usize| times[place].saturating_sub(times[place - 1]) > gap;
            (from.max(1)..len).filter(apart).for_each(&mut by_edge);
        }
        edges.iter().copied().for_each(&mut by_edge);
        let mut by_rank = Vec::new();
        for (query, registered) in queries.registered().iter().enumerate() {
            let offset = tuples.first_of(registered.since);
            by_edge(offset);
            let view = self.view(tuples, (key, query, offset), New::From(len), true, Call::default());
            let view = view.upto_place(len.saturating_sub(offset));
            let mut own = RowCuts::default();
            for window in registered.plan.windows().iter().filter_map(|(_, window)| window.by_rows()) {
                window.cut(&view, from.saturating_sub(offset), &mut own);
            }
            own.by_edge.into_iter().for_each(|place| by_edge(offset + place));
            by_rank.extend(own.by_rank.into_iter().map(|place| (offset + place, BY_RANK)));
        }
        cuts.extend(by_rank.into_iter().filter(|&(place, _)| place >= from));
        cuts.sort_unstable();
        cuts.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 |= if is_same { later.1 } else { 0 };
            is_same
        });
        cuts
    }

    /// Fits a key's slices to its rows, from place `from` on. `tuples` has the call's rows, at the places `new`. `edges`
    /// are those of final windows, from there on. The resulting changes are added to the work.
    ///
    /// If slices are cut by neighbouring rows, and rows were `inserted` at some places, which ascend, all other slices stay as
    /// they are.
    pub(super) fn fit(
        &self,
        (queries, slices): (&Queries, &mut Timelines),
        key: u32,
        tuples: &KeyTuples,
        (from, new, inserted): (usize, New<'_>, &[usize]),
        mut edges: Vec<usize>,
        work: &mut Work,
    ) -> Result<()> {
        if tuples.len() == 0 {
            return Ok(());
        }
        let patches = match inserted {
            [] => vec![Patch::from_place(from, slices.los(key), tuples.len())],
            _ => Patch::around(inserted, slices.los(key), &tuples.times),
        };
        edges.sort_unstable();
        let first = patches[0].slices.start;
        let mut old = slices.split_off(key, first).into_iter();
        // The first of those that are left, and how many rows were inserted before it.
        let (mut next, mut shift) = (first, 0);
        for Patch { slices: range, rows, from, shift: shift_behind } in patches {
            for slice in old.by_ref().take(range.start - next) {
                slices.push(key, slice.at(slice.lo + shift as u32));
            }
            let own = old.by_ref().take(range.len()).collect();
            (next, shift) = (range.end, shift_behind);
            let within = |place: &usize| rows.contains(place);
            let edges = &edges[edges.partition_point(|&edge| edge < rows.start)..];
            let edges = &edges[..edges.iter().take_while(|&edge| within(edge)).count()];
            let cuts = self.cuts(queries, key, tuples, from..rows.end, edges);
            let fit = Fit::of(own, &cuts, (rows.start, from..rows.end, new))?;
            fit.count(&mut work.did);
            let at = slices.of(key).len();
            self.refill((key, tuples), slices, &fit, work)?;
            slices.retime(key, at, &tuples.times[..rows.end]);
        }
        old.for_each(|slice| slices.push(key, slice.at(slice.lo + shift as u32)));
        Ok(())
    }

    /// Puts new slices in place of old ones.
    fn refill(
        &self,
        (key, tuples): (u32, &KeyTuples),
        slices: &mut Timelines,
        fit: &Fit<'_>,
        work: &mut Work,
    ) -> Result<()> {
        let mut refolded = None;
        let mut pace = Pace::new();
        for new in 0..fit.starts.len() {
            let mut change = fit.change((key, tuples, slices), new, &mut refolded);
            pace.check(8 + 4 * (change.hi - change.lo))?;
            let lo = change.lo as u32;
            let kept = match fit.bases[new][..] {
                [only] if change.removed.is_empty() && !(change.refolds && self.is_ordered()) => {
                    Some(fit.old[only].at(lo))
                }
                _ => None,
            };
            let slice = match kept {
                Some(kept) if change.added.is_empty() => kept,
                Some(kept)
                    if slices.chain(&kept).count() < CHAIN
                        && !change.folds_again
                        && (change.appended || self.commutes()) =>
                {
                    change.bases.clear();
                    change.chained = true;
                    let slot = work.change(slices.open(), change);
                    slices.linked(kept, slot)
                }
                _ => Slice::new(lo, work.change(slices.open(), change)),
            };
            slices.push(key, slice);
        }
        Ok(())
    }
}

/// Slices that follow each other, and are to be cut anew.
struct Patch {
    slices: Range<usize>,
    /// Where they begin, and where the first slice behind them does, or all rows end.
    rows: Range<usize>,
    /// All rows before this place are in the first of them.
    from: usize,
    /// How many rows were inserted before those behind them.
    shift: usize,
}

impl Patch {
    /// All slices from a place on; those of a key begin at `los`.
    fn from_place(from: usize, los: &[u32], end: usize) -> Self {
        // The slice that contains or precedes the first change: a row inserted before a slice may belong to the one before.
        let first = los.partition_point(|&lo| (lo as usize) < from).saturating_sub(1);
        let start = los.get(first).map_or(0, |&lo| lo as usize);
        Self { slices: first..los.len(), rows: start..end, from: from.max(start), shift: 0 }
    }

    /// The slices that rows inserted at these places are in or next to; `times` are those of all rows.
    fn around(inserted: &[usize], los: &[u32], times: &[i64]) -> Vec<Self> {
        let (mut patches, mut at) = (Vec::<Self>::new(), 0);
        while let Some(&from) = inserted.get(at) {
            let first = Self::from_place(from - at, los, times.len()).slices.start;
            let start = los.get(first).map_or(0, |&lo| lo as usize + at);
            let mut behind = first + 1;
            let end = loop {
                at += 1;
                let last = inserted[at - 1];
                // Whether a slice begins at a row depends on it and on two rows before; those of one time are folded in order.
                let is_behind = |lo: usize| last + 2 < lo && times[lo - 1] < times[lo];
                while los.get(behind).is_some_and(|&lo| !is_behind(lo as usize + at)) {
                    behind += 1;
                }
                let end = los.get(behind).map_or(times.len(), |&lo| lo as usize + at);
                if inserted.get(at).is_none_or(|&next| next > end) {
                    break end;
                }
            };
            let (slices, from) = (first..behind.min(los.len()).max(first), from.max(start));
            patches.push(Self { slices, rows: start..end, from, shift: at });
        }
        patches
    }
}

/// How the rows of old slices are distributed over new slices.
struct Fit<'a> {
    old: Vec<Slice>,
    /// Places where new slices begin, and why.
    starts: Vec<usize>,
    why: Vec<u8>,
    /// All rows from the start of the first new slice up to this place belong to the first old slice.
    from: usize,
    /// The place after the last new slice.
    end: usize,
    /// The places of new rows.
    rows: New<'a>,
    /// Rows of each old slice, new slice by new slice.
    pieces: Vec<Vec<Piece>>,
    /// The new slice that takes over each old one's partials: the one with most of its rows.
    heirs: Vec<Option<usize>>,
    /// The old slices whose partials each new slice takes over.
    bases: Vec<Vec<usize>>,
}

impl<'a> Fit<'a> {
    /// `cuts` say where slices begin between `from` and `end`, and why; before that there is only the one that begins at
    /// `start`.
    fn of(
        old: Vec<Slice>,
        cuts: &[(usize, u8)],
        (start, Range { start: from, end }, rows): (usize, Range<usize>, New<'a>),
    ) -> Result<Self> {
        let cuts = cuts.iter().copied().filter(|&(place, _)| place > start);
        let (starts, why) = std::iter::once((start, BY_EDGE)).chain(cuts).unzip();
        let mut fit = Self {
            pieces: old.iter().map(|_| Vec::new()).collect(),
            old,
            starts,
            why,
            from,
            end,
            rows,
            heirs: Vec::new(),
            bases: Vec::new(),
        };
        fit.part(start)?;
        fit.bases = fit.starts.iter().map(|_| Vec::new()).collect();
        for (slice, pieces) in fit.pieces.iter().enumerate() {
            let all: usize = pieces.iter().map(|piece| piece.rows).sum();
            let heir = pieces.iter().find(|piece| 2 * piece.rows > all).map(|piece| piece.new);
            fit.heirs.push(heir);
            if let Some(heir) = heir {
                fit.bases[heir].push(slice);
            }
        }
        Ok(fit)
    }

    /// Finds the pieces of old slices.
    fn part(&mut self, start: usize) -> Result<()> {
        if self.old.is_empty() {
            return Ok(());
        }
        let size = |slice: usize| {
            let next = self.old.get(slice + 1);
            next.map_or(usize::MAX, |next| (next.lo - self.old[slice].lo) as usize)
        };
        let (mut slice, mut left, mut new) = (0, size(0), 0);
        let before = self.from - start;
        if before > 0 {
            left -= before;
            self.pieces[0].push(Piece { new, lo: start, hi: self.from, rows: before });
        }
        let mut pace = Pace::new();
        for place in self.from..self.end {
            pace.check(1)?;
            while place >= self.starts.get(new + 1).copied().unwrap_or(self.end) {
                new += 1;
            }
            if self.rows.has(place) {
                continue;
            }
            while left == 0 {
                slice += 1;
                left = size(slice);
            }
            left -= 1;
            match self.pieces[slice].last_mut() {
                Some(piece) if piece.new == new => (piece.hi, piece.rows) = (place + 1, piece.rows + 1),
                _ => self.pieces[slice].push(Piece { new, lo: place, hi: place + 1, rows: 1 }),
            }
        }
        Ok(())
    }

    /// Counts what happened.
    fn count(&self, did: &mut Stats) {
        did.merges += self.bases.iter().map(|bases| bases.len().saturating_sub(1) as u64).sum::<u64>();
        for (pieces, heir) in self.pieces.iter().zip(&self.heirs) {
            for pair in pieces.windows(2) {
                if self.why[pair[1].new] & BY_EDGE != 0 {
                    did.splits += 1;
                    continue;
                }
                let moved = if *heir == Some(pair[1].new) { pair[0] } else { pair[1] };
                did.shifts += moved.rows as u64;
            }
        }
    }

    /// The change for a new slice. `refolded` is the time of the last row before it that is folded again.
    fn change(
        &self,
        (key, tuples, slices): (u32, &KeyTuples, &Timelines),
        new: usize,
        refolded: &mut Option<i64>,
    ) -> Change {
        let lo = self.starts[new];
        let hi = self.starts.get(new + 1).copied().unwrap_or(self.end);
        let is_new = |place: &usize| self.rows.has(*place);
        let mut change = Change { key, lo, hi, ..Change::default() };
        // Rows before `body` belong to the first old slice.
        let body = self.from.clamp(lo, hi);
        let keeps = self.bases[new].contains(&0);
        let (mut taken, mut last_taken) = (vec![false; hi - body], body.saturating_sub(1).max(lo));
        for &slice in &self.bases[new] {
            change.bases.extend(slices.chain(&self.old[slice]));
            for piece in &self.pieces[slice] {
                if piece.new != new {
                    let lost = (piece.lo..piece.hi).filter(|place| !is_new(place));
                    change.removed.extend(lost.map(|place| (tuples.ats[place], tuples.times[place])));
                    continue;
                }
                for place in (piece.lo.max(body)..piece.hi).filter(|place| !is_new(place)) {
                    taken[place - body] = true;
                    last_taken = place;
                }
            }
        }
        let lost = if keeps { body } else { lo };
        change.added = (lost..hi).filter(|&place| place < body || !taken[place - body]).collect();
        change.known = lo < body || (body..hi).any(|place| !is_new(&place));
        change.appended =
            self.bases[new].is_empty() || change.added.first().is_none_or(|&at| at > last_taken);
        change.folds_again = change.added.iter().any(|place| !is_new(place));
        let follows = change.known && refolded.is_some_and(|time| time == tuples.times[lo]);
        change.refolds = !change.removed.is_empty() || change.folds_again || follows;
        if change.refolds {
            *refolded = Some(tuples.times[hi - 1]);
        }
        change
    }
}
