//! A query bound to a schema: every check that needs no data, and what the query's slices store.
//!
//! `bound` binds it, with its aggregates in `aggregate`; `derived` makes plans of others; `identity` tells queries apart.

mod aggregate;
mod bound;
mod derived;
mod identity;

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};

pub use self::aggregate::AggregateSpec;
pub(super) use self::identity::Identity;
use super::fill::Fill;
use super::policy::Policy;
use super::stored::Planned;
pub use super::stored::Stored;
use super::weights::Weights;
use super::window_spec::WindowSpec;
use crate::aggregate::{Function, Partials, Properties};
use crate::interrupt::check;
use crate::slice::Edges;
use crate::window::{GapColumn, Measure, Window};
use crate::{Error, Result};

/// Windows that a query may make in one call, unless it says otherwise.
pub const MAX_WINDOWS: u64 = 1_000_000_000;

/// A query bound to a schema.
#[derive(Debug, Clone)]
pub struct Plan {
    input: SchemaRef,
    by: Vec<usize>,
    time: usize,
    measure: Measure,
    extents: Measure,
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
    /// How rows are weighed, if they are.
    pub(super) fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// How windows without rows are filled, for each aggregate, if they are.
    pub(super) fn fill(&self) -> Option<&Arc<[Fill]>> {
        self.fill.as_ref()
    }

    /// The emission policy, if it has one.
    pub fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
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

    /// The measure of window edges in results: that of the time column, shown in the zone of the windows if they have one.
    pub(super) fn extents(&self) -> &Measure {
        &self.extents
    }

    /// Names and windows, in units of the measure.
    pub fn windows(&self) -> &[(String, Window)] {
        &self.windows
    }

    /// Whether a window needs rows in order: slices are then cut once all rows are there, and not in advance.
    pub fn needs_rows(&self) -> bool {
        self.windows.iter().any(|(_, window)| window.needs_rows())
    }

    /// Whether a row may be in none of its windows though others at its time or before are.
    pub(super) fn has_holes(&self) -> bool {
        self.windows.iter().any(|(_, window)| window.has_holes())
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

    /// Whether a function is a user's.
    pub(super) fn has_user_functions(&self) -> bool {
        self.aggregates.iter().any(|each| matches!(each.function, Function::User(..)))
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
}
