//! Pairs: slices at the starts and ends of windows; a window is folded from its slices when it ends.
//!
//! | | |
//! |---|---|
//! | needs | rows in order; tumbling and sliding windows, over time or a number of rows; any function |
//! | time | O(1) per row; O(s) per window of s slices |
//! | space | a partial per slice of the longest window |
//! | refuses | rows out of order; sessions, and all windows but tumbling and sliding ones |
//! | source | Krishnamurthy et al., *On-the-Fly Sharing for Streamed Aggregation*, SIGMOD 2006: two slices per slide, of size mod slide and the rest; of several windows the union of their edges |

use crate::in_order::{Answer, ByEdges, First};
use crate::{Setting, Technique, refused};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};

const NAME: &str = "pairs";

/// Pairs without rows.
///
/// # Errors
/// `InvalidValue` for rows out of order and for windows that are not tumbling or sliding ones.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    if !setting.own.is_empty() {
        return Err(refused(
            NAME,
            "user-defined window",
            "its slices come in pairs, of the length of a slide",
            "tumbling and sliding windows",
        ));
    }
    let slices = |partials| Ok(Slices { partials, len: 0, keys: Vec::new(), dropped: 0 });
    Ok(Box::new(ByEdges::new(NAME, setting, slices)?))
}

/// Slices of all keys.
struct Slices {
    partials: Vec<Box<dyn Partials>>,
    len: usize,
    /// Where each key's slices begin, and their slots.
    keys: Vec<(Vec<First>, Vec<u32>)>,
    dropped: usize,
}

impl Answer for Slices {
    fn open(&mut self, key: u32, first: First, _starts: bool) -> u32 {
        if self.keys.len() <= key as usize {
            self.keys.resize_with(key as usize + 1, Default::default);
        }
        let (firsts, slots) = &mut self.keys[key as usize];
        firsts.push(first);
        slots.push(self.len as u32);
        self.len += 1;
        self.len as u32 - 1
    }

    fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<u64> {
        let len = self.len;
        for (partials, input) in self.partials.iter_mut().zip(inputs) {
            input.feed(&mut **partials, rows, len)?;
        }
        Ok((rows.slots.len() * self.partials.len()) as u64)
    }

    fn keys(&self) -> usize {
        self.keys.len()
    }

    fn firsts(&self, key: u32) -> &[First] {
        &self.keys[key as usize].0
    }

    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let (mut slots, mut groups) = (Vec::new(), Vec::with_capacity(ranges.len()));
        for &(key, lo, hi) in ranges {
            groups.push(slots.len() as u32);
            slots.extend_from_slice(&self.keys[key as usize].1[lo..hi]);
        }
        let combines = (slots.len() - groups.len()) * self.partials.len();
        let partials = self.partials.iter().map(|partials| partials.regroup(&slots, &groups));
        Ok((partials.collect::<Result<_>>()?, combines as u64))
    }

    fn drop_first(&mut self, key: u32, slices: usize) {
        let (firsts, slots) = &mut self.keys[key as usize];
        firsts.drain(..slices);
        slots.drain(..slices);
        self.dropped += slices;
    }

    /// Slots of dropped slices are cleared away once they are most of all.
    fn settle(&mut self, _: i64) -> Result<bool> {
        if self.dropped <= self.len / 2 {
            return Ok(false);
        }
        let slots: Vec<u32> = self.keys.iter().flat_map(|(_, slots)| slots).copied().collect();
        let groups: Vec<u32> = (0..slots.len() as u32).collect();
        for partials in &mut self.partials {
            *partials = partials.regroup(&slots, &groups)?;
        }
        let kept = self.keys.iter_mut().flat_map(|(_, slots)| slots);
        kept.zip(&groups).for_each(|(slot, &number)| *slot = number);
        (self.len, self.dropped) = (slots.len(), 0);
        Ok(true)
    }

    fn held(&self) -> (usize, usize) {
        let own = |(firsts, slots): &(Vec<First>, Vec<u32>)| {
            firsts.capacity() * size_of::<First>() + slots.capacity() * size_of::<u32>()
        };
        let lists: usize = self.keys.iter().map(own).sum();
        let bytes: usize = self.partials.iter().map(|partials| partials.bytes()).sum();
        (self.len - self.dropped, lists + bytes)
    }

    fn slot(&self, key: u32) -> Option<u32> {
        self.keys.get(key as usize)?.1.last().copied()
    }
}
