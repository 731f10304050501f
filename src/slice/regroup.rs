//! Slots sorted by key and time, with those of one slice merged.

use super::Edges;
use super::table::SliceTable;
use crate::Result;
use crate::poll::{PIECE, Poll, filled, sort_unstable};

/// More keys than these are sorted by ranges of them first...
const MANY: usize = if cfg!(test) { 8 } else { 1 << 14 };

/// ... and into so many or half of these.
const RANGES: usize = if cfg!(test) { 4 } else { 512 };

/// Slots in the order of their keys.
pub struct KeyOrder {
    /// Starts and numbers of slots, those of one key together, within a key in the order they were opened. The starts
    /// are here again so that sorting and merging read memory in one place.
    pub slots: Vec<(i64, u32)>,
    /// `slots[bounds[k]..bounds[k + 1]]` belong to key `k`.
    pub bounds: Vec<usize>,
}

/// Slots by slice.
pub struct Groups {
    /// Slots, those of one slice together.
    slots: Vec<u32>,
    /// Where each slice's slots begin among them.
    groups: Vec<u32>,
    keys: Vec<u32>,
    /// When each slice starts; with sessions, its first time.
    pub starts: Vec<i64>,
    /// Its last time, with sessions.
    pub lasts: Option<Vec<i64>>,
}

impl KeyOrder {
    /// Sorts slots (or rows), given by their keys and starts, by key: a stable counting sort, O(slots + keys). Those whose
    /// keys are none of these are left out.
    ///
    /// # Errors
    /// That of `poll`, which is called between pieces of them.
    pub fn of<'a>(
        parts: impl Iterator<Item = (&'a [u32], &'a [i64])> + Clone,
        key_count: usize,
        poll: Poll,
    ) -> Result<Self> {
        if key_count > MANY {
            return Self::of_many(parts, key_count, poll);
        }
        let mut bounds = vec![0usize; key_count + 1];
        for keys in parts.clone().flat_map(|(keys, _)| keys.chunks(PIECE)) {
            poll()?;
            for &key in keys {
                bounds.get_mut(key as usize + 1).into_iter().for_each(|bound| *bound += 1);
            }
        }
        for k in 0..key_count {
            bounds[k + 1] += bounds[k];
        }
        let mut next = bounds.clone();
        let mut slots = filled(bounds[key_count], (0, 0), poll)?;
        let mut slot = 0;
        let pieces = parts.flat_map(|(keys, starts)| keys.chunks(PIECE).zip(starts.chunks(PIECE)));
        for (keys, starts) in pieces {
            poll()?;
            for (&key, &start) in keys.iter().zip(starts) {
                if (key as usize) < key_count {
                    slots[next[key as usize]] = (start, slot);
                    next[key as usize] += 1;
                }
                slot += 1;
            }
        }
        Ok(Self { slots, bounds })
    }

    /// As [`KeyOrder::of`], by ranges of keys first, so that what is written next stays in the caches.
    fn of_many<'a>(
        parts: impl Iterator<Item = (&'a [u32], &'a [i64])> + Clone,
        key_count: usize,
        poll: Poll,
    ) -> Result<Self> {
        let shift = (key_count / RANGES).max(1).ilog2() + 1;
        let range = |key: u32| key as usize >> shift;
        let mut begins = vec![0usize; (key_count >> shift) + 2];
        for keys in parts.clone().flat_map(|(keys, _)| keys.chunks(PIECE)) {
            poll()?;
            let keys = keys.iter().filter(|&&key| (key as usize) < key_count);
            keys.for_each(|&key| begins[range(key) + 1] += 1);
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let count = begins[begins.len() - 1];
        let (mut slots, mut keys) = (filled(count, (0, 0), poll)?, filled(count, 0, poll)?);
        let (mut next, mut slot) = (begins.clone(), 0);
        let pieces = parts.flat_map(|(keys, starts)| keys.chunks(PIECE).zip(starts.chunks(PIECE)));
        for (own, starts) in pieces {
            poll()?;
            for (&key, &start) in own.iter().zip(starts) {
                if (key as usize) < key_count {
                    let next = &mut next[range(key)];
                    (slots[*next], keys[*next]) = ((start, slot), key);
                    *next += 1;
                }
                slot += 1;
            }
        }
        let mut bounds = vec![0; key_count + 1];
        let mut copy = Vec::new();
        for (at, bound) in begins.windows(2).enumerate() {
            let (keys, slots) = (&keys[bound[0]..bound[1]], &mut slots[bound[0]..bound[1]]);
            let first = at << shift;
            let next = &mut bounds[first + 1..(first + (1 << shift) + 1).min(key_count + 1)];
            // Where a key begins, and then where its next slot is: at last, where it ends.
            for keys in keys.chunks(PIECE) {
                poll()?;
                keys.iter().for_each(|&key| next[key as usize - first] += 1);
            }
            let mut total = 0;
            for next in next.iter_mut() {
                (*next, total) = (total, total + *next);
            }
            copy.clear();
            copy.extend_from_slice(slots);
            for (keys, copy) in keys.chunks(PIECE).zip(copy.chunks(PIECE)) {
                poll()?;
                for (&key, &slot) in keys.iter().zip(copy) {
                    let next = &mut next[key as usize - first];
                    slots[*next] = slot;
                    *next += 1;
                }
            }
            next.iter_mut().for_each(|next| *next += bound[0]);
        }
        Ok(Self { slots, bounds })
    }
}

impl SliceTable {
    /// The order of its slots.
    ///
    /// # Errors
    /// That of `poll`, which is called between pieces of them.
    pub fn order_by_key(&self, key_count: usize, poll: Poll) -> Result<KeyOrder> {
        KeyOrder::of(std::iter::once((self.keys(), self.starts())), key_count, poll)
    }

    /// The slots of keys `from..to`, sorted by key and time, one per slice (with sessions: one per fragment).
    ///
    /// Sorting is skipped where a key's slots already ascend. O(n) then, else O(n log n).
    ///
    /// # Errors
    /// Errors of partials, and of `poll`, which is called once for many slots: one key may have any number of them.
    pub fn regroup(
        &self,
        order: &KeyOrder,
        (from, to): (usize, usize),
        edges: &Edges,
        poll: Poll,
    ) -> Result<SliceTable> {
        let Groups { slots, groups, keys, starts, lasts } = self.groups(order, (from, to), edges, poll)?;
        let partials = self.partials().iter().map(|partials| partials.regroup(&slots, &groups));
        Ok(SliceTable::from_parts(keys, starts, lasts, partials.collect::<Result<_>>()?))
    }

    /// The groups of slots that [`SliceTable::regroup`] combines, without partials.
    pub fn groups(
        &self,
        order: &KeyOrder,
        (from, to): (usize, usize),
        edges: &Edges,
        poll: Poll,
    ) -> Result<Groups> {
        let base = order.bounds[from];
        let mut slots = order.slots[base..order.bounds[to]].to_vec();
        poll()?;
        // One entry per remaining slice: where its slots begin in `slots`.
        let mut groups: Vec<u32> = Vec::with_capacity(slots.len());
        let mut keys = Vec::with_capacity(slots.len());
        let mut starts = Vec::with_capacity(slots.len());
        let mut lasts = self.lasts().map(|lasts| (lasts, Vec::with_capacity(slots.len())));
        let mut steps = 0;
        for key in from..to {
            let (a, b) = (order.bounds[key] - base, order.bounds[key + 1] - base);
            let own = &mut slots[a..b];
            if !own.is_sorted_by_key(|&(start, _)| start) {
                sort_unstable(own, poll)?;
            }
            // Where the slice that is being assembled began, and where it must end.
            let (mut began, mut end) = (i64::MIN, i64::MIN);
            for (i, &(start, slot)) in own.iter().enumerate() {
                steps += 1;
                if steps == PIECE {
                    poll()?;
                    steps = 0;
                }
                let joins = match &mut lasts {
                    None => i > 0 && start == began,
                    Some((given, merged)) => match merged.last_mut() {
                        Some(last) if start < end && edges.within_gap(*last, start) => {
                            *last = given[slot as usize].max(*last);
                            true
                        }
                        _ => false,
                    },
                };
                if joins {
                    continue;
                }
                began = start;
                groups.push((a + i) as u32);
                keys.push(key as u32);
                starts.push(start);
                if let Some((given, merged)) = &mut lasts {
                    merged.push(given[slot as usize]);
                    end = edges.slice_of(start).1;
                }
            }
        }
        poll()?;
        let slots = slots.into_iter().map(|(_, slot)| slot).collect();
        Ok(Groups { slots, groups, keys, starts, lasts: lasts.map(|(_, merged)| merged) })
    }
}
