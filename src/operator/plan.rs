//! A query bound to a schema: every check that needs no data, and what the query's slices store.

mod identity;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::binding::bind_window;
use super::fill::Fill;
use super::policy::Policy;
use super::schema::{find, has_own_order, output_schema, with_results};
use super::stored::Planned;
pub use super::stored::Stored;
use super::weights::Weights;
use super::window_spec::WindowSpec;
use crate::aggregate::{Function, Operand, Partials, Properties, User};
use crate::dictionary::compared;
use crate::interrupt::check;
use crate::keys::KeyIndex;
use crate::slice::Edges;
use crate::types::named;
use crate::window::{GapColumn, Measure, Window};
use crate::{Error, Result};

/// An aggregate as a query states it.
#[derive(Debug, Clone)]
pub struct AggregateSpec {
    /// Name of the function, one of [`Function::names`].
    pub function: String,
    /// Its columns, as many as the function reads.
    pub columns: Vec<String>,
    /// Name of its result.
    pub name: String,
    /// A boolean column: only rows where it is true are aggregated.
    pub filter: Option<String>,
    /// Numeric parameters of the function, besides its columns.
    pub parameters: Vec<f64>,
    /// The function, if it is user-defined; `function` is then ignored.
    pub user: Option<User>,
}

impl AggregateSpec {
    /// A function of these columns, without filter and parameters.
    pub fn new(function: &str, columns: &[&str], name: &str) -> Self {
        Self {
            function: function.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            name: name.into(),
            filter: None,
            parameters: Vec::new(),
            user: None,
        }
    }
}

/// Windows that a query may make in one call, unless it says otherwise.
pub const MAX_WINDOWS: u64 = 1_000_000_000;

/// A query bound to a schema.
#[derive(Debug, Clone)]
pub struct Plan {
    input: SchemaRef,
    by: Vec<usize>,
    time: usize,
    measure: Measure,
    windows: Vec<(String, Window)>,
    edges: Edges,
    partials: Vec<Stored>,
    aggregates: Vec<Planned>,
    output: SchemaRef,
    max_windows: Option<u64>,
    policy: Option<Arc<Policy>>,
    weights: Option<Weights>,
    fill: Option<Arc<[Fill]>>,
    spec: Spec,
}

/// What a plan was built from, to bind it again.
#[derive(Debug, Clone, Default)]
struct Spec {
    by: Vec<String>,
    time: String,
    windows: Vec<WindowSpec>,
    aggregates: Vec<AggregateSpec>,
    weight: Option<String>,
    /// Whether rows are a sample, from which aggregates are estimated.
    is_sample: bool,
}

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

    /// The plan of the rows that this one's aggregates are asked for, which are read for their keys and times: the
    /// result has all their columns, then the aggregates.
    ///
    /// # Errors
    /// `UnknownColumn` for a column that they do not have; `InvalidType` if keys or times have other types than those of
    /// this plan; `InvalidValue` for a column with the name of an aggregate, or another number of keys.
    pub fn of_labels(&self, labels: SchemaRef, by: Vec<String>, time: String) -> Result<Self> {
        if by.len() != self.by.len() {
            return Err(Error::InvalidValue(format!(
                "by: {} keys of the labels are given; the events have {}, and each has its own",
                by.len(),
                self.by.len()
            )));
        }
        let keys: Vec<usize> = by.iter().map(|name| find(&labels, "by", name)).collect::<Result<_>>()?;
        for (&key, &own) in keys.iter().zip(&self.by) {
            let (key, own) = (labels.field(key), self.input.field(own));
            if compared(key.data_type(), own.data_type()).is_none() {
                return Err(unlike("key", key, own));
            }
        }
        let at = find(&labels, "time", &time)?;
        let measure = Measure::new(&time, labels.field(at).data_type())?;
        if !measure.is_comparable(&self.measure) {
            return Err(unlike("time", labels.field(at), self.input.field(self.time)));
        }
        let results = self.output.fields().iter().map(|field| field.as_ref().clone()).collect();
        Ok(Self {
            output: with_results(&labels, results)?,
            input: labels,
            by: keys,
            time: at,
            measure,
            partials: Vec::new(),
            aggregates: Vec::new(),
            spec: Spec { by, time, aggregates: Vec::new(), ..self.spec.clone() },
            ..self.clone()
        })
    }

    /// Binds a query; `with_input` says whether the result has the columns of the input, where there are no windows.
    fn bind(input: SchemaRef, spec: Spec, with_input: bool) -> Result<Self> {
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
        let output = match windows[..] {
            [] if with_input => with_results(&input, results)?,
            [] => with_results(&Schema::empty(), results)?,
            _ => output_schema(&input, &by, &measure, &windows, results)?,
        };
        let max_windows = Some(MAX_WINDOWS);
        let (aggregates, policy, fill) = (planned, None, None);
        Ok(Self {
            input,
            by,
            time,
            measure,
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

    /// This plan for rows with weights in a column of this name: 1, and -1 where a row retracts an earlier one.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue` if there is no such column of signed integers, or if windows or
    /// functions do not allow it.
    pub fn with_weight(self, weight: Option<String>) -> Result<Self> {
        if weight == self.spec.weight {
            return Ok(self);
        }
        let bound = Self::bind(self.input.clone(), Spec { weight, ..self.spec.clone() }, true)?;
        Ok(Self { max_windows: self.max_windows, policy: self.policy, ..bound })
    }

    /// This plan for rows that are a sample, each of which was kept with a known probability: in place of each aggregate
    /// its estimate, and then the standard error of that.
    ///
    /// # Errors
    /// `InvalidValue` for functions of which there is no estimate, for windows that rows determine, and with weights.
    pub fn of_sample(&self) -> Result<Self> {
        let bound = Self::bind(self.input.clone(), Spec { is_sample: true, ..self.spec.clone() }, true)?;
        Ok(Self { max_windows: self.max_windows, policy: self.policy.clone(), ..bound })
    }

    /// How rows are weighed, if they are.
    pub(super) fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// This plan for results in which windows without rows are filled, between a key's first and last window of each
    /// type: `fill` says how for each aggregate.
    ///
    /// # Errors
    /// `InvalidValue` if windows do not follow each other in time, `InvalidType` if a type has no zero.
    pub fn with_fill(self, fill: Option<Vec<Fill>>) -> Result<Self> {
        let Some(fill) = fill else { return Ok(self) };
        if let Some((name, _)) = self.windows.iter().find(|(_, window)| window.series().is_none()) {
            return Err(Error::InvalidValue(format!(
                "fill: windows of {name} do not follow each other in time, so that none are known to be missing; allowed \
                 are tumbling and sliding windows over time or integers, and those of a calendar"
            )));
        }
        let first = self.output.fields().len() - self.aggregates.len();
        let (names, results) = self.output.fields().split_at(first);
        let results =
            results.iter().zip(&fill).map(|(field, how)| how.of(field)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<_> = names.iter().cloned().chain(results.into_iter().map(Arc::new)).collect();
        Ok(Self { output: Arc::new(Schema::new(fields)), fill: Some(fill.into()), ..self })
    }

    /// How windows without rows are filled, for each aggregate, if they are.
    pub(super) fn fill(&self) -> Option<&Arc<[Fill]>> {
        self.fill.as_ref()
    }

    /// This plan, allowed to make so many windows in one call; any number if `None`.
    pub fn with_max_windows(self, max_windows: Option<u64>) -> Self {
        Self { max_windows, ..self }
    }

    /// This plan with an emission policy, for streams.
    ///
    /// # Errors
    /// `InvalidValue` for a policy that would never fire.
    pub fn with_policy(self, policy: Option<Policy>) -> Result<Self> {
        if let Some(policy) = &policy {
            policy.check(&self.windows)?;
        }
        Ok(Self { policy: policy.map(Arc::new), ..self })
    }

    /// The emission policy, if it has one.
    pub fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
    }

    /// This plan with some of its windows only, given by their numbers: at least one.
    pub(super) fn with_windows(&self, which: impl Fn(usize) -> bool) -> Self {
        let windows = self.windows.iter().enumerate().filter(|&(at, _)| which(at));
        let windows: Vec<(String, Window)> = windows.map(|(_, window)| window.clone()).collect();
        let mut spec = self.spec.clone();
        spec.windows.retain(|spec| windows.iter().any(|(name, _)| *name == spec.name));
        let edges = Edges::of(windows.iter().map(|(_, window)| window));
        Self { windows, edges, spec, ..self.clone() }
    }

    /// How many windows it may make in one call: a run over bounded input, or a call of a stream operator.
    pub fn max_windows(&self) -> Option<u64> {
        self.max_windows
    }

    /// The error for more windows than that, `total` or more, most of them those with number `window`; `context` is what
    /// makes them.
    pub(super) fn too_many(&self, context: &str, total: u64, window: usize) -> Error {
        let (name, most) = (&self.windows[window].0, self.max_windows.unwrap_or(u64::MAX));
        Error::InvalidValue(format!(
            "max_windows: {context} makes at least {total} windows, most of them '{name}'; allowed are {most}. Let \
             windows begin less often, or allow more by query(..., max_windows=...), any number by None"
        ))
    }

    /// The schema that the query is bound to.
    pub fn input(&self) -> &SchemaRef {
        &self.input
    }

    /// The schema of the result.
    pub fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// Positions of the key columns.
    pub fn by(&self) -> &[usize] {
        &self.by
    }

    /// Position of the time column.
    pub fn time(&self) -> usize {
        self.time
    }

    /// Positions of all columns that the query reads.
    pub fn columns(&self) -> Vec<usize> {
        [self.by.as_slice(), &[self.time], &self.read()].concat()
    }

    /// The measure that windows range over.
    pub fn measure(&self) -> &Measure {
        &self.measure
    }

    /// Names and windows, in units of the measure.
    pub fn windows(&self) -> &[(String, Window)] {
        &self.windows
    }

    /// Whether a window needs rows in order: slices are then cut once all rows are there, and not in advance.
    pub fn needs_rows(&self) -> bool {
        self.windows.iter().any(|(_, window)| window.needs_rows())
    }

    /// The column without a value above zero in which a row is in no window, if there is one.
    pub fn gap_column(&self) -> Option<&GapColumn> {
        self.windows.first()?.1.gap_column()
    }

    /// Whether the result has every row, also those without time: without windows.
    pub(super) fn keeps_all_rows(&self) -> bool {
        self.windows.is_empty()
    }

    /// Whether the result has a column of the ranks of windows' rows.
    pub fn has_ranks(&self) -> bool {
        self.windows.iter().any(|(_, window)| window.is_ranked())
    }

    /// Positions of the columns that partials or windows read, each once.
    pub(super) fn read(&self) -> Vec<usize> {
        let of_partials = self.partials.iter().flat_map(Stored::reads);
        let of_windows = self.windows.iter().flat_map(|(_, window)| window.columns());
        let mut all: Vec<usize> = of_partials.chain(of_windows).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Where slices are cut.
    pub fn edges(&self) -> &Edges {
        &self.edges
    }

    /// The distinct partials that slices store.
    pub fn partials(&self) -> &[Stored] {
        &self.partials
    }

    pub(super) fn aggregates(&self) -> &[Planned] {
        &self.aggregates
    }

    /// An empty column of each partial.
    ///
    /// # Errors
    /// None for a plan that is already bound, except what a user-defined function raises.
    pub fn empty_partials(&self) -> Result<Vec<Box<dyn Partials>>> {
        self.partials.iter().map(|stored| stored.partial.column(&self.types(&stored.inputs), check)).collect()
    }

    /// Number of columns in which each partial arrives from elsewhere.
    pub fn state_columns(&self) -> Vec<usize> {
        let width = |stored: &Stored| {
            let first = stored.inputs.first();
            let input = first.map_or(DataType::Int64, |&column| self.input.field(column).data_type().clone());
            stored.partial.state_columns(&input)
        };
        self.partials.iter().map(width).collect()
    }

    /// The properties of each aggregate, in the order of the query.
    ///
    /// # Errors
    /// As [`Plan::empty_partials`].
    pub fn properties(&self) -> Result<Vec<Properties>> {
        let time = self.time_type();
        self.aggregates.iter().map(|each| each.function.properties(&each.inputs, time)).collect()
    }

    /// Which of the partials each aggregate is lowered from, in the order of the query.
    pub fn sources(&self) -> Vec<Vec<usize>> {
        self.aggregates.iter().map(|each| each.partials.clone()).collect()
    }

    pub(super) fn time_type(&self) -> &DataType {
        self.input.field(self.time).data_type()
    }

    fn types(&self, columns: &[usize]) -> Vec<DataType> {
        columns.iter().map(|&column| self.input.field(column).data_type().clone()).collect()
    }

    /// The plan for slices that arrive as columns (keys, start, with sessions last, states): the same query, with the
    /// types of keys and extrema that arrive, such as large strings for strings.
    ///
    /// # Errors
    /// `InvalidValue` if the number of columns is not that of the query's slices.
    pub fn for_slices(&self, slices: &Schema) -> Result<Self> {
        let fixed = self.by.len() + 1 + usize::from(self.edges.gap().is_some());
        let states = self.state_columns();
        let expected = fixed + states.iter().sum::<usize>();
        if slices.fields().len() != expected {
            return Err(Error::InvalidValue(format!(
                "schema: slices of this query have {expected} columns, {} given",
                slices.fields().len()
            )));
        }
        let mut fields: Vec<Field> = self.input.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (position, &column) in self.by.iter().enumerate() {
            fields[column] =
                fields[column].clone().with_data_type(slices.field(position).data_type().clone());
        }
        let mut position = fixed;
        for (stored, width) in self.partials.iter().zip(states) {
            let like_inputs = stored.partial.states_like_inputs();
            for (at, &column) in stored.inputs.iter().enumerate().take(like_inputs) {
                // The measure takes the type of the starts, from which the windows' edges are built.
                if column != self.time {
                    let arrived = slices.field(position + at).data_type().clone();
                    fields[column] = fields[column].clone().with_data_type(arrived);
                }
            }
            position += width;
        }
        let plan = Self::bind(Arc::new(Schema::new(fields)), self.spec.clone(), true)?;
        plan.with_max_windows(self.max_windows).with_fill(self.fill.as_deref().map(<[Fill]>::to_vec))
    }
}

/// The error for a column of labels that cannot be compared with that of the events.
fn unlike(role: &str, label: &Field, event: &Field) -> Error {
    Error::InvalidType(format!(
        "{}: column '{}' of the labels is {}, and {role} '{}' of the events is {}; both must have one type: cast one of \
         them to that of the other",
        if role == "key" { "by" } else { "time" },
        label.name(),
        named(label.data_type()),
        event.name(),
        named(event.data_type())
    ))
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
    let Some((window, _)) = windows.iter().find(|(_, window)| !window.traits().is_fixed()) else {
        return Ok(());
    };
    Err(Error::InvalidValue(format!(
        "shed: keep='rows' is given for {window}, which begins or ends elsewhere where rows are dropped; allowed are tumbling \
         and sliding windows by time, bands, landmark windows, the global window, those of a windowkit.ContextFree, and \
         keep='keys'"
    )))
}

/// Binds an aggregate or, of a sample, its estimate (false) or the error of that (true).
fn bind_aggregate(
    (spec, estimate): (&AggregateSpec, Option<bool>),
    input: &Schema,
    time: usize,
    partials: &mut Vec<Stored>,
) -> Result<(Planned, Field)> {
    let function = match &spec.user {
        Some(user) => Function::User(user.clone(), spec.columns.len()),
        None => Function::parse(&spec.function, &spec.columns, &spec.parameters)?,
    };
    let function = match estimate {
        None => function,
        Some(is_error) => function.estimated(is_error).ok_or_else(|| no_estimate(&spec.name))?,
    };
    if spec.columns.len() != function.columns() {
        return Err(Error::InvalidValue(format!(
            "aggs: {} reads {} columns; {} given",
            spec.function,
            function.columns(),
            spec.columns.len()
        )));
    }
    let columns: Vec<usize> =
        spec.columns.iter().map(|name| find(input, "aggs", name)).collect::<Result<_>>()?;
    let filter = spec.filter.as_ref().map(|name| find(input, "where", name)).transpose()?;
    if let Some(filter) = filter.map(|filter| input.field(filter))
        && *filter.data_type() != DataType::Boolean
    {
        return Err(Error::InvalidType(format!(
            "where: column '{}' is {}; allowed are booleans",
            filter.name(),
            named(filter.data_type())
        )));
    }
    // Batches may have dictionaries of different values, so that codes do not tell the order.
    if let Some(ordered) = function.ordered_by().map(|at| input.field(columns[at]))
        && has_own_order(ordered)
    {
        return Err(Error::InvalidType(format!(
            "aggs: column '{}' {} a dictionary with an order of its own, by which {} does not compare; allowed are its \
             codes as integers (in pandas .cat.codes, in Polars .to_physical()), or its values without that order",
            ordered.name(),
            if ordered.dict_is_ordered() == Some(true) { "is" } else { "holds" },
            spec.function
        )));
    }
    let inputs: Vec<DataType> =
        columns.iter().map(|&column| input.field(column).data_type().clone()).collect();
    let time_type = input.field(time).data_type();
    let output = function.output_type(&inputs, time_type).map_err(|error| match error {
        Error::InvalidType(why) => Error::InvalidType(format!(
            "aggs: {} is not defined for column '{}' of type {why}",
            spec.function,
            spec.columns.join("', '")
        )),
        other => other,
    })?;
    let own = function.partials().into_iter().map(|(partial, operands)| {
        let column = |operand: &Operand| match *operand {
            Operand::Column(at) => columns[at],
            Operand::Time => time,
        };
        let stored = Stored { partial, inputs: operands.iter().map(column).collect(), filter, weight: None };
        partials.iter().position(|known| *known == stored).unwrap_or_else(|| {
            partials.push(stored);
            partials.len() - 1
        })
    });
    let own = own.collect();
    let nullable = function.nullable();
    let name = if estimate == Some(true) { format!("{}_error", spec.name) } else { spec.name.clone() };
    let field = Field::new(&name, output, nullable);
    Ok((Planned { name, function, partials: own, inputs }, field))
}

fn no_estimate(name: &str) -> Error {
    Error::InvalidValue(format!(
        "shed: keep='rows' is given, and {name} has no unbiased estimate from a sample of the rows; allowed are count, sum and \
         mean, and keep='keys', with which all functions are exact"
    ))
}
