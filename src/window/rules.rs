//! The rules of a window type: everything that queries, slices and operators must know about it.
//!
//! A type over time lists its windows over [`Spans`], so that slices suffice and no row is kept ([`ByTime`]). Any other
//! type lists them over a key's rows in order ([`ByRows`]). Where these come in order, and each edge follows from the rows
//! up to it, slices suffice, too ([`InOrder`]).
//!
//! To write a type, look first at what has most of its rules:
//!
//! - Windows over time, none of which begins or ends before the previous one: `series` has most of [`ByTime`] (`Series`,
//!   `listed_by!(series)`), and `growing` if they begin at landmarks.
//! - Windows that follow each other without sharing rows: `runs` has most of [`ByRows`]. The type only says where they are
//!   (`Runs`), which must follow from the rows after the previous window alone, as none before are looked at again; a run's
//!   extent begins at the time of its first row.
//!
//! A type that reads values of rows says so in `reads_rows` and gets them from the view, as `row_session` does; of columns
//! of booleans, `mark_columns` has a bit kept for each row instead.
//!
//! [`Rules`] has defaults that a type by rows may have to override: `takes_from` with `accepts` (which rows are late),
//! `identity`, `is_ranked` (which Python's `counts_rows` must equal) and `columns`. If neither times nor ranks tell windows
//! apart, or something must be remembered of rows from call to call, the windows have numbers (`is_numbered`), and
//! [`Memory`], which snapshots contain, remembers windows by their rows: `arrivals` is an example. The edges of emitted
//! windows that may be updated are those of `final_edges`. A type that may withdraw a window which it emitted says so in
//! `may_vanish`. If the extents of its windows are known before any row, they have ids ([`super::Ids`]).

use std::fmt::Debug;

use super::class::WindowTraits;
use super::cuts::Cuts;
use super::gap_column::GapColumn;
use super::in_order::{Edges, Ended, NO_RANK, OfKeys, OrderedRows, Position};
use super::memory::Memory;
use super::periods::Periods;
use super::spans::{Cursor, Ending, Listed, Spans};
use super::view::{KeyRows, Ready, RowCuts, View};
use crate::Result;

/// Windows listed at a time to be counted.
const COUNTED: usize = 1024;

/// Which rows a window type accepts: those from [`Rules::takes_from`] on, which is at a time that only it knows, or at a
/// distance from the horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Rows that it does not accept change none of its windows that have not expired.
    Any,
    /// It accepts rows that are at most this long before the horizon.
    Since(i64),
    /// It says itself which rows it accepts.
    Own,
}

/// A window type.
pub trait Rules: Debug {
    /// Its properties.
    fn traits(&self) -> WindowTraits;

    /// The source of its definition.
    fn source(&self) -> &'static str;

    /// How far from a row's time its rules compute times: rows that close to the ends of int64 are refused, so that
    /// nothing overflows. 0 if its edges do not depend on rows, or if its arithmetic saturates.
    fn reach(&self) -> i64;

    /// The calendar whose periods its edges are at, if they are.
    fn calendar(&self) -> Option<&Periods> {
        None
    }

    /// Positions of the columns it reads besides the time.
    fn columns(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Positions of the boolean columns whose marked rows bound its windows.
    fn mark_columns(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Whether a punctuation by a call ends its windows.
    fn is_punctuated(&self) -> bool {
        false
    }

    /// The column without a value above zero in which a row is in none of its windows, if there is one: such rows do not
    /// even lie between those of a window.
    fn gap_column(&self) -> Option<&GapColumn> {
        None
    }

    /// Whether it must be shown the values of its columns as rows arrive.
    fn reads_rows(&self) -> bool {
        false
    }

    /// Whether what it was shown determines its windows: they are then remembered by their rows.
    fn observes(&self) -> bool {
        false
    }

    /// Whether its windows are sessions, by which their column is called.
    fn is_session(&self) -> bool {
        self.traits().session
    }

    /// Whether it is measured by rows, entirely or in part, so that results have the ranks of its windows' rows.
    fn is_ranked(&self) -> bool {
        false
    }

    /// Whether its windows have numbers in a stream's results, as neither times nor ranks identify them.
    fn is_numbered(&self) -> bool {
        false
    }

    /// Whether an emitted window may be withdrawn later.
    fn may_vanish(&self) -> bool {
        false
    }

    /// Whether a window that was emitted takes no more rows: those that would have joined it are dropped from the slices, so
    /// that a late row begins another one. Each row is then in one result.
    fn seals(&self) -> bool {
        false
    }

    /// What tells a window apart from the others of its key in a stream's results, by its extent, the ranks of its rows
    /// and its number: a later result with the same replaces an earlier one. Of sessions, so does one that overlaps.
    fn identity(&self, extent: (i64, i64), ranks: (i64, i64), number: i64) -> (i64, i64) {
        let _ = (ranks, number);
        extent
    }

    /// The earliest time of a row that belongs to a window which has not expired, as the row alone would open it;
    /// windows that ended at or before `horizon` have expired. Earlier rows are refused as too late, and slices before
    /// it are dropped; those of one session are never dropped apart from each other.
    ///
    /// `bounds` are the least and the greatest time of a row. If `horizon` is after them, no row is accepted any more:
    /// any time at or after `horizon` will do.
    ///
    /// Follows from [`Rules::accepts`] only where that is [`Accepts::Since`].
    fn takes_from(&self, horizon: i64, bounds: (i64, i64)) -> i64 {
        let _ = bounds;
        match self.accepts() {
            Accepts::Since(length) => horizon.saturating_sub(length),
            Accepts::Any | Accepts::Own => horizon,
        }
    }

    /// What that depends on: windows whose results would change by rows that they do not accept share no slices with
    /// windows that accept these.
    fn accepts(&self) -> Accepts {
        Accepts::Own
    }

    /// Which of these rows, in the order of time and all between [`Rules::takes_from`] and the horizon, lie in a window
    /// that has not expired, if their times alone do not say so; otherwise all do.
    ///
    /// # Errors
    /// Only those of user-defined types.
    fn takes(&self, rows: &KeyRows<'_>, horizon: i64) -> Result<Option<Vec<bool>>> {
        let _ = (rows, horizon);
        Ok(None)
    }

    /// Whether rows at or after [`Rules::takes_from`] may be in no window that has not expired: [`Rules::takes`] says which.
    fn has_holes(&self) -> bool {
        false
    }

    /// Whether each of its windows contains all rows since a landmark, so that a row which comes late is in the window
    /// that ends next, however early its time.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Its rules over slices, if slices suffice.
    fn by_time(&self) -> Option<&dyn ByTime> {
        None
    }

    /// Its rules over rows, if it needs rows.
    fn by_rows(&self) -> Option<&dyn ByRows> {
        None
    }

    /// Its rules over rows in order, none of which is kept, if it needs rows only where they come in another order.
    fn in_order(&self) -> Option<&dyn InOrder> {
        None
    }
}

/// A window type over time: its windows are stretches of the measure, and slices determine which of them exist.
pub trait ByTime: Rules {
    /// The edges of windows that start after `since`, if it is given: slices are cut there.
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts);

    /// Lists requested windows with rows, ascending, from the cursor on; at most `most` of them.
    ///
    /// Fewer are listed only if there are no more. Starts and ends never decrease. O(log spans) a window, and O(1) near
    /// the cursor.
    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    );

    /// Lists the requested windows that contain one of the times `changed`, which ascend. Each of them is the time of a
    /// row.
    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>);

    /// The stretch of a window that no earlier one has.
    fn news(&self, extent: (i64, i64)) -> (i64, i64) {
        extent
    }

    /// No window that ends later has a stretch of its own that begins at or before `now`, which lies within the bounds of
    /// times.
    fn begun_upto(&self, now: i64) -> i64 {
        let _ = now;
        i64::MAX
    }

    /// Whether a requested window may exist, whatever rows there are.
    fn may_end(&self, ending: &Ending) -> bool {
        let _ = ending;
        true
    }

    /// At most how many windows it lists for each span.
    fn windows_per_span(&self) -> i64;

    /// A number that requested windows with rows do not exceed, if there are this many spans: O(1).
    fn at_most(&self, spans: usize, ending: &Ending) -> u64 {
        let _ = ending;
        (spans as u64).saturating_mul(self.windows_per_span().max(0) as u64)
    }

    /// How many requested windows have rows, without listing them where they may be many more than spans: O(spans).
    fn count(&self, spans: Spans<'_>, ending: &Ending) -> u64 {
        let (mut cursor, mut listed, mut count) = (Cursor::default(), Vec::new(), 0);
        loop {
            listed.clear();
            self.list(spans, ending, &mut cursor, COUNTED, &mut listed);
            count += listed.len() as u64;
            if listed.len() < COUNTED {
                return count;
            }
        }
    }

    /// Whether windows need slices from long before the edges in use, but none of the edges between those slices: if so,
    /// such slices are merged. Without that, slices of a window that never ends would gather without limit.
    fn is_long(&self) -> bool;

    /// Whether a window that has not expired needs an edge after the earlier and not after the later of `times`.
    ///
    /// Both times lie in slices that end at or before `horizon`, and windows that ended by then have expired. So only
    /// starts of windows matter, and for landmark windows the edges that decide whether a window has new rows. Gaps
    /// between sessions do not count: they always separate slices.
    fn keeps_apart(&self, times: (i64, i64), since: Option<i64>, horizon: i64) -> bool;
}

/// The methods of [`ByTime`] that a module has for all types of a kind, such as `series`.
macro_rules! listed_by {
    ($module:ident) => {
        fn list(
            &self,
            spans: super::Spans<'_>,
            ending: &super::Ending,
            cursor: &mut super::Cursor,
            most: usize,
            out: &mut Vec<super::Listed>,
        ) {
            $module::list(self, spans, ending, cursor, most, out);
        }

        fn list_changed(
            &self,
            spans: super::Spans<'_>,
            changed: &[i64],
            ending: &super::Ending,
            out: &mut Vec<super::Listed>,
        ) {
            $module::list_changed(self, spans, changed, ending, out);
        }

        fn windows_per_span(&self) -> i64 {
            $module::windows_per_span(self)
        }

        fn is_long(&self) -> bool {
            $module::IS_LONG
        }

        fn keeps_apart(&self, times: (i64, i64), since: Option<i64>, horizon: i64) -> bool {
            $module::keeps_apart(self, times, since, horizon)
        }
    };
}

pub(super) use listed_by;

/// A window type that needs a key's rows in order.
///
/// Such windows are a function of a key's sorted rows. So they are listed again from the first row that a call changes,
/// or that may belong to a window which is not final, and compared with what was final before the call.
///
/// When a window is final: a window by rows, once the watermark reaches its last row, since rows tie by arrival; the
/// last rows of each stretch of time, once the watermark reaches the stretch's end; a window by punctuation or between
/// predicates, once the watermark reaches the row that closes it; a session, once the watermark is past its end, or
/// reaches its greatest length.
pub trait ByRows: Rules {
    /// Adds all windows of a key. Their ends never decrease, except for user-defined types, whose order is arbitrary.
    ///
    /// # Errors
    /// Only those of user-defined types.
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()>;

    /// Whether it has no more windows than rows.
    fn has_few(&self) -> bool {
        true
    }

    /// Adds the windows that a call made final or changed; returns when the next one is final, if that is known.
    ///
    /// # Errors
    /// As [`ByRows::list`].
    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>>;

    /// Whether the times of rows and their marks alone determine windows, each of which is final once the watermark reaches
    /// its last row, or later: rows that it has not reached are then as good as not there.
    fn lets_wait(&self) -> bool {
        true
    }

    /// Whether slices are cut where two neighbouring rows, by their times and marks, say so, and a row makes no window final
    /// before its own time: nothing changes far behind a row that is inserted.
    fn is_cut_by_neighbours(&self) -> bool {
        false
    }

    /// Adds the places from `from` on before which slices are cut, unless a cut depends on the watermark. A type that cannot
    /// tell them from the rows there, without what was before, adds none, and has `final_edges`.
    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        let _ = (view, from, cuts);
    }

    /// Adds the edges from place `from` on that final windows received as their rows arrived.
    ///
    /// # Errors
    /// As [`ByRows::list`].
    fn final_edges(
        &self,
        view: &View<'_>,
        memory: &Memory,
        from: usize,
        edges: &mut Vec<usize>,
    ) -> Result<()> {
        let _ = (view, memory, from, edges);
        Ok(())
    }

    /// The first row that a future window needs: new rows are at or after `call.floor`, and follow the existing rows of
    /// that time.
    fn needed(&self, view: &View<'_>, memory: &Memory) -> usize;

    /// Whether an operator could have stored this memory of a key, as far as calls rely on it.
    fn is_sound(&self, view: &View<'_>, memory: &Memory) -> bool {
        let _ = view;
        memory.is_empty()
    }
}

/// A window type that is determined by rows, and where its windows begin and end by the rows up to there: where rows come in
/// order, none of them is looked at again.
///
/// The defaults are for windows that share no rows.
pub trait InOrder: Rules {
    /// Moves positions by rows, and says where these cut slices and which windows they end.
    ///
    /// # Errors
    /// Where a row's values make no window.
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut Edges) -> Result<()>;

    /// The watermark from which on an open window is final, whatever rows come; `None` if a row must end it.
    fn final_at(&self, position: &Position) -> Option<i64> {
        let _ = position;
        None
    }

    /// Where an open window ends, unless that is the time of its last row.
    fn end_of(&self, position: &Position) -> Option<i64> {
        let _ = position;
        None
    }

    /// The windows that the end of the stream would end after so many rows of a key.
    fn unfinished(&self, position: &Position, rows: u64) -> Vec<Ended> {
        match position.is_open {
            true => vec![position.window(rows, self.end_of(position))],
            false => Vec::new(),
        }
    }

    /// At most how many windows a row is in.
    fn windows_per_row(&self) -> u64 {
        1
    }

    /// The rank of the first row that windows still need, after so many rows of a key.
    fn needed(&self, position: &Position, rows: u64) -> u64 {
        if position.is_open { position.edge } else { rows }
    }

    /// Whether an operator could have this position after so many rows; `begins` says whether a slice begins at a rank.
    fn is_sound(&self, position: &Position, rows: u64, begins: &dyn Fn(u64) -> bool) -> bool {
        match position.is_open {
            true => position.edge < rows && begins(position.edge),
            false => position.edge == NO_RANK || position.edge <= rows,
        }
    }
}
