//! Which rows each window contains: fixed numbers of rows, or ranges found by time.

use std::cell::OnceCell;

use super::{Ranges, Segments};
use crate::poll::Poll;
use crate::{Error, Result};

/// Windows of `size` rows, one every `slide` rows of each group: window k of a group that begins at row b is `[b +
/// k·slide, b + k·slide + size)`, for every integer k for which it contains a row and does not extend over an end of
/// its group that it must stay within (Theodorakis et al. 2018, §2.1).
///
/// At slide 1 there is a window per row: the one that ends with the row, if windows may extend over the start; the one
/// that begins with the row, if they may extend over the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    size: i64,
    slide: i64,
    over_start: bool,
    over_end: bool,
}

impl Rolling {
    /// Windows of `size` rows, one every `slide`, which may extend over the start or the end of a group.
    ///
    /// # Errors
    /// `InvalidValue` unless size and slide are positive.
    pub fn new(size: i64, slide: i64, over_start: bool, over_end: bool) -> Result<Self> {
        for (name, length) in [("size", size), ("slide", slide)] {
            if length < 1 {
                return Err(Error::InvalidValue(format!(
                    "{name}: {length} is too small; a {name} is at least 1 row"
                )));
            }
        }
        Ok(Self { size, slide, over_start, over_end })
    }

    /// Rows of a window.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Rows from the start of one window to that of the next.
    pub fn slide(&self) -> i64 {
        self.slide
    }

    /// Whether no row is in more than one window.
    pub fn is_disjoint(&self) -> bool {
        self.slide >= self.size
    }

    /// Whether no window extends over an end of its group.
    pub fn is_full(&self) -> bool {
        !self.over_start && !self.over_end
    }

    /// The first k of a window of a group of `rows` rows, and the one after the last.
    fn span(&self, rows: i64) -> (i64, i64) {
        if rows == 0 {
            return (0, 0);
        }
        let first = if self.over_start { -((self.size - 1) / self.slide) } else { 0 };
        let last =
            if self.over_end { (rows - 1) / self.slide } else { (rows - self.size).div_euclid(self.slide) };
        (first, (last + 1).max(first))
    }

    /// Number of windows of a group of `rows` rows.
    pub fn count(&self, rows: usize) -> u64 {
        let (first, end) = self.span(rows as i64);
        (i128::from(end) - i128::from(first)) as u64
    }

    /// Rows in window number `window` of a group of `rows` rows.
    pub(super) fn length(&self, rows: usize, window: usize) -> usize {
        let start = (self.span(rows as i64).0 + window as i64) * self.slide;
        (start.saturating_add(self.size).min(rows as i64) - start.max(0)) as usize
    }

    /// How far the first window of a group of `rows` rows extends over its start, and the distance from there to the
    /// end of the last window. There must be a window.
    pub(super) fn reach(&self, rows: usize) -> (usize, usize) {
        let (first, end) = self.span(rows as i64);
        let length = i128::from(end - 1 - first) * i128::from(self.slide) + i128::from(self.size);
        ((-first * self.slide) as usize, usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Appends `number` windows of the group of rows `[from, to)`, from window `k` on.
    fn list(&self, from: usize, to: usize, k: i64, number: usize, ranges: &mut Ranges) {
        let rows = (to - from) as i64;
        let mut start = k * self.slide;
        for _ in 0..number {
            let (lo, hi) = (start.max(0), start.saturating_add(self.size).min(rows));
            ranges.push((from + lo as usize) as u32, (from + hi as usize) as u32);
            start = start.saturating_add(self.slide);
        }
    }

    /// Appends the windows of the group of rows `[from, to)` that extend over its start, or else those that extend over
    /// its end.
    pub(super) fn list_edge(&self, from: usize, to: usize, at_start: bool, ranges: &mut Ranges) {
        let (before, full, after) = self.parts(to - from);
        let (first, _) = self.span((to - from) as i64);
        if at_start {
            self.list(from, to, first, before, ranges);
        } else {
            self.list(from, to, first + (before + full) as i64, after, ranges);
        }
    }

    /// The numbers of windows of a group that extend over its start, that are full, and that extend over its end; the
    /// last include those that extend over both.
    pub fn parts(&self, rows: usize) -> (usize, usize, usize) {
        let (first, end) = self.span(rows as i64);
        let full_end = (rows as i64 - self.size).div_euclid(self.slide) + 1;
        // Windows before k = 0 extend over the start; those from `full_end` on over the end.
        let (zero, full_end) = (0.clamp(first, end), full_end.clamp(first, end));
        let before = (zero.min(full_end) - first) as usize;
        let full = (full_end - zero).max(0) as usize;
        (before, full, (end - first) as usize - before - full)
    }
}

/// The windows over a column.
#[derive(Debug, Clone)]
pub enum Frames {
    /// Windows of a number of rows.
    Rolling(Rolling, Segments),
    /// Any windows whose ends do not decrease.
    Listed(Ranges),
}

impl Frames {
    /// Number of windows.
    ///
    /// # Errors
    /// `InvalidValue` if there are more than an array can hold.
    pub fn count(&self) -> Result<usize> {
        // An answer, and the space for validity and intermediate results.
        self.count_in(2)
    }

    /// How many windows there are, as [`Frames::count`] says, where each has this many columns of 64 bits.
    pub fn count_in(&self, columns: usize) -> Result<usize> {
        match self {
            Frames::Listed(ranges) => Ok(ranges.len()),
            Frames::Rolling(rolling, segments) => {
                let total: u128 =
                    segments.iter().map(|(from, to)| u128::from(rolling.count(to - from))).sum();
                fits_memory(total, columns)
            }
        }
    }

    /// Whether no row is in more than one window.
    pub fn is_disjoint(&self) -> bool {
        match self {
            Frames::Rolling(rolling, segments) => {
                rolling.is_disjoint()
                    || segments.len() > 1 && rolling.is_full() && {
                        let two = rolling.size() + rolling.slide();
                        segments.iter().all(|(from, to)| ((to - from) as i64) < two)
                    }
            }
            Frames::Listed(ranges) => !ranges.overlap(),
        }
    }

    /// The rows of each window, `[lo, hi)`; with `ranks`, as numbered by these.
    pub fn iter<'a>(&'a self, ranks: Option<&'a [u32]>) -> FrameIter<'a> {
        let block = Ranges::with_capacity(BLOCK);
        FrameIter { frames: self, ranks, taken: 0, group: 0, block, at: 0, pause: None }
    }
}

/// Asks between blocks of windows whether to go on, and keeps the error if not.
#[derive(Debug)]
pub(super) struct Pause {
    poll: Poll,
    ended: OnceCell<Error>,
}

impl Pause {
    pub(super) fn new(poll: Poll) -> Self {
        Self { poll, ended: OnceCell::new() }
    }

    /// The result, unless the work was to end meanwhile.
    pub(super) fn unless_ended<T>(self, result: Result<T>) -> Result<T> {
        self.ended.into_inner().map_or(result, Err)
    }

    fn has_ended(&self) -> bool {
        if self.ended.get().is_none()
            && let Err(error) = (self.poll)()
        {
            self.ended.get_or_init(|| error);
        }
        self.ended.get().is_some()
    }
}

/// Number of windows listed at a time: a list of all would be as long as the results, in fresh memory, and finding each
/// anew would put the cases of groups, edges and nulls into every loop over windows.
const BLOCK: usize = 512;

/// Iterator of [`Frames::iter`].
#[derive(Clone)]
pub struct FrameIter<'a> {
    frames: &'a Frames,
    ranks: Option<&'a [u32]>,
    /// How many windows of the group were listed; for listed frames, how many of all.
    taken: usize,
    group: usize,
    block: Ranges,
    at: usize,
    pause: Option<&'a Pause>,
}

impl Iterator for FrameIter<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        let next = match self.block.get(self.at) {
            None => {
                self.list();
                self.block.get(0)
            }
            next => next,
        };
        self.at += 1;
        next
    }
}

impl<'a> FrameIter<'a> {
    /// Asks before each block whether to go on. If not, all windows from there on are empty, so that what is left takes no
    /// time, and is as long as it would be.
    pub(super) fn pausing(self, pause: &'a Pause) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// Lists the next block.
    #[inline(never)]
    fn list(&mut self) {
        self.at = 0;
        self.block.clear();
        match self.frames {
            Frames::Listed(ranges) => {
                let end = (self.taken + BLOCK).min(ranges.len());
                self.block.extend(ranges, self.taken..end);
                self.taken = end;
            }
            Frames::Rolling(rolling, segments) => {
                while self.block.len() < BLOCK
                    && let Some((from, to)) = segments.get(self.group)
                {
                    let (first, end) = rolling.span((to - from) as i64);
                    let left = (end - first) as usize - self.taken;
                    let number = left.min(BLOCK - self.block.len());
                    rolling.list(from, to, first + self.taken as i64, number, &mut self.block);
                    self.taken += number;
                    if number == left {
                        (self.group, self.taken) = (self.group + 1, 0);
                    }
                }
            }
        }
        if let Some(ranks) = self.ranks {
            self.block.rank(ranks);
        }
        if self.pause.is_some_and(Pause::has_ended) {
            self.block.empty();
        }
    }
}

/// `count` as a number of results, if memory can hold that many in this many columns of 64 bits.
///
/// # Errors
/// `InvalidValue` if not: a process that requests too much memory is killed, so part of it is requested first.
pub(super) fn fits_memory(count: u128, columns: usize) -> Result<usize> {
    let refuse = || {
        Error::InvalidValue(format!(
            "size: there would be {count} windows, more than memory holds; if size is much greater than the number of \
             rows, give a greater slide"
        ))
    };
    let count_here = usize::try_from(count).map_err(|_| refuse())?;
    if count_here > 1 << 22 {
        let bytes = count_here.checked_mul(8 * columns).ok_or_else(refuse)?;
        Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| refuse())?;
    }
    Ok(count_here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The definition, evaluated for every k that could hold a row.
        #[test]
        fn windows_are_those_of_the_definition(
            size in 1i64..12, slide in 1i64..12, over_start: bool, over_end: bool,
            lengths in prop::collection::vec(0i64..20, 0..5),
        ) {
            let mut want = Vec::new();
            let mut offsets = vec![0];
            for rows in &lengths {
                let begin = *offsets.last().unwrap();
                for start in (-20 * slide..20).filter(|start| start.rem_euclid(slide) == 0) {
                    let end = start + size;
                    if start.max(0) < end.min(*rows) && (over_start || start >= 0) && (over_end || end <= *rows) {
                        want.push(((begin + start.max(0)) as usize, (begin + end.min(*rows)) as usize));
                    }
                }
                offsets.push(begin + rows);
            }
            let rows = *offsets.last().unwrap() as usize;
            let rolling = Rolling::new(size, slide, over_start, over_end).unwrap();
            let frames = Frames::Rolling(rolling, Segments::new(offsets.into(), rows).unwrap());
            prop_assert_eq!(frames.iter(None).collect::<Vec<_>>(), &want[..]);
            prop_assert_eq!(frames.count().unwrap(), want.len());
            for rows in lengths {
                let all = Frames::Rolling(rolling, Segments::whole(rows as usize));
                let (before, full, after) = rolling.parts(rows as usize);
                let is_full = |(lo, hi): (usize, usize)| hi - lo == size as usize;
                let full_ones: Vec<bool> = all.iter(None).map(is_full).collect();
                prop_assert_eq!(full_ones.len(), before + full + after);
                prop_assert!(full_ones.iter().enumerate().all(|(at, &is)| is == (at >= before && at < before + full)));
            }
        }
    }

    #[test]
    fn extreme_sizes_do_not_overflow() {
        for (size, slide) in [(i64::MAX, 1), (i64::MAX, i64::MAX), (1, i64::MAX), (i64::MAX, i64::MAX - 1)] {
            for (over_start, over_end) in [(false, false), (true, false), (false, true)] {
                let frames = Frames::Rolling(
                    Rolling::new(size, slide, over_start, over_end).unwrap(),
                    Segments::whole(3),
                );
                let ranges: Vec<_> = frames.iter(None).collect();
                assert_eq!(ranges.len(), frames.count().unwrap());
                assert!(ranges.iter().all(|&(lo, hi)| lo < hi && hi <= 3));
            }
        }
        let everything = Frames::Rolling(Rolling::new(i64::MAX, 1, true, true).unwrap(), Segments::whole(3));
        assert!(everything.count().is_err());
    }
}
