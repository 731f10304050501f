//! Queries that come and go while the stream runs.

use std::sync::Arc;

use super::Operator;
use super::emission::Emission;
use super::engine::Engine;
use super::entry::{Entry, classes};
use super::intake::{Accepted, check_open};
use super::queries::Queries;
use super::sharing::{ClassGroup, strategy};
use crate::aggregate::Partials;
use crate::operator::plan::Plan;
use crate::{Error, Result};

impl Operator {
    /// Adds a query, which may have an allowed lateness of its own. It sees only times after all rows and
    /// watermarks so far, and its windows are those that begin there, as it has not seen all rows of earlier ones.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for a name that is in use, and for other keys or another time.
    pub fn add(&mut self, name: String, plan: Arc<Plan>, lateness: Option<i64>) -> Result<()> {
        check_open(self.closed, "add")?;
        self.settle(true)?;
        let lateness = lateness.unwrap_or(self.options.allowed_lateness);
        let plan = self.options.bind(plan)?;
        self.options.check(lateness)?;
        let since = self.latest.max(self.watermark);
        let mut entries = self.entries.clone();
        entries.push(Entry::new(name, (plan, lateness), since, self.options.order)?);
        self.change(entries, true)
    }

    /// Removes a query and everything stored only for it.
    ///
    /// # Errors
    /// `InvalidValue` after [`Operator::close`], for an unknown name, and for the only query.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        check_open(self.closed, "remove")?;
        let Some(at) = self.entries.iter().position(|entry| entry.name == name) else {
            let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
            return Err(Error::InvalidValue(format!(
                "query: there is none named '{name}'; names of this operator's queries: '{}'",
                names.join("', '")
            )));
        };
        if self.entries.len() == 1 {
            return Err(Error::InvalidValue(format!(
                "query: '{name}' is the only one; an operator has at least one query"
            )));
        }
        let waiting = self.emission.as_ref().map_or(0, |emission| emission.waiting(name));
        if waiting > 0 {
            return Err(Error::InvalidValue(format!(
                "query: results of '{name}' are still held back by its emission policy ({waiting}); remove it once calls have \
                 returned them"
            )));
        }
        let mut entries = self.entries.clone();
        entries.remove(at);
        self.change(entries, self.several)
    }

    /// Replaces the queries: one was added or removed.
    fn change(&mut self, entries: Vec<Entry>, several: bool) -> Result<()> {
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        let late = match several == self.several {
            true => None,
            false => Some(self.late.with_names(self.input(), &self.entries[0].name)?),
        };
        // Everything that can fail comes first.
        let known: Vec<&ClassGroup> = self.engines.iter().map(|(group, _)| group).collect();
        let mut changes = Vec::new();
        // Engines drop those that no row of theirs can be around any more: some sooner than others.
        let points = self
            .engines()
            .map(|engine| engine.slices.points())
            .max_by_key(|points| points.len())
            .unwrap_or_default();
        // Of keys that are ahead, late rows may count at times after those that a new query sees from.
        let (reached, ahead) = (self.latest.max(self.watermark), self.keys.ahead.most());
        let is_closed = |group: &ClassGroup| {
            group.is_cumulative() && ahead.map(|mark| mark.saturating_sub(group.lateness())) > reached
        };
        for (place, group) in ClassGroup::of(classes(&entries), &known, is_closed) {
            let queries = Queries::among(&entries, &group, several)?;
            let change = match place.map(|at| (at, &self.engines[at].1)) {
                None => {
                    let mut engine = Engine::new(queries, self.options, &group, self.watermark)?;
                    engine.slices.set_points(points);
                    Change::New(Box::new(engine))
                }
                Some((at, engine)) if engine.queries.names().eq(queries.names()) => Change::Same(at, queries),
                Some((at, engine)) => {
                    Change::Partials(at, engine.slices.changing(&engine.queries, &queries)?, queries)
                }
            };
            changes.push((group, change));
        }
        let schema = match changes.first() {
            Some((_, Change::New(engine))) => engine.queries.schema(),
            Some((_, Change::Same(_, queries) | Change::Partials(_, _, queries))) => queries.schema(),
            None => self.plain_schema(),
        };
        let marked = self.shedding.as_ref().map_or(Ok(None), |shedding| shedding.extended(schema, 1))?;
        let emission = Emission::among(&entries, marked.as_ref().unwrap_or(schema), self.emission.as_ref())?;
        let mut old: Vec<_> = std::mem::take(&mut self.engines).into_iter().map(Some).collect();
        for (group, change) in changes {
            let mut take = |at: usize| old[at].take().map(|(_, engine)| engine);
            let engine = match change {
                Change::New(engine) => Some(*engine),
                Change::Same(at, queries) => take(at).map(|mut engine| {
                    engine.set_queries(queries, &group);
                    engine
                }),
                Change::Partials(at, partials, queries) => take(at).map(|mut engine| {
                    engine.change(queries, &group, partials, &self.keys.ahead);
                    engine
                }),
            };
            self.engines.extend(engine.map(|engine| (group, engine)));
        }
        for (_, gone) in old.into_iter().flatten() {
            self.past = self.past.and_did(gone.stats());
        }
        if let Some(late) = late {
            self.late = late;
        }
        self.shedding.iter_mut().for_each(|shedding| shedding.schema.clone_from(&marked));
        let known = std::mem::replace(&mut self.emission, emission);
        if let (Some(emission), Some(known)) = (&mut self.emission, known) {
            emission.take_over(known);
        }
        (self.entries, self.several, self.strategy) = (entries, several, strategy);
        self.sparse = self.sparse_rows();
        Ok(())
    }
}

impl Operator {
    /// The first engine of which these rows are not alike for all windows.
    fn first_divided(&self, rows: &[Accepted]) -> Option<usize> {
        let divides = |(group, engine): &(ClassGroup, Engine)| {
            engine.horizon().divides(&engine.queries, group, rows, &self.keys)
        };
        self.engines.iter().position(divides)
    }

    /// Divides engines of which these rows are not alike for all windows. Both sides have seen the same rows up to here,
    /// so this changes no result, whether or not the rows are accepted in the end.
    ///
    /// # Errors
    /// Errors of functions that copy their partials.
    pub(super) fn divide(&mut self, rows: &[Accepted]) -> Result<()> {
        while let Some(at) = self.first_divided(rows) {
            let (group, engine) = &self.engines[at];
            let parts = group.apart().map(|own| {
                let queries = Queries::among(&self.entries, &own, self.several)?;
                let part = engine.part(queries, &own, &self.keys.ahead)?;
                Ok((own, part))
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let past = self.past.and_did(engine.stats());
            // Nothing may fail between here and the end.
            self.engines.reserve(parts.len());
            self.engines.splice(at..=at, parts);
            self.past = past;
        }
        Ok(())
    }
}

/// How the engine at a place changes, or one that begins.
enum Change {
    /// Its own windows stay as they are.
    Same(usize, Queries),
    /// Its slices get these partials.
    Partials(usize, Vec<Box<dyn Partials>>, Queries),
    New(Box<Engine>),
}
