//! Cardinality imbalance minimisation (CM): the candidate with the fewest distinct keys.
//!
//! | | |
//! |---|---|
//! | imbalance | none is aimed at; that of distinct keys (Eq. 6) is kept low |
//! | aggregation cost | up to d × distinct keys |
//! | time | O(d) a row |
//! | space | that of the cardinalities |
//! | first appeared | Katsipoulakis et al. 2017, §4.1, Alg. 2 |

use super::candidates::{Candidates, lightest};
use super::cardinality::Cardinality;
use super::{Decide, Loads, estimates};
use crate::Result;
use crate::sketch::Reader;

pub(super) struct CardinalityImbalance<C> {
    workers: u32,
    candidates: Candidates,
    places: Vec<u32>,
    cardinality: C,
}

impl<C: Cardinality> CardinalityImbalance<C> {
    pub(super) fn new(workers: u32, candidates: Candidates) -> Result<Self> {
        Ok(Self { workers, candidates, places: Vec::new(), cardinality: C::new(workers)? })
    }
}

impl<C: Cardinality> Decide for CardinalityImbalance<C> {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        self.candidates.fill(hashes, &mut self.places);
        for (row, &hash) in hashes.iter().enumerate() {
            let estimate = |place| self.cardinality.estimate(place);
            let best = lightest(&self.places, hashes.len(), row, estimate);
            self.cardinality.update(best, hash);
            loads.add(best);
            out.push(best as i32);
        }
    }

    fn cardinalities(&self) -> Option<Vec<f64>> {
        Some(estimates(&self.cardinality, self.workers))
    }

    fn end_window(&mut self) {
        self.cardinality.clear();
    }

    fn reset(&mut self) {
        self.cardinality.clear();
    }

    fn bytes(&self) -> usize {
        self.cardinality.bytes()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.cardinality.write(out);
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.cardinality = C::read(reader, self.workers)?;
        Ok(())
    }
}
