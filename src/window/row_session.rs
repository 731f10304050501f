//! Sessions that need rows: those of a greatest length, and those in which each row has a gap of its own.
//!
//! | | |
//! |---|---|
//! | class | forward context free: whether a row begins a session is determined by the rows before it |
//! | stored | rows in order, as a long session is cut by its first row and fragments do not merge; in an ordered stream slices only |
//! | time | O(1) per row |
//! | source | Spark's `session_window(time, gap)`; the greatest length as a session's maximum duration in Azure Stream Analytics, counted from its first row |

use arrow_array::ArrayRef;
use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::gap_column::GapColumn;
use super::in_order::{Edges, OfKeys, OrderedRows, Position};
use super::memory::Memory;
use super::rules::{Accepts, ByRows, InOrder, Rules};
use super::runs::{self, Run, Runs};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View};
use crate::{Error, Result};

/// How long after a row its session goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Gap {
    /// As long after every row.
    Fixed(i64),
    /// As long as a column says.
    Column(GapColumn),
}

/// Sessions of rows that each keep it open for their gap, none of them longer than `at_most`.
///
/// A row keeps its session open from its time `t` to `t + gap`. The next row belongs to it if it is not after the latest
/// of these ends, and is less than `at_most` after the session's first row: the session is the stretch from there to
/// that end, cut off at `at_most`. Any other row begins a session. So sessions follow from a key's rows alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowSession {
    gap: Gap,
    at_most: Option<i64>,
    /// As the options of a stream say, which snapshots have beside the query.
    #[serde(skip)]
    is_sealed: bool,
}

/// A session while rows are added.
#[derive(Clone, Copy)]
struct Open {
    lo: usize,
    /// The time of its first row.
    first: i64,
    /// Up to when rows keep it open.
    end: i64,
    /// Where it is cut off.
    limit: i64,
}

/// The gaps of rows.
struct Gaps {
    fixed: i64,
    /// By row, if rows have their own.
    own: Vec<i64>,
}

impl Gaps {
    /// Up to when a row at this place and time keeps its session open.
    fn end(&self, row: usize, time: i64) -> Result<i64> {
        time.checked_add(self.own.get(row).copied().unwrap_or(self.fixed)).ok_or_else(|| {
            Error::Overflow(format!(
                "windows: a row at {time} keeps its session open until after the greatest time of int64; allowed are \
                 gaps that end before"
            ))
        })
    }
}

impl Open {
    fn has(&self, time: i64) -> bool {
        time <= self.end && time < self.limit
    }

    fn run(self, hi: usize, is_sealed: bool) -> Run {
        // A row exactly at the end still joins, unless the session is sealed; one at the limit does not.
        let final_at = self.end.saturating_add(i64::from(!is_sealed)).min(self.limit);
        let extent = (self.first, self.end.min(self.limit));
        Run { lo: self.lo, hi, extent, final_at: Some(final_at) }
    }
}

impl RowSession {
    /// Sessions of these gaps and this greatest length.
    ///
    /// # Panics
    /// Unless `gap > 0`, and `at_most` is not below it; plans check this first and return a proper error.
    pub fn new(gap: Gap, at_most: Option<i64>) -> Self {
        let least = if let Gap::Fixed(gap) = gap { gap } else { 1 };
        assert!(least > 0 && at_most.is_none_or(|most| most >= least), "0 < gap <= at_most");
        Self { gap, at_most, is_sealed: false }
    }

    /// These sessions, each of which is emitted once it has ended, and joined by no row after that ([`Rules::seals`]).
    pub fn sealed(self) -> Self {
        Self { is_sealed: true, ..self }
    }

    /// The gaps.
    pub fn gap(&self) -> &Gap {
        &self.gap
    }

    /// No session is longer, if there is one.
    pub fn at_most(&self) -> Option<i64> {
        self.at_most
    }

    /// Where a session is cut off whose first row is at this time.
    fn limit(&self, first: i64) -> i64 {
        self.at_most.map_or(i64::MAX, |most| first.saturating_add(most))
    }

    /// The gaps of rows, which are in `column` if they have their own.
    fn gaps(&self, column: Option<&ArrayRef>) -> Result<Gaps> {
        match (&self.gap, column) {
            (Gap::Column(gaps), Some(column)) => Ok(Gaps { fixed: 0, own: gaps.lengths(column)? }),
            (Gap::Fixed(gap), _) => Ok(Gaps { fixed: *gap, own: Vec::new() }),
            (Gap::Column(_), None) => Err(Error::Internal("a column of gaps was not read".into())),
        }
    }

    /// The session that is open at a position.
    fn open(&self, position: &Position) -> Open {
        let (first, end) = position.extent;
        Open { lo: 0, first, end, limit: self.limit(first) }
    }

    /// Shows the sessions of ascending times, whose gaps are in `column` if they have their own, as long as `go_on` says
    /// so. Their places count from `from` on; the one that is `open` began before.
    fn sessions(
        &self,
        (from, times): (usize, &[i64]),
        column: Option<&ArrayRef>,
        mut open: Option<Open>,
        mut go_on: impl FnMut(Run) -> bool,
    ) -> Result<()> {
        let gaps = self.gaps(column)?;
        for (place, &time) in times.iter().enumerate() {
            let end = gaps.end(place, time)?;
            match &mut open {
                Some(open) if open.has(time) => open.end = open.end.max(end),
                _ => {
                    let begun = Open { lo: from + place, first: time, end, limit: self.limit(time) };
                    if open
                        .replace(begun)
                        .is_some_and(|ended| !go_on(ended.run(from + place, self.is_sealed)))
                    {
                        return Ok(());
                    }
                }
            }
        }
        if let Some(open) = open {
            go_on(open.run(from + times.len(), self.is_sealed));
        }
        Ok(())
    }
}

impl Rules for RowSession {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextFree)
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §4.4"
    }

    fn columns(&self) -> Vec<usize> {
        self.gap_column().map(|gaps| gaps.position).into_iter().collect()
    }

    fn reads_rows(&self) -> bool {
        self.gap_column().is_some()
    }

    fn gap_column(&self) -> Option<&GapColumn> {
        match &self.gap {
            Gap::Column(gaps) => Some(gaps),
            Gap::Fixed(_) => None,
        }
    }

    fn is_session(&self) -> bool {
        true
    }

    fn is_numbered(&self) -> bool {
        true
    }

    fn identity(&self, _: (i64, i64), _: (i64, i64), number: i64) -> (i64, i64) {
        (number, 0)
    }

    fn may_vanish(&self) -> bool {
        // A late row may join two sessions, or move all later cuts of a long one.
        !self.is_sealed
    }

    fn reach(&self) -> i64 {
        match self.gap {
            Gap::Fixed(gap) => gap,
            Gap::Column(_) => 0,
        }
    }

    fn accepts(&self) -> Accepts {
        // As of other sessions; what a row's own gap will be is not known.
        Accepts::Since((self.reach() - i64::from(self.is_sealed)).max(0))
    }

    fn seals(&self) -> bool {
        self.is_sealed
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }

    fn in_order(&self) -> Option<&dyn InOrder> {
        Some(self)
    }
}

impl InOrder for RowSession {
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut Edges) -> Result<()> {
        let gaps = self.gaps(rows.columns.first())?;
        for (row, key, rank) in rows.each() {
            let (position, time) = (positions.of(key), rows.times[row]);
            let end = gaps.end(row, time)?;
            if position.is_open && !self.open(position).has(time) {
                let end = self.end_of(position);
                edges.end(position, (key, rank), end);
            }
            if !position.is_open {
                edges.begin(position, row, rank);
                position.extent = (time, end);
            }
            position.extent.1 = position.extent.1.max(end);
        }
        Ok(())
    }

    fn final_at(&self, position: &Position) -> Option<i64> {
        self.open(position).run(0, self.is_sealed).final_at
    }

    fn end_of(&self, position: &Position) -> Option<i64> {
        Some(self.open(position).run(0, self.is_sealed).extent.1)
    }
}

impl Runs for RowSession {
    fn runs(
        &self,
        view: &View<'_>,
        from: usize,
        last: Option<Run>,
        go_on: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()> {
        let gaps = self.gap_column().map(|gaps| view.reader.read(&[gaps.position], &view.ats[from..]));
        let columns = gaps.transpose()?.unwrap_or_default();
        // Its end may have been cut off at the limit: that makes no difference to which rows join it.
        let open = last.map(|Run { lo, extent: (first, end), .. }| Open {
            lo,
            first,
            end,
            limit: self.limit(first),
        });
        self.sessions((from, &view.times[from..]), columns.first(), open, go_on)
    }
}

impl ByRows for RowSession {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        self.sessions((0, rows.times), rows.columns.first(), None, |run| {
            out.push(Listed::new(run.lo, run.hi, run.extent));
            true
        })
    }

    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        runs::ready(self, view, memory, out)
    }

    /// Gaps that make no session are refused with their rows.
    fn lets_wait(&self) -> bool {
        matches!(self.gap, Gap::Fixed(_))
    }

    fn is_cut_by_neighbours(&self) -> bool {
        matches!(self.gap, Gap::Fixed(_))
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        // Cuts of long sessions, and where gaps differ, are known only with what was before.
        let Gap::Fixed(gap) = self.gap else { return };
        let is_pause = |&place: &usize| view.times[place].saturating_sub(view.times[place - 1]) > gap;
        cuts.by_edge.extend((from.max(1)..view.len()).filter(is_pause));
    }

    fn final_edges(
        &self,
        view: &View<'_>,
        memory: &Memory,
        from: usize,
        edges: &mut Vec<usize>,
    ) -> Result<()> {
        runs::final_edges(view, memory, from, edges);
        Ok(())
    }

    fn needed(&self, view: &View<'_>, memory: &Memory) -> usize {
        runs::needed(self, view, memory)
    }

    fn is_sound(&self, view: &View<'_>, memory: &Memory) -> bool {
        runs::is_sound(self, view, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_session_is_cut_where_it_would_be_too_long() {
        let session = RowSession::new(Gap::Fixed(3), Some(5));
        let mut found = Vec::new();
        let shown = session.sessions((0, &[0, 3, 4, 5, 8, 12]), None, None, |run| {
            found.push((run.lo, run.hi, run.extent, run.final_at));
            true
        });
        shown.unwrap();
        assert_eq!(found, [(0, 3, (0, 5), Some(5)), (3, 5, (5, 10), Some(10)), (5, 6, (12, 15), Some(16))]);
    }
}
