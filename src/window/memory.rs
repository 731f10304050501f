//! What is remembered from call to call of one key's windows of one type, where rows determine their edges.

use serde::{Deserialize, Serialize};

use super::numbered::Emitted;
use super::observed::Observed;
use super::view::{View, place_from};

/// A window that is a run of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Place of its first row.
    pub lo: usize,
    /// Place after its last row.
    pub hi: usize,
    /// Start and end on the measure.
    pub extent: (i64, i64),
    /// The watermark from which on no row in order can change it; `None` as long as that is not known.
    pub final_at: Option<i64>,
}

/// How far a key's rows were looked at, and the windows among them that wait to be final. It saves looking at them again,
/// and nothing else: where it is missing, rows are.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    /// Time and arrival number of the last row.
    last: Option<(i64, u64)>,
    /// The windows, and the arrival numbers of their first rows.
    waiting: Vec<(Run, u64)>,
}

impl Scanned {
    /// These windows wait, and all rows were looked at.
    pub fn of(view: &View<'_>, waiting: impl Iterator<Item = Run>) -> Self {
        let last = view.times.last().copied().zip(view.ats.last().copied());
        Self { last, waiting: waiting.map(|run| (run, view.ats[run.lo])).collect() }
    }

    /// The windows that wait, and the first row that was not looked at, if all rows since follow those that were. First rows
    /// may have been dropped.
    pub fn waiting(&self, view: &View<'_>) -> Option<(usize, Vec<Run>)> {
        let (time, at) = self.last?;
        let last = place_from(view.times, view.ats, (time, at));
        let now = |(run, at): &(Run, u64)| {
            let lo = place_from(view.times, view.ats, (run.extent.0, *at));
            let is_there = view.times.get(lo) == Some(&run.extent.0) && view.ats[lo] == *at;
            is_there.then(|| Run { lo, hi: lo + run.hi - run.lo, ..*run })
        };
        let is_known = view.times.get(last) == Some(&time) && view.ats[last] == at;
        let waiting = is_known.then(|| self.waiting.iter().map(now).collect::<Option<_>>()).flatten()?;
        Some((last + 1, waiting))
    }
}

/// Greatest number of a window: counting on from there cannot overflow.
const MOST: i64 = 1 << 62;

/// What is remembered of the numbered windows of one type and one key.
#[derive(Debug, Default)]
pub struct Memory {
    /// The number of the next window.
    pub next: i64,
    /// Time and arrival number of the first row that is in no forgotten window.
    pub from: Option<(i64, u64)>,
    /// Emitted windows, ascending.
    pub emitted: Vec<Emitted>,
    /// What need not be looked at again.
    pub scanned: Scanned,
    /// The rows shown to a user-defined window, and its windows.
    pub observed: Option<Box<Observed>>,
}

/// What must be kept of the windows of a type: before a call, to undo it, and in snapshots.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    next: i64,
    from: Option<(i64, u64)>,
    emitted: Vec<Emitted>,
}

impl Kept {
    /// The arrival numbers that are kept.
    pub fn arrivals(&self) -> impl Iterator<Item = u64> {
        let emitted = self.emitted.iter().flat_map(|emitted| [emitted.first, emitted.last]);
        self.from.iter().map(|&(_, at)| at).chain(emitted)
    }
}

impl From<Kept> for Memory {
    fn from(Kept { next, from, emitted }: Kept) -> Self {
        Self { next, from, emitted, ..Self::default() }
    }
}

impl Memory {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.next == 0 && self.from.is_none() && self.emitted.is_empty() && self.observed.is_none()
    }

    /// What is remembered, to go on with apart from it. A user's own window is shown all rows again.
    pub fn copied(&self) -> Self {
        let (emitted, scanned) = (self.emitted.clone(), self.scanned.clone());
        let observed = self.observed.as_ref().map(|observed| Box::new(observed.unshown()));
        Self { next: self.next, from: self.from, emitted, scanned, observed }
    }

    /// Saves what is remembered, for [`Memory::take_back`].
    pub fn save(&mut self) -> Kept {
        if let Some(observed) = &mut self.observed {
            observed.begin();
        }
        Kept { next: self.next, from: self.from, emitted: self.emitted.clone() }
    }

    /// Restores what was remembered before a call.
    pub fn take_back(&mut self, saved: Kept) {
        (self.next, self.from, self.emitted) = (saved.next, saved.from, saved.emitted);
        self.scanned = Scanned::default();
        if let Some(observed) = &mut self.observed {
            observed.take_back();
        }
    }

    /// Bytes held, except by users' own objects.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.emitted.capacity() * size_of::<Emitted>()
            + self.scanned.waiting.capacity() * size_of::<(Run, u64)>()
            + self.observed.as_ref().map_or(0, |observed| observed.bytes())
    }

    /// What must be kept, for snapshots, in which rows have other arrival numbers.
    pub fn kept(&self, number: impl Fn(u64) -> u64) -> Kept {
        let mut emitted: Vec<Emitted> = self.all_emitted().copied().collect();
        emitted.iter_mut().for_each(|emitted| emitted.renumber(&number));
        Kept { next: self.next, from: self.from.map(|(time, at)| (time, number(at))), emitted }
    }

    /// All emitted windows that may still change.
    pub fn all_emitted(&self) -> impl Iterator<Item = &Emitted> {
        self.emitted.iter().chain(self.observed.iter().flat_map(|observed| observed.emitted()))
    }

    /// Renumbers the arrivals of rows.
    pub fn renumber(&mut self, number: impl Fn(u64) -> u64) {
        let observed = self.observed.iter_mut().flat_map(|observed| observed.emitted_mut());
        self.emitted.iter_mut().chain(observed).for_each(|emitted| emitted.renumber(&number));
        self.from.iter_mut().for_each(|from| from.1 = number(from.1));
        self.scanned = Scanned::default();
    }

    /// The place of the first row that is in no forgotten window.
    pub fn first(&self, view: &View<'_>) -> usize {
        self.from.map_or(0, |from| view.place_from(from))
    }

    /// Records that rows before this place are in no window that is still listed.
    pub fn settle(&mut self, view: &View<'_>, place: usize) {
        let settled = place.checked_sub(1).map(|last| (view.times[last], view.ats[last] + 1));
        self.from = self.from.max(settled);
        let from = self.from;
        self.emitted.retain(|emitted| from.is_none_or(|from| (emitted.time, emitted.first) >= from));
    }

    /// Whether its numbers are valid.
    pub fn has_numbers(&self) -> bool {
        (0..=MOST).contains(&self.next)
            && self.all_emitted().all(|emitted| (0..self.next).contains(&emitted.number))
            && self.emitted.is_sorted_by(|a, b| (a.time, a.first) < (b.time, b.first))
    }
}
