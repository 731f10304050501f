//! Lengths in units of a query's measure.

use super::Length;
use crate::window::Measure;
use crate::{Error, Result};

/// A length of time in units of the measure.
///
/// # Errors
/// `InvalidType` for a duration of an integer column and vice versa; `InvalidValue` for a length that is negative, too
/// long, or finer than the measure.
pub fn length(measure: &Measure, argument: &str, given: Length) -> Result<i64> {
    let column = measure.column();
    let (is_time, length) = match given {
        Length::Nanoseconds(count) => (true, count),
        Length::Units(count) => (false, count),
        Length::Rows(_) | Length::Months(_) => {
            return Err(Error::InvalidType(format!("{argument}: it is neither a duration nor an integer")));
        }
    };
    let units = match (is_time, measure.nanos_per_unit()) {
        (true, None) => {
            return Err(Error::InvalidType(format!(
                "{argument}: it is a duration, but column '{column}' is an integer; expected an integer length"
            )));
        }
        (false, Some(_)) if length != 0 => {
            return Err(Error::InvalidType(format!(
                "{argument}: it is an integer, but column '{column}' counts {}; allowed are durations such as \
                 '10 minutes'",
                measure.unit_name()
            )));
        }
        (_, nanos) => i128::from(nanos.unwrap_or(1)),
    };
    if length % units != 0 {
        return Err(Error::InvalidValue(format!(
            "{argument}: it is finer than column '{column}', which counts {}; allowed are multiples of its unit",
            measure.unit_name()
        )));
    }
    i64::try_from(length / units).ok().filter(|length| (0..1 << 61).contains(length)).ok_or_else(|| {
        Error::InvalidValue(format!(
            "{argument}: {} {} are out of range; allowed are lengths from 0 and below 2^61",
            length / units,
            measure.unit_name()
        ))
    })
}
