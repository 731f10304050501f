//! The operator as a part of one that also has queries of another kind: each call is tried in all parts before it is kept
//! in any.

use arrow_array::RecordBatch;

use super::late::Late;
use super::options::{Options, Stats};
use super::queries::Queries;
use super::{Outcome, Stream};
use crate::Result;

impl Stream {
    /// An operator for these queries; what has come before is as the watermark and the latest row say.
    pub(in crate::operator) fn part(
        queries: Queries,
        options: Options,
        (watermark, latest): (Option<i64>, Option<i64>),
    ) -> Result<Self> {
        let mut part = Self::with(queries, options)?;
        (part.watermark, part.latest) = (watermark, latest);
        Ok(part)
    }

    /// What [`Stream::push`] does, to be kept by [`Stream::keep`] or taken back.
    pub(in crate::operator) fn try_push(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        // Which rows are late, and how many came, is for all parts to say.
        Ok(Outcome { late: Vec::new(), rows: 0, ..self.take_in(batches)? })
    }

    /// What [`Stream::advance`] does.
    pub(in crate::operator) fn try_move(&mut self, watermark: Option<i64>) -> Result<Outcome> {
        self.moved(watermark)
    }

    /// Keeps what a call did, or takes it back.
    pub(in crate::operator) fn keep(&mut self, outcome: Result<Outcome>) -> Result<Vec<RecordBatch>> {
        self.finish(outcome)
    }

    /// The least time of a row that is taken; none while every row is.
    pub(in crate::operator) fn least_taken(&self) -> Option<i64> {
        self.cutoff()
    }

    /// The time of the latest row.
    pub(in crate::operator) fn latest(&self) -> Option<i64> {
        self.latest
    }

    /// The queries.
    pub(in crate::operator) fn queries(&self) -> &Queries {
        &self.queries
    }

    /// The same queries among others.
    pub(in crate::operator) fn set_queries(&mut self, queries: Queries) {
        self.queries = queries;
        self.expect_anew();
    }

    /// Other queries of its own; the one at place `gone` is none any longer.
    pub(in crate::operator) fn change_to(&mut self, queries: Queries, gone: Option<usize>) -> Result<()> {
        self.change(queries)?;
        self.reopened.retain(|reopened| Some(reopened.query) != gone);
        for reopened in &mut self.reopened {
            reopened.query -= usize::from(gone.is_some_and(|gone| gone < reopened.query));
        }
        Ok(())
    }

    /// Hands over the late rows.
    pub(in crate::operator) fn take_log(&mut self) -> Late {
        let fresh = Late::new(self.queries.leader().input());
        std::mem::replace(&mut self.late, fresh)
    }

    /// What it did.
    pub(in crate::operator) fn counts(&self) -> Stats {
        Stats { merges: self.slices.merges(), late: self.late.count(), ..self.counts }
    }
}
