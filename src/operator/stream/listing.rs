//! Which windows of a key a stream owes: those that a watermark ends, and those that late rows change.
//!
//! Unlike bounded input, where all windows are listed once from the first slice to the last, a stream asks again and
//! again for the few that are due. So both ends of a window are found by galloping: O(log n) slices a window.

use crate::slice::{Slice, gallop};
use crate::window::{Session, Sliding};

/// A window that is due, and the places of its slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) lo: usize,
    pub(super) hi: usize,
}

/// Which windows are due: those that end after `after`, if there is one, and at or before `upto`, and begin after
/// `since`, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) after: Option<i64>,
    pub(super) upto: i64,
    pub(super) since: Option<i64>,
    /// All rows are within these; arithmetic beyond might overflow.
    pub(super) bounds: (i64, i64),
}

impl Span {
    /// Start of the first sliding window that ends and begins late enough, of those that cover `first` or begin later.
    fn first_start(&self, sliding: &Sliding, first: i64) -> i64 {
        let within = |t: i64| t.clamp(self.bounds.0, self.bounds.1);
        let mut start = sliding.first_covering(first);
        if let Some(after) = self.after {
            start = start.max(sliding.first_covering(within(after)));
        }
        if let Some(since) = self.since {
            start = start.max(sliding.last_start(within(since)) + sliding.slide());
        }
        start
    }

    /// Whether some window of this kind may be due at all, whatever rows there are.
    pub(super) fn may_hold(&self, sliding: &Sliding) -> bool {
        let Some(after) = self.after else { return true };
        if after < self.bounds.0 || after > self.bounds.1 {
            return true;
        }
        // The window that covers `after` and ends first ends first of all that end later.
        sliding.first_covering(after) + sliding.size() <= self.upto
    }

    fn holds(&self, start: i64, end: i64) -> bool {
        self.after.is_none_or(|after| end > after)
            && end <= self.upto
            && self.since.is_none_or(|since| start > since)
    }
}

/// How many of the slices from `from` on begin before `t`, `from` included.
fn advance(slices: &[Slice], from: usize, t: i64) -> usize {
    match slices.get(from) {
        Some(slice) if slice.first < t => from + gallop(&slices[from..], |slice| slice.first < t),
        _ => from,
    }
}

/// Sliding windows that are due and have rows, ascending. O(log slices) a window.
pub(super) fn sliding(sliding: &Sliding, slices: &[Slice], span: Span, mut found: impl FnMut(Found)) {
    let Some(first) = slices.first() else { return };
    let mut start = span.first_start(sliding, first.first);
    let (mut lo, mut hi) = (0, 0);
    loop {
        let end = start + sliding.size();
        if end > span.upto {
            return;
        }
        lo = advance(slices, lo, start);
        let Some(slice) = slices.get(lo) else { return };
        if slice.first >= end {
            // Nothing in this window: on to the first that has something.
            start = sliding.first_covering(slice.first);
            continue;
        }
        hi = advance(slices, hi.max(lo), end);
        if span.holds(start, end) {
            found(Found { start, end, lo, hi });
        }
        start += sliding.slide();
    }
}

/// Sliding windows in the span that contain one of the times `changed`, which ascend. Each time is one of a row.
pub(super) fn sliding_changed(
    sliding: &Sliding,
    slices: &[Slice],
    changed: &[i64],
    span: Span,
    mut found: impl FnMut(Found),
) {
    let (mut lo, mut hi) = (0, 0);
    let mut next = i64::MIN;
    for &t in changed {
        let mut start = span.first_start(sliding, t).max(next);
        while start <= t && start + sliding.size() <= span.upto {
            let end = start + sliding.size();
            if span.holds(start, end) {
                lo = advance(slices, lo, start);
                hi = advance(slices, hi.max(lo), end);
                found(Found { start, end, lo, hi });
            }
            start += sliding.slide();
        }
        next = next.max(start);
    }
}

/// The session that place `at` of the slices lies in, of those from place `from` on.
pub(super) fn session_at(session: &Session, slices: &[Slice], from: usize, at: usize) -> Found {
    let (mut lo, mut hi, mut last) = (at, at + 1, slices[at].last);
    while lo > from && session.joins(slices[lo - 1].last, slices[lo].first) {
        lo -= 1;
    }
    while hi < slices.len() && session.joins(last, slices[hi].first) {
        last = last.max(slices[hi].last);
        hi += 1;
    }
    let (start, end) = session.extent(slices[lo].first, last);
    Found { start, end, lo, hi }
}

/// Sessions that are due, ascending. A row exactly on a session's end joins it, so that it is over once a watermark is
/// past its end: it is due if its end is not before `after`, but before `upto`. Slices before place `from` are none of
/// its. O(slices that ended since `after`).
pub(super) fn sessions(
    session: &Session,
    slices: &[Slice],
    from: usize,
    span: Span,
    mut found: impl FnMut(Found),
) {
    // The last times of slices ascend, and the first that can be due is the last of its session.
    let mut at = match span.after {
        Some(after) => slices.partition_point(|slice| slice.last.saturating_add(session.gap()) < after),
        None => 0,
    };
    at = at.max(from);
    while at < slices.len() {
        let (mut hi, mut last) = (at + 1, slices[at].last);
        while hi < slices.len() && session.joins(last, slices[hi].first) {
            last = last.max(slices[hi].last);
            hi += 1;
        }
        if last + session.gap() >= span.upto {
            // Later ones end later.
            return;
        }
        found(session_at(session, slices, from, at));
        at = hi;
    }
}
