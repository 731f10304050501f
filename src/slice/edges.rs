//! Where slices are cut: the union of all windows' edges, shared by every window of a query.

use std::sync::Arc;

use crate::Result;
use crate::window::{Cuts, Known, Timetable, Window};

/// Families `{offset + k·period}` of slice edges, none contained in another.
///
/// With these edges, and no others, every context-free window is a whole number of slices (Traub et al. 2019,
/// §5.3.1: slices start where windows start and, as rows may be out of order, also where they end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edges {
    families: Vec<(i64, i64)>,
    /// Families `{from + k·period}` for k >= 0 only, as (period, from).
    rays: Vec<(i64, i64)>,
    /// Edges of calendars, those after a time if one is given.
    timetables: Vec<(Timetable, Option<i64>)>,
    /// Windows of users, after a time if one is given.
    users: Vec<(Arc<Known>, Option<i64>)>,
    /// Single edges, ascending.
    points: Vec<i64>,
    /// Gaps of sessions, and the time from which on each matters.
    gaps: Vec<(Option<i64>, i64)>,
    /// The least of them.
    gap: Option<i64>,
    /// Least and greatest time whose windows' edges stay within int64.
    bounds: (i64, i64),
}

impl Edges {
    /// The edges of these windows. Sessions do not cut slices in advance: their gap limits how far apart the rows of
    /// one slice may be. Windows that need rows have no edges before there are rows.
    pub fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Self {
        Self::since(windows.into_iter().map(|window| (window, None)))
    }

    /// The edges of windows some of which only exist after a given time: before it they have no edges.
    pub fn since<'a>(windows: impl IntoIterator<Item = (&'a Window, Option<i64>)>) -> Self {
        let (mut cuts, mut reach) = (Cuts::default(), 0);
        for (window, since) in windows {
            reach = reach.max(window.reach());
            if let Some(window) = window.by_time() {
                window.cut(since, &mut cuts);
            }
        }
        let Cuts { families, mut rays, timetables: cut, users, mut points, gaps } = cuts;
        // At least 1, so that the end of the last slice is still a valid time.
        let reach = reach.max(1);
        let families = without_contained(families);
        let of_ray = |at: i64, (period, from): (i64, i64)| {
            from <= at && (at.wrapping_sub(from) as u64).is_multiple_of(period as u64)
        };
        let of_family = |at: i64, (period, offset): (i64, i64)| (at - offset) % period == 0;
        rays.sort_unstable();
        rays.dedup();
        let all = rays.clone();
        rays.retain(|&(period, from)| {
            !families.iter().any(|&family| period % family.0 == 0 && of_family(from, family))
                && !all
                    .iter()
                    .any(|&other| other != (period, from) && period % other.0 == 0 && of_ray(from, other))
        });
        let mut timetables: Vec<(Timetable, Option<i64>)> = Vec::new();
        for (table, since) in cut {
            // None is before any time.
            match timetables.iter_mut().find(|(other, _)| *other == table) {
                Some((_, earlier)) => *earlier = (*earlier).min(since),
                None => timetables.push((table, since)),
            }
        }
        points.sort_unstable();
        points.dedup();
        points.retain(|&point| {
            !families.iter().any(|&family| of_family(point, family))
                && !rays.iter().any(|&ray| of_ray(point, ray))
        });
        let gap = gaps.iter().map(|&(_, gap)| gap).min();
        let bounds = (i64::MIN + 2 * reach, i64::MAX - 2 * reach);
        Self { families, rays, timetables, users, points, gaps, gap, bounds }
    }

    /// Periods and offsets of the families.
    pub fn families(&self) -> &[(i64, i64)] {
        &self.families
    }

    /// Periods and first edges of the families that have a first edge.
    pub fn rays(&self) -> &[(i64, i64)] {
        &self.rays
    }

    /// Calendars whose edges are edges, after a time if one is given.
    pub fn timetables(&self) -> &[(Timetable, Option<i64>)] {
        &self.timetables
    }

    /// Windows that users define, whose edges after a time, if one is given, are edges.
    pub fn users(&self) -> &[(Arc<Known>, Option<i64>)] {
        &self.users
    }

    /// Finds the edges near these times that users define: they are then known.
    ///
    /// # Errors
    /// What a user's code raises.
    pub fn look_up(&self, times: &[i64]) -> Result<()> {
        self.users.iter().try_for_each(|(known, _)| known.look_up(times))
    }

    /// Edges that belong to no family, ascending.
    pub fn points(&self) -> &[i64] {
        &self.points
    }

    /// The least gap of all sessions: consecutive rows of one slice lie within it. `i64::MAX` if rows may be any
    /// distance apart.
    pub fn gap(&self) -> Option<i64> {
        self.gap
    }

    /// The least gap of the sessions that exist at `t`.
    pub fn gap_at(&self, t: i64) -> Option<i64> {
        let gaps = self.gaps.iter().filter(|(since, _)| since.is_none_or(|since| t > since));
        gaps.map(|&(_, gap)| gap).min()
    }

    /// Whether a fragment that ends at `last` accepts a row (or fragment) that starts at `next`.
    #[inline]
    pub fn within_gap(&self, last: i64, next: i64) -> bool {
        self.gap.is_some_and(|gap| next.saturating_sub(last) <= gap)
    }

    /// Families for an engine that can only cut at fixed times, if there are no other edges: each session's gap becomes
    /// a period, because two rows in one pane as wide as the gap are always closer than the gap.
    pub fn panes(&self) -> Option<Vec<(i64, i64)>> {
        (self.have_starts() && self.timetables.is_empty()).then(|| self.families_with_gap())
    }

    /// Whether every slice has a start, as there is an edge before any time.
    pub fn have_starts(&self) -> bool {
        self.rays.is_empty() && self.points.is_empty() && self.users.is_empty() && self.gap != Some(i64::MAX)
    }

    /// Families, including one as wide as the gap if there is a gap.
    pub fn families_with_gap(&self) -> Vec<(i64, i64)> {
        let gap = self.gap.filter(|&gap| gap != i64::MAX).map(|gap| (gap, 0));
        without_contained(self.families.iter().copied().chain(gap).collect())
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
        for &(period, first) in &self.rays {
            if t < first {
                end = end.min(first);
                continue;
            }
            // The distance fits 64 bits, though maybe not 63.
            let from = t - (t.wrapping_sub(first) as u64 % period as u64) as i64;
            start = start.max(from);
            end = end.min(from + period);
        }
        for (table, since) in &self.timetables {
            let (from, to) = table.around_since(*since, t);
            start = from.map_or(start, |from| start.max(from));
            end = end.min(to);
        }
        let of_users = of_users(&self.users, t);
        (start, end) = (start.max(of_users.0), end.min(of_users.1));
        if !self.points.is_empty() {
            let later = self.points.partition_point(|&point| point <= t);
            start = self.points[..later].last().map_or(start, |&point| start.max(point));
            end = self.points[later..].first().map_or(end, |&point| end.min(point));
        }
        (start, end)
    }
}

/// `[start, end)` of the slice of `t` if only windows that users define cut it.
pub(super) fn of_users(users: &[(Arc<Known>, Option<i64>)], t: i64) -> (i64, i64) {
    let slice_of =
        |(known, since): &(Arc<Known>, Option<i64>)| match since.map(|since| since.saturating_add(1)) {
            // Nothing was looked up of rows before.
            Some(from) if t < from => (i64::MIN, from),
            Some(from) => {
                let (start, end) = known.slice_of(t);
                (start.max(from), end)
            }
            None => known.slice_of(t),
        };
    users.iter().map(slice_of).fold((i64::MIN, i64::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1)))
}

/// Drops families all of whose edges belong to another one. Each of n periods p is tried with its multiples among those
/// up to the greatest, P: O(min(n, P/p) log n).
fn without_contained(mut families: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    families.iter_mut().for_each(|(period, offset)| *offset = offset.rem_euclid(*period));
    families.sort_unstable();
    families.dedup();
    let mut contained = vec![false; families.len()];
    let mut from = 0;
    for own in families.chunk_by(|a, b| a.0 == b.0) {
        let (period, mut next) = (own[0].0, from + own.len());
        while let Some(&(other, offset)) = families.get(next) {
            let beyond = other % period;
            if beyond == 0 {
                let has_offset = own.binary_search_by_key(&(offset % period), |family| family.1).is_ok();
                contained[next] |= has_offset;
                next += 1;
            } else {
                // Continue with the next multiple.
                let behind = |family: &(i64, i64)| family.0 - other < period - beyond;
                next += families[next..].partition_point(behind);
            }
        }
        from += own.len();
    }
    let mut contained = contained.into_iter();
    families.retain(|_| contained.next() == Some(false));
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Band, Global, Landmark, Local, LocalLandmark, Periods, Session, Sliding, Unit};
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
        assert_eq!(edges.panes().unwrap(), [(30, 0)]);
        assert_eq!(edges.gap(), Some(30));
    }

    #[test]
    fn edges_that_others_have_are_dropped() {
        let edges = Edges::of(&[
            sliding(10, 10, 0),
            Window::Landmark(Landmark::at(20, -40)),
            Window::Landmark(Landmark::at(15, 5)),
            Window::Landmark(Landmark::at(30, 20)),
            Window::Band(Band::new(30, 35)),
            Window::Band(Band::new(7, 80)),
        ]);
        assert_eq!(
            (edges.families(), edges.rays(), edges.points()),
            (&[(10, 0)][..], &[(15, 5)][..], &[7][..])
        );
        assert_eq!(edges.panes(), None);
        assert_eq!(Edges::of(&[Window::Global(Global)]).slice_of(3), (i64::MIN, i64::MAX));
    }

    proptest! {
        /// A family is dropped if and only if all its edges belong to another, as the edges within one common period
        /// show.
        #[test]
        fn contained_families_are_dropped(families in prop::collection::vec((1i64..9, 0i64..40), 0..12)) {
            let edges = |&(period, offset): &(i64, i64)| -> Vec<bool> {
                (0..840).map(|t: i64| (t - offset).rem_euclid(period) == 0).collect()
            };
            let within = |own: &[bool], other: &[bool]| own.iter().zip(other).all(|(own, other)| own <= other);
            let kept: Vec<Vec<bool>> = without_contained(families.clone()).iter().map(edges).collect();
            for family in &families {
                prop_assert!(kept.iter().any(|other| within(&edges(family), other)));
            }
            for (at, own) in kept.iter().enumerate() {
                prop_assert!(kept.iter().enumerate().all(|(other, edges)| other == at || !within(own, edges)));
            }
        }
    }

    /// Days of seven units.
    fn days() -> Periods {
        Periods::new(None, Unit::Days, 1, 0, 2, 7)
    }

    fn any_window() -> impl Strategy<Value = Window> {
        let (length, offset) = (1i64..30, -30i64..30);
        prop_oneof![
            (length.clone(), length.clone(), offset.clone()).prop_map(|(a, b, o)| sliding(a.max(b), b, o)),
            (offset.clone(), length.clone())
                .prop_map(|(start, size)| Window::Band(Band::new(start, start + size))),
            (length.clone(), offset.clone())
                .prop_map(|(every, start)| Window::Landmark(Landmark::at(every, start))),
            (length.clone(), length.clone(), offset.clone())
                .prop_map(|(a, b, phase)| { Window::Local(Local::new(&days(), a.max(b), b, phase)) }),
            (length.clone(), length.clone()).prop_map(|(every, n)| {
                Window::LocalLandmark(LocalLandmark::of_time(days().of(n, 0), every))
            }),
            (length, 1i64..4, offset).prop_map(|(every, n, offset)| Window::Landmark(Landmark::each(
                every,
                every * n,
                offset
            ))),
        ]
    }

    proptest! {
        /// There are as few slices as possible: an edge is where some window starts or ends, and nowhere else.
        #[test]
        fn slice_edges_are_window_edges(
            windows in prop::collection::vec(any_window(), 1..4), t in -200i64..200,
        ) {
            let is_edge = |t: i64| windows.iter().any(|window| match window {
                Window::Sliding(w) => (t - w.offset()).rem_euclid(w.slide()) == 0
                    || (t - w.offset() - w.size()).rem_euclid(w.slide()) == 0,
                Window::Band(w) => t == w.extent().0 || t == w.extent().1,
                Window::Landmark(w) => {
                    let (every, offset) = w.edges();
                    (t - offset).rem_euclid(every) == 0 && w.first().is_none_or(|first| first <= t)
                }
                Window::Local(w) => (-90..90).filter_map(|at| w.extent(at)).any(|(from, to)| t == from || t == to),
                Window::LocalLandmark(w) => w.edges(t).0 == t,
                _ => unreachable!("`any_window` does not make it"),
            });
            let start = (-400..=t).rev().find(|&at| is_edge(at)).unwrap_or(i64::MIN);
            let end = (t + 1..400).find(|&at| is_edge(at)).unwrap_or(i64::MAX);
            prop_assert_eq!(Edges::of(&windows).slice_of(t), (start, end));
        }
    }
}
