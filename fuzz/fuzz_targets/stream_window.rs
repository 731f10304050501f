//! Sequences of operations on a window over a stream.
#![no_main]

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use windowkit::Error;
use windowkit::kernels::streaming::{Algorithm, StreamWindow};
use windowkit::kernels::{FUNCTIONS, Function};
use windowkit_fuzz::{Bytes, Value, exact_sum, is_sum, value_at};

#[derive(Arbitrary, Debug)]
enum Op {
    Insert(u8),
    Evict(u8),
    Slide(u8, u8, u8),
    Clear,
}

fuzz_target!(|case: (Bytes, Vec<Op>, u8, bool)| {
    let (bytes, operations, choice, daba) = case;
    let (array, values) = bytes.column(true);
    let function = FUNCTIONS[usize::from(choice) % FUNCTIONS.len()];
    let algorithm = if daba { Algorithm::Daba } else { Algorithm::TwoStacks };
    let asked = Function::parse(function, 1).unwrap();
    let mut window = StreamWindow::new(asked, array.data_type(), algorithm).unwrap();
    let mut rows: VecDeque<(usize, Option<Value>)> = VecDeque::new();
    let (mut read, mut next) = (0, 0);
    for operation in operations {
        match operation {
            Op::Insert(count) => {
                let count = usize::from(count).min(values.len() - read);
                window.insert(&array.slice(read, count)).unwrap();
                for &value in &values[read..read + count] {
                    rows.push_back((next, value));
                    next += 1;
                }
                read += count;
            }
            Op::Evict(count) if usize::from(count) > rows.len() => {
                assert!(matches!(window.evict(count.into()), Err(Error::InvalidValue(_))));
            }
            Op::Evict(count) => {
                window.evict(count.into()).unwrap();
                rows.drain(..usize::from(count));
            }
            Op::Slide(count, size, least) => {
                let (count, size) = (usize::from(count).min(values.len() - read), usize::from(size) + 1);
                let before = (window.len(), rows.clone(), next);
                let got = window.slide(&array.slice(read, count), size as u64, least.into());
                let mut overflows = false;
                rows.drain(..rows.len().saturating_sub(size));
                for (at, &value) in values[read..read + count].iter().enumerate() {
                    rows.push_back((next, value));
                    next += 1;
                    rows.drain(..rows.len().saturating_sub(size));
                    let valid = rows.iter().filter(|(_, value)| value.is_some()).count();
                    let asked = valid >= usize::from(least);
                    match &got {
                        Ok(got) if asked => check(function, value_at(got, at), &rows, &bytes),
                        Ok(got) => assert_eq!(value_at(got, at), None),
                        Err(_) => {
                            overflows |= asked && total(function, &rows).is_some_and(|sum| !fits(sum, &bytes))
                        }
                    }
                }
                match got {
                    Ok(got) => {
                        assert_eq!(got.len(), count);
                        read += count;
                    }
                    Err(Error::Overflow(_)) => {
                        assert!(overflows, "nothing overflows");
                        assert_eq!(window.len(), before.0);
                        (rows, next) = (before.1, before.2);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Clear => {
                window.clear();
                rows.clear();
            }
        }
        assert_eq!(window.len(), rows.len() as u64);
        match window.query() {
            Ok(answer) => check(function, value_at(&answer, 0), &rows, &bytes),
            Err(Error::Overflow(_)) => {
                assert!(total(function, &rows).is_some_and(|sum| !fits(sum, &bytes)), "nothing overflows");
            }
            Err(error) => panic!("{error}"),
        }
    }
});

/// The sum of integers, with the scale of a mean of decimals, if this is a function that may overflow.
fn total(function: &str, rows: &VecDeque<(usize, Option<Value>)>) -> Option<f64> {
    let valid: Vec<f64> = rows.iter().filter_map(|(_, value)| Some((*value)?.float())).collect();
    match function {
        "sum" => Some(valid.iter().sum()),
        "mean" if !valid.is_empty() => Some(valid.iter().sum::<f64>() / valid.len() as f64 * 1e4),
        _ => None,
    }
}

/// Whether a total, known to a few digits, surely fits the type of the answer.
fn fits(total: f64, bytes: &Bytes) -> bool {
    use windowkit_fuzz::Kind::*;
    match bytes.kind {
        Decimal128 => total.abs() < 0.999e38,
        UInt8 | UInt16 | UInt32 | UInt64 => total < 0.999 * u64::MAX as f64,
        _ => total.abs() < 0.999 * i64::MAX as f64,
    }
}

fn check(function: &str, got: Option<Value>, rows: &VecDeque<(usize, Option<Value>)>, bytes: &Bytes) {
    let valid: Vec<(usize, Value)> = rows.iter().filter_map(|&(row, value)| Some((row, value?))).collect();
    let floats: Vec<f64> = valid.iter().map(|(_, value)| value.float()).collect();
    let integers = !matches!(bytes.kind, windowkit_fuzz::Kind::Float32 | windowkit_fuzz::Kind::Float64);
    let decimal = bytes.kind == windowkit_fuzz::Kind::Decimal128;
    let best = |max: bool| {
        let wins = |a: Value, b: Value| if max { b.is_below(a) } else { a.is_below(b) };
        valid.iter().copied().reduce(|best, next| if wins(next.1, best.1) { next } else { best })
    };
    let exactly = |want: Option<Value>| match (got, want) {
        (Some(got), Some(want)) => got.is(want),
        (got, want) => got.is_none() && want.is_none(),
    };
    let row = |found: Option<(usize, Value)>| found.map(|(row, _)| Value::Integer(row as i128));
    let right = match function {
        "count" => exactly(Some(Value::Integer(valid.len() as i128))),
        "min" => exactly(best(false).map(|(_, value)| value)),
        "max" => exactly(best(true).map(|(_, value)| value)),
        "argmin" => exactly(row(best(false))),
        "argmax" => exactly(row(best(true))),
        "first" => exactly(valid.first().map(|&(_, value)| value)),
        "last" => exactly(valid.last().map(|&(_, value)| value)),
        "var" | "std" => got.is_some() == (valid.len() > 1) && got.is_none_or(|got| !(got.float() < 0.0)),
        _ if valid.is_empty() => got.is_none(),
        "sum" if integers => {
            let sum = valid.iter().try_fold(0i128, |sum, (_, value)| match value {
                Value::Integer(value) => sum.checked_add(*value),
                Value::Float(_) => None,
            });
            // Beyond 128 bits, the definition itself would need more.
            sum.is_none() || exactly(sum.map(Value::Integer))
        }
        "sum" => is_sum(got.expect("a sum of some values").float(), &floats),
        _ => {
            let unit = if decimal { 1e4 } else { 1.0 };
            let shares: Vec<f64> = floats.iter().map(|value| value / floats.len() as f64 * unit).collect();
            let mean = got.expect("a mean of some values").float();
            let slack = 1e-15 * shares.iter().map(|share| share.abs()).sum::<f64>();
            let rounding = if decimal { 0.5000001 } else { f64::MIN_POSITIVE };
            is_sum(mean, &shares) || (mean - exact_sum(shares.into_iter())).abs() <= slack + rounding
        }
    };
    assert!(right, "{function} of {valid:?} is not {got:?}");
}
