//! Sketches of distinct values: what approximate distinct counts are lowered from. Algebraic, commutative, without
//! inverse.
//!
//! | | |
//! |---|---|
//! | needs | values that [`crate::sketch::HyperLogLog`] counts |
//! | time | O(1) per row; windows: [`crate::sketch`]'s union that slides, O(1) amortised per coupon of a slice |
//! | space | 24 bytes a slot, 4 to 8 per distinct value while these are few, then 2^p bytes |
//! | error | none except collisions up to 3/32 * 2^p values (7 where p < 8), then 1.04 / sqrt(2^p) relative standard error |
//! | first appeared | Flajolet et al., *HyperLogLog*, AofA 2007, as implemented by Apache DataSketches |
//!
//! Sketches are kept as unions, without a running estimate: so a result depends only on the values of a window, not on
//! their order, nor on how they were divided into slices, batches or tasks.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, builder::BinaryBuilder, cast::AsArray};
use arrow_schema::DataType;

use super::by_slot::grouped;
use super::lift::{cast_to, columns};
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::rows::Rows;
use crate::kernels::Ranges;
use crate::sketch::{Estimates, HyperLogLog, Sliding, Union, coupons_by_row};
use crate::{Error, Result};

/// A column of sketches.
pub struct HyperLogLogs {
    precision: u32,
    sketches: Arc<Vec<Union>>,
    /// Which sketches make up each slot; `None` if each slot is one.
    windows: Option<Vec<(u32, u32)>>,
}

impl HyperLogLogs {
    /// An empty column over values of type `input`, if the type is supported.
    pub(super) fn new(input: &DataType, precision: u32) -> Option<Self> {
        HyperLogLog::counts(input).then(|| Self::of(precision, Vec::new()))
    }

    fn of(precision: u32, sketches: Vec<Union>) -> Self {
        Self { precision, sketches: Arc::new(sketches), windows: None }
    }

    fn len(&self) -> usize {
        self.windows.as_ref().map_or(self.sketches.len(), Vec::len)
    }

    /// The sketch of each slot, mutable; grows to `len` slots.
    fn own(&mut self, len: usize) -> &mut Vec<Union> {
        if let Some(windows) = self.windows.take() {
            self.sketches = Arc::new(self.unions(&windows));
        }
        let sketches = Arc::make_mut(&mut self.sketches);
        sketches.resize(len.max(sketches.len()), Union::new(self.precision));
        sketches
    }

    /// The sketches of windows.
    fn unions(&self, windows: &[(u32, u32)]) -> Vec<Union> {
        let mut sliding = Sliding::new(self.precision, &self.sketches, windows);
        let union = |&(lo, hi): &(u32, u32)| {
            sliding.slide(lo as usize, hi as usize);
            sliding.union()
        };
        windows.iter().map(union).collect()
    }

    /// The sketch of each slot.
    fn slots(&self) -> Cow<'_, [Union]> {
        match &self.windows {
            Some(windows) => Cow::Owned(self.unions(windows)),
            None => Cow::Borrowed(&self.sketches),
        }
    }

    /// The estimated numbers of distinct values of all slots, rounded as Spark rounds them.
    pub(super) fn estimates(&self) -> ArrayRef {
        let mut estimates = Estimates::new(self.precision);
        let numbers: Vec<f64> = match &self.windows {
            None => self.sketches.iter().map(|sketch| sketch.estimate(&mut estimates)).collect(),
            Some(windows) => {
                let mut sliding = Sliding::new(self.precision, &self.sketches, windows);
                let estimate = |&(lo, hi): &(u32, u32)| {
                    sliding.slide(lo as usize, hi as usize);
                    sliding.estimate(&mut estimates)
                };
                windows.iter().map(estimate).collect()
            }
        };
        Arc::new(Int64Array::from_iter_values(numbers.into_iter().map(|number| number.round() as i64)))
    }

    /// The bytes of all slots' sketches; null for no values if `nullable`.
    fn images(&self, nullable: bool) -> Result<ArrayRef> {
        self.check_room()?;
        let mut images = BinaryBuilder::new();
        let mut append = |union: &Union| {
            if nullable && union.is_empty() {
                images.append_null();
            } else {
                images.append_value(union.to_bytes());
            }
        };
        match &self.windows {
            None => self.sketches.iter().for_each(append),
            Some(windows) => {
                let mut sliding = Sliding::new(self.precision, &self.sketches, windows);
                windows.iter().for_each(|&(lo, hi)| {
                    sliding.slide(lo as usize, hi as usize);
                    append(&sliding.union());
                });
            }
        }
        Ok(Arc::new(images.finish()))
    }

    /// Rejects more bytes than a binary column can hold, before any are written.
    fn check_room(&self) -> Result<()> {
        let holds = i32::MAX as usize;
        if self.len().saturating_mul(Union::most_bytes(self.precision)) <= holds {
            return Ok(());
        }
        let bytes: usize = match &self.windows {
            None => self.sketches.iter().map(Union::len_of_bytes).sum(),
            Some(windows) => {
                let mut sliding = Sliding::new(self.precision, &self.sketches, windows);
                let bytes = |&(lo, hi): &(u32, u32)| {
                    sliding.slide(lo as usize, hi as usize);
                    sliding.len_of_bytes()
                };
                windows.iter().map(bytes).sum()
            }
        };
        if bytes <= holds {
            return Ok(());
        }
        Err(Error::Overflow(format!(
            "the sketches of a batch of {} windows have {bytes} bytes; Arrow's binary columns hold {holds}; a lower \
             log2_k than {} makes smaller ones",
            self.len(),
            self.precision
        )))
    }
}

impl Partials for HyperLogLogs {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values] = columns(inputs)?;
        let coupons = coupons_by_row(values)?;
        let sketches = self.own(len);
        for (&slot, coupon) in rows.slots.iter().zip(coupons) {
            sketches[slot as usize].insert(coupon);
        }
        Ok(())
    }

    /// Sketches in the format of Apache DataSketches, of any mode and type; null for no values.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [images] = columns(state)?;
        let images = cast_to(images, &DataType::Binary)?;
        let images: &BinaryArray = images.as_binary();
        let precision = self.precision;
        let sketches = self.own(len);
        for (row, &slot) in rows.slots.iter().enumerate().filter(|&(row, _)| images.is_valid(row)) {
            let union = Union::from_bytes(images.value(row), precision).map_err(|error| match error {
                Error::InvalidValue(text) => Error::InvalidValue(format!("slices: row {row}: {text}")),
                other => other,
            })?;
            let slot = &mut sketches[slot as usize];
            if slot.is_empty() {
                *slot = union;
            } else {
                slot.merge(&union);
            }
        }
        Ok(())
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let mut other = other.into_alike::<Self>();
        let theirs = std::mem::take(other.own(0));
        self.own(0).extend(theirs);
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(Self::of(self.precision, Vec::new()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let own = self.slots();
        let join = |slots: &[u32]| {
            let (first, rest) = slots.split_first().expect("a group has a slot");
            let mut union = own[*first as usize].clone();
            rest.iter().for_each(|&slot| union.merge(&own[slot as usize]));
            union
        };
        Ok(Box::new(Self::of(self.precision, grouped(slots, groups).map(join).collect())))
    }

    /// Windows are views, computed when they are lowered: together they may be far larger than the slices.
    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let sketches = match &self.windows {
            None => self.sketches.clone(),
            Some(windows) => Arc::new(self.unions(windows)),
        };
        let windows = ranges.iter().map(|(lo, hi)| (lo as u32, hi as u32)).collect();
        Ok(Box::new(Self { precision: self.precision, sketches, windows: Some(windows) }))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.images(true)?])
    }

    /// The sketches as bytes.
    fn lower(&self) -> Result<ArrayRef> {
        self.images(false)
    }

    fn bytes(&self) -> usize {
        let windows = self.windows.as_ref().map_or(0, |windows| windows.capacity() * size_of::<(u32, u32)>());
        let sketches: usize = self.sketches.iter().map(Union::bytes).sum();
        windows + sketches + self.sketches.capacity() * size_of::<Union>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int32Array, NullArray, RunArray, StringArray};
    use datasketches::hll::{HllSketch, HllType, HllUnion};
    use proptest::prelude::*;

    /// The contents of Apache's own union of the windows' values, of at least two sketches, so that no order is known.
    fn apaches(precision: u32, values: impl Iterator<Item = i64> + Clone) -> HllUnion {
        let mut union = HllUnion::new(precision as u8).unwrap();
        let mut sketch = HllSketch::new(precision as u8, HllType::Hll8).unwrap();
        values.for_each(|value| sketch.update(value));
        union.update(&sketch);
        union.update(&sketch);
        union
    }

    fn column(precision: u32, slots: &[Vec<i64>]) -> HyperLogLogs {
        let mut column = HyperLogLogs::new(&DataType::Int64, precision).unwrap();
        let numbers: Vec<u32> =
            slots.iter().enumerate().flat_map(|(slot, values)| vec![slot as u32; values.len()]).collect();
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(slots.concat()));
        let times = vec![0; numbers.len()];
        let rows = Rows { sparse: true, ..Rows::all(&numbers, &times) };
        column.update(&[values], rows, slots.len()).unwrap();
        column
    }

    /// Slots with no values, with few, and with so many that they have registers.
    fn slots() -> impl Strategy<Value = Vec<Vec<i64>>> {
        let count = prop_oneof![Just(0usize), 1usize..6, 1usize..60, 100usize..130];
        let slot = (count, 0i64..400).prop_map(|(count, from)| (from..from + count as i64).collect());
        prop::collection::vec(slot, 1..25)
    }

    proptest! {
        #[test]
        fn windows_are_apaches_unions(
            slots in slots(), precision in prop_oneof![4u32..=6, 8u32..=10],
            steps in prop::collection::vec((0u32..4, 0u32..5), 1..30),
        ) {
            let slices = column(precision, &slots);
            let mut ranges = Ranges::default();
            let (mut lo, mut hi) = (0, 0);
            for (step_lo, step_hi) in steps {
                lo += step_lo;
                hi = (hi + step_hi).max(lo);
                if hi > slots.len() as u32 {
                    break;
                }
                ranges.push(lo, hi);
            }
            let windows = slices.answer(&ranges).unwrap();
            let own = windows.downcast_ref::<HyperLogLogs>().unwrap();
            let (estimates, images) = (own.estimates(), own.lower().unwrap());
            for (at, (lo, hi)) in ranges.iter().enumerate() {
                let wanted = apaches(precision, slots[lo..hi].iter().flatten().copied());
                let estimate = estimates.as_primitive::<Int64Type>().value(at);
                prop_assert_eq!(estimate, wanted.estimate().round() as i64, "{}..{}", lo, hi);
                let image = images.as_binary::<i32>().value(at);
                let read = HllSketch::deserialize(image).unwrap();
                prop_assert_eq!(read.estimate(), wanted.estimate());
                // A sketch's own values do not change it.
                let mut union = HllUnion::new(precision as u8).unwrap();
                union.update(&wanted.to_sketch(HllType::Hll8));
                union.update(&read);
                prop_assert_eq!(union.estimate(), wanted.estimate());
            }
        }

        /// Slices are sent as Apache's bytes, whoever wrote them.
        #[test]
        fn sketches_of_others_are_read(slots in slots(), precision in 4u32..=10, bits in 0usize..3) {
            let kind = [HllType::Hll4, HllType::Hll6, HllType::Hll8][bits];
            let images = slots.iter().map(|values| {
                let mut sketch = HllSketch::new(precision as u8, kind).unwrap();
                values.iter().for_each(|&value| sketch.update(value));
                Some(sketch.serialize())
            });
            let images: ArrayRef = Arc::new(images.collect::<BinaryArray>());
            let numbers: Vec<u32> = (0..slots.len() as u32).collect();
            let mut there = HyperLogLogs::new(&DataType::Int64, precision).unwrap();
            there.merge(&[images], Rows::all(&numbers, &vec![0; slots.len()]), slots.len()).unwrap();
            prop_assert_eq!(&there.lower().unwrap(), &column(precision, &slots).lower().unwrap());
        }
    }

    #[test]
    fn rows_of_runs_and_of_nothing_stay_rows() {
        let texts = StringArray::from(vec![Some("a"), None, Some("b")]);
        let runs: ArrayRef = Arc::new(RunArray::try_new(&Int32Array::from(vec![2, 4, 7]), &texts).unwrap());
        let rows = [0, 1, 1, 0, 1, 1];
        let mut column = HyperLogLogs::new(runs.data_type(), 12).unwrap();
        column.update(&[runs.slice(1, 6)], Rows::all(&rows, &[0; 6]), 2).unwrap();
        assert_eq!(column.estimates().as_primitive::<Int64Type>().values(), &[2, 1]);
        let nothing: ArrayRef = Arc::new(NullArray::new(2));
        let mut column = HyperLogLogs::new(nothing.data_type(), 12).unwrap();
        column.update(&[nothing], Rows::all(&[0, 1], &[0; 2]), 2).unwrap();
        assert_eq!(column.estimates().as_primitive::<Int64Type>().values(), &[0, 0]);
    }

    #[test]
    fn damage_and_other_precisions_are_refused() {
        let mut column = column(12, &[vec![1, 2, 3]]);
        let state = column.state().unwrap().remove(0);
        let mut other = HyperLogLogs::new(&DataType::Int64, 10).unwrap();
        let refused = |column: &mut HyperLogLogs, image: &[u8]| {
            let images: ArrayRef = Arc::new(BinaryArray::from_iter_values([image]));
            column.merge(&[images], Rows::all(&[0], &[0]), 1).unwrap_err().to_string()
        };
        let image = state.as_binary::<i32>().value(0);
        let text = refused(&mut other, image);
        assert!(text.contains("row 0: data: a sketch of precision 12, where one of precision 10"), "{text}");
        let mut twice = image.to_vec();
        twice.copy_within(8..12, 12);
        assert!(refused(&mut column, &twice).contains("distinct coupons"));
        assert!(refused(&mut column, &image[..14]).contains("bytes"));
    }
}
