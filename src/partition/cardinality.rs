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

use crate::Result;
use crate::keys::remix;
use crate::sketch::{Filter, Registers};
use crate::state::Reader;

/// 2^12 registers a worker, as in the paper's experiments (§5.1).
const PRECISION: u32 = 12;
/// False positives of the filter.
const RATE: f64 = 0.005;

/// Distinct keys per worker.
pub(super) trait Cardinality: Clone + Send {
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
    /// Appends the state to `out`.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads what `write` wrote, for this many workers.
    fn read(reader: &mut Reader<'_>, workers: u32) -> Result<Self>;
}

/// Exact sets (§3.2.1).
#[derive(Clone)]
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

    fn write(&self, out: &mut Vec<u8>) {
        // Sorted, so that equal states are equal bytes.
        let mut pairs: Vec<_> = self.pairs.iter().copied().collect();
        pairs.sort_unstable();
        out.extend((pairs.len() as u64).to_le_bytes());
        for (hash, worker) in pairs {
            out.extend(hash.to_le_bytes());
            out.extend(worker.to_le_bytes());
        }
    }

    fn read(reader: &mut Reader<'_>, workers: u32) -> Result<Self> {
        let mut exact = Self::new(workers)?;
        for _ in 0..reader.number()? {
            let (hash, worker) = (reader.number()?, reader.u32()?);
            if worker >= workers {
                return Err(reader.damaged(&format!("worker {worker} of {workers}")));
            }
            exact.update(worker, hash);
        }
        Ok(exact)
    }
}

/// HyperLogLog registers a worker with the optimistic trial update (§3.2.2).
#[derive(Clone)]
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

    fn write(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|registers| registers.write(out));
    }

    fn read(reader: &mut Reader<'_>, workers: u32) -> Result<Self> {
        let registers: Vec<Registers> =
            (0..workers).map(|_| Registers::read(reader)).collect::<Result<_>>()?;
        if let Some(other) = registers.iter().find(|registers| registers.precision() != PRECISION) {
            return Err(reader.damaged(&format!("registers of precision {}", other.precision())));
        }
        Ok(Self(registers))
    }
}

/// One filter of (key, worker) pairs that grows with them, so that it does not decay.
#[derive(Clone)]
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

    fn write(&self, out: &mut Vec<u8>) {
        self.counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
        self.pairs.write(out);
    }

    fn read(reader: &mut Reader<'_>, workers: u32) -> Result<Self> {
        let counts = reader.u64s(workers as usize)?;
        let pairs = Filter::read(reader)?;
        if counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count)) != Some(pairs.len()) {
            return Err(reader.damaged("cardinalities that are not those of its filter"));
        }
        Ok(Self { counts, pairs })
    }
}
