//! The triggers of keys: expressions of numbers of rows, and of events.
//!
//! A trigger keeps words for each key, whose places [`Layout`] names: a latch for each event, which the event sets and
//! a firing resets, and the stage of each chain, which firings move on and a final window sets back.

use super::Event;
use crate::{Error, Result};

/// When a key fires.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Trigger {
    /// After so many rows.
    Rows(u64),
    /// By the event of this number.
    Event(usize),
    Any(Vec<Self>),
    All(Vec<Self>),
    /// By one stage after the other; then by the last one, or from the first one on again.
    Chain {
        stages: Vec<Self>,
        number: usize,
        repeats: bool,
    },
}

/// What the words of a key are, in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// 1 for each event that occurred since the key last fired.
    pub(super) latches: usize,
    /// The stage of each chain.
    pub(super) stages: usize,
}

impl Layout {
    /// How many words a key has.
    pub(super) fn words(self) -> usize {
        self.latches + self.stages
    }

    /// The words of a key, after it had so many rows.
    pub(super) fn state(self, rows: u64, words: &[u32]) -> KeyState<'_> {
        let (latches, stages) = words.split_at(self.latches);
        KeyState { rows, latches, stages }
    }

    pub(super) fn latches(self, words: &mut [u32]) -> &mut [u32] {
        &mut words[..self.latches]
    }

    pub(super) fn stages(self, words: &mut [u32]) -> &mut [u32] {
        &mut words[self.latches..]
    }
}

/// What a key has since it last fired: rows, and the words of its latches and chains.
#[derive(Clone, Copy)]
pub(super) struct KeyState<'a> {
    /// Rows since the key last fired.
    rows: u64,
    latches: &'a [u32],
    stages: &'a [u32],
}

impl Trigger {
    /// Gives each chain a number, and returns how many there are after so many others.
    pub(super) fn number_chains(&mut self, before: usize) -> usize {
        let first = match self {
            Self::Chain { number, .. } => {
                *number = before;
                before + 1
            }
            _ => before,
        };
        self.parts_mut().iter_mut().fold(first, |next, part| part.number_chains(next))
    }

    /// What it combines.
    fn parts(&self) -> &[Self] {
        match self {
            Self::Rows(_) | Self::Event(_) => &[],
            Self::Any(parts) | Self::All(parts) | Self::Chain { stages: parts, .. } => parts,
        }
    }

    fn parts_mut(&mut self) -> &mut [Self] {
        match self {
            Self::Rows(_) | Self::Event(_) => &mut [],
            Self::Any(parts) | Self::All(parts) | Self::Chain { stages: parts, .. } => parts,
        }
    }

    /// Whether it depends on how many rows there are, if there are any.
    pub(super) fn counts_rows(&self) -> bool {
        matches!(self, Self::Rows(2..)) || self.parts().iter().any(Self::counts_rows)
    }

    /// Whether its chains have the stages that a key is in.
    pub(super) fn is_sound(&self, state: KeyState<'_>) -> bool {
        let has_stage = match self {
            Self::Chain { stages, number, .. } => (state.stages[*number] as usize) < stages.len(),
            _ => true,
        };
        has_stage
            && state.latches.iter().all(|&latch| latch <= 1)
            && self.parts().iter().all(|part| part.is_sound(state))
    }

    /// Whether a key fires.
    pub(super) fn holds(&self, state: KeyState<'_>) -> bool {
        match self {
            Self::Rows(rows) => state.rows >= *rows,
            Self::Event(event) => state.latches[*event] > 0,
            Self::Any(parts) => parts.iter().any(|part| part.holds(state)),
            Self::All(parts) => parts.iter().all(|part| part.holds(state)),
            Self::Chain { stages, number, .. } => stages[state.stages[*number] as usize].holds(state),
        }
    }

    /// Moves those stages on that held when the key fired.
    pub(super) fn move_on(&self, state: KeyState<'_>, moved: &mut [u32]) {
        match self {
            Self::Rows(_) | Self::Event(_) => {}
            Self::Any(parts) | Self::All(parts) => parts.iter().for_each(|part| part.move_on(state, moved)),
            Self::Chain { stages, number, repeats } => {
                let stage = state.stages[*number] as usize;
                stages[stage].move_on(state, moved);
                if stages[stage].holds(state) {
                    let last = stages.len() - 1;
                    let next = if *repeats && stage == last { 0 } else { (stage + 1).min(last) };
                    moved[*number] = next as u32;
                }
            }
        }
    }

    /// Its part of a policy's signature, which must not change.
    pub(super) fn signature(&self, events: &[Event]) -> String {
        let combined = match self {
            Self::Rows(rows) => return format!("rows({rows})"),
            Self::Event(event) => return events[*event].to_string(),
            Self::Any(_) => "or",
            Self::All(_) => "and",
            Self::Chain { repeats: false, .. } => "then",
            Self::Chain { repeats: true, .. } => "repeat",
        };
        let parts: Vec<String> = self.parts().iter().map(|part| part.signature(events)).collect();
        format!("{combined}({})", parts.join(", "))
    }
}

/// The trigger that is one stage after the other; stages that are chains themselves are part of it.
pub(super) fn chain(triggers: Vec<Trigger>) -> Result<Trigger> {
    let mut all = Vec::new();
    let last = triggers.len() - 1;
    for (place, trigger) in triggers.into_iter().enumerate() {
        match trigger {
            Trigger::Chain { repeats: true, .. } if place < last => {
                return Err(Error::InvalidValue(
                    "early: a trigger after .repeat() can never fire, as what is repeated does not end"
                        .into(),
                ));
            }
            Trigger::Chain { stages, repeats: false, .. } => all.extend(stages),
            other => all.push(other),
        }
    }
    Ok(Trigger::Chain { stages: all, number: 0, repeats: false })
}

/// A chain that begins again; any other trigger does so anyway.
pub(super) fn repeated(mut triggers: Vec<Trigger>) -> Trigger {
    match triggers.pop() {
        Some(Trigger::Chain { stages, .. }) if triggers.is_empty() => {
            Trigger::Chain { stages, number: 0, repeats: true }
        }
        Some(last) if triggers.is_empty() => last,
        last => {
            triggers.extend(last);
            Trigger::All(triggers)
        }
    }
}
