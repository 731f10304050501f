//! Where slices are cut, for a stream: the next edge of all windows in O(log families), not O(families).
//!
//! | | |
//! |---|---|
//! | needs | families `{offset + k·period}` of edges |
//! | time | O(log f) per edge passed, of f families; O(log n) to find a slice among the n edges remembered; O(f) for a time far from them |
//! | space | 2^16 edges |
//! | first appeared | the cached next edge of Cutty (Carbone et al., CIKM 2016) and of general stream slicing (Traub et al. 2019, §5.3.1); the heap is ours |

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Edges remembered, at most.
const REMEMBERED: usize = 1 << 16;

/// So few families are asked one by one.
const FEW: usize = 3;

/// The slices of a time line, found fast where a stream is.
#[derive(Debug, Clone)]
pub struct Calendar {
    families: Vec<(i64, i64)>,
    /// Single edges, ascending.
    cuts: Vec<i64>,
    bounds: (i64, i64),
    /// The next edge of each family behind the last one remembered.
    next: BinaryHeap<Reverse<(i64, u32)>>,
    /// All edges from the first of these to the last of them, ascending.
    edges: VecDeque<i64>,
}

impl Calendar {
    /// A calendar of these families (period and offset) and single edges; `bounds` are the least and greatest time ever
    /// asked for, which lie at least two periods within int64.
    pub fn new(families: Vec<(i64, i64)>, mut cuts: Vec<i64>, bounds: (i64, i64)) -> Self {
        cuts.sort_unstable();
        cuts.dedup();
        Self { families, cuts, bounds, next: BinaryHeap::new(), edges: VecDeque::new() }
    }

    /// `[start, end)` of the slice that `t` lies in; without edges one slice holds all times.
    pub fn slice_of(&mut self, t: i64) -> (i64, i64) {
        let (mut start, mut end) = self.between_families(t);
        if !self.cuts.is_empty() {
            let after = self.cuts.partition_point(|&cut| cut <= t);
            start = after.checked_sub(1).map_or(start, |before| start.max(self.cuts[before]));
            end = self.cuts.get(after).map_or(end, |&cut| end.min(cut));
        }
        (start, end)
    }

    /// Writes all edges from the one at or before `from` to the one after `to` into `edges`, if they are at most `limit`;
    /// whether they are. O(edges), where a stream is.
    pub fn list(&mut self, from: i64, to: i64, limit: usize, edges: &mut Vec<i64>) -> bool {
        edges.clear();
        let (start, mut end) = self.slice_of(from);
        edges.push(start);
        if self.families.len() > FEW && self.cuts.is_empty() {
            self.slice_of(to);
            if self.edges.front().is_some_and(|&first| first <= start) {
                let after = self.edges.partition_point(|&edge| edge <= start);
                let until = self.edges.partition_point(|&edge| edge <= to);
                if until - after > limit {
                    return false;
                }
                edges.extend(self.edges.range(after..=until));
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
            return self.asked(t);
        }
        if self.edges.back().is_none_or(|&last| t >= last) {
            self.reach(t);
        } else if t < self.edges[0] {
            return self.asked(t);
        }
        let after = self.edges.partition_point(|&edge| edge <= t);
        (self.edges[after - 1], self.edges[after])
    }

    /// The slice of `t` by asking all families.
    fn asked(&self, t: i64) -> (i64, i64) {
        let (mut start, mut end) = (self.bounds.0, self.bounds.1 + 1);
        for &(period, offset) in &self.families {
            let from = t - (t - offset).rem_euclid(period);
            start = start.max(from);
            end = end.min(from + period);
        }
        (start, end)
    }

    /// Remembers edges until one is behind `t`.
    fn reach(&mut self, t: i64) {
        // Step by step while that is cheaper than to begin anew; a stream that jumps over years does not count days.
        let mut steps = 2 * self.families.len() + 64;
        while steps > 0 && self.edges.back().is_some_and(|&last| last <= t) {
            self.step();
            steps -= 1;
        }
        if self.edges.back().is_none_or(|&last| last <= t) {
            let start = self.asked(t).0;
            self.edges.clear();
            self.edges.push_back(start);
            let first = |(family, &(period, offset)): (usize, &(i64, i64))| {
                Reverse((t - (t - offset).rem_euclid(period) + period, family as u32))
            };
            self.next = self.families.iter().enumerate().map(first).collect();
            self.step();
        }
        if self.edges.len() > REMEMBERED {
            self.edges.drain(..REMEMBERED / 2);
        }
    }

    /// Remembers the next edge.
    fn step(&mut self) {
        let Some(&Reverse((edge, _))) = self.next.peek() else { return };
        while let Some(mut head) = self.next.peek_mut() {
            let Reverse((at, family)) = *head;
            if at != edge {
                break;
            }
            *head = Reverse((at + self.families[family as usize].0, family));
        }
        self.edges.push_back(edge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Wherever a stream goes, slices are those between the nearest edges.
        #[test]
        fn slices_lie_between_the_nearest_edges(
            families in prop::collection::vec((1i64..40, 0i64..40), 0..8),
            times in prop::collection::vec(prop_oneof![-300i64..300, -20_000i64..20_000], 1..60),
            cuts in prop::collection::vec(-300i64..300, 0..3),
        ) {
            let families: Vec<(i64, i64)> = families.into_iter().map(|(p, o)| (p, o % p)).collect();
            let bounds = (-1_000_000, 1_000_000);
            let mut calendar = Calendar::new(families.clone(), cuts.clone(), bounds);
            let is_edge = |t: i64| cuts.contains(&t) || families.iter().any(|&(p, o)| (t - o).rem_euclid(p) == 0);
            for t in times {
                let (start, end) = calendar.slice_of(t);
                let reach = if families.is_empty() { 30_000 } else { 40 };
                let before = (t - reach..=t).rev().find(|&at| is_edge(at));
                let after = (t + 1..=t + reach).find(|&at| is_edge(at));
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
