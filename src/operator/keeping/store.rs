//! The partials of slices, in slots; how those of changed slices come from those there were, and from rows.
//!
//! Nothing that is there is changed by a call: what becomes of slices gets slots of its own, and is linked in once nothing
//! can fail any more.

use super::heap::Heap;
use super::line::{Line, Slice};
use super::slicing::Change;
use crate::Result;
use crate::aggregate::{Input, Partial, Partials, Rows};
use crate::operator::plan::Stored;
use arrow_array::cast::AsArray;

/// Slots that may gather before any are moved.
const FIRST: usize = 1024;

/// Rows that may be folded before what no slot points to is dropped.
const ROWS: usize = 1 << 14;

/// Partials of all slices.
pub(super) struct Store {
    partials: Vec<Box<dyn Partials>>,
    kinds: Vec<Kind>,
    slots: usize,
    /// Slots that may gather before those that no slice has are dropped.
    room: usize,
    /// Rows folded since then.
    rows: usize,
}

/// What decides how a partial is mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// Whether rows of one time must be folded in their order.
    ordered: bool,
    /// Whether rows may be folded in any order otherwise.
    commutative: bool,
}

impl Kind {
    fn of(stored: &Stored, partials: &dyn Partials) -> Self {
        use Partial::{ArgMax, ArgMin, First, FirstValid, Last, LastValid, List, User};
        let commutative = partials.properties().commutative;
        let ordered = match stored.partial {
            First | Last | FirstValid | LastValid | ArgMin | ArgMax | List => true,
            User(_) => !commutative,
            _ => false,
        };
        Self { ordered, commutative }
    }
}

/// Slots of changed slices, one per change.
pub(super) struct Delta {
    partials: Vec<Box<dyn Partials>>,
    slots: usize,
    rows: usize,
    /// How many of the changes were made by folding rows anew.
    pub(super) recomputed: u64,
}

impl Store {
    /// A store of these partials, each with `slots` slots.
    pub(super) fn new(partials: Vec<Box<dyn Partials>>, stored: &[Stored], slots: usize) -> Self {
        let kinds = stored.iter().zip(&partials).map(|(stored, partials)| Kind::of(stored, &**partials));
        Self { kinds: kinds.collect(), partials, slots, room: FIRST, rows: 0 }
    }

    /// The partials.
    pub(super) fn partials(&self) -> &[Box<dyn Partials>] {
        &self.partials
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.partials.iter().map(|partials| partials.bytes()).sum()
    }

    /// Whether a partial depends on the order in which rows of one time are folded.
    pub(super) fn orders(&self) -> bool {
        self.kinds.iter().any(|kind| kind.ordered)
    }

    /// Whether rows may be folded in any order but for ties in time.
    pub(super) fn commutes(&self) -> bool {
        self.kinds.iter().all(|kind| kind.commutative)
    }

    /// The partials of changed slices. O(rows added and removed), and O(rows of a slice) where partials cannot be mended.
    pub(super) fn derive(
        &self,
        stored: &[Stored],
        changes: &[Change],
        lines: &[Line],
        heap: &Heap,
    ) -> Result<Delta> {
        let added = |change: &Change| -> Vec<(u64, i64)> {
            let line = &lines[change.key as usize];
            change.added.iter().map(|&place| (line.ats[place], line.times[place])).collect()
        };
        let whole = |change: &Change| -> Vec<(u64, i64)> {
            let line = &lines[change.key as usize];
            (change.lo..change.hi).map(|place| (line.ats[place], line.times[place])).collect()
        };
        let added: Vec<Vec<(u64, i64)>> = changes.iter().map(added).collect();
        // New slices of rows that were in others.
        let mut recomputed: Vec<bool> =
            changes.iter().map(|change| change.bases.is_empty() && !change.chained && change.known).collect();
        let mut derived = Vec::with_capacity(stored.len());
        for ((stored, own), kind) in stored.iter().zip(&self.partials).zip(&self.kinds) {
            let mends = |change: &Change| {
                let in_order = !kind.ordered || !change.refolds;
                !change.bases.is_empty() && in_order && (kind.commutative || change.appended)
            };
            // The slices that keep what they had, less what they lost.
            let mended: Vec<usize> = (0..changes.len()).filter(|&at| mends(&changes[at])).collect();
            let mut kept = self.merged(own.as_ref(), mended.iter().map(|&at| &changes[at].bases[..]))?;
            // The slot of each change among them, if it is mended indeed.
            let mut place: Vec<Option<u32>> = vec![None; changes.len()];
            mended.iter().zip(0..).for_each(|(&at, slot)| place[at] = Some(slot));
            let losing: Vec<usize> =
                mended.into_iter().filter(|&at| !changes[at].removed.is_empty()).collect();
            if !losing.is_empty() {
                let lost: Vec<&[(u64, i64)]> = losing.iter().map(|&at| &changes[at].removed[..]).collect();
                let lost = fold(stored, own.as_ref(), &lost, heap)?;
                let slots: Vec<u32> = losing.iter().filter_map(|&at| place[at]).collect();
                let done = kept.take_out(&slots, lost.as_ref())?;
                for (&at, _) in losing.iter().zip(done).filter(|(_, done)| !done) {
                    place[at] = None;
                }
            }
            let is_anew = |at: usize| !changes[at].bases.is_empty() && place[at].is_none();
            recomputed.iter_mut().enumerate().for_each(|(at, recomputed)| *recomputed |= is_anew(at));
            let whole: Vec<Vec<(u64, i64)>> = (0..changes.len())
                .map(|at| if is_anew(at) { whole(&changes[at]) } else { Vec::new() })
                .collect();
            let rows: Vec<&[(u64, i64)]> =
                (0..changes.len()).map(|at| if is_anew(at) { &whole[at][..] } else { &added[at] }).collect();
            let filled: Vec<&[(u64, i64)]> = rows.iter().copied().filter(|rows| !rows.is_empty()).collect();
            let first_fresh = changes.len() as u32;
            // A slot for each change, as far as it keeps something, and then those of rows.
            let slots: Vec<u32> = place.iter().copied().flatten().collect();
            let mut both = copied(kept.as_ref(), &slots)?;
            let kept_slots = slots.len() as u32;
            if !filled.is_empty() {
                both.append(fold(stored, own.as_ref(), &filled, heap)?);
            }
            let (mut slots, mut groups) = (Vec::new(), Vec::new());
            let (mut next_kept, mut next_fresh) = (0..kept_slots, kept_slots..kept_slots + first_fresh);
            for (place, rows) in place.iter().zip(&rows) {
                groups.push(slots.len() as u32);
                slots.extend(place.and_then(|_| next_kept.next()));
                slots.extend((!rows.is_empty()).then(|| next_fresh.next()).flatten());
            }
            let both = if groups.is_empty() { both } else { both.regroup(&slots, &groups)? };
            let times: Vec<i64> =
                changes.iter().zip(&added).map(|(change, added)| first_time(change, added, lines)).collect();
            derived.push(reduced(both, kind, &times)?);
        }
        let rows = changes.iter().map(|change| change.hi - change.lo).sum();
        let mut delta = Delta { partials: derived, slots: changes.len(), rows, recomputed: 0 };
        delta.recomputed = recomputed.into_iter().filter(|&recomputed| recomputed).count() as u64;
        delta.partials.iter_mut().try_for_each(|partials| partials.settle())?;
        Ok(delta)
    }

    /// A column with a slot for each group of slots, combined in their order.
    fn merged<'a>(
        &self,
        partials: &dyn Partials,
        groups: impl Iterator<Item = &'a [u32]>,
    ) -> Result<Box<dyn Partials>> {
        let (mut slots, mut firsts) = (Vec::new(), Vec::new());
        for group in groups {
            firsts.push(slots.len() as u32);
            slots.extend_from_slice(group);
        }
        merge(partials, &slots, &firsts)
    }

    /// The partials `which` of slices, a slot each, in the order given; those of `delta` come after the store's own.
    pub(super) fn gather<'a>(
        &self,
        delta: &Delta,
        slices: impl Iterator<Item = &'a Slice>,
        which: &[usize],
    ) -> Result<Vec<Box<dyn Partials>>> {
        let (mut own, mut fresh) = (Vec::new(), Vec::new());
        let (mut places, mut groups) = (Vec::new(), Vec::new());
        for slice in slices {
            groups.push(places.len() as u32);
            for slot in slice.slots() {
                match (slot as usize).checked_sub(self.slots) {
                    None => {
                        places.push((false, own.len()));
                        own.push(slot);
                    }
                    Some(slot) => {
                        places.push((true, fresh.len()));
                        fresh.push(slot as u32);
                    }
                }
            }
        }
        let place = |&(is_fresh, at): &(bool, usize)| if is_fresh { own.len() + at } else { at } as u32;
        let places: Vec<u32> = places.iter().map(place).collect();
        let gathered = which.iter().map(|&which| {
            let mut both = copied(self.partials[which].as_ref(), &own)?;
            if !fresh.is_empty() {
                both.append(copied(delta.partials[which].as_ref(), &fresh)?);
            }
            merge(both.as_ref(), &places, &groups)
        });
        gathered.collect()
    }

    /// No changes.
    pub(super) fn nothing(&self) -> Delta {
        let partials = self.partials.iter().map(|partials| partials.empty()).collect();
        Delta { partials, slots: 0, rows: 0, recomputed: 0 }
    }

    /// Takes in changed slices.
    pub(super) fn append(&mut self, delta: Delta) {
        for (own, partials) in self.partials.iter_mut().zip(delta.partials) {
            own.append(partials);
        }
        self.slots += delta.slots;
        self.rows += delta.rows;
    }

    /// Drops slots that no slice has once they are most of them, and makes those of a slice one.
    ///
    /// # Errors
    /// What a user's function raises; nothing is changed then.
    pub(super) fn tidy(&mut self, lines: &mut [Line]) -> Result<()> {
        let kept = || lines.iter().map(Line::len).sum::<usize>();
        if self.slots < self.room && (self.rows < ROWS || self.rows < 2 * kept()) {
            return Ok(());
        }
        self.compact(lines)?;
        (self.room, self.rows) = (FIRST.max(2 * self.slots), 0);
        Ok(())
    }

    /// A slot for each slice, key by key.
    fn compact(&mut self, lines: &mut [Line]) -> Result<()> {
        let which: Vec<usize> = (0..self.partials.len()).collect();
        let all = || lines.iter().flat_map(|line| &line.slices);
        let mut partials = self.gather(&self.nothing(), all(), &which)?;
        partials.iter_mut().try_for_each(|partials| partials.shrink())?;
        self.partials = partials;
        self.slots = 0;
        for slice in lines.iter_mut().flat_map(|line| &mut line.slices) {
            *slice = Slice::new(slice.lo as usize, self.slots as u32);
            self.slots += 1;
        }
        Ok(())
    }
}

/// The time of the first row of a change's slot.
fn first_time(change: &Change, added: &[(u64, i64)], lines: &[Line]) -> i64 {
    let of_rows = added.first().filter(|_| change.chained).map(|&(_, time)| time);
    of_rows.unwrap_or(lines[change.key as usize].times[change.lo])
}

/// These slots, each by itself.
fn copied(partials: &dyn Partials, slots: &[u32]) -> Result<Box<dyn Partials>> {
    if slots.is_empty() {
        return Ok(partials.empty());
    }
    let each: Vec<u32> = (0..slots.len() as u32).collect();
    partials.regroup(slots, &each)
}

/// Groups of slots made one, in their order: slots may lie in any order in the column, and a column of entries puts
/// those of one time in the order in which they lie.
fn merge(partials: &dyn Partials, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
    let each = copied(partials, slots)?;
    if slots.len() == groups.len() {
        return Ok(each);
    }
    let own: Vec<u32> = (0..slots.len() as u32).collect();
    each.regroup(&own, groups)
}

/// A column with a slot for each of these lists of rows, none of which is empty.
fn fold(
    stored: &Stored,
    like: &dyn Partials,
    rows: &[&[(u64, i64)]],
    heap: &Heap,
) -> Result<Box<dyn Partials>> {
    let mut partials = like.empty();
    let each = || rows.iter().flat_map(|rows| rows.iter());
    let ats: Vec<u64> = each().map(|&(at, _)| at).collect();
    let times: Vec<i64> = each().map(|&(_, time)| time).collect();
    let of_slot = |(slot, rows): (usize, &&[(u64, i64)])| std::iter::repeat_n(slot as u32, rows.len());
    let slots: Vec<u32> = rows.iter().enumerate().flat_map(of_slot).collect();
    let columns = stored.inputs.iter().map(|&position| heap.column(position, &ats)).collect::<Result<_>>()?;
    let taken = stored.filter.map(|position| heap.column(position, &ats)).transpose()?;
    let input = Input { columns, taken: taken.map(|taken| taken.as_boolean().clone()) };
    input.feed(&mut *partials, Rows::all(&slots, &times), rows.len())?;
    Ok(partials)
}

/// Slots of functions that do not commute as one state each: what they are made of will not come apart again. `times` are
/// those of their first rows.
fn reduced(partials: Box<dyn Partials>, kind: &Kind, times: &[i64]) -> Result<Box<dyn Partials>> {
    if kind.commutative {
        return Ok(partials);
    }
    let states = partials.state()?;
    let slots: Vec<u32> = (0..times.len() as u32).collect();
    let mut reduced = partials.empty();
    reduced.merge(&states, Rows { slots: &slots, times, sparse: true }, times.len())?;
    Ok(reduced)
}
