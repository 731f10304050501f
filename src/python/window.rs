//! Windows of a query from Python, including user-defined ones.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, cast::AsArray};
use pyo3::prelude::*;
use pyo3_arrow::PyArray;

use super::errors::{of_user, py_bytes, shown};
use super::user::array;
use crate::operator::{GapSpec, Length, LocalTime, Moment, WindowKind, WindowSpec};
use crate::window::{
    Calendar, Class, Context, ContextFree, Edit, KeyRows, Listed, Mark, Measure, UserWindow, WindowTraits,
};
use crate::{Error, Result};

/// Kind, name, lengths (argument, unit, count), options, columns, a user's own definition.
pub(super) type WindowTuple =
    (String, String, Vec<(String, String, i128)>, Vec<String>, Vec<String>, Option<Py<PyAny>>);

/// A window in the form that the core takes; the measure and how many windows there may be are for user-defined ones.
pub(super) fn window(
    py: Python<'_>,
    given: WindowTuple,
    measure: Option<&Measure>,
    max_windows: Option<u64>,
) -> PyResult<Result<WindowSpec>> {
    let (kind, name, lengths, options, columns, user) = given;
    if let Some(user) = user {
        let Some(measure) = measure else {
            // The plan reports a missing time column before it checks windows.
            return Ok(Ok(WindowSpec { name, kind: WindowKind::Global }));
        };
        let definition = user.bind(py);
        let adapter = definition.call_method1("bound", (measure_tuple(measure), max_windows))?.unbind();
        let longest: Option<i64> = adapter.bind(py).getattr("longest")?.extract()?;
        let caller = Caller { adapter, name: name.clone() };
        let window: Arc<dyn UserWindow> = match longest {
            Some(longest) => Arc::new(Calendar::new(Edges { caller, longest, measure: measure.clone() })),
            None => Arc::new(Aware { caller: Arc::new(caller), measure: measure.clone() }),
        };
        return Ok(Ok(WindowSpec { name, kind: WindowKind::User(window, columns) }));
    }
    Ok(built_in(kind, name, &lengths, &options, columns))
}

/// The column's unit and time zone, by which definitions convert times to Python's.
fn measure_tuple(measure: &Measure) -> (String, Option<i64>, Option<String>) {
    use arrow_schema::DataType::*;
    let (kind, zone) = match measure.data_type() {
        Timestamp(_, zone) => ("timestamp", zone.map(|zone| zone.to_string())),
        Date32 | Date64 => ("date", None),
        Duration(_) => ("duration", None),
        _ => ("integer", None),
    };
    (kind.to_owned(), measure.nanos_per_unit(), zone)
}

fn built_in(
    kind: String,
    name: String,
    lengths: &[(String, String, i128)],
    options: &[String],
    columns: Vec<String>,
) -> Result<WindowSpec> {
    let find = |what: &str| lengths.iter().find(|(argument, _, _)| argument == what);
    let missing = |what: &str| Error::InvalidValue(format!("windows: {kind} without {what}"));
    let length = |what: &str| {
        find(what)
            .map(|(_, unit, count)| match unit.as_str() {
                "nanoseconds" => Ok(Length::Nanoseconds(*count)),
                "units" => Ok(Length::Units(*count)),
                "rows" => Ok(Length::Rows(*count)),
                "months" => Ok(Length::Months(*count)),
                _ => Err(Error::InvalidValue(format!("windows: the {what} of {name} is in '{unit}'"))),
            })
            .transpose()
    };
    let moment = |what: &str| {
        find(what)
            .map(|(_, unit, count)| match unit.as_str() {
                "units" => Ok(Moment::Units(*count)),
                "nanoseconds" => Ok(Moment::Elapsed(*count)),
                "instant" => Ok(Moment::Instant { nanoseconds: *count, zoned: true }),
                "local" => Ok(Moment::Instant { nanoseconds: *count, zoned: false }),
                _ => Err(Error::InvalidValue(format!("windows: the {what} of {name} is in '{unit}'"))),
            })
            .transpose()
    };
    let needed = |what: &str| length(what)?.ok_or_else(|| missing(what));
    let option = |what: &str| options.iter().any(|option| option == what);
    let value = |what: &str| options.iter().find_map(|option| option.strip_prefix(what)?.strip_prefix('='));
    let week_start = value("week_start").map(|day| {
        day.parse().map_err(|_| Error::InvalidValue(format!("windows: the week_start of {name} is {day:?}")))
    });
    let calendar = LocalTime { zone: value("zone").map(str::to_owned), week_start: week_start.transpose()? };
    let is_local = calendar != LocalTime::default() || lengths.iter().any(|(_, unit, _)| unit == "months");
    let kind = match kind.as_str() {
        "tumbling" | "sliding" if is_local => {
            let size = needed("size")?;
            let slide = if kind == "sliding" { needed("slide")? } else { size };
            WindowKind::Local { size, slide, start_time: length("start_time")?, calendar }
        }
        "landmark" if is_local => WindowKind::LocalLandmark {
            every: needed("every")?,
            period: length("period")?.ok_or_else(|| {
                Error::InvalidValue(format!(
                    "windows: {name} counts periods of a calendar from one start; allowed is a period instead of start"
                ))
            })?,
            start_time: length("start_time")?,
            calendar,
        },
        "tumbling" => WindowKind::Tumbling {
            size: needed("size")?,
            start_time: length("start_time")?,
            partial: option("partial"),
        },
        "sliding" if option("arrival") => {
            WindowKind::Arrivals { size: needed("size")?, slide: needed("slide")? }
        }
        "sliding" => WindowKind::Sliding {
            size: needed("size")?,
            slide: needed("slide")?,
            start_time: length("start_time")?,
            partial: option("partial"),
        },
        "session" => match (columns.into_iter().next(), length("at_most")?) {
            (None, None) => WindowKind::Session { gap: needed("gap")? },
            (Some(column), at_most) => WindowKind::RowSession { gap: GapSpec::Column(column), at_most },
            (None, at_most) => WindowKind::RowSession { gap: GapSpec::Length(needed("gap")?), at_most },
        },
        "band" => WindowKind::Band {
            start: moment("start")?.ok_or_else(|| missing("start"))?,
            end: moment("end")?.ok_or_else(|| missing("end"))?,
        },
        "landmark" => WindowKind::Landmark {
            every: needed("every")?,
            start: moment("start")?,
            period: length("period")?,
            start_time: length("start_time")?,
        },
        "punctuation" => WindowKind::Punctuation {
            column: columns.into_iter().next().ok_or_else(|| missing("column"))?,
            mark: if option("start") { Mark::Start } else { Mark::End },
        },
        "between" => {
            let mut columns = columns.into_iter();
            let mut column = |what: &str| columns.next().ok_or_else(|| missing(what));
            WindowKind::Between {
                enter: column("enter")?,
                leave: column("leave")?,
                exclusive: option("exclusive"),
            }
        }
        "global_window" => WindowKind::Global,
        _ => {
            return Err(Error::InvalidValue(format!(
                "windows: kind '{kind}' is unknown; allowed are 'tumbling', 'sliding', 'session', 'band', 'landmark', \
                 'punctuation', 'between' and 'global_window'"
            )));
        }
    };
    Ok(WindowSpec { name, kind })
}

/// A user-defined window definition, called by name.
struct Caller {
    adapter: Py<PyAny>,
    name: String,
}

impl Caller {
    fn call<T>(
        &self,
        what: &str,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        Python::attach(|py| {
            work(py, self.adapter.bind(py)).map_err(|error| {
                // Errors found by the adapter itself already have a message.
                let own = py
                    .import("windowkit.errors")
                    .and_then(|errors| errors.getattr("WindowKitError"))
                    .is_ok_and(|class| error.is_instance(py, &class));
                let message = match own {
                    true => format!("{}: {}", self.name, error.value(py)),
                    false => format!("{}: {what} failed with {}", self.name, shown(py, &error)),
                };
                of_user(py, message, error)
            })
        })
    }
}

/// User-defined context-free windows.
struct Edges {
    caller: Caller,
    longest: i64,
    measure: Measure,
}

impl ContextFree for Edges {
    fn name(&self) -> &str {
        &self.caller.name
    }

    fn longest(&self) -> i64 {
        self.longest
    }

    fn shown(&self, t: i64) -> String {
        self.measure.shown(t)
    }

    fn next_edge(&self, t: i64) -> Result<i64> {
        self.caller.call("next_edge", |_, adapter| adapter.call_method1("next_edge", (t,))?.extract())
    }

    fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>> {
        self.caller.call("windows", |_, adapter| {
            let found = adapter.call_method1("windows", (since, until))?;
            let (pairs, _) = found.extract::<&[u8]>()?.as_chunks::<16>();
            let numbers = |pair: &[u8; 16]| {
                let both = i128::from_le_bytes(*pair);
                (both as i64, (both >> 64) as i64)
            };
            Ok(pairs.iter().map(numbers).collect())
        })
    }
}

/// User-defined context-aware windows.
struct Aware {
    caller: Arc<Caller>,
    measure: Measure,
}

/// The ranks in an edit: those of a removed window, and of a new one.
type EditTuple = (Option<(usize, usize)>, Option<(usize, usize)>);

impl UserWindow for Aware {
    fn name(&self) -> &str {
        &self.caller.name
    }

    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextAware)
    }

    fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        self.windows_of(rows, true, since, out)
    }

    fn list_so_far(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        self.windows_of(rows, false, 0, out)
    }

    fn open(&self) -> Result<Option<Box<dyn Context>>> {
        let opened = self.caller.call("open", |_, adapter| {
            let opened = adapter.call_method0("open")?;
            Ok((!opened.is_none()).then(|| opened.unbind()))
        })?;
        Ok(opened.map(|opened| -> Box<dyn Context> {
            let (caller, measure) = (self.caller.clone(), self.measure.clone());
            Box::new(Opened { caller, measure, state: State::Open(opened) })
        }))
    }
}

/// The state that a definition opened for one key.
struct Opened {
    caller: Arc<Caller>,
    measure: Measure,
    state: State,
}

enum State {
    Open(Py<PyAny>),
    /// Pickled.
    Saved(Arc<[u8]>),
}

impl Opened {
    /// Calls a method of it.
    fn edits(
        &mut self,
        what: &str,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<Vec<EditTuple>>,
    ) -> Result<Vec<Edit>> {
        let state = &mut self.state;
        let edits = self.caller.call(what, |py, adapter| {
            if let State::Saved(bytes) = state {
                let bytes = py_bytes(py, bytes)?;
                *state = State::Open(adapter.call_method1("restored", (bytes,))?.unbind());
            }
            match state {
                State::Open(opened) => work(py, opened.bind(py)),
                State::Saved(_) => Ok(Vec::new()),
            }
        })?;
        Ok(edits.into_iter().map(|(gone, new)| Edit { gone, new }).collect())
    }
}

impl Context for Opened {
    fn notify(&mut self, first: usize, rows: &KeyRows<'_>) -> Result<Vec<Edit>> {
        let times = self.measure.array(rows.times.to_vec())?;
        self.edits("notify", |py, opened| {
            opened
                .call_method1("notify", (first, given(py, &times)?, all_given(py, rows.columns)?))?
                .extract()
        })
    }

    fn finish(&mut self, rows: usize) -> Result<Vec<Edit>> {
        self.edits("finish", |_, opened| opened.call_method1("finish", (rows,))?.extract())
    }

    fn copied(&self) -> Result<Option<(Box<dyn Context>, usize)>> {
        let bytes = match &self.state {
            State::Saved(bytes) => Some(bytes.clone()),
            State::Open(opened) => {
                let saved: Option<Vec<u8>> =
                    self.caller.call("pickling", |py, _| opened.bind(py).call_method0("saved")?.extract())?;
                saved.map(Arc::from)
            }
        };
        Ok(bytes.map(|bytes| -> (Box<dyn Context>, usize) {
            let (caller, measure, size) = (self.caller.clone(), self.measure.clone(), bytes.len());
            (Box::new(Opened { caller, measure, state: State::Saved(bytes) }), size)
        }))
    }
}

fn given(py: Python<'_>, array: &ArrayRef) -> PyResult<Py<PyAny>> {
    PyArray::from_array_ref(array.clone()).to_pyarrow(py).map(Bound::unbind)
}

fn all_given(py: Python<'_>, arrays: &[ArrayRef]) -> PyResult<Vec<Py<PyAny>>> {
    arrays.iter().map(|array| given(py, array)).collect()
}

impl Aware {
    fn windows_of(&self, rows: &KeyRows<'_>, ended: bool, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let times = self.measure.array(rows.times.to_vec())?;
        let (lo, hi) = self.caller.call("notify", |py, adapter| {
            let columns = all_given(py, rows.columns)?;
            let (lo, hi): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                adapter.call_method1("windows_of", (given(py, &times)?, columns, ended))?.extract()?;
            Ok((array(&lo)?, array(&hi)?))
        })?;
        let (lo, hi) = (lo.as_primitive::<Int64Type>().clone(), hi.as_primitive::<Int64Type>().clone());
        for (&lo, &hi) in lo.values().iter().zip(hi.values()) {
            let fits = 0 <= lo && lo < hi && hi <= rows.times.len() as i64;
            if !fits {
                return Err(Error::InvalidValue(format!(
                    "{}: a window of rows {lo} to {hi}, of {} rows; allowed are ranges of at least one row of these",
                    self.caller.name,
                    rows.times.len()
                )));
            }
            if hi as usize > since {
                out.push(Listed::by_rows(lo as usize, hi as usize, rows.times));
            }
        }
        Ok(())
    }
}
