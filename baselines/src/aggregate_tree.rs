//! Aggregate tree: partials of single rows as leaves of a binary tree (Traub et al. 2019, §3.2).
//!
//! | | |
//! |---|---|
//! | needs | an associative function whose partials do not grow with their rows; windows over time, of a number of rows and sessions; any order |
//! | time | O(log n) per row in order, of n rows held; O(n) per row, or batch, out of order; O(log n) per window |
//! | space | each row's time and partial, and as many partials again (Table 1, row 2) |
//! | refuses | functions whose partials grow with their rows (§6.3.2) |
//! | source | FlatFAT: Tangwongsan et al., VLDB 2015; see [`super::flat_fat`] |

use arrow_array::BooleanArray;

use crate::by_rows::{ByRows, SortedRows};
use crate::flat_fat::FlatFat;
use crate::slots::Slots;
use crate::{Setting, Technique, filtered, shared_states};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials, Rows};

const NAME: &str = "aggregate_tree";

/// A tree without rows.
///
/// # Errors
/// `InvalidValue` for functions whose partials grow with their rows, a window type that no technique knows, or a lateness below zero.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let trees = |mut partials: Vec<Box<dyn Partials>>| {
        shared_states(NAME, &mut partials)?;
        Ok(Trees { slots: Slots::new(partials), keys: Vec::new(), batch: Batch::default() })
    };
    Ok(Box::new(ByRows::new(NAME, setting, trees)?))
}

/// A tree per key.
struct Trees {
    slots: Slots,
    /// Trees whose leaves are distinguished by their times.
    keys: Vec<FlatFat<i64>>,
    batch: Batch,
}

/// The batch that is being taken in.
#[derive(Default)]
struct Batch {
    times: Vec<i64>,
    inputs: Vec<Input>,
    /// Slot of each row of the batch; none for rows that are not kept.
    slots: Vec<Option<u32>>,
    keys: Vec<u32>,
}

impl SortedRows for Trees {
    fn batch(&mut self, times: &[i64], inputs: &[Input]) -> Result<()> {
        self.batch = Batch {
            times: times.to_vec(),
            inputs: inputs.to_vec(),
            slots: vec![None; times.len()],
            keys: Vec::new(),
        };
        Ok(())
    }

    fn keep(&mut self, key: u32, t: i64, row: usize) {
        if self.keys.len() <= key as usize {
            self.keys.resize_with(key as usize + 1, FlatFat::default);
        }
        let (tree, slot) = (&mut self.keys[key as usize], self.slots.open());
        let at = match tree.tags().last() {
            Some(&last) if last > t => tree.tags().partition_point(|&other| other <= t),
            _ => tree.tags().len(),
        };
        tree.insert(at, t, slot);
        self.batch.slots[row] = Some(slot);
        self.batch.keys.push(key);
    }

    fn settle(&mut self) -> Result<u64> {
        let Batch { times, inputs, slots, mut keys } = std::mem::take(&mut self.batch);
        let kept: Vec<u32> = slots.iter().flatten().copied().collect();
        if kept.len() == slots.len() {
            self.slots.update(&inputs, Rows::all(&kept, &times))?;
        } else {
            let mask = BooleanArray::from(slots.iter().map(Option::is_some).collect::<Vec<bool>>());
            let inputs = inputs.iter().map(|input| filtered(input, &mask)).collect::<Result<Vec<_>>>()?;
            let times: Vec<i64> =
                (0..times.len()).filter(|&row| mask.value(row)).map(|row| times[row]).collect();
            self.slots.update(&inputs, Rows::all(&kept, &times))?;
        }
        keys.sort_unstable();
        keys.dedup();
        let mut program = Vec::new();
        for key in keys {
            self.keys[key as usize].settle(&mut self.slots, &mut program);
        }
        self.slots.combine(&program)?;
        Ok(((kept.len() + program.len()) * self.slots.width()) as u64)
    }

    fn times(&self, key: u32) -> &[i64] {
        self.keys.get(key as usize).map_or(&[], FlatFat::tags)
    }

    fn keys(&self) -> usize {
        self.keys.len()
    }

    fn drop_first(&mut self, key: u32, rows: usize) -> Result<()> {
        self.keys[key as usize].drop_first(rows, &mut self.slots);
        Ok(())
    }

    fn answer(&mut self, ranges: &[(u32, usize, usize)]) -> Result<(Vec<Box<dyn Partials>>, u64)> {
        let (mut slots, mut groups) = (Vec::new(), Vec::with_capacity(ranges.len()));
        for &(key, lo, hi) in ranges {
            groups.push(slots.len() as u32);
            self.keys[key as usize].range(lo, hi, &mut slots);
        }
        let combines = (slots.len() - groups.len()) * self.slots.width();
        Ok((self.slots.regroup(&slots, &groups)?, combines as u64))
    }

    fn held(&self) -> (usize, usize, usize) {
        let rows = self.keys.iter().map(|tree| tree.leaves().len()).sum();
        let bytes: usize = self.keys.iter().map(|tree| size_of::<FlatFat<i64>>() + tree.bytes()).sum();
        (rows, self.slots.used(), bytes + self.slots.bytes())
    }
}
