//! Hybrid imbalance minimisation (LM): the candidate with the least mean of rows and distinct keys, both normalised.
//!
//! | | |
//! |---|---|
//! | imbalance | close to that of partial key for a bias near 1, to that of CM for a bias near 0 |
//! | aggregation cost | up to d × distinct keys |
//! | time | O(d) a row, amortised: see [`Extent`] |
//! | space | that of the cardinalities |
//! | first appeared | Katsipoulakis et al. 2017, §4.3, Alg. 5, with the scores of Eq. 7 to 9 |

use super::Loads;
use super::candidates::lightest;
use super::cardinality::Cardinality;
use super::counted::Rule;

#[derive(Clone)]
pub(super) struct Hybrid {
    bias: f64,
    /// Estimated cardinalities as whole numbers, so that many workers can share the least.
    keys: Vec<u64>,
    /// Least and most of keys and rows; none until the first row after they may have changed.
    extents: Option<[Extent; 2]>,
}

impl Hybrid {
    pub(super) fn new(bias: f64) -> Self {
        Self { bias, keys: Vec::new(), extents: None }
    }
}

impl<C: Cardinality> Rule<C> for Hybrid {
    fn decide(
        &mut self,
        hashes: &[u64],
        places: &[u32],
        cardinality: &mut C,
        loads: &mut Loads,
        out: &mut Vec<i32>,
    ) {
        let [mut of_keys, mut of_rows] =
            self.extents.unwrap_or_else(|| [Extent::of(&self.keys), Extent::of(loads.all())]);
        for (row, &hash) in hashes.iter().enumerate() {
            // Eq. 9 over Eq. 7 and 8, times both ranges: no division, and whole numbers up to the bias.
            let (rows_range, keys_range) = (of_rows.range(), of_keys.range());
            // Signed on the way, since that is one instruction.
            let score = |place: u32| {
                let rows = (loads.of(place) - of_rows.least) as i64 as f64 * keys_range;
                let keys = (self.keys[place as usize] - of_keys.least) as i64 as f64 * rows_range;
                self.bias * rows + (1.0 - self.bias) * keys
            };
            let best = lightest(places, hashes.len(), row, score);
            if cardinality.update(best, hash) {
                let (old, new) = (self.keys[best as usize], cardinality.estimate(best).round() as u64);
                self.keys[best as usize] = new;
                of_keys.raised(old, new, &self.keys);
            }
            let old = loads.of(best);
            loads.add(best);
            of_rows.raised(old, old + 1, loads.all());
            out.push(best as i32);
        }
        self.extents = Some([of_keys, of_rows]);
    }

    fn derive(&mut self, estimates: &[f64]) {
        self.keys = estimates.iter().map(|estimate| estimate.round() as u64).collect();
        self.extents = None;
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.keys[..])
    }
}

/// Least and most of counters that only grow.
///
/// The counters are searched for a new least only when the last one at the old least has left it. Each search raises
/// the least, which never exceeds the mean, so that all searches together take O(sum of the counters).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    least: u64,
    at_least: usize,
    most: u64,
}

impl Extent {
    fn of(counters: &[u64]) -> Self {
        let least = counters.iter().copied().min().unwrap_or_default();
        let at_least = counters.iter().filter(|&&counter| counter == least).count();
        Self { least, at_least, most: counters.iter().copied().max().unwrap_or_default() }
    }

    #[inline]
    fn raised(&mut self, old: u64, new: u64, counters: &[u64]) {
        self.most = self.most.max(new);
        if old == self.least && new > old {
            self.at_least -= 1;
            if self.at_least == 0 {
                *self = Self::of(counters);
            }
        }
    }

    /// What Eq. 7 and 8 divide by; 1 where all counters are equal, so that they are normalised to 0.
    #[inline]
    fn range(&self) -> f64 {
        (self.most - self.least).max(1) as i64 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_extent_is_least_and_most(steps in prop::collection::vec((0..5_usize, 1..4_u64), 0..200)) {
            let mut counters = vec![0; 5];
            let mut extent = Extent::of(&counters);
            for (place, by) in steps {
                let old = counters[place];
                counters[place] += by;
                extent.raised(old, old + by, &counters);
                prop_assert_eq!(extent.least, *counters.iter().min().unwrap());
                prop_assert_eq!(extent.most, *counters.iter().max().unwrap());
            }
        }
    }
}
