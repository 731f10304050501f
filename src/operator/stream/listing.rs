//! Which windows of a key a stream owes: those that a watermark ends, and those that late rows change.
//!
//! Unlike bounded input, where all windows are listed once from the first slice to the last, a stream asks again and
//! again for the few that are due. So both ends of a window are found by galloping: O(log n) slices a window.

use crate::slice::{Slice, gallop, place};
use crate::window::{Band, Global, Landmark, Session, Sliding};

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
        self.begin_late_enough(sliding, start)
    }

    /// The same, or the start of the first window that begins late enough, if that is later.
    fn begin_late_enough(&self, sliding: &Sliding, start: i64) -> i64 {
        match self.since {
            Some(since) => {
                let since = since.clamp(self.bounds.0, self.bounds.1);
                start.max(sliding.last_start(since) + sliding.slide())
            }
            None => start,
        }
    }

    /// Whether some window of a landmark may be due at all, whatever rows there are.
    pub(super) fn may_hold_landmark(&self, landmark: &Landmark) -> bool {
        let Some(after) = self.after else { return true };
        if after < self.bounds.0 || after > self.bounds.1 {
            return true;
        }
        landmark.first_wid(after).is_none_or(|(_, end)| end <= self.upto)
    }

    /// Whether this window is due.
    pub(super) fn holds(&self, start: i64, end: i64) -> bool {
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

/// The place of the first slice that begins at `t` or later, if it is one of the last. O(log slices from there on).
pub(super) fn place_from_end(slices: &[Slice], t: i64) -> usize {
    place(slices, slices.len(), |slice| slice.first < t)
}

/// Where to begin to look for sliding windows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Near {
    /// The start of the first that ends late enough, if it is known.
    pub(super) start: Option<i64>,
    /// A place not far from that of its first slice.
    pub(super) lo: usize,
    /// No window that is due ends before the slice of this place begins.
    pub(super) hi: usize,
}

/// Sliding windows that are due and have rows, ascending; a place near that of the first slice of the next one. O(log
/// slices) a window, and O(1) where places are near.
pub(super) fn sliding(
    sliding: &Sliding,
    slices: &[Slice],
    span: Span,
    near: Near,
    mut found: impl FnMut(Found),
) -> usize {
    let (mut lo, mut hi, mut next) = (near.lo, near.hi, None);
    let Some(first) = slices.first() else { return near.lo };
    let mut start = match near.start {
        Some(start) => span.begin_late_enough(sliding, start),
        None => span.first_start(sliding, first.first),
    };
    loop {
        let end = start + sliding.size();
        if end > span.upto {
            return next.unwrap_or(near.lo);
        }
        lo = place(slices, lo, |slice| slice.first < start);
        let Some(slice) = slices.get(lo) else { return lo };
        if slice.first >= end {
            // Nothing in this window: on to the first that has something.
            start = sliding.first_covering(slice.first);
            continue;
        }
        hi = hi.max(lo);
        hi = match next {
            // Any of a few slices: a search without branches.
            None => hi + slices[hi..].partition_point(|slice| slice.first < end),
            Some(_) => advance(slices, hi, end),
        };
        next = Some(if sliding.size() == sliding.slide() { hi } else { lo });
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

/// The band, if it is due and has rows. O(log slices).
pub(super) fn band(band: &Band, slices: &[Slice], span: Span, mut found: impl FnMut(Found)) {
    let (start, end) = band.extent();
    let (lo, hi) = (advance(slices, 0, start), advance(slices, 0, end));
    if span.holds(start, end) && lo < hi {
        found(Found { start, end, lo, hi });
    }
}

/// The band, if it is in the span and contains one of the times `changed`.
pub(super) fn band_changed(
    kind: &Band,
    slices: &[Slice],
    changed: &[i64],
    span: Span,
    found: impl FnMut(Found),
) {
    if changed.iter().any(|&t| kind.wids(t)) {
        band(kind, slices, span, found);
    }
}

/// Windows of landmarks that are due and have a slice that no earlier window of their landmark has, ascending. O(log
/// slices) a window.
pub(super) fn landmark(landmark: &Landmark, slices: &[Slice], span: Span, mut found: impl FnMut(Found)) {
    // The window that `after` lies in is the first to end after it.
    let from = span.after.map_or(i64::MIN, |after| {
        let after = after.clamp(span.bounds.0, span.bounds.1);
        landmark.first_wid(after).map_or(after, |(_, end)| end - landmark.every())
    });
    let mut at = slices.partition_point(|slice| slice.first < from);
    while let Some(window) = landmark_at(landmark, slices, &mut at) {
        if window.end > span.upto {
            return;
        }
        if span.holds(window.start, window.end) {
            found(window);
        }
    }
}

/// Windows of landmarks in the span that contain one of the times `changed`, which ascend. Each time is one of a row.
pub(super) fn landmark_changed(
    landmark: &Landmark,
    slices: &[Slice],
    changed: &[i64],
    span: Span,
    mut found: impl FnMut(Found),
) {
    let mut at = 0;
    for &t in changed {
        let Some((start, end)) = landmark.first_wid(t) else { continue };
        at += slices[at..].partition_point(|slice| slice.first < end - landmark.every());
        // All later windows of the landmark have it, too; those that are listed already are behind `at`.
        loop {
            let mut next = at;
            match landmark_at(landmark, slices, &mut next) {
                Some(window) if window.start == start && window.end <= span.upto => {
                    if span.holds(window.start, window.end) {
                        found(window);
                    }
                    at = next;
                }
                _ => break,
            }
        }
    }
}

/// The window of a landmark that ends next after slice `at`, which moves on to the first slice that it has not; slices
/// before the first landmark are passed over.
fn landmark_at(landmark: &Landmark, slices: &[Slice], at: &mut usize) -> Option<Found> {
    if let (Some(first), Some(slice)) = (landmark.first(), slices.get(*at))
        && slice.first < first
    {
        *at += slices[*at..].partition_point(|slice| slice.first < first);
    }
    let (start, end) = landmark.first_wid(slices.get(*at)?.first)?;
    let hi = advance(slices, *at, end);
    *at = hi;
    Some(Found { start, end, lo: slices.partition_point(|slice| slice.first < start), hi })
}

/// All slices from place `from` on as one window, if there are any. O(1).
pub(super) fn global(global: &Global, slices: &[Slice], from: usize) -> Option<Found> {
    let (first, last) = (slices.get(from)?, slices.last()?);
    let (start, end) = global.extent(first.first, last.last);
    Some(Found { start, end, lo: from, hi: slices.len() })
}
