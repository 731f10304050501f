//! Dense HyperLogLog registers with an estimate at hand after every update.
//!
//! | | |
//! |---|---|
//! | needs | 64-bit hashes with independent bits |
//! | time | O(1) an update, a trial and an estimate; O(2^p) a merge and a clear |
//! | space | 2^p bytes |
//! | error | 0.84 / sqrt(2^p) relative standard error; 1.04 / sqrt(2^p) for what was merged |
//! | first appeared | Flajolet et al., *HyperLogLog*, AofA 2007; the running estimate (HIP) is Cohen, *All-Distances Sketches, Revisited*, PODS 2014, and Ting, KDD 2014; the estimate of merged registers is Ertl, *New cardinality estimation algorithms for HyperLogLog sketches*, 2017, Alg. 6 |
//!
//! A partitioner asks for an estimate and for a trial with every row (Katsipoulakis et al., VLDB 2017, §3.2.2), hence
//! HIP: when an update changes a register, the estimate grows by the inverse of the probability that a new key would
//! have. That probability is a sum over registers, kept as an integer, so that it cannot drift.

use super::Reader;
use crate::{Error, Result};

/// The sum of 2^-rank over the registers counts in units of 2^-UNIT; it is exact up to 2^UNIT keys a register.
const UNIT: u32 = 44;

/// How many distinct hashes there were.
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
pub struct Registers {
    precision: u32,
    ranks: Vec<u8>,
    inverses: u64,
    estimate: f64,
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
        let registers = 1 << precision;
        Ok(Self { precision, ranks: vec![0; registers], inverses: (registers as u64) << UNIT, estimate: 0.0 })
    }

    /// The logarithm to the base 2 of the number of registers.
    pub fn precision(&self) -> u32 {
        self.precision
    }

    /// Takes in a hash; whether that changed a register. A hash that was seen before never does.
    #[inline]
    pub fn update(&mut self, hash: u64) -> bool {
        let (index, rank) = self.place(hash);
        let old = self.ranks[index];
        if rank <= old {
            return false;
        }
        self.ranks[index] = rank;
        self.estimate += self.ranks.len() as f64 / (self.inverses.max(1) as f64 / (1_u64 << UNIT) as f64);
        self.inverses = self.inverses - inverse(old) + inverse(rank);
        true
    }

    /// Whether [`update`](Self::update) with this hash would change a register. False for every hash that was seen,
    /// and for more and more of the others as the registers fill up.
    #[inline]
    pub fn would_change(&self, hash: u64) -> bool {
        let (index, rank) = self.place(hash);
        rank > self.ranks[index]
    }

    /// The estimated number of distinct hashes. O(1).
    #[inline]
    pub fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Takes in what the other saw. From here on the estimate is that of the registers alone, plus what is new.
    ///
    /// # Errors
    /// `InvalidValue` if the precisions differ.
    pub fn merge(&mut self, other: &Registers) -> Result<()> {
        if self.precision != other.precision {
            return Err(Error::InvalidValue(format!(
                "other: it has precision {}; allowed is {}, that of the registers it is merged into",
                other.precision, self.precision
            )));
        }
        self.ranks.iter_mut().zip(&other.ranks).for_each(|(rank, &other)| *rank = other.max(*rank));
        self.inverses = self.ranks.iter().map(|&rank| inverse(rank)).sum();
        self.estimate = of_registers(&self.ranks, 64 - self.precision);
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranks.fill(0);
        self.inverses = (self.ranks.len() as u64) << UNIT;
        self.estimate = 0.0;
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.ranks.len()
    }

    /// Appends the registers to `out`, as [`read`](Self::read) takes them.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.precision as u8);
        out.extend(self.estimate.to_le_bytes());
        out.extend(&self.ranks);
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that no registers write.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut registers = Self::new(reader.u8()?.into())?;
        registers.estimate = reader.f64()?;
        if !(registers.estimate.is_finite() && registers.estimate >= 0.0) {
            return Err(reader.damaged(&format!("an estimate of {} distinct keys", registers.estimate)));
        }
        registers.ranks.copy_from_slice(reader.take(1 << registers.precision)?);
        let highest = 65 - registers.precision;
        if let Some(rank) = registers.ranks.iter().find(|&&rank| u32::from(rank) > highest) {
            return Err(reader.damaged(&format!("a register of {rank}, where {highest} is the highest")));
        }
        registers.inverses = registers.ranks.iter().map(|&rank| inverse(rank)).sum();
        Ok(registers)
    }

    /// The register of a hash, by its upper bits, and the place of the first 1 in the others.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u8) {
        let index = (hash >> (64 - self.precision)) as usize;
        // The stop bit bounds the rank if all other bits are 0.
        let rest = hash << self.precision | 1 << (self.precision - 1);
        (index, rest.leading_zeros() as u8 + 1)
    }
}

/// 2^-rank in units of 2^-UNIT; nothing for ranks that only 2^UNIT keys would reach.
#[inline]
fn inverse(rank: u8) -> u64 {
    (1 << UNIT) >> rank.min(63)
}

/// Ertl's improved raw estimate (2017, Alg. 6) of registers with ranks up to `q + 1`.
fn of_registers(ranks: &[u8], q: u32) -> f64 {
    let registers = ranks.len() as f64;
    let mut counts = [0_u32; 66];
    ranks.iter().for_each(|&rank| counts[usize::from(rank)] += 1);
    let full = f64::from(counts[q as usize + 1]);
    let mut sum = registers * tau(1.0 - full / registers);
    for rank in (1..=q as usize).rev() {
        sum = 0.5 * (sum + f64::from(counts[rank]));
    }
    sum += registers * sigma(f64::from(counts[0]) / registers);
    registers * registers / (2.0 * std::f64::consts::LN_2) / sum
}

/// x + Σ x^(2^k) 2^(k-1), infinite for registers that are all empty.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut weight) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut sum, mut weight) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}
