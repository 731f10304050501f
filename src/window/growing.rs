//! Windows that all begin at a landmark and grow: how they are listed, whatever determines where they end.

use super::spans::{Cursor, Ending, Listed, Spans};

/// A stretch between two neighbouring edges, and the landmark of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Where windows of its rows begin.
    pub landmark: i64,
    /// Its start.
    pub from: i64,
    /// Its end, where the first window of its rows ends.
    pub to: i64,
}

/// Windows of one landmark, or of many.
pub(super) trait Growing {
    /// The only landmark, if there is one.
    fn only(&self) -> Option<i64>;

    /// The stretch that `t` lies in; `None` before the first landmark.
    fn around(&self, t: i64) -> Option<Stretch>;

    /// Where the last window of a landmark ends, if there is a last one.
    fn last_end(&self, landmark: i64) -> Option<i64>;
}

/// The next window of a landmark to end after that at `span`, which advances to the first one outside the window; spans
/// before the first landmark are skipped. `lo` is the place of the first span of the landmark `of`.
fn window_at(
    windows: &impl Growing,
    spans: Spans<'_>,
    span: &mut usize,
    of: &mut Option<(i64, usize)>,
) -> Option<Listed> {
    if let Some(first) = windows.only() {
        *span = spans.advance(*span, first);
    }
    let Stretch { landmark: start, to: end, .. } = windows.around(*spans.firsts.get(*span)?)?;
    let lo = match *of {
        Some((landmark, lo)) if landmark == start => lo,
        _ => spans.firsts[..*span].partition_point(|&first| first < start),
    };
    *of = Some((start, lo));
    *span = spans.advance(*span, end);
    Some(Listed::new(lo, *span, (start, end)))
}

/// [`ByTime::list`](super::ByTime::list): for each landmark, windows with a span that no earlier one has.
pub(super) fn list(
    windows: &impl Growing,
    spans: Spans<'_>,
    ending: &Ending,
    cursor: &mut Cursor,
    most: usize,
    out: &mut Vec<Listed>,
) {
    let mut of = cursor.resume.map(|start| (start, cursor.lo));
    let mut span = match (of, ending.after) {
        (None, Some(after)) => {
            // The window that `after` lies in is the first to end after it.
            let after = ending.within(after);
            let from = windows.around(after).map_or(after, |stretch| stretch.from);
            spans.before(from, cursor.hi)
        }
        _ => cursor.hi,
    };
    let full = out.len().saturating_add(most);
    while out.len() < full {
        let mut next = span;
        let Some(window) = window_at(windows, spans, &mut next, &mut of) else { break };
        if window.end > ending.upto {
            break;
        }
        span = next;
        if ending.holds(window.start, window.end) {
            out.push(window);
        }
    }
    *cursor = Cursor { resume: of.map(|of| of.0), lo: of.map_or(0, |of| of.1), hi: span };
}

/// [`ByTime::list_changed`](super::ByTime::list_changed).
pub(super) fn list_changed(
    windows: &impl Growing,
    spans: Spans<'_>,
    changed: &[i64],
    ending: &Ending,
    out: &mut Vec<Listed>,
) {
    let (mut span, mut of) = (0, None);
    for &t in changed {
        let Some(Stretch { landmark: start, from, .. }) = windows.around(t) else { continue };
        span += spans.firsts[span..].partition_point(|&first| first < from);
        // All later windows of the landmark contain it, too; those that are listed already lie before `span`.
        loop {
            let mut next = span;
            match window_at(windows, spans, &mut next, &mut of) {
                Some(window) if window.start == start && window.end <= ending.upto => {
                    if ending.holds(window.start, window.end) {
                        out.push(window);
                    }
                    span = next;
                }
                _ => break,
            }
        }
    }
}

/// [`ByTime::may_end`](super::ByTime::may_end).
pub(super) fn may_end(windows: &impl Growing, ending: &Ending) -> bool {
    ending.may_hold(|after| windows.around(after).map(|stretch| stretch.to))
}

/// [`ByTime::news`](super::ByTime::news): from the edge before its end on.
pub(super) fn news(windows: &impl Growing, (start, end): (i64, i64)) -> (i64, i64) {
    (windows.around(end - 1).map_or(start, |stretch| stretch.from), end)
}

/// [`ByTime::begun_upto`](super::ByTime::begun_upto).
pub(super) fn begun_upto(windows: &impl Growing, now: i64) -> i64 {
    windows.around(now).map_or(i64::MIN, |stretch| stretch.to)
}

/// [`ByTime::windows_per_span`](super::ByTime::windows_per_span): each has a span that no earlier one has.
pub(super) fn windows_per_span(_: &impl Growing) -> i64 {
    1
}

/// [`ByTime::is_long`](super::ByTime::is_long).
pub(super) const IS_LONG: bool = true;

/// [`ByTime::keeps_apart`](super::ByTime::keeps_apart).
pub(super) fn keeps_apart(
    windows: &impl Growing,
    (earlier, later): (i64, i64),
    since: Option<i64>,
    horizon: i64,
) -> bool {
    let lies_between = |edge: i64| earlier < edge && edge <= later;
    // The window exists if it has rows that the previous one does not; the last edge before its end decides that.
    let Some(Stretch { landmark, from, to }) = windows.around(later) else { return false };
    let has_more = to > horizon && lies_between(from);
    let expired = windows.last_end(landmark).is_some_and(|end| end <= horizon);
    let begins = lies_between(landmark) && !expired && since.is_none_or(|since| landmark > since);
    has_more || begins
}

/// [`Rules::takes_from`](super::Rules::takes_from).
pub(super) fn takes_from(windows: &impl Growing, horizon: i64, (least, most): (i64, i64)) -> i64 {
    // The next window to end is still open, and it contains all rows since its landmark.
    let next = (horizon <= most).then(|| windows.around(horizon.max(least))).flatten();
    next.map_or(horizon, |stretch| horizon.min(stretch.landmark))
}
