//! The queries of a stream: what their slices store together, where these are cut, and the columns of the results.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::names::Names;
use crate::aggregate::{Input, Partial, Partials, Rows};
use crate::operator::plan::{Plan, Stored, extent_fields, rank_fields};
use crate::slice::strategy::{FunctionTraits, Order, Strategy, Workload};
use crate::slice::{Edges, Slice};
use crate::window::{Class, Measure, Window};
use crate::{Error, Result};

/// A query of a stream.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Asked {
    pub(in crate::operator) name: String,
    pub(in crate::operator) plan: Arc<Plan>,
    /// Its rows and windows are those that begin after this; all if it was there from the start.
    pub(in crate::operator) since: Option<i64>,
    /// Which of the stream's partials are its own.
    pub(in crate::operator) partials: Vec<usize>,
    /// Which of the stream's aggregate columns are its own.
    columns: Vec<usize>,
    /// The names of its windows.
    names: Names,
}

impl Asked {
    /// The place of the first of a key's slices that are its own.
    pub(in crate::operator) fn first_place(&self, slices: &[Slice]) -> usize {
        self.since.map_or(0, |since| slices.partition_point(|slice| slice.first <= since))
    }
}

/// A query of an operator, whoever runs it.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Entry {
    pub(in crate::operator) name: String,
    pub(in crate::operator) plan: Arc<Plan>,
    /// Its rows and windows are those that begin after this; all if it was there from the start.
    pub(in crate::operator) since: Option<i64>,
    /// Whether it is run here, and not elsewhere: then it only has columns in the schema of results.
    pub(in crate::operator) own: bool,
}

/// What results tell of windows beside their keys and aggregates, an entry per window.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Told {
    pub(in crate::operator) extents: ArrayRef,
    /// Which of the query's windows each is.
    pub(in crate::operator) which: Vec<u32>,
    pub(in crate::operator) updates: BooleanArray,
    /// The ranks of their rows; null where a window is not measured by rows.
    pub(in crate::operator) ranks: Option<ArrayRef>,
    /// Their numbers; null where a window needs none.
    pub(in crate::operator) numbers: Option<ArrayRef>,
}

/// Which columns results have, beside keys, extents and aggregates.
#[derive(Debug, Clone, Copy)]
struct Columns {
    window_names: bool,
    ranks: bool,
    numbers: bool,
}

/// All queries of a stream.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Queries {
    asked: Vec<Asked>,
    stored: Vec<Stored>,
    edges: Edges,
    aggregates: Vec<Field>,
    schema: SchemaRef,
    /// Of the column of windows.
    extents: Fields,
    /// Of sessions.
    widest_gap: Option<i64>,
    results: Columns,
    /// Whether there ever was more than one, so that results say whose they are.
    several: bool,
}

impl Queries {
    /// These queries, each with the time after which its windows begin.
    ///
    /// # Errors
    /// Two queries of one name, of other keys or time, or with columns of one name and different types.
    pub(in crate::operator) fn new(
        queries: Vec<(String, Arc<Plan>, Option<i64>)>,
        several: bool,
    ) -> Result<Self> {
        for (_, plan, _) in &queries {
            plan.windows().iter().try_for_each(|(name, window)| check_supported(name, window))?;
        }
        let own = |(name, plan, since)| Entry { name, plan, since, own: true };
        Self::among(queries.into_iter().map(own).collect(), several)
    }

    /// Those of these queries that are run here.
    ///
    /// # Errors
    /// As [`Queries::new`].
    pub(in crate::operator) fn among(entries: Vec<Entry>, several: bool) -> Result<Self> {
        let Some(Entry { plan: leader, .. }) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let (leader, several) = (leader.clone(), several || entries.len() > 1);
        let (mut asked, mut stored, mut aggregates) = (Vec::<Asked>::new(), Vec::new(), Vec::<Field>::new());
        for (at, Entry { name, plan, since, own: is_own }) in entries.iter().enumerate() {
            if entries[..at].iter().any(|other| other.name == *name) {
                return Err(Error::InvalidValue(format!(
                    "query: there is one named '{name}' already; queries of one operator have different names"
                )));
            }
            check_alike(&leader, plan, name)?;
            let mut columns = Vec::new();
            let fields = plan.output().fields();
            for field in &fields[fields.len() - plan.aggregates().len()..] {
                let column = place(&mut aggregates, field.as_ref(), |other| other.name() == field.name());
                if aggregates[column].data_type() != field.data_type() {
                    return Err(Error::InvalidValue(format!(
                        "query: '{}' of '{name}' is {}, and {} in another query; give one of them another name \
                         with .alias()",
                        field.name(),
                        field.data_type(),
                        aggregates[column].data_type()
                    )));
                }
                columns.push(column);
            }
            if !is_own {
                continue;
            }
            let own =
                plan.partials().iter().map(|partial| place(&mut stored, partial, |other| other == partial));
            let partials = own.collect();
            let names = Names::new(plan.windows().iter().map(|(name, _)| name.as_str()));
            asked.push(Asked {
                name: name.clone(),
                plan: plan.clone(),
                since: *since,
                partials,
                columns,
                names,
            });
        }
        let all: Vec<Window> = windows(&asked).map(|(_, window)| window.clone()).collect();
        let edges = Edges::since(asked.iter().flat_map(|asked| {
            let windows = asked.plan.windows().iter();
            windows.map(|(_, window)| (window, asked.since))
        }));
        let schema = schema(&entries, &aggregates, several)?;
        let extents = extent_fields(leader.measure());
        let gaps = all.iter().filter_map(|window| match window {
            Window::Session(session) => Some(session.gap()),
            _ => None,
        });
        let widest_gap = gaps.max();
        let results = Columns {
            window_names: names_windows(&entries),
            ranks: has_ranks(&entries),
            numbers: has_numbers(&entries),
        };
        Ok(Self { asked, stored, edges, aggregates, schema, extents, widest_gap, results, several })
    }

    /// The queries, in the order they came.
    pub(in crate::operator) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// The same and one more.
    pub(in crate::operator) fn with(
        &self,
        name: String,
        plan: Arc<Plan>,
        since: Option<i64>,
    ) -> Result<Self> {
        let mut queries = self.parts();
        queries.push((name, plan, since));
        Self::new(queries, true)
    }

    /// The same without one.
    pub(in crate::operator) fn without(&self, name: &str) -> Result<Self> {
        let mut queries = self.parts();
        queries.retain(|query| query.0 != name);
        if queries.len() == self.asked.len() {
            let names: Vec<&str> = self.asked.iter().map(|asked| asked.name.as_str()).collect();
            return Err(Error::InvalidValue(format!(
                "query: there is none named '{name}'; there are '{}'",
                names.join("', '")
            )));
        }
        if queries.is_empty() {
            return Err(Error::InvalidValue(format!(
                "query: '{name}' is the only one; an operator has at least one query"
            )));
        }
        Self::new(queries, self.several)
    }

    fn parts(&self) -> Vec<(String, Arc<Plan>, Option<i64>)> {
        self.asked.iter().map(|asked| (asked.name.clone(), asked.plan.clone(), asked.since)).collect()
    }

    /// Whose keys, time and schema all have.
    pub(in crate::operator) fn leader(&self) -> &Plan {
        &self.asked[0].plan
    }

    /// The distinct partials of all.
    pub(in crate::operator) fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// Where slices are cut.
    pub(in crate::operator) fn edges(&self) -> &Edges {
        &self.edges
    }

    /// The greatest gap of all sessions: no two rows further apart are in one.
    pub(in crate::operator) fn widest_gap(&self) -> Option<i64> {
        self.widest_gap
    }

    /// Whether results say whose they are.
    pub(in crate::operator) fn several(&self) -> bool {
        self.several
    }

    /// The fields of the column of windows.
    pub(super) fn extents(&self) -> &Fields {
        &self.extents
    }

    /// The schema of results.
    pub(in crate::operator) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The strategy for all, in a stream of this order (Traub et al. 2019, Figs. 4-6).
    pub(in crate::operator) fn strategy(&self, order: Order) -> Result<Strategy> {
        strategy(self.asked.iter().map(|asked| &*asked.plan), order)
    }

    /// Columns for `slots` slots of the partials; those that `old` has are moved over.
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
                    let types = stored.inputs.iter().map(|&at| self.leader().input().field(at).data_type());
                    let nothing: Vec<ArrayRef> = types.map(arrow_array::new_empty_array).collect();
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
        for Asked { plan, partials, .. } in &self.asked {
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
        told: Told,
        lowered: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let Told { extents, which, updates, ranks, numbers } = told;
        let (asked, rows) = (&self.asked[query], which.len());
        let mut columns = keys;
        columns.reserve_exact(self.schema.fields().len() - columns.len());
        if self.several {
            let names = std::iter::repeat_n(asked.name.as_str(), rows);
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        if self.results.window_names {
            columns.push(asked.names.column(&which)?);
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
        for (&column, values) in asked.columns.iter().zip(lowered) {
            own[column] = Some(values);
        }
        let own = own.into_iter().zip(&self.aggregates);
        columns
            .extend(own.map(|(own, field)| own.unwrap_or_else(|| new_null_array(field.data_type(), rows))));
        columns.push(Arc::new(updates));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Whether windows of this type have numbers: they are told by rows, and their times do not tell them apart.
    pub(in crate::operator) fn is_numbered(&self, window: &Window) -> bool {
        is_numbered(window)
    }

    /// Extents of windows that are no more.
    pub(in crate::operator) fn no_extents(&self, rows: usize) -> ArrayRef {
        new_null_array(&DataType::Struct(extent_fields(self.leader().measure())), rows)
    }
}

/// The place of an item that is like `item`, which is added if there is none.
fn place<T: Clone>(items: &mut Vec<T>, item: &T, alike: impl Fn(&T) -> bool) -> usize {
    items.iter().position(alike).unwrap_or_else(|| {
        items.push(item.clone());
        items.len() - 1
    })
}

/// The strategy for queries, in a stream of this order (Traub et al. 2019, Figs. 4-6).
pub(in crate::operator) fn strategy<'a>(
    plans: impl Iterator<Item = &'a Plan> + Clone,
    order: Order,
) -> Result<Strategy> {
    let mut functions = Vec::new();
    for plan in plans.clone() {
        let columns = plan.empty_partials()?;
        for (properties, partials) in plan.properties()?.into_iter().zip(plan.sources()) {
            let extremum = partials.iter().all(|&partial| is_extremum(&plan.partials()[partial].partial));
            let invertible = partials.iter().all(|&partial| columns[partial].takes_out());
            let commutative = properties.commutative;
            functions.push(FunctionTraits { commutative, invertible, extremum });
        }
    }
    let windows = plans.flat_map(|plan| plan.windows().iter().map(|(_, window)| window.traits())).collect();
    Ok(Strategy::of(&Workload { order, windows, functions }))
}

/// All windows of queries, with the query of each.
pub(in crate::operator) fn windows(asked: &[Asked]) -> impl Iterator<Item = (usize, &Window)> {
    asked
        .iter()
        .enumerate()
        .flat_map(|(at, asked)| asked.plan.windows().iter().map(move |(_, window)| (at, window)))
}

fn names_windows(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.plan.windows().len() > 1)
}

fn all_windows(entries: &[Entry]) -> impl Iterator<Item = &Window> {
    entries.iter().flat_map(|entry| entry.plan.windows().iter().map(|(_, window)| window))
}

fn has_ranks(entries: &[Entry]) -> bool {
    all_windows(entries).any(Window::is_ranked)
}

fn has_numbers(entries: &[Entry]) -> bool {
    all_windows(entries).any(is_numbered)
}

fn is_numbered(window: &Window) -> bool {
    match window {
        Window::Punctuation(_) => true,
        Window::User(_) => may_vanish(window),
        _ => false,
    }
}

/// Whether a window that was told may be none later.
fn may_vanish(window: &Window) -> bool {
    match window {
        Window::User(user) => {
            let traits = user.window().traits();
            traits.class != Class::ContextFree || traits.count
        }
        _ => false,
    }
}

fn check_alike(leader: &Plan, plan: &Plan, name: &str) -> Result<()> {
    let names = |plan: &Plan| -> Vec<String> {
        plan.by().iter().map(|&column| plan.input().field(column).name().clone()).collect()
    };
    if names(leader) != names(plan) {
        return Err(Error::InvalidValue(format!(
            "by: '{name}' is by [{}], and the operator's queries by [{}]; queries of one operator have the same keys",
            names(plan).join(", "),
            names(leader).join(", ")
        )));
    }
    if leader.time() != plan.time() {
        return Err(Error::InvalidValue(format!(
            "time: '{name}' is over '{}', and the operator's queries over '{}'; queries of one operator have the \
             same time column",
            plan.measure().column(),
            leader.measure().column()
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
    let sessions = all_windows(entries).all(|window| matches!(window, Window::Session(_)));
    let vanish = all_windows(entries).any(may_vanish);
    let extent = extent_field(leader.measure(), if sessions { "session_window" } else { "window" });
    fields.push(extent.with_nullable(vanish));
    if has_ranks(entries) {
        let nullable = vanish || !all_windows(entries).all(Window::is_ranked);
        fields.push(Field::new("window_rows", DataType::Struct(rank_fields()), nullable));
    }
    if has_numbers(entries) {
        fields.push(Field::new("window_number", DataType::Int64, !all_windows(entries).all(is_numbered)));
    }
    // A query that lacks a column has null there.
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

/// Refuses windows that need rows.
fn check_supported(name: &str, window: &Window) -> Result<()> {
    match window.needs_rows() {
        false => Ok(()),
        true => Err(Error::InvalidValue(format!(
            "windows: {name} is none that a stream operator runs; allowed are tumbling, sliding, session, band, landmark \
             and global windows by time or by an integer measure"
        ))),
    }
}

/// Whether taking a row out changes the partial only if the row is its extremum.
fn is_extremum(partial: &Partial) -> bool {
    use Partial::{ArgMax, ArgMin, Max, MaxCount, Min, MinCount};
    matches!(partial, Min | Max | ArgMin | ArgMax | MinCount | MaxCount)
}
