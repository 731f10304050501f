//! Slots sorted by key and time, with those of one slice merged.

use super::Edges;
use super::table::SliceTable;

/// Slots in the order of their keys.
pub struct KeyOrder {
    /// Slot numbers, those of one key together, within a key in the order they were opened.
    pub slots: Vec<u32>,
    /// `slots[bounds[k]..bounds[k + 1]]` belong to key `k`.
    pub bounds: Vec<usize>,
}

/// Sorts slots by key: a stable counting sort, O(slots + keys).
pub fn order_by_key(keys: &[u32], key_count: usize) -> KeyOrder {
    let mut bounds = vec![0usize; key_count + 1];
    for &key in keys {
        bounds[key as usize + 1] += 1;
    }
    for k in 0..key_count {
        bounds[k + 1] += bounds[k];
    }
    let mut next = bounds.clone();
    let mut slots = vec![0u32; keys.len()];
    for (slot, &key) in keys.iter().enumerate() {
        slots[next[key as usize]] = slot as u32;
        next[key as usize] += 1;
    }
    KeyOrder { slots, bounds }
}

impl SliceTable {
    /// The slots of keys `from..to`, sorted by key and time, one per slice (with sessions: one per fragment).
    ///
    /// Sorting is skipped where a key's slots already ascend. O(n) then, else O(n log n).
    pub fn regroup(&self, order: &KeyOrder, from: usize, to: usize, edges: &Edges) -> SliceTable {
        let mut slots = order.slots[order.bounds[from]..order.bounds[to]].to_vec();
        let base = order.bounds[from];
        let starts = self.starts();
        // One entry per slice that stays: where its slots begin in `slots`.
        let mut groups: Vec<u32> = Vec::with_capacity(slots.len());
        let mut keys = Vec::with_capacity(slots.len());
        let mut merged_starts = Vec::with_capacity(slots.len());
        let mut merged_lasts = self.lasts().map(|_| Vec::with_capacity(slots.len()));
        let mut pairs: Vec<(i64, u32)> = Vec::new();
        for key in from..to {
            let (a, b) = (order.bounds[key] - base, order.bounds[key + 1] - base);
            let own = &mut slots[a..b];
            if !own.is_sorted_by_key(|&slot| starts[slot as usize]) {
                // Sorted by value, not through `starts`: comparisons then stay in one place of memory.
                pairs.clear();
                pairs.extend(own.iter().map(|&slot| (starts[slot as usize], slot)));
                pairs.sort_unstable();
                own.iter_mut().zip(&pairs).for_each(|(slot, pair)| *slot = pair.1);
            }
            let mut slice_end = i64::MIN;
            for (i, &slot) in own.iter().enumerate() {
                let start = starts[slot as usize];
                let joins = i > 0
                    && match (&mut merged_lasts, self.lasts()) {
                        (Some(merged), Some(lasts)) => {
                            let last: &mut i64 = merged.last_mut().expect("a slot came before");
                            let gap = edges.gap().expect("sessions have a gap");
                            let joins = start < slice_end && start <= last.saturating_add(gap);
                            if joins {
                                *last = lasts[slot as usize].max(*last);
                            }
                            joins
                        }
                        _ => *merged_starts.last().expect("a slot came before") == start,
                    };
                if !joins {
                    groups.push((a + i) as u32);
                    keys.push(key as u32);
                    merged_starts.push(start);
                    if let (Some(merged), Some(lasts)) = (&mut merged_lasts, self.lasts()) {
                        merged.push(lasts[slot as usize]);
                        slice_end = edges.slice_of(start).1;
                    }
                }
            }
        }
        let partials = self.partials().iter().map(|partials| partials.regroup(&slots, &groups)).collect();
        SliceTable::from_parts(keys, merged_starts, merged_lasts, partials)
    }
}
