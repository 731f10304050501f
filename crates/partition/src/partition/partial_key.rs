//! Partial key grouping (PK): the least loaded of d candidates.
//!
//! | | |
//! |---|---|
//! | imbalance | O(log log workers) rows above a share, as long as no key is heavier than d shares |
//! | aggregation cost | up to d × distinct keys |
//! | time | O(d) a row |
//! | space | a counter a worker |
//! | first appeared | Nasir et al., *The Power of Both Choices*, ICDE 2015 (d = 2); *When Two Choices Are not Enough*, ICDE 2016 (more); Katsipoulakis et al. 2017, §2.4 |

use super::candidates::{Candidates, lightest};
use super::{Decide, Loads};

#[derive(Clone)]
pub(super) struct PartialKey {
    candidates: Candidates,
    places: Vec<u32>,
}

impl PartialKey {
    pub(super) fn new(candidates: Candidates) -> Self {
        Self { candidates, places: Vec::new() }
    }
}

impl Decide for PartialKey {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        self.candidates.fill(hashes, &mut self.places);
        for row in 0..hashes.len() {
            let best = lightest(&self.places, hashes.len(), row, |place| loads.of(place));
            loads.add(best);
            out.push(best as i32);
        }
    }

    fn end_window(&mut self) {}

    fn reset(&mut self) {}

    fn copied(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }
}
