//! What is remembered from call to call of one key's windows of one type, where rows determine their edges.

use super::numbered::Emitted;
use super::observed::Observed;
use super::view::View;

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
    /// The rows shown to a user-defined window, and its windows.
    pub observed: Option<Box<Observed>>,
}

/// What was remembered before a call.
#[derive(Debug)]
pub struct Saved {
    next: i64,
    from: Option<(i64, u64)>,
    emitted: Vec<Emitted>,
}

impl Memory {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.next == 0 && self.from.is_none() && self.emitted.is_empty() && self.observed.is_none()
    }

    /// Saves what is remembered, for [`Memory::take_back`].
    pub fn save(&mut self) -> Saved {
        if let Some(observed) = &mut self.observed {
            observed.begin();
        }
        Saved { next: self.next, from: self.from, emitted: self.emitted.clone() }
    }

    /// Restores what was remembered before a call.
    pub fn take_back(&mut self, saved: Saved) {
        (self.next, self.from, self.emitted) = (saved.next, saved.from, saved.emitted);
        if let Some(observed) = &mut self.observed {
            observed.take_back();
        }
    }

    /// Bytes held, except by users' own objects.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.emitted.capacity() * size_of::<Emitted>()
            + self.observed.as_ref().map_or(0, |observed| observed.bytes())
    }

    /// All emitted windows that may still change.
    pub fn all_emitted(&self) -> impl Iterator<Item = &Emitted> {
        self.emitted.iter().chain(self.observed.iter().flat_map(|observed| observed.emitted()))
    }

    /// The same, mutable.
    pub fn all_emitted_mut(&mut self) -> impl Iterator<Item = &mut Emitted> {
        self.emitted.iter_mut().chain(self.observed.iter_mut().flat_map(|observed| observed.emitted_mut()))
    }

    /// The place of the first row that is in no forgotten window.
    pub fn first(&self, view: &View<'_>) -> usize {
        self.from.map_or(0, |from| view.place_from(from))
    }

    /// Records that rows before this place are in no window that is still listed.
    pub fn settle(&mut self, view: &View<'_>, place: usize) {
        let at = place.checked_sub(1).map(|last| (view.times[last], view.ats[last] + 1));
        self.from = self.from.max(at);
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
