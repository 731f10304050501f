//! A call: what moves in it, what its rows have changed, and what remains to be done when it is committed.

use crate::operator::stream::outgoing::Answer;
use crate::operator::stream::tuples::{Changed, Moves};
use crate::slice::Delta;

use super::reopened::Reopened;

/// How a call moves the watermarks, and which results are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operator::stream) struct Move {
    /// The watermark of the stream after the call; it never goes back.
    pub(in crate::operator::stream) watermark: Option<i64>,
    /// The only key whose watermark moves, and where to.
    pub(in crate::operator::stream) key_watermark: Option<(u32, i64)>,
    /// Whether the stream ends, so that all windows are final.
    pub(in crate::operator::stream) closing: bool,
    /// The only key whose results are asked for, if it is not all of them.
    pub(in crate::operator::stream) of_key: Option<u32>,
}

/// What a call's rows have changed: its slots, the slices it changed, and where rows arrived behind the watermark.
pub(super) struct Ingested {
    pub(super) changed: Changed,
    /// Keys and times of late rows, ascending.
    pub(super) late: Vec<(u32, i64)>,
    /// Keys and times of all rows, ascending, if there are emission policies.
    pub(super) touched: Vec<(u32, i64)>,
    pub(super) reopened: Reopened,
    pub(super) rows: u64,
}

impl Ingested {
    /// No rows.
    pub(super) fn nothing() -> Self {
        Self {
            changed: Changed::none(),
            late: Vec::new(),
            touched: Vec::new(),
            reopened: Reopened::default(),
            rows: 0,
        }
    }
}

/// The effects of a call that are not in the undo logs, to be kept if no engine fails.
pub(in crate::operator::stream) struct Outcome {
    pub(super) delta: Delta,
    /// Windows that are final.
    pub(super) results: Vec<Answer>,
    /// Windows that are not.
    pub(super) early: Vec<Answer>,
    /// Windows all of whose rows were taken back, if their results can be retracted, and whether they are final.
    pub(super) vanished: Vec<(Answer, bool)>,
    /// The keys of each query, by its number, that emitted something early.
    pub(super) fired: Vec<(usize, Vec<u32>)>,
    /// Keys and times of rows, ascending, at least one of each changed slice, if there are emission policies.
    pub(super) touched: Vec<(u32, i64)>,
    pub(super) watermark: Option<i64>,
    /// The key whose watermark moves by itself, and where to.
    pub(super) key_watermark: Option<(u32, i64)>,
    pub(super) reopened: Reopened,
    pub(super) rows: u64,
    /// How many windows each query emits that emits some, by its place in the operator.
    pub(super) windows: Vec<(usize, u64)>,
    pub(super) updates: u64,
    pub(super) moves: Moves,
    pub(super) recomputed: u64,
}

impl Outcome {
    /// The final windows that the call emits, query by query; they are handed out once.
    pub(in crate::operator::stream) fn take_results(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.results)
    }

    /// Windows that are not final, handed out once.
    pub(in crate::operator::stream) fn take_early(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.early)
    }

    /// Windows that no row is left of, and whether they are final, handed out once.
    pub(in crate::operator::stream) fn take_vanished(&mut self) -> Vec<(Answer, bool)> {
        std::mem::take(&mut self.vanished)
    }

    /// Adds the windows of each query to those of other engines.
    pub(in crate::operator::stream) fn count(&self, of_queries: &mut [u64]) {
        self.windows.iter().for_each(|&(query, windows)| of_queries[query] += windows);
    }
}
