//! Any ranges of a column of partials: each by the algorithm that suits them.

use super::{Ranges, recalculate, subtract_on_evict, two_stacks};
use crate::algebra::Monoid;

/// Computes each range: separately if they do not overlap, else by the inverse if there is one, else by Two-Stacks.
pub fn over_ranges<M: Monoid>(column: &[M::State], ranges: &Ranges, monoid: &M) -> Vec<M::State> {
    if !ranges.overlap() {
        recalculate(column, ranges, monoid)
    } else if monoid.inverts() {
        subtract_on_evict(column, ranges, monoid)
    } else {
        two_stacks(column, ranges, monoid)
    }
}

/// Computes ranges in any order: where that takes fewer combinations than visiting each range's entries, from
/// running totals if there is an inverse, else from a tree over the column (FlatFAT: Tangwongsan et al., VLDB 2015).
pub fn over_any_ranges<M: Monoid>(column: &[M::State], ranges: &[(u32, u32)], monoid: &M) -> Vec<M::State> {
    let combine = |a, b| monoid.combine(a, b);
    let each: usize = ranges.iter().map(|&(lo, hi)| (hi - lo) as usize).sum();
    let height = (usize::BITS - column.len().leading_zeros()) as usize;
    let steps = if monoid.inverts() { 1 } else { 2 * height };
    if each <= column.len() + steps * ranges.len() {
        let range = |&(lo, hi): &(u32, u32)| column[lo as usize..hi as usize].iter().copied().reduce(combine);
        return ranges.iter().map(|each| range(each).unwrap_or(monoid.identity())).collect();
    }
    if monoid.inverts() {
        let mut totals = Vec::with_capacity(column.len() + 1);
        totals.push(monoid.identity());
        totals.extend(column.iter().scan(monoid.identity(), |total, &state| {
            *total = combine(*total, state);
            Some(*total)
        }));
        return ranges
            .iter()
            .map(|&(lo, hi)| monoid.invert(totals[hi as usize], totals[lo as usize]))
            .collect();
    }
    let tree = tree(column, monoid);
    ranges.iter().map(|&(lo, hi)| within(&tree, lo, hi, monoid)).collect()
}

/// A complete binary tree over `states`, which are its last level, filled up with identities; node 1 is the root, and the
/// children of node i are 2i and 2i + 1.
fn tree<M: Monoid>(states: &[M::State], monoid: &M) -> Vec<M::State> {
    let leaves = states.len().next_power_of_two();
    let mut tree = vec![monoid.identity(); 2 * leaves];
    tree[leaves..leaves + states.len()].copy_from_slice(states);
    for node in (1..leaves).rev() {
        tree[node] = monoid.combine(tree[2 * node], tree[2 * node + 1]);
    }
    tree
}

/// The aggregate of leaves `lo..hi` of a [`tree`].
fn within<M: Monoid>(tree: &[M::State], lo: u32, hi: u32, monoid: &M) -> M::State {
    let leaves = tree.len() / 2;
    let (mut left, mut right) = (monoid.identity(), monoid.identity());
    let (mut lo, mut hi) = (leaves + lo as usize, leaves + hi as usize);
    while lo < hi {
        if lo & 1 == 1 {
            left = monoid.combine(left, tree[lo]);
            lo += 1;
        }
        if hi & 1 == 1 {
            hi -= 1;
            right = monoid.combine(tree[hi], right);
        }
        (lo, hi) = (lo / 2, hi / 2);
    }
    monoid.combine(left, right)
}
