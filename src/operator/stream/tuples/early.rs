//! Early results of windows determined by rows.

use super::Tuples;
use super::listing::of_rows;
use super::mend::{Stretch, fold};
use crate::Result;
use crate::aggregate::Partials;
use crate::operator::stream::outgoing::{OfRows, Outgoer, Outgoing};
use crate::operator::stream::queries::Queries;
use crate::slice::Store;
use crate::window::{Call, Memory, New, Ready};

impl Tuples {
    /// Lists the windows of a query and key that `call`, which ends the stream, would make final, and that have a row at or
    /// after `first`: places of rows instead of slices.
    ///
    /// # Errors
    /// What a user's own window raises.
    pub(in crate::operator::stream) fn list_open(
        &self,
        (queries, query): (&Queries, usize),
        key: u32,
        first: i64,
        call: Call,
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let (registered, Some(tuples)) = (&queries.registered()[query], self.keys.get(key as usize)) else {
            return Ok(());
        };
        let offset = tuples.first_of(registered.since);
        let first = tuples.times.partition_point(|&time| time < first);
        let call = Call { since: registered.since, ..call };
        for (number, (_, window)) in registered.plan.windows().iter().enumerate() {
            let Some(rules) = window.by_rows() else { continue };
            let mut memory = tuples.known((query, number)).map_or_else(Memory::default, Memory::copied);
            let rows = New::From(tuples.len() - offset);
            let view = self.view(tuples, (key, query, offset), rows, true, call);
            let mut ready = Ready::default();
            rules.ready(&view, &mut memory, &mut ready)?;
            for each in ready.windows.iter().filter(|each| each.lo < each.hi && offset + each.hi > first) {
                let window = of_rows(number, (offset, view.base), each);
                outgoing.push_of_rows(key, OfRows { update: false, ..window });
            }
        }
        outgoing.check(&registered.plan, 0, 0, || 0)
    }

    /// The partials `own` of windows, given by the places of their rows: O(rows in them).
    ///
    /// # Errors
    /// `Overflow` where a partial does not fit its type; what a user's function raises.
    pub(in crate::operator::stream) fn folded(
        &self,
        (queries, slots): (&Queries, &Store),
        own: &[usize],
        windows: &[Outgoer],
    ) -> Result<Vec<Box<dyn Partials>>> {
        let rows_of = |each: &Outgoer| -> Vec<(u64, i64)> {
            let tuples = &self.keys[each.key as usize];
            let places = each.found.lo as usize..each.found.hi as usize;
            places.map(|place| (tuples.ats[place], tuples.times[place])).collect()
        };
        let rows: Vec<Vec<(u64, i64)>> = windows.iter().map(rows_of).collect();
        let rows: Vec<&[(u64, i64)]> = rows.iter().map(Vec::as_slice).collect();
        let each = own.iter().map(|&which| {
            let (stored, kind) = (&queries.stored()[which], &self.kinds[which]);
            let like = &*slots.partials()[which];
            fold(Stretch { which, stored, like, kind, slots, rows: &self.store }, &rows)
        });
        each.collect()
    }
}
