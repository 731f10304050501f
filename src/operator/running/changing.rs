//! Queries that come and go while an operator runs.

use std::sync::Arc;

use super::{Running, added, is_sliced, parts};
use crate::operator::keeping::Keeper;
use crate::operator::plan::Plan;
use crate::operator::stream::{Asked, Entry, Queries, Stats, Stream, strategy};
use crate::{Error, Result};

impl Running {
    /// Adds a query. Its stream is that of times after all rows and watermarks so far, and its windows are those that
    /// begin there: of others it has not seen all rows.
    ///
    /// # Errors
    /// `InvalidValue` after [`Running::close`], for a name that there is, and for other keys or another time.
    pub fn add(&mut self, name: String, plan: Arc<Plan>) -> Result<()> {
        self.check_open("add")?;
        let own = is_sliced(&plan, self.options.order)?;
        let (watermark, latest) = (self.watermark(), self.latest());
        let mut entries = self.entries.clone();
        entries.push(Entry { name, plan, since: latest.max(watermark), own });
        let (sliced, kept) = parts(&entries, true)?;
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        let (mut sliced, mut kept) = (sliced, kept);
        // What can fail comes first, and only in the part that gets the query.
        if own {
            match (&mut self.sliced, sliced.take()) {
                (Some(part), Some(queries)) => part.change_to(queries, None)?,
                (part, Some(queries)) => {
                    *part = Some(Stream::part(queries, self.options, (watermark, latest))?)
                }
                (_, None) => {}
            }
        } else {
            match (&mut self.kept, kept.take()) {
                (Some(part), Some(queries)) => {
                    let places: Vec<_> = (0..part.queries().asked().len()).map(Some).collect();
                    part.change(queries, &places)?;
                }
                (part, Some(queries)) => {
                    *part = Some(Keeper::new(queries, self.options, (watermark, latest))?)
                }
                (_, None) => {}
            }
        }
        self.share(sliced, kept);
        if self.kept.is_some()
            && let Some(sliced) = &mut self.sliced
        {
            self.late.absorb(sliced.take_log());
        }
        (self.entries, self.several, self.strategy) = (entries, true, strategy);
        Ok(())
    }

    /// Removes a query; what only it needed is stored no longer.
    ///
    /// # Errors
    /// `InvalidValue` after [`Running::close`], for a name that there is not, and for the only query.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_open("remove")?;
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
        let gone = entries.remove(at);
        let (mut sliced, mut kept) = parts(&entries, self.several)?;
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        if gone.own {
            if let Some(part) = &mut self.sliced {
                let place = part.queries().asked().iter().position(|asked| asked.name == name);
                match sliced.take() {
                    Some(queries) => part.change_to(queries, place)?,
                    None => {
                        self.late.absorb(part.take_log());
                        self.past = added(self.past, Stats { late: 0, ..part.counts() });
                        self.past.rows += part.counts().rows;
                        self.sliced = None;
                    }
                }
            }
        } else if let Some(part) = &mut self.kept {
            match kept.take() {
                Some(queries) => {
                    let place =
                        |asked: &Asked| queries.asked().iter().position(|other| other.name == asked.name);
                    let places: Vec<_> = part.queries().asked().iter().map(place).collect();
                    part.change(queries, &places)?;
                }
                None => {
                    self.past = added(self.past, part.stats());
                    self.kept = None;
                }
            }
        }
        self.share(sliced, kept);
        (self.entries, self.strategy) = (entries, strategy);
        Ok(())
    }

    /// Tells parts whose own queries stay which others there are.
    fn share(&mut self, sliced: Option<Queries>, kept: Option<Queries>) {
        if let (Some(part), Some(queries)) = (&mut self.sliced, sliced) {
            part.set_queries(queries);
        }
        if let (Some(part), Some(queries)) = (&mut self.kept, kept) {
            part.set_queries(queries);
        }
    }
}
