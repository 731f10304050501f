//! Days on which windows of days, weeks, months or years begin.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Date32Array};

use crate::interrupt::Pace;
use crate::window::{Measure, Zone};
use crate::{Error, Result};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// The day of each of these starts of windows, by the clocks of a zone if there is one: windows begin `shift` nanoseconds
/// after midnight, or soon after that where clocks skip this time. Null where the start is.
///
/// # Errors
/// `InvalidType` for what is no time, `InvalidValue` for an unknown zone, `Overflow` for days that 32 bits do not hold.
pub fn dates(starts: &ArrayRef, zone: Option<&str>, shift: i64) -> Result<ArrayRef> {
    let measure = Measure::new("starts", starts.data_type())?;
    let zone = zone.map(Zone::named).transpose()?;
    let per_day = NANOS_PER_DAY / measure.nanos_per_unit().unwrap_or(NANOS_PER_DAY);
    let (second, shift) = ((per_day / 86_400).max(1), shift / (NANOS_PER_DAY / per_day));
    let day = |start: i64| {
        let ahead = zone.as_ref().map_or(0, |zone| zone.offset_at(start.div_euclid(second)) * second);
        // A time that was skipped is nearer to its day than to the next, however late in the day windows begin.
        let by_clock = i128::from(start) + i128::from(ahead - shift + per_day / 2);
        let day = by_clock.div_euclid(i128::from(per_day));
        i32::try_from(day).map_err(|_| {
            Error::Overflow(format!(
                "windows: the day of {} does not fit a date of 32 bits",
                measure.shown(start)
            ))
        })
    };
    let values = measure.read(starts)?;
    let mut pace = Pace::new();
    let days = values.iter().enumerate().map(|(at, &start)| {
        pace.check(1)?;
        if starts.is_valid(at) { day(start).map(Some) } else { Ok(None) }
    });
    Ok(Arc::new(days.collect::<Result<Date32Array>>()?))
}
