//! The queries of an engine: what their slices store together, and where slices are cut.

use std::sync::Arc;

use arrow_schema::{Field, SchemaRef};

use super::entry::Entry;
use super::names::Names;
use super::results::{OwnColumns, ResultColumns, place, place_aggregates};
use super::sharing::{ClassGroup, part};
use crate::aggregate::{Input, Partials, Rows};
use crate::operator::plan::{Plan, Stored};
use crate::operator::policy::Refinement;
use crate::slice::Edges;
use crate::window::{Session, Spans, Window};
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
    /// Its columns of results.
    pub(super) columns: OwnColumns,
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

/// All queries of a stream.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Queries {
    registered: Vec<Registered>,
    stored: Vec<Stored>,
    edges: Edges,
    /// The widest gap of sessions, if there are any.
    widest_gap: Option<i64>,
    has_long: bool,
    results: ResultColumns,
}

impl Queries {
    /// Binds the windows of these classes. All queries have columns in the schema of results.
    ///
    /// # Errors
    /// Two queries of one name, with different keys or time, or with columns of one name and different types.
    pub(in crate::operator) fn among(entries: &[Entry], group: &ClassGroup, several: bool) -> Result<Self> {
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
            let aggregates = place_aggregates(&mut aggregates, plan, name)?;
            let Some(plan) = part(plan, classes, group) else { continue };
            let is_own = |at: &u32| group.has(&classes[*at as usize]);
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
                columns: OwnColumns { aggregates, names },
                windows: own_windows,
            });
        }
        let edges = Edges::since(registered.iter().flat_map(|registered| {
            let windows = registered.plan.windows().iter();
            windows.map(|(_, window)| (window, registered.since))
        }));
        let results = ResultColumns::of(entries, aggregates, several)?;
        let gaps = windows(&registered).filter_map(|(_, window)| window.merging().map(Session::gap));
        let widest_gap = gaps.max();
        let is_long = |window: &Window| window.by_time().is_some_and(|rules| rules.is_long());
        let has_long = windows(&registered).any(|(_, window)| is_long(window));
        Ok(Self { registered, stored, edges, widest_gap, has_long, results })
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

    /// The plan of the first query: all have its keys, its time and its schema.
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

    /// The columns of results.
    pub(super) fn results(&self) -> &ResultColumns {
        &self.results
    }

    /// The schema of results.
    pub(in crate::operator) fn schema(&self) -> &SchemaRef {
        self.results.schema()
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
}

/// All windows of queries, with the query of each.
pub(in crate::operator) fn windows(registered: &[Registered]) -> impl Iterator<Item = (usize, &Window)> {
    registered
        .iter()
        .enumerate()
        .flat_map(|(at, registered)| registered.plan.windows().iter().map(move |(_, window)| (at, window)))
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
