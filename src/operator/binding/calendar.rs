//! Windows of a calendar's periods, bound to a measure of times.

use std::sync::Arc;

use arrow_schema::DataType;

use super::binder::Binder;
use crate::operator::window_spec::{Length, LocalTime};
use crate::types::named;
use crate::window::{Local, LocalLandmark, Periods, Unit, Window, Zone};
use crate::{Error, Result};

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

impl Binder<'_> {
    pub(super) fn local(
        &self,
        (size, slide): (Length, Length),
        start_time: Option<Length>,
        calendar: &LocalTime,
    ) -> Result<Window> {
        let zone = self.zone(calendar)?;
        let (unit, size) = self.whole_units("size", size)?;
        let (other, slide) = self.whole_units("slide", slide)?;
        if unit != other {
            return self.refused(format!(
                "the size of {} is a number of {} and its slide of {}; allowed are numbers of days or weeks for \
                 both, or of months, quarters or years for both",
                self.name,
                unit_name(unit),
                unit_name(other)
            ));
        }
        self.without_gaps(size, slide)?;
        let periods = self.periods((unit, slide), start_time, zone, calendar.week_start)?;
        self.fitting(Window::Local(Local::new(&periods, size, slide, periods.phase())))
    }

    pub(super) fn local_landmark(
        &self,
        (every, period): (Length, Length),
        start_time: Option<Length>,
        calendar: &LocalTime,
    ) -> Result<Window> {
        let zone = self.zone(calendar)?;
        let (unit, count) = self.whole_units("period", period)?;
        let periods = self.periods((unit, count), start_time, zone, calendar.week_start)?;
        let days = shortest(unit, count);
        let longer = || {
            self.refused(format!(
                "the every of {} is longer than its period; allowed are lengths up to the shortest period",
                self.name
            ))
        };
        self.fitting(Window::LocalLandmark(match self.units("every", every)? {
            Some((other, every)) if other == unit => {
                self.whole_windows(every, count)?;
                LocalLandmark::of_units(periods, every)
            }
            Some((Unit::Days, every)) if every <= days => LocalLandmark::of_days(periods, every),
            Some(_) => return longer(),
            None => {
                let every = self.positive("every", every)?;
                if every > periods.day().saturating_mul(days) {
                    return longer();
                }
                LocalLandmark::of_time(periods, every)
            }
        }))
    }

    /// A length in units of a calendar; `None` if it is not a whole number of days or months.
    fn units(&self, what: &str, length: Length) -> Result<Option<(Unit, i64)>> {
        let (unit, count) = match length {
            Length::Months(count) => (Unit::Months, count),
            Length::Nanoseconds(count) if count % NANOS_PER_DAY == 0 => (Unit::Days, count / NANOS_PER_DAY),
            Length::Nanoseconds(_) => return Ok(None),
            // The measure is one of times, so that these are errors.
            Length::Units(_) | Length::Rows(_) => return self.length(what, length).map(|_| None),
        };
        match i64::try_from(count) {
            Ok(count) if count <= 0 => {
                self.refused(format!("the {what} of {} is {count}; it must be above zero", self.name))
            }
            Ok(count) if count < 1 << 40 => Ok(Some((unit, count))),
            _ => self.refused(format!(
                "the {what} of {} is too long; allowed are lengths that fit the column",
                self.name
            )),
        }
    }

    /// A length of the calendar; other lengths are refused.
    fn whole_units(&self, what: &str, length: Length) -> Result<(Unit, i64)> {
        let refused = || {
            self.refused(format!(
                "the {what} of {} is not a whole number of days, weeks, months, quarters or years, which alone depend on a \
                 zone; give other lengths without zone, and shift them by start_time where its hours begin at other \
                 minutes",
                self.name
            ))
        };
        self.units(what, length)?.map_or_else(refused, Ok)
    }

    /// The zone. Measures that have no calendar are refused, and so are zones where they have no meaning.
    fn zone(&self, calendar: &LocalTime) -> Result<Option<Arc<Zone>>> {
        let (name, column, given) = (self.name, self.measure.column(), self.measure.data_type());
        if !self.measure.is_calendar() {
            return Err(Error::InvalidType(format!(
                "windows: {name} is of periods of a calendar, but column '{column}' is {given}; allowed are timestamps \
                 and dates",
                given = named(&given)
            )));
        }
        let Some(zone) = &calendar.zone else { return Ok(None) };
        match given {
            DataType::Timestamp(_, Some(_)) => Zone::named(zone).map(Some),
            DataType::Timestamp(_, None) => Err(Error::InvalidType(format!(
                "windows: {name} has the zone {zone:?}, but column '{column}' is {given}, whose times are taken as \
                 local time; allowed is a column of timestamps with a zone, or no zone",
                given = named(&given)
            ))),
            _ => Err(Error::InvalidType(format!(
                "windows: {name} has the zone {zone:?}, but column '{column}' is {given}, and dates are the same in \
                 every zone; allowed is no zone",
                given = named(&given)
            ))),
        }
    }

    /// The periods of a calendar of `count` units, such as weeks that begin with their first day.
    fn periods(
        &self,
        (unit, count): (Unit, i64),
        start_time: Option<Length>,
        zone: Option<Arc<Zone>>,
        week_start: Option<u8>,
    ) -> Result<Periods> {
        let day = NANOS_PER_DAY / i128::from(self.measure.nanos_per_unit().unwrap_or(1));
        let is_weeks = unit == Unit::Days && count % 7 == 0;
        if week_start.is_some() && !is_weeks {
            return self.refused(format!(
                "{} has a week_start; only windows that begin every week, or every few weeks, have one",
                self.name
            ));
        }
        // 1970-01-01 was a Thursday.
        let of_week = |start: u8| i64::from(start) - if start <= 3 { 3 } else { 10 };
        let mut phase = if is_weeks { of_week(week_start.unwrap_or(0)) } else { 0 };
        let mut shift = 0;
        match start_time {
            Some(Length::Months(months)) if unit == Unit::Months => {
                phase = i64::try_from(months).unwrap_or(i64::MAX);
            }
            Some(length) => shift = self.length("start_time", length)?,
            None => {}
        }
        let is_far = unit == Unit::Months && phase.unsigned_abs() >= count as u64;
        if is_far || i128::from(shift.unsigned_abs()) >= i128::from(shortest(unit, count)) * day {
            return self.refused(format!(
                "the start_time of {} is not less than the distance of its windows, forwards or backwards",
                self.name
            ));
        }
        Ok(Periods::new(zone, unit, count, phase, shift, day as i64))
    }

    /// Refuses windows so long that no time has room for them.
    fn fitting(&self, window: Window) -> Result<Window> {
        match window.reach() < 1 << 61 {
            true => Ok(window),
            false => self.refused(format!(
                "the windows of {} are too long for column '{}'; allowed are lengths below 2^61 {}",
                self.name,
                self.measure.column(),
                self.measure.unit_name()
            )),
        }
    }
}

/// The days of the shortest period of `count` units.
fn shortest(unit: Unit, count: i64) -> i64 {
    match unit {
        Unit::Days => count,
        Unit::Months => count * 28,
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Days => "days",
        Unit::Months => "months",
    }
}
