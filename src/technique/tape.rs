//! How a call that fails is taken back: a technique as it was some calls ago, and the calls since, which it takes again.
//!
//! A copy is made once as many rows have come as it holds, so that it costs O(1) a row; going back costs O(rows held).

use super::Technique;
use crate::Result;
use crate::aggregate::Input;

/// Rows between two copies, at least.
const ROWS: usize = 4096;

/// Rows of a call.
#[derive(Default)]
pub(super) struct Pushed {
    pub(super) keys: Vec<u32>,
    pub(super) times: Vec<i64>,
    pub(super) inputs: Vec<Input>,
}

/// A call that did not fail.
pub(super) enum Call {
    Push(Pushed),
    Advance(i64),
}

/// A copy of a technique, and the calls since it was made.
pub(super) struct Tape {
    copy: Box<dyn Technique>,
    calls: Vec<Call>,
    /// Rows and calls since, and with how many of them another copy is made.
    length: usize,
    limit: usize,
}

impl Tape {
    /// A tape that begins now.
    ///
    /// # Errors
    /// What a user's function raises.
    pub(super) fn of(technique: &mut dyn Technique) -> Result<Self> {
        let held = technique.stats();
        let limit = ROWS.max(held.rows + held.partials);
        Ok(Self { copy: technique.copy()?, calls: Vec::new(), length: 0, limit })
    }

    /// Notes calls that did not fail, after which the technique is this.
    pub(super) fn note(&mut self, calls: impl IntoIterator<Item = Call>, technique: &mut dyn Technique) {
        for call in calls {
            self.length += match &call {
                Call::Push(rows) => 1 + rows.times.len(),
                Call::Advance(_) => 1,
            };
            self.calls.push(call);
        }
        // Where a user's function raises, the calls go on being noted: it will where its result is asked for.
        if self.length > self.limit
            && let Ok(tape) = Self::of(technique)
        {
            *self = tape;
        }
    }

    /// The technique as it is after the calls that were noted.
    ///
    /// # Errors
    /// What a user's function raises that did not before.
    pub(super) fn rewound(&mut self) -> Result<Box<dyn Technique>> {
        let mut technique = self.copy.copy()?;
        for call in &self.calls {
            match call {
                Call::Push(rows) => technique.push(&rows.keys, &rows.times, &rows.inputs)?,
                Call::Advance(watermark) => technique.advance(*watermark)?,
            };
        }
        Ok(technique)
    }
}
