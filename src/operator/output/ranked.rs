//! Windows that need a key's rows in order: by rank, by punctuation, over two measures, users' own.
//!
//! | | |
//! |---|---|
//! | needs | all rows, in any order |
//! | time | O(rows) to order them by key, O(n log n) where a key's rows are out of order; then O(rows + windows) |
//! | space | the input columns that are read, unchanged; rows in order, slices and windows by rows of one block of keys |
//! | first appeared | slices over several measures: Carbone et al., *Cutty*, CIKM 2016; Traub et al. 2019, §4.3 and §5.1 |
//!
//! Every window is a range of ranks ([`crate::window::Window::list`]), however it is defined. So all windows by rows of
//! a query are listed over a key's sorted rows, slices are cut only where such a window begins or ends and at the edges
//! of windows by time, rows are folded into slices once, and windows are computed from slices by the same kernels as
//! everywhere else: a row is aggregated once, however many windows contain it. There are no more windows by rows than
//! rows, unless a user's own are; windows by time may be any number, and are listed over the slices as they are read.

use std::ops::Range;

use arrow_array::ArrayRef;

use super::listed::Windows;

use crate::Result;
use crate::interrupt::Pace;
use crate::operator::gathered::{InOrder, Ordered};
use crate::slice::{Edges, KeyOrder, SliceTable};
use crate::window::{KeyRows, Listed};

/// The windows by rows of some keys, as ranges of slices.
pub(super) struct RankedLists {
    first_key: usize,
    /// First row of each key, by its place in the block.
    first_rows: Vec<usize>,
    /// Slice of each row, and of the place after the last.
    slice_of: Vec<u32>,
    lists: Vec<List>,
    /// How far the lists have been read.
    list: usize,
    at: usize,
}

/// Windows of one type whose ends never decrease, by places of rows in the block.
struct List {
    window: usize,
    keys: Vec<u32>,
    windows: Vec<Listed>,
}

/// The slices of keys `from..to`, and their windows by rows.
pub(super) fn block(
    all: &Ordered,
    order: &KeyOrder,
    from: usize,
    to: usize,
) -> Result<(SliceTable, RankedLists)> {
    let InOrder { ends, times, rows } = all.sorted(order, from, to)?;
    let (lists, mut cut) = list(all, from, &ends, &times, &rows)?;
    cut_by_time(all.plan().edges(), &ends, &times, &mut cut);
    let mut slice = 0;
    let slice_of: Vec<u32> = cut
        .iter()
        .enumerate()
        .map(|(row, is_cut)| {
            slice += u32::from(*is_cut && row > 0);
            slice
        })
        .collect();
    let (partials, count) = all.fold(&rows, &slice_of[..rows.len()], &times)?;
    let (mut keys, mut firsts, mut lasts) =
        (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count));
    for (key, own) in ends.windows(2).enumerate() {
        for row in own[0]..own[1] {
            if cut[row] {
                keys.push((from + key) as u32);
                firsts.push(times[row]);
            }
            if cut[row + 1] {
                lasts.push(times[row]);
            }
        }
    }
    // Each slice is its own group: the partials themselves sort their contents.
    let groups: Vec<u32> = (0..count as u32).collect();
    let partials = partials.iter().map(|partials| partials.regroup(&groups, &groups));
    let slices = SliceTable::from_parts(keys, firsts, Some(lasts), partials.collect::<Result<_>>()?);
    Ok((slices, RankedLists { first_key: from, first_rows: ends, slice_of, lists, list: 0, at: 0 }))
}

/// The windows by rows of the keys from `from` on, whose rows end at `ends`, and the rows before which they begin or
/// end.
fn list(
    all: &Ordered,
    from: usize,
    ends: &[usize],
    times: &[i64],
    rows: &[u32],
) -> Result<(Vec<List>, Vec<bool>)> {
    let mut lists = Vec::new();
    let mut cut = vec![false; times.len() + 1];
    let mut listed = Vec::new();
    let mut pace = Pace::new();
    for (number, (_, window)) in all.plan().windows().iter().enumerate() {
        let Some(by_rows) = window.by_rows() else { continue };
        let columns = window.columns().into_iter().map(|column| all.gathered(column, rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let first = lists.len();
        for (place, own) in ends.windows(2).enumerate() {
            let (lo, hi) = (own[0], own[1]);
            let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(lo, hi - lo)).collect();
            listed.clear();
            pace.check(hi - lo)?;
            let rows = KeyRows { times: &times[lo..hi], columns: &columns, arrivals: &rows[lo..hi] };
            by_rows.list(&rows, &mut listed)?;
            for window in &mut listed {
                pace.check(1)?;
                (window.lo, window.hi) = (window.lo + lo as u32, window.hi + lo as u32);
                cut[window.lo as usize] = true;
                cut[window.hi as usize] = true;
            }
            place_in(&mut lists, first, number, (from + place) as u32, &mut listed);
        }
    }
    Ok((lists, cut))
}

/// Cuts slices at the edges of windows by time, and between keys, whose rows end at `ends`.
fn cut_by_time(edges: &Edges, ends: &[usize], times: &[i64], cut: &mut [bool]) {
    let has_gap = edges.gap().is_some();
    for own in ends.windows(2) {
        let (mut last, mut end) = (0, i64::MIN);
        for row in own[0]..own[1] {
            let time = times[row];
            if time >= end || (has_gap && !edges.within_gap(last, time)) {
                cut[row] = true;
                end = edges.slice_of(time).1;
            }
            last = time;
        }
        cut[own[1]] = true;
    }
}

/// Adds the windows of a key to lists of their type in which ends never decrease: usually a single list.
///
/// Each window goes to the list whose last end is the nearest before its own, so that there are as few lists as
/// possible: as many as windows are nested in each other (Dilworth 1950). O(n log n) if windows are out of order or
/// nested, else O(n).
fn place_in(lists: &mut Vec<List>, first: usize, window: usize, key: u32, listed: &mut [Listed]) {
    let in_order = |pair: &[Listed]| pair[0].lo <= pair[1].lo && pair[0].hi <= pair[1].hi;
    let new = || List { window, keys: Vec::new(), windows: Vec::new() };
    if listed.windows(2).all(in_order) {
        if lists.len() == first && !listed.is_empty() {
            lists.push(new());
        }
        if let Some(list) = lists.get_mut(first) {
            list.keys.resize(list.keys.len() + listed.len(), key);
            list.windows.extend_from_slice(listed);
        }
        return;
    }
    listed.sort_unstable_by_key(|window| (window.lo, window.hi));
    // Last ends of this key's lists from `first` on: they descend, as each list is the first that accepted a window.
    let mut last: Vec<u32> = Vec::new();
    for &each in listed.iter() {
        let at = last.partition_point(|&end| end > each.hi);
        match last.get_mut(at) {
            Some(end) => *end = each.hi,
            None => last.push(each.hi),
        }
        if lists.len() == first + at {
            lists.push(new());
        }
        lists[first + at].keys.push(key);
        lists[first + at].windows.push(each);
    }
}

impl RankedLists {
    /// How many windows there are of each number.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.lists.iter().map(|list| (list.window, list.windows.len()))
    }

    /// Some of the remaining windows with this number, if there are any.
    pub(super) fn next(&mut self, window: usize, most: usize, with_ranks: bool) -> Option<Windows> {
        let list = loop {
            let list = self.lists.get(self.list).filter(|list| list.window == window)?;
            if self.at < list.windows.len() {
                break list;
            }
            (self.list, self.at) = (self.list + 1, 0);
        };
        let range: Range<usize> = self.at..list.windows.len().min(self.at + most);
        self.at = range.end;
        let mut windows = Windows::with_capacity(range.len());
        for (&key, window) in list.keys[range.clone()].iter().zip(&list.windows[range]) {
            let slice = |row: u32| self.slice_of[row as usize] as usize;
            windows.push(key, (window.start, window.end), slice(window.lo), slice(window.hi));
            if with_ranks {
                let first = self.first_rows[key as usize - self.first_key] as i64;
                windows.push_ranks((i64::from(window.lo) - first, i64::from(window.hi) - first));
            }
        }
        Some(windows)
    }
}
