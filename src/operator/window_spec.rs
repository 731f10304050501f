//! Windows as a query states them.

use std::sync::Arc;

use crate::window::{Mark, Partial, UserWindow};

/// A length as a query states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Nanoseconds.
    Nanoseconds(i128),
    /// Units of an integer measure.
    Units(i128),
    /// Rows, by their ranks.
    Rows(i128),
    /// Months of a calendar.
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
        /// Which incomplete windows are emitted, if windows are by rows.
        partial: Partial,
    },
    /// Windows that overlap; size and slide may be of different measures.
    Sliding {
        /// Length of a window.
        size: Length,
        /// Distance of starts (or, of two measures, ends).
        slide: Length,
        /// Offset of starts.
        start_time: Option<Length>,
        /// Which incomplete windows are emitted, if windows are by rows.
        partial: Partial,
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
    /// A session no longer than a greatest length, or with a gap of each row's own.
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
    /// All rows of a key so far, every so many rows.
    RowLandmark {
        /// Distance of ends.
        every: Length,
        /// Which incomplete windows are emitted.
        partial: Partial,
    },
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
