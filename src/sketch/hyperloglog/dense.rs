//! The registers of a sketch of many values, one byte each, and what its estimates need of them.

use crate::kernels::simd::murmur::ADDRESS_BITS;

/// 2^precision registers.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    pub(super) ranks: Vec<u8>,
    /// The sum of 2^-rank over ranks below 32, and over those above: each is exact in a double.
    pub(super) inverses: [f64; 2],
    /// The running (HIP) estimate; none once sketches were merged, whose order of values nobody knows.
    pub(super) running: Option<f64>,
}

impl Dense {
    /// Registers of coupons whose number of distinct values is estimated at `running`.
    pub(super) fn new(precision: u32, coupons: impl Iterator<Item = u32>, running: f64) -> Self {
        let registers = 1 << precision;
        let mut dense = Self { ranks: vec![0; registers], inverses: [registers as f64, 0.0], running: None };
        coupons.for_each(|coupon| dense.extend(&[coupon]));
        dense.running = Some(running);
        dense
    }

    /// Takes in coupons in order.
    #[inline]
    pub(super) fn extend(&mut self, coupons: &[u32]) {
        let mask = self.ranks.len() - 1;
        for &coupon in coupons {
            // No precision takes all bits of an address.
            let (index, rank) = (coupon as usize & mask, (coupon >> ADDRESS_BITS) as u8);
            if rank > self.ranks[index] {
                self.raise(index, rank);
            }
        }
    }

    #[cold]
    fn raise(&mut self, index: usize, rank: u8) {
        let old = std::mem::replace(&mut self.ranks[index], rank);
        let [low, high] = self.inverses;
        if let Some(running) = &mut self.running {
            *running += self.ranks.len() as f64 / (low + high);
        }
        self.inverses[usize::from(old >= 32)] -= inverse(old);
        self.inverses[usize::from(rank >= 32)] += inverse(rank);
    }
}

/// How many registers are empty.
pub(super) fn zeros(ranks: &[u8]) -> u32 {
    ranks.iter().map(|&rank| u32::from(rank == 0)).sum()
}

/// The two sums of [`Dense::inverses`] of registers.
pub(super) fn inverses(ranks: &[u8]) -> [f64; 2] {
    ranks.iter().fold([0.0, 0.0], |mut sums, &rank| {
        sums[usize::from(rank >= 32)] += inverse(rank);
        sums
    })
}

/// 2^-rank.
pub(super) fn inverse(rank: u8) -> f64 {
    f64::from_bits((1023 - u64::from(rank)) << 52)
}
