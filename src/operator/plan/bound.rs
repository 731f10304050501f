//! How a query is bound to a schema.

use arrow_schema::{Schema, SchemaRef};

use super::aggregate::{AggregateSpec, bind_aggregate};
use super::{MAX_WINDOWS, Plan, Spec};
use crate::keys::KeyIndex;
use crate::operator::binding::bind_window;
use crate::operator::schema::{find, output_schema, shown, with_results};
use crate::operator::weights::Weights;
use crate::operator::window_spec::WindowSpec;
use crate::slice::Edges;
use crate::window::{Measure, Window};
use crate::{Error, Result};

impl Plan {
    /// Binds a query to a schema.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue`, naming the argument, what was given, and what is allowed.
    pub fn new(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        windows: Vec<WindowSpec>,
        aggregates: Vec<AggregateSpec>,
    ) -> Result<Self> {
        if windows.is_empty() {
            return Err(Error::InvalidValue("windows: none given; at least one is needed".into()));
        }
        Self::bind(input, Spec { by, time, windows, aggregates, ..Spec::default() }, true)
    }

    /// Binds aggregates of rows without windows, as those over frames are: the result has all rows, those without time
    /// too, and all columns of the input, then the aggregates.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of_rows(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        aggregates: Vec<AggregateSpec>,
    ) -> Result<Self> {
        Self::bind(input, Spec { by, time, aggregates, ..Spec::default() }, true)
    }

    /// A plan for aggregates of which other rows are asked: see [`Plan::of_labels`]. The result has only them.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of_events(
        input: SchemaRef,
        by: Vec<String>,
        time: String,
        aggregates: Vec<AggregateSpec>,
    ) -> Result<Self> {
        Self::bind(input, Spec { by, time, aggregates, ..Spec::default() }, false)
    }

    /// Binds a query; `with_input` says whether the result has the columns of the input, where there are no windows.
    pub(super) fn bind(input: SchemaRef, spec: Spec, with_input: bool) -> Result<Self> {
        let by: Vec<usize> = spec.by.iter().map(|name| find(&input, "by", name)).collect::<Result<_>>()?;
        KeyIndex::new(by.iter().map(|&column| input.field(column).data_type().clone()).collect())?;
        let time = find(&input, "time", &spec.time)?;
        let measure = Measure::new(&spec.time, input.field(time).data_type())?;
        let windows: Vec<(String, Window)> = spec
            .windows
            .iter()
            .map(|window| Ok((window.name.clone(), bind_window(window, &measure, &input)?)))
            .collect::<Result<_>>()?;
        check_gaps(&windows)?;
        let edges = Edges::of(windows.iter().map(|(_, window)| window));
        if spec.aggregates.is_empty() {
            return Err(Error::InvalidValue("aggs: none given; at least one is needed".into()));
        }
        let mut partials = Vec::new();
        let mut planned = Vec::new();
        let mut results = Vec::new();
        for aggregate in &spec.aggregates {
            let whole = if spec.is_sample { &[Some(false), Some(true)][..] } else { &[None] };
            for &estimate in whole {
                let (bound, field) = bind_aggregate((aggregate, estimate), &input, time, &mut partials)?;
                planned.push(bound);
                results.push(field);
            }
        }
        if spec.is_sample {
            check_sample(&windows, spec.weight.as_deref())?;
        }
        let weights =
            spec.weight.as_deref().map(|name| Weights::bind(name, &input, &windows, &planned, &mut partials));
        let weights = weights.transpose()?;
        let extents = shown(&measure, windows.iter().map(|(_, window)| window));
        let output = match windows[..] {
            [] if with_input => with_results(&input, results)?,
            [] => with_results(&Schema::empty(), results)?,
            _ => output_schema(&input, &by, &extents, &windows, results)?,
        };
        let max_windows = Some(MAX_WINDOWS);
        let (aggregates, policy, fill) = (planned, None, None);
        Ok(Self {
            input,
            by,
            time,
            measure,
            extents,
            windows,
            edges,
            partials,
            aggregates,
            output,
            max_windows,
            policy,
            weights,
            fill,
            spec,
        })
    }
}

/// Rows without a gap are in no window of a query, so that no row lies in the midst of a window that it is not in.
fn check_gaps(windows: &[(String, Window)]) -> Result<()> {
    let position = |window: &Window| window.gap_column().map(|gaps| gaps.position);
    let first = windows.first().and_then(|(_, window)| position(window));
    let Some((other, _)) = windows.iter().find(|(_, window)| position(window) != first) else {
        return Ok(());
    };
    let (name, of) = if first.is_some() { (&windows[0].0, other) } else { (other, &windows[0].0) };
    Err(Error::InvalidValue(format!(
        "windows: {name} takes its gaps from a column, from which {of} does not; a row without a gap is in no window \
         of its query, so make a query for each"
    )))
}

/// Refuses queries whose windows, or rows, a sample would change.
fn check_sample(windows: &[(String, Window)], weight: Option<&str>) -> Result<()> {
    if let Some(weight) = weight {
        return Err(Error::InvalidValue(format!(
            "shed: keep='rows' is given for a query with weight='{weight}'; a row and the one that retracts it would not be \
             dropped together. Allowed is keep='keys'"
        )));
    }
    // Rows that are stored are not weighed.
    let is_sampled = |window: &Window| window.traits().is_fixed() && !window.reads_rows();
    let Some((window, _)) = windows.iter().find(|(_, window)| !is_sampled(window)) else { return Ok(()) };
    Err(Error::InvalidValue(format!(
        "shed: keep='rows' is given for {window}, which is determined by rows, some of which are dropped; allowed are tumbling \
         and sliding windows by time, bands, landmark windows, the global window, and keep='keys'"
    )))
}
