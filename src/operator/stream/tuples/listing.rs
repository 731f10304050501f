//! Listing windows determined by rows: which of a key's are ready, where they cut slices, and when the next will be
//! final.

use super::Tuples;
use super::rows::KeyTuples;
use crate::Result;
use crate::memory::lent;
use crate::operator::stream::outgoing::OfRows;
use crate::operator::stream::queries::Queries;
use crate::window::{Call, Emission, Memory, New, Ready, View, earlier};

/// The outcome of a call for one key.
#[derive(Default)]
pub(super) struct Listed {
    /// Windows to be emitted, each with its query: places of rows.
    pub(super) windows: Vec<(usize, OfRows)>,
    /// Edges, as in the output of one window type; its windows are unused.
    pub(super) ready: Ready,
}

impl Tuples {
    /// A query's view of a key's rows, the first of which is at place `offset`.
    pub(super) fn view<'a>(
        &'a self,
        tuples: &'a KeyTuples,
        (key, query, offset): (u32, usize, usize),
        new: New<'a>,
        is_appended: bool,
        call: Call,
    ) -> View<'a> {
        View {
            key,
            times: &tuples.times[offset..],
            ats: &tuples.ats[offset..],
            marks: tuples.marks.get(offset..).unwrap_or_default(),
            mark_columns: &self.mark_columns,
            points: &self.points,
            base: tuples.gone.get(query).copied().unwrap_or_default(),
            new,
            is_appended,
            call,
            reader: &self.store,
        }
    }

    /// Lists the ready windows of a key, query by query, and records when the next will be final. `new` are the places
    /// of the call's rows.
    pub(super) fn list(
        &self,
        queries: &Queries,
        key: u32,
        tuples: &mut KeyTuples,
        new: New<'_>,
        is_appended: bool,
        call: Call,
    ) -> Result<Listed> {
        let mut listed = Listed::default();
        let mut next = None;
        for (query, registered) in queries.registered().iter().enumerate() {
            let offset = tuples.first_of(registered.since);
            let places: Vec<usize>;
            let new = match new {
                New::From(from) => New::From(from.saturating_sub(offset)),
                New::At(all) => {
                    places = all.iter().filter(|&&row| row >= offset).map(|row| row - offset).collect();
                    New::At(&places)
                }
            };
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(rules) = window.by_rows() else { continue };
                let mut ready = Ready::default();
                let call = Call { since: registered.since, ..call };
                let mut list = |tuples: &mut KeyTuples, memory: &mut Memory| {
                    let view = self.view(tuples, (key, query, offset), new, is_appended, call);
                    (rules.ready(&view, memory, &mut ready), view.base)
                };
                let (later, base) = match window.is_numbered() {
                    true => lent(tuples, |tuples| tuples.memory((query, number)), list),
                    false => list(tuples, &mut Memory::default()),
                };
                next = earlier(next, later?);
                let windows = ready.windows.iter().map(|each| (query, of_rows(number, (offset, base), each)));
                listed.windows.extend(windows);
                listed.ready.edges.extend(ready.edges.iter().map(|edge| offset + edge));
                ready.from.into_iter().for_each(|from| listed.ready.looks_from(offset + from));
                listed.ready.is_shrunk |= ready.is_shrunk;
            }
        }
        tuples.next = earlier(next, tuples.first_waiting());
        Ok(listed)
    }

    /// All edges from place `from` on that final windows received as their rows arrived.
    pub(super) fn final_edges(
        &self,
        queries: &Queries,
        key: u32,
        tuples: &KeyTuples,
        from: usize,
        call: Call,
    ) -> Result<Vec<usize>> {
        let (mut edges, nothing) = (Vec::new(), Memory::default());
        for (query, registered) in queries.registered().iter().enumerate() {
            let offset = tuples.first_of(registered.since);
            let call = Call { since: registered.since, ..call };
            let view = self.view(tuples, (key, query, offset), New::From(tuples.len()), true, call);
            let mut own = Vec::new();
            for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
                let Some(rules) = window.by_rows() else { continue };
                let memory = tuples.known((query, number)).unwrap_or(&nothing);
                rules.final_edges(&view, memory, from.saturating_sub(offset), &mut own)?;
            }
            edges.extend(own.into_iter().map(|edge| offset + edge));
        }
        edges.retain(|&edge| from <= edge);
        Ok(edges)
    }
}

/// A ready window of a type, given by its number. The rows of its query begin at place `offset` of the key's, with rank `base`.
pub(super) fn of_rows(window: usize, (offset, base): (usize, u64), ready: &Emission) -> OfRows {
    OfRows {
        window: window as u32,
        lo: offset + ready.lo,
        hi: offset + ready.hi,
        extent: ready.extent,
        ranks: (base + ready.lo as u64, base + ready.hi as u64),
        number: ready.number,
        update: ready.update,
    }
}
