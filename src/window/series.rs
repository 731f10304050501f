//! Windows that follow each other, each beginning and ending no earlier than the one before: how they are listed, whatever
//! determines where they are.

use super::spans::{Cursor, Ending, Listed, Spans};

/// Windows that are numbered in their order, with and without rows.
pub trait Series {
    /// From the number of a window to that of the next.
    fn step(&self) -> i64;

    /// `[start, end)` of a window.
    fn extent_at(&self, number: i64) -> (i64, i64);

    /// The first window that ends after `t`.
    fn first_after(&self, t: i64) -> i64;

    /// The last window that begins at or before `t`.
    fn last_begun(&self, t: i64) -> i64;

    /// The last window that ends at or before `t`.
    fn last_ended(&self, t: i64) -> i64;

    /// Size and slide, in the same unit.
    fn lengths(&self) -> (i64, i64);

    /// The window `[start, end)`.
    fn number_of(&self, (start, end): (i64, i64)) -> i64 {
        let mut number = self.last_begun(start);
        // Where a zone skips a day, two windows begin at once.
        while self.extent_at(number).1 > end {
            number -= self.step();
        }
        number
    }

    /// How many windows there are from the first that contains a row at `first` to the last that contains one at `last`.
    fn between(&self, first: i64, last: i64) -> u64 {
        self.last_begun(last).abs_diff(self.first_after(first)) / self.step().unsigned_abs() + 1
    }

    /// Whether each window begins where the one before ends.
    #[inline]
    fn is_tumbling(&self) -> bool {
        let (size, slide) = self.lengths();
        size == slide
    }
}

/// The first requested window among those that end after `first`.
fn first_of(series: &impl Series, ending: &Ending, first: i64) -> i64 {
    let mut number = series.first_after(first);
    if let Some(after) = ending.after {
        number = number.max(series.first_after(ending.within(after)));
    }
    begins_since(series, ending, number)
}

/// Window `number`, or the first window that begins after `since`, if that is later.
fn begins_since(series: &impl Series, ending: &Ending, number: i64) -> i64 {
    let since = ending.since.map(|since| series.last_begun(ending.within(since)) + series.step());
    since.map_or(number, |since| number.max(since))
}

/// [`ByTime::list`](super::ByTime::list).
pub(super) fn list(
    series: &impl Series,
    spans: Spans<'_>,
    ending: &Ending,
    cursor: &mut Cursor,
    most: usize,
    out: &mut Vec<Listed>,
) {
    let Cursor { mut lo, mut hi, .. } = *cursor;
    let Some(&first) = spans.firsts.first() else { return };
    if series.is_tumbling() && cursor.resume.is_none() && *ending == Ending::ALL && spans.len() < most {
        list_tumbling(series, spans, out);
        return;
    }
    let mut number = match cursor.resume {
        Some(number) => begins_since(series, ending, number),
        None => first_of(series, ending, first),
    };
    let mut near = lo;
    let full = out.len().saturating_add(most);
    let mut is_first = true;
    while out.len() < full {
        let (start, end) = series.extent_at(number);
        if end > ending.upto {
            break;
        }
        lo = if is_first { spans.before(start, near) } else { spans.advance(near, start) };
        let Some(&next) = spans.firsts.get(lo) else {
            near = lo;
            break;
        };
        if next >= end {
            // Nothing in this window: skip to the first one with rows.
            number = series.first_after(next);
            continue;
        }
        hi = hi.max(lo);
        hi = match is_first {
            // Any of a few spans: a branchless search.
            true => hi + spans.firsts[hi..].partition_point(|&first| first < end),
            false => spans.advance(hi, end),
        };
        is_first = false;
        near = if series.is_tumbling() { hi } else { lo };
        if ending.holds(start, end) {
            out.push(Listed::new(lo, hi, (start, end)));
        }
        number += series.step();
    }
    *cursor = Cursor { resume: Some(number), lo: near, hi };
}

/// Lists all windows with spans, each of which is in one of them: that which is the first to end after it.
fn list_tumbling(series: &impl Series, spans: Spans<'_>, out: &mut Vec<Listed>) {
    let mut lo = 0;
    while let Some(&first) = spans.firsts.get(lo) {
        let (start, end) = series.extent_at(series.first_after(first));
        let len = spans.firsts[lo..].iter().position(|&first| first >= end);
        let hi = len.map_or(spans.firsts.len(), |len| lo + len);
        out.push(Listed::new(lo, hi, (start, end)));
        lo = hi;
    }
}

/// [`ByTime::list_changed`](super::ByTime::list_changed).
pub(super) fn list_changed(
    series: &impl Series,
    spans: Spans<'_>,
    changed: &[i64],
    ending: &Ending,
    out: &mut Vec<Listed>,
) {
    let (mut lo, mut hi, mut next) = (0, 0, i64::MIN);
    for &t in changed {
        let mut number = first_of(series, ending, t).max(next);
        loop {
            let (start, end) = series.extent_at(number);
            if start > t || end > ending.upto {
                break;
            }
            if ending.holds(start, end) {
                lo = spans.advance(lo, start);
                hi = spans.advance(hi.max(lo), end);
                out.push(Listed::new(lo, hi, (start, end)));
            }
            number += series.step();
        }
        next = next.max(number);
    }
}

/// [`ByTime::count`](super::ByTime::count).
pub(super) fn count(series: &impl Series, spans: Spans<'_>, ending: &Ending) -> u64 {
    let (mut count, mut next) = (0u64, i64::MIN);
    for &first in spans.firsts {
        // Each span lies between edges: all its rows are in the same windows.
        let from = first_of(series, ending, first).max(next);
        if series.extent_at(from).1 > ending.upto {
            continue;
        }
        let mut last = series.last_begun(first);
        if series.extent_at(last).1 > ending.upto {
            last = last.min(series.last_ended(ending.upto));
        }
        if from <= last {
            count = count.saturating_add(((last - from) / series.step() + 1) as u64);
            next = last + series.step();
        }
    }
    count
}

/// [`ByTime::windows_per_span`](super::ByTime::windows_per_span).
pub(super) fn windows_per_span(series: &impl Series) -> i64 {
    let (size, slide) = series.lengths();
    size / slide + i64::from(size % slide != 0)
}

/// [`ByTime::is_long`](super::ByTime::is_long).
pub(super) const IS_LONG: bool = false;

/// [`ByTime::keeps_apart`](super::ByTime::keeps_apart).
pub(super) fn keeps_apart(
    series: &impl Series,
    (earlier, later): (i64, i64),
    _: Option<i64>,
    horizon: i64,
) -> bool {
    let (start, end) = series.extent_at(series.last_begun(later));
    earlier < start && end > horizon
}

/// [`Rules::takes_from`](super::Rules::takes_from).
pub(super) fn takes_from(series: &impl Series, horizon: i64, (least, most): (i64, i64)) -> i64 {
    match horizon > most {
        true => i64::MAX,
        false => series.extent_at(series.first_after(horizon.max(least))).0,
    }
}
