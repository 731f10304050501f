//! `windowkit._native.Operator`: rows and watermarks in, windows out.

use std::sync::Arc;

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use super::calls::{Called, CalledOperator, Rows};
use super::errors::{Out, PyOut, detached, py_bytes};
use super::given::{self, Given};
use super::known::Known;
use super::plan::PyPlan;
use crate::memory::caught;
use crate::operator::{
    By, Contents, Delay, Keep, Operator, Options, Plan, Shed, Stats, Step, StoreKind, find, length,
};
use crate::slice::strategy::{Order, Ruling};
use crate::{Error, Result};

/// A stream operator.
#[pyclass(name = "Operator", module = "windowkit._native", frozen)]
pub(super) struct PyOperator(CalledOperator<Operator>, Known);

/// A length in nanoseconds, or (false) in units of an integer column.
type Length = (i128, bool);

/// A delay as Python gives it: a length, a number of rows, or a share, of which one is there; the column of sources;
/// microseconds after which one is idle; how far ahead of the others a row may be.
type GivenDelay = (Option<Length>, Option<u64>, Option<f64>, Option<String>, Option<i64>, Option<Length>);

/// How many bytes the state may take, whether keys are kept and not rows, and a seed.
type GivenShed = (u64, bool, u64);

/// A decision, the answer, its reason, and the source of the rule.
type Answer = (&'static str, String, &'static str, &'static str);

#[pymethods]
impl PyOperator {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "as many as an operator has options")]
    fn new(
        py: Python<'_>,
        queries: Vec<(String, Bound<'_, PyPlan>, Option<Length>)>,
        order: &str,
        allowed_lateness: Length,
        progress: Option<GivenDelay>,
        store: &str,
        late_limit: Option<u64>,
        shed: Option<GivenShed>,
    ) -> PyResult<Self> {
        let queries: Vec<(String, Arc<Plan>, Option<Length>)> = queries
            .into_iter()
            .map(|(name, plan, lateness)| (name, plan.get().0.clone(), lateness))
            .collect();
        detached(py, || {
            let store = match store {
                "auto" => StoreKind::Auto,
                "lazy" => StoreKind::Lazy,
                "eager" => StoreKind::Eager,
                _ => {
                    return Err(Error::InvalidValue(format!(
                        "store: '{store}' is unknown; allowed are 'auto', 'lazy' and 'eager'"
                    )));
                }
            };
            let Some((_, leader, _)) = queries.first() else {
                return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
            };
            let progress = progress.map(|given| delay(leader, given)).transpose()?;
            let allowed_lateness = bound(leader, "allowed_lateness", allowed_lateness)?;
            let order = Order::parse(order)?;
            let shed = shed.map(|(bytes, of_keys, seed)| Shed {
                bytes,
                keep: if of_keys { Keep::Keys } else { Keep::Rows },
                seed,
            });
            let options = Options { order, allowed_lateness, progress, store, late_limit, shed };
            let queries = queries.into_iter().map(|(name, plan, own)| {
                let own = own.map(|own| bound(&plan, "allowed_lateness", own)).transpose()?;
                Ok((name, plan, own))
            });
            Self::of(Operator::with_lateness(queries.collect::<Result<_>>()?, options)?)
        })
    }

    /// Restores the operator of a snapshot.
    #[staticmethod]
    fn restore(py: Python<'_>, snapshot: &[u8], queries: Vec<(String, Bound<'_, PyPlan>)>) -> PyResult<Self> {
        let queries: Vec<(String, Arc<Plan>)> =
            queries.into_iter().map(|(name, plan)| (name, plan.get().0.clone())).collect();
        detached(py, || Self::of(Operator::restore(snapshot, queries)?))
    }

    /// The schema of a snapshot's rows, the names of its queries, and its order.
    #[staticmethod]
    fn contents(py: Python<'_>, snapshot: &[u8]) -> PyOut<(PySchema, Vec<String>, &'static str)> {
        detached(py, || {
            let Contents { schema, names, options } = Operator::contents(snapshot)?;
            let order = if options.order == Order::InOrder { "in-order" } else { "out-of-order" };
            Ok((PySchema::new(schema), names, order))
        })
        .map(Out)
    }

    /// The whole state of the operator, as bytes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Caught here, a panic for want of memory does not lose the operator: nothing was changed.
        let bytes = self.ask(py, |stream| caught(|| stream.snapshot()))?;
        py_bytes(py, &bytes)
    }

    /// Whether the stream was ended.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.is_closed()))
    }

    /// The schema of results.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        self.ask(py, |stream| Ok(PySchema::new(stream.schema().clone())))
    }

    /// The schema of rows.
    #[getter]
    fn input_schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        self.ask(py, |stream| Ok(PySchema::new(stream.input().clone())))
    }

    /// Adds rows. Where no window is emitted, there is no table either, as making one takes longer than few rows do.
    fn push(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<Option<PyRecordBatchReader>> {
        let reader = self.1.extract(stream)?.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("batch", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(Step::Push(&batches))
        })
    }

    /// Adds slices that were made elsewhere.
    fn push_slices(
        &self,
        py: Python<'_>,
        stream: Given<AnyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        let reader = stream.0.into_reader()?;
        detached(py, move || {
            let batches = given::batches("slices", None, reader).collect::<Result<Vec<RecordBatch>>>()?;
            self.call(Step::PushSlices(&batches))
        })
    }

    /// Why it takes no slices, or null if it does.
    fn refuses_slices(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.ask(py, |stream| Ok(stream.refuses_slices()))
    }

    /// Moves the watermark.
    fn advance(&self, py: Python<'_>, watermark: i64) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Advance(watermark)))
    }

    /// Moves the watermark of the key in a batch of one row.
    fn advance_key(
        &self,
        py: Python<'_>,
        watermark: i64,
        key: Given<PyRecordBatch>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.batch("key")?;
            self.call(Step::AdvanceKey(watermark, key.columns()))
        })
    }

    /// Keys that are ahead of the stream, and in the last column up to when each is complete.
    fn keys_ahead(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.keys_ahead()?)))
    }

    /// Moves the watermark on to that of the sources that are not idle.
    fn follow(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Follow))
    }

    /// Sets the clock to these microseconds.
    fn set_clock(&self, py: Python<'_>, now: i64) -> PyResult<()> {
        self.ask(py, |stream| {
            stream.set_clock(now);
            Ok(())
        })
    }

    /// Whether the watermark follows rows.
    #[getter]
    fn follows(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |stream| Ok(stream.options().progress.is_some()))
    }

    /// Whether the clock matters: sources may be idle, or windows are emitted by it.
    #[getter]
    fn has_clock(&self, py: Python<'_>) -> PyResult<bool> {
        let has_clock = |stream: &mut Operator| {
            stream.options().progress.is_some_and(|delay| delay.idle.is_some()) || stream.uses_clock()
        };
        self.ask(py, |stream| Ok(has_clock(stream)))
    }

    /// How much memory the state may take, and what is kept then, if that is limited.
    #[getter]
    fn shed(&self, py: Python<'_>) -> PyResult<Option<GivenShed>> {
        let given = |shed: Shed| (shed.bytes, shed.keep == Keep::Keys, shed.seed);
        self.ask(py, |stream| Ok(stream.options().shed.map(given)))
    }

    /// What is known of the sources.
    fn progress(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.progress()?)))
    }

    /// Ends the stream.
    fn close(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || self.call(Step::Close))
    }

    /// All open windows as they stand, of the key in a batch of one row or of all keys.
    fn peek(
        &self,
        py: Python<'_>,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            let rows = self.0.ask(|stream| {
                let rows = stream.peek(key.as_ref().map(RecordBatch::columns))?;
                Ok(Rows::new(rows, stream.schema()))
            })?;
            Ok((!rows.is_empty()).then(|| rows.table()))
        })
    }

    /// Fires the key in a batch of one row, or all keys.
    fn fire(
        &self,
        py: Python<'_>,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            self.call(Step::Fire(key.as_ref().map(RecordBatch::columns)))
        })
    }

    /// Puts a punctuation at a time: of the key in a batch of one row, or of all keys.
    fn punctuate(
        &self,
        py: Python<'_>,
        time: i64,
        key: Option<Given<PyRecordBatch>>,
    ) -> PyResult<Option<PyRecordBatchReader>> {
        detached(py, || {
            let key = key.map(|key| key.batch("key")).transpose()?;
            self.call(Step::Punctuate(time, key.as_ref().map(RecordBatch::columns)))
        })
    }

    /// Rows that were too late or had no time.
    fn take_late(&self, py: Python<'_>) -> PyResult<PyRecordBatchReader> {
        detached(py, || {
            let late = self.0.call(|stream| {
                let late = stream.call(Step::TakeLate)?;
                Ok(Rows::late(late, stream.late_schema()))
            })?;
            Ok(late.table())
        })
    }

    /// How many calls have taken effect.
    #[getter]
    fn calls(&self) -> u64 {
        self.0.count()
    }

    /// The rows of the last call that returned some, and whether they are late ones.
    fn last(&self, py: Python<'_>) -> PyOut<Option<(PyRecordBatchReader, bool)>> {
        self.0.last_rows(py).map(Out)
    }

    /// The names of all queries.
    fn names(&self, py: Python<'_>) -> PyOut<Vec<String>> {
        self.ask(py, |stream| Ok(stream.names().map(str::to_owned).collect())).map(Out)
    }

    /// The names of the queries for which rows are stored.
    fn queries_with_rows(&self, py: Python<'_>) -> PyOut<Vec<String>> {
        self.ask(py, |stream| Ok(stream.queries_with_rows().into_iter().map(str::to_owned).collect()))
            .map(Out)
    }

    /// Adds a query.
    fn add(
        &self,
        py: Python<'_>,
        name: String,
        plan: Bound<'_, PyPlan>,
        allowed_lateness: Option<Length>,
    ) -> PyResult<()> {
        let plan = plan.get().0.clone();
        detached(py, move || {
            let lateness = allowed_lateness.map(|own| bound(&plan, "allowed_lateness", own)).transpose()?;
            self.0.change(|stream| {
                stream.relieve()?;
                stream.add(name, plan, lateness)
            })
        })
    }

    /// Removes a query.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detached(py, || {
            self.0.change(|stream| {
                stream.relieve()?;
                stream.remove(name)
            })
        })
    }

    /// See [`numbers`].
    fn stats(&self, py: Python<'_>) -> PyOut<Vec<u64>> {
        self.ask(py, |stream| Ok(numbers(stream.stats()))).map(Out)
    }

    /// All slices.
    fn slices(&self, py: Python<'_>) -> PyResult<PyRecordBatch> {
        self.ask(py, |stream| Ok(PyRecordBatch::new(stream.slices()?)))
    }

    /// The watermark in units of the measure.
    #[getter]
    fn watermark(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.ask(py, |stream| Ok(stream.watermark()))
    }

    /// The same as far as its results were handed out.
    #[getter]
    fn watermark_out(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.ask(py, |stream| Ok(stream.watermark_out()))
    }

    /// How slices are stored, and why: in one way, or in several.
    fn stores(&self, py: Python<'_>) -> PyOut<Vec<(&'static str, &'static str)>> {
        self.ask(py, |stream| Ok(stream.store_forms())).map(Out)
    }

    /// The answers of the decision trees.
    fn strategy(&self, py: Python<'_>) -> PyOut<Vec<Answer>> {
        let yes = |ruling: &Ruling<bool>| if ruling.answer { "yes" } else { "no" }.to_owned();
        self.ask(py, |stream| {
            let strategy = stream.strategy();
            let (keep, split) = (&strategy.keep_rows, &strategy.split);
            let mut answers: Vec<Answer> = vec![
                ("store rows", yes(keep), keep.because, keep.source),
                ("split slices", yes(split), split.because, split.source),
            ];
            for remove in &strategy.remove {
                let remove = ("take rows out", remove.answer.to_string(), remove.because, remove.source);
                if !answers.contains(&remove) {
                    answers.push(remove);
                }
            }
            Ok(answers)
        })
        .map(Out)
    }
}

impl PyOperator {
    fn of(operator: Operator) -> Result<Self> {
        let known = Known::new(operator.input().clone())?;
        Ok(Self(Called::new(Ok(operator)), known))
    }

    /// Makes a call, and returns the windows that it emits, if there are any.
    fn call(&self, step: Step<'_>) -> Result<Option<PyRecordBatchReader>> {
        let rows = self.0.call(|stream| {
            let results = stream.call(step)?;
            Ok(Rows::new(results, stream.schema()))
        })?;
        Ok((!rows.is_empty()).then(|| rows.table()))
    }

    /// Returns what the operator says of itself, once it has dropped what it holds too much of.
    fn ask<A: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut Operator) -> Result<A> + Send,
    ) -> PyResult<A> {
        detached(py, || {
            self.0.ask(|stream| {
                stream.relieve()?;
                question(stream)
            })
        })
    }
}

/// How the watermark follows rows, in units of the query's measure.
fn delay(plan: &Plan, (time, rows, share, source, idle, future): GivenDelay) -> Result<Delay> {
    let by = match (time, rows, share) {
        (Some(time), None, None) => By::Time(bound(plan, "delay", time)?),
        (None, Some(rows), None) => By::Rows(rows),
        (None, None, Some(share)) => By::Share(share),
        _ => return Err(Error::InvalidValue("delay: expected a time, a number of rows, or a share".into())),
    };
    let source = source.map(|name| find(plan.input(), "source", &name)).transpose()?;
    let future = future.map(|future| bound(plan, "future", future)).transpose()?;
    Ok(Delay { by, source, idle, future })
}

/// A length in units of the query's measure.
fn bound(plan: &Plan, argument: &str, given: Length) -> Result<i64> {
    length(plan.measure(), argument, given.0, given.1)
}

/// What an operator holds and has done, in the order of `windowkit.streams.stats.Stats`.
fn numbers(s: Stats) -> Vec<u64> {
    let held = [s.keys, s.slices, s.rows_kept, s.bytes].map(|number| number as u64);
    let done = [s.rows, s.splits, s.merges, s.shifts, s.recomputations, s.late, s.windows, s.updates];
    let shed = [s.shed.rows, s.shed.keys, s.shed.slices, u64::from(s.shed.level)];
    [&held[..], &done, &[s.late_dropped, s.late_bytes as u64, s.keys_ahead as u64], &shed].concat()
}
