//! Where memory is limited: drops keys before the next call, with their rows of both sides (`operator/shedding.rs` decides
//! which).

use super::{JoinStats, JoinStream};
use crate::Result;
use crate::memory::{attempted, spared};
use crate::operator::held::keep_keys;
use crate::operator::shedding::{Held, Keep, Sample, Shedding, Sheds, relieve};

impl Sheds for JoinStream {
    fn shedding(&mut self) -> &mut Option<Shedding> {
        &mut self.shedding
    }

    fn held(&self) -> Option<Held> {
        let JoinStats { keys, bytes, .. } = self.stats();
        (!self.closed).then_some(Held { keys, parts: keys, bytes })
    }

    fn tighten(&mut self, _: bool) {
        let is_needed =
            |&key: &u32| self.has(key as usize) || self.ahead.iter().any(|marks| marks.of(key).is_some());
        if let Ok(kept) = attempted(|| Ok((0..self.keys.len() as u32).filter(is_needed).collect::<Vec<_>>()))
        {
            self.keep_only(&kept);
        }
    }

    fn drop_half(&mut self, _: Keep, sample: Sample) -> Result<Option<(usize, usize)>> {
        let kept = sample.of_keys(&self.keys.plain_values()?, self.keys.len())?;
        if !kept.set_indices().any(|key| self.has(key)) {
            return Ok(None);
        }
        let numbers: Vec<u32> = kept.set_indices_u32().collect();
        let dropped = (0..self.keys.len()).filter(|&key| !kept.value(key) && self.has(key)).count();
        spared(|| {
            self.stores.iter_mut().for_each(|store| store.drop_others(|key| kept.value(key as usize)));
            self.keep_only(&numbers);
        });
        Ok(Some((dropped, 0)))
    }
}

impl JoinStream {
    /// Drops what the state holds too much of, if the last call may have led to that; every call begins with it, and so
    /// does whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        relieve(self)
    }

    /// Whether a row of a key is stored.
    fn has(&self, key: usize) -> bool {
        self.stores.iter().any(|store| store.has(key))
    }

    /// Keeps these keys, which ascend, and forgets the others, which have no rows. What cannot be freed for want of memory
    /// is freed by a later call.
    fn keep_only(&mut self, kept: &[u32]) {
        let Self { keys, stores, ahead, plan, .. } = self;
        let _ = attempted(|| keep_keys(keys, stores, ahead, kept));
        for (store, side) in stores.iter_mut().zip(plan.sides()) {
            let _ = attempted(|| store.shrink(side.held.len()));
        }
    }
}
