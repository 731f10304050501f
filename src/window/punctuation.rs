//! Windows between punctuations: marked rows end, or begin, runs of rows.
//!
//! | | |
//! |---|---|
//! | class | forward context free: an edge is determined by the rows up to it |
//! | stored | rows in order; in an ordered stream slices only |
//! | time | O(1) per row |
//! | source | Traub et al. 2019, §4.4 (after Li et al., 2008: forward context free) |

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::in_order::{Edges, OfKeys, OrderedRows};
use super::memory::Memory;
use super::rules::{Accepts, ByRows, InOrder, Rules};
use super::runs::{self, Run, Runs};
use super::spans::Listed;
use super::view::{KeyRows, Ready, RowCuts, View, earlier};
use crate::Result;

/// Where in a window the marked row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mark {
    /// It is the first row.
    Start,
    /// It is the last row.
    End,
}

/// Maximal runs of a key's rows that begin, or end, with a marked row.
///
/// Rows before the first mark, or after the last, form a window too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Punctuation {
    column: usize,
    mark: Mark,
}

impl Punctuation {
    /// Windows bounded by the marks in the boolean column at this position.
    pub fn new(column: usize, mark: Mark) -> Self {
        Self { column, mark }
    }

    /// Position of the column that marks rows.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Where in a window the marked row is.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The rows that a column marks; a null does not mark a row, nor does a column of nothing but nulls.
    pub fn marks(column: &ArrayRef) -> BooleanBuffer {
        let Some(column) = column.as_boolean_opt() else { return BooleanBuffer::new_unset(column.len()) };
        match column.nulls() {
            Some(nulls) => column.values() & nulls.inner(),
            None => column.values().clone(),
        }
    }

    /// Whether there is a cut before the row at this place, or after the last; returns the time of the first mark that
    /// cuts.
    fn cut_before(&self, view: &View<'_>, place: usize) -> Option<i64> {
        let marked = match self.mark {
            Mark::End => place - 1,
            Mark::Start => place,
        };
        let mark = view.is_marked(self.column, marked).then(|| view.times.get(marked).copied()).flatten();
        if view.points.is_empty() {
            return mark;
        }
        let before = (view.times[place - 1], view.ats[place - 1]);
        let after = (place < view.len()).then(|| (view.times[place], view.ats[place]));
        // A row with the same time that arrived earlier precedes it.
        let from = view.points.partition_point(|point| (point.time, point.at) <= before);
        let point = view.points[from..]
            .iter()
            .take_while(|point| after.is_none_or(|after| (point.time, point.at) <= after))
            .find(|point| point.key.is_none_or(|key| key == view.key))
            .map(|point| point.time);
        earlier(mark, point)
    }
}

impl Rules for Punctuation {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextFree)
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §4.4"
    }

    fn columns(&self) -> Vec<usize> {
        vec![self.column]
    }

    fn is_numbered(&self) -> bool {
        true
    }

    fn identity(&self, _: (i64, i64), _: (i64, i64), number: i64) -> (i64, i64) {
        (number, 0)
    }

    fn mark_columns(&self) -> Vec<usize> {
        vec![self.column]
    }

    fn is_punctuated(&self) -> bool {
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

impl InOrder for Punctuation {
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut Edges) -> Result<()> {
        let marks = Self::marks(&rows.columns[0]);
        for (row, key, rank) in rows.each() {
            let position = positions.of(key);
            if self.mark == Mark::Start && marks.value(row) {
                edges.end(position, (key, rank), None);
            }
            if !position.is_open {
                edges.begin(position, row, rank);
            }
            if self.mark == Mark::End && marks.value(row) {
                edges.end(position, (key, rank + 1), None);
            }
        }
        Ok(())
    }
}

impl Runs for Punctuation {
    fn runs(
        &self,
        view: &View<'_>,
        from: usize,
        last: Option<Run>,
        go_on: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()> {
        let mut lo = last.map_or(from, |last| last.lo);
        for hi in from.max(lo + 1)..=view.len() {
            let closed = self.cut_before(view, hi);
            if closed.is_some() || hi == view.len() {
                let extent = (view.times[lo], view.times[hi - 1]);
                if !go_on(Run { lo, hi, extent, final_at: closed }) {
                    break;
                }
                lo = hi;
            }
        }
        Ok(())
    }
}

impl ByRows for Punctuation {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        // A mark at the start separates its row from the one before, a mark at the end from the one after.
        let shift = usize::from(self.mark == Mark::End);
        let edges = Self::marks(&rows.columns[0]);
        let edges = edges.set_indices().map(|at| at + shift).chain([rows.times.len()]);
        let mut lo = 0;
        for edge in edges.filter(|&edge| edge > 0) {
            if lo < edge {
                out.push(Listed::by_rows(lo, edge, rows.times));
                lo = edge;
            }
        }
        Ok(())
    }

    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        runs::ready(self, view, memory, out)
    }

    fn is_cut_by_neighbours(&self) -> bool {
        true
    }

    fn cut(&self, view: &View<'_>, from: usize, cuts: &mut RowCuts) {
        let places = from.max(1)..view.len();
        cuts.by_edge.extend(places.filter(|&place| self.cut_before(view, place).is_some()));
    }

    fn needed(&self, view: &View<'_>, memory: &Memory) -> usize {
        runs::needed(self, view, memory)
    }

    /// Windows begin at a mark.
    fn is_sound(&self, view: &View<'_>, memory: &Memory) -> bool {
        let first = memory.first(view);
        (first == 0 || self.cut_before(view, first).is_some()) && runs::is_sound(self, view, memory)
    }
}
