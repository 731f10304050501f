//! Windows as a query states them, and bound to the units of a measure: every check that needs no rows.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};

use super::schema::find;
use crate::window::{
    Arrivals, Band, Between, Counted, Gap, GapColumn, Global, Landmark, LastRows, LastTime, Mark, Measure,
    Punctuation, RowSession, Session, Sliding, User, UserWindow, Window,
};
use crate::{Error, Result};

/// A length as a query states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Of time.
    Nanoseconds(i128),
    /// Of an integer measure.
    Units(i128),
    /// Of ranks.
    Rows(i128),
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
        WindowKind::Band { .. } => None,
        _ => return Err(refused()),
    };
    // None of these reads a column besides the time.
    let window = bind_window(spec, measure, &Schema::empty())?;
    if window.ids().is_none() {
        return Err(refused());
    }
    Ok((window, Binder { name: &spec.name, measure }.offset(start_time)?))
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
