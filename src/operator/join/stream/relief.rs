//! Where memory is limited: drops keys before the next call, with their rows of both sides.

use super::JoinStream;
use crate::Result;
use crate::interrupt::check;
use crate::memory::{attempted, spared};
use crate::operator::held::{Store, keep};
use crate::operator::stream::{Sample, Shedding};

impl JoinStream {
    /// Drops what the state holds too much of, if the last call may have led to that; every call begins with it, and so
    /// does whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        if !self.shedding.as_ref().is_some_and(Shedding::is_due) {
            return Ok(());
        }
        let mut is_tight = false;
        loop {
            check()?;
            let stats = self.stats();
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            if self.closed || !shedding.is_above(stats.bytes, is_tight) {
                shedding.measured(stats.keys);
                return Ok(());
            }
            if !is_tight {
                // What nothing needs goes first.
                attempted(|| self.keep_keys(|_| true))?;
                is_tight = true;
                continue;
            }
            let half = shedding.half();
            let dropped = match half {
                None => None,
                Some(sample) => attempted(|| self.keep_sampled(sample))?.map(|dropped| (sample, dropped)),
            };
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            let Some((sample, dropped)) = dropped else {
                shedding.cannot_help(stats.keys, stats.bytes);
                return Ok(());
            };
            shedding.drop_to(sample, (dropped, 0));
        }
    }

    /// Drops the keys that are not in a sample, unless no row would be left; returns how many had rows.
    fn keep_sampled(&mut self, sample: Sample) -> Result<Option<usize>> {
        let keys = self.keys.len();
        let kept = sample.of_keys(&self.keys.plain_values()?, keys)?;
        let has = |key: usize| self.stores.iter().any(|store| store.has(key));
        if !(0..keys).any(|key| kept.value(key) && has(key)) {
            return Ok(None);
        }
        let dropped = (0..keys).filter(|&key| !kept.value(key) && has(key)).count();
        self.keep_keys(|key| kept.value(key as usize))?;
        Ok(Some(dropped))
    }

    /// Drops all keys but those of these that have rows or are ahead, and what is held besides rows.
    fn keep_keys(&mut self, is_kept: impl Fn(u32) -> bool) -> Result<()> {
        let has = |key: &u32| {
            let is_ahead = self.ahead.iter().any(|ahead| ahead.of(*key).is_some());
            is_kept(*key) && (is_ahead || self.stores.iter().any(|store| store.has(*key as usize)))
        };
        let kept: Vec<u32> = (0..self.keys.len() as u32).filter(has).collect();
        keep(&mut self.keys, &kept, &mut self.stores, &mut self.ahead)?;
        let columns = [0, 1].map(|side| self.plan.sides()[side].held.len());
        // Less could have been dropped, and nothing else is lost by that.
        spared(|| {
            let stores = self.stores.iter_mut().zip(columns);
            stores.for_each(|(store, columns)| attempted(|| store.compact(columns)).unwrap_or(()));
            self.stores.iter_mut().for_each(Store::shrink);
        });
        Ok(())
    }
}
