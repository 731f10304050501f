//! HyperLogLog, bit-compatible with Apache DataSketches: the same hashes, registers, estimates and bytes.
//!
//! | | |
//! |---|---|
//! | needs | Arrow columns of integers, floats, booleans, times, strings or binary |
//! | time | O(1) per value; O(2^p) per merge, and per estimate of a merged sketch |
//! | space | 4 bytes a value at first, 2^p bytes at most |
//! | error | 0.83 / sqrt(2^p) relative standard error; 1.04 / sqrt(2^p) for merged sketches |
//! | first appeared | Flajolet et al., *HyperLogLog*, AofA 2007; sketches of few values as coupons: Heule et al., *HyperLogLog in practice*, EDBT 2013; running estimate: Cohen, PODS 2014, and Ting, KDD 2014 |
//!
//! Values become coupons ([`windowkit_kernels::simd::murmur`]) in batches, and coupons raise registers ([`dense`]) or, as
//! long as they are few, are kept ([`sparse`]). Where sketches of slices are merged, their order is forgotten
//! ([`union`]), so that windows can slide over them ([`sliding`]). Estimates, error bounds, unions and the reading of
//! other representations are left to Apache's own crate, which receives a sketch as its bytes ([`image`]).

mod dense;
mod image;
mod sliding;
mod sparse;
mod union;
mod values;

use arrow_array::{Array, new_empty_array};
use arrow_schema::DataType;
use datasketches::common::NumStdDev;
use datasketches::hll::{HllType, HllUnion};

use crate::{Error, Result};
pub(in crate::sketch) use dense::Dense;
use sparse::Sparse;

pub use sliding::Sliding;
pub use union::{Estimates, Union};
pub use values::coupons_by_row;

/// The precisions that DataSketches allows.
pub const PRECISIONS: std::ops::RangeInclusive<u32> = 4..=21;

/// The number of distinct values, in the format of Apache DataSketches.
///
/// ```
/// use arrow_array::Int64Array;
/// use windowkit_partition::sketch::HyperLogLog;
///
/// let mut sketch = HyperLogLog::new(12)?;
/// sketch.update(&Int64Array::from_iter_values((0..100_000).map(|row| row % 50_000)))?;
/// assert!((sketch.estimate() / 50_000.0 - 1.0).abs() < 0.04);
/// let mut other = HyperLogLog::from_bytes(&sketch.to_bytes(8)?)?;
/// other.merge(&sketch);
/// assert!((other.estimate() / 50_000.0 - 1.0).abs() < 0.05);
/// # Ok::<(), windowkit_partition::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HyperLogLog {
    precision: u32,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Sparse(Sparse),
    Dense(Dense),
}

impl HyperLogLog {
    /// An empty sketch of up to 2^precision registers.
    ///
    /// # Errors
    /// `InvalidValue` for a precision outside 4..=21.
    pub fn new(precision: u32) -> Result<Self> {
        if !PRECISIONS.contains(&precision) {
            return Err(Error::InvalidValue(format!(
                "precision: {precision} was given; allowed is 4 to 21, for 2^precision registers"
            )));
        }
        Ok(Self { precision, state: State::Sparse(Sparse::new(precision)) })
    }

    /// The logarithm to the base 2 of the number of registers. A merge may lower it.
    pub fn precision(&self) -> u32 {
        self.precision
    }

    /// Whether no value was counted yet.
    pub fn is_empty(&self) -> bool {
        matches!(&self.state, State::Sparse(sparse) if sparse.len() == 0)
    }

    /// Counts the values of a column; nulls and, as in DataSketches and Spark, empty strings and empty binary are not
    /// counted.
    ///
    /// Integers, dates, times, timestamps, durations and booleans are counted as 64-bit integers, floats as doubles
    /// (all NaNs one value, and both zeros), and strings by their UTF-8 bytes: equal numbers of different columns
    /// count once if both are integers or both are floats, whatever their widths and units.
    ///
    /// # Errors
    /// `InvalidType` for any other type; nothing was counted then.
    pub fn update(&mut self, column: &dyn Array) -> Result<()> {
        values::coupons(column, &mut |coupons| self.extend(coupons))
    }

    /// Whether values of a type are counted.
    pub fn counts(data_type: &DataType) -> bool {
        values::coupons(&new_empty_array(data_type), &mut |_| {}).is_ok()
    }

    /// The estimated number of distinct values. O(1), except for merged sketches: O(2^p).
    pub fn estimate(&self) -> f64 {
        match &self.state {
            State::Sparse(sparse) => image::estimate_of_few(sparse),
            State::Dense(Dense { running: Some(running), .. }) => *running,
            merged => image::apache(self.precision, merged).estimate(),
        }
    }

    /// Bounds that the true number is within with the confidence of this many standard deviations.
    ///
    /// # Errors
    /// `InvalidValue` for anything but 1 (68 %), 2 (95 %) and 3 (99.7 %).
    pub fn bounds(&self, deviations: u32) -> Result<(f64, f64)> {
        let deviations = match deviations {
            1 => NumStdDev::One,
            2 => NumStdDev::Two,
            3 => NumStdDev::Three,
            other => {
                return Err(Error::InvalidValue(format!(
                    "stddevs: {other} was given; allowed are 1 (68 % confidence), 2 (95 %) and 3 (99.7 %)"
                )));
            }
        };
        let sketch = image::apache(self.precision, &self.state);
        // No fewer than there are registers above zero, even if bytes from elsewhere have an estimate below that.
        let low = sketch.lower_bound(deviations);
        Ok((low, sketch.upper_bound(deviations).max(low)))
    }

    /// The relative standard error of an estimate: its limit for large numbers, and 0 while values are so few that they
    /// are known by their hashes.
    pub fn relative_error(&self) -> f64 {
        let registers = f64::from(1_u32 << self.precision);
        match &self.state {
            State::Sparse(_) => 0.0,
            State::Dense(Dense { running: Some(_), .. }) => (std::f64::consts::LN_2 / registers).sqrt(),
            State::Dense(_) => ((3.0 * std::f64::consts::LN_2 - 1.0) / registers).sqrt(),
        }
    }

    /// Merges the other sketch, as DataSketches' unions do: the result has the lower precision of the two, or this
    /// sketch's if the other has only a few values.
    pub fn merge(&mut self, other: &HyperLogLog) {
        let mut union = HllUnion::new(self.precision as u8).expect("a precision that was checked");
        union.update(&image::apache(self.precision, &self.state));
        union.update(&image::apache(other.precision, &other.state));
        (self.precision, self.state) = image::from_union(&union);
    }

    /// The sketch in the format of Apache DataSketches (compact), with registers of 8, 6 or 4 bits. No estimate
    /// depends on which.
    ///
    /// # Errors
    /// `InvalidValue` for another number of bits.
    pub fn to_bytes(&self, bits: u32) -> Result<Vec<u8>> {
        let kind = match bits {
            8 => return Ok(image::write(self.precision, &self.state)),
            6 => HllType::Hll6,
            4 => HllType::Hll4,
            other => {
                return Err(Error::InvalidValue(format!(
                    "bits: {other} was given; allowed are registers of 8, 6 or 4 bits"
                )));
            }
        };
        let mut union = HllUnion::new(self.precision as u8).expect("a precision that was checked");
        union.update(&image::apache(self.precision, &self.state));
        Ok(union.to_sketch(kind).serialize())
    }

    /// Reads a sketch in the format of Apache DataSketches, of any mode and type, compact or updatable.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not such a sketch. The format has no checksum, but the sums stored with
    /// registers reveal any damage to these.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (precision, state) = image::read(bytes)?;
        Ok(Self { precision, state })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.state {
                State::Sparse(sparse) => sparse.bytes(),
                State::Dense(dense) => dense.ranks.len(),
            }
    }

    fn extend(&mut self, coupons: &[u32]) {
        let mut coupons = coupons;
        if let State::Sparse(sparse) = &mut self.state {
            coupons = &coupons[sparse.extend(coupons)..];
            if sparse.is_over() {
                let estimate = image::estimate_of_few(sparse);
                self.state = State::Dense(Dense::new(self.precision, sparse.iter(), estimate));
            }
        }
        if let State::Dense(dense) = &mut self.state {
            dense.extend(coupons);
        }
    }
}

#[cfg(test)]
mod tests;
