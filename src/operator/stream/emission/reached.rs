//! Up to when keys are complete, for what depends on it in results: keys may be ahead of the stream.

use arrow_array::ArrayRef;

use crate::Result;
use crate::operator::stream::engine::{BeforeAndAfter, Engine, Outcome};
use crate::operator::stream::sharing::Shared;

/// Up to when keys are complete, before and after a call.
pub(in crate::operator::stream) struct Reached<'a> {
    /// An engine, as all know it, and its outcome; none if no key is ahead.
    known: Option<(&'a mut Engine, &'a Outcome)>,
}

impl<'a> Reached<'a> {
    /// As engines know it whose calls have these outcomes.
    pub(in crate::operator::stream) fn of(
        engines: &'a mut [(Shared, Engine)],
        outcomes: &'a [Box<Outcome>],
    ) -> Self {
        let known = engines.first_mut().map(|(_, engine)| engine).zip(outcomes.first().map(AsRef::as_ref));
        Self { known: known.filter(|(engine, outcome)| engine.has_ahead() || outcome.moves_key()) }
    }

    /// Of the keys in these columns; `None` if no key is ahead, before or after the call.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(super) fn by_each(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Option<Vec<BeforeAndAfter>>> {
        let known = self.known.as_mut();
        known.map(|(engine, outcome)| engine.reached_by_each(outcome, keys, rows)).transpose()
    }
}
