//! var and std in windows of rows, with and without a large offset common to all values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windowkit::kernels::Function;
use windowkit_fuzz::{Bytes, Shape, Value, exact_sum};

fuzz_target!(|case: (Bytes, Shape, bool, u8)| {
    let (bytes, shape, root, ddof) = case;
    let (array, values) = bytes.column(false);
    let ddof = u32::from(ddof % 3);
    let of = |window: &[(usize, Value)]| {
        let count = window.len() as f64;
        if count <= f64::from(ddof) {
            return Ok(None);
        }
        let floats: Vec<f64> = window.iter().map(|(_, value)| decimal_point(&array, value.float())).collect();
        let mean = exact_sum(floats.iter().copied()) / count;
        let squares = exact_sum(floats.iter().map(|value| (value - mean) * (value - mean)));
        let variance = squares / (count - f64::from(ddof));
        Ok(Some(Value::Float(if root { variance.sqrt() } else { variance })))
    };
    let function = Function::Variance { ddof, root };
    shape.compare(function, &array, &values, of, |got, want, window| {
        // Deviations are known to the rounding of the values themselves.
        let reach = window.iter().map(|(_, value)| decimal_point(&array, value.float()).abs());
        let blur = reach.fold(0.0, f64::max) * 1e-13;
        let (got, want) = (got.float(), want.float());
        let slack = if root { blur } else { blur * (blur + want.sqrt()) };
        got >= 0.0 && (got - want).abs() <= 1e-9 * want + slack
    });
});

/// Decimals of this crate's columns have three digits after the point.
fn decimal_point(array: &arrow_array::ArrayRef, value: f64) -> f64 {
    match array.data_type() {
        arrow_schema::DataType::Decimal128(..) => value / 1000.0,
        _ => value,
    }
}
