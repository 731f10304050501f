//! Sessions: rows of a key that follow each other within a gap.

use super::listing::Listed;

/// A session spans rows no further than `gap` apart, and ends `gap` after the last of them.
///
/// A row that falls exactly on the session's end still joins it, as in Spark's `session_window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    gap: i64,
}

impl Session {
    /// Sessions closed by `gap`.
    ///
    /// # Panics
    /// Unless `gap > 0`; plans check it with a proper error before.
    pub fn new(gap: i64) -> Self {
        assert!(gap > 0, "gap > 0");
        Self { gap }
    }

    /// The time without rows that closes a session.
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

    /// Lists the sessions with a row of rank `since` or after. O(rows of these sessions).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        if since >= times.len() {
            return;
        }
        let apart = |at: &usize| !self.joins(times[*at - 1], times[*at]);
        let mut lo = (1..=since).rev().find(apart).unwrap_or(0);
        while lo < times.len() {
            let hi = (lo + 1..times.len()).find(apart).unwrap_or(times.len());
            out.push(Listed::new(lo, hi, self.extent(times[lo], times[hi - 1])));
            lo = hi;
        }
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
