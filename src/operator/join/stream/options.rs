//! What a join of two streams may be told besides what it joins.

use serde::{Deserialize, Serialize};

use crate::operator::policy::Flush;
use crate::operator::progress::Delay;
use crate::operator::shedding::Shed;

/// The options of a join of two streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct JoinOptions {
    /// How the watermark of each side follows its rows, if it does.
    pub progress: [Option<Delay>; 2],
    /// How many late rows of each side are held until they are collected; any number if `None`.
    pub late_limit: Option<u64>,
    /// How results wait before they are handed out.
    pub flush: Flush,
    /// How much memory the state may take; as much as it needs if `None`.
    pub shed: Option<Shed>,
}
