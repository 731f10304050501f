//! The window against its definition, operation by operation.

use std::collections::VecDeque;

use arrow_array::{Decimal128Array, DurationSecondArray, Float64Array, Int32Array, Int64Array, UInt64Array};
use proptest::prelude::*;

use super::super::tests::config;
use super::*;
use crate::kernels::FUNCTIONS;

const BOTH: [Algorithm; 2] = [Algorithm::Daba, Algorithm::TwoStacks];

fn window_of(function: &str, input: &DataType, algorithm: Algorithm) -> Result<StreamWindow> {
    StreamWindow::new(Function::parse(function, 1)?, input, algorithm)
}

/// `2^exponent`, exactly: Miri lets `powi` be off by some units, as the platform's may be.
fn two_to(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

fn floats(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// The definition, evaluated over what a window holds: row numbers and values.
fn naive(function: &str, rows: &VecDeque<(i64, Option<f64>)>) -> Option<f64> {
    let values: Vec<(i64, f64)> = rows.iter().filter_map(|&(row, value)| Some((row, value?))).collect();
    let only = || values.iter().map(|&(_, value)| value);
    let count = values.len() as f64;
    let below = |a: f64, b: f64| a < b || (b.is_nan() && !a.is_nan());
    let best = |wins: &dyn Fn(f64, f64) -> bool| {
        values.iter().copied().reduce(|best, next| if wins(next.1, best.1) { next } else { best })
    };
    // The values of these tests are multiples of 1/4 or not finite, so that plain sums are exact.
    let sum = only().reduce(|a, b| a + b);
    let variance = || {
        let mean = sum? / count;
        let squares = only().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        (count > 1.0).then(|| squares / (count - 1.0))
    };
    match function {
        "count" => Some(count),
        "sum" => sum,
        "mean" => Some(sum? / count),
        "min" => Some(best(&|a, b| below(a, b))?.1),
        "max" => Some(best(&|a, b| below(b, a))?.1),
        "argmin" => Some(best(&|a, b| below(a, b))?.0 as f64),
        "argmax" => Some(best(&|a, b| below(b, a))?.0 as f64),
        "first" => only().next(),
        "last" => only().next_back(),
        "var" => variance(),
        "std" => variance().map(f64::sqrt),
        _ => unreachable!(),
    }
}

fn same(function: &str, got: &ArrayRef, at: usize, want: Option<f64>) -> bool {
    let got = arrow_cast::cast(got, &DataType::Float64).unwrap();
    let got = got.as_primitive::<Float64Type>();
    let got = got.is_valid(at).then(|| got.value(at));
    match (got, want) {
        (Some(got), Some(want)) if matches!(function, "var" | "std") => {
            got == want || (got - want).abs() <= 1e-12 * want.abs() || (got.is_nan() && want.is_nan())
        }
        (Some(got), Some(want)) => got == want || (got.is_nan() && want.is_nan()),
        (got, want) => got == want,
    }
}

fn values() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        12 => (-40i32..40).prop_map(|quarters| Some(f64::from(quarters) / 4.0)),
        3 => Just(None),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)].prop_map(Some),
    ]
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn every_function_equals_its_definition_after_each_operation(
        steps in prop::collection::vec((prop::collection::vec(values(), 0..12), 0u64..10), 1..40),
        function in prop::sample::select(FUNCTIONS.to_vec()),
        algorithm in prop::sample::select(BOTH.to_vec()),
    ) {
        let mut window = window_of(function, &DataType::Float64, algorithm).unwrap();
        let (mut rows, mut next) = (VecDeque::new(), 0);
        for (inserted, evicted) in steps {
            window.insert(&floats(&inserted)).unwrap();
            for value in inserted {
                rows.push_back((next, value));
                next += 1;
            }
            if evicted <= rows.len() as u64 {
                window.evict(evicted).unwrap();
                rows.drain(..evicted as usize);
            } else {
                prop_assert!(matches!(window.evict(evicted), Err(Error::InvalidValue(_))));
            }
            prop_assert_eq!(window.len(), rows.len() as u64);
            let nulls = rows.iter().filter(|(_, value)| value.is_none()).count();
            prop_assert_eq!(window.null_count(), nulls as u64);
            let (got, want) = (window.query().unwrap(), naive(function, &rows));
            prop_assert!(same(function, &got, 0, want), "{function} is {got:?}, not {want:?}");
        }
    }

    #[test]
    fn sliding_over_batches_equals_the_definition_row_by_row(
        batches in prop::collection::vec(prop::collection::vec(values(), 0..30), 1..6),
        (size, min_periods) in (1usize..12, 0u64..4),
        function in prop::sample::select(FUNCTIONS.to_vec()),
        algorithm in prop::sample::select(BOTH.to_vec()),
    ) {
        let mut window = window_of(function, &DataType::Float64, algorithm).unwrap();
        let (mut rows, mut next) = (VecDeque::new(), 0);
        for batch in batches {
            let got = window.slide(&floats(&batch), size as u64, min_periods).unwrap();
            prop_assert_eq!(got.len(), batch.len());
            for (at, value) in batch.into_iter().enumerate() {
                rows.push_back((next, value));
                next += 1;
                rows.drain(..rows.len().saturating_sub(size));
                let count = rows.iter().filter(|(_, value)| value.is_some()).count() as u64;
                let want = naive(function, &rows).filter(|_| count >= min_periods);
                prop_assert!(same(function, &got, at, want), "{function} at {at}: {got:?}, not {want:?}");
            }
        }
    }

    #[test]
    fn float_sums_err_no_more_than_one_rounding_of_the_exact_sum(
        values in prop::collection::vec((-(1i64 << 52)..1 << 52, 0i32..66), 1..300),
        size in 1usize..40,
        algorithm in prop::sample::select(BOTH.to_vec()),
    ) {
        // Multiples of 2^-60 below 2^58; as integers, 40 of them add up exactly in 128 bits.
        let floats: Vec<f64> = values.iter().map(|&(m, e)| m as f64 * two_to(e - 60)).collect();
        let exact: Vec<i128> = values.iter().map(|&(m, e)| i128::from(m) << e).collect();
        let mut window = window_of("sum", &DataType::Float64, algorithm).unwrap();
        let array: ArrayRef = Arc::new(Float64Array::from(floats));
        let got = window.slide(&array, size as u64, 1).unwrap();
        for (at, &got) in got.as_primitive::<Float64Type>().values().iter().enumerate() {
            let from = (at + 1).saturating_sub(size);
            let want: i128 = exact[from..=at].iter().sum();
            let error = got * two_to(60) - want as f64;
            let magnitude: f64 = exact[from..=at].iter().map(|&x| x.unsigned_abs() as f64).sum();
            let rounded_twice = f64::EPSILON * (want as f64).abs();
            let bound = rounded_twice + 40.0 * two_to(-103) * magnitude;
            prop_assert!(error.abs() <= bound, "{got} is not {want} · 2^-60 at {at}: {error} over {bound}");
        }
    }
}

#[test]
fn what_has_left_a_window_does_not_spoil_it() {
    for algorithm in BOTH {
        let mut window = window_of("sum", &DataType::Float64, algorithm).unwrap();
        let passing = [1e300, f64::INFINITY, f64::NAN, -1e300, 1e-3, 2e-3, 4e-3];
        let got = window.slide(&floats(&passing.map(Some)), 2, 2).unwrap();
        let got = got.as_primitive::<Float64Type>();
        assert_eq!(got.value(5), 1e-3 + 2e-3);
        assert_eq!(got.value(6), 2e-3 + 4e-3);
    }
}

#[test]
fn variances_keep_their_digits_under_a_large_offset() {
    for algorithm in BOTH {
        let noise = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as f64 / (1u64 << 32) as f64;
        // Multiples of 2^-22, so that adding the offset rounds nothing.
        let noise = |at: u64| (noise(at) * 4_194_304.0).floor() / 4_194_304.0;
        let rows = if cfg!(miri) { 50 } else { 5_000 };
        let shifted: Vec<Option<f64>> = (0..rows).map(|at| Some(1e9 + noise(at))).collect();
        let mut window = window_of("var", &DataType::Float64, algorithm).unwrap();
        let got = window.slide(&floats(&shifted), rows / 2, 2).unwrap();
        let got = got.as_primitive::<Float64Type>();
        for at in [rows / 4, rows / 2, rows - 1] {
            let from = (at + 1).saturating_sub(rows / 2);
            let count = (at + 1 - from) as f64;
            let mean = (from..=at).map(noise).sum::<f64>() / count;
            let want = (from..=at).map(|at| (noise(at) - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let error = (got.value(at as usize) / want - 1.0).abs();
            assert!(error < 1e-12, "relative error {error:e} at {at}");
        }
    }
}

#[test]
fn only_a_true_sum_overflows_and_leaves_the_window_as_it_was() {
    for algorithm in BOTH {
        let mut window = window_of("sum", &DataType::Int64, algorithm).unwrap();
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1, -1, 5]));
        window.insert(&rows.slice(0, 2)).unwrap();
        assert!(matches!(window.query(), Err(Error::Overflow(_))));
        window.insert(&rows.slice(2, 1)).unwrap();
        assert_eq!(window.query().unwrap().as_primitive::<Int64Type>().value(0), i64::MAX);
        assert!(matches!(window.slide(&rows.slice(3, 1), 4, 1), Err(Error::Overflow(_))));
        assert_eq!(window.len(), 3);
        assert_eq!(window.query().unwrap().as_primitive::<Int64Type>().value(0), i64::MAX);
        let answers = window.slide(&rows.slice(3, 1), 3, 1).unwrap();
        assert_eq!(answers.as_primitive::<Int64Type>().values(), &[5]);
    }
}

#[test]
fn unsigned_sums_reach_the_top_of_uint64_and_means_go_beyond() {
    let rows: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX - 1, 1, u64::MAX]));
    let mut sum = window_of("sum", &DataType::UInt64, Algorithm::Daba).unwrap();
    sum.insert(&rows.slice(0, 2)).unwrap();
    assert_eq!(sum.query().unwrap().as_primitive::<UInt64Type>().value(0), u64::MAX);
    let mut mean = window_of("mean", &DataType::UInt64, Algorithm::Daba).unwrap();
    mean.insert(&rows).unwrap();
    let want = u64::MAX as f64 * 2.0 / 3.0;
    assert_eq!(mean.query().unwrap().as_primitive::<Float64Type>().value(0), want);
}

#[test]
fn decimals_are_exact_in_between_and_rounded_half_up() {
    let decimal = |values: Vec<i128>, precision, scale| -> ArrayRef {
        let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
        Arc::new(array.unwrap())
    };
    let most = 10i128.pow(38) - 1;
    let mut window = window_of("sum", &DataType::Decimal128(38, 2), Algorithm::Daba).unwrap();
    window.insert(&decimal(vec![most, most, -most], 38, 2)).unwrap();
    assert_eq!(window.query().unwrap().as_primitive::<Decimal128Type>().value(0), most);
    window.evict(2).unwrap();
    window.insert(&decimal(vec![-1], 38, 2)).unwrap();
    assert!(matches!(window.query(), Err(Error::Overflow(_))));

    let values = [vec![1], vec![0; 31]].concat();
    let mut mean = window_of("mean", &DataType::Decimal128(5, 0), Algorithm::Daba).unwrap();
    mean.insert(&decimal(values, 5, 0)).unwrap();
    let answer = mean.query().unwrap();
    assert_eq!(answer.data_type(), &DataType::Decimal128(9, 4));
    assert_eq!(answer.as_primitive::<Decimal128Type>().value(0), 313);
}

#[test]
fn durations_keep_their_type() {
    let rows: ArrayRef = Arc::new(DurationSecondArray::from(vec![1, 2, 2]));
    for (function, want) in [("sum", 5), ("mean", 2), ("max", 2)] {
        let mut window = window_of(function, rows.data_type(), Algorithm::Daba).unwrap();
        window.insert(&rows).unwrap();
        let answer = window.query().unwrap();
        assert_eq!(answer.as_primitive::<DurationSecondType>().value(0), want, "{function}");
    }
}

#[test]
fn bad_input_is_refused() {
    let of = |function, input| window_of(function, &input, Algorithm::Daba);
    assert!(matches!(of("median", DataType::Int64), Err(Error::InvalidValue(_))));
    assert!(matches!(of("sum", DataType::Date32), Err(Error::InvalidType(_))));
    assert!(matches!(of("var", DataType::Boolean), Err(Error::InvalidType(_))));
    assert!(matches!(of("min", DataType::Utf8), Err(Error::InvalidType(_))));
    assert!(of("count", DataType::Utf8).is_ok());
    assert!(matches!(Algorithm::parse("recalculate"), Err(Error::InvalidValue(_))));
    let mut window = of("sum", DataType::Int64).unwrap();
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    assert!(matches!(window.insert(&narrow), Err(Error::InvalidType(_))));
    assert!(matches!(window.slide(&narrow, 1, 1), Err(Error::InvalidType(_))));
    assert!(matches!(window.evict(1), Err(Error::InvalidValue(_))));
    let mut bytes = of("sum", DataType::Int8).unwrap();
    assert!(matches!(bytes.insert_number(Number::Signed(128)), Err(Error::InvalidValue(_))));
    bytes.insert_number(Number::Signed(-128)).unwrap();
    bytes.insert_number(Number::Null).unwrap();
    assert_eq!((bytes.len(), bytes.null_count()), (2, 1));
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(matches!(window.slide(&rows, 0, 1), Err(Error::InvalidValue(_))));
    assert!(window.is_empty());
}
