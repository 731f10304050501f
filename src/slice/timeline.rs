//! The slices of a stream, key by key: as few as the windows' edges allow, however rows come (Traub et al. 2019, §5.2).
//!
//! A slice knows the times of its first and last row and the slots that hold its partials, as a chain: a batch's slots
//! are linked in when they come and made one when slots are moved together. Where rows are kept under the slices, it knows
//! the place of its first row, too. Whatever a call changes is written to an undo log, so that a call that fails can be
//! taken back.

use super::trees::Dirty;
use crate::window::{Spans, place};

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
    /// Place of its first row, where rows are kept.
    pub lo: u32,
    /// The first and the last of its slots.
    chain: (u32, u32),
}

impl Slice {
    /// A slice of one slot.
    pub fn new(lo: u32, slot: u32) -> Self {
        Self { first: 0, last: 0, lo, chain: (slot, slot) }
    }

    /// The same with its first row at another place.
    pub fn at(self, lo: u32) -> Self {
        Self { lo, ..self }
    }
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

/// The slices of one key, ascending, a column per property; those before `from` are forgotten.
#[derive(Debug, Clone, Default)]
struct Timeline {
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    chains: Vec<(u32, u32)>,
    /// Empty where rows are not kept.
    los: Vec<u32>,
    from: usize,
    /// Where the last search ended: the next one mostly ends near it.
    near: usize,
    /// How many slices were forgotten since the first.
    gone: u64,
    /// How many slices were left when they were last made as few as can be.
    merged: usize,
}

impl Timeline {
    fn spans(&self) -> Spans<'_> {
        Spans { firsts: &self.firsts[self.from..], lasts: &self.lasts[self.from..] }
    }

    fn get(&self, at: usize) -> Slice {
        let lo = self.los.get(at).copied().unwrap_or_default();
        Slice { first: self.firsts[at], last: self.lasts[at], lo, chain: self.chains[at] }
    }

    fn set(&mut self, at: usize, slice: Slice) {
        (self.firsts[at], self.lasts[at], self.chains[at]) = (slice.first, slice.last, slice.chain);
    }

    fn insert(&mut self, at: usize, slice: Slice) {
        self.firsts.insert(at, slice.first);
        self.lasts.insert(at, slice.last);
        self.chains.insert(at, slice.chain);
    }

    fn remove(&mut self, at: usize) -> Slice {
        let slice = self.get(at);
        self.firsts.remove(at);
        self.lasts.remove(at);
        self.chains.remove(at);
        slice
    }

    fn push(&mut self, slice: Slice, keeps_rows: bool) {
        self.insert(self.firsts.len(), slice);
        if keeps_rows {
            self.los.push(slice.lo);
        }
    }

    fn truncate(&mut self, len: usize) {
        self.firsts.truncate(len);
        self.lasts.truncate(len);
        self.chains.truncate(len);
        self.los.truncate(len);
    }

    fn len(&self) -> usize {
        self.firsts.len() - self.from
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.firsts.capacity() + self.lasts.capacity()) * size_of::<i64>()
            + self.chains.capacity() * size_of::<(u32, u32)>()
            + self.los.capacity() * size_of::<u32>()
    }

    /// Drops the slices before `from`, once they are most of what is there.
    fn tidy(&mut self) {
        if self.from == self.firsts.len() {
            // Keys may be many, and most of them idle.
            let Self { gone, .. } = std::mem::take(self);
            self.gone = gone;
            return;
        }
        if self.from <= self.firsts.len() / 2 {
            return;
        }
        let from = std::mem::take(&mut self.from);
        let shrinks = self.firsts.capacity() > 4 * (self.firsts.len() - from).max(4);
        for times in [&mut self.firsts, &mut self.lasts] {
            times.drain(..from);
        }
        self.chains.drain(..from);
        self.los.drain(..from.min(self.los.len()));
        if shrinks {
            self.firsts.shrink_to_fit();
            self.lasts.shrink_to_fit();
            self.chains.shrink_to_fit();
            self.los.shrink_to_fit();
        }
    }
}

/// An entry of the undo log.
enum Change {
    Added {
        key: u32,
        at: usize,
    },
    Widened {
        key: u32,
        at: usize,
        old: Slice,
    },
    Removed {
        key: u32,
        at: usize,
        old: Slice,
    },
    /// All slices from `at` on were replaced.
    Replaced {
        key: u32,
        at: usize,
        old: Vec<Slice>,
    },
}

impl Change {
    /// The key, and the first slice that is another.
    fn place(&self) -> (u32, usize) {
        match *self {
            Change::Added { key, at }
            | Change::Widened { key, at, .. }
            | Change::Removed { key, at, .. }
            | Change::Replaced { key, at, .. } => (key, at),
        }
    }
}

/// The slices of all keys.
#[derive(Default)]
pub struct Timelines {
    keys: Vec<Timeline>,
    /// Whether rows are kept under the slices.
    keeps_rows: bool,
    /// The slot that follows each slot in its chain.
    next: Vec<u32>,
    undo: Vec<Change>,
    /// Slots when the call began.
    settled: usize,
    slices: usize,
    /// How often two slices became one, and that when the call began.
    merges: u64,
}

impl Timelines {
    /// No slices yet.
    pub fn new(keeps_rows: bool) -> Self {
        Self { keeps_rows, ..Self::default() }
    }

    /// The slices of a key, ascending.
    pub fn of(&self, key: u32) -> Spans<'_> {
        self.keys.get(key as usize).map_or(Spans::of_rows(&[]), Timeline::spans)
    }

    /// The slice of a key at this place.
    pub fn get(&self, key: u32, place: usize) -> Slice {
        let timeline = &self.keys[key as usize];
        timeline.get(timeline.from + place)
    }

    /// The places of the first rows of a key's slices, where rows are kept.
    pub fn los(&self, key: u32) -> &[u32] {
        let timeline = self.keys.get(key as usize);
        timeline.and_then(|timeline| timeline.los.get(timeline.from..)).unwrap_or_default()
    }

    /// How many slices of a key were forgotten since the first.
    pub fn gone(&self, key: u32) -> u64 {
        self.keys[key as usize].gone
    }

    /// What [`Timelines::add`] changed since slices were settled: which slices have other rows, and from where on there
    /// are others, key by key.
    pub(super) fn dirty(&self) -> Vec<Dirty> {
        let mut dirty: Vec<Dirty> = Vec::new();
        for change in &self.undo {
            let ((key, at), is_widened) = (change.place(), matches!(change, Change::Widened { .. }));
            let place = at - self.keys[key as usize].from;
            let known = match dirty.last_mut() {
                Some(last) if last.key == key => last,
                _ => {
                    dirty.push(Dirty { key, places: Vec::new(), from: usize::MAX });
                    dirty.last_mut().expect("one was added")
                }
            };
            // What is added at the end, which most is, leaves all before as it was.
            known.from = known.from.min(if is_widened { usize::MAX } else { place });
            known.places.push(place);
        }
        dirty
    }

    /// Where the slots went that were added since slices were settled, one by one, if all came behind what there was: the
    /// key, how many slices it ever had before the slot's, and whether that is a new one.
    pub(super) fn appended(&self) -> impl Iterator<Item = (u32, u64, bool)> + '_ {
        self.undo.iter().map(|change| {
            let (key, at) = change.place();
            let timeline = &self.keys[key as usize];
            let number = timeline.gone + (at - timeline.from) as u64;
            (key, number, matches!(change, Change::Added { .. }))
        })
    }

    /// Keys with slices that were changed since slices were settled; some may come more than once.
    pub fn changed_keys(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        self.undo.iter().map(|change| change.place().0)
    }

    /// Number of keys that there is room for.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Makes room for keys.
    pub fn make_room(&mut self, keys: usize) {
        if self.keys.len() < keys {
            self.keys.resize(keys, Timeline::default());
        }
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
        self.keys.iter().map(Timeline::bytes).sum::<usize>() + self.next.capacity() * size_of::<u32>()
    }

    /// The slots of a slice, in the order they came.
    pub fn chain(&self, slice: &Slice) -> impl Iterator<Item = u32> + '_ {
        let mut at = slice.chain.0;
        std::iter::from_fn(move || {
            let slot = at;
            at = *self.next.get(slot as usize)?;
            Some(slot)
        })
    }

    /// A slot more.
    pub fn open(&mut self) -> u32 {
        self.next.push(NONE);
        self.next.len() as u32 - 1
    }

    /// Puts the next slot where it belongs: into a slice within `[start, end)` (and within `gap`, if there is one, of the
    /// rows), all of which it makes one, or else as a new one. O(log n) of n slices of the key, and O(n) for a new slice
    /// among them.
    pub fn add(&mut self, cell: Cell, (start, end): (i64, i64), gap: Option<i64>) {
        let Cell { key, first, last } = cell;
        let slot = self.open();
        self.make_room(key as usize + 1);
        let timeline = &mut self.keys[key as usize];
        let Spans { firsts, lasts } = timeline.spans();
        let joins = |at: usize| {
            let (own_first, own_last) = (firsts[at], lasts[at]);
            let within = own_first >= start
                && own_last < end
                && gap.is_none_or(|gap| {
                    first <= own_last.saturating_add(gap) && own_first <= last.saturating_add(gap)
                });
            // One that was made of several, whose edges nothing needs, has its rows on both sides.
            within || (own_first <= last && first <= own_last)
        };
        // Mostly it is the last one.
        let mut near = timeline.near;
        let after = match firsts.last() {
            Some(&own) if own > first => {
                near = place(firsts, near, |&own| own <= first);
                near
            }
            _ => firsts.len(),
        };
        let from = after - (0..after).rev().take_while(|&at| joins(at)).count();
        let to = after + (after..firsts.len()).take_while(|&at| joins(at)).count();
        let (from, to) = (timeline.from + from, timeline.from + to);
        timeline.near = near;
        if from == to {
            timeline.insert(from, Slice { first, last, lo: 0, chain: (slot, slot) });
            self.slices += 1;
            self.undo.push(Change::Added { key, at: from });
            return;
        }
        for at in (from + 1..to).rev() {
            let old = timeline.remove(at);
            self.undo.push(Change::Removed { key, at, old });
            let one = timeline.get(at - 1);
            self.undo.push(Change::Widened { key, at: at - 1, old: one });
            self.next[one.chain.1 as usize] = old.chain.0;
            let chain = (one.chain.0, old.chain.1);
            timeline.set(at - 1, Slice { last: one.last.max(old.last), chain, ..one });
            self.slices -= 1;
            self.merges += 1;
        }
        let one = timeline.get(from);
        self.undo.push(Change::Widened { key, at: from, old: one });
        self.next[one.chain.1 as usize] = slot;
        let (first, last) = (one.first.min(first), one.last.max(last));
        timeline.set(from, Slice { first, last, chain: (one.chain.0, slot), ..one });
    }

    /// Takes the slices of a key from this place on away, to be replaced by others.
    pub fn split_off(&mut self, key: u32, place: usize) -> Vec<Slice> {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.from + place;
        let old: Vec<Slice> = (at..timeline.firsts.len()).map(|at| timeline.get(at)).collect();
        timeline.truncate(at);
        self.slices -= old.len();
        self.undo.push(Change::Replaced { key, at, old: old.clone() });
        old
    }

    /// Puts a slice after all others of a key, of the slots it has or had.
    pub fn push(&mut self, key: u32, slice: Slice) {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.firsts.len();
        timeline.push(slice, self.keeps_rows);
        self.slices += 1;
        // What replaces others is taken back with them.
        if !matches!(self.undo.last(), Some(Change::Replaced { key: own, .. }) if *own == key) {
            self.undo.push(Change::Added { key, at });
        }
    }

    /// A slice that was taken away, with one slot more.
    pub fn linked(&mut self, slice: Slice, slot: u32) -> Slice {
        self.next[slice.chain.1 as usize] = slot;
        Slice { chain: (slice.chain.0, slot), ..slice }
    }

    /// Gives the last slice of a key one slot more.
    pub fn grow(&mut self, key: u32, slot: u32) {
        let timeline = &mut self.keys[key as usize];
        let at = timeline.firsts.len() - 1;
        let old = timeline.get(at);
        self.undo.push(Change::Widened { key, at, old });
        self.next[old.chain.1 as usize] = slot;
        timeline.set(at, Slice { chain: (old.chain.0, slot), ..old });
    }

    /// Has the slices of a key from this place on begin and end with these rows, the times of all of which are given.
    pub fn retime(&mut self, key: u32, place: usize, times: &[i64]) {
        let timeline = &mut self.keys[key as usize];
        for at in timeline.from + place..timeline.firsts.len() {
            let hi = timeline.los.get(at + 1).map_or(times.len(), |&next| next as usize);
            timeline.firsts[at] = times[timeline.los[at] as usize];
            timeline.lasts[at] = times[hi - 1];
        }
    }

    /// Keeps what was added since.
    pub fn settle(&mut self) {
        self.undo.clear();
        self.settled = self.next.len();
    }

    /// Takes back what was changed since the last [`Timelines::settle`].
    pub fn take_back(&mut self) {
        while let Some(change) = self.undo.pop() {
            match change {
                Change::Added { key, at } => {
                    let timeline = &mut self.keys[key as usize];
                    timeline.remove(at);
                    timeline.los.truncate(at);
                    self.slices -= 1;
                }
                Change::Widened { key, at, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].set(at, old);
                }
                Change::Removed { key, at, old } => {
                    self.next[old.chain.1 as usize] = NONE;
                    self.keys[key as usize].insert(at, old);
                    self.slices += 1;
                    self.merges -= 1;
                }
                Change::Replaced { key, at, old } => {
                    let timeline = &mut self.keys[key as usize];
                    self.slices -= timeline.firsts.len() - at;
                    self.slices += old.len();
                    timeline.truncate(at);
                    for slice in old {
                        self.next[slice.chain.1 as usize] = NONE;
                        timeline.push(slice, self.keeps_rows);
                    }
                }
            }
        }
        self.next.truncate(self.settled);
    }

    /// How many of a key's slices no row and no window to come needs: those before `cutoff`, unless `gap` ties them to later
    /// ones.
    pub fn expired(&self, key: u32, cutoff: i64, gap: Option<i64>) -> usize {
        let Spans { firsts, lasts } = self.of(key);
        if firsts.first().is_none_or(|&first| first >= cutoff) {
            return 0;
        }
        let mut expired = firsts.partition_point(|&first| first < cutoff);
        if let Some(gap) = gap {
            // A row at the cutoff may still join what is within the gap of it.
            let mut reach = cutoff;
            while expired > 0 && lasts[expired - 1].saturating_add(gap) >= reach {
                expired -= 1;
                reach = firsts[expired];
            }
        }
        expired
    }

    /// Forgets the first slices of a key; where rows are kept, its first `rows` rows, too.
    pub fn forget(&mut self, key: u32, slices: usize, rows: u32) {
        if slices == 0 {
            return;
        }
        let timeline = &mut self.keys[key as usize];
        timeline.from += slices;
        timeline.gone += slices as u64;
        timeline.merged = timeline.merged.saturating_sub(slices);
        self.slices -= slices;
        if rows > 0 {
            timeline.los[timeline.from..].iter_mut().for_each(|lo| *lo -= rows);
        }
        timeline.tidy();
    }

    /// All slots, slice by slice and key by key, and where each slice's begin. Once slots have been moved into that order
    /// and those of a slice made one, [`Timelines::renumber`] says so here.
    pub fn order(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut slots, mut groups) = (Vec::with_capacity(self.next.len()), Vec::with_capacity(self.slices));
        for timeline in &self.keys {
            for at in timeline.from..timeline.firsts.len() {
                groups.push(slots.len() as u32);
                slots.extend(self.chain(&timeline.get(at)));
            }
        }
        (slots, groups)
    }

    /// Slots are slices now, in the order of [`Timelines::order`].
    pub fn renumber(&mut self) {
        let mut slot = 0;
        for timeline in &mut self.keys {
            for chain in &mut timeline.chains[timeline.from..] {
                *chain = (slot, slot);
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
            let merged = self.merge_pairs(key, |one, next| {
                let (start, end) = slice_of(next.first);
                let within = gap_at(next.first).is_none_or(|gap| next.first <= one.last.saturating_add(gap));
                within && one.first >= start && next.last < end && one.last < end
            });
            self.merges += merged as u64;
            let timeline = &mut self.keys[key];
            (timeline.gone, timeline.merged, timeline.near) = (0, 0, 0);
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
        for key in 0..self.keys.len() {
            let timeline = &self.keys[key];
            if timeline.len() < 2 * timeline.merged + MANY {
                continue;
            }
            // No merge of the stream's: when slices are put together is upkeep, which a restart may put off.
            let merged = self.merge_pairs(key, |one, next| {
                let within = gap.is_none_or(|gap| next.first <= one.last.saturating_add(gap));
                within && is_settled(one.last.max(next.last)) && !is_needed(one.last, next.first)
            });
            let timeline = &mut self.keys[key];
            timeline.merged = timeline.len();
            if merged > 0 {
                changed.push(key as u32);
            }
        }
        changed
    }

    /// Makes neighbouring slices of a key one where `joins` says so; how many there are fewer.
    fn merge_pairs(&mut self, key: usize, mut joins: impl FnMut(&Slice, &Slice) -> bool) -> usize {
        let timeline = &mut self.keys[key];
        let mut kept = timeline.from;
        for at in timeline.from + 1..timeline.firsts.len() {
            let (one, next) = (timeline.get(kept), timeline.get(at));
            if joins(&one, &next) {
                self.next[one.chain.1 as usize] = next.chain.0;
                let chain = (one.chain.0, next.chain.1);
                timeline.set(kept, Slice { last: one.last.max(next.last), chain, ..one });
            } else {
                kept += 1;
                timeline.set(kept, next);
            }
        }
        let merged = timeline.firsts.len().saturating_sub(kept + 1);
        timeline.truncate(kept + 1);
        self.slices -= merged;
        merged
    }

    /// Keeps these keys, which ascend, and drops the others, which have no slices: the n-th of them is key n.
    pub fn keep_keys(&mut self, kept: &[u32]) {
        let keep = |&key: &u32| self.keys.get_mut(key as usize).map(std::mem::take).unwrap_or_default();
        self.keys = kept.iter().map(keep).collect();
    }

    /// Puts slices back that were written elsewhere: slot s is a slice, of ascending keys and times.
    pub fn restore(cells: impl Iterator<Item = Cell>, los: Option<&[u32]>, merges: u64) -> Self {
        let mut this = Self { merges, ..Self::new(los.is_some()) };
        for (at, Cell { key, first, last }) in cells.enumerate() {
            this.make_room(key as usize + 1);
            let slot = this.open();
            let lo = los.map_or(0, |los| los[at]);
            this.keys[key as usize].push(Slice { first, last, lo, chain: (slot, slot) }, this.keeps_rows);
            this.slices += 1;
        }
        this.settle();
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(timelines: &Timelines) -> Vec<Vec<(i64, i64, Vec<u32>)>> {
        let slices = |key| -> Vec<(i64, i64, Vec<u32>)> {
            let of = |place| timelines.get(key, place);
            (0..timelines.of(key).len())
                .map(of)
                .map(|slice| (slice.first, slice.last, timelines.chain(&slice).collect()))
                .collect()
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
                let got: Vec<(i64, i64)> = {
                    let Spans { firsts, lasts } = timelines.of(key);
                    firsts.iter().copied().zip(lasts.iter().copied()).collect()
                };
                prop_assert_eq!(got, want);
            }
        }
    }
}
