//! The candidate workers of a key: independent hash functions H_1 … H_d (Katsipoulakis et al. 2017, §2.4 and Alg. 1).

use std::hint::select_unpredictable;

use crate::keys::remix;

/// `d` hash functions from keys to workers.
///
/// Candidate `j` (from 0) of a key with the 64-bit hash `h` is the upper half of the 128-bit product of
/// `remix(h, j + 1)` and the number of workers. The functions are independent, so that two candidates of a key may be
/// the same worker, as in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidates {
    workers: u32,
    choices: u32,
}

impl Candidates {
    /// `choices` functions onto `workers` workers.
    pub fn new(workers: u32, choices: u32) -> Self {
        Self { workers, choices }
    }

    /// Number of candidates of a key.
    pub fn choices(&self) -> usize {
        self.choices as usize
    }

    /// Candidate `choice` of the key with this hash.
    #[inline]
    pub fn of(&self, hash: u64, choice: u32) -> u32 {
        spread(remix(hash, u64::from(choice) + 1), self.workers)
    }

    /// The candidates of many keys: those of `hashes[i]` are at `i`, `i + n`, `i + 2 n` …, where n is the number of
    /// hashes.
    pub fn fill(&self, hashes: &[u64], out: &mut Vec<u32>) {
        out.clear();
        for choice in 0..self.choices {
            out.extend(hashes.iter().map(|&hash| self.of(hash, choice)));
        }
    }
}

/// The candidate of least weight, the first of equals, among those at `row`, `row + rows`, `row + 2 rows` … as
/// [`Candidates::fill`] puts them.
///
/// Which candidate is lighter is practically random, so there is no branch on it.
#[inline(always)]
pub(super) fn lightest<W: PartialOrd + Copy>(
    places: &[u32],
    rows: usize,
    row: usize,
    weight: impl Fn(u32) -> W,
) -> u32 {
    let mut best = places[row];
    let mut least = weight(best);
    let mut at = row + rows;
    while at < places.len() {
        let (place, weight) = (places[at], weight(places[at]));
        let lighter = weight < least;
        best = select_unpredictable(lighter, place, best);
        least = select_unpredictable(lighter, weight, least);
        at += rows;
    }
    best
}

/// A 64-bit hash to one of `places`, evenly.
#[inline]
pub(super) fn spread(hash: u64, places: u32) -> u32 {
    ((u128::from(hash) * u128::from(places)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_candidate_of_its_share() {
        let candidates = Candidates::new(7, 3);
        let hashes: Vec<u64> = (0..70_000).map(|key| remix(key, 0)).collect();
        let mut places = Vec::new();
        candidates.fill(&hashes, &mut places);
        for choice in places.chunks(hashes.len()) {
            let mut counts = [0; 7];
            choice.iter().for_each(|&worker| counts[worker as usize] += 1);
            // Five standard deviations of a binomial count with mean 10,000.
            assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        }
        // Independent: two candidates agree in one of seven.
        let (first, rest) = places.split_at(hashes.len());
        let same = first.iter().zip(rest).filter(|(a, b)| a == b).count();
        assert!((9_500..10_500).contains(&same), "{same}");
    }
}
