//! Windows of a query from Python.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;

use super::callees::Callee;
use super::user_window::user_window;
use crate::operator::{GapSpec, Length, LocalTime, Moment, WindowKind, WindowSpec};
use crate::window::{Mark, Measure, Partial};
use crate::{Error, Result};

/// The days with which weeks may begin, in the order of the core.
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A `windowkit.windows.Window`, of which each kind has attributes of its own.
pub(super) struct PyWindow {
    name: String,
    kind: Kind,
}

enum Kind {
    /// A window type of the core, or why the core refuses it.
    BuiltIn(Result<WindowKind>),
    /// A user's own window, and the columns that it reads.
    Custom(Py<PyAny>, Vec<String>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for PyWindow {
    type Error = PyErr;

    fn extract(window: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (kind, name): (String, String) = (get(&window, "kind")?, get(&window, "name")?);
        let kind = match kind.as_str() {
            "custom" => Kind::Custom(window.to_owned().unbind(), get(&window, "columns")?),
            _ => Kind::BuiltIn(built_in(&kind, &name, &window)?),
        };
        Ok(Self { name, kind })
    }
}

impl PyWindow {
    /// The window in the form that the core takes; the measure and how many windows there may be are for user-defined ones,
    /// which are among the `callees`.
    pub(super) fn spec(
        self,
        py: Python<'_>,
        measure: Option<&Measure>,
        max_windows: Option<u64>,
        callees: &mut Vec<Callee>,
    ) -> PyResult<Result<WindowSpec>> {
        let Self { name, kind } = self;
        let kind = match (kind, measure) {
            (Kind::BuiltIn(kind), _) => kind,
            // The plan reports a missing time column before it checks windows.
            (Kind::Custom(..), None) => Ok(WindowKind::Global),
            (Kind::Custom(window, columns), Some(measure)) => {
                let window = user_window(window.bind(py), &name, measure, max_windows, callees)?;
                Ok(WindowKind::User(window, columns))
            }
        };
        Ok(kind.map(|kind| WindowSpec { name, kind }))
    }
}

fn get<'py, T: FromPyObjectOwned<'py>>(window: &Bound<'py, PyAny>, attribute: &str) -> PyResult<T> {
    window.getattr(attribute)?.extract().map_err(Into::into)
}

fn built_in(kind: &str, name: &str, window: &Bound<'_, PyAny>) -> PyResult<Result<WindowKind>> {
    Ok(Ok(match kind {
        "tumbling" => return periodic(name, window, get(window, "size")?, None),
        "sliding" => {
            let (size, slide) = (get(window, "size")?, get(window, "slide")?);
            match get::<String>(window, "order")?.as_str() {
                "arrival" => WindowKind::Arrivals { size, slide },
                _ => return periodic(name, window, size, Some(slide)),
            }
        }
        "landmark" => return landmark(name, window),
        "session" => match (get(window, "column")?, get(window, "at_most")?) {
            (None, None) => WindowKind::Session { gap: get(window, "gap")? },
            (Some(column), at_most) => WindowKind::RowSession { gap: GapSpec::Column(column), at_most },
            (None, at_most) => WindowKind::RowSession { gap: GapSpec::Length(get(window, "gap")?), at_most },
        },
        "band" => WindowKind::Band { start: get(window, "start")?, end: get(window, "end")? },
        "punctuation" => WindowKind::Punctuation {
            column: get(window, "column")?,
            mark: if get::<String>(window, "at")? == "start" { Mark::Start } else { Mark::End },
        },
        "between" => WindowKind::Between {
            enter: get(window, "enter")?,
            leave: get(window, "leave")?,
            exclusive: get(window, "exclusive")?,
        },
        "global_window" => WindowKind::Global,
        _ => {
            return Ok(Err(Error::InvalidValue(format!(
                "windows: kind '{kind}' is unknown; allowed are 'tumbling', 'sliding', 'session', 'band', 'landmark', \
                 'punctuation', 'between' and 'global_window'"
            ))));
        }
    }))
}

/// Windows of this size: tumbling without a slide, else sliding; of a calendar where their periods are one's.
fn periodic(
    name: &str,
    window: &Bound<'_, PyAny>,
    size: Length,
    slide: Option<Length>,
) -> PyResult<Result<WindowKind>> {
    let (start_time, partial) = (get(window, "start_time")?, get::<String>(window, "partial")?);
    let partial = match Partial::parse(&partial) {
        Ok(partial) => partial,
        Err(error) => return Ok(Err(error)),
    };
    let calendar = calendar(name, window, &[Some(size), slide, start_time])?;
    Ok(calendar.map(|calendar| match (calendar, slide) {
        (Some(calendar), slide) => {
            WindowKind::Local { size, slide: slide.unwrap_or(size), start_time, calendar }
        }
        (None, None) => WindowKind::Tumbling { size, start_time, partial },
        (None, Some(slide)) => WindowKind::Sliding { size, slide, start_time, partial },
    }))
}

fn landmark(name: &str, window: &Bound<'_, PyAny>) -> PyResult<Result<WindowKind>> {
    let (every, start): (Length, Option<Moment>) = (get(window, "every")?, get(window, "start")?);
    if let Length::Rows(_) = every {
        let partial = get::<String>(window, "partial")?;
        return Ok(Partial::parse(&partial).map(|partial| WindowKind::RowLandmark { every, partial }));
    }
    let (period, start_time) = (get(window, "period")?, get(window, "start_time")?);
    let calendar = calendar(name, window, &[Some(every), period, start_time])?;
    Ok(calendar.and_then(|calendar| match (calendar, period) {
        (None, period) => Ok(WindowKind::Landmark { every, start, period, start_time }),
        (Some(calendar), Some(period)) => Ok(WindowKind::LocalLandmark { every, period, start_time, calendar }),
        (Some(_), None) => Err(Error::InvalidValue(format!(
            "windows: {name} counts periods of a calendar from one start; allowed is a period instead of start"
        ))),
    }))
}

/// The calendar of a window, if its lengths are periods of one: by its zone, its first day of weeks, or its months.
fn calendar(
    name: &str,
    window: &Bound<'_, PyAny>,
    lengths: &[Option<Length>],
) -> PyResult<Result<Option<LocalTime>>> {
    let (zone, day): (Option<String>, Option<String>) = (get(window, "zone")?, get(window, "week_start")?);
    let week_start = day.map(|day| {
        let number = WEEKDAYS.iter().position(|&other| other == day).map(|number| number as u8);
        number.ok_or_else(|| Error::InvalidValue(format!("windows: the week_start of {name} is {day:?}")))
    });
    let has_months = lengths.iter().flatten().any(|length| matches!(length, Length::Months(_)));
    Ok(week_start.transpose().map(|week_start| {
        let calendar = LocalTime { zone, week_start };
        (has_months || calendar != LocalTime::default()).then_some(calendar)
    }))
}
