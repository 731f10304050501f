//! A query's emission policy: when a stream emits windows that are not final, and how the results of one window relate to
//! each other (Onyx: triggers and refinement modes).
//!
//! A trigger is evaluated for each key. It reads how many rows of the key came since the key last fired, and
//! *latches*, which events set and a firing resets. A kind of event is a variant of [`Event`]; what combines triggers,
//! or keeps something else of a key, is one of [`Trigger`].

mod event;
mod share;
mod trigger;

#[cfg(test)]
mod tests;

use std::fmt;

use arrow_schema::Schema;
use serde::{Deserialize, Serialize};

pub(super) use event::{Cause, Event, Moved};
pub(super) use share::Share;
use trigger::{Layout, Trigger, chain, repeated};

use super::Length;
use crate::window::{Measure, Window};
use crate::{Error, Result};

/// How a result relates to earlier results of the same window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refinement {
    /// All rows of the window so far.
    Accumulating,
    /// The rows since the result before.
    Discarding,
    /// All rows of the window, after a retraction of the result before.
    Retracting,
}

impl fmt::Display for Refinement {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Accumulating => "accumulating",
            Self::Discarding => "discarding",
            Self::Retracting => "retracting",
        })
    }
}

/// How results wait before they are handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Flush {
    /// A call returns at most so many rows, except those that have waited long enough.
    pub at_most: Option<u64>,
    /// They wait until the watermark has moved on by this, or for those before them.
    pub later: Option<i64>,
}

impl Flush {
    /// Whether results wait at all.
    pub(in crate::operator) fn holds(self) -> bool {
        self != Self::default()
    }
}

/// A part of a trigger, of which each kind reads its own fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// What it is: a kind of event, or how the parts before it are combined.
    pub kind: String,
    /// A number of rows, or of operands.
    pub number: i128,
    /// A share of a window.
    pub share: f64,
    /// The columns that it reads.
    pub columns: Vec<String>,
    /// A length of time.
    pub length: Option<Length>,
}

/// An emission policy, bound to a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    refinement: Refinement,
    trigger: Option<Trigger>,
    events: Vec<Event>,
    layout: Layout,
    /// Windows are emitted once the watermark has passed these shares of them.
    shares: Vec<Share>,
    flush: Flush,
}

/// What a part of an expression is bound to: a trigger, and shares of windows beside it.
#[derive(Default)]
struct Part {
    trigger: Option<Trigger>,
    shares: Vec<Share>,
}

impl Policy {
    /// Binds a policy, whose trigger is given in postfix order.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue`, naming the argument, what was given, and what is allowed.
    pub fn new(
        terms: &[Term],
        refinement: &str,
        flush: Flush,
        input: &Schema,
        measure: &Measure,
    ) -> Result<Self> {
        let refinement = match refinement {
            "accumulating" => Refinement::Accumulating,
            "discarding" => Refinement::Discarding,
            "retracting" => Refinement::Retracting,
            _ => {
                return Err(Error::InvalidValue(format!(
                    "refinement: '{refinement}' is unknown; allowed are 'accumulating', 'discarding' and 'retracting'"
                )));
            }
        };
        let (mut events, mut parts) = (Vec::new(), Vec::<Part>::new());
        for term in terms {
            let Term { kind, number, share, .. } = term;
            let operands = usize::try_from(*number).ok().and_then(|count| parts.len().checked_sub(count));
            let part = match (kind.as_str(), operands) {
                ("rows", _) => Part::of(Trigger::Rows(u64::try_from(*number).unwrap_or(u64::MAX))),
                ("at", _) => Part { trigger: None, shares: vec![Share::of(*share)] },
                ("or", Some(from)) => either(parts.split_off(from)),
                ("and", Some(from)) => Part::of(Trigger::All(keyed("and", parts.split_off(from))?)),
                ("then", Some(from)) => Part::of(chain(keyed("then", parts.split_off(from))?)?),
                ("repeat", Some(from)) => Part::of(repeated(keyed("repeat", parts.split_off(from))?)),
                _ => match Event::read(term, input, measure)? {
                    Some(event) => Part::of(Trigger::Event(latch(&mut events, event))),
                    None => {
                        return Err(Error::InvalidValue(format!(
                            "early: '{kind}' of {number} is not a trigger"
                        )));
                    }
                },
            };
            parts.push(part);
        }
        let Part { mut trigger, shares } = parts.pop().unwrap_or_default();
        if !parts.is_empty() {
            return Err(Error::InvalidValue("early: several triggers are given; allowed is one".into()));
        }
        let stages = trigger.as_mut().map_or(0, |trigger| trigger.number_chains(0));
        let layout = Layout { latches: events.len(), stages };
        Ok(Self { refinement, trigger, events, layout, shares, flush })
    }

    /// Refuses to emit windows of these types when a share of them has gone by, if that is never before their ends.
    pub(super) fn check(&self, windows: &[(String, Window)]) -> Result<()> {
        for &share in &self.shares {
            if let Some((window, _)) = windows.iter().find(|(_, window)| share.is_all_of(window)) {
                return Err(Error::InvalidValue(format!(
                    "emit: at({}) is given for {window}, but this share of a window, rounded up to the unit of the time \
                     column, is all of it, so that it would never fire; allowed are smaller shares, and longer windows",
                    share.number()
                )));
            }
        }
        Ok(())
    }

    pub(super) fn refinement(&self) -> Refinement {
        self.refinement
    }

    pub(super) fn flush(&self) -> Flush {
        self.flush
    }

    /// What sets latches, in their order.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Shares of windows after which these are emitted.
    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// How many words are known of a key.
    pub(super) fn words(&self) -> usize {
        self.layout.words()
    }

    /// Whether the clock matters.
    pub fn has_clock(&self) -> bool {
        self.events.iter().any(|event| event.cause() == Cause::Clock)
    }

    /// For how long keys wait after their first row at least, if there is such an event.
    pub(super) fn waits(&self) -> Option<i64> {
        self.events.iter().filter_map(Event::waits).min()
    }

    /// Whether it matters how many rows come, or what is in them, rather than whether any do.
    pub(super) fn looks_at_rows(&self) -> bool {
        self.events.iter().any(|event| event.cause() == Cause::Rows)
            || self.trigger.as_ref().is_some_and(Trigger::counts_rows)
    }

    /// Whether triggers have stages, which begin again once a window is final.
    pub(super) fn has_stages(&self) -> bool {
        self.layout.stages > 0
    }

    /// Whether a key fires that has had so many rows since it last did.
    pub(super) fn fires(&self, rows: u64, words: &[u32]) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.holds(self.layout.state(rows, words)))
    }

    /// Changes the words of a key that fires with so many rows.
    pub(super) fn fired(&self, rows: u64, words: &mut [u32]) {
        if let Some(trigger) = self.trigger.as_ref().filter(|_| self.has_stages()) {
            let before = words.to_vec();
            trigger.move_on(self.layout.state(rows, &before), self.layout.stages(words));
        }
        self.layout.latches(words).fill(0);
    }

    /// Whether these may be a key's words.
    pub(super) fn is_sound(&self, words: &[u32]) -> bool {
        self.trigger.as_ref().is_none_or(|trigger| trigger.is_sound(self.layout.state(0, words)))
    }

    /// Sets all stages of a key back to the first.
    pub(super) fn begin_again(&self, words: &mut [u32]) {
        self.layout.stages(words).fill(0);
    }

    /// A text that distinguishes policies over a schema, and stays as it is across releases.
    pub(super) fn signature(&self) -> String {
        let mut parts = vec![format!("emit {}", self.refinement)];
        if let Some(trigger) = &self.trigger {
            parts.push(trigger.signature(&self.events));
        }
        parts.extend(self.shares.iter().map(Share::to_string));
        parts.extend(self.flush.at_most.map(|rows| format!("at_most({rows})")));
        parts.extend(self.flush.later.map(|length| format!("later({length})")));
        parts.join(" ")
    }
}

impl Part {
    fn of(trigger: Trigger) -> Self {
        Self { trigger: Some(trigger), shares: Vec::new() }
    }
}

/// The latch of an event, which is a single one wherever the event occurs.
fn latch(events: &mut Vec<Event>, event: Event) -> usize {
    events.iter().position(|other| *other == event).unwrap_or_else(|| {
        events.push(event);
        events.len() - 1
    })
}

fn either(parts: Vec<Part>) -> Part {
    let shares = parts.iter().flat_map(|part| &part.shares).copied().collect();
    let mut triggers: Vec<Trigger> = parts.into_iter().filter_map(|part| part.trigger).collect();
    let trigger = if triggers.len() > 1 { Some(Trigger::Any(triggers)) } else { triggers.pop() };
    Part { trigger, shares }
}

/// Triggers that are combined by something else than "or", which shares of windows cannot be: they are no matter of keys.
fn keyed(how: &str, parts: Vec<Part>) -> Result<Vec<Trigger>> {
    if parts.is_empty() || parts.iter().any(|part| !part.shares.is_empty()) {
        return Err(Error::InvalidValue(format!(
            "early: at() is combined by '{how}'; it concerns single windows, so it is combined by '|' only"
        )));
    }
    Ok(parts.into_iter().filter_map(|part| part.trigger).collect())
}
