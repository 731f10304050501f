//! Group affinity: a key that a candidate already has stays there; a new key goes to the candidate with the fewest
//! distinct keys (AM) or with the fewest rows (cAM).
//!
//! | | |
//! |---|---|
//! | imbalance | at least as large as the heaviest key's |
//! | aggregation cost | the minimum with exact sets; with sketches a wrong yes sends a key to a second candidate |
//! | time | O(d) a row |
//! | space | that of the cardinalities |
//! | first appeared | Katsipoulakis et al. 2017, §4.2, Alg. 3 (AM) and Alg. 4 (cAM) |

use super::Loads;
use super::candidates::lightest;
use super::cardinality::Cardinality;
use super::counted::Rule;

/// The criterion by which a new key's candidates are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Affinity {
    /// Distinct keys: AM.
    LeastKeys,
    /// Rows: cAM.
    LeastRows,
}

impl<C: Cardinality> Rule<C> for Affinity {
    fn decide(
        &mut self,
        hashes: &[u64],
        places: &[u32],
        cardinality: &mut C,
        loads: &mut Loads,
        out: &mut Vec<i32>,
    ) {
        for (row, &hash) in hashes.iter().enumerate() {
            let mut choices = places[row..].iter().step_by(hashes.len());
            let holder = choices.find(|&&place| cardinality.contains(place, hash));
            let best = holder.copied().unwrap_or_else(|| {
                let weight = |place| match self {
                    Affinity::LeastKeys => cardinality.estimate(place),
                    Affinity::LeastRows => loads.of(place) as f64,
                };
                let best = lightest(places, hashes.len(), row, weight);
                cardinality.update(best, hash);
                best
            });
            loads.add(best);
            out.push(best as i32);
        }
    }
}
