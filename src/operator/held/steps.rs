//! Steps that are attempted, and committed or rolled back by the call that follows.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::memory::{attempted, spared};
use crate::{Error, Result};

/// An operator over rows that it holds.
pub(crate) trait Stepwise {
    /// What a call asks for.
    type Step<'a>;
    /// What a step changes when it is committed.
    type Attempted;

    /// What results look like.
    #[cfg_attr(not(feature = "python"), expect(dead_code, reason = "only Python asks by the trait"))]
    fn schema(&self) -> &SchemaRef;

    /// Whether what it reads has ended.
    fn is_closed(&self) -> bool;

    /// The step that was attempted last, unless it was settled.
    fn pending(&mut self) -> &mut Option<Self::Attempted>;

    /// Does a step but for what [`Stepwise::commit`] does and [`Stepwise::take_back`] puts back; returns its rows.
    fn tried(&mut self, step: Self::Step<'_>) -> Result<(Self::Attempted, Vec<RecordBatch>)>;

    /// Makes the changes of a step. Cannot fail: room for all that is added was made before.
    fn commit(&mut self, attempted: Self::Attempted);

    /// Puts back what an attempt changed.
    fn take_back(&mut self);

    /// All that it holds, as bytes, for an operator that `identity` tells from others.
    #[cfg_attr(not(feature = "python"), expect(dead_code, reason = "only Python asks by the trait"))]
    fn snapshot(&mut self, identity: &str) -> Result<Vec<u8>>;

    /// Attempts a step; returns its rows. Commits the one before, unless that was settled.
    fn attempt(&mut self, step: Self::Step<'_>) -> Result<Vec<RecordBatch>> {
        self.settle(true);
        match attempted(|| self.tried(step)) {
            Ok((attempted, rows)) => {
                *self.pending() = Some(attempted);
                Ok(rows)
            }
            Err(error) => {
                self.take_back();
                Err(error)
            }
        }
    }

    /// Commits the step that was attempted last, or rolls it back; does nothing if that was done already.
    fn settle(&mut self, commit: bool) {
        match self.pending().take() {
            Some(attempted) if commit => spared(|| self.commit(attempted)),
            Some(_) => self.take_back(),
            None => {}
        }
    }

    /// Refuses a step that is not allowed once the operator is closed.
    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::InvalidValue("operator: it is closed; no call may follow close()".into()));
        }
        Ok(())
    }
}
