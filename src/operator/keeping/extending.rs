//! Slices of a key whose rows of a call all come after those it had: slices that are there go on, and new ones follow.
//!
//! That is what an ordered stream is made of, and most of one with some disorder. Nothing that was there is looked at but
//! the last slice, and those in which a window begins that is only told now (Traub et al. 2019, §5.3.2, Step 2).

use super::Keeper;
use super::fresh::{Fresh, Own};
use super::line::{Before, Line, Slice};
use super::work::{Change, Work};

impl Keeper {
    /// Puts a key's rows from place `old` on into slices, those of `own`; `edges` are those of windows that are new.
    pub(super) fn extend(
        &self,
        key: u32,
        line: &mut Line,
        before: &mut Before,
        (old, fresh, own): (usize, &Fresh, Option<Own>),
        edges: &mut Vec<usize>,
        work: &mut Work,
    ) {
        edges.sort_unstable();
        edges.dedup();
        self.split(key, line, before, (old, edges), work);
        let Some(own) = own else { return };
        let cuts = self.cuts(key, line, old, edges);
        let mut starts = cuts.iter().map(|&(place, _)| place).peekable();
        let mut lo = old;
        while lo < line.len() {
            let is_new = starts.next_if_eq(&lo).is_some();
            let hi = starts.peek().copied().unwrap_or(line.len());
            let slot = work.group(fresh, own, (lo - old, hi - old), line.times[lo]);
            match line.slices.last_mut() {
                Some(last) if !is_new => last.grow(slot),
                _ => line.slices.push(Slice::new(lo, slot)),
            }
            lo = hi;
        }
    }

    /// Splits slices of the first `old` rows at these edges, which ascend (Fig. 5).
    fn split(
        &self,
        key: u32,
        line: &mut Line,
        before: &mut Before,
        (old, edges): (usize, &[usize]),
        work: &mut Work,
    ) {
        let begins = |edge: usize| line.slices.binary_search_by_key(&(edge as u32), |slice| slice.lo).is_ok();
        let inner: Vec<usize> = edges.iter().copied().filter(|&edge| edge < old && !begins(edge)).collect();
        let Some(&least) = inner.first() else { return };
        let first = line.slices.partition_point(|slice| (slice.lo as usize) < least) - 1;
        before.note_slices(line, first);
        let slices = line.slices.split_off(first);
        let mut inner = inner.into_iter().peekable();
        // The time of the last row before a slice that is folded again.
        let mut refolded = None;
        for (at, slice) in slices.iter().enumerate() {
            let lo = slice.lo as usize;
            let hi = slices.get(at + 1).map_or(old, |next| next.lo as usize);
            let mut bounds = vec![lo];
            bounds.extend(std::iter::from_fn(|| inner.next_if(|&edge| edge < hi)));
            bounds.push(hi);
            let follows = self.orders() && refolded == Some(line.times[lo]);
            if bounds.len() == 2 && !follows {
                line.slices.push(slice.clone());
                continue;
            }
            work.moves.splits += bounds.len() as u64 - 2;
            for part in bounds.windows(2) {
                let change = part_of(key, line, slice, (lo, hi), (part[0], part[1]));
                line.slices.push(Slice::new(part[0], work.change(change)));
            }
            refolded = Some(line.times[hi - 1]);
        }
    }
}

/// What becomes of a slice of rows `lo..hi` in rows `from..to` of it: the part with most of its rows has its partials, less
/// the others' rows.
fn part_of(
    key: u32,
    line: &Line,
    slice: &Slice,
    (lo, hi): (usize, usize),
    (from, to): (usize, usize),
) -> Change {
    let change =
        Change { key, lo: from, hi: to, known: true, appended: true, refolds: true, ..Change::default() };
    if 2 * (to - from) > hi - lo {
        let removed = (lo..from).chain(to..hi).map(|place| (line.ats[place], line.times[place]));
        Change { bases: slice.slots().collect(), removed: removed.collect(), ..change }
    } else {
        Change { added: (from..to).collect(), folds_again: true, ..change }
    }
}
