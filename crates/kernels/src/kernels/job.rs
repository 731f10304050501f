//! Windows over a column of native values, and which kernel computes which of them.
//!
//! SIMD kernels take runs of full windows at equal distances; everything else (windows that extend over an end of their
//! group, short groups, ranges found by time, integers of 128 bits) is computed as ranges by a [`Lift`].

use arrow_buffer::NullBuffer;

use super::choice::ROWS_PER_WINDOW;
use super::dense::{Dense, positions, ranks};
use super::edge::Edge;
use super::frames::Pause;
use super::panes::by_panes;
use super::recalculate::recalculate_each;
use super::subtract_on_evict::subtract_on_evict_each;
use super::two_stacks::two_stacks_each;
use super::{Algorithm, Frames, Ranges, Rolling};
use crate::algebra::{Lift, Place};
use crate::simd::{self, Column, Element, SumOverflow, Validity};

/// Windows over a column, and how they are answered.
pub(super) struct Job<'a> {
    pub frames: &'a Frames,
    pub algorithm: Option<Algorithm>,
    pub nulls: Option<&'a NullBuffer>,
    pub windows: usize,
    /// Row of the array that the column begins with.
    pub base: usize,
    /// If given, these windows instead of those of `frames`.
    pub edge: Option<Edge<'a>>,
    pub pause: &'a Pause,
}

/// Which window overflowed.
pub(super) type Overflown = usize;

impl Job<'_> {
    /// Rows of positions among values; null positions become 0.
    pub(super) fn rows_of(&self, found: Vec<usize>) -> Vec<u32> {
        match self.nulls {
            None => found.into_iter().map(|row| if row.is_nowhere() { 0 } else { row as u32 }).collect(),
            Some(nulls) => {
                let positions = positions(nulls);
                found.into_iter().map(|at| positions.get(at).copied().unwrap_or(0)).collect()
            }
        }
    }

    pub(super) fn never_overflown<T: Element, O: Copy>(
        &self,
        values: &[T],
        simd: impl Fn(Column<'_, T>, usize, usize, usize, &mut Vec<O>) -> std::result::Result<(), SumOverflow>,
        ranges: impl Fn(&Job<'_>, &[T], &mut Vec<O>) -> std::result::Result<(), Overflown>,
    ) -> Vec<O> {
        self.run(values, simd, ranges).expect("nothing is summed in a type that could overflow")
    }

    /// Computes windows by `simd` where they are full and begin at equal distances, by `ranges` otherwise.
    pub(super) fn run<T: Element, O: Copy>(
        &self,
        values: &[T],
        simd: impl Fn(Column<'_, T>, usize, usize, usize, &mut Vec<O>) -> std::result::Result<(), SumOverflow>,
        ranges: impl Fn(&Job<'_>, &[T], &mut Vec<O>) -> std::result::Result<(), Overflown>,
    ) -> std::result::Result<Vec<O>, Overflown> {
        let mut out = simd::room(self.windows);
        let by_simd = matches!(self.algorithm, Some(Algorithm::TwoStacksSimd | Algorithm::Tumbling));
        let (rolling, segments) = match self.frames {
            Frames::Rolling(rolling, segments) if by_simd => (rolling, segments),
            _ => {
                ranges(self, values, &mut out)?;
                return Ok(out);
            }
        };
        let bits = |from| self.nulls.map(|nulls| Validity::new(nulls.validity(), nulls.offset() + from));
        let (size, slide) = (rolling.size() as usize, rolling.slide() as usize);
        // Where a group has only a few full windows, a call for each group does not pay off.
        let narrow = segments.len() > 1 && 4 * segments.rows() < 5 * size.min(NARROW) * segments.len();
        let long = !narrow && segments.rows() >= LONG * segments.len();
        // For many short groups, all windows of neighbouring groups are computed and those that cross groups discarded:
        // at slide 1 the windows of one group are neighbours there, too.
        let crossing = !long && slide == 1 && segments.rows() >= 2 * size * segments.len();
        if !long && !crossing {
            ranges(self, values, &mut out)?;
            return Ok(out);
        }
        // A limited number of rows at a time, so that their results stay in the cache.
        let (mut group, mut whole) = (0, Vec::new());
        while let Some((from, mut to)) = segments.get(group) {
            let first = group;
            while let Some((_, end)) = segments.get(group)
                && (group == first || end - from <= NEIGHBOURS)
            {
                (group, to) = (group + 1, end);
            }
            if !crossing && group - first == 1 {
                self.edge(Edge::new(rolling, to - from, true), from, values, &ranges, &mut out)?;
                let done = out.len();
                let column = Column::new(&values[from..to], bits(from));
                simd(column, from, size, slide, &mut out).map_err(|overflow| done + overflow.window)?;
                self.edge(Edge::new(rolling, to - from, false), from, values, &ranges, &mut out)?;
                continue;
            }
            let groups = || (first..group).filter_map(|group| segments.get(group));
            whole.clear();
            if crossing
                && simd(Column::new(&values[from..to], bits(from)), from, size, 1, &mut whole).is_err()
            {
                // The sum of a window that is discarded need not fit.
                out.clear();
                ranges(self, values, &mut out)?;
                return Ok(out);
            }
            let starts = self.edges(true, rolling, groups(), values, &ranges)?;
            let ends = self.edges(false, rolling, groups(), values, &ranges)?;
            let (mut starts, mut ends) = (&starts[..], &ends[..]);
            for (begin, end) in groups() {
                let (before, full, after) = rolling.parts(end - begin);
                let (edge, rest) = starts.split_at(before);
                out.extend_from_slice(edge);
                starts = rest;
                if full > 0 && crossing {
                    out.extend_from_slice(&whole[begin - from..][..full]);
                } else if full > 0 {
                    let done = out.len();
                    let column = Column::new(&values[begin..end], bits(begin));
                    simd(column, begin, size, slide, &mut out).map_err(|overflow| done + overflow.window)?;
                }
                let (edge, rest) = ends.split_at(after);
                out.extend_from_slice(edge);
                ends = rest;
            }
        }
        Ok(out)
    }

    /// Computes, by `ranges`, the windows of one group that extend over an end of it; the group begins with row
    /// `begin`.
    fn edge<T: Element, O>(
        &self,
        edge: Option<Edge<'_>>,
        begin: usize,
        values: &[T],
        ranges: impl Fn(&Job<'_>, &[T], &mut Vec<O>) -> std::result::Result<(), Overflown>,
        out: &mut Vec<O>,
    ) -> std::result::Result<(), Overflown> {
        let Some(edge) = edge else { return Ok(()) };
        let (from, to) = edge.reach();
        let (from, to) = (begin + from, begin + to);
        let nulls =
            self.nulls.map(|nulls| nulls.slice(from, to - from)).filter(|nulls| nulls.null_count() > 0);
        let job = Job {
            frames: self.frames,
            algorithm: self.algorithm,
            nulls: nulls.as_ref(),
            windows: edge.len(),
            base: from,
            edge: Some(edge),
            pause: self.pause,
        };
        let done = out.len();
        ranges(&job, &values[from..to], out).map_err(|window| done + window)
    }

    /// Computes, by `ranges`, the windows that extend over the start of a group, or else over its end, several groups
    /// at once.
    fn edges<T: Element, O>(
        &self,
        at_start: bool,
        rolling: &Rolling,
        groups: impl Iterator<Item = (usize, usize)>,
        values: &[T],
        ranges: impl Fn(&Job<'_>, &[T], &mut Vec<O>) -> std::result::Result<(), Overflown>,
    ) -> std::result::Result<Vec<O>, Overflown> {
        let (mut edges, mut out) = (Ranges::default(), Vec::new());
        groups.for_each(|(from, to)| rolling.list_edge(from, to, at_start, &mut edges));
        let (Some((from, _)), Some((_, to))) = (edges.get(0), edges.get(edges.len().wrapping_sub(1))) else {
            return Ok(out);
        };
        // Windows of one group do not see the rows of the others.
        let nulls =
            self.nulls.map(|nulls| nulls.slice(from, to - from)).filter(|nulls| nulls.null_count() > 0);
        edges.rank_from(from as u32);
        let windows = edges.len();
        let (frames, algorithm) = (Frames::Listed(edges), Some(Algorithm::TwoStacksSimd));
        let (nulls, pause) = (nulls.as_ref(), self.pause);
        let job = Job { frames: &frames, algorithm, nulls, windows, base: from, edge: None, pause };
        ranges(&job, &values[from..to], &mut out).map_err(|window| {
            // Its number among all windows follows from its rows.
            let rows = frames.iter(None).nth(window).map(|(lo, hi)| (lo + from, hi + from));
            self.frames.iter(None).position(|other| Some(other) == rows).unwrap_or(0)
        })?;
        Ok(out)
    }

    /// `values` without nulls, each of them mapped.
    pub(super) fn dense<V: Copy, T: Copy>(&self, values: &[V], map: impl Fn(V) -> T) -> Dense<'static, T> {
        Dense::mapped(values, self.nulls, map)
    }

    /// Whether the bulk steps of a function are to be those of vectors.
    pub(super) fn vectors(&self) -> bool {
        self.edge.is_some()
            || !matches!(self.algorithm, Some(Algorithm::SubtractOnEvict | Algorithm::TwoStacks))
    }

    /// Passes the number of values and the partial of each window to `emit`.
    pub(super) fn each<T: Copy, F: Lift<T>>(
        &self,
        values: &[T],
        fold: &F,
        emit: impl FnMut(usize, F::State),
    ) {
        if let Some(edge) = &self.edge {
            return edge.each(values, self.nulls, fold, emit);
        }
        let ranks = self.nulls.map(ranks);
        let ranges = self.frames.iter(ranks.as_deref()).pausing(self.pause);
        match self.algorithm {
            Some(Algorithm::SubtractOnEvict) => subtract_on_evict_each(values, ranges, fold, emit),
            Some(Algorithm::TwoStacks) => two_stacks_each(values, ranges, fold, emit),
            Some(Algorithm::Recalculate | Algorithm::Tumbling) => {
                recalculate_each(values, ranges, fold, emit)
            }
            Some(Algorithm::TwoStacksSimd) if values.len() >= ROWS_PER_WINDOW * self.windows => {
                by_panes(values, &ranges, fold, emit);
            }
            _ => two_stacks_each(values, ranges, fold, emit),
        }
    }
}

/// Rows of neighbouring groups that are computed at once.
const NEIGHBOURS: usize = 1 << 13;

/// Rows of a window from which on a SIMD kernel pays off for a group that is hardly longer.
const NARROW: usize = 512;

/// Rows per group from which on a SIMD kernel is called for each.
const LONG: usize = 64;
