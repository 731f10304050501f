//! The windows that extend over one end of their group: prefixes or suffixes of it, all answered by one scan.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; ranges that all begin with the first row, or all end with the last |
//! | time | one `combine` per value; windows cost nothing besides their answers |
//! | space | none for prefixes; a partial per value for suffixes, as windows are answered in order |
//! | first appeared | the two halves of a flip, see `two_stacks` |

use arrow_buffer::NullBuffer;

use super::Rolling;
use crate::algebra::Lift;

/// Windows that extend over the start of a group of rows, or else over its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge<'a> {
    rolling: &'a Rolling,
    /// Rows of the group.
    rows: usize,
    at_start: bool,
    /// Number of the first of the windows, and the one after the last.
    windows: (usize, usize),
}

impl<'a> Edge<'a> {
    /// `None` if no window does.
    pub fn new(rolling: &'a Rolling, rows: usize, at_start: bool) -> Option<Self> {
        let (before, full, after) = rolling.parts(rows);
        let windows = if at_start { (0, before) } else { (before + full, before + full + after) };
        (windows.0 < windows.1).then_some(Self { rolling, rows, at_start, windows })
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.windows.1 - self.windows.0
    }

    /// First row that a window holds, and the one after the last; counted from the group's first.
    pub fn reach(&self) -> (usize, usize) {
        let longest = if self.at_start { self.windows.1 - 1 } else { self.windows.0 };
        let rows = self.rolling.length(self.rows, longest);
        if self.at_start { (0, rows) } else { (self.rows - rows, self.rows) }
    }

    /// Passes the number of values and the partial of each window to `emit`. `values` are those of [`Edge::reach`] that
    /// are not null, and `nulls` says which are.
    pub fn each<T: Copy, F: Lift<T>>(
        &self,
        values: &[T],
        nulls: Option<&NullBuffer>,
        fold: &F,
        mut emit: impl FnMut(usize, F::State),
    ) {
        let valid = |from: usize, to: usize| match nulls {
            None => to - from,
            Some(nulls) => (from..to).filter(|&row| nulls.is_valid(row)).count(),
        };
        let lengths = (self.windows.0..self.windows.1).map(|window| self.rolling.length(self.rows, window));
        if self.at_start {
            let (mut state, mut row, mut taken) = (fold.identity(), 0, 0);
            for length in lengths {
                let more = valid(row, length);
                state = match more {
                    0 => state,
                    1 => fold.combine(state, fold.lift(taken, values[taken])),
                    _ => fold.combine(state, fold.reduce(taken, &values[taken..taken + more])),
                };
                (row, taken) = (length, taken + more);
                emit(taken, state);
            }
            return;
        }
        let mut suffixes = Vec::new();
        fold.flip(0, values, &mut suffixes);
        let (from, to) = self.reach();
        let (mut row, mut gone) = (0, 0);
        for length in lengths {
            let start = to - from - length;
            gone += valid(row, start);
            row = start;
            emit(values.len() - gone, suffixes.get(gone).copied().unwrap_or(fold.identity()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frames, Segments};
    use super::*;
    use crate::algebra::{End, Place};
    use proptest::prelude::*;

    proptest! {
        /// First and last values, which do not commute, of the windows listed by the definition.
        #[test]
        fn edges_are_the_first_and_the_last_windows(
            size in 1i64..30, slide in 1i64..9, over: (bool, bool), valid in prop::collection::vec(any::<bool>(), 1..40),
        ) {
            let rolling = Rolling::new(size, slide, over.0, over.1).unwrap();
            let rows = valid.len();
            let (before, full, _) = rolling.parts(rows);
            let all: Vec<_> = Frames::Rolling(rolling, Segments::whole(rows)).iter(None).collect();
            for at_start in [true, false] {
                let listed = if at_start { &all[..before] } else { &all[before + full..] };
                let Some(edge) = Edge::new(&rolling, rows, at_start) else {
                    prop_assert!(listed.is_empty());
                    continue;
                };
                let (from, to) = edge.reach();
                let nulls = NullBuffer::from(valid[from..to].to_vec());
                let values = vec![(); to - from - nulls.null_count()];
                let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
                edge.each(&values, Some(&nulls), &End::new(false), |count, first| firsts.push((count, first)));
                edge.each(&values, Some(&nulls), &End::new(true), |_, last| lasts.push(last));
                prop_assert_eq!(edge.len(), listed.len());
                let rank = |row: usize| valid[from..row].iter().filter(|&&valid| valid).count();
                for (at, &(lo, hi)) in listed.iter().enumerate() {
                    let (lo, hi) = (rank(lo), rank(hi));
                    let (first, last) = if lo < hi { (lo, hi - 1) } else { (usize::nowhere(), usize::nowhere()) };
                    prop_assert_eq!((firsts[at], lasts[at]), ((hi - lo, first), last));
                }
            }
        }
    }
}
