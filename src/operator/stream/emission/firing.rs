//! Which keys fire in a call, and so what is emitted early; and which earlier results that takes back.

use std::collections::HashMap;

use arrow_buffer::BooleanBuffer;

use super::{Emission, Emitter, retraction};
use crate::Result;
use crate::operator::outbox::Labelled;
use crate::operator::stream::ahead::Reach;
use crate::operator::stream::engine::EarlyRequest;
use crate::operator::stream::intake::Accepted;
use crate::operator::stream::outgoing::Answer;

impl Emission {
    /// Takes note of rows; `late` has, for each query, the rows that are late for it, if any are. There are so many keys, and
    /// it is this time by the clock.
    pub(in crate::operator::stream) fn note(
        &mut self,
        rows: &Accepted,
        late: &[Option<BooleanBuffer>],
        key_count: usize,
        now: Option<i64>,
    ) {
        for (at, emitter) in self.emitters.iter_mut().enumerate() {
            if let Some(triggers) = &mut emitter.triggers {
                triggers.make_room(key_count);
                triggers.note(rows, late.get(at).and_then(Option::as_ref), now.max(self.clock.0));
            }
        }
    }

    /// What must be emitted early at the end of a call that emits these final windows.
    pub(in crate::operator::stream) fn ask(
        &mut self,
        reach: &Reach<'_>,
        now: Option<i64>,
        finals: &[Answer],
    ) -> Vec<EarlyRequest> {
        // A call that does not look leaves the clock as it was.
        self.clock.1 = now.max(self.clock.0);
        for answer in finals {
            let Some(triggers) = &mut self.emitters[answer.entry].triggers else { continue };
            if triggers.policy.has_stages() {
                let windows = answer.windows.iter().zip(&answer.updates);
                windows.filter(|(_, is_update)| !is_update).for_each(|(window, _)| {
                    triggers.make_room(window.key as usize + 1);
                    triggers.begin_again(window.key);
                });
            }
        }
        for Emitter { triggers, panes, .. } in &mut self.emitters {
            let (Some(triggers), Some(panes)) = (triggers, panes) else { continue };
            panes.pass(reach).into_iter().for_each(|key| triggers.begin_again(key));
        }
        let corrected = self.corrected(finals);
        let mut requests = Vec::new();
        for (entry, emitter) in self.emitters.iter_mut().enumerate() {
            let Some(triggers) = &mut emitter.triggers else { continue };
            let (mut keys, shares) = (triggers.look(reach, self.clock), triggers.policy.shares().to_vec());
            keys.extend(corrected.iter().filter(|(of, _)| *of == entry).map(|(_, key)| key));
            keys.sort_unstable();
            keys.dedup();
            if !keys.is_empty() || !shares.is_empty() {
                requests.push(EarlyRequest { entry, keys, shares });
            }
        }
        requests
    }

    /// Queries and keys whose early results final windows may have overtaken: of later numbers than theirs.
    fn corrected(&self, finals: &[Answer]) -> Vec<(usize, u32)> {
        let mut corrected = Vec::new();
        for answer in finals {
            let Emitter { shape, ledger: Some(ledger), .. } = &self.emitters[answer.entry] else { continue };
            if shape.may_vanish().next().is_some() {
                let last = last_numbers([answer].into_iter());
                let overtaken =
                    last.iter().filter(|&(&place, &last)| ledger.beyond(place, last).next().is_some());
                corrected.extend(overtaken.map(|(place, _)| (answer.entry, place.0)));
            }
        }
        corrected
    }

    /// Retracts early results of windows that were there when a key fired before, and are not now that it fires again.
    pub(super) fn retract_vanished(
        &mut self,
        requests: &[EarlyRequest],
        early: &[Answer],
    ) -> Result<Vec<(usize, Labelled)>> {
        let mut retractions = Vec::new();
        for EarlyRequest { entry, keys, .. } in requests {
            let Emitter { shape, ledger: Some(ledger), .. } = &mut self.emitters[*entry] else { continue };
            if keys.is_empty() || shape.may_vanish().next().is_none() {
                continue;
            }
            let last = last_numbers(early.iter().filter(|answer| answer.entry == *entry));
            let places = keys.iter().flat_map(|&key| shape.may_vanish().map(move |window| (key, window)));
            let last = places.map(|place| (place, last.get(&place).copied().unwrap_or(i64::MIN)));
            retractions.extend(ledger.retract_beyond(shape, last)?.map(|batch| (*entry, retraction(batch))));
        }
        Ok(retractions)
    }

    /// What must be emitted early of a key that is fired by hand, or of all keys.
    pub(in crate::operator::stream) fn ask_by_hand(&mut self, key: Option<u32>) -> Vec<EarlyRequest> {
        self.clock.1 = self.clock.0;
        let mut requests = Vec::new();
        for (entry, emitter) in self.emitters.iter_mut().enumerate() {
            let Some(triggers) = &mut emitter.triggers else { continue };
            requests.push(EarlyRequest { entry, keys: triggers.fire_by_hand(key), shares: Vec::new() });
        }
        requests
    }
}

/// The greatest number of each key's windows of each type.
fn last_numbers<'a>(answers: impl Iterator<Item = &'a Answer>) -> HashMap<(u32, u32), i64> {
    let mut last = HashMap::new();
    for window in answers.flat_map(|answer| &answer.windows) {
        let known = last.entry((window.key, window.window)).or_insert(window.identity.0);
        *known = window.identity.0.max(*known);
    }
    last
}
