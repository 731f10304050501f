//! Snapshots of an operator: what its queries are, late rows, and what each of its parts holds.

use std::sync::Arc;

use super::{Running, is_sliced};
use crate::Result;
use crate::operator::keeping::Keeper;
use crate::operator::plan::Plan;
use crate::operator::stream::{Contents, Entry, Late, Stats, Stream, bound, head, write_head};
use crate::state::{Reader, Writer, broken};

impl Running {
    /// All that the operator holds, as bytes for [`Running::restore`]. O(slices + rows kept).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        let queries = self.entries.iter().map(|entry| (entry.name.as_str(), &*entry.plan, entry.since));
        write_head(&mut to, self.input(), self.options, queries)?;
        to.number(u64::from(self.several));
        to.number(u64::from(self.closed));
        to.number(self.late.count());
        to.batches(self.late.schema(), self.late.batches())?;
        let Stats { rows, windows, updates, splits, merges, shifts, recomputations, .. } = self.past;
        for count in [rows, windows, updates, splits, merges, shifts, recomputations] {
            to.number(count);
        }
        to.bytes(&self.sliced.as_ref().map_or_else(|| Ok(Vec::new()), Stream::snapshot)?);
        if let Some(kept) = &self.kept {
            kept.save(&mut to)?;
        }
        Ok(to.finish())
    }

    /// What a snapshot is of.
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, or damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        Stream::contents(snapshot)
    }

    /// The operator that a snapshot is of; `queries` are its queries, bound to the schema of [`Running::contents`].
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, damaged, or of other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (_, options, known) = head(&mut from)?;
        let entries = bound(queries, known)?.into_iter().map(|(name, plan, since)| {
            let own = is_sliced(&plan, options.order)?;
            Ok(Entry { name, plan, since, own })
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = from.number()? != 0;
        let mut this = Self::with(entries, several, options, (None, None))?;
        this.closed = from.number()? != 0;
        let late = from.number()?;
        let (late_schema, late_batches) = from.batches()?;
        let input = this.input().clone();
        this.late = Late::restore(&input, late_batches, late);
        if late_schema.fields() != this.late.schema().fields() {
            return broken();
        }
        let counts: Vec<u64> = (0..7).map(|_| from.number()).collect::<Result<_>>()?;
        let [rows, windows, updates, splits, merges, shifts, recomputations] = counts[..] else {
            return broken();
        };
        this.past =
            Stats { rows, windows, updates, splits, merges, shifts, recomputations, ..Stats::default() };
        let sliced = from.bytes()?;
        if this.sliced.is_some() == sliced.is_empty() {
            return broken();
        }
        if let Some(part) = &mut this.sliced {
            let own = this.entries.iter().filter(|entry| entry.own);
            let own = own.map(|entry| (entry.name.clone(), entry.plan.clone())).collect();
            let queries = part.queries().clone();
            *part = Stream::restore(sliced, own)?;
            // It is closed by itself only where it is the only part.
            if part.options() != options || part.is_closed() && !this.closed {
                return broken();
            }
            part.set_queries(queries);
        }
        if let Some(part) = &mut this.kept {
            *part = Keeper::load(&mut from, part.queries().clone(), options)?;
            if this.sliced.as_ref().is_some_and(|sliced| sliced.watermark() != part.watermark()) {
                return broken();
            }
        }
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }
}
