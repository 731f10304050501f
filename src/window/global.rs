//! The global window: all rows of a key.
//!
//! | | |
//! |---|---|
//! | class | context free: it has no edges |
//! | stored | one slice, with its first and last time |
//! | time | O(1) per row |
//! | source | a session whose gap is never reached; named so in the Onyx notes and by Akidau et al., VLDB 2015, §2.2 |

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::Cuts;
use super::rules::{Accepts, ByTime, Rules};
use super::spans::{Cursor, Ending, Listed, Spans};

/// All rows of a key; the extent is the times of the first and the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Global;

impl Global {
    /// First and last time, which are also the window's extent.
    pub fn extent(&self, first: i64, last: i64) -> (i64, i64) {
        (first, last)
    }
}

/// The watermark at which the global window is final: only a closed stream reaches it.
const NEVER: i64 = i64::MAX;

impl Rules for Global {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Akidau et al. 2015, §2.2"
    }

    fn reach(&self) -> i64 {
        0
    }

    fn identity(&self, _: (i64, i64), _: (i64, i64), _: i64) -> (i64, i64) {
        // It reaches from its first row to its last.
        (0, 0)
    }

    fn takes_from(&self, horizon: i64, _: (i64, i64)) -> i64 {
        if horizon < NEVER { i64::MIN } else { horizon }
    }

    fn accepts(&self) -> Accepts {
        Accepts::Any
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl ByTime for Global {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        // Like a session that never closes.
        cuts.gaps.push((since, i64::MAX));
    }

    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    ) {
        let (Some(&first), Some(&last)) = (spans.firsts.first(), spans.lasts.last()) else { return };
        if most > 0 && cursor.resume.is_none() && self.may_end(ending) {
            out.push(Listed::new(0, spans.len(), self.extent(first, last)));
        }
        cursor.resume = Some(first);
    }

    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        if changed.iter().any(|&t| ending.since.is_none_or(|since| t > since)) {
            self.list(spans, ending, &mut Cursor::default(), 1, out);
        }
    }

    fn may_end(&self, ending: &Ending) -> bool {
        // It begins with its first row, wherever that is.
        (Ending { since: None, ..*ending }).holds(0, NEVER)
    }

    fn windows_per_span(&self) -> i64 {
        1
    }

    fn is_long(&self) -> bool {
        true
    }

    fn keeps_apart(&self, _: (i64, i64), _: Option<i64>, _: i64) -> bool {
        false
    }
}
