//! How many distinct keys each worker has, and whether a worker has a key: the array C of the paper's algorithms
//! (Katsipoulakis et al. 2017, §3.2), in three kinds.
//!
//! | kind | `contains` | `estimate` | memory |
//! |---|---|---|---|
//! | [`Exact`], the paper's naive sets | exact | exact | some 20 bytes a pair of key and worker |
//! | [`Sketched`], HyperLogLog | optimistic: says yes too often once keys outnumber registers | 1.3 % standard error; only of those keys that `contains` did not know, if it is called first (AM, cAM) | 4 KiB a worker |
//! | [`Filtered`], one growing filter of pairs | wrong in at most 0.5 % of the noes | 0.5 % too low at most | some 3 bytes a pair |
//!
//! Keys are their 64-bit hashes: of n keys, two share a hash with probability n² / 2⁶⁵ (3 in a million for 10⁷ keys),
//! and integers of a single column never do.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::keys::remix;
use crate::sketch::{Filter, Registers};

/// 2^12 registers a worker, as in the paper's experiments (§5.1).
const PRECISION: u32 = 12;
/// False positives of the filter.
const RATE: f64 = 0.005;

/// Distinct keys per worker.
pub(super) trait Cardinality: Clone + Send + Serialize + DeserializeOwned {
    /// For this many workers, none of which has a key.
    fn new(workers: u32) -> Result<Self>;
    /// Whether the worker has the key, as far as this kind knows.
    fn contains(&self, worker: u32, hash: u64) -> bool;
    /// Adds the key to the worker; returns whether the worker's estimate changed.
    fn update(&mut self, worker: u32, hash: u64) -> bool;
    /// The number of distinct keys of the worker. O(1).
    fn estimate(&self, worker: u32) -> f64;
    /// Forgets all keys.
    fn clear(&mut self);
    /// Memory in bytes.
    fn bytes(&self) -> usize;
    /// Whether this is what so many workers can have: of a state that was read.
    fn is_of(&self, workers: u32) -> bool;
}

/// Exact sets (§3.2.1).
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Pairs", into = "Pairs")]
pub(super) struct Exact {
    counts: Vec<u64>,
    pairs: HashSet<(u64, u32), FixedState>,
}

impl Cardinality for Exact {
    fn new(workers: u32) -> Result<Self> {
        Ok(Self { counts: vec![0; workers as usize], pairs: HashSet::with_hasher(FixedState::default()) })
    }

    fn contains(&self, worker: u32, hash: u64) -> bool {
        self.pairs.contains(&(hash, worker))
    }

    fn update(&mut self, worker: u32, hash: u64) -> bool {
        let new = self.pairs.insert((hash, worker));
        self.counts[worker as usize] += u64::from(new);
        new
    }

    fn estimate(&self, worker: u32) -> f64 {
        self.counts[worker as usize] as f64
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.pairs.clear();
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.counts[..]) + self.pairs.allocation_size()
    }

    fn is_of(&self, workers: u32) -> bool {
        self.counts.len() == workers as usize && self.pairs.iter().all(|&(_, worker)| worker < workers)
    }
}

/// Exact sets as they are stored.
#[derive(Serialize, Deserialize)]
struct Pairs {
    counts: Vec<u64>,
    /// Sorted, so that equal states are equal bytes.
    pairs: Vec<(u64, u32)>,
}

impl From<Exact> for Pairs {
    fn from(Exact { counts, pairs }: Exact) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        Self { counts, pairs }
    }
}

impl From<Pairs> for Exact {
    fn from(Pairs { mut counts, pairs }: Pairs) -> Self {
        counts.fill(0);
        let pairs: HashSet<_, _> = pairs.into_iter().collect();
        // Workers that do not exist have no count; `is_of` finds them.
        for &(_, worker) in &pairs {
            counts.get_mut(worker as usize).into_iter().for_each(|count| *count += 1);
        }
        Self { counts, pairs }
    }
}

/// HyperLogLog registers a worker with the optimistic trial update (§3.2.2).
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Sketched(Vec<Registers>);

impl Cardinality for Sketched {
    fn new(workers: u32) -> Result<Self> {
        Ok(Self(vec![Registers::new(PRECISION)?; workers as usize]))
    }

    #[inline]
    fn contains(&self, worker: u32, hash: u64) -> bool {
        !self.0[worker as usize].would_change(hash)
    }

    #[inline]
    fn update(&mut self, worker: u32, hash: u64) -> bool {
        self.0[worker as usize].update(hash)
    }

    #[inline]
    fn estimate(&self, worker: u32) -> f64 {
        self.0[worker as usize].estimate()
    }

    fn clear(&mut self) {
        self.0.iter_mut().for_each(Registers::clear);
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Registers::bytes).sum()
    }

    fn is_of(&self, workers: u32) -> bool {
        self.0.len() == workers as usize && self.0.iter().all(|registers| registers.precision() == PRECISION)
    }
}

/// One filter of (key, worker) pairs that grows with them, so that it does not decay.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Filtered {
    counts: Vec<u64>,
    pairs: Filter,
}

impl Filtered {
    #[inline]
    fn pair(worker: u32, hash: u64) -> u64 {
        remix(hash, u64::from(worker) ^ 0x5741_5445_5246_494C)
    }
}

impl Cardinality for Filtered {
    fn new(workers: u32) -> Result<Self> {
        Ok(Self { counts: vec![0; workers as usize], pairs: Filter::new(RATE)? })
    }

    #[inline]
    fn contains(&self, worker: u32, hash: u64) -> bool {
        self.pairs.contains(Self::pair(worker, hash))
    }

    #[inline]
    fn update(&mut self, worker: u32, hash: u64) -> bool {
        let new = self.pairs.insert(Self::pair(worker, hash));
        self.counts[worker as usize] += u64::from(new);
        new
    }

    #[inline]
    fn estimate(&self, worker: u32) -> f64 {
        self.counts[worker as usize] as f64
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.pairs.clear();
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.counts[..]) + self.pairs.bytes()
    }

    fn is_of(&self, workers: u32) -> bool {
        let all = self.counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        self.counts.len() == workers as usize && all == Some(self.pairs.len()) && self.pairs.rate() == RATE
    }
}
