//! Sessions: rows of a key that follow each other within a gap.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::Cuts;
use super::rules::{Accepts, ByTime, Rules};
use super::spans::{Cursor, Ending, Listed, Spans};

/// A session contains rows no further than `gap` apart, and ends `gap` after the last of them.
///
/// A row that falls exactly on the session's end still joins it, as in Spark's `session_window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Session {
    gap: i64,
    /// As the options of a stream say, which snapshots have beside the query.
    #[serde(skip)]
    is_sealed: bool,
}

impl Session {
    /// Sessions closed by `gap`.
    ///
    /// # Panics
    /// Unless `gap > 0`; plans check this first and return a proper error.
    pub fn new(gap: i64) -> Self {
        assert!(gap > 0, "gap > 0");
        Self { gap, is_sealed: false }
    }

    /// These sessions, each of which is emitted once it has ended, and joined by no row after that ([`Rules::seals`]).
    pub fn sealed(self) -> Self {
        Self { is_sealed: true, ..self }
    }

    /// The time without rows that ends a session.
    pub fn gap(&self) -> i64 {
        self.gap
    }

    /// Whether rows (or fragments' ends) at `earlier` and `later` belong together.
    #[inline]
    pub fn joins(&self, earlier: i64, later: i64) -> bool {
        later <= earlier.saturating_add(self.gap)
    }

    /// `[start, end)` of the session with these first and last rows.
    pub fn extent(&self, first: i64, last: i64) -> (i64, i64) {
        (first, last + self.gap)
    }

    /// The session that the span at place `at` lies in.
    pub fn around(&self, spans: Spans<'_>, at: usize) -> Listed {
        let Spans { firsts, lasts } = spans;
        let (mut lo, (hi, last)) = (at, self.onwards(spans, at));
        while lo > 0 && self.joins(lasts[lo - 1], firsts[lo]) {
            lo -= 1;
        }
        Listed::new(lo, hi, self.extent(firsts[lo], last))
    }

    /// Where the session ends that the span at place `at` lies in: the place after its last span, and the time of its last row.
    fn onwards(&self, Spans { firsts, lasts }: Spans<'_>, at: usize) -> (usize, i64) {
        let (mut hi, mut last) = (at + 1, lasts[at]);
        while hi < firsts.len() && self.joins(last, firsts[hi]) {
            last = last.max(lasts[hi]);
            hi += 1;
        }
        (hi, last)
    }

    /// The watermark at which the first session of a key is final that was not at this one, unless rows come; `None` if all are.
    pub fn next_final(&self, spans: Spans<'_>, after: Option<i64>) -> Option<i64> {
        let at = self.first_open(spans, after);
        (at < spans.len()).then(|| self.final_at(self.onwards(spans, at).1.saturating_add(self.gap)))
    }

    /// The first span whose session may not have been final at this watermark: it is the last of its session, or that is open.
    fn first_open(&self, spans: Spans<'_>, after: Option<i64>) -> usize {
        let is_final = |&last: &i64, after| self.final_at(last.saturating_add(self.gap)) <= after;
        after.map_or(0, |after| spans.lasts.partition_point(|last| is_final(last, after)))
    }

    /// The earliest watermark at which a session that ends at `end` is final: a row exactly at the end still joins it, unless
    /// it is sealed.
    pub fn final_at(&self, end: i64) -> i64 {
        end.saturating_add(i64::from(!self.is_sealed))
    }

    /// How many spans of a key, from the first on, are in sessions that are final at this watermark.
    pub fn count_final(&self, Spans { firsts, lasts }: Spans<'_>, watermark: i64) -> usize {
        let is_final = |&last: &i64| self.final_at(last.saturating_add(self.gap)) <= watermark;
        let mut count = lasts.partition_point(is_final);
        while count > 0 && count < firsts.len() && self.joins(lasts[count - 1], firsts[count]) {
            count -= 1;
        }
        count
    }

    /// All sessions over ascending times, as `(first, last)`: the definition.
    pub fn windows(&self, times: &[i64]) -> Vec<(i64, i64)> {
        let mut sessions: Vec<(i64, i64)> = Vec::new();
        for &t in times {
            match sessions.last_mut() {
                Some((_, last)) if self.joins(*last, t) => *last = t,
                _ => sessions.push((t, t)),
            }
        }
        sessions
    }
}

impl Rules for Session {
    fn traits(&self) -> WindowTraits {
        WindowTraits { session: true, ..WindowTraits::of(Class::ForwardContextFree) }
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §5.1"
    }

    fn reach(&self) -> i64 {
        self.gap
    }

    fn accepts(&self) -> Accepts {
        // A session that then accepts a row is there as a whole: it ends at or after the horizon, and such sessions are
        // kept.
        Accepts::Since(self.gap - i64::from(self.is_sealed))
    }

    fn seals(&self) -> bool {
        self.is_sealed
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl ByTime for Session {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        cuts.gaps.push((since, self.gap));
    }

    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    ) {
        let Spans { firsts, lasts } = spans;
        let mut span = cursor.lo;
        if cursor.resume.is_none() {
            span = span.max(self.first_open(spans, ending.after));
        }
        let full = out.len().saturating_add(most);
        while span < firsts.len() && out.len() < full {
            let (hi, last) = self.onwards(spans, span);
            if self.final_at(last + self.gap) > ending.upto {
                // Later sessions end later.
                break;
            }
            // Only the first may begin earlier.
            let mut lo = span;
            while lo > 0 && self.joins(lasts[lo - 1], firsts[lo]) {
                lo -= 1;
            }
            out.push(Listed::new(lo, hi, self.extent(firsts[lo], last)));
            span = hi;
        }
        *cursor = Cursor { resume: Some(0), lo: span, hi: span };
    }

    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        let mut done = 0;
        for &t in changed {
            let after = spans.firsts.partition_point(|&first| first <= t);
            if after <= done {
                continue;
            }
            let session = self.around(spans, after - 1);
            done = session.hi as usize;
            // Its start is right: what is before a query's first row is not among the spans.
            if (Ending { since: None, ..*ending }).holds(session.start, self.final_at(session.end)) {
                out.push(session);
            }
        }
    }

    fn windows_per_span(&self) -> i64 {
        1
    }

    fn is_long(&self) -> bool {
        false
    }

    fn keeps_apart(&self, _: (i64, i64), _: Option<i64>, _: i64) -> bool {
        // Only the gap separates the slices of sessions.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_on_the_end_joins() {
        let session = Session::new(10);
        assert_eq!(session.windows(&[0, 10, 21]), [(0, 10), (21, 21)]);
        assert_eq!(session.extent(0, 10), (0, 20));
    }
}
