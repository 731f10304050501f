//! Periods of a calendar, such as days, weeks, months or years of a time zone: where they begin on the measure.
//!
//! | | |
//! |---|---|
//! | needs | the unit (days or months), how many of them a period has, and the zone |
//! | time | O(log n) per lookup, of n changes of the zone's clock; O(1) without a zone |
//! | source | days and months by number: Howard Hinnant, *chrono-compatible low-level date algorithms* |
//!
//! A period begins at the first instant at which the clock shows its first time or a later one. So a day whose midnight is
//! skipped begins with the first time that there is, one whose midnight comes twice begins with the first, and a day that
//! a zone skipped is empty. Periods follow each other without gaps, also where clocks are set back over midnight: what
//! they show again is in the new period.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::zone::Zone;

const DAY: i64 = 86_400;
/// Months further away are at no time that fits 64 bits.
const FARTHEST_MONTH: i64 = 1 << 52;

/// What periods are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Days since 1970-01-01.
    Days,
    /// Months since January 1970.
    Months,
}

impl Unit {
    /// The greatest number of days of one.
    fn most_days(self) -> i64 {
        match self {
            Unit::Days => 1,
            Unit::Months => 31,
        }
    }
}

/// Periods of a calendar: number k is the units from `phase + k·count` on.
#[derive(Clone, Serialize)]
pub struct Periods {
    #[serde(serialize_with = "by_name")]
    zone: Option<Arc<Zone>>,
    unit: Unit,
    count: i64,
    phase: i64,
    /// How much later than at midnight they begin by the clock.
    shift: i64,
    /// Units of the measure in a day.
    day: i64,
}

impl Periods {
    /// Periods of `count` units each, of which some begin with the unit `phase`, `shift` after midnight; `day` is the
    /// length of a day on the measure. With a zone, times of the measure are instants, and `day` is a multiple of the
    /// seconds of a day; else they are local times.
    ///
    /// # Panics
    /// Unless `count > 0` and `day > 0`; plans check this first and return a proper error.
    pub fn new(zone: Option<Arc<Zone>>, unit: Unit, count: i64, phase: i64, shift: i64, day: i64) -> Self {
        assert!(count > 0 && day > 0, "count > 0, day > 0");
        // What is a whole number of days becomes part of the phase, so that equal periods are equal.
        let (phase, shift) = match unit {
            Unit::Days => (phase + shift.div_euclid(day), shift.rem_euclid(day)),
            Unit::Months => (phase, shift),
        };
        Self { zone, unit, count, phase, shift, day }
    }

    /// This calendar with periods of another length.
    pub fn of(&self, count: i64, phase: i64) -> Self {
        assert!(count > 0, "count > 0");
        Self { count, phase, ..self.clone() }
    }

    /// The days of the calendar, beginning at the same time of the clock.
    pub fn days(&self) -> Self {
        let shift = self.shift.rem_euclid(self.day);
        Self { unit: Unit::Days, count: 1, phase: 0, shift, ..self.clone() }
    }

    /// The unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// How many units a period has.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// The unit with which period 0 begins.
    pub fn phase(&self) -> i64 {
        self.phase
    }

    /// By how much of the clock it begins after midnight.
    pub fn shift(&self) -> i64 {
        self.shift
    }

    /// The length of a day on the measure.
    pub fn day(&self) -> i64 {
        self.day
    }

    /// Units of the measure in a second, with a zone.
    pub fn second(&self) -> i64 {
        (self.day / DAY).max(1)
    }

    /// The zone, if there is one.
    pub fn zone(&self) -> Option<&Zone> {
        self.zone.as_deref()
    }

    /// A length that so many units do not exceed, with what a zone may add.
    pub fn at_most(&self, units: i64) -> i64 {
        units.saturating_mul(self.unit.most_days()).saturating_add(3).saturating_mul(self.day)
    }

    /// The period that `t` is in.
    pub fn index(&self, t: i64) -> i64 {
        let local = match &self.zone {
            None => t,
            Some(zone) => {
                let second = self.day / DAY;
                t.saturating_add(zone.offset_at(t.div_euclid(second)).saturating_mul(second))
            }
        };
        let day = local.saturating_sub(self.shift).div_euclid(self.day);
        let unit = match self.unit {
            Unit::Days => day,
            Unit::Months => month_of(day),
        };
        let mut index = (unit - self.phase).div_euclid(self.count);
        if self.zone.is_some() {
            // The clock may have been set back since a later period began.
            while self.edge(index + 1).is_some_and(|edge| edge <= t) {
                index += 1;
            }
        }
        index
    }

    /// Where a period begins; `None` if that does not fit 64 bits.
    pub fn edge(&self, index: i64) -> Option<i64> {
        self.unit_edge(index.checked_mul(self.count)?.checked_add(self.phase)?)
    }

    /// Where a unit begins.
    pub fn unit_edge(&self, unit: i64) -> Option<i64> {
        let day = match self.unit {
            Unit::Days => unit,
            Unit::Months => (-FARTHEST_MONTH..FARTHEST_MONTH).contains(&unit).then(|| first_day_of(unit))?,
        };
        let local = day.checked_mul(self.day)?.checked_add(self.shift)?;
        let Some(zone) = &self.zone else { return Some(local) };
        let second = self.day / DAY;
        let (start, offset) = zone.first_at(local.div_euclid(second));
        let instant = local.checked_sub(offset.checked_mul(second)?)?;
        Some(start.saturating_mul(second).max(instant))
    }

    /// The last edge at or before `t`, and the next; at the ends of int64 there is none beyond these.
    pub fn around(&self, t: i64) -> (i64, i64) {
        let index = self.index(t);
        // A period that the zone skipped has no length.
        let next =
            (index + 1..index + 4).map(|next| self.edge(next).unwrap_or(i64::MAX)).find(|&edge| edge > t);
        (self.edge(index).unwrap_or(i64::MIN), next.unwrap_or(i64::MAX))
    }
}

impl PartialEq for Periods {
    fn eq(&self, other: &Self) -> bool {
        let named = |periods: &Self| periods.zone().map(|zone| zone.name().to_owned());
        let numbers =
            |periods: &Self| (periods.unit, periods.count, periods.phase, periods.shift, periods.day);
        numbers(self) == numbers(other) && named(self) == named(other)
    }
}

impl Eq for Periods {}

/// Writes a zone as its name: its rules are those of the time-zone database in use.
fn by_name<S: Serializer>(zone: &Option<Arc<Zone>>, serializer: S) -> Result<S::Ok, S::Error> {
    zone.as_deref().map(Zone::name).serialize(serializer)
}

/// The zone by its name, without its rules.
impl fmt::Debug for Periods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, count, phase, shift, day, .. } = self;
        write!(formatter, "Periods({count} {unit:?} from {phase}, {shift} of {day}, ")?;
        match self.zone() {
            Some(zone) => write!(formatter, "{})", zone.name()),
            None => write!(formatter, "no zone)"),
        }
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// The number of the month of a day.
fn month_of(day: i64) -> i64 {
    // Years begin with March, so that a leap day is the last.
    let (era, of_era) =
        (day.saturating_add(TO_1970).div_euclid(ERA), day.saturating_add(TO_1970).rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    // March is month 2.
    (era * 400 + year - 1_970) * 12 + month + 2
}

/// The first day of a month.
fn first_day_of(month: i64) -> i64 {
    let from_march = month - 2 + 1_970 * 12;
    let (year, month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 - TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(name: &str) -> Option<Arc<Zone>> {
        (!name.is_empty()).then(|| Zone::named(name).unwrap())
    }

    /// Counted one by one, from the rules of leap years.
    #[test]
    fn months_begin_where_they_do() {
        let mut day = 0;
        for year in 1970..2810i64 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (at, length) in lengths.into_iter().enumerate() {
                let month = (year - 1970) * 12 + at as i64;
                for shift in [0, ERA, -ERA, 100_000 * ERA, -100_000 * ERA] {
                    let (day, month) = (day + shift, month + shift / ERA * 4_800);
                    assert_eq!(first_day_of(month), day);
                    assert_eq!((month_of(day), month_of(day + length - 1)), (month, month));
                }
                day += length;
            }
        }
    }

    /// The days of a zone that are not like others.
    #[test]
    fn days_begin_with_the_first_time_of_the_clock() {
        let days = |name, day: i64| {
            let periods = Periods::new(zone(name), Unit::Days, 1, 0, 0, DAY);
            let edge = |day| periods.edge(day).unwrap();
            ((edge(day) - day * DAY) / 60, (edge(day + 1) - edge(day)) / 60)
        };
        // 23 and 25 hours: 2024-03-10 and 2024-11-03.
        assert_eq!(days("America/New_York", 19_792), (300, 23 * 60));
        assert_eq!(days("America/New_York", 20_030), (240, 25 * 60));
        // No midnight: 2018-11-04, which begins at 01:00, and in Beirut 2024-03-31.
        assert_eq!(days("America/Sao_Paulo", 17_839), (180, 23 * 60));
        assert_eq!(days("Asia/Beirut", 19_813), (-120, 23 * 60));
        // Midnight comes twice: 2024-11-03.
        assert_eq!(days("America/Havana", 20_030), (240, 25 * 60));
        // Skipped: 2011-12-30.
        assert_eq!(days("Pacific/Apia", 15_338), (10 * 60, 0));
        assert_eq!(days("+02:00", 0), (-120, 24 * 60));
        assert_eq!(days("", 5), (0, 24 * 60));
    }

    proptest! {
        /// A time is in the last period that has begun.
        #[test]
        fn a_time_is_in_the_last_period_that_has_begun(
            name in prop::sample::select(vec![
                "", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut", "Pacific/Apia",
                "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata", "Africa/Casablanca", "-03:30", "UTC",
            ]),
            months: bool, count in 1i64..40, phase in -50i64..50, shift in -90_000i64..90_000,
            near in prop_oneof![-5_000i64..30_000, Just(20_030), Just(19_792)],
            beyond in -90_000i64..90_000, far in prop_oneof![Just(0i64), -100i64..100], fine: bool,
        ) {
            let scale = if fine { 1_000_000 } else { 1 };
            let unit = if months { Unit::Months } else { Unit::Days };
            let periods = Periods::new(zone(name), unit, count, phase, shift * scale, DAY * scale);
            let t = (near * DAY + beyond + far * ERA * DAY) * scale + i64::from(fine) * beyond % 7;
            let index = periods.index(t);
            prop_assert!(periods.edge(index).unwrap() <= t);
            prop_assert!(t < periods.edge(index + 1).unwrap());
            let (from, to) = periods.around(t);
            prop_assert_eq!(from, periods.edge(index).unwrap());
            prop_assert!(t < to && to - from <= periods.at_most(count));
            // A period may have no length, but none is passed over.
            prop_assert_eq!(periods.index(to), (index + 1..).take_while(|&next| periods.edge(next) == Some(to)).last().unwrap());
        }

        /// Whatever is given, nothing overflows unnoticed.
        #[test]
        fn nothing_wraps(index: i64, t: i64, months: bool, zoned: bool, fine: bool, count in 1i64..100) {
            let day = if fine { DAY * 1_000_000_000 } else { DAY };
            let unit = if months { Unit::Months } else { Unit::Days };
            let periods = Periods::new(zone(if zoned { "Europe/Paris" } else { "" }), unit, count, 3, 0, day);
            if let Some(edge) = periods.edge(index) {
                prop_assert_eq!(periods.index(edge), index);
            }
            let (from, to) = periods.around(t);
            prop_assert!(from <= t && (t < to || t == i64::MAX));
        }
    }
}
