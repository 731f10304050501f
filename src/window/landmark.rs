//! Landmark windows: all begin at a landmark, and one ends every `every` units.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | stored | slices, cut every `every` units from the landmark on |
//! | time | O(1) per row, and per new window |
//! | source | Li 2008, Eq. 5.7-5.9 (RANGE ALL), with a given time as the landmark instead of that of the first row |
//!
//! A window without new rows since the previous one is left out, as it would repeat that one's result: there are at
//! most as many windows as slices.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::{Cuts, next};
use super::growing::{self, Growing, Stretch};
use super::ids::{Beyond, Ids, Range, stepped, steps};
use super::rules::{ByTime, Rules, listed_by};
use super::spans::Ending;

/// Windows `[s, s + every)`, `[s, s + 2·every)`, ... for a landmark s, or for one each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Landmark {
    every: i64,
    start: i64,
    /// Distance from one landmark to the next; `None` if there is a single landmark.
    period: Option<i64>,
}

impl Landmark {
    /// The windows of one landmark.
    ///
    /// # Panics
    /// Unless `every > 0`; plans check this first and return a proper error.
    pub fn at(every: i64, start: i64) -> Self {
        assert!(every > 0, "every > 0");
        Self { every, start, period: None }
    }

    /// The windows of landmarks `offset + k·period`, each of which ends with its period.
    ///
    /// # Panics
    /// Unless `every > 0` divides `period`; plans check this first and return a proper error.
    pub fn each(every: i64, period: i64, offset: i64) -> Self {
        assert!(every > 0 && period > 0 && period % every == 0, "every divides period");
        Self { every, start: offset.rem_euclid(period), period: Some(period) }
    }

    /// Distance from one window's end to the next.
    pub fn every(&self) -> i64 {
        self.every
    }

    /// The first landmark, if there is one.
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

    /// The landmark of rows at `t`; `None` before the first.
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

    /// The windows that a row at `t` belongs to, by their ends: infinitely many for a single landmark.
    pub fn wids(&self, t: i64) -> impl Iterator<Item = i64> + use<> {
        let (every, last) = (self.every, self.period.and_then(|period| Some(self.landmark(t)? + period)));
        let first = self.first_wid(t).map(|(_, end)| end);
        std::iter::successors(first, move |&end| end.checked_add(every))
            .take_while(move |&end| last.is_none_or(|last| end <= last))
    }
}

impl Growing for Landmark {
    fn only(&self) -> Option<i64> {
        self.first()
    }

    #[inline]
    fn around(&self, t: i64) -> Option<Stretch> {
        self.first_wid(t).map(|(landmark, to)| Stretch { landmark, from: to - self.every, to })
    }

    fn last_end(&self, landmark: i64) -> Option<i64> {
        self.period.map(|period| landmark.saturating_add(period))
    }
}

impl Rules for Landmark {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.7-5.9"
    }

    fn reach(&self) -> i64 {
        self.every.max(self.period.unwrap_or(0))
    }

    fn takes_from(&self, horizon: i64, bounds: (i64, i64)) -> i64 {
        growing::takes_from(self, horizon, bounds)
    }

    fn is_cumulative(&self) -> bool {
        true
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl ByTime for Landmark {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        match (self.first(), since) {
            (Some(first), None) => cuts.rays.push((self.every, first)),
            (None, None) => cuts.families.push(self.edges()),
            (Some(first), Some(since)) if first > since => cuts.rays.push((self.every, first)),
            (first, Some(since)) => {
                let family = first.map_or(self.edges(), |first| (self.every, first));
                cuts.rays.extend(next(family, since).map(|next| (family.0, next)));
            }
        }
    }

    listed_by!(growing);

    fn news(&self, extent: (i64, i64)) -> (i64, i64) {
        growing::news(self, extent)
    }

    fn begun_upto(&self, now: i64) -> i64 {
        growing::begun_upto(self, now)
    }

    fn may_end(&self, ending: &Ending) -> bool {
        growing::may_end(self, ending)
    }
}

/// Windows by their ends: window `id` ends at `zero + (id + 1)·every`. Those of a single landmark have ids from 0 on, of
/// which a row is in all from its first one on.
impl Ids for Landmark {
    #[inline]
    fn ids_at(&self, t: i64, zero: i64) -> Range {
        let Some((landmark, end)) = self.first_wid(t) else { return Ok(None) };
        let Some(period) = self.period() else {
            return Ok(Some((steps(landmark, end, self.every())? - 1, i64::MAX)));
        };
        let id = |end: i64| steps(zero, end, self.every())?.checked_sub(1).ok_or(Beyond);
        Ok(Some((id(end)?, id(landmark + period)?)))
    }

    #[inline]
    fn extent_of(&self, id: i64, zero: i64) -> Range {
        let zero = self.first().unwrap_or(zero);
        if self.first().is_some() && id < 0 {
            return Ok(None);
        }
        let end = stepped(zero, i128::from(id) + 1, self.every())?;
        // The landmark of a period is looked for before the end.
        end.checked_sub(1).and_then(|last| last.checked_sub(self.reach())).ok_or(Beyond)?;
        Ok(self.extent(end))
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
