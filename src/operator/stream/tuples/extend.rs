//! Slices of a key whose rows of a call all come after its existing ones: the last slice is extended, and new ones
//! follow.
//!
//! This is the common case: all of an ordered stream, and most of one with some disorder. Only the last slice is
//! visited, and those in which a window begins that has only become known now (Traub et al. 2019, §5.3.2, Step 2).

use super::Tuples;
use super::fresh::{Fresh, Own};
use super::rows::KeyTuples;
use super::work::{Change, Work};
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::stream::queries::Queries;
use crate::slice::{Slice, Timelines};

impl Tuples {
    /// Puts a key's rows from place `old` on into slices, those of `own`; `edges` are those of new windows.
    pub(super) fn extend(
        &self,
        (queries, slices): (&Queries, &mut Timelines),
        key: u32,
        tuples: &KeyTuples,
        (old, fresh, own): (usize, &Fresh, Option<Own>),
        edges: &mut Vec<usize>,
        work: &mut Work,
    ) -> Result<()> {
        edges.sort_unstable();
        edges.dedup();
        let mut first = self.split(slices, (key, tuples), (old, edges), work);
        if let Some(own) = own {
            first = first.min(slices.of(key).len().saturating_sub(1));
            let cuts = self.cuts(queries, key, tuples, old..tuples.len(), edges);
            let mut starts = cuts.iter().map(|&(place, _)| place).peekable();
            let mut lo = old;
            let mut pace = Pace::new();
            while lo < tuples.len() {
                let is_new = starts.next_if_eq(&lo).is_some();
                let hi = starts.peek().copied().unwrap_or(tuples.len());
                pace.check(8 + hi - lo)?;
                let slot = slices.open();
                work.group(slot, fresh, own, (lo - old, hi - old), tuples.times[lo]);
                match is_new || slices.of(key).is_empty() {
                    true => slices.push(key, Slice::new(lo as u32, slot)),
                    false => slices.grow(key, slot, tuples.times[hi - 1]),
                }
                lo = hi;
            }
        }
        slices.retime(key, first, &tuples.times);
        Ok(())
    }

    /// Splits slices of the first `old` rows at these edges, which ascend (Fig. 5); returns the place of the first
    /// changed slice.
    fn split(
        &self,
        slices: &mut Timelines,
        (key, tuples): (u32, &KeyTuples),
        (old, edges): (usize, &[usize]),
        work: &mut Work,
    ) -> usize {
        let los = slices.los(key);
        let begins = |edge: usize| los.binary_search(&(edge as u32)).is_ok();
        let inner: Vec<usize> = edges.iter().copied().filter(|&edge| edge < old && !begins(edge)).collect();
        let Some(&least) = inner.first() else { return los.len() };
        let first = los.partition_point(|&lo| (lo as usize) < least) - 1;
        let whole = slices.split_off(key, first);
        let mut inner = inner.into_iter().peekable();
        // The time of the last row before a slice that is folded again.
        let mut refolded = None;
        for (at, &slice) in whole.iter().enumerate() {
            let lo = slice.lo as usize;
            let hi = whole.get(at + 1).map_or(old, |next| next.lo as usize);
            let mut bounds = vec![lo];
            bounds.extend(std::iter::from_fn(|| inner.next_if(|&edge| edge < hi)));
            bounds.push(hi);
            let follows = self.is_ordered() && refolded == Some(tuples.times[lo]);
            if bounds.len() == 2 && !follows {
                slices.push(key, slice);
                continue;
            }
            work.did.splits += bounds.len() as u64 - 2;
            for part in bounds.windows(2) {
                let bases = slices.chain(&slice).collect();
                let change = part_of((key, tuples), bases, (lo, hi), (part[0], part[1]));
                let slot = work.change(slices.open(), change);
                slices.push(key, Slice::new(part[0] as u32, slot));
            }
            refolded = Some(tuples.times[hi - 1]);
        }
        first
    }
}

/// Distributes a slice of rows `lo..hi` and slots `bases` over its rows `from..to`: the part with most of its rows
/// takes over its partials, less the rows of the other parts.
fn part_of(
    (key, tuples): (u32, &KeyTuples),
    bases: Vec<u32>,
    (lo, hi): (usize, usize),
    (from, to): (usize, usize),
) -> Change {
    let change =
        Change { key, lo: from, hi: to, known: true, appended: true, refolds: true, ..Change::default() };
    if 2 * (to - from) > hi - lo {
        let removed = (lo..from).chain(to..hi).map(|place| (tuples.ats[place], tuples.times[place]));
        Change { bases, removed: removed.collect(), ..change }
    } else {
        Change { added: (from..to).collect(), folds_again: true, ..change }
    }
}
