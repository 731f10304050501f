//! Panes: the stretches between neighbouring ends of windows are reduced first, and Two-Stacks runs over their
//! partials.
//!
//! | | |
//! |---|---|
//! | needs | an associative `combine`; fewer windows than rows, or panes save nothing |
//! | time | one `combine` per value, which SIMD is good at, and O(1) amortised per pane and window |
//! | space | a partial per pane: one per slide, two where the size is no multiple of it |
//! | first appeared | Li et al., *No Pane, No Gain*, SIGMOD Record 2005; one value per slide in Theodorakis et al. 2018, §3.2 (2), (3) |

use super::frames::FrameIter;
use super::two_stacks::two_stacks_each;
use crate::algebra::{Lift, OfStates};

/// Passes the number of values and the partial of each range to `emit`.
pub(super) fn by_panes<T: Copy, F: Lift<T>>(
    values: &[T],
    ranges: &FrameIter<'_>,
    fold: &F,
    mut emit: impl FnMut(usize, F::State),
) {
    // Neither starts nor ends of windows decrease, so that their union is a merge.
    let (mut cuts, mut starts, mut ends) = (Vec::new(), ranges.clone().peekable(), ranges.clone().peekable());
    loop {
        let cut = match (starts.peek(), ends.peek()) {
            (Some(&(lo, _)), Some(&(_, hi))) => lo.min(hi),
            (None, Some(&(_, hi))) => hi,
            _ => break,
        };
        while starts.next_if(|&(lo, _)| lo == cut).is_some() {}
        while ends.next_if(|&(_, hi)| hi == cut).is_some() {}
        cuts.push(cut);
    }
    let pane = |cut: &[usize]| fold.reduce(cut[0], &values[cut[0]..cut[1]]);
    let panes: Vec<F::State> = cuts.windows(2).map(pane).collect();
    let (mut first, mut end) = (0, 0);
    let mut lengths = ranges.clone().map(|(lo, hi)| hi - lo);
    let over_panes = ranges.clone().map(|(lo, hi)| {
        while cuts[first] < lo {
            first += 1;
        }
        while cuts[end] < hi {
            end += 1;
        }
        (first, end)
    });
    two_stacks_each(&panes, over_panes, &OfStates(fold), |_, state| {
        emit(lengths.next().unwrap_or_default(), state);
    });
}
