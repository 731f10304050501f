//! What a window type says of itself: everything that queries, slices and operators must know of it.
//!
//! A type over time lists its windows over [`Spans`], so that slices answer for it and no row is kept ([`ByTime`]). Any other
//! lists them over a key's rows in order ([`super::ByRows`]).

use std::fmt::Debug;

use super::by_rows::ByRows;
use super::class::WindowTraits;
use super::cuts::Cuts;
use super::session::Session;
use super::sliding::Sliding;
use super::spans::{Cursor, Ending, Listed, Spans};

/// A window type.
pub trait Rules: Debug {
    /// What decides about it.
    fn traits(&self) -> WindowTraits;

    /// Where its definition is from.
    fn source(&self) -> &'static str;

    /// How far from its rows a window's edges can lie.
    fn reach(&self) -> i64 {
        0
    }

    /// About how many windows a row is in, or ends.
    fn overlap(&self) -> i64 {
        1
    }

    /// Positions of the columns it reads beside the time.
    fn columns(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Position of the boolean column that marks the rows between which its windows are, if there is one.
    fn mark_column(&self) -> Option<usize> {
        None
    }

    /// Whether it must be shown the values of its columns as rows come.
    fn reads_rows(&self) -> bool {
        false
    }

    /// Whether it is measured by rows, wholly or in part, so that results have the ranks of its windows' rows.
    fn is_ranked(&self) -> bool {
        false
    }

    /// Whether its windows have numbers in a stream's results, as neither times nor ranks tell them apart.
    fn is_numbered(&self) -> bool {
        false
    }

    /// Whether a window that was emitted may be withdrawn later.
    fn may_vanish(&self) -> bool {
        false
    }

    /// Windows that ended at or before `horizon` have expired: the least time of a row that some window takes which has
    /// not, as the row alone would open it. `bounds` are the least and the greatest time of a row.
    fn takes_from(&self, horizon: i64, bounds: (i64, i64)) -> i64 {
        let _ = bounds;
        horizon
    }

    /// Its rules over slices, if these suffice.
    fn by_time(&self) -> Option<&dyn ByTime> {
        None
    }

    /// Its rules over rows, if these are needed.
    fn by_rows(&self) -> Option<&dyn ByRows> {
        None
    }

    /// The sliding windows that it is, if it is one: the next window of these is known in advance.
    fn sliding(&self) -> Option<&Sliding> {
        None
    }

    /// The sessions that it is, if it is one: their rows join windows that there were.
    fn session(&self) -> Option<&Session> {
        None
    }
}

/// A window type over time: its windows are stretches of the measure, and slices tell which there are.
pub trait ByTime: Rules {
    /// The edges of windows that start after `since`, if it is given: slices are cut there.
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts);

    /// Lists windows with rows that are asked for, ascending, from where the cursor is on; `most` at most.
    ///
    /// Fewer are listed only if there are no more. Both ends of windows never step back. O(log spans) a window, and O(1)
    /// where the cursor is near.
    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    );

    /// Lists the windows asked for that contain one of the times `changed`, which ascend. Each time is one of a row.
    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>);

    /// Whether there may be a window that is asked for, whatever rows there are.
    fn may_end(&self, ending: &Ending) -> bool {
        let _ = ending;
        true
    }

    /// Rows come at or after `cutoff`: from when on slices are needed nevertheless, if windows reach back further.
    fn reaches_back(&self, cutoff: i64, since: Option<i64>, bounds: (i64, i64)) -> Option<i64> {
        let _ = (cutoff, since, bounds);
        None
    }

    /// Whether windows need slices from long before the edges in use, but not the edges between them.
    fn is_long(&self) -> bool {
        false
    }

    /// Whether a window with rows on both sides of an edge between two times, the later one included, may still be emitted
    /// or changed, with windows that ended at or before `horizon` having expired.
    fn keeps_apart(&self, times: (i64, i64), since: Option<i64>, horizon: i64) -> bool;
}
