//! Cardinality imbalance minimisation (CM): the candidate with the fewest distinct keys.
//!
//! | | |
//! |---|---|
//! | imbalance | none is aimed at; that of distinct keys (Eq. 6) is kept low |
//! | aggregation cost | up to d × distinct keys |
//! | time | O(d) a row |
//! | space | that of the cardinalities |
//! | first appeared | Katsipoulakis et al. 2017, §4.1, Alg. 2 |

use super::Loads;
use super::candidates::lightest;
use super::cardinality::Cardinality;
use super::counted::Rule;

#[derive(Clone)]
pub(super) struct CardinalityImbalance;

impl<C: Cardinality> Rule<C> for CardinalityImbalance {
    fn decide(
        &mut self,
        hashes: &[u64],
        places: &[u32],
        cardinality: &mut C,
        loads: &mut Loads,
        out: &mut Vec<i32>,
    ) {
        for (row, &hash) in hashes.iter().enumerate() {
            let best = lightest(places, hashes.len(), row, |place| cardinality.estimate(place));
            cardinality.update(best, hash);
            loads.add(best);
            out.push(best as i32);
        }
    }
}
