//! Shuffle and hash: the two partitioners that only use the row's position or its key.
//!
//! | | shuffle (SH) | hash (FLD) |
//! |---|---|---|
//! | imbalance | at most 1 row | as skewed as the keys |
//! | aggregation cost | up to workers × distinct keys | the minimum, distinct keys |
//! | time | O(1) a row | O(1) a row |
//! | space | one counter | none |
//! | source | Katsipoulakis et al. 2017, §2.4 | the same |

use super::candidates::Candidates;
use super::{Decide, Loads};
use crate::Result;
use crate::state::{Reader, Writer};

/// Round robin: row i of a window goes to worker (start + i) mod workers.
#[derive(Clone)]
pub(super) struct Shuffle {
    start: u32,
    next: u32,
    workers: u32,
}

impl Shuffle {
    /// The first worker is derived from the seed, so that the partitioners of one stage do not start in step.
    pub(super) fn new(workers: u32, seed: u64) -> Self {
        let start = Candidates::new(workers, 1).of(seed, 0);
        Self { start, next: start, workers }
    }
}

impl Decide for Shuffle {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        out.extend(hashes.iter().map(|_| {
            let worker = self.next;
            self.next = if worker + 1 == self.workers { 0 } else { worker + 1 };
            loads.add(worker);
            worker as i32
        }));
    }

    fn reads_keys(&self) -> bool {
        false
    }

    fn end_window(&mut self) {
        self.next = self.start;
    }

    fn reset(&mut self) {
        self.next = self.start;
    }

    fn copied(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }

    fn save(&self, to: &mut Writer) {
        to.value(&self.next);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.next = from.value()?;
        if self.next >= self.workers {
            return Err(from.damaged(&format!("worker {} of {}", self.next, self.workers)));
        }
        Ok(())
    }
}

/// The first candidate of the key.
#[derive(Clone)]
pub(super) struct Hash(pub(super) Candidates);

impl Decide for Hash {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        let from = out.len();
        out.extend(hashes.iter().map(|&hash| self.0.of(hash, 0) as i32));
        out[from..].iter().for_each(|&worker| loads.add(worker as u32));
    }

    fn end_window(&mut self) {}

    fn reset(&mut self) {}

    fn copied(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }
}
