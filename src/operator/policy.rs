//! A query's emission policy: when a stream emits windows that are not final, and how the results of one window relate to
//! each other (Onyx: triggers and refinement modes).
//!
//! A trigger is evaluated for each key. It reads how many rows of the key came since the key last fired, and
//! *latches*, which events set and a firing resets.

use arrow_schema::{DataType, Schema};

use super::length::length;
use super::schema::find;
use crate::types::named;
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

/// How results wait before they are handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Flush {
    /// A call returns at most so many rows, except those that have waited long enough.
    pub at_most: Option<u64>,
    /// They wait until the watermark has moved on by this, or for those before them.
    pub later: Option<i64>,
}

impl Flush {
    /// Whether results wait at all.
    pub(super) fn holds(self) -> bool {
        self != Self::default()
    }
}

/// Decimals of a share, at most.
const DECIMALS: usize = 18;

/// A share of a window: so many parts of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share(i128, i128);

impl Share {
    /// The decimal number that is written for this one.
    fn of(share: f64) -> Self {
        let text = format!("{share}");
        let decimals: String = text.split('.').nth(1).unwrap_or_default().chars().take(DECIMALS).collect();
        let parts = decimals.parse::<i128>().unwrap_or_default();
        Self(parts.max(1), 10i128.pow(decimals.len() as u32))
    }

    /// The first time at which a window has gone by to this share of it.
    pub(super) fn time(self, (start, end): (i64, i64)) -> i64 {
        let length = i128::from(end) - i128::from(start);
        let part = (length * self.0 + self.1 - 1).div_euclid(self.1);
        (i128::from(start) + part) as i64
    }

    /// Whether windows of a type are so short that this share of any of them is all of it, since times are whole numbers.
    fn is_all_of(self, window: &Window) -> bool {
        let extent = |id| window.ids().and_then(|ids| ids.extent_of(id, 0).ok().flatten());
        // Twelve months are of all lengths, and so are twelve years.
        let mut extents = (0..12).filter_map(extent).peekable();
        extents.peek().is_some() && extents.all(|(start, end)| self.time((start, end)) >= end)
    }
}

/// A part of a trigger: kind, number, share and name, of which each kind reads its own.
pub type Term = (String, i128, f64, String);

/// What sets a latch of a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// A row with this column true.
    Marked(usize),
    /// The watermark passes a multiple of this.
    Passed(i64),
    /// The clock does, in microseconds.
    Ticked(i64),
}

/// When a key fires.
#[derive(Debug, Clone, PartialEq)]
enum Trigger {
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

/// What a key's triggers know.
pub(super) struct Known<'a> {
    /// Rows since the key last fired.
    pub(super) rows: u64,
    /// A latch for each event, and then the stage of each chain.
    pub(super) words: &'a [u32],
}

/// An emission policy, bound to a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    refinement: Refinement,
    trigger: Option<Trigger>,
    events: Vec<Event>,
    chains: usize,
    /// Windows are emitted once the watermark has passed these shares of them.
    shares: Vec<Share>,
    flush: Flush,
}

/// Of an expression: its trigger, and the shares of windows beside it.
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
        for (kind, number, share, name) in terms {
            let operands = usize::try_from(*number).ok().and_then(|count| parts.len().checked_sub(count));
            let part = match (kind.as_str(), operands) {
                ("rows", _) => Part::of(Trigger::Rows(u64::try_from(*number).unwrap_or(u64::MAX))),
                ("on", _) => Part::of(event(&mut events, Event::Marked(marks(input, name)?))),
                ("every", _) if name == "processing" => {
                    let each = i64::try_from(*number).unwrap_or(i64::MAX).max(1);
                    Part::of(event(&mut events, Event::Ticked(each)))
                }
                ("every", _) => {
                    let each = length(measure, "every", *number, name == "event duration")?;
                    Part::of(event(&mut events, Event::Passed(each.max(1))))
                }
                ("at", _) => Part { trigger: None, shares: vec![Share::of(*share)] },
                ("or", Some(from)) => either(parts.split_off(from)),
                ("and", Some(from)) => Part::of(Trigger::All(keyed("and", parts.split_off(from))?)),
                ("then", Some(from)) => Part::of(chain(keyed("then", parts.split_off(from))?)?),
                ("repeat", Some(from)) => Part::of(repeated(keyed("repeat", parts.split_off(from))?)),
                _ => {
                    return Err(Error::InvalidValue(format!("early: '{kind}' of {number} is not a trigger")));
                }
            };
            parts.push(part);
        }
        let Part { mut trigger, shares } = parts.pop().unwrap_or_default();
        if !parts.is_empty() {
            return Err(Error::InvalidValue("early: several triggers are given; allowed is one".into()));
        }
        let mut chains = 0;
        trigger.iter_mut().for_each(|trigger| trigger.number_chains(&mut chains));
        Ok(Self { refinement, trigger, events, chains, shares, flush })
    }

    /// Refuses to emit windows of these types when a share of them has gone by, if that is never before their ends.
    pub(super) fn check(&self, windows: &[(String, Window)]) -> Result<()> {
        for &share in &self.shares {
            if let Some((window, _)) = windows.iter().find(|(_, window)| share.is_all_of(window)) {
                return Err(Error::InvalidValue(format!(
                    "emit: at({}) is given for {window}, but this share of a window, rounded up to the unit of the time \
                     column, is all of it, so that it would never fire; allowed are smaller shares, and longer windows",
                    share.0 as f64 / share.1 as f64
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
        self.events.len() + self.chains
    }

    /// Whether the clock matters.
    pub fn has_clock(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Ticked(_)))
    }

    /// Whether it matters how many rows come, or what is in them, rather than whether any do.
    pub(super) fn looks_at_rows(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Marked(_)))
            || self.trigger.as_ref().is_some_and(Trigger::counts_rows)
    }

    /// Whether boundaries of event time matter.
    pub(super) fn has_boundaries(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Passed(_)))
    }

    /// Whether triggers have stages, which begin again once a window is final.
    pub(super) fn has_stages(&self) -> bool {
        self.chains > 0
    }

    /// Whether a key fires.
    pub(super) fn fires(&self, known: &Known<'_>) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.holds(known, self.events.len()))
    }

    /// What is known of a key after it fired, with `rows` rows before.
    pub(super) fn fired(&self, rows: u64, words: &mut [u32]) {
        if let Some(trigger) = &self.trigger {
            let before = words.to_vec();
            trigger.move_on(&Known { rows, words: &before }, self.events.len(), words);
        }
        words[..self.events.len()].fill(0);
    }

    /// Whether these may be a key's words.
    pub(super) fn is_sound(&self, words: &[u32]) -> bool {
        let (latches, stages) = words.split_at(self.events.len());
        latches.iter().all(|&latch| latch <= 1)
            && self.trigger.as_ref().is_none_or(|trigger| trigger.has_stages(stages))
    }

    /// Sets all stages of a key back to the first.
    pub(super) fn begin_again(&self, words: &mut [u32]) {
        words[self.events.len()..].fill(0);
    }
}

impl Part {
    fn of(trigger: Trigger) -> Self {
        Self { trigger: Some(trigger), shares: Vec::new() }
    }
}

impl Trigger {
    fn number_chains(&mut self, next: &mut usize) {
        match self {
            Self::Rows(_) | Self::Event(_) => {}
            Self::Any(all) | Self::All(all) => all.iter_mut().for_each(|each| each.number_chains(next)),
            Self::Chain { stages, number, .. } => {
                *number = *next;
                *next += 1;
                stages.iter_mut().for_each(|each| each.number_chains(next));
            }
        }
    }

    /// Whether it depends on how many rows there are, if there are any.
    fn counts_rows(&self) -> bool {
        match self {
            Self::Rows(rows) => *rows > 1,
            Self::Event(_) => false,
            Self::Any(all) | Self::All(all) | Self::Chain { stages: all, .. } => {
                all.iter().any(Self::counts_rows)
            }
        }
    }

    /// Whether there are these stages.
    fn has_stages(&self, given: &[u32]) -> bool {
        match self {
            Self::Rows(_) | Self::Event(_) => true,
            Self::Any(all) | Self::All(all) => all.iter().all(|each| each.has_stages(given)),
            Self::Chain { stages, number, .. } => {
                (given[*number] as usize) < stages.len() && stages.iter().all(|each| each.has_stages(given))
            }
        }
    }

    /// Whether it holds; the stages of chains come after so many latches.
    fn holds(&self, known: &Known<'_>, latches: usize) -> bool {
        match self {
            Self::Rows(rows) => known.rows >= *rows,
            Self::Event(event) => known.words[*event] > 0,
            Self::Any(all) => all.iter().any(|each| each.holds(known, latches)),
            Self::All(all) => all.iter().all(|each| each.holds(known, latches)),
            Self::Chain { stages, number, .. } => {
                stages[known.words[latches + number] as usize].holds(known, latches)
            }
        }
    }

    /// Moves those stages on that held when the key fired.
    fn move_on(&self, known: &Known<'_>, latches: usize, words: &mut [u32]) {
        match self {
            Self::Rows(_) | Self::Event(_) => {}
            Self::Any(all) | Self::All(all) => {
                all.iter().for_each(|each| each.move_on(known, latches, words));
            }
            Self::Chain { stages, number, repeats } => {
                let at = known.words[latches + number] as usize;
                stages[at].move_on(known, latches, words);
                if stages[at].holds(known, latches) {
                    let next =
                        if *repeats { (at + 1) % stages.len() } else { (at + 1).min(stages.len() - 1) };
                    words[latches + number] = next as u32;
                }
            }
        }
    }
}

/// The trigger by an event, which has a single latch wherever it occurs.
fn event(events: &mut Vec<Event>, event: Event) -> Trigger {
    let known = events.iter().position(|other| *other == event);
    Trigger::Event(known.unwrap_or_else(|| {
        events.push(event);
        events.len() - 1
    }))
}

/// The position of a column that marks rows.
fn marks(input: &Schema, name: &str) -> Result<usize> {
    let at = find(input, "on", name)?;
    match input.field(at).data_type() {
        DataType::Boolean => Ok(at),
        other => Err(Error::InvalidType(format!(
            "on: column '{name}' is {other}; allowed are booleans",
            other = named(other)
        ))),
    }
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

fn chain(triggers: Vec<Trigger>) -> Result<Trigger> {
    let mut all = Vec::new();
    let last = triggers.len() - 1;
    for (at, trigger) in triggers.into_iter().enumerate() {
        match trigger {
            Trigger::Chain { repeats: true, .. } if at < last => {
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
fn repeated(triggers: Vec<Trigger>) -> Trigger {
    let mut triggers = triggers;
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
