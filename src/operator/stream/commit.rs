//! The end of a call: a step is committed, by all engines and by what stands before and after them, or rolled back.

use super::Operator;
use super::emission::Emission;
use super::engine::Engine;
use super::steps::Attempted;
use crate::operator::progress::Progress;
use crate::operator::shedding::Shedding;

/// Keys without any state that may accumulate before they are forgotten.
const IDLE_KEYS: usize = 4096;

impl Operator {
    /// Undoes all that a step has changed.
    pub(super) fn roll_back(&mut self) {
        self.engines_mut().for_each(Engine::take_back);
        self.emission.iter_mut().for_each(Emission::take_back);
        self.progress.iter_mut().for_each(Progress::take_back);
    }

    /// Commits a step, which is not rolled back any more.
    pub(super) fn commit(&mut self, attempted: Attempted) {
        if let Some(emission) = &mut self.emission {
            emission.keep(|entry| self.entries[entry].horizon(attempted.watermark));
        }
        if attempted.watermark > self.watermark {
            // Of keys that have nothing but numbers, it makes none idle.
            let keeps_rows = self.engines.iter().any(|(group, _)| group.keeps_rows());
            if keeps_rows || self.emission.is_some() || !self.keys.ahead.is_empty() {
                self.busy = 0;
            }
            self.shedding.iter_mut().for_each(Shedding::moved);
            attempted.watermark.into_iter().for_each(|watermark| self.keys.ahead.pass(watermark));
        }
        attempted.key_watermark.into_iter().for_each(|(key, mark)| self.keys.ahead.set(key, mark));
        if let Some((key, mark)) = attempted.ended_key {
            mark.filter(|_| mark > self.watermark)
                .into_iter()
                .for_each(|mark| self.keys.ahead.set(key, mark));
            self.emission.iter_mut().for_each(|emission| emission.end_key(key));
        }
        let ahead = &self.keys.ahead;
        let each = self.engines.iter_mut().zip(attempted.outcomes);
        each.for_each(|((_, engine), outcome)| engine.keep(outcome, ahead));
        if let Some((key, _)) = attempted.ended_key {
            self.engines_mut().for_each(|engine| engine.end_key(key));
        }
        self.late.add(attempted.refused);
        if attempted.takes_late {
            self.late.take();
        }
        (self.watermark, self.latest) = (attempted.watermark, attempted.latest);
        self.past.windows += attempted.waited.windows;
        match &mut self.sparse {
            Some(sparse) if attempted.is_settled => sparse.end(),
            Some(sparse) => {
                // Which rows are late depends on the number of their key, while keys are ahead.
                let latest = attempted.latest.filter(|_| self.keys.ahead.is_empty());
                sparse.keep(attempted.waited, latest);
            }
            None => {}
        }
        self.progress.iter_mut().for_each(Progress::commit);
        self.past.rows += attempted.rows;
        self.shedding.iter_mut().for_each(|shedding| shedding.drew(attempted.drawn));
        if let Some(emptied) = attempted.emptied {
            self.closed = true;
            self.emission.iter_mut().for_each(Emission::end);
            self.engines_mut().zip(emptied).for_each(|(engine, emptied)| engine.end(emptied));
            self.keys.forget_all();
        }
        self.forget_keys(attempted.rows);
    }

    /// Forgets the keys of which nothing is held, once they are many.
    fn forget_keys(&mut self, rows: u64) {
        let known = self.keys.len();
        self.busy = self.busy.saturating_sub(rows + 1);
        if self.busy > 0 {
            return;
        }
        let slices = self.engines().map(|engine| engine.slices.timelines.len()).max().unwrap_or_default();
        if known > IDLE_KEYS && slices < known / 2 {
            let live = self.live_keys(true);
            match live.len() <= known / 2 {
                true => self.keep_keys(&live),
                // Calls for single keys, which move no watermark, would look at all keys each time.
                false => self.busy = known as u64,
            }
        }
    }

    /// The keys of which something is held; with `numbered`, also those of which only numbers are.
    pub(super) fn live_keys(&self, numbered: bool) -> Vec<u32> {
        let mut is_live = vec![false; self.keys.len()];
        self.engines().for_each(|engine| engine.mark_live(&mut is_live, numbered));
        self.emission.iter().for_each(|emission| emission.mark_live(&mut is_live));
        self.keys.ahead.each().for_each(|(key, _)| is_live[key as usize] = true);
        (0..).zip(is_live).filter(|(_, is_live)| *is_live).map(|(key, _)| key).collect()
    }

    /// Keeps these keys, which ascend, and forgets the others: the n-th of them becomes key n. If that fails, all stay.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        if self.keys.keep(kept) {
            self.engines_mut().for_each(|engine| engine.keep_keys(kept));
            self.emission.iter_mut().for_each(|emission| emission.keep_keys(kept));
        }
    }
}
