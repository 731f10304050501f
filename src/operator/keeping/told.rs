//! What was told of windows whose edges rows tell, so that an update finds what it replaces.
//!
//! Windows by time have a start and an end, windows by rows have ranks, and an update has the same. A window between marks
//! has neither: a late mark cuts it in two, and several may have the same times. So each such window gets a number when it
//! is handed out, and keeps it.

use std::collections::HashMap;
use std::hash::Hash;

use super::line::Line;

/// A window told by rows that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) query: usize,
    pub(super) window: usize,
    pub(super) number: i64,
    /// Time of its first row.
    pub(super) time: i64,
    /// Arrival number of its first row.
    pub(super) first: u64,
    /// Arrival number of its last row.
    pub(super) last: u64,
    pub(super) rows: u32,
}

/// A session that was handed out and that a late row opened again: handed out once more when it is over, as an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reopened {
    pub(super) query: usize,
    pub(super) window: usize,
    /// A time within it.
    pub(super) at: i64,
}

/// The windows told by rows of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) query: usize,
    pub(super) window: usize,
    /// The number of the next one.
    pub(super) next: i64,
    /// Time and arrival number of the first row that is in none that was forgotten.
    pub(super) from: Option<(i64, u64)>,
}

impl Numbered {
    /// The place of the first row that is in none that was forgotten; `offset` is that of the query's first row.
    pub(super) fn first_of(&self, line: &Line, offset: usize) -> usize {
        self.from.map_or(offset, |from| line.place_from(from).max(offset))
    }
}

/// A final window told by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Final {
    pub(super) lo: usize,
    pub(super) hi: usize,
    pub(super) time: i64,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// What becomes of the windows told so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// Those that are handed out: which of the final ones, its number, and whether it was handed out before.
    pub(super) due: Vec<(usize, i64, bool)>,
    /// Numbers of those that are no more.
    pub(super) gone: Vec<i64>,
    /// All there are now.
    pub(super) told: Vec<(usize, i64)>,
}

/// Compares what was told with the windows there are.
///
/// A window of the same rows was told. Else it replaces the one with the same first row, or the same last row, or the
/// first one whose first row it has; what no window replaces is no more. `is_within` says whether a window has the first
/// row of one that was told.
pub(super) fn matched(
    told: &[Told],
    finals: &[Final],
    next: &mut i64,
    is_within: impl Fn(&Told, &Final) -> bool,
) -> Matched {
    let mut number: Vec<Option<(i64, bool)>> = vec![None; finals.len()];
    let rows = |each: &Final| (each.hi - each.lo) as u32;
    let mut left = paired(
        told.iter().collect(),
        &mut number,
        (
            |told: &Told| (told.first, told.last, told.rows),
            finals.iter().map(|each| (each.first, each.last, rows(each))),
        ),
        false,
    );
    left = paired(left, &mut number, (|told: &Told| told.first, finals.iter().map(|each| each.first)), true);
    left = paired(left, &mut number, (|told: &Told| told.last, finals.iter().map(|each| each.last)), true);
    left.retain(|told| {
        let free = (0..finals.len()).find(|&at| number[at].is_none() && is_within(told, &finals[at]));
        if let Some(at) = free {
            number[at] = Some((told.number, true));
        }
        free.is_none()
    });
    let mut matched = Matched { gone: left.iter().map(|told| told.number).collect(), ..Matched::default() };
    for (at, number) in number.into_iter().enumerate() {
        let number = match number {
            Some((number, changed)) => {
                if changed {
                    matched.due.push((at, number, true));
                }
                number
            }
            None => {
                *next += 1;
                matched.due.push((at, *next - 1, false));
                *next - 1
            }
        };
        matched.told.push((at, number));
    }
    matched
}

/// Gives windows without a number that of the first one told with the same key; returns those told that are left. O(n).
fn paired<'a, K: Eq + Hash>(
    mut told: Vec<&'a Told>,
    number: &mut [Option<(i64, bool)>],
    (key_of, keys): (impl Fn(&Told) -> K, impl DoubleEndedIterator<Item = K> + ExactSizeIterator),
    is_changed: bool,
) -> Vec<&'a Told> {
    if told.is_empty() {
        return told;
    }
    let mut free: HashMap<K, Vec<usize>> = HashMap::new();
    for (at, key) in keys.enumerate().rev().filter(|&(at, _)| number[at].is_none()) {
        free.entry(key).or_default().push(at);
    }
    told.retain(|told| match free.get_mut(&key_of(told)).and_then(Vec::pop) {
        Some(at) => {
            number[at] = Some((told.number, is_changed));
            false
        }
        None => true,
    });
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(number: i64, first: u64, last: u64, rows: u32) -> Told {
        Told { query: 0, window: 0, number, time: first as i64, first, last, rows }
    }

    fn window(first: u64, last: u64, rows: usize) -> Final {
        Final { lo: 0, hi: rows, time: first as i64, first, last }
    }

    fn of(told: &[Told], finals: &[Final]) -> Matched {
        let within = |told: &Told, each: &Final| each.first <= told.first && told.first <= each.last;
        matched(told, finals, &mut 10, within)
    }

    #[test]
    fn a_window_of_the_same_rows_is_not_told_again() {
        assert!(of(&[told(3, 1, 5, 4)], &[window(1, 5, 4)]).due.is_empty());
        assert_eq!(of(&[told(3, 1, 5, 4)], &[window(1, 5, 5)]).due, [(0, 3, true)]);
    }

    #[test]
    fn of_a_window_cut_in_two_the_first_part_keeps_the_number() {
        let matched = of(&[told(3, 1, 5, 4)], &[window(1, 9, 2), window(4, 5, 3)]);
        assert_eq!(matched.due, [(0, 3, true), (1, 10, false)]);
    }

    #[test]
    fn what_nothing_replaces_is_no_more() {
        let matched = of(&[told(3, 1, 5, 4), told(4, 6, 7, 2)], &[window(1, 7, 6)]);
        assert_eq!((matched.due, matched.gone), (vec![(0, 3, true)], vec![4]));
    }

    #[test]
    fn a_window_that_grew_at_both_ends_replaces_what_it_has() {
        assert_eq!(of(&[told(3, 4, 5, 2)], &[window(2, 8, 4)]).due, [(0, 3, true)]);
    }
}
