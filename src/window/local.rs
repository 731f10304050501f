//! Windows of calendar periods: numbers of days, weeks, months or years, of a zone's local time or of the measure's own.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | stored | slices, cut where windows begin and end |
//! | time | O(1) per row while rows stay in a slice, O(log n) per slice and window, of n changes of the zone's clock |
//! | source | Li 2008, Eq. 5.1-5.3, with periods instead of units; where periods begin is in `periods` |
//!
//! Where a day has 23 or 25 hours, so has its window. Counted in periods they are sliding windows of one size.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::Cuts;
use super::ids::{Beyond, Ids, Range};
use super::periods::Periods;
use super::rules::{Accepts, ByTime, Rules, listed_by};
use super::series::{self, Series};
use super::spans::{Ending, Spans};
use super::timetable::Timetable;

/// Windows of `size` units of a calendar, one starting every `slide` units. Window 0 begins with the unit `phase`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Local {
    units: Periods,
    size: i64,
    slide: i64,
    phase: i64,
}

impl Local {
    /// Windows of the units `[phase + k·slide, phase + k·slide + size)` of a calendar, for every integer `k`.
    ///
    /// # Panics
    /// Unless `0 < slide <= size`; plans check this first and return a proper error.
    pub fn new(calendar: &Periods, size: i64, slide: i64, phase: i64) -> Self {
        assert!(0 < slide && slide <= size, "0 < slide <= size");
        // What shifts days by days is in the calendar's phase.
        let units = calendar.of(1, 0);
        Self { units, size, slide, phase }
    }

    /// `[start, end)` of a window (5.2); `None` if an edge does not fit 64 bits.
    pub fn extent(&self, number: i64) -> Option<(i64, i64)> {
        let unit = number.checked_mul(self.slide)?.checked_add(self.phase)?;
        Some((self.units.unit_edge(unit)?, self.units.unit_edge(unit.checked_add(self.size)?)?))
    }

    /// The first and the last window that a row at `t` belongs to (5.3).
    pub fn wids(&self, t: i64) -> (i64, i64) {
        (self.first_after(t), self.last_begun(t))
    }

    /// The calendars of all edges, starts and ends.
    fn timetables(&self) -> impl Iterator<Item = Timetable> {
        let ends = (self.size % self.slide != 0).then_some(self.phase + self.size);
        let phases = [Some(self.phase), ends].into_iter().flatten();
        phases.map(|phase| Timetable::of(&self.units.of(self.slide, phase)))
    }
}

/// Numbered by how many begin before them since 1970.
impl Series for Local {
    fn step(&self) -> i64 {
        1
    }

    fn extent_at(&self, number: i64) -> (i64, i64) {
        let far = if number < 0 { i64::MIN } else { i64::MAX };
        self.extent(number).unwrap_or((far, far))
    }

    fn first_after(&self, t: i64) -> i64 {
        self.last_ended(t) + 1
    }

    fn last_begun(&self, t: i64) -> i64 {
        (self.units.index(t) - self.phase).div_euclid(self.slide)
    }

    fn last_ended(&self, t: i64) -> i64 {
        (self.units.index(t) - self.phase - self.size).div_euclid(self.slide)
    }

    fn lengths(&self) -> (i64, i64) {
        (self.size, self.slide)
    }
}

impl Rules for Local {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.1-5.3, over periods"
    }

    fn reach(&self) -> i64 {
        self.units.at_most(self.size.saturating_add(self.slide))
    }

    fn calendar(&self) -> Option<&Periods> {
        Some(&self.units)
    }

    fn takes_from(&self, horizon: i64, bounds: (i64, i64)) -> i64 {
        series::takes_from(self, horizon, bounds)
    }

    fn accepts(&self) -> Accepts {
        Accepts::Any
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl ByTime for Local {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        match since {
            None => cuts.timetables.extend(self.timetables().map(|table| (table, None))),
            Some(since) => {
                // Ends of windows that start after `since` are after its own next start.
                let (start, end) = self.extent_at(self.last_begun(since) + 1);
                let from = |at: i64| Some(at.saturating_sub(1));
                let since = [from(start), from(end)];
                cuts.timetables.extend(self.timetables().zip(since));
            }
        }
    }

    listed_by!(series);

    fn count(&self, spans: Spans<'_>, ending: &Ending) -> u64 {
        series::count(self, spans, ending)
    }

    fn may_end(&self, ending: &Ending) -> bool {
        ending.may_hold(|after| Some(self.extent_at(self.first_after(after)).1))
    }
}

/// Window `id` begins with the unit `phase + id·slide`, whatever is given for zero.
impl Ids for Local {
    fn ids_at(&self, t: i64, _: i64) -> Range {
        Ok(Some(self.wids(t)))
    }

    fn extent_of(&self, id: i64, _: i64) -> Range {
        self.extent(id).map(Some).ok_or(Beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::super::periods::Unit;
    use super::super::zone::Zone;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `wids` is the inverse of `extent`.
        #[test]
        fn a_row_belongs_to_the_windows_that_cover_it(
            zone in prop::sample::select(vec!["America/New_York", "America/Sao_Paulo", "Pacific/Apia", "-03:00"]),
            months: bool, size in 1i64..9, slide in 1i64..9, phase in -9i64..9, day in 0i64..20_000, second in 0i64..86_400,
        ) {
            let unit = if months { Unit::Months } else { Unit::Days };
            let calendar = Periods::new(Some(Zone::named(zone).unwrap()), unit, 1, 0, 0, 86_400);
            let window = Local::new(&calendar, size.max(slide), slide.min(size), phase);
            let t = day * 86_400 + second;
            let near = calendar.index(t) / window.slide;
            let covering: Vec<i64> = (near - 30..near + 30)
                .filter(|&number| window.extent(number).is_some_and(|(start, end)| start <= t && t < end))
                .collect();
            let (first, last) = window.wids(t);
            prop_assert_eq!((first..=last).collect::<Vec<_>>(), covering);
        }
    }
}
