//! Approximate membership that grows with its keys: a scalable, blocked Bloom filter.
//!
//! | | |
//! |---|---|
//! | needs | 64-bit hashes with independent bits |
//! | time | O(log n): one cache line a layer, for a key that is in it up to the layer that has it |
//! | space | at a rate of 1 %: 12 to 29 bits a key when the last of up to ten layers is full, 40 to 60 when it is new |
//! | error | no false negatives; false positives at most at the given rate, however many keys there are |
//! | first appeared | Bloom, CACM 1970; layers that grow: Almeida et al., *Scalable Bloom Filters*, IPL 2007; blocks: Putze et al., *Cache-, hash- and space-efficient Bloom filters*, WEA 2007; several words a block: Apple, *Split block Bloom filters*, 2021 |
//!
//! A layer twice as large follows whenever the last is full, with a rate that is lower than all others' before it:
//! rate · 6 / (π² (i+1)²) for layer i, so that the sum over any number of layers stays below the rate. A key has one
//! block of 256 bits a layer, and two bits in each of its four words, the same two in every layer.

use serde::{Deserialize, Serialize};

use crate::keys::remix;
use crate::{Error, Result};

/// Words of a block.
const WORDS: usize = 4;
/// Keys of the first layer.
const FIRST: u64 = 1 << 12;

type Block = [u64; WORDS];

/// A set of keys that may report a key as present that is not, at a given rate.
///
/// ```
/// use windowkit_partition::keys::remix;
/// use windowkit_partition::sketch::Filter;
///
/// let mut seen = Filter::new(0.01)?;
/// for key in 0..1_000_000 {
///     seen.insert(remix(key, 0));
/// }
/// assert!(seen.contains(remix(5, 0)));
/// let wrong = (1_000_000..1_100_000).filter(|&key| seen.contains(remix(key, 0))).count();
/// assert!(wrong <= 1_000);
/// # Ok::<(), windowkit_partition::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Filter {
    rate: f64,
    len: u64,
    /// Keys that the last layer still has room for.
    #[serde(skip)]
    room: u64,
    layers: Vec<Vec<Block>>,
}

/// A filter as it is stored, before it is known to be one.
#[derive(Deserialize)]
struct Stored {
    rate: f64,
    len: u64,
    layers: Vec<Vec<Block>>,
}

impl TryFrom<Stored> for Filter {
    type Error = Error;

    fn try_from(Stored { rate, len, layers }: Stored) -> Result<Self> {
        let malformed = || Error::InvalidValue(format!("filter: its layers are not those of {len} keys"));
        let mut filter = Self::new(rate)?;
        let mut keys = 0;
        for stored in layers {
            let (capacity, blocks) = layer(rate, filter.layers.len());
            if keys >= len || stored.len() != blocks {
                return Err(malformed());
            }
            filter.layers.push(stored);
            keys += capacity;
        }
        if keys < len {
            return Err(malformed());
        }
        (filter.len, filter.room) = (len, keys - len);
        Ok(filter)
    }
}

impl Filter {
    /// An empty filter with at most this rate of false positives.
    ///
    /// # Errors
    /// `InvalidValue` for a rate outside 1e-6..=0.5.
    pub fn new(rate: f64) -> Result<Self> {
        if !(1e-6..=0.5).contains(&rate) {
            return Err(Error::InvalidValue(format!(
                "rate: {rate} was given; allowed is a rate of false positives from 0.000001 to 0.5"
            )));
        }
        Ok(Self { rate, len: 0, room: 0, layers: Vec::new() })
    }

    /// The bound of the rate of false positives.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Keys that were new when they were inserted: at least `1 - rate` of the distinct ones.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was inserted yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the key was inserted: always true if it was, rarely true if not.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        // Heavy keys are in the first, smallest layers.
        let mask = mask(hash);
        self.layers.iter().any(|layer| holds(&layer[place(hash, layer.len())], &mask))
    }

    /// Inserts a key; returns whether it was new, as far as the filter knows.
    #[inline]
    pub fn insert(&mut self, hash: u64) -> bool {
        if self.contains(hash) {
            return false;
        }
        if self.room == 0 {
            self.grow();
        }
        if let Some(layer) = self.layers.last_mut() {
            let block = place(hash, layer.len());
            layer[block].iter_mut().zip(mask(hash)).for_each(|(word, bits)| *word |= bits);
        }
        self.room -= 1;
        self.len += 1;
        true
    }

    /// Forgets all keys and the memory they took.
    pub fn clear(&mut self) {
        self.layers.clear();
        (self.len, self.room) = (0, 0);
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.layers.iter().map(|layer| size_of_val(&layer[..])).sum::<usize>()
    }

    #[cold]
    fn grow(&mut self) {
        let (capacity, blocks) = layer(self.rate, self.layers.len());
        self.layers.push(vec![[0; WORDS]; blocks]);
        self.room = capacity;
    }
}

/// Keys and blocks of layer `number`.
fn layer(rate: f64, number: usize) -> (u64, usize) {
    let keys = FIRST << number;
    let part = 6.0 / (std::f64::consts::PI * (number + 1) as f64).powi(2);
    (keys, (keys as f64 / keys_per_block(rate * part)).ceil() as usize)
}

/// How many keys a block may have on average for a rate of false positives.
fn keys_per_block(rate: f64) -> f64 {
    let (mut low, mut high) = (0.01, 256.0);
    for _ in 0..40 {
        let middle: f64 = (low + high) / 2.0;
        if false_positives(middle) <= rate { low = middle } else { high = middle }
    }
    low
}

/// The rate at an average of `keys` keys a block. Their number is Poisson distributed; each sets two bits of 64 in each
/// word, which may be the same bit.
fn false_positives(keys: f64) -> f64 {
    const UNSET: f64 = (1.0 - 1.0 / 64.0) * (1.0 - 1.0 / 64.0);
    let (mut rate, mut weight, mut unset) = (0.0, (-keys).exp(), 1.0);
    for count in 1..1000 {
        weight *= keys / f64::from(count);
        if f64::from(count) > keys && weight < 1e-20 {
            break;
        }
        unset *= UNSET;
        let set = 1.0 - unset;
        // Two bits that agree in one of 64 cases.
        let word: f64 = set * set * 63.0 / 64.0 + set / 64.0;
        rate += weight * word.powi(WORDS as i32);
    }
    rate
}

/// The block of a hash among `blocks`.
#[inline]
fn place(hash: u64, blocks: usize) -> usize {
    ((u128::from(hash) * blocks as u128) >> 64) as usize
}

/// Two bits in each word: eight times six bits of another hash, since the upper bits chose the block.
#[inline]
fn mask(hash: u64) -> Block {
    let bits = remix(hash, 0x0B10_0F11);
    std::array::from_fn(|word| 1 << (bits >> (12 * word) & 63) | 1 << (bits >> (12 * word + 6) & 63))
}

#[inline]
fn holds(block: &Block, mask: &Block) -> bool {
    block.iter().zip(mask).fold(0, |missing, (word, bits)| missing | (!word & bits)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decades of keys after the first size: the rate of false positives stays below the bound.
    #[test]
    fn does_not_decay() {
        for rate in [0.1, 0.01, 0.001] {
            let mut filter = Filter::new(rate).unwrap();
            for decade in [1_000_u64, 10_000, 100_000, 1_000_000] {
                (decade / 10..decade).for_each(|key| {
                    filter.insert(remix(key, 0));
                });
                assert!((decade / 10..decade).all(|key| filter.contains(remix(key, 0))));
                let lookups = 200_000;
                let wrong =
                    (0..lookups).filter(|key| filter.contains(remix(key + (1 << 40), 0))).count() as f64;
                // Five standard deviations above the bound.
                let bound = rate * lookups as f64;
                assert!(
                    wrong <= bound + 5.0 * bound.sqrt(),
                    "{wrong} of {lookups} at {decade} keys, rate {rate}"
                );
                assert!(filter.len() as f64 >= (1.0 - rate) * (decade - 100) as f64 - 5.0 * bound.sqrt());
            }
        }
    }

    #[test]
    fn takes_few_bits_a_key() {
        for (rate, bits) in [(0.1, 27.0), (0.01, 42.0), (0.001, 66.0)] {
            let mut filter = Filter::new(rate).unwrap();
            (0..300_000).for_each(|key| {
                filter.insert(remix(key, 0));
            });
            let taken = filter.bytes() as f64 * 8.0 / 300_000.0;
            assert!(taken <= bits, "{taken} bits a key for a rate of {rate}");
        }
    }

    #[test]
    fn rates_that_are_none_are_refused() {
        for rate in [0.0, -1.0, 0.6, f64::NAN, f64::INFINITY, 1e-7] {
            assert!(matches!(Filter::new(rate), Err(Error::InvalidValue(_))), "{rate}");
        }
    }

    proptest! {
        #[test]
        fn has_what_was_inserted(hashes in prop::collection::vec(any::<u64>(), 0..300), bits in 1_u32..64) {
            let mut filter = Filter::new(0.01).unwrap();
            for &hash in &hashes {
                let hash = hash >> bits;
                let there = filter.contains(hash);
                prop_assert_eq!(filter.insert(hash), !there);
            }
            prop_assert!(hashes.iter().all(|&hash| filter.contains(hash >> bits)));
            filter.clear();
            prop_assert_eq!(filter, Filter::new(0.01).unwrap());
        }

        #[test]
        fn bytes_come_back(keys in prop_oneof![0_u64..10, 4090_u64..4200, 0_u64..30_000]) {
            let mut filter = Filter::new(0.02).unwrap();
            (0..keys).for_each(|key| {
                filter.insert(remix(key, 0));
            });
            let bytes = postcard::to_allocvec(&filter).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Filter>(&bytes).unwrap(), filter);
            prop_assert!(postcard::from_bytes::<Filter>(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(rate in any::<f64>(), len in any::<u64>(), rest in 0_usize..100) {
            let blocks = rest / WORDS;
            let layers = vec![vec![[7_u64; WORDS]; blocks], vec![[7; WORDS]; rest - blocks]];
            let bytes = postcard::to_allocvec(&(rate, len, layers)).unwrap();
            prop_assert!(postcard::from_bytes::<Filter>(&bytes).is_err());
            let bytes = postcard::to_allocvec(&(rate, len, Vec::<Vec<Block>>::new())).unwrap();
            if let Ok(filter) = postcard::from_bytes::<Filter>(&bytes) {
                prop_assert!(filter.is_empty());
            }
        }
    }
}
