//! The coupons of a sketch of few values: exact but for collisions of hashes.

/// Distinct coupons, by open addressing; 0 is a free place.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    table: Vec<u32>,
    len: usize,
    /// Coupons that a sketch of this precision may hold before it becomes dense, as in DataSketches: a full list of
    /// eight, or a hash set of 2^(precision - 3) places that is filled to three quarters.
    limit: usize,
}

impl Sparse {
    pub(super) fn new(precision: u32) -> Self {
        let limit = if precision < 8 { 7 } else { 3 << (precision - 5) };
        Self { table: vec![0; 64], len: 0, limit }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes in coupons, up to the one after which the sketch has to become dense; how many that were.
    pub(super) fn extend(&mut self, coupons: &[u32]) -> usize {
        for (taken, &coupon) in coupons.iter().enumerate() {
            if self.insert(coupon) && self.len > self.limit {
                return taken + 1;
            }
        }
        coupons.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.len > self.limit
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.iter().copied().filter(|&coupon| coupon != 0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.table[..])
    }

    #[inline]
    fn insert(&mut self, coupon: u32) -> bool {
        // The lower bits of an address are as random as any.
        let mask = self.table.len() - 1;
        let mut place = coupon as usize & mask;
        loop {
            match self.table[place] {
                other if other == coupon => return false,
                0 if coupon == 0 => return false,
                0 => break,
                _ => place = (place + 1) & mask,
            }
        }
        self.table[place] = coupon;
        self.len += 1;
        if 2 * self.len > self.table.len() {
            self.grow();
        }
        true
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![0; 2 * self.table.len()];
        let coupons = std::mem::replace(&mut self.table, larger);
        self.len = 0;
        coupons.into_iter().filter(|&coupon| coupon != 0).for_each(|coupon| {
            self.insert(coupon);
        });
    }
}
