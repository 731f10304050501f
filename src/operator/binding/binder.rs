//! Lengths, places and columns of windows, bound to a measure and a schema.

use arrow_schema::{DataType, Schema};

use crate::operator::schema::{find, is_boolean};
use crate::operator::window_spec::{Length, Moment};
use crate::types::named;
use crate::window::{GapColumn, Measure};
use crate::{Error, Result};

/// What lengths are bound to.
pub(super) struct Binder<'a> {
    pub(super) name: &'a str,
    pub(super) measure: &'a Measure,
}

impl Binder<'_> {
    pub(super) fn refused<T>(&self, why: String) -> Result<T> {
        Err(Error::InvalidValue(format!("windows: {why}")))
    }

    /// Why a number of nanoseconds or units is not valid for the measure, or `None` if it is valid.
    fn check_kind(&self, argument: &str, is_time: bool) -> Result<()> {
        let (name, column) = (self.name, self.measure.column());
        match (is_time, self.measure.nanos_per_unit()) {
            (true, None) => Err(Error::InvalidType(format!(
                "windows: the {argument} of {name} is a duration, but column '{column}' is an integer; expected an \
                 integer length"
            ))),
            (false, Some(_)) => Err(Error::InvalidType(format!(
                "windows: the {argument} of {name} is an integer, but column '{column}' counts {}; allowed are \
                 durations such as '10 minutes'",
                self.measure.unit_name()
            ))),
            _ => Ok(()),
        }
    }

    /// A length, or a place, in units of the measure.
    fn in_units(&self, what: &str, count: i128, is_place: bool) -> Result<i64> {
        let (name, column, unit) = (self.name, self.measure.column(), self.measure.unit_name());
        if count % i128::from(self.measure.resolution().unwrap_or(1)) != 0 {
            return self.refused(format!(
                "the {what} of {name} is finer than column '{column}', which counts {unit}; allowed are multiples of \
                 its unit"
            ));
        }
        let units = count / i128::from(self.measure.nanos_per_unit().unwrap_or(1));
        // The distance of two places still fits 64 bits, and so does a place with a length twice over.
        let below = if is_place { 1 << 62 } else { 1 << 61 };
        match i64::try_from(units) {
            Ok(units) if units.unsigned_abs() < below => Ok(units),
            _ if is_place => {
                let zero = if self.measure.is_calendar() { "1970-01-01" } else { "0" };
                self.refused(format!(
                    "the {what} of {name} is too far from {zero} for column '{column}'; allowed are less than 2^62 {unit} \
                     from there"
                ))
            }
            _ => self.refused(format!(
                "the {what} of {name} is too long for column '{column}'; allowed are lengths below 2^61 {unit}"
            )),
        }
    }

    /// A length in units of the measure.
    pub(super) fn length(&self, what: &str, length: Length) -> Result<i64> {
        let (is_time, count) = match length {
            Length::Nanoseconds(count) => (true, count),
            Length::Units(count) => (false, count),
            Length::Rows(count) => {
                return Err(Error::InvalidType(format!(
                    "windows: the {what} of {} is {count} rows; allowed are lengths of column '{}'",
                    self.name,
                    self.measure.column()
                )));
            }
            Length::Months(count) => {
                return self.refused(format!(
                    "the {what} of {} is {count} months, which are periods of a calendar; allowed is a fixed length such as \
                     '30 days'",
                    self.name
                ));
            }
        };
        self.check_kind(what, is_time)?;
        self.in_units(what, count, false)
    }

    pub(super) fn positive(&self, what: &str, length: Length) -> Result<i64> {
        match self.length(what, length)? {
            length if length > 0 => Ok(length),
            length => self.refused(format!("the {what} of {} is {length}; it must be above zero", self.name)),
        }
    }

    pub(super) fn offset(&self, start_time: Option<Length>) -> Result<i64> {
        start_time.map_or(Ok(0), |length| self.length("start_time", length))
    }

    pub(super) fn rows(&self, what: &str, count: i128) -> Result<usize> {
        match u32::try_from(count) {
            Ok(rows) if rows > 0 => Ok(rows as usize),
            _ => self.refused(format!(
                "the {what} of {} is {count} rows; allowed are numbers of rows from 1 to {}",
                self.name,
                u32::MAX
            )),
        }
    }

    /// Refuses options that have no meaning for these lengths.
    pub(super) fn refuse(&self, option: &str, given: bool, of: &str) -> Result<()> {
        if given {
            return self.refused(format!("{} has {option}; only windows {of} have one", self.name));
        }
        Ok(())
    }

    /// Refuses windows between which there are rows.
    pub(super) fn without_gaps<T: Ord>(&self, size: T, slide: T) -> Result<()> {
        if slide > size {
            return self.refused(format!(
                "the slide of {} is greater than its size; rows between two windows would be in no window",
                self.name
            ));
        }
        Ok(())
    }

    /// Refuses periods within which the last window would not end.
    pub(super) fn whole_windows(&self, every: i64, period: i64) -> Result<()> {
        if period % every != 0 {
            return self.refused(format!(
                "the period of {} is not a multiple of every; allowed are multiples, so that a window ends with its \
                 period",
                self.name
            ));
        }
        Ok(())
    }

    /// The position of a boolean column.
    pub(super) fn marks(&self, input: &Schema, column: &str) -> Result<usize> {
        let at = find(input, "windows", column)?;
        match input.field(at).data_type() {
            kind if is_boolean(kind) => Ok(at),
            given => Err(Error::InvalidType(format!(
                "windows: {} reads column '{column}', which is {given}; allowed are booleans",
                self.name,
                given = named(given)
            ))),
        }
    }

    /// A column of gaps.
    pub(super) fn gaps(&self, input: &Schema, column: &str) -> Result<GapColumn> {
        let position = find(input, "windows", column)?;
        let given = input.field(position).data_type();
        let (is_time, allowed) = match self.measure.nanos_per_unit() {
            Some(_) => (true, "durations"),
            None => (false, "integers"),
        };
        let unit = match given {
            DataType::Duration(_) if is_time => Measure::new(column, given)?.nanos_per_unit(),
            _ if given.is_integer() && !is_time => Some(1),
            // No row is in a session.
            DataType::Null => Some(1),
            _ => None,
        };
        let Some(unit) = unit else {
            return Err(Error::InvalidType(format!(
                "windows: {} takes gaps from column '{column}', which is {given}; allowed are {allowed}, as column '{}' \
                 counts {}",
                self.name,
                self.measure.column(),
                self.measure.unit_name(),
                given = named(given)
            )));
        };
        let (per, step) = (self.measure.nanos_per_unit(), self.measure.resolution());
        Ok(GapColumn {
            position,
            name: column.to_owned(),
            unit,
            per: per.unwrap_or(1),
            step: step.unwrap_or(1),
        })
    }

    pub(super) fn moment(&self, what: &str, moment: Moment) -> Result<i64> {
        let (name, column) = (self.name, self.measure.column());
        let given = self.measure.data_type();
        let refused = |is: &str, allowed: &str| {
            Err(Error::InvalidType(format!(
                "windows: the {what} of {name} is {is}, but column '{column}' is {given}; allowed are {allowed}",
                given = named(&given)
            )))
        };
        match (moment, &given) {
            (Moment::Units(value), DataType::Int64) => self.in_units(what, value, true),
            (_, DataType::Int64) => refused("a time", "integers"),
            (Moment::Units(_), DataType::Duration(_)) => {
                refused("an integer", "durations such as '10 minutes'")
            }
            (Moment::Units(_), _) => refused("an integer", "times such as '2024-01-31 12:00:00'"),
            (Moment::Elapsed(nanoseconds), DataType::Duration(_)) => self.in_units(what, nanoseconds, true),
            (Moment::Elapsed(_), _) => refused("a duration", "times such as '2024-01-31 12:00:00'"),
            (Moment::Instant { .. }, DataType::Duration(_)) => {
                refused("a time", "durations such as '10 minutes'")
            }
            (Moment::Instant { zoned: true, .. }, DataType::Timestamp(_, None)) => {
                refused("a time with a zone", "times without zone such as '2024-01-31 12:00:00'")
            }
            (Moment::Instant { zoned: true, .. }, DataType::Date32 | DataType::Date64) => {
                refused("a time with a zone", "dates such as '2024-01-31'")
            }
            (Moment::Instant { zoned: false, .. }, DataType::Timestamp(_, Some(_))) => {
                refused("a time without zone", "times with a zone such as '2024-01-31 12:00:00Z'")
            }
            (Moment::Instant { nanoseconds, .. }, _) => self.in_units(what, nanoseconds, true),
        }
    }
}
