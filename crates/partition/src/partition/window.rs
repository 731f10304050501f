//! When a window ends and the state starts anew (Alg. 1, lines 2 to 5).

use std::fmt;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};
use windowkit_kernels::measure::Measure;
use windowkit_kernels::types::named;

/// The length of consecutive windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowLength {
    /// This many rows.
    Rows(u64),
    /// Windows of event time `[offset + k · size, offset + (k + 1) · size)`, in nanoseconds, or in units of an integer
    /// time column.
    Time {
        /// Length of a window.
        size: i64,
        /// Where windows start.
        offset: i64,
        /// Whether lengths are nanoseconds.
        is_duration: bool,
    },
}

impl WindowLength {
    /// Checks what needs no data.
    ///
    /// # Errors
    /// `InvalidValue` for a size that is not above zero.
    pub fn check(&self) -> Result<()> {
        let empty = match *self {
            WindowLength::Rows(rows) => rows == 0,
            WindowLength::Time { size, .. } => size <= 0,
        };
        if empty {
            return Err(Error::InvalidValue("window: its size is not above zero".into()));
        }
        Ok(())
    }

    /// The window of each time.
    ///
    /// # Errors
    /// `InvalidType` for a column that carries no windows of this length, `InvalidValue` for nulls and for lengths finer
    /// than the column's unit.
    pub fn windows_of(&self, times: &dyn Array) -> Result<Vec<i64>> {
        let WindowLength::Time { size, offset, is_duration } = *self else {
            return Err(Error::InvalidValue(
                "times: they were given, but the window counts rows; give no times, or a window of event time".into(),
            ));
        };
        let measure = measure(times.data_type())?;
        let unit = match (is_duration, measure.nanos_per_unit()) {
            (true, Some(nanos)) => nanos,
            (false, None) => 1,
            (true, None) => {
                return Err(Error::InvalidType(
                    "times: they are integers, but the window is a duration; allowed are timestamps, dates and \
                     durations, or a window of an integer length"
                        .into(),
                ));
            }
            (false, Some(_)) => {
                return Err(Error::InvalidType(format!(
                    "times: they count {}, but the window's length is an integer; allowed are integers, or a window \
                     such as '10 minutes'",
                    measure.unit_name()
                )));
            }
        };
        let finest = measure.resolution().unwrap_or(1);
        if size % finest != 0 || offset % finest != 0 {
            return Err(Error::InvalidValue(format!(
                "window: it is finer than times, which count {}; allowed are multiples of that unit",
                measure.unit_name()
            )));
        }
        if times.logical_null_count() > 0 {
            return Err(Error::InvalidValue(
                "times: there are nulls; a row without a time belongs to no window".into(),
            ));
        }
        let (size, offset) = (i128::from(size / unit), i128::from(offset / unit));
        let window = |&time: &i64| (i128::from(time) - offset).div_euclid(size) as i64;
        Ok(measure.read(times)?.iter().map(window).collect())
    }

    /// The starts of windows, in the type of `times`; the numbers of first rows for windows that count rows.
    ///
    /// # Errors
    /// `Overflow` for a start beyond what the type holds, and as [`windows_of`](Self::windows_of).
    pub fn starts(&self, windows: &[i64], times: Option<&dyn Array>) -> Result<ArrayRef> {
        let (size, offset, measure) = match (*self, times) {
            (WindowLength::Time { size, offset, .. }, Some(times)) => {
                let measure = measure(times.data_type())?;
                let unit = measure.nanos_per_unit().unwrap_or(1);
                (size / unit, offset / unit, measure)
            }
            (WindowLength::Rows(size), None) => (size as i64, 0, Measure::new("rows", &DataType::Int64)?),
            _ => return Err(Error::Internal("windows of another kind than their times".into())),
        };
        let start = |&window: &i64| {
            window.checked_mul(size).and_then(|start| start.checked_add(offset)).ok_or_else(|| {
                Error::Overflow(format!("times: window {window} starts before what 64 bits can hold"))
            })
        };
        measure.array(windows.iter().map(start).collect::<Result<_>>()?)
    }
}

/// The measure of `times` of this type; errors name the argument, as there is no column of that name.
fn measure(given: &DataType) -> Result<Measure> {
    Measure::new("times", given).map_err(|error| match error {
        Error::InvalidType(_) => Error::InvalidType(format!(
            "times: they are {given}; allowed are timestamps, dates, durations and integers",
            given = named(given)
        )),
        other => other,
    })
}

impl fmt::Display for WindowLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WindowLength::Rows(rows) => write!(f, "{rows} rows"),
            WindowLength::Time { size, offset, is_duration } => {
                let unit = if is_duration { " nanoseconds" } else { "" };
                write!(f, "of length {size}{unit}")?;
                if offset != 0 { write!(f, ", from {offset}") } else { Ok(()) }
            }
        }
    }
}

/// Where a stream is within its windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Clock {
    /// The current window, once there was a row.
    window: Option<i64>,
    /// Rows in it, for windows that count rows.
    rows: u64,
}

impl Clock {
    /// Cuts the next rows at the ends of windows: each run of rows, and whether a window ended before it.
    ///
    /// # Errors
    /// `InvalidValue` for times that go back to an earlier window, or that are missing; see
    /// [`WindowLength::windows_of`].
    pub(super) fn cut(
        &mut self,
        length: Option<WindowLength>,
        rows: usize,
        times: Option<&ArrayRef>,
    ) -> Result<Vec<(bool, Range<usize>)>> {
        let mut runs = Vec::new();
        match (length, times) {
            (None, Some(_)) => Err(Error::InvalidValue(
                "times: they were given, but there is no window; give the partitioner a window, or no times"
                    .into(),
            ))?,
            (Some(WindowLength::Time { .. }), None) => Err(Error::InvalidValue(
                "times are missing; windows of event time need the time of each row".into(),
            ))?,
            (None, None) => runs.push((false, 0..rows)),
            (Some(WindowLength::Rows(size)), None) => {
                let mut at = 0;
                while at < rows {
                    let ended = self.rows == size;
                    self.rows = if ended { 0 } else { self.rows };
                    let take = (rows - at).min(usize::try_from(size - self.rows).unwrap_or(usize::MAX));
                    runs.push((ended, at..at + take));
                    self.rows += take as u64;
                    at += take;
                }
            }
            (Some(length), Some(times)) => {
                let windows = length.windows_of(times)?;
                let mut at = 0;
                for run in windows.chunk_by(|a, b| a == b) {
                    let window = run[0];
                    if self.window.is_some_and(|current| window < current) {
                        return Err(Error::InvalidValue(format!(
                            "times: row {at} goes back to a window before the current one; rows come window by \
                             window, in any order within one"
                        )));
                    }
                    let ended = self.window.is_some_and(|current| window > current);
                    runs.push((ended, at..at + run.len()));
                    self.window = Some(window);
                    at += run.len();
                }
            }
        }
        Ok(runs)
    }

    /// Whether this place lies within a window of that length: of a state that was read.
    pub(super) fn is_within(&self, length: Option<WindowLength>) -> bool {
        !matches!(length, Some(WindowLength::Rows(size)) if self.rows > size)
    }
}
