//! Windows whose edges are determined by rows, and which of them were emitted, so that an update finds what it
//! replaces.
//!
//! Windows by time are identified by start and end and windows by rows by their ranks, and so are their updates. A
//! window between marks has neither: a late mark cuts it in two, and several may have the same times. So each such
//! window gets a number when it is emitted, and keeps it.

use serde::{Deserialize, Serialize};

use std::collections::HashMap;
use std::hash::Hash;

use super::view::{Emission, Ready, View, place_from};

/// A numbered window that was emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emitted {
    /// Its number.
    pub number: i64,
    /// Time of its first row.
    pub time: i64,
    /// Arrival number of its first row.
    pub first: u64,
    /// Arrival number of its last row.
    pub last: u64,
    /// How many rows it has.
    pub rows: u32,
}

impl Emitted {
    /// The places `lo..hi` of its rows among these, if they are all there.
    pub fn places(&self, times: &[i64], ats: &[u64]) -> Option<(usize, usize)> {
        let lo = place_from(times, ats, (self.time, self.first));
        let hi = lo.checked_add(self.rows as usize).filter(|&hi| lo < hi && hi <= times.len())?;
        let is_there = (times[lo], ats[lo], ats[hi - 1]) == (self.time, self.first, self.last);
        is_there.then_some((lo, hi))
    }

    /// Renumbers the arrivals of its rows.
    pub fn renumber(&mut self, number: impl Fn(u64) -> u64) {
        (self.first, self.last) = (number(self.first), number(self.last));
    }
}

/// A numbered window that is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Final {
    /// Place of its first row.
    pub lo: usize,
    /// Place after its last row.
    pub hi: usize,
    /// Time of its first row.
    pub time: i64,
    /// Arrival number of its first row.
    pub first: u64,
    /// Arrival number of its last row.
    pub last: u64,
    /// Start and end on the measure.
    pub extent: (i64, i64),
}

impl Final {
    /// The window of rows `lo..hi`, whose extent is the times of its first and last row.
    pub fn of(view: &View<'_>, (lo, hi): (usize, usize)) -> Self {
        let (time, last) = (view.times[lo], view.times[hi - 1]);
        Self { lo, hi, time, first: view.ats[lo], last: view.ats[hi - 1], extent: (time, last) }
    }

    /// The window over these rows, with another extent.
    pub fn over(self, extent: (i64, i64)) -> Self {
        Self { extent, ..self }
    }

    /// This window as one that has been emitted.
    pub fn emitted(&self, number: i64) -> Emitted {
        let rows = (self.hi - self.lo) as u32;
        Emitted { number, time: self.time, first: self.first, last: self.last, rows }
    }
}

/// Compares final windows with those of `emitted`, lists those that differ for emission, and assigns each its
/// number, new ones from `next` on.
pub(super) fn compare(
    view: &View<'_>,
    emitted: &[Emitted],
    finals: &[Final],
    next: &mut i64,
    out: &mut Ready,
) -> Vec<(usize, i64)> {
    let is_within = |emitted: &Emitted, each: &Final| {
        let (first, last) = ((each.time, each.first), (view.times[each.hi - 1], each.last));
        first <= (emitted.time, emitted.first) && (emitted.time, emitted.first) <= last
    };
    let found = matched(emitted, finals, next, is_within);
    out.windows.extend(found.ready.into_iter().map(|(at, number, update)| {
        let Final { lo, hi, extent, .. } = finals[at];
        Emission { lo, hi, extent, number, update }
    }));
    let withdrawn = |number| Emission { lo: 0, hi: 0, extent: (0, 0), number, update: true };
    out.windows.extend(found.withdrawn.into_iter().map(withdrawn));
    found.emitted
}

/// How the windows emitted so far relate to the current ones.
#[derive(Debug, Default, PartialEq, Eq)]
struct Matched {
    /// Windows to emit: which of the final ones, its number, and whether it was emitted before.
    ready: Vec<(usize, i64, bool)>,
    /// Numbers of windows to withdraw.
    withdrawn: Vec<i64>,
    /// All current windows.
    emitted: Vec<(usize, i64)>,
}

/// Compares emitted windows with the current ones.
///
/// A window with the same rows was emitted already. Otherwise a window replaces the emitted one with the same first
/// row, or the same last row, or the first one whose first row it contains; an emitted window that none replaces is
/// withdrawn. `is_within` says whether a window contains the first row of an emitted one.
fn matched(
    emitted: &[Emitted],
    finals: &[Final],
    next: &mut i64,
    is_within: impl Fn(&Emitted, &Final) -> bool,
) -> Matched {
    let mut number: Vec<Option<(i64, bool)>> = vec![None; finals.len()];
    let rows = |each: &Final| (each.hi - each.lo) as u32;
    let mut left = paired(
        emitted.iter().collect(),
        &mut number,
        (
            |emitted: &Emitted| (emitted.first, emitted.last, emitted.rows),
            finals.iter().map(|each| (each.first, each.last, rows(each))),
        ),
        false,
    );
    left = paired(left, &mut number, (|old: &Emitted| old.first, finals.iter().map(|each| each.first)), true);
    left = paired(left, &mut number, (|old: &Emitted| old.last, finals.iter().map(|each| each.last)), true);
    left.retain(|emitted| {
        let free = (0..finals.len()).find(|&at| number[at].is_none() && is_within(emitted, &finals[at]));
        if let Some(at) = free {
            number[at] = Some((emitted.number, true));
        }
        free.is_none()
    });
    let withdrawn = left.iter().map(|emitted| emitted.number).collect();
    let mut matched = Matched { withdrawn, ..Matched::default() };
    for (at, number) in number.into_iter().enumerate() {
        let number = match number {
            Some((number, changed)) => {
                if changed {
                    matched.ready.push((at, number, true));
                }
                number
            }
            None => {
                *next += 1;
                matched.ready.push((at, *next - 1, false));
                *next - 1
            }
        };
        matched.emitted.push((at, number));
    }
    matched
}

/// Gives windows without a number that of the first emitted one with the same key; returns the remaining emitted
/// windows. O(n).
fn paired<'a, K: Eq + Hash>(
    mut emitted: Vec<&'a Emitted>,
    number: &mut [Option<(i64, bool)>],
    (key_of, keys): (impl Fn(&Emitted) -> K, impl DoubleEndedIterator<Item = K> + ExactSizeIterator),
    is_changed: bool,
) -> Vec<&'a Emitted> {
    if emitted.is_empty() {
        return emitted;
    }
    let mut free: HashMap<K, Vec<usize>> = HashMap::new();
    for (at, key) in keys.enumerate().rev().filter(|&(at, _)| number[at].is_none()) {
        free.entry(key).or_default().push(at);
    }
    emitted.retain(|emitted| match free.get_mut(&key_of(emitted)).and_then(Vec::pop) {
        Some(at) => {
            number[at] = Some((emitted.number, is_changed));
            false
        }
        None => true,
    });
    emitted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(number: i64, first: u64, last: u64, rows: u32) -> Emitted {
        Emitted { number, time: first as i64, first, last, rows }
    }

    fn window(first: u64, last: u64, rows: usize) -> Final {
        Final { lo: 0, hi: rows, time: first as i64, first, last, extent: (first as i64, last as i64) }
    }

    fn of(old: &[Emitted], finals: &[Final]) -> Matched {
        let within = |old: &Emitted, each: &Final| each.first <= old.first && old.first <= each.last;
        matched(old, finals, &mut 10, within)
    }

    #[test]
    fn a_window_of_the_same_rows_is_not_emitted_again() {
        assert!(of(&[emitted(3, 1, 5, 4)], &[window(1, 5, 4)]).ready.is_empty());
        assert_eq!(of(&[emitted(3, 1, 5, 4)], &[window(1, 5, 5)]).ready, [(0, 3, true)]);
    }

    #[test]
    fn of_a_window_cut_in_two_the_first_part_keeps_the_number() {
        let matched = of(&[emitted(3, 1, 5, 4)], &[window(1, 9, 2), window(4, 5, 3)]);
        assert_eq!(matched.ready, [(0, 3, true), (1, 10, false)]);
    }

    #[test]
    fn what_nothing_replaces_is_withdrawn() {
        let matched = of(&[emitted(3, 1, 5, 4), emitted(4, 6, 7, 2)], &[window(1, 7, 6)]);
        assert_eq!((matched.ready, matched.withdrawn), (vec![(0, 3, true)], vec![4]));
    }

    #[test]
    fn a_window_that_grew_at_both_ends_replaces_what_it_has() {
        assert_eq!(of(&[emitted(3, 4, 5, 2)], &[window(2, 8, 4)]).ready, [(0, 3, true)]);
    }
}
