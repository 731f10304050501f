//! Landmark windows whose landmarks are where periods of a calendar begin, such as the local day so far, every hour.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | stored | slices, cut every `every` from a landmark on, and at the end of its period |
//! | time | O(1) per row while rows stay in a slice, O(log n) per slice and window, of n changes of the zone's clock |
//! | source | Li 2008, Eq. 5.7-5.9 (RANGE ALL), with periods' starts as landmarks |
//!
//! `every` is a number of units that divides those of a period, or a number of days of a period of months, or a length of
//! time that has passed since the landmark, whatever the clock shows; the last window ends with its period.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::Cuts;
use super::growing::{self, Growing, Stretch};
use super::ids::{Beyond, Ids, Range};
use super::periods::Periods;
use super::rules::{ByTime, Rules, listed_by};
use super::spans::Ending;
use super::timetable::Timetable;

/// Windows that begin with a period and end at each edge up to the end of the period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalLandmark {
    periods: Periods,
    ends: Timetable,
    /// The periods whose starts are the ends of windows, if they are.
    numbers: Option<Periods>,
}

impl LocalLandmark {
    /// Windows that end every so many units of the periods.
    ///
    /// # Panics
    /// Unless `every > 0` divides the units of a period; plans check this first and return a proper error.
    pub fn of_units(periods: Periods, every: i64) -> Self {
        assert!(every > 0 && periods.count() % every == 0, "every divides the period");
        let numbers = periods.of(every, periods.phase());
        Self { periods, ends: Timetable::of(&numbers), numbers: Some(numbers) }
    }

    /// Windows that end every so many days after the beginning of their period, and with it.
    ///
    /// # Panics
    /// Unless `every > 0`; plans check this first and return a proper error.
    pub fn of_days(periods: Periods, every: i64) -> Self {
        assert!(every > 0, "every > 0");
        let numbers = (every == 1).then(|| periods.days());
        let ends = match &numbers {
            Some(days) => Timetable::of(days),
            None => Timetable::Days { periods: periods.clone(), every },
        };
        Self { periods, ends, numbers }
    }

    /// Windows that end every so long after the beginning of their period, and with it.
    ///
    /// # Panics
    /// Unless `every > 0`; plans check this first and return a proper error.
    pub fn of_time(periods: Periods, every: i64) -> Self {
        assert!(every > 0, "every > 0");
        let ends = Timetable::Within { periods: periods.clone(), every };
        Self { periods, ends, numbers: None }
    }

    /// The landmark of rows at `t`, and where the last of their windows ends.
    pub fn period(&self, t: i64) -> (i64, i64) {
        self.periods.around(t)
    }

    /// The stretch between two edges that `t` lies in.
    pub fn edges(&self, t: i64) -> (i64, i64) {
        self.ends.around(t)
    }

    /// `[start, end)` of the window that ends at `end`, one of its edges.
    pub fn extent(&self, end: i64) -> (i64, i64) {
        (self.period(end - 1).0, end)
    }

    /// The periods with which windows end, by which they are numbered; `None` if their ends lie otherwise.
    pub fn numbers(&self) -> Option<&Periods> {
        self.numbers.as_ref()
    }
}

impl Growing for LocalLandmark {
    fn only(&self) -> Option<i64> {
        None
    }

    fn around(&self, t: i64) -> Option<Stretch> {
        let (from, to) = self.edges(t);
        Some(Stretch { landmark: self.period(t).0, from, to })
    }

    fn last_end(&self, landmark: i64) -> Option<i64> {
        Some(self.period(landmark).1)
    }
}

impl Rules for LocalLandmark {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.7-5.9, over periods"
    }

    fn reach(&self) -> i64 {
        self.periods.at_most(self.periods.count())
    }

    fn calendar(&self) -> Option<&Periods> {
        Some(&self.periods)
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

impl ByTime for LocalLandmark {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        cuts.timetables.push((self.ends.clone(), since));
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

/// Windows by their ends, as those of other landmarks: window `id` ends with the period `id` of those that end them.
impl Ids for LocalLandmark {
    fn ids_at(&self, t: i64, _: i64) -> Range {
        let Some(ends) = self.numbers() else { return Err(Beyond) };
        // The period may be followed by one without length.
        Ok(Some((ends.index(t), ends.index(self.period(t).1 - 1))))
    }

    fn extent_of(&self, id: i64, _: i64) -> Range {
        let end = self.numbers().and_then(|ends| ends.edge(id.checked_add(1)?)).ok_or(Beyond)?;
        end.checked_sub(self.reach()).ok_or(Beyond)?;
        Ok(Some(self.extent(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::periods::Unit;
    use super::super::zone::Zone;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A row is in the windows that end after it and begin at or before it, which one stretch after the other shows.
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(
            zone in prop::sample::select(vec!["America/New_York", "America/Sao_Paulo", "Europe/Dublin", "+05:45"]),
            units: bool, months: bool, times in 1i64..5, every in 1i64..5, day in 0i64..20_000, second in 0i64..86_400,
        ) {
            let zone = Some(Zone::named(zone).unwrap());
            let unit = if months { Unit::Months } else { Unit::Days };
            let periods = Periods::new(zone, unit, times * every, 0, 0, 86_400);
            let window = match (units, months) {
                (true, _) => LocalLandmark::of_units(periods, every),
                (false, true) => LocalLandmark::of_days(periods, every),
                (false, false) => LocalLandmark::of_time(periods, every * 7_000),
            };
            let t = day * 86_400 + second;
            let (landmark, last) = window.period(t);
            let mut ends = Vec::new();
            let mut end = landmark;
            while end < last {
                end = window.edges(end).1;
                ends.push(end);
            }
            prop_assert_eq!(end, last);
            let covers = |&&end: &&i64| { let (start, end) = window.extent(end); start <= t && t < end };
            let first = ends.iter().find(covers).copied();
            prop_assert_eq!(first, Some(window.edges(t).1));
            if window.numbers().is_some() {
                let (from, to) = window.ids_at(t, 0).unwrap().unwrap();
                let extents: Vec<_> = (from..=to).map(|id| window.extent_of(id, 0).unwrap().unwrap()).collect();
                let wanted: Vec<_> = ends.iter().filter(covers).map(|&end| (landmark, end)).collect();
                prop_assert_eq!(extents, wanted);
            }
        }
    }
}
