//! Group affinity: a key that a candidate has got stays there; a new key goes to the candidate with the fewest distinct
//! keys (AM) or with the fewest rows (cAM).
//!
//! | | |
//! |---|---|
//! | imbalance | at least as large as the heaviest key's |
//! | aggregation cost | the minimum with exact sets; with sketches a wrong yes sends a key to a second candidate |
//! | time | O(d) a row |
//! | space | that of the cardinalities |
//! | first appeared | Katsipoulakis et al. 2017, §4.2, Alg. 3 (AM) and Alg. 4 (cAM) |

use super::candidates::{Candidates, lightest};
use super::cardinality::Cardinality;
use super::{Decide, Loads, estimates};
use crate::Result;
use crate::sketch::Reader;

/// What a new key's candidates are compared by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Least {
    /// Distinct keys: AM.
    Keys,
    /// Rows: cAM.
    Rows,
}

pub(super) struct Affinity<C> {
    workers: u32,
    candidates: Candidates,
    least: Least,
    places: Vec<u32>,
    cardinality: C,
}

impl<C: Cardinality> Affinity<C> {
    pub(super) fn new(workers: u32, candidates: Candidates, least: Least) -> Result<Self> {
        Ok(Self { workers, candidates, least, places: Vec::new(), cardinality: C::new(workers)? })
    }

    fn weight(&self, place: u32, loads: &Loads) -> f64 {
        match self.least {
            Least::Keys => self.cardinality.estimate(place),
            Least::Rows => loads.of(place) as f64,
        }
    }
}

impl<C: Cardinality> Decide for Affinity<C> {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        let mut places = std::mem::take(&mut self.places);
        self.candidates.fill(hashes, &mut places);
        for (row, &hash) in hashes.iter().enumerate() {
            let mut choices = places[row..].iter().step_by(hashes.len());
            let known = choices.find(|&&place| self.cardinality.contains(place, hash));
            let best = known.copied().unwrap_or_else(|| {
                let best = lightest(&places, hashes.len(), row, |place| self.weight(place, loads));
                self.cardinality.update(best, hash);
                best
            });
            loads.add(best);
            out.push(best as i32);
        }
        self.places = places;
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
