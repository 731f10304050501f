//! Windows between punctuations: marked rows end, or begin, runs of rows.
//!
//! | | |
//! |---|---|
//! | class | forward context free: the rows up to an edge tell it |
//! | stored | rows in order; in an ordered stream slices only |
//! | time | O(1) per row |
//! | source | Traub et al. 2019, §4.4 (after Li et al., 2008: forward context free) |

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray};
use arrow_buffer::BooleanBuffer;

use super::listing::Listed;

/// Where in a window the marked row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is the first row.
    Start,
    /// It is the last row.
    End,
}

/// Maximal runs of a key's rows that begin, or end, with a marked row.
///
/// Rows before the first mark, or after the last, are a window too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Punctuation {
    column: usize,
    mark: Mark,
}

impl Punctuation {
    /// Windows told by the boolean column at this position.
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

    /// The rows that a column marks: a null marks none.
    pub fn marks(column: &ArrayRef) -> BooleanBuffer {
        let column: &BooleanArray = column.as_boolean();
        match column.nulls() {
            Some(nulls) => column.values() & nulls.inner(),
            None => column.values().clone(),
        }
    }

    /// Lists the windows with a row of rank `since` or after. O(rows of these windows).
    pub fn list(&self, times: &[i64], marks: &BooleanBuffer, since: usize, out: &mut Vec<Listed>) {
        let rows = times.len();
        if since >= rows {
            return;
        }
        // A mark at the start parts its row from the one before, a mark at the end from the one after.
        let shift = usize::from(self.mark == Mark::End);
        let mut before = 0..since + 1 - shift;
        let mut lo = before.rfind(|&row| marks.value(row)).map_or(0, |row| row + shift);
        let (from, later) = (lo, marks.slice(lo, rows - lo));
        for edge in later.set_indices().map(|at| from + at + shift) {
            if lo < edge {
                out.push(Listed::by_rows(lo, edge, times));
                lo = edge;
            }
        }
        if lo < rows {
            out.push(Listed::by_rows(lo, rows, times));
        }
    }
}
