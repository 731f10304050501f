//! Where memory is limited: drops state before the next call, in all engines alike (`shedding` decides what).

use super::Operator;
use super::engine::Engine;
use super::options::Stats;
use super::shedding::{Keep, Sample, Shedding};
use crate::Result;
use crate::interrupt::check;
use crate::memory::{attempted, spared};

impl Operator {
    /// Drops what the state holds too much of by [`Options::shed`](super::Options::shed), if the last call may have led
    /// to that; every call begins with it, and so does whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        if !self.shedding.as_ref().is_some_and(Shedding::is_due) {
            return Ok(());
        }
        // First what nothing needs, then the numbers of keys that are over.
        let (mut is_tight, mut steps) = (false, [true, false].into_iter());
        loop {
            // An interrupt may have left more behind than there would be.
            check()?;
            let Stats { keys, slices, bytes, .. } = self.stats();
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            if self.closed || !shedding.is_above(bytes, is_tight) {
                shedding.measured(keys);
                return Ok(());
            }
            if let Some(numbered) = steps.next() {
                spared(|| self.tighten(numbered));
                is_tight = true;
                continue;
            }
            let (keep, half) = (shedding.shed.keep, shedding.half().filter(|_| slices > 1));
            let mut drop_half = |sample| match keep {
                Keep::Keys => self.keep_sampled(sample),
                Keep::Rows => self.thin(sample).map(Some),
            };
            let dropped = match half {
                None => None,
                Some(sample) => attempted(|| drop_half(sample))?.map(|dropped| (sample, dropped)),
            };
            let Some(shedding) = &mut self.shedding else { return Ok(()) };
            let Some((sample, dropped)) = dropped else {
                shedding.cannot_help(keys, bytes);
                return Ok(());
            };
            shedding.drop_to(sample, dropped);
        }
    }

    /// Frees all that belongs to no slice, which is otherwise only done once that is the larger part; without `numbered`, also
    /// the numbers of keys without any, which begin anew if these have rows again.
    fn tighten(&mut self, numbered: bool) {
        if let Ok(live) = attempted(|| Ok(self.live_keys(numbered))) {
            self.keep_keys(&live);
        }
        self.engines_mut().for_each(Engine::shrink);
    }

    /// Drops the keys that are not in a sample, unless none would be left; returns how many these are, and their slices.
    fn keep_sampled(&mut self, sample: Sample) -> Result<Option<(usize, usize)>> {
        let kept = sample.of_keys(&self.keys.plain_columns()?, self.keys.len())?;
        if !self.engines().any(|engine| engine.has_slices_of(&kept)) {
            return Ok(None);
        }
        let live: Vec<u32> = kept.set_indices_u32().collect();
        spared(|| {
            let dropped = self.engines_mut().map(|engine| engine.discard_others(&kept));
            let dropped = dropped.fold((0, 0), |all, own| (own.0.max(all.0), all.1 + own.1));
            self.keep_keys(&live);
            self.engines_mut().for_each(Engine::shrink);
            Ok(Some(dropped))
        })
    }

    /// Drops half of the slices; returns how many, and of how many keys (0).
    fn thin(&mut self, sample: Sample) -> Result<(usize, usize)> {
        let doubled = self.engines_mut().map(Engine::doubled).collect::<Result<Vec<_>>>()?;
        spared(|| {
            let each = self.engines_mut().zip(doubled);
            let dropped = each.map(|(engine, doubled)| engine.thin(sample, doubled)).sum();
            self.tighten(true);
            Ok((0, dropped))
        })
    }
}
