//! What an engine drops where memory runs short: keys with all that it holds of them, or slices.
//!
//! All that can fail comes first, so that an engine is never half done. Memory that cannot be freed for want of memory is freed
//! by a later call.

use arrow_buffer::BooleanBuffer;

use super::Engine;
use crate::Result;
use crate::aggregate::Partials;
use crate::interrupt::check;
use crate::operator::shedding::Sample;
use crate::operator::stored::doubled;

impl Engine {
    /// Sets the marks of the keys that have state; with `numbered`, also those of which only numbers are left.
    pub(in crate::operator::stream) fn mark_live(&self, is_live: &mut [bool], numbered: bool) {
        self.slices.mark_live(&self.queries, is_live, numbered);
    }

    /// Whether a key of a sample has slices, or rows.
    pub(in crate::operator::stream) fn has_slices_of(&self, kept: &BooleanBuffer) -> bool {
        kept.set_indices_u32().any(|key| self.slices.has(key))
    }

    /// Drops the slices of all keys but these. Returns how many keys had slices or rows, and how many slices.
    pub(in crate::operator::stream) fn discard_others(&mut self, kept: &BooleanBuffer) -> (usize, usize) {
        let slices = &mut self.slices;
        let known = slices.timelines.keys().min(kept.len()) as u32;
        let others = (0..known).filter(|&key| !kept.value(key as usize));
        let counts = others.clone().filter(|&key| slices.has(key)).map(|key| slices.timelines.of(key).len());
        let dropped = counts.fold((0, 0), |(keys, slices), count| (keys + 1, slices + count));
        slices.discard(&self.queries, others);
        dropped
    }

    /// Partials for [`Engine::thin`], each of which counts twice.
    ///
    /// # Errors
    /// Errors of Arrow, and an interrupt; nothing is changed then.
    pub(in crate::operator::stream) fn doubled(&mut self) -> Result<Vec<Box<dyn Partials>>> {
        let slices = &mut self.slices;
        slices.store.compact(&mut slices.timelines, check)?;
        doubled(self.queries.stored(), slices.store.partials())
    }

    /// Drops slices, each with a probability of 1/2, and lets those that stay count twice, where these are of a sample of
    /// rows: by their partials of [`Engine::doubled`]. Returns how many were dropped.
    pub(in crate::operator::stream) fn thin(
        &mut self,
        sample: Sample,
        partials: Vec<Box<dyn Partials>>,
    ) -> usize {
        let slices = &mut self.slices;
        slices.store.replace(partials);
        let mut each = 0..;
        let dropped = slices.timelines.retain(|| each.next().is_none_or(|slice| sample.tosses(slice)));
        self.pending.iter_mut().for_each(|pending| pending.keep_those_in(&slices.timelines));
        // A session may end earlier without its last slices.
        self.windows.look_at_all();
        dropped
    }

    /// Frees all that belongs to no slice, which is otherwise only done once that is the larger part.
    pub(in crate::operator::stream) fn shrink(&mut self) {
        self.slices.shrink(&self.queries);
        self.windows.forget(&self.slices.timelines);
    }
}
