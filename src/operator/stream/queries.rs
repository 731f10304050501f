//! The queries of a stream: what their slices store together, where slices are cut, and the columns of the results.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::names::Names;
use super::sharing::{Class, Shared, part};
use crate::aggregate::{Input, Partials, Rows};
use crate::operator::plan::{Plan, Stored};
use crate::operator::policy::Refinement;
use crate::operator::schema::{extent_fields, rank_fields};
use crate::slice::Edges;
use crate::slice::strategy::Order;
use crate::types::named;
use crate::window::{Measure, Session, Spans, Window};
use crate::{Error, Result};

/// A query of a stream.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Registered {
    pub(in crate::operator) name: String,
    pub(in crate::operator) plan: Arc<Plan>,
    /// Only rows and windows that begin after this belong to it; all of them if it was there from the start.
    pub(in crate::operator) since: Option<i64>,
    /// Its place among all queries of the operator.
    pub(super) entry: usize,
    /// Which of the stream's partials are its own.
    pub(in crate::operator) partials: Vec<usize>,
    /// Which of the stream's aggregate columns are its own.
    columns: Vec<usize>,
    /// The names of its windows.
    names: Names,
    /// The number of each of its windows among all of the query, of which other engines may run some.
    pub(super) windows: Vec<u32>,
}

impl Registered {
    /// The place of the first of a key's slices that belong to it.
    pub(super) fn first_place(&self, spans: Spans<'_>) -> usize {
        self.since.map_or(0, |since| spans.firsts.partition_point(|&first| first <= since))
    }

    /// Whether early results are of all open windows, with or without pending rows: those that are missing are gone, and
    /// are retracted.
    pub(super) fn lists_all(&self) -> bool {
        let retracts = self.plan.policy().is_some_and(|policy| policy.refinement() == Refinement::Retracting);
        retracts && self.plan.windows().iter().any(|(_, window)| window.may_vanish() && !window.observes())
    }

    /// Whether a row at `t` belongs to it.
    pub(super) fn has(&self, t: i64) -> bool {
        self.since.is_none_or(|since| t > since)
    }
}

/// A query of an operator, whichever engine runs it.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Entry {
    pub(in crate::operator) name: String,
    pub(in crate::operator) plan: Arc<Plan>,
    /// Only rows and windows that begin after this belong to it; all of them if it was there from the start.
    pub(in crate::operator) since: Option<i64>,
    /// For how long after its end a window is updated.
    pub(in crate::operator) lateness: i64,
    /// Of each of its windows: they say which engine runs it.
    pub(in crate::operator) classes: Vec<Class>,
}

impl Entry {
    /// A query of an operator with these options.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn new(
        name: String,
        (plan, lateness): (Arc<Plan>, i64),
        since: Option<i64>,
        order: Order,
    ) -> Result<Self> {
        let classes = Class::of(&name, &plan, order, lateness)?;
        let discards = plan.policy().is_some_and(|policy| policy.refinement() == Refinement::Discarding);
        if discards && lateness > 0 {
            return Err(Error::InvalidValue(format!(
                "refinement: it is 'discarding' for '{name}', whose allowed_lateness is {lateness}; an update covers \
                 all rows of a window, so allowed are 'accumulating' and 'retracting', or an allowed_lateness of 0"
            )));
        }
        Ok(Self { name, plan, since, lateness, classes })
    }

    /// Windows that ended at or before this have expired once the watermark is there.
    pub(super) fn horizon(&self, watermark: Option<i64>) -> Option<i64> {
        watermark.map(|watermark| watermark.saturating_sub(self.lateness))
    }
}

/// The classes of all windows of these queries.
pub(super) fn classes(entries: &[Entry]) -> impl Iterator<Item = &Class> {
    entries.iter().flat_map(|entry| &entry.classes)
}

/// What results say of windows besides their keys and aggregates, one entry per window.
#[derive(Debug, Clone)]
pub(in crate::operator) struct WindowColumns {
    pub(in crate::operator) extents: ArrayRef,
    /// Which of the query's windows each is.
    pub(in crate::operator) which: Vec<u32>,
    pub(in crate::operator) updates: BooleanArray,
    /// The ranks of their rows; null where a window is not measured by rows.
    pub(in crate::operator) ranks: Option<ArrayRef>,
    /// Their numbers; null where a window has none.
    pub(in crate::operator) numbers: Option<ArrayRef>,
}

/// Which columns results have, besides keys, extents and aggregates.
#[derive(Debug, Clone, Copy)]
struct Columns {
    window_names: bool,
    ranks: bool,
    numbers: bool,
}

/// All queries of a stream.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Queries {
    registered: Vec<Registered>,
    stored: Vec<Stored>,
    edges: Edges,
    aggregates: Vec<Field>,
    schema: SchemaRef,
    /// Of the column of windows.
    extents: Fields,
    /// Of sessions.
    widest_gap: Option<i64>,
    has_long: bool,
    results: Columns,
    /// Whether there ever was more than one query, so that results name the query.
    several: bool,
}

impl Queries {
    /// Binds the windows of these classes. All queries have columns in the schema of results.
    ///
    /// # Errors
    /// Two queries of one name, with different keys or time, or with columns of one name and different types.
    pub(in crate::operator) fn among(entries: &[Entry], shared: &Shared, several: bool) -> Result<Self> {
        let Some(Entry { plan: leader, .. }) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let (leader, several) = (leader.clone(), several || entries.len() > 1);
        let (mut registered, mut stored, mut aggregates) =
            (Vec::<Registered>::new(), Vec::new(), Vec::<Field>::new());
        for (at, Entry { name, plan, since, classes, .. }) in entries.iter().enumerate() {
            if entries[..at].iter().any(|other| other.name == *name) {
                return Err(Error::InvalidValue(format!(
                    "query: a query named '{name}' exists; queries of one operator must have different names"
                )));
            }
            check_alike(&leader, plan, name)?;
            let mut columns = Vec::new();
            let fields = plan.output().fields();
            for field in &fields[fields.len() - plan.aggregates().len()..] {
                let column = place(&mut aggregates, field.as_ref(), |other| other.name() == field.name());
                if field.is_nullable() {
                    aggregates[column].set_nullable(true);
                }
                if aggregates[column].data_type() != field.data_type() {
                    return Err(Error::InvalidValue(format!(
                        "query: '{}' of '{name}' is {}, but {} in another query; give one of them another name with \
                         .alias()",
                        field.name(),
                        named(field.data_type()),
                        named(aggregates[column].data_type())
                    )));
                }
                columns.push(column);
            }
            let Some(plan) = part(plan, classes, shared) else { continue };
            let is_own = |at: &u32| shared.has(&classes[*at as usize]);
            let own_windows = (0..classes.len() as u32).filter(is_own).collect();
            let own =
                plan.partials().iter().map(|partial| place(&mut stored, partial, |other| other == partial));
            let partials = own.collect();
            let names = Names::new(plan.windows().iter().map(|(name, _)| name.as_str()));
            registered.push(Registered {
                name: name.clone(),
                plan,
                since: *since,
                entry: at,
                partials,
                columns,
                names,
                windows: own_windows,
            });
        }
        let edges = Edges::since(registered.iter().flat_map(|registered| {
            let windows = registered.plan.windows().iter();
            windows.map(|(_, window)| (window, registered.since))
        }));
        let schema = schema(entries, &aggregates, several)?;
        let extents = extent_fields(leader.measure());
        let gaps = windows(&registered).filter_map(|(_, window)| window.merging().map(Session::gap));
        let widest_gap = gaps.max();
        let is_long = |window: &Window| window.by_time().is_some_and(|rules| rules.is_long());
        let has_long = windows(&registered).any(|(_, window)| is_long(window));
        let results = Columns {
            window_names: names_windows(entries),
            ranks: has_ranks(entries),
            numbers: has_numbers(entries),
        };
        Ok(Self {
            registered,
            stored,
            edges,
            aggregates,
            schema,
            extents,
            widest_gap,
            has_long,
            results,
            several,
        })
    }

    /// Whether there is a query of this number with a window type of that number.
    pub(super) fn has_window(&self, query: usize, window: usize) -> bool {
        self.registered.get(query).is_some_and(|query| window < query.plan.windows().len())
    }

    /// The queries, in the order they were added.
    pub(in crate::operator) fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// The queries' names and how many of their windows there are here: all that changes where one comes or goes.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.registered.iter().map(|each| (each.name.as_str(), each.plan.windows().len()))
    }

    /// Whose keys, time and schema all have.
    pub(in crate::operator) fn leader(&self) -> &Plan {
        &self.registered[0].plan
    }

    /// The distinct partials of all queries.
    pub(in crate::operator) fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// The earliest time of a row that some query accepts, if each accepts rows from then on, unless it was added later.
    pub(super) fn cutoff(&self, takes_from: impl Fn(usize) -> i64) -> Option<i64> {
        let of_query = |(query, registered): (usize, &Registered)| {
            let least = takes_from(query);
            registered.since.map_or(least, |since| least.max(since.saturating_add(1)))
        };
        self.registered.iter().enumerate().map(of_query).min()
    }

    /// The earliest time of a row that a query accepts once its windows that ended by this time have expired, unless it was
    /// added later.
    pub(super) fn takes_from(&self, query: usize, horizon: i64) -> i64 {
        let (bounds, windows) = (self.edges.bounds(), self.registered[query].plan.windows());
        windows.iter().map(|(_, window)| window.takes_from(horizon, bounds)).fold(i64::MAX, i64::min)
    }

    /// The cutoff once windows that ended by this time have expired.
    pub(super) fn cutoff_at(&self, horizon: i64) -> Option<i64> {
        self.cutoff(|query| self.takes_from(query, horizon))
    }

    /// Where slices are cut.
    pub(in crate::operator) fn edges(&self) -> &Edges {
        &self.edges
    }

    /// The greatest gap of all sessions: rows further apart are never in one session.
    pub(in crate::operator) fn widest_gap(&self) -> Option<i64> {
        self.widest_gap
    }

    /// Whether some windows may be much longer than the slices that other windows cut.
    pub(super) fn has_long(&self) -> bool {
        self.has_long
    }

    /// The fields of the column of windows.
    pub(super) fn extents(&self) -> &Fields {
        &self.extents
    }

    /// The schema of results.
    pub(in crate::operator) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Columns for `slots` slots of the partials; partials that `old` also has are moved over.
    pub(in crate::operator) fn columns(
        &self,
        old: Option<(&Self, &[Box<dyn Partials>])>,
        slots: usize,
    ) -> Result<Vec<Box<dyn Partials>>> {
        let mut columns: Vec<Option<Box<dyn Partials>>> = self.stored.iter().map(|_| None).collect();
        if let Some((queries, partials)) = old {
            let each: Vec<u32> = (0..slots as u32).collect();
            for (stored, partials) in queries.stored.iter().zip(partials) {
                if let Some(at) = self.stored.iter().position(|other| other == stored) {
                    columns[at] =
                        Some(if slots == 0 { partials.empty() } else { partials.regroup(&each, &each)? });
                }
            }
        }
        let fresh = self.fresh()?;
        let finished =
            columns.into_iter().zip(fresh).zip(&self.stored).map(|((known, mut fresh), stored)| {
                if let Some(known) = known {
                    return Ok(known);
                }
                if slots > 0 {
                    let nothing = stored.nothing(self.leader().input());
                    let rows = Rows { slots: &[], times: &[], sparse: true };
                    Input { columns: nothing, taken: None }.feed(&mut *fresh, rows, slots)?;
                }
                Ok(fresh)
            });
        finished.collect()
    }

    /// An empty column of each partial.
    fn fresh(&self) -> Result<Vec<Box<dyn Partials>>> {
        let mut fresh: Vec<Option<Box<dyn Partials>>> = self.stored.iter().map(|_| None).collect();
        for Registered { plan, partials, .. } in &self.registered {
            for (&at, column) in partials.iter().zip(plan.empty_partials()?) {
                fresh[at].get_or_insert(column);
            }
        }
        Ok(fresh.into_iter().flatten().collect())
    }

    /// A batch of results of one query.
    ///
    /// `keys`, `starts` and `ends` have an entry per window; `which` says which of the query's windows each is, and
    /// `lowered` are the query's aggregates.
    pub(in crate::operator) fn batch(
        &self,
        query: usize,
        keys: Vec<ArrayRef>,
        windows: WindowColumns,
        lowered: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let WindowColumns { extents, which, updates, ranks, numbers } = windows;
        let (registered, rows) = (&self.registered[query], which.len());
        let mut columns = keys;
        columns.reserve_exact(self.schema.fields().len() - columns.len());
        if self.several {
            let names = std::iter::repeat_n(registered.name.as_str(), rows);
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        if self.results.window_names {
            columns.push(registered.names.column(&which)?);
        }
        columns.push(extents);
        let nothing = |kind: DataType| new_null_array(&kind, rows);
        if self.results.ranks {
            columns.push(ranks.unwrap_or_else(|| nothing(DataType::Struct(rank_fields()))));
        }
        if self.results.numbers {
            columns.push(numbers.unwrap_or_else(|| nothing(DataType::Int64)));
        }
        let mut own: Vec<Option<ArrayRef>> = vec![None; self.aggregates.len()];
        for (&column, values) in registered.columns.iter().zip(lowered) {
            own[column] = Some(values);
        }
        let own = own.into_iter().zip(&self.aggregates);
        columns
            .extend(own.map(|(own, field)| own.unwrap_or_else(|| new_null_array(field.data_type(), rows))));
        columns.push(Arc::new(updates));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Extents of withdrawn windows.
    pub(in crate::operator) fn no_extents(&self, rows: usize) -> ArrayRef {
        new_null_array(&DataType::Struct(extent_fields(self.leader().measure())), rows)
    }
}

/// The place of an item equal to `item`, which is added if it is missing.
fn place<T: Clone>(items: &mut Vec<T>, item: &T, alike: impl Fn(&T) -> bool) -> usize {
    items.iter().position(alike).unwrap_or_else(|| {
        items.push(item.clone());
        items.len() - 1
    })
}

/// All windows of queries, with the query of each.
pub(in crate::operator) fn windows(registered: &[Registered]) -> impl Iterator<Item = (usize, &Window)> {
    registered
        .iter()
        .enumerate()
        .flat_map(|(at, registered)| registered.plan.windows().iter().map(move |(_, window)| (at, window)))
}

fn names_windows(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.plan.windows().len() > 1)
}

fn all_windows(entries: &[Entry]) -> impl Iterator<Item = &Window> {
    entries.iter().flat_map(|entry| entry.plan.windows().iter().map(|(_, window)| window))
}

fn has_ranks(entries: &[Entry]) -> bool {
    all_windows(entries).any(|window| window.is_ranked())
}

fn has_numbers(entries: &[Entry]) -> bool {
    all_windows(entries).any(|window| window.is_numbered())
}

fn check_alike(leader: &Plan, plan: &Plan, name: &str) -> Result<()> {
    let names = |plan: &Plan| -> Vec<String> {
        plan.by().iter().map(|&column| plan.input().field(column).name().clone()).collect()
    };
    if names(leader) != names(plan) {
        return Err(Error::InvalidValue(format!(
            "by: '{name}' groups by [{}], but the operator's queries by [{}]; queries of one operator must have the \
             same keys",
            names(plan).join(", "),
            names(leader).join(", ")
        )));
    }
    if leader.time() != plan.time() {
        return Err(Error::InvalidValue(format!(
            "time: '{name}' uses '{}', but the operator's queries use '{}'; queries of one operator must have the \
             same time column",
            plan.measure().column(),
            leader.measure().column()
        )));
    }
    let gaps = |plan: &Plan| plan.gap_column().map(|gaps| gaps.position);
    if gaps(leader) != gaps(plan) {
        return Err(Error::InvalidValue(format!(
            "windows: '{name}' and the operator's queries do not all have sessions with gaps from the same column; a row \
             without a gap is in no window of an operator, so make an operator for each"
        )));
    }
    Ok(())
}

fn schema(entries: &[Entry], aggregates: &[Field], several: bool) -> Result<SchemaRef> {
    let leader = &entries[0].plan;
    let mut fields: Vec<Field> =
        leader.output().fields()[..leader.by().len()].iter().map(|field| field.as_ref().clone()).collect();
    if several {
        fields.push(Field::new("query_name", DataType::Utf8, false));
    }
    if names_windows(entries) {
        fields.push(Field::new("window_name", DataType::Utf8, false));
    }
    let sessions = all_windows(entries).all(|window| window.is_session());
    let vanish = all_windows(entries).any(|window| window.may_vanish());
    let extent = extent_field(leader.measure(), if sessions { "session_window" } else { "window" });
    fields.push(extent.with_nullable(vanish));
    if has_ranks(entries) {
        let nullable = vanish || !all_windows(entries).all(|window| window.is_ranked());
        fields.push(Field::new("window_rows", DataType::Struct(rank_fields()), nullable));
    }
    if has_numbers(entries) {
        fields.push(Field::new(
            "window_number",
            DataType::Int64,
            !all_windows(entries).all(|window| window.is_numbered()),
        ));
    }
    // A query without a column has nulls there.
    let nullable = |field: &Field| {
        let everywhere = entries
            .iter()
            .all(|entry| entry.plan.output().fields().iter().any(|own| own.name() == field.name()));
        field.clone().with_nullable(field.is_nullable() || vanish || !everywhere)
    };
    fields.extend(aggregates.iter().map(nullable));
    fields.push(Field::new("update", DataType::Boolean, false));
    for (at, field) in fields.iter().enumerate() {
        if fields[..at].iter().any(|other| other.name() == field.name()) {
            return Err(Error::InvalidValue(format!(
                "aggs: results would have two columns '{}'; give one of them another name with .alias()",
                field.name()
            )));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn extent_field(measure: &Measure, name: &str) -> Field {
    Field::new(name, DataType::Struct(extent_fields(measure)), false)
}
