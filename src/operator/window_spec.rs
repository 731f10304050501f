//! Windows as a query states them, and bound to the units of a measure: every check that needs no rows.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};

use super::schema::find;
use crate::window::{
    Arrivals, Band, Between, Counted, Gap, GapColumn, Global, Landmark, LastRows, LastTime, Local,
    LocalLandmark, Mark, Measure, Periods, Punctuation, RowSession, Session, Sliding, Unit, User, UserWindow,
    Window, Zone,
};
use crate::{Error, Result};

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// A length as a query states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Of time.
    Nanoseconds(i128),
    /// Of an integer measure.
    Units(i128),
    /// Of ranks.
    Rows(i128),
    /// Of a calendar.
    Months(i128),
}

/// By which calendar the periods of windows are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalTime {
    /// The time zone; without one, times are as they are in the column, those with a zone in UTC.
    pub zone: Option<String>,
    /// The day with which weeks begin, from 0 for Monday on.
    pub week_start: Option<u8>,
}

/// A place on the measure as a query states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since 1970-01-01 00:00:00, of UTC if `zoned`, else of the clock on the wall.
    Instant {
        /// How many.
        nanoseconds: i128,
        /// Whether a zone was given.
        zoned: bool,
    },
    /// A duration, of a column of durations.
    Elapsed(i128),
    /// A value of an integer measure.
    Units(i128),
}

/// The gap of sessions as a query states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapSpec {
    /// One for all rows.
    Length(Length),
    /// Each row's, in this column.
    Column(String),
}

/// The window types of the language.
#[derive(Clone)]
pub enum WindowKind {
    /// Windows that do not overlap and leave no gaps.
    Tumbling {
        /// Length of a window.
        size: Length,
        /// Offset of starts.
        start_time: Option<Length>,
        /// Of windows by rows: whether incomplete windows at the end are emitted.
        partial: bool,
    },
    /// Windows that overlap; size and slide may be of different measures.
    Sliding {
        /// Length of a window.
        size: Length,
        /// Distance of starts (or, of two measures, ends).
        slide: Length,
        /// Offset of starts.
        start_time: Option<Length>,
        /// As of tumbling windows.
        partial: bool,
    },
    /// The last stretch of time whenever so many rows have arrived.
    Arrivals {
        /// The length of the stretch.
        size: Length,
        /// How many rows.
        slide: Length,
    },
    /// Windows closed by a gap without rows.
    Session {
        /// The gap.
        gap: Length,
    },
    /// The same, no longer than a greatest length, or with a gap of each row's own.
    RowSession {
        /// The gap.
        gap: GapSpec,
        /// The greatest length.
        at_most: Option<Length>,
    },
    /// One window.
    Band {
        /// Its start.
        start: Moment,
        /// Its end.
        end: Moment,
    },
    /// Windows from a landmark on: `start`, or `start_time + k·period`.
    Landmark {
        /// Distance of ends.
        every: Length,
        /// The only landmark.
        start: Option<Moment>,
        /// Distance of landmarks.
        period: Option<Length>,
        /// Offset of landmarks.
        start_time: Option<Length>,
    },
    /// Tumbling or sliding windows over periods of a calendar: days, weeks or months.
    Local {
        /// Length of a window.
        size: Length,
        /// Distance of starts.
        slide: Length,
        /// Offset of starts.
        start_time: Option<Length>,
        /// The calendar.
        calendar: LocalTime,
    },
    /// Windows that begin with periods of a calendar and grow.
    LocalLandmark {
        /// Distance of ends.
        every: Length,
        /// Distance of landmarks.
        period: Length,
        /// Offset of landmarks.
        start_time: Option<Length>,
        /// The calendar.
        calendar: LocalTime,
    },
    /// Runs of rows between marked ones.
    Punctuation {
        /// The boolean column that marks rows.
        column: String,
        /// Where in its window a marked row is.
        mark: Mark,
    },
    /// Runs of rows from one in which a boolean column is true to the next in which another is.
    Between {
        /// The column of rows that begin a window.
        enter: String,
        /// The column of rows that end one.
        leave: String,
        /// Whether these are not in it.
        exclusive: bool,
    },
    /// All rows.
    Global,
    /// A user's own, of these columns.
    User(Arc<dyn UserWindow>, Vec<String>),
}

/// A window as a query states it, its lengths not yet in the column's unit.
#[derive(Clone)]
pub struct WindowSpec {
    /// Its name, which distinguishes the windows of one query and identifies it in errors.
    pub name: String,
    /// Its type.
    pub kind: WindowKind,
}

impl std::fmt::Debug for WindowSpec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// What lengths are bound to.
struct Binder<'a> {
    name: &'a str,
    measure: &'a Measure,
}

impl Binder<'_> {
    fn refused<T>(&self, why: String) -> Result<T> {
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

    fn in_units(&self, what: &str, count: i128) -> Result<i64> {
        let (name, column, unit) = (self.name, self.measure.column(), self.measure.unit_name());
        if count % i128::from(self.measure.resolution().unwrap_or(1)) != 0 {
            return self.refused(format!(
                "the {what} of {name} is finer than column '{column}', which counts {unit}; allowed are multiples of \
                 its unit"
            ));
        }
        let units = count / i128::from(self.measure.nanos_per_unit().unwrap_or(1));
        match i64::try_from(units) {
            Ok(units) if units.unsigned_abs() < 1 << 61 => Ok(units),
            _ => self.refused(format!(
                "the {what} of {name} is too long for column '{column}'; allowed are lengths below 2^61 {unit}"
            )),
        }
    }

    /// A length in units of a calendar; `None` if it is no whole number of days or months.
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

    /// The same; other lengths are refused.
    fn whole_units(&self, what: &str, length: Length) -> Result<(Unit, i64)> {
        let refused = || {
            self.refused(format!(
                "the {what} of {} is no whole number of days, weeks, months, quarters or years, which alone depend on a \
                 zone; give other lengths without zone, and shift them by start_time where its hours begin at other \
                 minutes",
                self.name
            ))
        };
        self.units(what, length)?.map_or_else(refused, Ok)
    }

    /// Refuses measures that have no calendar, and zones where they have no meaning.
    fn calendar(&self, calendar: &LocalTime) -> Result<Option<Arc<Zone>>> {
        let (name, column, given) = (self.name, self.measure.column(), self.measure.data_type());
        if !self.measure.is_calendar() {
            return Err(Error::InvalidType(format!(
                "windows: {name} is of periods of a calendar, but column '{column}' is {given}; allowed are timestamps \
                 and dates"
            )));
        }
        let Some(zone) = &calendar.zone else { return Ok(None) };
        match given {
            DataType::Timestamp(_, Some(_)) => Zone::named(zone).map(Some),
            DataType::Timestamp(_, None) => Err(Error::InvalidType(format!(
                "windows: {name} has the zone {zone:?}, but column '{column}' is {given}, whose times are local as they \
                 are; allowed is a column of timestamps with a zone, or no zone"
            ))),
            _ => Err(Error::InvalidType(format!(
                "windows: {name} has the zone {zone:?}, but column '{column}' is {given}, and dates are the same in \
                 every zone; allowed is no zone"
            ))),
        }
    }

    /// The periods of a calendar of `count` units, such as weeks that begin with their first day.
    fn periods(
        &self,
        (unit, count): (Unit, i64),
        start_time: Option<Length>,
        calendar: &LocalTime,
    ) -> Result<Periods> {
        let zone = self.calendar(calendar)?;
        let day = NANOS_PER_DAY / i128::from(self.measure.nanos_per_unit().unwrap_or(1));
        let is_weeks = unit == Unit::Days && count % 7 == 0;
        if calendar.week_start.is_some() && !is_weeks {
            return self.refused(format!(
                "{} has a week_start; only windows that begin every week, or every few weeks, have one",
                self.name
            ));
        }
        // 1970-01-01 was a Thursday.
        let of_week = |start: u8| i64::from(start) - if start <= 3 { 3 } else { 10 };
        let mut phase = if is_weeks { of_week(calendar.week_start.unwrap_or(0)) } else { 0 };
        let mut shift = 0;
        match start_time {
            Some(Length::Months(months)) if unit == Unit::Months => {
                phase = i64::try_from(months).unwrap_or(i64::MAX);
            }
            Some(length) => shift = self.length("start_time", length)?,
            None => {}
        }
        let shortest = match unit {
            Unit::Days => i128::from(count) * day,
            Unit::Months => i128::from(count) * 28 * day,
        };
        let is_far = unit == Unit::Months && phase.unsigned_abs() >= count as u64;
        if is_far || i128::from(shift.unsigned_abs()) >= shortest {
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

    /// A length in units of the measure.
    fn length(&self, what: &str, length: Length) -> Result<i64> {
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
        self.in_units(what, count)
    }

    fn positive(&self, what: &str, length: Length) -> Result<i64> {
        match self.length(what, length)? {
            length if length > 0 => Ok(length),
            length => self.refused(format!("the {what} of {} is {length}; it must be above zero", self.name)),
        }
    }

    fn offset(&self, start_time: Option<Length>) -> Result<i64> {
        start_time.map_or(Ok(0), |length| self.length("start_time", length))
    }

    fn rows(&self, what: &str, count: i128) -> Result<usize> {
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
    fn refuse(&self, option: &str, given: bool, of: &str) -> Result<()> {
        if given {
            return self.refused(format!("{} has {option}; only windows {of} have one", self.name));
        }
        Ok(())
    }

    /// The position of a boolean column.
    fn marks(&self, input: &Schema, column: &str) -> Result<usize> {
        let at = find(input, "windows", column)?;
        match input.field(at).data_type() {
            DataType::Boolean => Ok(at),
            given => Err(Error::InvalidType(format!(
                "windows: {} reads column '{column}', which is {given}; allowed are booleans",
                self.name
            ))),
        }
    }

    /// A column of gaps.
    fn gaps(&self, input: &Schema, column: &str) -> Result<GapColumn> {
        let position = find(input, "windows", column)?;
        let given = input.field(position).data_type();
        let (is_time, allowed) = match self.measure.nanos_per_unit() {
            Some(_) => (true, "durations"),
            None => (false, "integers"),
        };
        let unit = match given {
            DataType::Duration(_) if is_time => Measure::new(column, given)?.nanos_per_unit(),
            _ if given.is_integer() && !is_time => Some(1),
            _ => None,
        };
        let Some(unit) = unit else {
            return Err(Error::InvalidType(format!(
                "windows: {} takes gaps from column '{column}', which is {given}; allowed are {allowed}, as column '{}' \
                 counts {}",
                self.name,
                self.measure.column(),
                self.measure.unit_name()
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

    fn moment(&self, what: &str, moment: Moment) -> Result<i64> {
        let (name, column) = (self.name, self.measure.column());
        let given = self.measure.data_type();
        let refused = |is: &str, allowed: &str| {
            Err(Error::InvalidType(format!(
                "windows: the {what} of {name} is {is}, but column '{column}' is {given}; allowed are {allowed}"
            )))
        };
        match (moment, &given) {
            (Moment::Units(value), DataType::Int64) => self.in_units(what, value),
            (_, DataType::Int64) => refused("a time", "integers"),
            (Moment::Units(_), DataType::Duration(_)) => {
                refused("an integer", "durations such as '10 minutes'")
            }
            (Moment::Units(_), _) => refused("an integer", "times such as '2024-01-31 12:00:00'"),
            (Moment::Elapsed(nanoseconds), DataType::Duration(_)) => self.in_units(what, nanoseconds),
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
            (Moment::Instant { nanoseconds, .. }, _) => self.in_units(what, nanoseconds),
        }
    }
}

/// A window in units of the measure, its columns found in the schema.
pub(super) fn bind_window(spec: &WindowSpec, measure: &Measure, input: &Schema) -> Result<Window> {
    let name = &spec.name;
    let binder = Binder { name, measure };
    Ok(match &spec.kind {
        WindowKind::Session { gap } => Window::Session(Session::new(binder.positive("gap", *gap)?)),
        WindowKind::RowSession { gap, at_most } => {
            let gap = match gap {
                GapSpec::Length(gap) => Gap::Fixed(binder.positive("gap", *gap)?),
                GapSpec::Column(column) => Gap::Column(binder.gaps(input, column)?),
            };
            let at_most = at_most.map(|length| binder.positive("at_most", length)).transpose()?;
            if let (Gap::Fixed(gap), Some(most)) = (&gap, at_most)
                && most < *gap
            {
                return binder.refused(format!(
                    "the at_most of {name} is less than its gap; allowed are lengths from that on"
                ));
            }
            Window::RowSession(RowSession::new(gap, at_most))
        }
        WindowKind::Tumbling { size, start_time, partial } => {
            return bind_sliding(&binder, *size, *size, *start_time, *partial);
        }
        WindowKind::Sliding { size, slide, start_time, partial } => {
            return bind_sliding(&binder, *size, *slide, *start_time, *partial);
        }
        WindowKind::Arrivals { size, slide } => match (size, slide) {
            (Length::Nanoseconds(_) | Length::Units(_), Length::Rows(slide)) => Window::Arrivals(
                Arrivals::new(binder.positive("size", *size)?, binder.rows("slide", *slide)?),
            ),
            _ => {
                return binder.refused(format!(
                    "{name} counts rows in the order of arrival; allowed are windows whose size is a length of time \
                     or integers and whose slide is a number of rows"
                ));
            }
        },
        WindowKind::Band { start, end } => {
            let (start, end) = (binder.moment("start", *start)?, binder.moment("end", *end)?);
            if start >= end {
                return binder.refused(format!("the end of {name} must be after its start"));
            }
            Window::Band(Band::new(start, end))
        }
        WindowKind::Landmark { every, start, period, start_time } => {
            let every = binder.positive("every", *every)?;
            match (start, period) {
                (Some(start), None) => {
                    binder.refuse("a start_time", start_time.is_some(), "with a period")?;
                    Window::Landmark(Landmark::at(every, binder.moment("start", *start)?))
                }
                (None, Some(period)) => {
                    let (period, offset) = (binder.positive("period", *period)?, binder.offset(*start_time)?);
                    if period % every != 0 {
                        return binder.refused(format!(
                            "the period of {name} is not a multiple of every; allowed are multiples, so that a window \
                             ends with its period"
                        ));
                    }
                    Window::Landmark(Landmark::each(every, period, offset))
                }
                _ => {
                    return binder.refused(format!(
                        "{name} has both start and period, or neither; exactly one is allowed"
                    ));
                }
            }
        }
        WindowKind::Local { size, slide, start_time, calendar } => {
            binder.calendar(calendar)?;
            let (unit, size) = binder.whole_units("size", *size)?;
            let (other, slide) = binder.whole_units("slide", *slide)?;
            if unit != other {
                return binder.refused(format!(
                    "the size of {name} is a number of {} and its slide of {}; allowed are two numbers of days or weeks, or \
                     two of months, quarters or years",
                    unit_name(unit),
                    unit_name(other)
                ));
            }
            if slide > size {
                return binder.refused(format!(
                    "the slide of {name} is greater than its size; rows between two windows would belong to none"
                ));
            }
            let periods = binder.periods((unit, slide), *start_time, calendar)?;
            return binder.fitting(Window::Local(Local::new(&periods, size, slide, periods.phase())));
        }
        WindowKind::LocalLandmark { every, period, start_time, calendar } => {
            binder.calendar(calendar)?;
            let (unit, count) = binder.whole_units("period", *period)?;
            let periods = binder.periods((unit, count), *start_time, calendar)?;
            let shortest = periods.day() * count * if unit == Unit::Months { 28 } else { 1 };
            let longer = || {
                binder.refused(format!(
                    "the every of {name} is longer than its period; allowed are lengths up to the shortest period"
                ))
            };
            return binder.fitting(Window::LocalLandmark(match binder.units("every", *every)? {
                Some((other, every)) if other == unit => {
                    if count % every != 0 {
                        return binder.refused(format!(
                            "the period of {name} is not a multiple of every; allowed are multiples, so that a window \
                             ends with its period"
                        ));
                    }
                    LocalLandmark::of_units(periods, every)
                }
                Some((Unit::Months, _)) => return longer(),
                Some((Unit::Days, every)) => {
                    if every > count * 28 {
                        return longer();
                    }
                    LocalLandmark::of_days(periods, every)
                }
                None => {
                    let every = binder.positive("every", *every)?;
                    if every > shortest {
                        return longer();
                    }
                    LocalLandmark::of_time(periods, every)
                }
            }));
        }
        WindowKind::Punctuation { column, mark } => {
            Window::Punctuation(Punctuation::new(binder.marks(input, column)?, *mark))
        }
        WindowKind::Between { enter, leave, exclusive } => {
            let (enter, leave) = (binder.marks(input, enter)?, binder.marks(input, leave)?);
            Window::Between(Between::new(enter, leave, *exclusive))
        }
        WindowKind::Global => Window::Global(Global),
        WindowKind::User(window, columns) => {
            let columns: Result<Vec<usize>> =
                columns.iter().map(|column| find(input, "windows", column)).collect();
            Window::User(User::new(window.clone(), columns?))
        }
    })
}

/// A window whose windows have ids, in units of the measure, and where window 0 begins.
///
/// # Errors
/// As [`bind_window`]; `InvalidType` if its windows have none.
pub(super) fn bind_numbered(spec: &WindowSpec, measure: &Measure) -> Result<(Window, i64)> {
    let refused = || {
        Error::InvalidType(format!(
            "window: {} has no window ids, as its windows are not known before the rows; allowed are bands, and \
             tumbling, sliding and landmark windows over time or integers",
            spec.name
        ))
    };
    let start_time = match &spec.kind {
        WindowKind::Tumbling { start_time, .. } | WindowKind::Sliding { start_time, .. } => *start_time,
        WindowKind::Landmark { start_time, .. } => *start_time,
        // Those of a calendar number their windows themselves.
        WindowKind::Band { .. } | WindowKind::Local { .. } | WindowKind::LocalLandmark { .. } => None,
        WindowKind::Session { .. }
        | WindowKind::RowSession { .. }
        | WindowKind::Arrivals { .. }
        | WindowKind::Punctuation { .. }
        | WindowKind::Between { .. }
        | WindowKind::Global
        | WindowKind::User(..) => return Err(refused()),
    };
    // None of these reads a column besides the time.
    let window = bind_window(spec, measure, &Schema::empty())?;
    if window.ids().is_none() {
        return Err(refused());
    }
    Ok((window, Binder { name: &spec.name, measure }.offset(start_time)?))
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Days => "days",
        Unit::Months => "months",
    }
}

/// Windows over one measure, or over two.
fn bind_sliding(
    binder: &Binder<'_>,
    size: Length,
    slide: Length,
    start_time: Option<Length>,
    partial: bool,
) -> Result<Window> {
    let name = binder.name;
    let too_far = || {
        binder.refused(format!(
            "the slide of {name} is greater than its size; rows between two windows would belong to none"
        ))
    };
    match (size, slide) {
        (Length::Rows(size), Length::Rows(slide)) => {
            binder.refuse("a start_time", start_time.is_some(), "over time or an integer column")?;
            let (size, slide) = (binder.rows("size", size)?, binder.rows("slide", slide)?);
            if slide > size {
                return too_far();
            }
            Ok(Window::Counted(Counted::new(size, slide, partial)))
        }
        _ if partial => binder.refused(format!(
            "{name} has the option partial; allowed are windows whose size and slide are numbers of rows"
        )),
        (Length::Rows(size), slide) => {
            let (size, slide) = (binder.rows("size", size)?, binder.positive("slide", slide)?);
            Ok(Window::LastRows(LastRows::new(size, slide, binder.offset(start_time)?)))
        }
        (size, Length::Rows(slide)) => {
            binder.refuse("a start_time", start_time.is_some(), "with a slide of time or integers")?;
            Ok(Window::LastTime(LastTime::new(binder.positive("size", size)?, binder.rows("slide", slide)?)))
        }
        (size, slide) => {
            let (size, slide) = (binder.positive("size", size)?, binder.positive("slide", slide)?);
            if slide > size {
                return too_far();
            }
            Ok(Window::Sliding(Sliding::new(size, slide, binder.offset(start_time)?)))
        }
    }
}
