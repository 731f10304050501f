//! What a call has changed, from its undo log, and how it is rolled back.

use super::{NONE, Slice, Timelines};

/// Changed slices of a key: single ones, and all from one place on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dirty {
    /// The key.
    pub key: u32,
    /// Places of single slices.
    pub places: Vec<usize>,
    /// The place from which on slices have changed.
    pub from: usize,
}

/// An entry of the undo log.
pub(super) enum Change {
    Added {
        key: u32,
        place: usize,
    },
    Widened {
        key: u32,
        place: usize,
        old: Slice,
    },
    Removed {
        key: u32,
        place: usize,
        old: Slice,
    },
    /// All slices from `at` on were replaced.
    Replaced {
        key: u32,
        place: usize,
        old: Vec<Slice>,
    },
}

impl Change {
    /// The key, and the first slice that changed.
    pub(super) fn place(&self) -> (u32, usize) {
        match *self {
            Change::Added { key, place }
            | Change::Widened { key, place, .. }
            | Change::Removed { key, place, .. }
            | Change::Replaced { key, place, .. } => (key, place),
        }
    }
}

impl Timelines {
    /// The changes that [`Timelines::add`] made since slices were settled, key by key: which slices have other rows,
    /// and the place from which on slices have changed.
    pub(in crate::slice) fn dirty(&self) -> Vec<Dirty> {
        let mut dirty: Vec<Dirty> = Vec::new();
        for change in self.undo.iter() {
            let ((key, place), is_widened) = (change.place(), matches!(change, Change::Widened { .. }));
            let known = match dirty.last_mut() {
                Some(last) if last.key == key => last,
                _ => {
                    dirty.push(Dirty { key, places: Vec::new(), from: usize::MAX });
                    dirty.last_mut().expect("one was added")
                }
            };
            // A slice added at the end, as most are, leaves all earlier ones unchanged.
            known.from = known.from.min(if is_widened { usize::MAX } else { place });
            known.places.push(place);
        }
        dirty
    }

    /// Where the slots went that were added since slices were settled, one by one, if all came after the existing
    /// slices: the key, the number of slices it ever had before the slot's, whether that slice is new, and which of these
    /// slots it is.
    pub(in crate::slice) fn appended(&self) -> impl Iterator<Item = (u32, u64, bool, u32)> + '_ {
        self.undo.iter().map(|change| {
            let (key, place) = change.place();
            let timeline = &self.keys[key as usize];
            let number = timeline.gone() + place as u64;
            let (is_new, slot) = match change {
                // It was put after the slots that the slice had.
                Change::Widened { old, .. } => (false, self.next[old.chain.1 as usize]),
                _ => (true, timeline.get(place).chain.0),
            };
            (key, number, is_new, slot - self.settled as u32)
        })
    }

    /// Keys with slices that were changed since slices were settled, possibly with duplicates.
    pub fn changed_keys(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.undo.iter().map(|change| change.place().0)
    }

    /// Commits the changes since the last commit.
    pub fn settle(&mut self) {
        self.undo.clear();
        self.settled = self.next.len();
    }

    /// Rolls back the changes since the last [`Timelines::settle`].
    pub fn take_back(&mut self) {
        while let Some(change) = self.undo.pop() {
            self.open_only(change.place().0);
            match change {
                Change::Added { key, place } => {
                    let timeline = &mut self.keys[key as usize];
                    match self.has_los {
                        true => timeline.truncate(place),
                        false => drop(timeline.remove(place)),
                    }
                    self.slices -= 1;
                }
                Change::Widened { key, place, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].set(place, old);
                }
                Change::Removed { key, place, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].insert(place, old);
                    self.slices += 1;
                    self.merges -= 1;
                }
                Change::Replaced { key, place, old } => {
                    let timeline = &mut self.keys[key as usize];
                    timeline.close();
                    self.slices -= timeline.len() - place;
                    self.slices += old.len();
                    timeline.truncate(place);
                    for slice in old {
                        self.next[slice.chain.1 as usize] = NONE;
                        timeline.push(slice, self.has_los);
                    }
                }
            }
        }
        self.close();
        self.next.truncate(self.settled);
    }
}
