//! Against Apache's crate, value by value, and against damage.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, NullBuilder};
use arrow_array::types::*;
use arrow_array::*;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllSketch, HllType, HllUnion};
use proptest::prelude::*;

use super::*;

fn of(precision: u32, values: impl IntoIterator<Item = i64>) -> HyperLogLog {
    let mut sketch = HyperLogLog::new(precision).unwrap();
    sketch.update(&Int64Array::from_iter_values(values)).unwrap();
    sketch
}

fn apaches(precision: u32, kind: HllType, values: impl IntoIterator<Item = i64>) -> HllSketch {
    let mut sketch = HllSketch::new(precision as u8, kind).unwrap();
    values.into_iter().for_each(|value| sketch.update(value));
    sketch
}

/// What is in an image, whatever the order of coupons.
fn content(image: &[u8]) -> (Vec<u8>, BTreeSet<u32>) {
    let from = match image[7] & 3 {
        0 => 8,
        1 => 12,
        _ => return (image.to_vec(), BTreeSet::new()),
    };
    (
        image[..from].to_vec(),
        image[from..].as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect(),
    )
}

/// Numbers of values around those where a sketch changes its mode.
fn count() -> impl Strategy<Value = i64> {
    prop_oneof![0_i64..12, 20_i64..30, 90_i64..110, 0_i64..5_000]
}

proptest! {
    #[test]
    fn images_equal_apaches(precision in 4_u32..=14, count in count(), start in any::<i32>()) {
        let values = || (0..count).map(|value| value + i64::from(start));
        let (ours, theirs) = (of(precision, values()), apaches(precision, HllType::Hll8, values()));
        prop_assert_eq!(content(&ours.to_bytes(8).unwrap()), content(&theirs.serialize()));
        prop_assert_eq!(ours.estimate(), theirs.estimate());
        prop_assert_eq!(ours.is_empty(), count == 0);
        for (deviations, theirs_deviations) in [(1, NumStdDev::One), (2, NumStdDev::Two), (3, NumStdDev::Three)] {
            let wanted = (theirs.lower_bound(theirs_deviations), theirs.upper_bound(theirs_deviations));
            prop_assert_eq!(ours.bounds(deviations).unwrap(), wanted);
        }
    }

    #[test]
    fn every_kind_of_image_is_read(precision in 4_u32..=12, count in count()) {
        for (bits, kind) in [(4, HllType::Hll4), (6, HllType::Hll6), (8, HllType::Hll8)] {
            let theirs = apaches(precision, kind, 0..count);
            let ours = HyperLogLog::from_bytes(&theirs.serialize()).unwrap();
            prop_assert_eq!(ours.estimate(), theirs.estimate());
            let back = HllSketch::deserialize(&ours.to_bytes(bits).unwrap()).unwrap();
            prop_assert_eq!(back.target_type(), kind);
            prop_assert_eq!(back.estimate(), theirs.estimate());
            prop_assert_eq!(back.composite_estimate(), theirs.composite_estimate());
        }
    }

    #[test]
    fn merges_equal_apaches_unions(
        (p, q) in (4_u32..=12, 4_u32..=12),
        (a, b) in (count(), count()),
        shared in 0_i64..100,
    ) {
        let (left, right) = (0..a, a - shared.min(a)..a - shared.min(a) + b);
        let mut ours = of(p, left.clone());
        ours.merge(&of(q, right.clone()));
        let mut union = HllUnion::new(p as u8).unwrap();
        union.update(&apaches(p, HllType::Hll4, left));
        union.update(&apaches(q, HllType::Hll6, right.clone()));
        prop_assert_eq!(ours.precision(), u32::from(union.lg_config_k()));
        let (mine, merged) = (ours.to_bytes(8).unwrap(), union.to_sketch(HllType::Hll8).serialize());
        let has_running = merged[7] & 3 == 2 && merged[5] & 16 == 0;
        if has_running {
            // The coupons of a sketch of few values have no order, which a running estimate depends on a little.
            let tolerance = 4.0 / f64::from(1 << ours.precision()).sqrt();
            prop_assert!((ours.estimate() / union.estimate() - 1.0).abs() <= tolerance);
            prop_assert_eq!((&mine[..8], &mine[16..]), (&merged[..8], &merged[16..]));
        } else {
            prop_assert_eq!(ours.estimate(), union.estimate());
            prop_assert_eq!(content(&mine), content(&merged));
        }
        // Nothing is new in what was merged.
        let before = ours.estimate();
        ours.update(&Int64Array::from_iter_values(right)).unwrap();
        prop_assert_eq!(ours.estimate(), before);
    }

    /// Few values or many, in windows of fewer sketches or of more than they have values.
    #[test]
    fn windows_that_slide_are_the_unions_of_their_sketches(
        precision in 4_u32..=8,
        slots in prop::collection::vec(prop::collection::vec(0_i64..30, 0..4), 1..60),
        many in prop::option::of(0_i64..400),
        steps in prop::collection::vec((0_usize..4, 0_usize..9), 1..20),
    ) {
        let mut slots: Vec<BTreeSet<i64>> = slots.into_iter().map(BTreeSet::from_iter).collect();
        slots[0].extend(many.into_iter().flat_map(|most| 1000..1000 + most));
        let sketches: Vec<Union> = slots.iter().map(|values| {
            Union::from_bytes(&of(precision, values.iter().copied()).to_bytes(8).unwrap(), precision).unwrap()
        }).collect();
        let (mut lo, mut hi) = (0, 0);
        let windows: Vec<(u32, u32)> = steps.into_iter().map(|(left, came)| {
            hi = (hi + came).min(sketches.len());
            lo = (lo + left).min(hi);
            (lo as u32, hi as u32)
        }).collect();
        let mut sliding = Sliding::new(precision, &sketches, &windows);
        for (lo, hi) in windows {
            sliding.slide(lo as usize, hi as usize);
            let mut wanted = HllUnion::new(precision as u8).unwrap();
            for values in &slots[lo as usize..hi as usize] {
                wanted.update(&apaches(precision, HllType::Hll8, values.iter().copied()));
            }
            let wanted = Union::from_bytes(&wanted.to_sketch(HllType::Hll8).serialize(), precision).unwrap();
            prop_assert_eq!(content(&sliding.union().to_bytes()), content(&wanted.to_bytes()));
        }
    }

    #[test]
    fn batches_and_slices_do_not_matter(
        values in prop::collection::vec(prop::option::of(-500_i64..500), 0..3000),
        precision in 4_u32..=10,
        cut in 0_usize..3000,
    ) {
        let column = Int64Array::from(values.clone());
        let cut = cut.min(column.len());
        let mut parts = HyperLogLog::new(precision).unwrap();
        parts.update(&column.slice(0, cut)).unwrap();
        parts.update(&column.slice(cut, column.len() - cut)).unwrap();
        let wanted = apaches(precision, HllType::Hll8, values.into_iter().flatten());
        prop_assert_eq!(content(&parts.to_bytes(8).unwrap()), content(&wanted.serialize()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), header in 0_usize..4) {
        let known: [&[u8]; 4] = [&[], &[2, 1, 7, 12, 3, 8], &[3, 1, 7, 12, 5, 8, 0, 9], &[10, 1, 7, 4, 0, 0, 0, 2]];
        let len = known[header].len().min(bytes.len());
        bytes[..len].copy_from_slice(&known[header][..len]);
        if let Ok(sketch) = HyperLogLog::from_bytes(&bytes) {
            prop_assert!(sketch.estimate().is_finite());
        }
    }

    /// One bit is flipped. Whatever is read then estimates nearly the same; registers are never read otherwise.
    #[test]
    fn damage_is_refused(
        precision in 4_u32..=10,
        count in prop_oneof![count(), 0_i64..100_000],
        bits in prop_oneof![Just(4_u32), Just(6), Just(8)],
        merged in any::<bool>(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut sketch = of(precision, 0..count);
        if merged {
            sketch.merge(&of(precision, count..count + 100));
        }
        let mut image = sketch.to_bytes(bits).unwrap();
        let at = at.index(8 * image.len());
        image[at / 8] ^= 1 << (at % 8);
        if let Ok(read) = HyperLogLog::from_bytes(&image) {
            if let (State::Dense(read), State::Dense(sketch)) = (&read.state, &sketch.state) {
                // The flag that says which estimate to take, the unused byte before it, the running estimate, or the
                // type where two agree in everything: no register.
                prop_assert_eq!(&read.ranks, &sketch.ranks);
            }
            let tolerance = 0.02 + 20.0 / f64::from(1 << precision).sqrt();
            prop_assert!((read.estimate() - sketch.estimate()).abs() <= tolerance * sketch.estimate() + 2.0);
        }
    }

    #[test]
    fn what_is_cut_off_is_refused(precision in 4_u32..=9, count in count(), bits in prop_oneof![Just(4_u32), Just(6), Just(8)]) {
        let image = of(precision, 0..count).to_bytes(bits).unwrap();
        for end in 0..image.len() {
            prop_assert!(matches!(HyperLogLog::from_bytes(&image[..end]), Err(Error::InvalidValue(_))), "{}", end);
        }
        let longer = [&image[..], &[1]].concat();
        prop_assert!(HyperLogLog::from_bytes(&longer).is_err());
    }
}

/// Registers of ranks that only 2^40 values would reach, and a type of registers that keeps these as exceptions.
#[test]
fn high_ranks_survive_every_type() {
    let ranks: Vec<u8> = (0..64).map(|index| if index % 9 == 0 { 63 } else { 1 + index % 40 }).collect();
    let sketch = HyperLogLog { precision: 6, state: State::Dense(Dense::of(ranks, None)) };
    for bits in [4, 6, 8] {
        let read = HyperLogLog::from_bytes(&sketch.to_bytes(bits).unwrap()).unwrap();
        assert_eq!(read.to_bytes(8).unwrap(), sketch.to_bytes(8).unwrap(), "{bits}");
    }
}

#[test]
fn estimates_are_within_four_standard_errors() {
    for precision in [4, 8, 12, 16, 21] {
        for count in [0, 1, 7, 8, 300, 10_000, 1_000_000] {
            let sketch = of(precision, 0..count);
            let error = 4.0 * sketch.relative_error().max(1e-4) * count as f64;
            assert!(
                (sketch.estimate() - count as f64).abs() <= error,
                "{precision}, {count}: {}",
                sketch.estimate()
            );
        }
    }
}

#[test]
fn types_that_are_equal_count_once() {
    let small: ArrayRef = Arc::new(Int8Array::from(vec![Some(-3), Some(100), None, Some(0)]));
    let wanted = apaches(12, HllType::Hll8, [-3, 100, 0]);
    let same = |column: &dyn Array, wanted: &HllSketch| {
        let mut sketch = HyperLogLog::new(12).unwrap();
        sketch.update(column).unwrap();
        let (ours, theirs) = (sketch.to_bytes(8).unwrap(), wanted.serialize());
        assert_eq!(content(&ours), content(&theirs), "{}", column.data_type());
    };
    let days = |data_type: DataType| cast(&cast(&small, &DataType::Int32).unwrap(), &data_type).unwrap();
    let ticks = |data_type: DataType| cast(&cast(&small, &DataType::Int64).unwrap(), &data_type).unwrap();
    same(&small, &wanted);
    for wider in [DataType::Int16, DataType::Int32, DataType::Int64] {
        same(&cast(&small, &wider).unwrap(), &wanted);
    }
    same(&days(DataType::Date32), &wanted);
    same(&days(DataType::Time32(TimeUnit::Second)), &wanted);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        same(&ticks(DataType::Timestamp(unit, Some("UTC".into()))), &wanted);
        same(&ticks(DataType::Duration(unit)), &wanted);
    }
    same(&ticks(DataType::Date64), &wanted);
    same(&ticks(DataType::Time64(TimeUnit::Nanosecond)), &wanted);
    same(&UInt64Array::from(vec![u64::MAX]), &apaches(12, HllType::Hll8, [-1]));
    same(&UInt32Array::from(vec![u32::MAX]), &apaches(12, HllType::Hll8, [u32::MAX.into()]));
    same(&BooleanArray::from(vec![Some(true), None, Some(true)]), &apaches(12, HllType::Hll8, [1]));
    same(&NullArray::new(5), &apaches(12, HllType::Hll8, []));

    let floats =
        Float32Array::from(vec![Some(0.0), Some(-0.0), None, Some(f32::NAN), Some(-f32::NAN), Some(0.5)]);
    let mut wanted = HllSketch::new(12, HllType::Hll8).unwrap();
    for value in [0.0, 0.5, f64::NAN] {
        wanted.update(datasketches::hash::value::canonical_float::from_f64(value));
    }
    for float in [DataType::Float16, DataType::Float32, DataType::Float64] {
        same(&cast(&floats, &float).unwrap(), &wanted);
    }

    let words = [Some("b"), None, Some(""), Some("längeres Wort"), Some("b"), Some("unused")];
    let text: ArrayRef = Arc::new(StringArray::from(words.to_vec()));
    let mut wanted = HllSketch::new(12, HllType::Hll8).unwrap();
    ["b", "längeres Wort"].into_iter().for_each(|word| wanted.update(raw_bytes::from_str(word)));
    let dictionary = DataType::Dictionary(DataType::Int16.into(), DataType::Utf8.into());
    let binary = [DataType::Binary, DataType::LargeBinary, DataType::BinaryView];
    for other in
        [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, dictionary].into_iter().chain(binary)
    {
        // The value of the last row is in the slice's buffers and dictionary, and yet not counted.
        same(&cast(&text, &other).unwrap().slice(0, 5), &wanted);
    }
    let runs =
        RunArray::try_new(&Int16Array::from(vec![2, 4, 6]), &StringArray::from(vec!["a", "b", "c"])).unwrap();
    let mut wanted = HllSketch::new(12, HllType::Hll8).unwrap();
    wanted.update(raw_bytes::from_str("b"));
    same(&runs.slice(2, 2), &wanted);
    same(&runs.slice(2, 0), &apaches(12, HllType::Hll8, []));
    let fixed = FixedSizeBinaryArray::try_from_iter([b"b", b"b"].into_iter()).unwrap();
    same(&fixed, &wanted);
    let nothing: DictionaryArray<Int8Type> = vec![None::<&str>, None].into_iter().collect();
    same(&nothing, &apaches(12, HllType::Hll8, []));
}

#[test]
fn other_types_are_refused_before_anything_is_counted() {
    let mut lists = ListBuilder::new(NullBuilder::new());
    lists.append(true);
    let columns: [ArrayRef; 2] = [Arc::new(Decimal128Array::from(vec![1])), Arc::new(lists.finish())];
    for column in columns {
        let mut sketch = HyperLogLog::new(12).unwrap();
        let error = sketch.update(&column).unwrap_err();
        assert!(matches!(error, Error::InvalidType(text) if text.contains("allowed are integers")));
        assert!(sketch.is_empty());
    }
}

#[test]
fn parameters_are_checked() {
    for precision in [0, 3, 22, u32::MAX] {
        let error = HyperLogLog::new(precision).unwrap_err();
        assert!(
            matches!(error, Error::InvalidValue(text) if text.contains(&format!("{precision} was given")))
        );
    }
    let sketch = of(4, 0..100);
    assert!(matches!(sketch.bounds(0), Err(Error::InvalidValue(_))));
    assert!(matches!(sketch.bounds(4), Err(Error::InvalidValue(_))));
    assert!(matches!(sketch.to_bytes(5), Err(Error::InvalidValue(_))));
}
