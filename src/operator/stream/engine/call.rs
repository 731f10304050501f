//! A call's effects that are not in undo logs: what its rows have changed, and what remains to be done when it is committed.

use super::answers::Answers;
use super::horizon::WatermarkMove;
use super::reopened::Reopened;
use crate::operator::stream::outgoing::Answer;
use crate::operator::stream::tuples::Changed;

/// What a call's rows have changed: its slots, the slices it changed, and where rows arrived behind the watermark.
#[derive(Default)]
pub(super) struct Ingested {
    pub(super) changed: Changed,
    /// Keys and times of late rows, ascending.
    pub(super) late: Vec<(u32, i64)>,
    /// Keys and times of rows, ascending, at least one of each changed slice, if there are emission policies.
    pub(super) touched: Vec<(u32, i64)>,
    /// Sessions that are open again after the call.
    pub(super) reopened: Reopened,
    pub(super) rows: u64,
}

/// The effects of a call, to be kept if no engine fails.
pub(in crate::operator::stream) struct Outcome {
    pub(super) ingested: Ingested,
    pub(super) moved: WatermarkMove,
    /// Windows that are final.
    pub(super) finals: Answers,
    /// Windows that are not.
    pub(super) early: Answers,
    /// The keys of each query, by its number, that emitted something early.
    pub(super) fired: Vec<(usize, Vec<u32>)>,
    /// How many windows each query emits that emits some, by its place in the operator.
    pub(super) windows: Vec<(usize, u64)>,
    /// Up to when a key that ends is complete: where the last of its windows ends, if it has any.
    pub(super) ended_at: Option<i64>,
}

impl Outcome {
    /// The final windows that the call emits, query by query; they are handed out once.
    pub(in crate::operator::stream) fn take_results(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.finals.results)
    }

    /// Windows that are not final, handed out once.
    pub(in crate::operator::stream) fn take_early(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.early.results)
    }

    /// Windows that no row is left of, and whether they are final, handed out once.
    pub(in crate::operator::stream) fn take_vanished(
        &mut self,
    ) -> impl Iterator<Item = (Answer, bool)> + use<> {
        let own = |answers: &mut Answers, is_final| {
            std::mem::take(&mut answers.vanished).into_iter().map(move |answer| (answer, is_final))
        };
        own(&mut self.finals, true).chain(own(&mut self.early, false))
    }

    /// Up to when a key that ends is complete.
    pub(in crate::operator::stream) fn ended_at(&self) -> Option<i64> {
        self.ended_at
    }

    /// Adds the windows of each query to those of other engines.
    pub(in crate::operator::stream) fn count(&self, of_queries: &mut [u64]) {
        self.windows.iter().for_each(|&(query, windows)| of_queries[query] += windows);
    }
}
