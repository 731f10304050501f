//! The registers of a sketch of many values, one byte each, and the sums that its estimates need.

use windowkit_kernels::simd::murmur::ADDRESS_BITS;

/// 2^precision registers.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sketch) struct Dense {
    pub(in crate::sketch) ranks: Vec<u8>,
    pub(super) sums: Sums,
    /// The running (HIP) estimate: when a value raises a register, it grows by the inverse of the probability that a
    /// new one would have done so. `None` once sketches were merged, as the order of values is then unknown.
    pub(in crate::sketch) running: Option<f64>,
}

impl Dense {
    /// Registers of coupons whose number of distinct values is estimated at `running`.
    pub(in crate::sketch) fn new(precision: u32, coupons: impl Iterator<Item = u32>, running: f64) -> Self {
        let mut dense = Self { ranks: vec![0; 1 << precision], sums: Sums::new(precision), running: None };
        coupons.for_each(|coupon| dense.extend(&[coupon]));
        dense.running = Some(running);
        dense
    }

    /// These registers.
    pub(in crate::sketch) fn of(ranks: Vec<u8>, running: Option<f64>) -> Self {
        Self { sums: Sums::of(&ranks), ranks, running }
    }

    /// Takes in coupons in order.
    #[inline]
    pub(super) fn extend(&mut self, coupons: &[u32]) {
        for &coupon in coupons {
            let (index, rank) = place(coupon, self.ranks.len());
            self.raise(index, rank);
        }
    }

    /// Raises a register to at least this rank; returns whether it was lower.
    #[inline]
    pub(in crate::sketch) fn raise(&mut self, index: usize, rank: u8) -> bool {
        let is_raised = rank > self.ranks[index];
        if is_raised {
            self.raised(index, rank);
        }
        is_raised
    }

    #[cold]
    fn raised(&mut self, index: usize, rank: u8) {
        let old = std::mem::replace(&mut self.ranks[index], rank);
        let [low, high] = self.sums.inverses;
        if let Some(running) = &mut self.running {
            *running += self.ranks.len() as f64 / (low + high);
        }
        self.sums.change(old, rank);
    }
}

/// The register of a coupon, of so many, and the rank it raises it to.
#[inline]
pub(super) fn place(coupon: u32, registers: usize) -> (usize, u8) {
    // No precision uses all bits of an address.
    (coupon as usize & (registers - 1), (coupon >> ADDRESS_BITS) as u8)
}

/// The sums from which registers are estimated, updated as registers change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sums {
    /// The sum of 2^-rank over ranks below 32, and over those above: each is exact in a double.
    pub(super) inverses: [f64; 2],
    /// How many registers are empty.
    pub(super) zeros: u32,
}

impl Sums {
    /// The sums over registers none of which was raised.
    pub(super) fn new(precision: u32) -> Self {
        Self { inverses: [f64::from(1 << precision), 0.0], zeros: 1 << precision }
    }

    /// The sums over these registers.
    pub(super) fn of(ranks: &[u8]) -> Self {
        let mut inverses = [0.0, 0.0];
        ranks.iter().for_each(|&rank| inverses[usize::from(rank >= 32)] += inverse(rank));
        Self { inverses, zeros: ranks.iter().map(|&rank| u32::from(rank == 0)).sum() }
    }

    /// A register changed. All sums are exact in doubles, so that changes can be undone.
    #[inline]
    pub(super) fn change(&mut self, old: u8, new: u8) {
        self.inverses[usize::from(old >= 32)] -= inverse(old);
        self.inverses[usize::from(new >= 32)] += inverse(new);
        self.zeros -= u32::from(old == 0);
        self.zeros += u32::from(new == 0);
    }
}

/// 2^-rank.
fn inverse(rank: u8) -> f64 {
    f64::from_bits((1023 - u64::from(rank)) << 52)
}
