//! sum and mean in windows of rows: exact for integers and decimals, and to Kahan's bound for floats.
#![no_main]

use arrow_buffer::i256;
use libfuzzer_sys::fuzz_target;
use windowkit::kernels::Function;
use windowkit_fuzz::{Bytes, Kind, Shape, Value, is_sum};

fuzz_target!(|case: (Bytes, Shape, bool)| {
    let (bytes, shape, mean) = case;
    let (array, values) = bytes.column(true);
    let function = if mean { Function::Mean } else { Function::Sum };
    let float = matches!(bytes.kind, Kind::Float32 | Kind::Float64);
    let decimal = bytes.kind == Kind::Decimal128;
    let unsigned = matches!(bytes.kind, Kind::UInt8 | Kind::UInt16 | Kind::UInt32 | Kind::UInt64);
    let total = |window: &[(usize, Value)]| {
        window.iter().fold(i256::ZERO, |sum, (_, value)| match value {
            Value::Integer(value) => sum.wrapping_add(i256::from_i128(*value)),
            Value::Float(_) => unreachable!("integers only"),
        })
    };
    let of = |window: &[(usize, Value)]| {
        if window.is_empty() {
            return Ok(None);
        }
        if float {
            return Ok(Some(Value::Float(0.0)));
        }
        let (sum, count) = (total(window), i256::from_i128(window.len() as i128));
        let limit = i256::from_i128(10i128.pow(38));
        let fitting = |value: i256| {
            let fits = value < limit && value > i256::ZERO.wrapping_sub(limit);
            let value = value.to_i128().filter(|_| fits).ok_or(())?;
            Ok(Some(Value::Integer(value)))
        };
        match (decimal, mean) {
            (true, false) => fitting(sum),
            (true, true) => {
                // decimal(38, 3) has means of decimal(38, 7), halves rounded away from zero.
                let scaled = sum.wrapping_mul(i256::from_i128(10_000));
                let twice = scaled.wrapping_add(scaled).wrapping_abs().wrapping_add(count);
                let rounded = twice.wrapping_div(count.wrapping_add(count));
                fitting(if sum.is_negative() { i256::ZERO.wrapping_sub(rounded) } else { rounded })
            }
            (false, true) => Ok(Some(Value::Float(sum.as_i128() as f64 / window.len() as f64))),
            (false, false) => {
                let sum = sum.as_i128();
                let fits = if unsigned { u64::try_from(sum).is_ok() } else { i64::try_from(sum).is_ok() };
                if fits { Ok(Some(Value::Integer(sum))) } else { Err(()) }
            }
        }
    };
    shape.compare(function, &array, &values, of, |got, want, window| {
        if !float {
            // Means of integers may be divided before or after they are rounded.
            return got.is(want) || (mean && !decimal && (got.float() / want.float() - 1.0).abs() < 1e-15);
        }
        let floats: Vec<f64> = window.iter().map(|(_, value)| value.float()).collect();
        if !mean {
            return is_sum(got.float(), &floats);
        }
        let count = floats.len() as f64;
        let shares: Vec<f64> = floats.iter().map(|value| value / count).collect();
        // Of shares, each rounded: half a unit more per value.
        is_sum(got.float(), &shares)
            || (got.float() - windowkit_fuzz::exact_sum(shares.iter().copied())).abs()
                <= 2f64.powi(-51) * shares.iter().map(|value| value.abs()).sum::<f64>() + f64::MIN_POSITIVE
    });
});
