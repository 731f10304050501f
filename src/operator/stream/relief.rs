//! Where memory is limited: drops state before the next call, in all engines alike (`operator/shedding.rs` decides what).

use super::Operator;
use super::engine::Engine;
use super::options::Stats;
use crate::Result;
use crate::memory::{attempted, spared};
use crate::operator::shedding::{Held, Keep, Sample, Shedding, Sheds, relieve};

impl Sheds for Operator {
    fn shedding(&mut self) -> &mut Option<Shedding> {
        &mut self.shedding
    }

    fn held(&self) -> Option<Held> {
        let Stats { keys, slices, bytes, .. } = self.stats();
        (!self.closed).then_some(Held { keys, parts: slices, bytes })
    }

    fn tighten(&mut self, numbered: bool) {
        if let Ok(live) = attempted(|| Ok(self.live_keys(numbered))) {
            self.keep_keys(&live);
        }
        self.engines_mut().for_each(Engine::shrink);
    }

    fn drop_half(&mut self, keep: Keep, sample: Sample) -> Result<Option<(usize, usize)>> {
        match keep {
            Keep::Keys => self.keep_sampled(sample),
            Keep::Rows => self.thin(sample).map(Some),
        }
    }
}

impl Operator {
    /// Drops what the state holds too much of by [`Options::shed`](super::Options::shed), if the last call may have led
    /// to that; every call begins with it, and so does whoever asks what the state is.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
    pub fn relieve(&mut self) -> Result<()> {
        relieve(self)
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
