//! Where slices are cut: the union of all windows' edges, shared by every window of a query.

use crate::window::Window;

/// Families `{offset + k·period}` of slice edges, none contained in another.
///
/// With these edges, and no others, every context-free window is a whole number of slices (Traub et al. 2019,
/// §5.3.1: slices start where windows start and, as rows may be out of order, also where they end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edges {
    families: Vec<(i64, i64)>,
    gap: Option<i64>,
    /// Least and greatest time whose windows' edges stay within int64.
    bounds: (i64, i64),
}

impl Edges {
    /// The edges of these windows. Sessions cut no time line in advance: their gap bounds how far apart the rows of
    /// one slice may be.
    pub fn of(windows: &[Window]) -> Self {
        let edges = windows.iter().filter_map(|window| match window {
            Window::Sliding(sliding) => Some(sliding.edges()),
            Window::Session(_) => None,
        });
        let gaps = windows.iter().filter_map(|window| match window {
            Window::Session(session) => Some(session.gap()),
            Window::Sliding(_) => None,
        });
        let reach = windows.iter().map(Window::reach).max().unwrap_or(0);
        Self {
            families: without_contained(edges.flatten().collect()),
            gap: gaps.min(),
            bounds: (i64::MIN + 2 * reach, i64::MAX - 2 * reach),
        }
    }

    /// Periods and offsets of the families.
    pub fn families(&self) -> &[(i64, i64)] {
        &self.families
    }

    /// The least gap of all sessions: rows of one slice follow each other within it.
    pub fn gap(&self) -> Option<i64> {
        self.gap
    }

    /// Whether a fragment that ends at `last` takes a row (or fragment) that starts at `next`.
    #[inline]
    pub fn within_gap(&self, last: i64, next: i64) -> bool {
        self.gap.is_some_and(|gap| next <= last.saturating_add(gap))
    }

    /// Families for an engine that can only cut at fixed times: each session's gap becomes a period, because two
    /// rows in one pane as wide as the gap are always closer than the gap.
    pub fn panes(&self) -> Vec<(i64, i64)> {
        without_contained(self.families.iter().copied().chain(self.gap.map(|gap| (gap, 0))).collect())
    }

    /// Least and greatest time whose windows' edges stay within the range of int64.
    pub fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// `[start, end)` of the slice that `t`, within [`Edges::bounds`], lies in.
    #[inline]
    pub fn slice_of(&self, t: i64) -> (i64, i64) {
        let (mut start, mut end) = (i64::MIN, i64::MAX);
        for &(period, offset) in &self.families {
            let from = t - (t - offset).rem_euclid(period);
            start = start.max(from);
            end = end.min(from + period);
        }
        (start, end)
    }
}

/// Drops families whose every edge belongs to another one.
fn without_contained(mut families: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    families.sort_unstable();
    families.dedup();
    let contained = |(period, offset): (i64, i64), (p, o): (i64, i64)| {
        (p, o) != (period, offset) && period % p == 0 && (offset - o).rem_euclid(p) == 0
    };
    let all = families.clone();
    families.retain(|&family| !all.iter().any(|&other| contained(family, other)));
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Session, Sliding};
    use proptest::prelude::*;

    fn sliding(size: i64, slide: i64, offset: i64) -> Window {
        Window::Sliding(Sliding::new(size, slide, offset))
    }

    #[test]
    fn one_family_where_slide_divides_size() {
        assert_eq!(Edges::of(&[sliding(600, 10, 0), sliding(60, 60, 0)]).families(), [(10, 0)]);
        assert_eq!(Edges::of(&[sliding(10, 7, 0)]).families(), [(7, 0), (7, 3)]);
    }

    #[test]
    fn sessions_become_panes_only_where_asked() {
        let edges = Edges::of(&[
            Window::Session(Session::new(30)),
            Window::Session(Session::new(50)),
            sliding(60, 60, 0),
        ]);
        assert_eq!(edges.families(), [(60, 0)]);
        assert_eq!(edges.panes(), [(30, 0)]);
        assert_eq!(edges.gap(), Some(30));
    }

    proptest! {
        /// Slices are as few as can be: an edge is where some window starts or ends, and nowhere else.
        #[test]
        fn slice_edges_are_window_edges(
            specs in prop::collection::vec((1i64..30, 1i64..30, 0i64..30), 1..4), t in -200i64..200,
        ) {
            let windows: Vec<Window> = specs.iter().map(|&(a, b, o)| sliding(a.max(b), b, o)).collect();
            let is_edge = |t: i64| windows.iter().any(|window| match window {
                Window::Sliding(w) => (t - w.offset()).rem_euclid(w.slide()) == 0
                    || (t - w.offset() - w.size()).rem_euclid(w.slide()) == 0,
                Window::Session(_) => false,
            });
            let start = (-400..=t).rev().find(|&at| is_edge(at)).unwrap();
            let end = (t + 1..400).find(|&at| is_edge(at)).unwrap();
            prop_assert_eq!(Edges::of(&windows).slice_of(t), (start, end));
        }
    }
}
