//! Landmark windows: all begin at a landmark, and end `every` units later each time.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | stored | slices, cut every `every` units from the landmark on |
//! | time | O(1) per row, and per window that is new |
//! | source | Li 2008, Eq. 5.7-5.9 (RANGE ALL), the landmark being a time that is told and not that of the first row |
//!
//! A window without a row since the one before says nothing new, so that there is none: their number is at most that of
//! slices.

use super::listing::Listed;

/// Windows `[s, s + every)`, `[s, s + 2·every)`, ... for a landmark s, or for one each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landmark {
    every: i64,
    start: i64,
    /// Distance of one landmark to the next; none if there is one landmark.
    period: Option<i64>,
}

impl Landmark {
    /// The windows of one landmark.
    ///
    /// # Panics
    /// Unless `every > 0`; plans check it with a proper error before.
    pub fn at(every: i64, start: i64) -> Self {
        assert!(every > 0, "every > 0");
        Self { every, start, period: None }
    }

    /// The windows of landmarks `offset + k·period`, each of which ends with its period.
    ///
    /// # Panics
    /// Unless `every > 0` divides `period`; plans check it with a proper error before.
    pub fn each(every: i64, period: i64, offset: i64) -> Self {
        assert!(every > 0 && period > 0 && period % every == 0, "every divides period");
        Self { every, start: offset.rem_euclid(period), period: Some(period) }
    }

    /// Distance of one window's end to the next.
    pub fn every(&self) -> i64 {
        self.every
    }

    /// The first landmark, if there is a first.
    pub fn first(&self) -> Option<i64> {
        self.period.is_none().then_some(self.start)
    }

    /// How far before a row the landmark of its windows may lie, where that depends on the row.
    pub fn period(&self) -> Option<i64> {
        self.period
    }

    /// Period and offset of its edges; before [`Landmark::first`] there are none.
    pub fn edges(&self) -> (i64, i64) {
        (self.every, self.start.rem_euclid(self.every))
    }

    /// The landmark of rows at `t`; none before the first.
    #[inline]
    pub fn landmark(&self, t: i64) -> Option<i64> {
        match self.period {
            Some(period) => Some(t - (t - self.start).rem_euclid(period)),
            None => (self.start <= t).then_some(self.start),
        }
    }

    /// `[start, end)` of the window that ends at `end`, one of its edges.
    pub fn extent(&self, end: i64) -> Option<(i64, i64)> {
        Some((self.landmark(end - 1)?, end))
    }

    /// The first window that a row at `t` belongs to: the one that ends next.
    #[inline]
    pub fn first_wid(&self, t: i64) -> Option<(i64, i64)> {
        let landmark = self.landmark(t)?;
        // The distance fits 64 bits, if not 63.
        let since = t.wrapping_sub(landmark) as u64 % self.every as u64;
        Some((landmark, t - since as i64 + self.every))
    }

    /// The windows that a row at `t` belongs to, by their ends: for one landmark without end.
    pub fn wids(&self, t: i64) -> impl Iterator<Item = i64> + use<> {
        let (every, last) = (self.every, self.period.and_then(|period| Some(self.landmark(t)? + period)));
        let first = self.first_wid(t).map(|(_, end)| end);
        std::iter::successors(first, move |&end| end.checked_add(every))
            .take_while(move |&end| last.is_none_or(|last| end <= last))
    }

    /// Lists the windows with a row of rank `since` or after that no earlier window has. O(rows from `since` on).
    pub fn list(&self, times: &[i64], since: usize, out: &mut Vec<Listed>) {
        let mut at = since.max(self.first().map_or(0, |first| times.partition_point(|&t| t < first)));
        let mut lo = None;
        while let Some(&t) = times.get(at) {
            let Some((landmark, end)) = self.first_wid(t) else { return };
            let from = match lo {
                Some((of, from)) if of == landmark => from,
                _ => times[..at].partition_point(|&t| t < landmark),
            };
            lo = Some((landmark, from));
            at += times[at..].iter().take_while(|&&t| t < end).count();
            out.push(Listed::new(from, at, (landmark, end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `wids` is the inverse of `extent`, over a stretch of ends.
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(
            every in 1i64..9, times in 1i64..5, start in -30i64..30, periodic: bool, t in -60i64..60,
        ) {
            let window = if periodic { Landmark::each(every, every * times, start) } else { Landmark::at(every, start) };
            let ends = (-100i64..=100).filter(|end| (end - start).rem_euclid(every) == 0);
            let covering: Vec<i64> = ends
                .filter(|&end| window.extent(end).is_some_and(|(from, to)| from <= t && t < to))
                .collect();
            let wids: Vec<i64> = window.wids(t).take_while(|&end| end <= 100).collect();
            prop_assert_eq!(wids, covering);
        }
    }

    #[test]
    fn a_landmark_far_away_does_not_overflow() {
        let window = Landmark::at(10, -(1 << 61));
        let t = i64::MAX - 100;
        let (start, end) = window.first_wid(t).unwrap();
        assert_eq!(start, -(1 << 61));
        assert!(t < end && end <= t + 10);
    }
}
