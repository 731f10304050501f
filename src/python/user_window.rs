//! User-defined windows, called back from the core.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3_arrow::PyArray;

use super::callees::Callee;
use super::errors::{of_user, py_bytes};
use super::user::array;
use crate::window::{
    Calendar, Class, Context, ContextFree, Edit, KeyRows, Listed, Measure, UserWindow, WindowTraits,
};
use crate::{Error, Result};

/// The window of a `windowkit.windows.Custom`, over a time column of this measure; it calls one more of the `callees`.
pub(super) fn user_window(
    window: &Bound<'_, PyAny>,
    name: &str,
    measure: &Measure,
    max_windows: Option<u64>,
    callees: &mut Vec<Callee>,
) -> PyResult<Arc<dyn UserWindow>> {
    let adapter = window.call_method1("bound", (PyTimeColumn::of(measure), max_windows))?;
    let longest: Option<i64> = adapter.getattr("longest")?.extract()?;
    let adapter = Callee::new(adapter.unbind());
    callees.push(adapter.clone());
    let caller = Caller { adapter, name: name.to_owned() };
    Ok(match longest {
        Some(longest) => Arc::new(Calendar::new(Edges { caller, longest, measure: measure.clone() })),
        None => Arc::new(Aware { caller: Arc::new(caller), measure: measure.clone() }),
    })
}

/// What a time column holds, by which definitions convert its times to Python's.
#[pyclass(name = "TimeColumn", module = "windowkit._native", frozen, get_all)]
pub(super) struct PyTimeColumn {
    kind: &'static str,
    /// Nanoseconds in a unit, unless it holds integers.
    unit: Option<i64>,
    zone: Option<String>,
}

impl PyTimeColumn {
    fn of(measure: &Measure) -> Self {
        let (kind, zone) = match measure.data_type() {
            DataType::Timestamp(_, zone) => ("timestamp", zone.map(|zone| zone.to_string())),
            DataType::Date32 | DataType::Date64 => ("date", None),
            DataType::Duration(_) => ("duration", None),
            _ => ("integer", None),
        };
        Self { kind, unit: measure.nanos_per_unit(), zone }
    }
}

/// A user-defined window definition, called by name.
struct Caller {
    adapter: Callee,
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
                let text = own.then(|| error.value(py).to_string());
                of_user(py, error, |shown| match text {
                    Some(text) => format!("{}: {text}", self.name),
                    None => format!("{}: {what} failed with {shown}", self.name),
                })
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
    /// By what the adapter finds it, as it may refer to what calls it.
    Open(Py<PyAny>),
    /// Pickled.
    Saved(Arc<[u8]>),
}

impl Opened {
    /// Calls a method of it.
    fn edits(
        &mut self,
        what: &str,
        work: impl FnOnce(&Bound<'_, PyAny>, &Py<PyAny>) -> PyResult<Vec<EditTuple>>,
    ) -> Result<Vec<Edit>> {
        let state = &mut self.state;
        let edits = self.caller.call(what, |py, adapter| {
            if let State::Saved(bytes) = state {
                let bytes = py_bytes(py, bytes)?;
                *state = State::Open(adapter.call_method1("restored", (bytes,))?.unbind());
            }
            match state {
                State::Open(key) => work(adapter, key),
                State::Saved(_) => Ok(Vec::new()),
            }
        })?;
        Ok(edits.into_iter().map(|(gone, new)| Edit { gone, new }).collect())
    }
}

impl Context for Opened {
    fn notify(&mut self, first: usize, rows: &KeyRows<'_>) -> Result<Vec<Edit>> {
        let times = self.measure.array(rows.times.to_vec())?;
        self.edits("notify", |adapter, key| {
            let py = adapter.py();
            let rows = (key, first, given(py, &times)?, all_given(py, rows.columns)?);
            adapter.call_method1("notify", rows)?.extract()
        })
    }

    fn finish(&mut self, rows: usize) -> Result<Vec<Edit>> {
        self.edits("finish", |adapter, key| adapter.call_method1("finish", (key, rows))?.extract())
    }

    fn copied(&self) -> Result<Option<(Box<dyn Context>, usize)>> {
        let bytes = match &self.state {
            State::Saved(bytes) => Some(bytes.clone()),
            State::Open(key) => {
                let saved: Option<Vec<u8>> = self
                    .caller
                    .call("pickling", |_, adapter| adapter.call_method1("saved", (key,))?.extract())?;
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
