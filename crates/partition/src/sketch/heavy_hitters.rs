//! The heavy keys of a stream: Space-Saving within buckets of eight counters.
//!
//! | | |
//! |---|---|
//! | needs | 64-bit hashes with independent bits; which hash bits choose what is seeded with the hashes |
//! | time | O(1) worst case per insert: a single bucket is read |
//! | space | 25 bytes a counter |
//! | error | a count is never too low, and too high by at most the least counter of its bucket: an eighth of what was hashed into the bucket |
//! | first appeared | Metwally et al., *Efficient computation of frequent and top-k elements in data streams*, ICDT 2005; buckets as in a set-associative cache |
//!
//! Space-Saving gives a new key the place of the key with the least count, and that count as its error. Its usual form
//! keeps all counters sorted; here only the key's bucket is searched, so that a row costs one or two cache lines and a
//! key keeps its slot for as long as it is counted. With c counters in c / 8 buckets a bucket gets 8 / c of the light
//! rows on average, so that the error is about 1 / c of them, as without buckets.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Counters of a bucket.
const WAYS: usize = 8;

/// The keys of the largest counts, by their hashes, in constant memory.
///
/// ```
/// use windowkit_partition::keys::remix;
/// use windowkit_partition::sketch::HeavyHitters;
///
/// let mut keys = HeavyHitters::new(64)?;
/// for row in 0..10_000_u64 {
///     // Every third row has the same key, and so has row 7.
///     keys.insert(remix(if row % 3 == 0 { 7 } else { row }, 0), 1);
/// }
/// let heavy = keys.get(remix(7, 0)).expect("a heavy key is never given up");
/// assert!(heavy.count - heavy.error <= 3_335 && 3_335 <= heavy.count);
/// # Ok::<(), windowkit_partition::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct HeavyHitters {
    #[serde(skip)]
    shift: u32,
    total: u64,
    buckets: Vec<Bucket>,
}

/// Counters as they are stored, before they are known to be sound.
#[derive(Deserialize)]
struct Stored {
    total: u64,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Bucket {
    /// The last byte of each hash, so that one comparison of words determines which ways to check.
    #[serde(skip)]
    tags: u64,
    hashes: [u64; WAYS],
    /// A counter with a count of 0 is free.
    counts: [u64; WAYS],
    errors: [u64; WAYS],
}

const EMPTY: Bucket = Bucket { tags: 0, hashes: [0; WAYS], counts: [0; WAYS], errors: [0; WAYS] };
/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The outcome of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Where the key is counted, below [`HeavyHitters::capacity`]; unchanged until it is replaced by another key.
    pub slot: u32,
    /// At least the key's true count, this row included.
    pub count: u64,
    /// By how much the count may be too high.
    pub error: u64,
    /// Whether the slot was just taken, from another key or free: callers must reset what they keep by slot.
    pub fresh: bool,
}

/// A key that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The slot, as in [`Hit::slot`].
    pub slot: u32,
    /// The key's hash.
    pub hash: u64,
    /// At least the key's true count.
    pub count: u64,
    /// By how much the count may be too high.
    pub error: u64,
}

impl HeavyHitters {
    /// Counters for `capacity` keys, rounded up to a power of two that is at least 8.
    ///
    /// # Errors
    /// `InvalidValue` for a capacity of 0 or above 2^30.
    pub fn new(capacity: usize) -> Result<Self> {
        if !(1..=1 << 30).contains(&capacity) {
            return Err(Error::InvalidValue(format!(
                "capacity: {capacity} was given; allowed is 1 to 2^30 counters"
            )));
        }
        let buckets = capacity.next_power_of_two().max(WAYS) / WAYS;
        Ok(Self { shift: 64 - buckets.ilog2(), total: 0, buckets: vec![EMPTY; buckets] })
    }

    /// Number of counters.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// The sum of all weights.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Counts a key `weight` times.
    #[inline]
    pub fn insert(&mut self, hash: u64, weight: u64) -> Hit {
        self.total = self.total.saturating_add(weight);
        let number = self.number(hash);
        let bucket = &mut self.buckets[number];
        let (way, fresh) = match bucket.find(hash) {
            Some(way) => (way, bucket.counts[way] == 0),
            None => {
                let way = bucket.least();
                bucket.errors[way] = bucket.counts[way];
                bucket.put(way, hash);
                (way, true)
            }
        };
        bucket.counts[way] = bucket.counts[way].saturating_add(weight);
        let (count, error) = (bucket.counts[way], bucket.errors[way]);
        Hit { slot: (number * WAYS + way) as u32, count, error, fresh }
    }

    /// The counter of a key, if it has one.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<Counter> {
        let number = self.number(hash);
        let way = self.buckets[number].find(hash)?;
        Some(self.counter(number, way)).filter(|counter| counter.count > 0)
    }

    /// The largest count that a key without a counter can have: the least count of its bucket.
    #[inline]
    pub fn least(&self, hash: u64) -> u64 {
        let bucket = &self.buckets[self.number(hash)];
        bucket.counts[bucket.least()]
    }

    /// All counters in use, by slot.
    pub fn iter(&self) -> impl Iterator<Item = Counter> + '_ {
        let ways = move |number| (0..WAYS).map(move |way| self.counter(number, way));
        (0..self.buckets.len()).flat_map(ways).filter(|counter| counter.count > 0)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.total = 0;
        self.buckets.fill(EMPTY);
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.len() * size_of::<Bucket>()
    }

    #[inline]
    fn number(&self, hash: u64) -> usize {
        // A shift by 64, of a single bucket, is a shift by 0 and the mask makes it 0.
        (hash.wrapping_shr(self.shift)) as usize & (self.buckets.len() - 1)
    }

    fn counter(&self, number: usize, way: usize) -> Counter {
        let bucket = &self.buckets[number];
        Counter {
            slot: (number * WAYS + way) as u32,
            hash: bucket.hashes[way],
            count: bucket.counts[way],
            error: bucket.errors[way],
        }
    }
}

impl TryFrom<Stored> for HeavyHitters {
    type Error = Error;

    fn try_from(Stored { total, buckets }: Stored) -> Result<Self> {
        if !buckets.len().is_power_of_two() {
            return Err(Error::InvalidValue(format!(
                "counters: there are {} buckets of them",
                buckets.len()
            )));
        }
        let mut read = Self::new(buckets.len() * WAYS)?;
        read.total = total;
        for (number, mut bucket) in buckets.into_iter().enumerate() {
            for way in 0..WAYS {
                let (hash, count, error) = (bucket.hashes[way], bucket.counts[way], bucket.errors[way]);
                let misplaced = count > 0 && read.number(hash) != number;
                if misplaced || error > count || count > total {
                    return Err(Error::InvalidValue(format!(
                        "counters: one has a count of {count} with error {error}"
                    )));
                }
                bucket.put(way, hash);
            }
            read.buckets[number] = bucket;
        }
        Ok(read)
    }
}

impl Bucket {
    /// The way of a hash, the first if there are several: free counters are those of hash 0, and equal.
    #[inline]
    fn find(&self, hash: u64) -> Option<usize> {
        // A byte of 0 borrows from its upper bit; so may the byte after it, hence the comparison of hashes.
        let differences = self.tags ^ ((hash & 0xFF) * ONES);
        let mut zeros = differences.wrapping_sub(ONES) & !differences & (ONES << 7);
        while zeros != 0 {
            let way = zeros.trailing_zeros() as usize / 8;
            if self.hashes[way] == hash {
                return Some(way);
            }
            zeros &= zeros - 1;
        }
        None
    }

    /// The way of the least count, the first of equals.
    #[inline]
    fn least(&self) -> usize {
        // Counts beyond 2^61 all count as equal.
        let key = |way: usize| self.counts[way].min(u64::MAX >> 3) << 3 | way as u64;
        let pair = |way| key(way).min(key(way + 1));
        (pair(0).min(pair(2)).min(pair(4).min(pair(6))) & 7) as usize
    }

    #[inline]
    fn put(&mut self, way: usize, hash: u64) {
        self.hashes[way] = hash;
        self.tags = self.tags & !(0xFF << (8 * way)) | (hash & 0xFF) << (8 * way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::remix;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Hashes of few keys, key 0 among them with a hash of 0, and their weights.
    fn rows() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let key = prop_oneof![0_u64..10, 0_u64..300];
        let hash = |key| if key == 0 { 0 } else { remix(key, 0) };
        prop::collection::vec((key.prop_map(hash), 1_u64..5), 0..600)
    }

    fn exact(rows: &[(u64, u64)]) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        rows.iter().for_each(|&(hash, weight)| *counts.entry(hash).or_default() += weight);
        counts
    }

    fn counted(capacity: usize, rows: &[(u64, u64)]) -> HeavyHitters {
        let mut keys = HeavyHitters::new(capacity).unwrap();
        rows.iter().for_each(|&(hash, weight)| {
            keys.insert(hash, weight);
        });
        keys
    }

    fn assert_bounds(keys: &HeavyHitters, counts: &HashMap<u64, u64>) {
        assert_eq!(keys.total(), counts.values().sum::<u64>());
        let counters: HashMap<u64, Counter> = keys.iter().map(|counter| (counter.hash, counter)).collect();
        assert_eq!(counters.len(), keys.iter().count(), "a key is counted once");
        for (&hash, &count) in counts {
            assert_eq!(keys.get(hash), counters.get(&hash).copied());
            match keys.get(hash) {
                Some(counter) => {
                    assert!(counter.count - counter.error <= count && count <= counter.count, "{counter:?}");
                }
                None => assert!(count <= keys.least(hash)),
            }
        }
    }

    proptest! {
        #[test]
        fn counts_are_bounds(rows in rows(), capacity in 1_usize..130) {
            let mut keys = HeavyHitters::new(capacity).unwrap();
            let mut owners: HashMap<u32, u64> = HashMap::new();
            for &(hash, weight) in &rows {
                let hit = keys.insert(hash, weight);
                prop_assert_eq!(hit.fresh, owners.insert(hit.slot, hash) != Some(hash), "slots are reported when taken");
                let counter = keys.get(hash).unwrap();
                prop_assert_eq!((hit.slot, hit.count, hit.error), (counter.slot, counter.count, counter.error));
            }
            assert_bounds(&keys, &exact(&rows));
            // An eighth of what was hashed into the bucket.
            for number in 0..keys.buckets.len() {
                let weights = rows.iter().filter(|&&(hash, _)| keys.number(hash) == number).map(|&(_, weight)| weight);
                let bucket = &keys.buckets[number];
                prop_assert!(bucket.counts[bucket.least()] * WAYS as u64 <= weights.sum());
            }
        }

        #[test]
        fn bytes_come_back(rows in rows(), capacity in 1_usize..130) {
            let keys = counted(capacity, &rows);
            let bytes = postcard::to_allocvec(&keys).unwrap();
            prop_assert_eq!(postcard::from_bytes::<HeavyHitters>(&bytes).unwrap(), keys);
            for end in 0..bytes.len() {
                prop_assert!(postcard::from_bytes::<HeavyHitters>(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn any_counters_are_read_or_refused(
            total: u64,
            small: bool,
            values in prop::collection::vec(any::<[u64; WAYS]>(), 6),
        ) {
            // Hashes of one bucket are never misplaced; counts are sound if they ascend from the errors to the total.
            let sound = |values: &[u64; WAYS]| values.map(|value| if small { value % (total / 2).max(1) } else { value });
            let bucket = |at: usize| {
                let errors = sound(&values[3 * at + 2]);
                let counts = if small { errors.map(|error| 2 * error) } else { values[3 * at + 1] };
                (values[3 * at], counts, errors)
            };
            for buckets in [vec![], vec![bucket(0)], vec![bucket(0), bucket(1)], vec![bucket(0); 3]] {
                let bytes = postcard::to_allocvec(&(total, &buckets)).unwrap();
                let read = postcard::from_bytes::<HeavyHitters>(&bytes);
                prop_assert!(!small || buckets.len() != 1 || read.is_ok());
                if let Ok(mut keys) = read {
                    keys.insert(1, u64::MAX);
                }
            }
        }
    }

    #[test]
    fn a_heavy_key_is_found_among_many_light_ones() {
        let mut keys = HeavyHitters::new(256).unwrap();
        // Every hundredth row is of one key, the others are of a key each.
        let key = |row: u64| remix(if row.is_multiple_of(100) { u64::MAX } else { row }, 5);
        (0..200_000).for_each(|row| {
            keys.insert(key(row), 1);
        });
        let heavy = keys.get(key(0)).unwrap();
        assert!(heavy.count - heavy.error <= 2_000 && 2_000 <= heavy.count);
        // No other key has a guaranteed share nearly as large.
        assert_eq!(keys.iter().filter(|counter| counter.count - counter.error > 100).count(), 1);
    }

    #[test]
    fn clearing_starts_anew() {
        let mut keys = counted(64, &[(7, 3), (9, 1)]);
        keys.clear();
        assert_eq!(keys, HeavyHitters::new(64).unwrap());
        assert_eq!(keys.get(7), None);
    }

    #[test]
    fn other_capacities_are_refused() {
        assert!(matches!(HeavyHitters::new(0), Err(Error::InvalidValue(_))));
        assert!(matches!(HeavyHitters::new((1 << 30) + 1), Err(Error::InvalidValue(_))));
    }
}
