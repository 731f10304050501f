//! Sketches of values in any order: the contents of DataSketches' unions, without a running estimate.
//!
//! A sketch that knows the order of its values estimates slightly better, but different ways to merge the same values
//! would give different estimates. For a union everything is determined by the set of its values: whether it has
//! coupons or registers, its bytes, and its estimate. So slices may be merged in any order, and any number of times.

use datasketches::hll::HllSketch;

use super::dense::{Sums, place};
use super::sparse::{self, Sparse};
use super::{State, image};
use crate::{Error, Result};
use windowkit_kernels::simd::murmur::ADDRESS_BITS;

/// Registers that are compared together: a block in which none is raised is skipped.
const BLOCK: usize = 16;

/// A set of values, as far as a sketch knows it. 24 bytes, and 4 to 8 a value at first, 2^precision at most.
#[derive(Debug, Clone)]
pub struct Union(Held);

#[derive(Debug, Clone)]
enum Held {
    Few(Sparse),
    Many(Box<[u8]>),
}

impl Union {
    /// The union of no values.
    pub fn new(precision: u32) -> Self {
        Self(Held::Few(Sparse::new(precision)))
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Held::Few(few) if few.len() == 0)
    }

    /// Whether it holds registers.
    pub(super) fn is_many(&self) -> bool {
        matches!(self.0, Held::Many(_))
    }

    /// How many coupons it holds; `None` once it holds registers.
    pub(super) fn coupons(&self) -> usize {
        match &self.0 {
            Held::Few(few) => few.len(),
            Held::Many(_) => 0,
        }
    }

    /// Takes in a value's coupon.
    #[inline]
    pub fn insert(&mut self, coupon: u32) {
        match &mut self.0 {
            Held::Few(few) => {
                if few.insert(coupon) && few.is_over() {
                    self.0 = Held::Many(registers(few));
                }
            }
            Held::Many(ranks) => {
                let (index, rank) = place(coupon, ranks.len());
                ranks[index] = ranks[index].max(rank);
            }
        }
    }

    /// Takes in the values of another of the same precision.
    pub fn merge(&mut self, other: &Union) {
        match (&mut self.0, &other.0) {
            (_, Held::Few(theirs)) => theirs.iter().for_each(|coupon| self.insert(coupon)),
            (Held::Few(own), Held::Many(theirs)) => {
                let own = std::mem::replace(own, Sparse::new(own.precision()));
                self.0 = Held::Many(theirs.clone());
                own.iter().for_each(|coupon| self.insert(coupon));
            }
            (Held::Many(own), Held::Many(theirs)) => {
                own.iter_mut().zip(theirs).for_each(|(own, &theirs)| *own = theirs.max(*own));
            }
        }
    }

    /// The estimated number of values.
    pub fn estimate(&self, estimates: &mut Estimates) -> f64 {
        match &self.0 {
            Held::Few(few) => estimates.of_few(few.len()),
            Held::Many(ranks) => estimates.of_many(Sums::of(ranks)),
        }
    }

    /// Its bytes in the format of Apache DataSketches (compact), with registers of 8 bits: the same for the same values.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Held::Few(few) => {
                let mut coupons: Vec<u32> = few.iter().collect();
                coupons.sort_unstable();
                image::write_few(few.precision(), coupons.iter().copied(), coupons.len())
            }
            Held::Many(ranks) => image::write_many(ranks.len().ilog2(), ranks, None, Sums::of(ranks)),
        }
    }

    /// How many bytes [`Union::to_bytes`] makes.
    pub fn len_of_bytes(&self) -> usize {
        match &self.0 {
            Held::Few(few) => image::len_of_few(few.len()),
            Held::Many(ranks) => image::REGISTERS_FROM + ranks.len(),
        }
    }

    /// No sketch of this precision has more.
    pub fn most_bytes(precision: u32) -> usize {
        image::len_of_few(sparse::limit(precision)).max(image::REGISTERS_FROM + (1 << precision))
    }

    /// Reads a sketch of this precision, of any mode and type, compact or updatable.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not such a sketch, or are damaged, and for a sketch of another precision.
    pub fn from_bytes(bytes: &[u8], precision: u32) -> Result<Self> {
        if let Some(coupons) = image::coupons(bytes, precision) {
            let mut few = Sparse::new(precision);
            let new = coupons.iter().all(|&word| {
                let coupon = u32::from_le_bytes(word);
                coupon >> ADDRESS_BITS > 0 && few.insert(coupon)
            });
            if new && !few.is_over() {
                return Ok(Self(Held::Few(few)));
            }
        }
        let (found, state) = image::read(bytes)?;
        if found != precision {
            return Err(Error::InvalidValue(format!(
                "data: a sketch of precision {found}, where one of precision {precision} is needed"
            )));
        }
        Ok(Self(match state {
            State::Sparse(few) => Held::Few(few),
            State::Dense(dense) => Held::Many(dense.ranks.into_boxed_slice()),
        }))
    }

    /// Bytes held besides its own size.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Held::Few(few) => few.bytes(),
            Held::Many(ranks) => ranks.len(),
        }
    }

    /// The union that these registers hold.
    pub(super) fn of_registers(ranks: Box<[u8]>) -> Self {
        Self(Held::Many(ranks))
    }

    /// Calls `each` with its coupons.
    pub(super) fn each_coupon(&self, each: impl FnMut(u32)) {
        if let Held::Few(few) = &self.0 {
            few.iter().for_each(each);
        }
    }

    /// Raises registers to those of this union, and calls `each` with index, rank before and rank after.
    pub(super) fn raise(&self, registers: &mut [u8], mut each: impl FnMut(usize, u8, u8)) {
        let mut raise = |registers: &mut [u8], index: usize, rank: u8| {
            let old = registers[index];
            if rank > old {
                registers[index] = rank;
                each(index, old, rank);
            }
        };
        match &self.0 {
            Held::Few(few) => few.iter().for_each(|coupon| {
                let (index, rank) = place(coupon, registers.len());
                raise(registers, index, rank);
            }),
            Held::Many(ranks) => {
                for from in (0..ranks.len()).step_by(BLOCK) {
                    let (own, theirs) = (&registers[from..from + BLOCK], &ranks[from..from + BLOCK]);
                    // Without a branch in it, this is a comparison of vectors.
                    if own.iter().zip(theirs).fold(false, |any, (own, theirs)| any | (theirs > own)) {
                        (from..from + BLOCK).for_each(|index| raise(registers, index, ranks[index]));
                    }
                }
            }
        }
    }
}

/// The registers of coupons.
fn registers(few: &Sparse) -> Box<[u8]> {
    let mut ranks = vec![0; 1 << few.precision()].into_boxed_slice();
    for coupon in few.iter() {
        let (index, rank) = place(coupon, ranks.len());
        ranks[index] = ranks[index].max(rank);
    }
    ranks
}

/// The estimates of Apache's crate for unions of one precision, computed as rarely as possible.
pub struct Estimates {
    /// By number of coupons; NaN where it was not computed yet.
    few: Vec<f64>,
    /// Registers, for which an estimate only reads three numbers stored before them.
    many: Vec<u8>,
}

impl Estimates {
    /// For unions of this precision.
    pub fn new(precision: u32) -> Self {
        let registers = vec![0; 1 << precision];
        Self {
            few: vec![f64::NAN; sparse::limit(precision) + 1],
            many: image::write_many(precision, &registers, None, Sums::new(precision)),
        }
    }

    /// For this many coupons, at most as many as a sparse sketch holds. O(1) once it was computed, otherwise
    /// O(coupons).
    pub(super) fn of_few(&mut self, coupons: usize) -> f64 {
        if self.few[coupons].is_nan() {
            self.few[coupons] = image::estimate_of_so_many(coupons);
        }
        self.few[coupons]
    }

    /// For registers with these sums. O(2^precision), but only for copying.
    pub(super) fn of_many(&mut self, sums: Sums) -> f64 {
        image::set_sums(&mut self.many, sums);
        HllSketch::deserialize(&self.many).expect("an image of our own").composite_estimate()
    }
}
