//! What an engine drops where memory runs short: keys with all that it holds of them, or slices.
//!
//! All that can fail comes first, so that an engine is never half done. Memory that cannot be freed for want of memory is freed
//! by a later call.

use arrow_buffer::BooleanBuffer;

use super::Engine;
use crate::Result;
use crate::aggregate::Partials;
use crate::memory::attempted;
use crate::operator::stored::doubled;
use crate::operator::stream::shedding::Sample;

impl Engine {
    /// Whether a key of a sample has slices.
    pub(in crate::operator::stream) fn has_slices_of(&self, kept: &BooleanBuffer) -> bool {
        kept.set_indices().any(|key| !self.slices.of(key as u32).is_empty())
    }

    /// Drops the slices of all keys but these. Returns how many keys had slices, and how many these were.
    pub(in crate::operator::stream) fn discard_others(&mut self, kept: &BooleanBuffer) -> (usize, usize) {
        let (mut keys, mut slices) = (0, 0);
        let known = self.slices.keys().min(kept.len()) as u32;
        for key in (0..known).filter(|&key| !kept.value(key as usize)) {
            let own = self.slices.of(key).len();
            keys += usize::from(own > 0);
            slices += own;
            match &mut self.tuples {
                None => self.slices.forget(key, own, 0),
                Some(tuples) => tuples.discard((&self.queries, &mut self.slices), key),
            }
        }
        (keys, slices)
    }

    /// Partials for [`Engine::thin`], each of which counts twice.
    ///
    /// # Errors
    /// Errors of Arrow; nothing is changed then.
    pub(in crate::operator::stream) fn doubled(&mut self) -> Result<Vec<Box<dyn Partials>>> {
        self.store.compact(&mut self.slices)?;
        doubled(self.queries.stored(), self.store.partials())
    }

    /// Drops slices, each with a probability of 1/2, and lets those that stay count twice, where these are of a sample of
    /// rows: by their partials of [`Engine::doubled`]. Returns how many were dropped.
    pub(in crate::operator::stream) fn thin(
        &mut self,
        sample: Sample,
        partials: Vec<Box<dyn Partials>>,
    ) -> usize {
        self.store.replace(partials);
        let mut each = 0..;
        let dropped = self.slices.retain(|| each.next().is_none_or(|slice| sample.tosses(slice)));
        let slices = &self.slices;
        self.pending.iter_mut().for_each(|pending| pending.keep_those_in(slices));
        dropped
    }

    /// Frees all that belongs to no slice, which is otherwise only done once that is the larger part.
    pub(in crate::operator::stream) fn shrink(&mut self) {
        let _ = attempted(|| self.store.compact(&mut self.slices));
        let _ = attempted(|| self.store.drop_values());
        if let Some(tuples) = &mut self.tuples {
            let _ = attempted(|| {
                tuples.squeeze();
                Ok(())
            });
        }
        self.reopened.forget(&self.slices);
        self.rebuild_eager();
    }
}
