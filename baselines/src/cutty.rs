//! Cutty: slices at the starts of windows only, and an aggregate tree over them.
//!
//! | | |
//! |---|---|
//! | needs | rows in order; windows whose edges are known before rows come, over time or a number of rows, user-defined ones included; an associative function whose partials do not grow with their rows |
//! | time | O(1) per row; O(log s) per slice and per window, of s slices |
//! | space | two partials per slice of the longest window |
//! | refuses | rows out of order; sessions, whose edges depend on rows; functions whose partials grow with their rows |
//! | source | Carbone et al., *Cutty: Aggregate Sharing for User-Defined Windows*, CIKM 2016 |
//!
//! A window that ends within a slice takes the slice as it is when it ends. As rows come in batches here, a slice that a
//! window ends in is held in parts, which become one when all windows up to the watermark are answered.

use crate::flat_fat::FlatFat;
use crate::in_order::{Answer, ByEdges, First};
use crate::slots::Slots;
use crate::{Setting, Technique, shared_states};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};

const NAME: &str = "cutty";

/// Cutty without rows.
///
/// # Errors
/// `InvalidValue` for rows out of order, for sessions, and for functions whose partials grow with their rows.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let slices = |mut partials: Vec<Box<dyn Partials>>| {
        shared_states(NAME, &mut partials)?;
        Ok(Slices { slots: Slots::new(partials), keys: Vec::new() })
    };
    Ok(Box::new(ByEdges::new(NAME, setting, slices)?))
}

/// Slices of all keys.
struct Slices {
    slots: Slots,
    keys: Vec<Own>,
}

/// A key's slices, with where they begin.
#[derive(Default)]
struct Own {
    tree: FlatFat<First>,
    /// Whether the slice began at a start; others are parts of the one before.
    starts: Vec<bool>,
    /// Slices before this are whole.
    whole: usize,
}

impl Answer for Slices {
    fn open(&mut self, key: u32, first: First, starts: bool) -> u32 {
        if self.keys.len() <= key as usize {
            self.keys.resize_with(key as usize + 1, Own::default);
        }
        let (own, slot) = (&mut self.keys[key as usize], self.slots.open());
        own.tree.insert(own.starts.len(), first, slot);
        own.starts.push(starts);
        slot
    }

    fn update(&mut self, inputs: &[Input], rows: Rows<'_>) -> Result<u64> {
        self.slots.update(inputs, rows)?;
        let mut combines = rows.slots.len();
        let mut program = Vec::new();
        for own in &mut self.keys {
            // Only the last slice may have got rows without being new.
            own.tree.touch(own.whole.saturating_sub(1));
            own.tree.settle(&mut self.slots, &mut program);
        }
        self.slots.combine(&program)?;
        combines += program.len();
        Ok((combines * self.slots.width()) as u64)
    }

    fn keys(&self) -> usize {
        self.keys.len()
    }

    fn firsts(&self, key: u32) -> &[First] {
        self.keys[key as usize].tree.tags()
    }

    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let (mut slots, mut groups) = (Vec::new(), Vec::with_capacity(ranges.len()));
        for &(key, lo, hi) in ranges {
            groups.push(slots.len() as u32);
            self.keys[key as usize].tree.range(lo, hi, &mut slots);
        }
        let combines = (slots.len() - groups.len()) * self.slots.width();
        Ok((self.slots.regroup(&slots, &groups)?, combines as u64))
    }

    fn drop_first(&mut self, key: u32, slices: usize) {
        let own = &mut self.keys[key as usize];
        own.tree.drop_first(slices, &mut self.slots);
        own.starts.drain(..slices);
        own.whole = own.whole.saturating_sub(slices);
        if let Some(first) = own.starts.first_mut() {
            // What it was a part of is gone.
            *first = true;
        }
    }

    /// Parts become slices where all windows that end between them are answered.
    fn settle(&mut self, watermark: i64) -> Result<bool> {
        let (mut joins, mut gone, mut program) = (Vec::new(), Vec::new(), Vec::new());
        for own in &mut self.keys {
            let from = own.whole.saturating_sub(1);
            let (firsts, slots) = own.tree.cut(from);
            let starts = own.starts.split_off(from);
            own.whole = from;
            let mut all = true;
            for ((first, slot), starts) in firsts.into_iter().zip(slots).zip(starts) {
                match own.tree.leaves().last().copied() {
                    // The edge between the two is not after the watermark.
                    Some(last) if !starts && first.time <= watermark => {
                        joins.push((last, last, slot));
                        gone.push(slot);
                    }
                    before => {
                        all &= starts || before.is_none();
                        own.tree.insert(own.starts.len(), first, slot);
                        own.starts.push(starts || before.is_none());
                        own.whole += usize::from(all);
                    }
                }
            }
        }
        self.slots.combine(&joins)?;
        self.slots.free(&gone);
        for own in &mut self.keys {
            own.tree.settle(&mut self.slots, &mut program);
        }
        self.slots.combine(&program)?;
        Ok(!gone.is_empty())
    }

    fn held(&self) -> (usize, usize) {
        let own = |own: &Own| size_of::<Own>() + own.tree.bytes() + own.starts.capacity();
        (self.slots.used(), self.keys.iter().map(own).sum::<usize>() + self.slots.bytes())
    }

    fn slot(&self, key: u32) -> Option<u32> {
        self.keys.get(key as usize)?.tree.leaves().last().copied()
    }
}
