//! The registers of a HyperLogLog for keys: a partitioner needs an estimate and a trial with every row (Katsipoulakis
//! et al., VLDB 2017, §3.2.2), so that both take O(1).
//!
//! | | |
//! |---|---|
//! | needs | 64-bit hashes with independent bits |
//! | time | O(1) an update, a trial and an estimate; O(2^p) a clear |
//! | space | 2^p bytes |
//! | error | 0.84 / sqrt(2^p) relative standard error |
//! | first appeared | see [`HyperLogLog`](super::HyperLogLog), whose registers these are, raised by hashes of keys |

use serde::{Deserialize, Serialize};

use super::hyperloglog::Dense;
use crate::{Error, Result};

/// The number of distinct hashes.
///
/// ```
/// use windowkit_partition::keys::remix;
/// use windowkit_partition::sketch::Registers;
///
/// let mut registers = Registers::new(12)?;
/// for key in 0..100_000_u64 {
///     registers.update(remix(key % 50_000, 0));
/// }
/// assert!(!registers.would_change(remix(7, 0)));
/// assert!((registers.estimate() / 50_000.0 - 1.0).abs() < 0.04);
/// # Ok::<(), windowkit_partition::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Registers(Dense);

/// Registers as they are stored, before they are known to be sound.
#[derive(Serialize, Deserialize)]
struct Stored {
    estimate: f64,
    ranks: Vec<u8>,
}

impl From<Registers> for Stored {
    fn from(registers: Registers) -> Self {
        Self { estimate: registers.estimate(), ranks: registers.0.ranks }
    }
}

impl TryFrom<Stored> for Registers {
    type Error = Error;

    fn try_from(Stored { estimate, ranks }: Stored) -> Result<Self> {
        if !ranks.len().is_power_of_two() {
            return Err(Error::InvalidValue(format!("registers: there are {} of them", ranks.len())));
        }
        let precision = Self::new(ranks.len().ilog2())?.precision();
        if !(estimate.is_finite() && estimate >= 0.0) {
            return Err(Error::InvalidValue(format!(
                "registers: of an estimate of {estimate} distinct keys"
            )));
        }
        let highest = 65 - precision;
        if let Some(rank) = ranks.iter().find(|&&rank| u32::from(rank) > highest) {
            return Err(Error::InvalidValue(format!(
                "registers: one is {rank}, where {highest} is the highest"
            )));
        }
        Ok(Self(Dense::of(ranks, Some(estimate))))
    }
}

impl Registers {
    /// Empty registers, 2^precision of them.
    ///
    /// # Errors
    /// `InvalidValue` for a precision outside 4..=18.
    pub fn new(precision: u32) -> Result<Self> {
        if !(4..=18).contains(&precision) {
            return Err(Error::InvalidValue(format!(
                "precision: {precision} was given; allowed is 4 to 18, for 2^precision registers"
            )));
        }
        Ok(Self(Dense::new(precision, std::iter::empty(), 0.0)))
    }

    /// The logarithm to the base 2 of the number of registers.
    pub fn precision(&self) -> u32 {
        self.0.ranks.len().ilog2()
    }

    /// Adds a hash; returns whether that changed a register. A hash that was seen before never does.
    #[inline]
    pub fn update(&mut self, hash: u64) -> bool {
        let (index, rank) = self.place(hash);
        self.0.raise(index, rank)
    }

    /// Whether [`update`](Self::update) with this hash would change a register. False for every hash seen before, and
    /// for more and more of the others as the registers fill up.
    #[inline]
    pub fn would_change(&self, hash: u64) -> bool {
        let (index, rank) = self.place(hash);
        rank > self.0.ranks[index]
    }

    /// The estimated number of distinct hashes. O(1).
    #[inline]
    pub fn estimate(&self) -> f64 {
        self.0.running.unwrap_or_default()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0 = Dense::new(self.precision(), std::iter::empty(), 0.0);
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.ranks.len()
    }

    /// The register of a hash, by its upper bits, and the place of the first 1 in the others.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u8) {
        let precision = self.precision();
        let index = (hash >> (64 - precision)) as usize;
        // The stop bit bounds the rank if all other bits are 0.
        let rest = hash << precision | 1 << (precision - 1);
        (index, rest.leading_zeros() as u8 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::remix;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(precision: u32, keys: impl IntoIterator<Item = u64>) -> Registers {
        let mut registers = Registers::new(precision).unwrap();
        keys.into_iter().for_each(|key| {
            registers.update(remix(key, 3));
        });
        registers
    }

    /// The definition: the longest run of leading zeros, plus one, among the hashes of each register.
    fn ranks(precision: u32, hashes: &[u64]) -> Vec<u8> {
        let mut ranks = vec![0; 1 << precision];
        for hash in hashes {
            let bits = format!("{hash:064b}");
            let (index, rest) = bits.split_at(precision as usize);
            let rank = rest.find('1').unwrap_or(rest.len()) as u8 + 1;
            let register = &mut ranks[usize::from_str_radix(index, 2).unwrap()];
            *register = rank.max(*register);
        }
        ranks
    }

    #[test]
    fn estimates_are_within_four_standard_errors() {
        for precision in [4, 8, 12, 18] {
            let mut registers = Registers::new(precision).unwrap();
            let mut wanted = 1_u64;
            for key in 1..=2_000_000_u64 {
                registers.update(remix(key, 17));
                if key == wanted {
                    let error = 4.0 * 0.84 / f64::from(1 << precision).sqrt();
                    let ratio = registers.estimate() / key as f64;
                    assert!((ratio - 1.0).abs() <= error, "{precision}: {ratio} of {key}");
                    wanted = wanted * 3 + 1;
                }
            }
        }
    }

    #[test]
    fn clearing_starts_anew() {
        let mut registers = of(6, 0..1000);
        registers.clear();
        assert_eq!(registers, Registers::new(6).unwrap());
        assert_eq!(registers.estimate(), 0.0);
    }

    #[test]
    fn other_precisions_are_refused() {
        assert!(matches!(Registers::new(3), Err(Error::InvalidValue(text)) if text.contains("4 to 18")));
        assert!(matches!(Registers::new(19), Err(Error::InvalidValue(_))));
    }

    proptest! {
        #[test]
        fn registers_are_as_defined(
            precision in 4_u32..=12,
            hashes in prop::collection::vec((any::<u64>(), 0_u32..64), 0..200),
        ) {
            // Shifted, so that long runs of zeros occur.
            let hashes: Vec<u64> = hashes.into_iter().map(|(hash, shift)| (hash >> shift).rotate_right(9)).collect();
            let mut registers = Registers::new(precision).unwrap();
            let mut estimate = 0.0;
            for (row, &hash) in hashes.iter().enumerate() {
                let before = ranks(precision, &hashes[..row]);
                let changes = ranks(precision, &hashes[..=row]) != before;
                if changes {
                    let sum: f64 = before.iter().map(|&rank| 0.5_f64.powi(rank.into())).sum();
                    estimate += before.len() as f64 / sum;
                }
                prop_assert_eq!(registers.would_change(hash), changes);
                prop_assert_eq!(registers.update(hash), changes);
                prop_assert!(!registers.would_change(hash));
                prop_assert!((registers.estimate() - estimate).abs() <= 1e-9 * estimate);
            }
            prop_assert_eq!(&registers.0.ranks, &ranks(precision, &hashes));
        }

        #[test]
        fn bytes_come_back(precision in 4_u32..=10, keys in 0_u64..3000) {
            let registers = of(precision, 0..keys);
            let bytes = postcard::to_allocvec(&registers).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Registers>(&bytes).unwrap(), registers);
            for end in 0..bytes.len() {
                prop_assert!(postcard::from_bytes::<Registers>(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            estimate in prop_oneof![any::<f64>(), Just(1.5)],
            ranks in prop_oneof![0..40_usize, Just(16), Just(32)].prop_flat_map(|len| vec(0_u8..64, len)),
        ) {
            let is_sound = estimate.is_finite()
                && estimate >= 0.0
                && matches!(ranks.len(), 16 | 32)
                && ranks.iter().all(|&rank| u32::from(rank) <= 65 - ranks.len().ilog2());
            let read = postcard::from_bytes::<Registers>(&postcard::to_allocvec(&(estimate, &ranks)).unwrap());
            prop_assert_eq!(read.is_ok(), is_sound);
        }
    }
}
