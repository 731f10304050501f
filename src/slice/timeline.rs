//! The slices of a stream, key by key: as few as the windows' edges allow, however rows come (Traub et al. 2019, §5.2).
//!
//! A slice knows the times of its first and last row and the slots that hold its partials, as a chain: a batch's slots
//! are linked in when they come and made one when slots are moved together. Whatever a call changes is written down, so
//! that a call that fails can be taken back.

use super::cutter::gallop;
use super::forest::Dirty;

/// No slot.
const NONE: u32 = u32::MAX;

/// Slices of a key that may gather before those that nothing needs apart are made one.
const MANY: usize = 8;

/// A slice that holds rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Time of its first row.
    pub first: i64,
    /// Time of its last row.
    pub last: i64,
    /// The first of its slots.
    head: u32,
    /// The last of its slots.
    tail: u32,
}

/// Rows on their way into a slice: a slot, and the times of its first and last row.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Their key.
    pub key: u32,
    /// Their first time.
    pub first: i64,
    /// Their last time.
    pub last: i64,
}

/// The slices of one key, ascending; those before `from` are gone.
#[derive(Debug, Clone, Default)]
struct Timeline {
    slices: Vec<Slice>,
    from: usize,
    /// Where the last search ended: the next one mostly ends near it.
    near: usize,
    /// How many slices were forgotten since the first.
    gone: u64,
    /// How many slices were left when they were last made as few as can be.
    merged: usize,
}

/// What took place, to take it back.
enum Change {
    Added { key: u32, at: usize },
    Widened { key: u32, at: usize, old: Slice },
    Removed { key: u32, at: usize, old: Slice },
}

/// The slices of all keys.
#[derive(Default)]
pub struct Timelines {
    keys: Vec<Timeline>,
    /// The slot that follows each slot in its chain.
    next: Vec<u32>,
    changes: Vec<Change>,
    /// Slots when the call began.
    settled: usize,
    slices: usize,
    merges: u64,
}

impl Timelines {
    /// The slices of a key, ascending.
    pub fn of(&self, key: u32) -> &[Slice] {
        self.keys.get(key as usize).map_or(&[], |timeline| &timeline.slices[timeline.from..])
    }

    /// How many slices of a key were forgotten since the first.
    pub fn gone(&self, key: u32) -> u64 {
        self.keys[key as usize].gone
    }

    /// What [`Timelines::add`] changed since slices were settled: which slices have other rows, and from where on there
    /// are others, key by key.
    pub(super) fn dirty(&self) -> Vec<Dirty> {
        let mut dirty: Vec<Dirty> = Vec::new();
        for change in &self.changes {
            let (key, at, from) = match *change {
                Change::Widened { key, at, .. } => (key, at, usize::MAX),
                Change::Added { key, at } | Change::Removed { key, at, .. } => (key, at, at),
            };
            let gone = self.keys[key as usize].from;
            let known = match dirty.last_mut() {
                Some(last) if last.key == key => last,
                _ => {
                    dirty.push(Dirty { key, places: Vec::new(), from: usize::MAX });
                    dirty.last_mut().expect("one was added")
                }
            };
            // What is added at the end, which most is, leaves all before as it was.
            known.from = known.from.min(if from == usize::MAX { from } else { from - gone });
            known.places.push(at - gone);
        }
        dirty
    }

    /// Where the slots went that were added since slices were settled, one by one, if all came behind what there was: the
    /// key, how many slices it ever had before the slot's, and whether that is a new one.
    pub(super) fn appended(&self) -> impl Iterator<Item = (u32, u64, bool)> + '_ {
        self.changes.iter().map(|change| {
            let (key, at, is_new) = match *change {
                Change::Added { key, at } => (key, at, true),
                Change::Widened { key, at, .. } | Change::Removed { key, at, .. } => (key, at, false),
            };
            let timeline = &self.keys[key as usize];
            (key, timeline.gone + (at - timeline.from) as u64, is_new)
        })
    }

    /// Keys with slices that were changed since slices were settled; some may come more than once.
    pub fn changed_keys(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.changes.iter().map(|change| match *change {
            Change::Added { key, .. } | Change::Widened { key, .. } | Change::Removed { key, .. } => key,
        })
    }

    /// Number of keys that there is room for.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Number of slices.
    pub fn len(&self) -> usize {
        self.slices
    }

    /// Whether there is no slice.
    pub fn is_empty(&self) -> bool {
        self.slices == 0
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.next.len()
    }

    /// How often two slices became one.
    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let slices =
            |timeline: &Timeline| size_of::<Timeline>() + timeline.slices.capacity() * size_of::<Slice>();
        self.keys.iter().map(slices).sum::<usize>() + self.next.capacity() * size_of::<u32>()
    }

    /// The slots of a slice, in the order they came.
    pub fn chain(&self, slice: &Slice) -> impl Iterator<Item = u32> + '_ {
        let mut at = slice.head;
        std::iter::from_fn(move || {
            let slot = at;
            at = *self.next.get(slot as usize)?;
            Some(slot)
        })
    }

    /// Puts the next slot where it belongs: into a slice within `[start, end)` (and within `gap`, if there is one, of the
    /// rows), all of which it makes one, or else as a new one. O(log n) of n slices of the key, and O(n) for a new slice
    /// among them.
    pub fn add(&mut self, cell: Cell, (start, end): (i64, i64), gap: Option<i64>) {
        let Cell { key, first, last } = cell;
        let slot = self.next.len() as u32;
        self.next.push(NONE);
        if self.keys.len() <= key as usize {
            self.keys.resize(key as usize + 1, Timeline::default());
        }
        let timeline = &mut self.keys[key as usize];
        let slices = &timeline.slices[timeline.from..];
        let joins = |slice: &Slice| {
            let within = slice.first >= start
                && slice.last < end
                && gap.is_none_or(|gap| {
                    first <= slice.last.saturating_add(gap) && slice.first <= last.saturating_add(gap)
                });
            // One that was made of several, whose edges nothing needs, has its rows on both sides.
            within || (slice.first <= last && first <= slice.last)
        };
        // Mostly it is the last one.
        let after = match slices.last() {
            Some(slice) if slice.first > first => {
                timeline.near = place(slices, timeline.near, |slice| slice.first <= first);
                timeline.near
            }
            _ => slices.len(),
        };
        let from = after - slices[..after].iter().rev().take_while(|slice| joins(slice)).count();
        let to = after + slices[after..].iter().take_while(|slice| joins(slice)).count();
        let (from, to) = (timeline.from + from, timeline.from + to);
        if from == to {
            timeline.slices.insert(from, Slice { first, last, head: slot, tail: slot });
            self.slices += 1;
            self.changes.push(Change::Added { key, at: from });
            return;
        }
        for at in (from + 1..to).rev() {
            let old = timeline.slices.remove(at);
            self.changes.push(Change::Removed { key, at, old });
            let one = &mut timeline.slices[at - 1];
            self.changes.push(Change::Widened { key, at: at - 1, old: *one });
            self.next[one.tail as usize] = old.head;
            *one = Slice { first: one.first, last: one.last.max(old.last), head: one.head, tail: old.tail };
            self.slices -= 1;
            self.merges += 1;
        }
        let one = &mut timeline.slices[from];
        self.changes.push(Change::Widened { key, at: from, old: *one });
        self.next[one.tail as usize] = slot;
        *one = Slice { first: one.first.min(first), last: one.last.max(last), head: one.head, tail: slot };
    }

    /// Keeps what was added since.
    pub fn settle(&mut self) {
        self.changes.clear();
        self.settled = self.next.len();
    }

    /// Takes back what was added since the last [`Timelines::settle`].
    pub fn take_back(&mut self) {
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Added { key, at } => {
                    self.keys[key as usize].slices.remove(at);
                    self.slices -= 1;
                }
                Change::Widened { key, at, old } => {
                    self.next[old.tail as usize] = NONE;
                    self.keys[key as usize].slices[at] = old;
                }
                Change::Removed { key, at, old } => {
                    self.next[old.tail as usize] = NONE;
                    self.keys[key as usize].slices.insert(at, old);
                    self.slices += 1;
                    self.merges -= 1;
                }
            }
        }
        self.next.truncate(self.settled);
    }

    /// Forgets slices of each key that no row to come and no window to come needs: those before `cutoff`, unless `gap`
    /// ties them to later ones.
    pub fn forget(&mut self, cutoff: i64, gap: Option<i64>) {
        for timeline in &mut self.keys {
            let slices = &timeline.slices[timeline.from..];
            if slices.first().is_none_or(|slice| slice.first >= cutoff) {
                continue;
            }
            let mut keep = slices.partition_point(|slice| slice.first < cutoff);
            if let Some(gap) = gap {
                // A row at the cutoff may still join what is within the gap of it.
                let mut reach = cutoff;
                while keep > 0 && slices[keep - 1].last.saturating_add(gap) >= reach {
                    keep -= 1;
                    reach = slices[keep].first;
                }
            }
            timeline.from += keep;
            timeline.gone += keep as u64;
            timeline.merged = timeline.merged.saturating_sub(keep);
            self.slices -= keep;
            if timeline.from > timeline.slices.len() / 2 {
                timeline.slices.drain(..timeline.from);
                timeline.from = 0;
                if timeline.slices.capacity() > 4 * timeline.slices.len().max(4) {
                    timeline.slices.shrink_to_fit();
                }
            }
        }
    }

    /// All slots, slice by slice and key by key, and where each slice's begin. Once slots have been moved into that order
    /// and those of a slice made one, [`Timelines::renumber`] says so here.
    pub fn order(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut slots, mut groups) = (Vec::with_capacity(self.next.len()), Vec::with_capacity(self.slices));
        for key in 0..self.keys.len() as u32 {
            for slice in self.of(key) {
                groups.push(slots.len() as u32);
                slots.extend(self.chain(slice));
            }
        }
        (slots, groups)
    }

    /// Slots are slices now, in the order of [`Timelines::order`].
    pub fn renumber(&mut self) {
        let mut slot = 0;
        for timeline in &mut self.keys {
            for slice in &mut timeline.slices[timeline.from..] {
                (slice.head, slice.tail) = (slot, slot);
                slot += 1;
            }
        }
        self.next.clear();
        self.next.resize(slot as usize, NONE);
        self.next.shrink_to(2 * slot as usize);
        self.settle();
    }

    /// Makes slices one that other edges no longer part: `slice_of` says which slice a time lies in.
    pub fn remerge(
        &mut self,
        mut slice_of: impl FnMut(i64) -> (i64, i64),
        gap_at: impl Fn(i64) -> Option<i64>,
    ) {
        for key in 0..self.keys.len() {
            let timeline = std::mem::take(&mut self.keys[key]);
            let mut merged: Vec<Slice> = Vec::with_capacity(timeline.slices.len() - timeline.from);
            for slice in &timeline.slices[timeline.from..] {
                if let Some(one) = merged.last_mut() {
                    let (start, end) = slice_of(slice.first);
                    let within =
                        gap_at(slice.first).is_none_or(|gap| slice.first <= one.last.saturating_add(gap));
                    if within && one.first >= start && slice.last < end && one.last < end {
                        self.next[one.tail as usize] = slice.head;
                        (one.last, one.tail) = (one.last.max(slice.last), slice.tail);
                        self.slices -= 1;
                        self.merges += 1;
                        continue;
                    }
                }
                merged.push(*slice);
            }
            self.keys[key] = Timeline { slices: merged, ..Timeline::default() };
        }
    }

    /// Makes slices one, where they have become many, that lie before all that can change: `is_settled` says of the times
    /// there, `is_needed` whether an edge after the earlier and not after the later time is. Returns the keys that have
    /// other slices now. Amortised O(1) per slice.
    pub fn merge_settled(
        &mut self,
        mut is_settled: impl FnMut(i64) -> bool,
        is_needed: impl Fn(i64, i64) -> bool,
        gap: Option<i64>,
    ) -> Vec<u32> {
        let mut changed = Vec::new();
        for (key, timeline) in (0..).zip(&mut self.keys) {
            let before = timeline.slices.len() - timeline.from;
            if before < 2 * timeline.merged + MANY {
                continue;
            }
            let mut kept = timeline.from;
            for at in timeline.from + 1..timeline.slices.len() {
                let (one, next) = (timeline.slices[kept], timeline.slices[at]);
                let within = gap.is_none_or(|gap| next.first <= one.last.saturating_add(gap));
                if within && is_settled(one.last.max(next.last)) && !is_needed(one.last, next.first) {
                    self.next[one.tail as usize] = next.head;
                    timeline.slices[kept] = Slice { last: one.last.max(next.last), tail: next.tail, ..one };
                } else {
                    kept += 1;
                    timeline.slices[kept] = next;
                }
            }
            timeline.slices.truncate(kept + 1);
            timeline.merged = timeline.slices.len() - timeline.from;
            let gone = before - timeline.merged;
            if gone > 0 {
                changed.push(key);
                // No merge of the stream's: when slices are put together is upkeep, which a restart may put off.
                self.slices -= gone;
            }
        }
        changed
    }

    /// Drops keys without slices; entry k of the answer is the new number of key k, if it has one.
    pub fn drop_keys(&mut self) -> Vec<Option<u32>> {
        let mut kept = 0;
        let numbers = self.keys.iter().map(|timeline| {
            (timeline.from < timeline.slices.len()).then(|| {
                kept += 1;
                kept - 1
            })
        });
        let numbers: Vec<Option<u32>> = numbers.collect();
        self.keys.retain(|timeline| timeline.from < timeline.slices.len());
        numbers
    }

    /// Puts slices back that were written elsewhere: slot s is a slice, of ascending keys and times.
    pub fn restore(cells: impl Iterator<Item = Cell>, merges: u64) -> Self {
        let mut this = Self { merges, ..Self::default() };
        for Cell { key, first, last } in cells {
            if this.keys.len() <= key as usize {
                this.keys.resize(key as usize + 1, Timeline::default());
            }
            let slot = this.next.len() as u32;
            this.next.push(NONE);
            this.keys[key as usize].slices.push(Slice { first, last, head: slot, tail: slot });
            this.slices += 1;
        }
        this.settle();
        this
    }
}

/// How many of the slices are `before` something, where none is that follows one that is not; sought from place `near` on.
/// O(log distance).
pub fn place(slices: &[Slice], near: usize, before: impl Fn(&Slice) -> bool) -> usize {
    let near = near.min(slices.len());
    if near == 0 || before(&slices[near - 1]) {
        return match slices.get(near) {
            Some(slice) if before(slice) => near + gallop(&slices[near..], before),
            _ => near,
        };
    }
    let (mut hi, mut step) = (near - 1, 1);
    while step <= hi && !before(&slices[hi - step]) {
        hi -= step;
        step *= 2;
    }
    let from = (hi + 1).saturating_sub(step);
    from + slices[from..hi].partition_point(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(timelines: &Timelines) -> Vec<Vec<(i64, i64, Vec<u32>)>> {
        let slices = |key| -> Vec<(i64, i64, Vec<u32>)> {
            timelines.of(key).iter().map(|s| (s.first, s.last, timelines.chain(s).collect())).collect()
        };
        (0..timelines.keys() as u32).map(slices).filter(|slices| !slices.is_empty()).collect()
    }

    fn add(timelines: &mut Timelines, rows: &[(u32, i64)], gap: Option<i64>) {
        for &(key, t) in rows {
            let start = t.div_euclid(16) * 16;
            timelines.add(Cell { key, first: t, last: t }, (start, start + 16), gap);
        }
    }

    proptest! {
        #[test]
        fn a_place_is_found_from_anywhere(
            mut times in prop::collection::vec(-50i64..50, 0..200), near in 0usize..250, t in -55i64..55,
        ) {
            times.sort_unstable();
            let slice = |&t: &i64| Slice { first: t, last: t, head: 0, tail: 0 };
            let slices: Vec<Slice> = times.iter().map(slice).collect();
            let want = times.iter().filter(|&&time| time < t).count();
            prop_assert_eq!(place(&slices, near, |slice| slice.first < t), want);
        }

        /// Slices are the fragments of the rows, whatever the order they came in, and taking back leaves no trace.
        #[test]
        fn fragments_in_any_order(
            kept in prop::collection::vec((0u32..3, -60i64..60), 0..60),
            taken_back in prop::collection::vec((0u32..3, -60i64..60), 0..60),
            gap in prop::option::of(1i64..20),
        ) {
            let mut timelines = Timelines::default();
            add(&mut timelines, &kept, gap);
            timelines.settle();
            let before = (contents(&timelines), timelines.len(), timelines.merges(), timelines.slots());
            add(&mut timelines, &taken_back, gap);
            timelines.take_back();
            prop_assert_eq!(&before, &(contents(&timelines), timelines.len(), timelines.merges(), timelines.slots()));
            for key in 0..3 {
                let mut times: Vec<i64> = kept.iter().filter(|row| row.0 == key).map(|row| row.1).collect();
                times.sort_unstable();
                let mut want: Vec<(i64, i64)> = Vec::new();
                for t in times {
                    match want.last_mut() {
                        Some((first, last))
                            if first.div_euclid(16) == t.div_euclid(16) && gap.is_none_or(|gap| t <= *last + gap) =>
                        {
                            *last = t;
                        }
                        _ => want.push((t, t)),
                    }
                }
                let got: Vec<(i64, i64)> = timelines.of(key).iter().map(|slice| (slice.first, slice.last)).collect();
                prop_assert_eq!(got, want);
            }
        }
    }
}
