//! Where slices are cut, for a stream: the edges of all windows, listed in bulk ahead of the stream.
//!
//! | | |
//! |---|---|
//! | needs | families `{offset + k·period}` of edges, some of which begin at a first edge; timetables of local time |
//! | time | O(log f) per edge passed, of f families, by sorting about f edges at a time; O(log n) to find a slice among the n edges remembered; O(f) for a time far from them |
//! | space | 2^17 edges |
//! | first appeared | the cached next edge of Cutty (Carbone et al., CIKM 2016) and of general stream slicing (Traub et al. 2019, §5.3.1); listing ahead is ours |

use std::sync::Arc;

use super::Edges;
use super::edges::of_users;
use crate::window::{Known, Timetable};

/// Edges cached behind the current time.
const REMEMBERED: usize = 1 << 16;

/// With at most this many families, each is queried separately.
const FEW: usize = 3;

/// Edges listed at a time, besides one per family.
const AHEAD: usize = 64;

/// If a stream jumps over more stretches than this, the edges in between are not listed.
const STRETCHES: u64 = 8;

/// The slices of a timeline, found quickly near the current time.
#[derive(Debug, Clone)]
pub struct Calendar {
    families: Vec<Family>,
    /// Single edges, ascending.
    cuts: Vec<i64>,
    /// Windows that users define: as far as they are known, so that they are not listed ahead.
    users: Vec<(Arc<Known>, Option<i64>)>,
    bounds: (i64, i64),
    /// The next edge of each family after the cached ones.
    next: Vec<i64>,
    /// All edges from the first of these to the last of them, ascending.
    edges: Vec<i64>,
    /// The place of the edge that was found last: the next lookup is usually near it.
    found: usize,
    /// The slice that was found last: rows of other keys are often in the same.
    last: (i64, i64),
    /// How far ahead edges are listed.
    stretch: i64,
    /// Edges that are being sorted.
    unsorted: Vec<i64>,
}

/// Edges of one kind, possibly with a first one.
#[derive(Debug, Clone)]
enum Family {
    /// `offset + k·period`.
    Regular { period: i64, offset: i64, first: Option<i64> },
    /// The edges of a timetable after a time, if one is given.
    Timetable(Timetable, Option<i64>),
}

impl Family {
    /// The last edge at or before `t`, if there is one, and the next.
    #[inline]
    fn around(&self, t: i64) -> (Option<i64>, i64) {
        match self {
            Family::Regular { first: Some(first), .. } if t < *first => (None, *first),
            Family::Regular { first: Some(first), period, .. } => {
                // The distance fits 64 bits, though maybe not 63.
                let from = t - (t.wrapping_sub(*first) as u64 % *period as u64) as i64;
                (Some(from), from + period)
            }
            Family::Regular { first: None, period, offset } => {
                let from = t - (t - offset).rem_euclid(*period);
                (Some(from), from + period)
            }
            Family::Timetable(table, since) => table.around_since(*since, t),
        }
    }

    /// The edge after one of its own.
    fn after(&self, edge: i64) -> i64 {
        match self {
            Family::Regular { period, .. } => edge + period,
            Family::Timetable(table, since) => table.around_since(*since, edge).1,
        }
    }

    /// About how far its edges lie apart.
    fn distance(&self) -> i64 {
        match self {
            Family::Regular { period, .. } => *period,
            Family::Timetable(table, _) => table.distance(),
        }
    }
}

impl Calendar {
    /// A calendar of these edges and of more single ones, `cuts`.
    pub fn new(edges: &Edges, cuts: &[i64]) -> Self {
        Self::of(edges.families(), edges, cuts)
    }

    /// A calendar with a family for the gap of sessions: the rows of one slice are then never further apart than the gap.
    pub fn with_gap(edges: &Edges, cuts: &[i64]) -> Self {
        Self::of(&edges.families_with_gap(), edges, cuts)
    }

    fn of(families: &[(i64, i64)], edges: &Edges, cuts: &[i64]) -> Self {
        let mut cuts = [edges.points(), cuts].concat();
        cuts.sort_unstable();
        cuts.dedup();
        let whole = families.iter().map(|&(period, offset)| Family::Regular { period, offset, first: None });
        let rays = edges.rays().iter();
        let rays = rays.map(|&(period, first)| Family::Regular { period, offset: first, first: Some(first) });
        let tables = edges.timetables().iter();
        let tables = tables.map(|(table, since)| Family::Timetable(table.clone(), *since));
        let families: Vec<Family> = whole.chain(rays).chain(tables).collect();
        let density: f64 = families.iter().map(|family| 1.0 / family.distance() as f64).sum();
        Self {
            // As a float this may exceed int64, and the cast then saturates.
            stretch: ((families.len() + AHEAD) as f64 / density) as i64,
            families,
            cuts,
            users: edges.users().to_vec(),
            bounds: edges.bounds(),
            next: Vec::new(),
            edges: Vec::new(),
            found: 0,
            last: (0, 0),
            unsorted: Vec::new(),
        }
    }

    /// `[start, end)` of the slice that contains `t`, which is within [`Edges::bounds`]; where there is no edge before
    /// or after `t`, the slice ends at these bounds.
    #[inline]
    pub fn slice_of(&mut self, t: i64) -> (i64, i64) {
        if !(self.last.0..self.last.1).contains(&t) {
            self.last = self.look_up(t);
        }
        self.last
    }

    fn look_up(&mut self, t: i64) -> (i64, i64) {
        let (mut start, mut end) = self.between_families(t);
        let of_users = of_users(&self.users, t);
        (start, end) = (start.max(of_users.0), end.min(of_users.1));
        if !self.cuts.is_empty() {
            let after = self.cuts.partition_point(|&cut| cut <= t);
            start = after.checked_sub(1).map_or(start, |before| start.max(self.cuts[before]));
            end = self.cuts.get(after).map_or(end, |&cut| end.min(cut));
        }
        (start, end)
    }

    /// Writes all edges from the one at or before `from` to the one after `to` into `edges`, if there are at most
    /// `limit`; returns whether that is so. O(edges) near the current time.
    pub fn list(&mut self, from: i64, to: i64, limit: usize, edges: &mut Vec<i64>) -> bool {
        edges.clear();
        let (start, mut end) = self.slice_of(from);
        edges.push(start);
        if self.families.len() > FEW && self.cuts.is_empty() && self.users.is_empty() && end <= to {
            // Twice as many, as several families may have an edge at the same time.
            if self.stretches(end, to) > (2 * limit / (self.families.len() + AHEAD)) as u64 + 1 {
                return false;
            }
            self.list_past(to);
            if self.edges.first().is_some_and(|&first| first <= start) {
                self.between_families(from);
                let after = self.found + 1;
                let until = after + self.edges[after..].partition_point(|&edge| edge <= to);
                if until - after > limit {
                    return false;
                }
                edges.extend_from_slice(&self.edges[after..=until]);
                return true;
            }
        }
        while end <= to && edges.len() < limit {
            edges.push(end);
            end = self.slice_of(end).1;
        }
        edges.push(end);
        end > to
    }

    fn between_families(&mut self, t: i64) -> (i64, i64) {
        if self.families.len() <= FEW {
            return self.around(t);
        }
        if self.edges.last().is_none_or(|&last| t >= last) {
            self.reach(t);
        } else if t < self.edges[0] {
            return self.around(t);
        }
        // Slices are usually looked up one after the other.
        let near = self.edges.get(self.found..).unwrap_or_default();
        self.found = match near {
            [start, end, ..] if (*start..*end).contains(&t) => self.found,
            [_, start, end, ..] if (*start..*end).contains(&t) => self.found + 1,
            _ => self.edges.partition_point(|&edge| edge <= t) - 1,
        };
        (self.edges[self.found], self.edges[self.found + 1])
    }

    /// The slice of `t`, by querying all families.
    fn around(&self, t: i64) -> (i64, i64) {
        let (mut start, mut end) = (self.bounds.0, self.bounds.1 + 1);
        for family in &self.families {
            let (before, after) = family.around(t);
            start = before.map_or(start, |before| start.max(before));
            end = end.min(after);
        }
        (start, end)
    }

    /// Caches edges until one is after `t`, which is not before the last.
    fn reach(&mut self, t: i64) {
        if self.edges.last().is_none_or(|&last| self.stretches(last, t) > STRETCHES) {
            self.edges.clear();
            self.edges.push(self.around(t).0);
            self.next.clear();
            self.next.extend(self.families.iter().map(|family| family.around(t).1));
        }
        self.list_past(t);
    }

    /// How many stretches lie between two times.
    fn stretches(&self, from: i64, to: i64) -> u64 {
        (to.wrapping_sub(from) as u64) / (self.stretch.max(1) as u64)
    }

    /// Lists edges until one is after `t`, and some beyond it.
    fn list_past(&mut self, t: i64) {
        while self.edges.last().is_some_and(|&last| last <= t) {
            let least = self.next.iter().copied().min().unwrap_or(i64::MAX);
            let from = t.max(least);
            // Nothing is looked up beyond the bounds; arithmetic far outside them might overflow.
            let until = from.saturating_add(self.stretch).min(from.max(self.bounds.1));
            for (next, family) in self.next.iter_mut().zip(&self.families) {
                while *next <= until {
                    self.unsorted.push(*next);
                    *next = family.after(*next);
                }
            }
            self.unsorted.sort_unstable();
            self.unsorted.dedup();
            self.edges.append(&mut self.unsorted);
        }
        if self.edges.len() > 2 * REMEMBERED {
            let passed = self.edges.partition_point(|&edge| edge <= t);
            self.edges.drain(..passed.saturating_sub(REMEMBERED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Band, Landmark, LocalLandmark, Periods, Session, Sliding, Unit, Window};
    use proptest::prelude::*;

    proptest! {
        /// Wherever a stream jumps, slices are those between the nearest edges.
        #[test]
        fn slices_lie_between_the_nearest_edges(
            families in prop::collection::vec((1i64..40, 0i64..40), 0..8),
            rays in prop::collection::vec((1i64..40, -200i64..200), 0..3),
            bands in prop::collection::vec((-300i64..300, 1i64..90), 0..2),
            days in prop::collection::vec((1i64..6, 1i64..90), 0..3),
            gap in prop::option::of(1i64..40),
            times in prop::collection::vec(prop_oneof![-300i64..300, -20_000i64..20_000], 1..60),
            cuts in prop::collection::vec(-300i64..300, 0..3),
        ) {
            let tumbling = |&(size, offset): &(i64, i64)| Window::Sliding(Sliding::new(size, size, offset));
            let landmark = |&(every, start): &(i64, i64)| Window::Landmark(Landmark::at(every, start));
            let band = |&(start, size): &(i64, i64)| Window::Band(Band::new(start, start + size));
            // Days of seven units, of which some are cut.
            let table = |&(count, every): &(i64, i64)| {
                LocalLandmark::of_time(Periods::new(None, Unit::Days, count, 0, 3, 7), every)
            };
            let tables: Vec<LocalLandmark> = days.iter().map(table).collect();
            let windows: Vec<Window> = families.iter().map(tumbling)
                .chain(rays.iter().map(landmark))
                .chain(bands.iter().map(band))
                .chain(tables.iter().cloned().map(Window::LocalLandmark))
                .chain(gap.map(|gap| Window::Session(Session::new(gap))))
                .collect();
            let edges = Edges::of(&windows);
            let mut calendar = Calendar::with_gap(&edges, &cuts);
            let is_edge = |t: i64| cuts.contains(&t)
                || families.iter().chain(&gap.map(|gap| (gap, 0))).any(|&(p, o)| (t - o).rem_euclid(p) == 0)
                || tables.iter().any(|table| table.edges(t).0 == t)
                || rays.iter().any(|&(p, first)| t >= first && (t - first).rem_euclid(p) == 0)
                || bands.iter().any(|&(start, size)| t == start || t == start + size);
            for t in times {
                let (start, end) = calendar.slice_of(t);
                let reach = if families.is_empty() && days.is_empty() && gap.is_none() { 30_000 } else { 40 };
                let before = (t - reach..=t).rev().find(|&at| is_edge(at));
                let after = (t + 1..=t + reach).find(|&at| is_edge(at));
                let bounds = edges.bounds();
                prop_assert_eq!((start, end), (before.unwrap_or(bounds.0), after.unwrap_or(bounds.1 + 1)));
                let mut listed = Vec::new();
                if calendar.list(t, t + 50, 1000, &mut listed) {
                    let first = before.unwrap_or(bounds.0);
                    let inner = (t + 1..=t + 50).filter(|&at| is_edge(at));
                    let last = (t + 51..t + 51 + reach).find(|&at| is_edge(at)).unwrap_or(bounds.1 + 1);
                    prop_assert_eq!(listed, [first].into_iter().chain(inner).chain([last]).collect::<Vec<_>>());
                }
            }
        }
    }
}
