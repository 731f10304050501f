//! Slots sorted by key and time, with those of one slice merged.

use super::Edges;
use super::table::SliceTable;
use crate::Result;
use crate::poll::{PIECE, Poll, filled, sort_unstable};

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
    /// Sorts slots (or rows), given by their keys and starts, by key: a stable counting sort, O(slots + keys).
    ///
    /// # Errors
    /// That of `poll`, which is called between pieces of them.
    pub fn of<'a>(
        parts: impl Iterator<Item = (&'a [u32], &'a [i64])> + Clone,
        key_count: usize,
        poll: Poll,
    ) -> Result<Self> {
        let mut bounds = vec![0usize; key_count + 1];
        for keys in parts.clone().flat_map(|(keys, _)| keys.chunks(PIECE)) {
            poll()?;
            keys.iter().for_each(|&key| bounds[key as usize + 1] += 1);
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
                slots[next[key as usize]] = (start, slot);
                next[key as usize] += 1;
                slot += 1;
            }
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
