//! Windows between predicates: from a row at which something begins to the next at which it ends.
//!
//! | | |
//! |---|---|
//! | class | forward context free: an edge is determined by the rows up to it |
//! | stored | rows in order; in an ordered stream slices only |
//! | time | O(1) per row |
//! | source | Onyx, design notes on windowing: predicates for when a row enters a window, and when it leaves |

use arrow_buffer::BooleanBuffer;
use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::in_order::{Edges, OfKeys, OrderedRows};
use super::memory::Memory;
use super::punctuation::Punctuation;
use super::rules::{Accepts, ByRows, InOrder, Rules};
use super::runs::{self, Run, Runs};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View};
use crate::Result;

/// From a row in which column `enter` is true, while no window is open, to the next in which column `leave` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Between {
    enter: usize,
    leave: usize,
    exclusive: bool,
}

/// A window: places of its rows, and of the row that leaves it, unless none did yet.
type Found = (usize, usize, Option<usize>);

impl Between {
    /// Windows bounded by the boolean columns at these positions. The row that leaves a window is its last one, or, if
    /// `exclusive`, the first that is not in it any more; it may then enter the next.
    pub fn new(enter: usize, leave: usize, exclusive: bool) -> Self {
        Self { enter, leave, exclusive }
    }

    /// Whether the row that leaves a window is not in it.
    #[cfg(test)]
    pub(super) fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Shows the windows over the rows `from..to`, before which the one from `open` on is open, as long as `go_on` says so.
    fn found(
        self,
        (from, to): (usize, usize),
        mut open: Option<usize>,
        enters: impl Fn(usize) -> bool,
        leaves: impl Fn(usize) -> bool,
        go_on: &mut dyn FnMut(Found) -> bool,
    ) {
        for row in from..to {
            let mut left = None;
            if self.exclusive && leaves(row) {
                left = open.take().map(|lo| (lo, row, Some(row)));
            }
            if open.is_none() && enters(row) {
                open = Some(row);
            }
            if !self.exclusive && leaves(row) {
                left = open.take().map(|lo| (lo, row + 1, Some(row)));
            }
            if left.is_some_and(|left| !go_on(left)) {
                return;
            }
        }
        if let Some(lo) = open {
            go_on((lo, to, None));
        }
    }
}

impl Rules for Between {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextFree)
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §4.4"
    }

    fn columns(&self) -> Vec<usize> {
        vec![self.enter, self.leave]
    }

    fn mark_columns(&self) -> Vec<usize> {
        self.columns()
    }

    fn is_numbered(&self) -> bool {
        true
    }

    fn identity(&self, _: (i64, i64), _: (i64, i64), number: i64) -> (i64, i64) {
        (number, 0)
    }

    fn may_vanish(&self) -> bool {
        // A late row that enters earlier may join two windows.
        true
    }

    fn reach(&self) -> i64 {
        0
    }

    fn accepts(&self) -> Accepts {
        Accepts::Since(0)
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }

    fn in_order(&self) -> Option<&dyn InOrder> {
        Some(self)
    }
}

impl InOrder for Between {
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut Edges) -> Result<()> {
        let [enters, leaves] = [0, 1].map(|column| Punctuation::marks(&rows.columns[column]));
        for (row, key, rank) in rows.each() {
            let position = positions.of(key);
            if self.exclusive && leaves.value(row) {
                edges.end(position, (key, rank), None);
            }
            if !position.is_open && enters.value(row) {
                edges.begin(position, row, rank);
            } else if !position.is_open && position.edge == rank {
                // It is in no window, and the row before it was in one.
                edges.cut(row);
            }
            if !self.exclusive && leaves.value(row) {
                edges.end(position, (key, rank + 1), None);
            }
        }
        Ok(())
    }
}

impl Runs for Between {
    fn runs(
        &self,
        view: &View<'_>,
        from: usize,
        last: Option<Run>,
        go_on: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()> {
        // A row has left it, unless that may still be to come.
        if last.is_some_and(|last| last.final_at.is_some() && !go_on(last)) {
            return Ok(());
        }
        let open = last.filter(|last| last.final_at.is_none()).map(|last| last.lo);
        let marked = |column: usize| move |row: usize| view.is_marked(column, row);
        let run = |(lo, hi, left): Found| Run {
            lo,
            hi,
            extent: (view.times[lo], view.times[hi - 1]),
            final_at: left.map(|row| view.times[row]),
        };
        let rows = (from, view.len());
        self.found(rows, open, marked(self.enter), marked(self.leave), &mut |found| go_on(run(found)));
        Ok(())
    }
}

impl ByRows for Between {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        let marks: Vec<BooleanBuffer> = rows.columns.iter().map(Punctuation::marks).collect();
        let marked = |column: usize| {
            let marks = &marks[column];
            move |row: usize| marks.value(row)
        };
        self.found((0, rows.times.len()), None, marked(0), marked(1), &mut |(lo, hi, _)| {
            out.push(Listed::by_rows(lo, hi, rows.times));
            true
        });
        Ok(())
    }

    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        runs::ready(self, view, memory, out)
    }

    fn is_cut_by_neighbours(&self) -> bool {
        true
    }

    /// Where a window probably begins or ends, as far as two rows tell: it need not be cut there later.
    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        let (enters, leaves) = (
            |place: usize| view.is_marked(self.enter, place),
            |place: usize| view.is_marked(self.leave, place),
        );
        let rises = |place: usize| place > 0 && leaves(place) && (!leaves(place - 1) || enters(place));
        let is_edge = |&place: &usize| {
            let begins = enters(place) && (!enters(place - 1) || leaves(place - 1) || leaves(place));
            begins || rises(if self.exclusive { place } else { place - 1 })
        };
        cuts.by_edge.extend((from.max(1)..view.len()).filter(is_edge));
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
