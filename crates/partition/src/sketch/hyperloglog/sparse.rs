//! The coupons of a sketch of few values: exact except for collisions of hashes.

/// Up to this many coupons are a list.
const LIST: usize = 8;
/// Places of the smallest table.
const TABLE: usize = 32;

/// Distinct coupons: a list as long as they are a handful, as in most slices of a stream, and else a table with open
/// addressing that is half full at most; 0 is a free place.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    places: Box<[u32]>,
    len: u32,
    precision: u8,
}

impl Sparse {
    pub(super) fn new(precision: u32) -> Self {
        Self { places: Box::default(), len: 0, precision: precision as u8 }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn precision(&self) -> u32 {
        self.precision.into()
    }

    /// Takes in coupons, up to the one after which the sketch has to become dense; returns how many that were.
    pub(super) fn extend(&mut self, coupons: &[u32]) -> usize {
        for (taken, &coupon) in coupons.iter().enumerate() {
            if self.insert(coupon) && self.is_over() {
                return taken + 1;
            }
        }
        coupons.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.len() > limit(self.precision())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().copied().filter(|&coupon| coupon != 0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }

    /// Takes in a coupon; returns whether it is new.
    #[inline]
    pub(super) fn insert(&mut self, coupon: u32) -> bool {
        if coupon == 0 {
            return false;
        }
        if self.places.len() > LIST {
            return self.insert_in_table(coupon);
        }
        let len = self.len();
        if self.places[..len].contains(&coupon) {
            return false;
        }
        if len == self.places.len() {
            self.grow();
        }
        if self.places.len() > LIST {
            return self.insert_in_table(coupon);
        }
        self.places[len] = coupon;
        self.len += 1;
        true
    }

    #[inline]
    fn insert_in_table(&mut self, coupon: u32) -> bool {
        // The lower bits of an address are as random as any.
        let mask = self.places.len() - 1;
        let mut place = coupon as usize & mask;
        loop {
            match self.places[place] {
                other if other == coupon => return false,
                0 => break,
                _ => place = (place + 1) & mask,
            }
        }
        self.places[place] = coupon;
        self.len += 1;
        if 2 * self.len() > self.places.len() {
            self.grow();
        }
        true
    }

    #[cold]
    fn grow(&mut self) {
        let places = match self.places.len() {
            0 => LIST / 2,
            few if few < LIST => LIST,
            many => (2 * many).max(TABLE),
        };
        let larger = vec![0; places].into_boxed_slice();
        let coupons = std::mem::replace(&mut self.places, larger);
        if places <= LIST {
            self.places[..coupons.len()].copy_from_slice(&coupons);
            return;
        }
        self.len = 0;
        coupons.iter().filter(|&&coupon| coupon != 0).for_each(|&coupon| {
            self.insert_in_table(coupon);
        });
    }
}

/// Coupons that a sketch of this precision may hold before it becomes dense, as in DataSketches: a full list of eight,
/// or a hash set of 2^(precision - 3) places that is filled to three quarters.
pub(super) fn limit(precision: u32) -> usize {
    if precision < 8 { 7 } else { 3 << (precision - 5) }
}
