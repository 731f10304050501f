//! Queries that come and go while the stream runs.

use std::sync::Arc;

use super::Operator;
use super::engine::Engine;
use super::intake::check_open;
use super::queries::{Entry, Queries};
use super::sharing::{Class, strategy};
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
        let lateness = lateness.unwrap_or(self.options.allowed_lateness);
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
                "query: there is none named '{name}'; there are '{}'",
                names.join("', '")
            )));
        };
        if self.entries.len() == 1 {
            return Err(Error::InvalidValue(format!(
                "query: '{name}' is the only one; an operator has at least one query"
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
        let mut changes = Vec::new();
        for (class, queries) in parts(&entries, several)? {
            let known = self.engines.iter().position(|(own, _)| *own == class);
            changes.push(match known.map(|at| (at, &self.engines[at].1)) {
                None => {
                    let engine = Engine::new(queries, self.options, &class, self.watermark)?;
                    Change::New(Box::new(engine), class)
                }
                Some((at, engine)) if engine.queries.names().eq(queries.names()) => Change::Same(at, queries),
                Some((at, engine)) => Change::Partials(at, engine.changing(&queries)?, queries),
            });
        }
        let mut old: Vec<_> = std::mem::take(&mut self.engines).into_iter().map(Some).collect();
        for change in changes {
            let (mut engine, changed) = match change {
                Change::New(engine, class) => {
                    self.engines.push((class, *engine));
                    continue;
                }
                Change::Same(at, queries) => (old[at].take(), (queries, None)),
                Change::Partials(at, partials, queries) => (old[at].take(), (queries, Some(partials))),
            };
            if let Some((_, engine)) = &mut engine {
                match changed {
                    (queries, None) => engine.set_queries(queries),
                    (queries, Some(partials)) => engine.change(queries, partials),
                }
            }
            self.engines.extend(engine);
        }
        for (_, gone) in old.into_iter().flatten() {
            self.past = self.past.and_did(gone.stats());
        }
        if let Some(late) = late {
            self.late = late;
        }
        (self.entries, self.several, self.strategy) = (entries, several, strategy);
        Ok(())
    }
}

/// How the engine at a place changes, or one that begins.
enum Change {
    /// Its own windows stay as they are.
    Same(usize, Queries),
    /// Its slices get these partials.
    Partials(usize, Vec<Box<dyn Partials>>, Queries),
    New(Box<Engine>, Class),
}

/// The classes of windows, and the queries of each; those that keep rows come last.
pub(super) fn parts(entries: &[Entry], several: bool) -> Result<Vec<(Class, Queries)>> {
    let mut classes: Vec<&Class> = Vec::new();
    for class in entries.iter().flat_map(|entry| &entry.classes) {
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes.sort_by_key(|class| class.keeps_rows);
    let each = classes.into_iter().map(|class| Ok((class.clone(), Queries::among(entries, class, several)?)));
    each.collect()
}
