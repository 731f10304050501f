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

use super::hyperloglog::Dense;
use crate::state::Reader;
use crate::{Error, Result};

/// The number of distinct hashes.
///
/// ```
/// use windowkit::keys::remix;
/// use windowkit::sketch::Registers;
///
/// let mut registers = Registers::new(12)?;
/// for key in 0..100_000_u64 {
///     registers.update(remix(key % 50_000, 0));
/// }
/// assert!(!registers.would_change(remix(7, 0)));
/// assert!((registers.estimate() / 50_000.0 - 1.0).abs() < 0.04);
/// # Ok::<(), windowkit::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Registers(Dense);

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

    /// Appends the registers to `out`, as [`read`](Self::read) takes them.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.precision() as u8);
        out.extend(self.estimate().to_le_bytes());
        out.extend(&self.0.ranks);
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that no registers write.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let precision = Self::new(reader.u8()?.into())?.precision();
        let estimate = reader.f64()?;
        if !(estimate.is_finite() && estimate >= 0.0) {
            return Err(reader.damaged(&format!("an estimate of {estimate} distinct keys")));
        }
        let ranks = reader.take(1 << precision)?;
        let highest = 65 - precision;
        if let Some(rank) = ranks.iter().find(|&&rank| u32::from(rank) > highest) {
            return Err(reader.damaged(&format!("a register of {rank}, where {highest} is the highest")));
        }
        Ok(Self(Dense::of(ranks.to_vec(), Some(estimate))))
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
            let mut bytes = Vec::new();
            registers.write(&mut bytes);
            prop_assert_eq!(Registers::read(&mut Reader::of(&bytes, "test")).unwrap(), registers);
            for end in 0..bytes.len() {
                prop_assert!(Registers::read(&mut Reader::of(&bytes[..end], "test")).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(registers) = Registers::read(&mut Reader::of(&bytes, "test")) {
                prop_assert!(registers.estimate() >= 0.0);
            }
        }
    }
}
