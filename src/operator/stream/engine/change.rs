//! Queries that come and go, and engines that are divided: slices and rows stay, and are cut and stored as the queries need.

use super::Engine;
use super::pending::Pending;
use super::slicer::StreamSlicer;
use crate::Result;
use crate::aggregate::Partials;
use crate::operator::progress::Ahead;
use crate::operator::stream::queries::Queries;
use crate::operator::stream::sharing::ClassGroup;

impl Engine {
    /// An engine of its own for some of the windows, with the slices that there are, if it keeps no rows.
    ///
    /// # Errors
    /// As `SliceManager::changing`.
    pub(in crate::operator::stream) fn part(
        &self,
        queries: Queries,
        group: &ClassGroup,
        ahead: &Ahead,
    ) -> Result<Self> {
        let partials = self.slices.changing(&self.queries, &queries)?;
        let watermark = self.horizon().watermark();
        let mut part = Self::new(self.queries.clone(), self.slices.options, group, watermark)?;
        part.slices.timelines = self.slices.timelines.copied();
        part.windows.take_over(&self.windows);
        part.pending = self.pending.clone();
        part.change(queries, group, partials, ahead);
        Ok(part)
    }

    /// Changes the queries and keeps slices and rows; `partials` are what `SliceManager::changing` returned.
    pub(in crate::operator::stream) fn change(
        &mut self,
        queries: Queries,
        group: &ClassGroup,
        partials: Vec<Box<dyn Partials>>,
        ahead: &Ahead,
    ) {
        let place = |name: &str| queries.registered().iter().position(|other| other.name == name);
        let places: Vec<Option<usize>> =
            self.queries.registered().iter().map(|registered| place(&registered.name)).collect();
        self.slices.change(&queries, &places, partials);
        self.slicer = StreamSlicer::new(&queries);
        let place = |query: usize| places.get(query).copied().flatten();
        self.windows.change((&self.queries, &queries), place);
        let discards = group.discards();
        self.pending = match self.pending.take() {
            Some(pending) => pending.changed((&queries, discards), place),
            None => Pending::new(&queries, discards),
        };
        self.set_queries(queries, group);
        let Self { queries, slicer, slices, windows, counts, .. } = self;
        counts.merges += slices.refit(queries, slicer, (&windows.horizon, ahead));
        slices.rebuild_above(queries);
        self.forget(0, ahead);
    }

    /// Takes over queries that are the same as before, but now among others.
    pub(in crate::operator::stream) fn set_queries(&mut self, queries: Queries, group: &ClassGroup) {
        self.queries = queries;
        self.windows.horizon.change(&self.queries, group);
        self.windows.look_at_all();
    }
}
