//! `windowkit._native.sliding` and related functions: checks arguments, Arrow in and out.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, new_empty_array};
use arrow_schema::{DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;
use pyo3_arrow::{PyArray, PyRecordBatch};

use super::errors::{Out, PyOut, detached, exception};
use super::given::{self, Given};
use crate::interrupt::check;
use crate::kernels::{
    Algorithm, Closed, Frames, Function, Question, Rolling, Segments, answer, by_time, choose,
};
use crate::memory::caught;
use crate::operator::Length;
use crate::select::concat;
use crate::types::named;
use crate::window::{Measure, Partial};
use crate::{Error, Result};

/// A `windowkit.kernels.arguments.Question`.
#[derive(FromPyObject)]
pub(super) struct PyQuestion {
    function: String,
    ddof: u32,
    algorithm: String,
    min_periods: Option<u64>,
}

/// A `windowkit.kernels.arguments.ByRows`.
#[derive(FromPyObject)]
pub(super) struct PyByRows {
    size: i64,
    slide: i64,
    partial: String,
}

/// A `windowkit.kernels.arguments.ByTime`, with a slide if windows begin at fixed distances.
#[derive(FromPyObject)]
pub(super) struct PyByTime {
    size: Length,
    slide: Option<Length>,
    start_time: Length,
    closed: String,
}

/// Computes windows over numbers of rows.
#[pyfunction]
#[pyo3(signature = (array, windows, question, segments = None))]
pub(super) fn sliding(
    py: Python<'_>,
    array: Given<AnyArray>,
    windows: PyByRows,
    question: PyQuestion,
    segments: Option<Given<AnyArray>>,
) -> PyResult<PyArray> {
    let (array, segments) = (read(py, "array", array)?, read_some(py, "segments", segments)?);
    let answers = detached(py, || {
        let question = read_question(question, Some(windows.size))?;
        let frames = Frames::Rolling(rolling(&windows)?, groups(segments.as_ref(), array.len())?);
        answer(&array, &frames, &question, check)
    })?;
    Ok(PyArray::from_array_ref(answers))
}

/// Computes windows over sorted times: an array with one answer per row, or a batch of windows that begin at fixed
/// distances.
#[pyfunction]
#[pyo3(signature = (array, times, windows, question, segments = None))]
pub(super) fn sliding_by<'py>(
    py: Python<'py>,
    array: Given<AnyArray>,
    times: Given<AnyArray>,
    windows: PyByTime,
    question: PyQuestion,
    segments: Option<Given<AnyArray>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (array, times) = (read(py, "array", array)?, read(py, "times", times)?);
    let segments = read_some(py, "segments", segments)?;
    let answers = detached(py, || {
        let question = read_question(question, None)?;
        let timed = Timed::new(&array, &times, &windows, segments.as_ref())?;
        let values = answer(&array, &timed.frames, &question, check)?;
        timed.labelled(values, segments.is_some())
    })?;
    match answers {
        Answers::Array(array) => Ok(Bound::new(py, PyArray::from_array_ref(array))?.into_any()),
        Answers::Batch(batch) => Ok(Bound::new(py, PyRecordBatch::new(batch))?.into_any()),
    }
}

/// The rows of each window: a batch of group, first row and end.
#[pyfunction]
#[pyo3(signature = (rows, windows, segments = None))]
pub(super) fn extents(
    py: Python<'_>,
    rows: usize,
    windows: PyByRows,
    segments: Option<Given<AnyArray>>,
) -> PyResult<PyRecordBatch> {
    let segments = read_some(py, "segments", segments)?;
    let batch = detached(py, || {
        if u32::try_from(rows).is_err() {
            return Err(Error::InvalidValue(format!(
                "rows: {rows} are too many; a call takes up to 2^32 - 1"
            )));
        }
        let (rolling, segments) = (rolling(&windows)?, groups(segments.as_ref(), rows)?);
        let per_group = segments.iter().map(|(from, to)| rolling.count(to - from));
        let frames = Frames::Rolling(rolling, segments.clone());
        let count = frames.count_in(3)?;
        let mut groups = Vec::with_capacity(count);
        for (group, windows) in per_group.enumerate() {
            groups.resize(groups.len() + windows as usize, group as i64);
        }
        let (mut starts, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (lo, hi) in frames.iter(None) {
            starts.push(lo as i64);
            ends.push(hi as i64);
        }
        let columns: [(&str, ArrayRef); 3] = [
            ("segment", Arc::new(Int64Array::from(groups))),
            ("start", Arc::new(Int64Array::from(starts))),
            ("end", Arc::new(Int64Array::from(ends))),
        ];
        batch(columns)
    })?;
    Ok(PyRecordBatch::new(batch))
}

/// Which algorithm is used, and why.
#[pyfunction]
#[pyo3(signature = (array, windows, question, segments = None))]
pub(super) fn explain_sliding(
    py: Python<'_>,
    array: Given<AnyArray>,
    windows: PyByRows,
    question: PyQuestion,
    segments: Option<Given<AnyArray>>,
) -> PyOut<(String, &'static str)> {
    let (array, segments) = (read(py, "array", array)?, read_some(py, "segments", segments)?);
    detached(py, || {
        let question = read_question(question, Some(windows.size))?;
        let frames = Frames::Rolling(rolling(&windows)?, groups(segments.as_ref(), array.len())?);
        explain(&array, &frames, &question)
    })
    .map(Out)
}

/// Which algorithm is used for windows over sorted times, and why.
#[pyfunction]
#[pyo3(signature = (array, times, windows, question, segments = None))]
pub(super) fn explain_sliding_by(
    py: Python<'_>,
    array: Given<AnyArray>,
    times: Given<AnyArray>,
    windows: PyByTime,
    question: PyQuestion,
    segments: Option<Given<AnyArray>>,
) -> PyOut<(String, &'static str)> {
    let (array, times) = (read(py, "array", array)?, read(py, "times", times)?);
    let segments = read_some(py, "segments", segments)?;
    detached(py, || {
        let question = read_question(question, None)?;
        let timed = Timed::new(&array, &times, &windows, segments.as_ref())?;
        explain(&array, &timed.frames, &question)
    })
    .map(Out)
}

fn explain(array: &ArrayRef, frames: &Frames, question: &Question) -> Result<(String, &'static str)> {
    let input = match array.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    question.function.output_type(input)?;
    let choice = choose(question.function, input, frames, array.len(), question.algorithm)?;
    Ok((choice.algorithm.map_or("none", |algorithm| algorithm.name()).to_owned(), choice.reason))
}

/// One array from an argument; chunks are concatenated.
pub(super) fn read(py: Python<'_>, argument: &str, array: Given<AnyArray>) -> PyResult<ArrayRef> {
    let reader = match array.0 {
        // The usual case needs no reader.
        AnyArray::Array(array) => {
            return caught(|| Given(array).array(argument)).map_err(|error| exception(py, &error));
        }
        stream => stream.into_reader()?,
    };
    let empty = reader.field().data_type().clone();
    let read = move || -> Result<ArrayRef> {
        let mut chunks = Vec::new();
        for chunk in given::arrays(argument, reader) {
            let chunk = chunk?;
            if !chunk.is_empty() {
                chunks.push(chunk);
            }
        }
        Ok(match chunks.len() {
            0 => new_empty_array(&empty),
            1 => chunks.swap_remove(0),
            // Whether a run continues in the next chunk cannot be seen from the runs alone, only from the values.
            count if matches!(empty, DataType::RunEndEncoded(..)) => {
                return Err(Error::InvalidValue(format!(
                    "{argument}: run-end encoded data in {count} chunks; combine the chunks before encoding"
                )));
            }
            _ => concat(&chunks.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
        })
    };
    caught(read).map_err(|error| exception(py, &error))
}

fn read_some(py: Python<'_>, argument: &str, array: Option<Given<AnyArray>>) -> PyResult<Option<ArrayRef>> {
    array.map(|array| read(py, argument, array)).transpose()
}

fn read_question(question: PyQuestion, size: Option<i64>) -> Result<Question> {
    let PyQuestion { function, ddof, algorithm, min_periods } = question;
    if let (Some(least), Some(size)) = (min_periods, size)
        && i64::try_from(least).is_ok_and(|least| least > size.max(0))
    {
        return Err(Error::InvalidValue(format!(
            "min_periods: {least} is greater than size {size}; a window has at most size values"
        )));
    }
    Ok(Question {
        function: Function::parse(&function, ddof)?,
        algorithm: algorithm.parse::<Algorithm>()?,
        min_periods,
    })
}

fn rolling(PyByRows { size, slide, partial }: &PyByRows) -> Result<Rolling> {
    let Partial { start, end } = Partial::parse(partial)?;
    Rolling::new(*size, *slide, start, end)
}

fn groups(segments: Option<&ArrayRef>, rows: usize) -> Result<Segments> {
    segments.map_or_else(|| Ok(Segments::whole(rows)), |segments| Segments::read(segments, rows))
}

/// Windows over times.
struct Timed {
    frames: Frames,
    /// Groups, starts and ends of windows that begin at fixed distances.
    labels: Option<[ArrayRef; 3]>,
}

enum Answers {
    Array(ArrayRef),
    Batch(RecordBatch),
}

impl Timed {
    fn new(
        array: &ArrayRef,
        times: &ArrayRef,
        windows: &PyByTime,
        segments: Option<&ArrayRef>,
    ) -> Result<Self> {
        let PyByTime { size, slide, start_time, closed } = windows;
        let measure = Measure::new("times", times.data_type()).map_err(|_| {
            Error::InvalidType(format!(
                "times: an array of {} was given; times are timestamps, dates, durations or integers",
                named(times.data_type())
            ))
        })?;
        if times.len() != array.len() {
            return Err(Error::InvalidValue(format!(
                "times: {} times for {} values; every value has a time",
                times.len(),
                array.len()
            )));
        }
        if let Some(row) = times.logical_nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(Error::InvalidValue(format!("times: row {row} is null; every value has a time")));
        }
        if u32::try_from(array.len()).is_err() {
            return Err(Error::InvalidValue(format!(
                "array: {} rows are too many; a call takes up to 2^32 - 1",
                array.len()
            )));
        }
        let units = |what: &str, length: Length| units(&measure, what, length);
        let segments = groups(segments, array.len())?;
        let size = units("size", *size)?;
        let times = measure.read(times)?;
        let Some(slide) = slide else {
            let ranges = by_time::row_ending(&times, &segments, size, Closed::parse(closed)?)?;
            return Ok(Self { frames: Frames::Listed(ranges), labels: None });
        };
        let windows = by_time::fixed(
            &times,
            &segments,
            size,
            units("slide", *slide)?,
            units("start_time", *start_time)?,
        )?;
        let ends = windows.starts.iter().map(|start| start + size).collect();
        let groups: ArrayRef = Arc::new(Int64Array::from(windows.groups));
        let labels = [groups, measure.array(windows.starts)?, measure.array(ends)?];
        Ok(Self { frames: Frames::Listed(windows.ranges), labels: Some(labels) })
    }

    fn labelled(self, values: ArrayRef, with_groups: bool) -> Result<Answers> {
        let Some([groups, starts, ends]) = self.labels else {
            return Ok(Answers::Array(values));
        };
        let columns = [("segment", groups), ("start", starts), ("end", ends), ("value", values)];
        Ok(Answers::Batch(batch(columns.into_iter().skip(usize::from(!with_groups)))?))
    }
}

/// A length in the measure's own unit.
fn units(measure: &Measure, what: &str, length: Length) -> Result<i64> {
    let (is_time, length) = match length {
        Length::Nanoseconds(count) => (true, count),
        Length::Units(count) | Length::Rows(count) | Length::Months(count) => (false, count),
    };
    let counted = measure.unit_name();
    let unit = match (is_time, measure.nanos_per_unit()) {
        (true, None) if length != 0 => {
            return Err(Error::InvalidType(format!(
                "{what}: a duration was given, but times are integers; allowed are integers"
            )));
        }
        (false, Some(_)) if length != 0 => {
            return Err(Error::InvalidType(format!(
                "{what}: {length} was given, but times count {counted}; allowed are durations such as '10 minutes'"
            )));
        }
        (_, nanos) => i128::from(nanos.unwrap_or(1)),
    };
    if length % i128::from(measure.resolution().unwrap_or(1)) != 0 {
        return Err(Error::InvalidValue(format!(
            "{what}: {length} nanoseconds were given, but times count {counted}; allowed are multiples of their unit"
        )));
    }
    i64::try_from(length / unit).ok().filter(|length| length.unsigned_abs() < 1 << 61).ok_or_else(|| {
        Error::InvalidValue(format!("{what}: {length} is too long; allowed are lengths below 2^61 {counted}"))
    })
}

fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, column)| (Field::new(name, column.data_type().clone(), name == "value"), column))
        .unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
