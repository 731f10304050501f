//! count, first and last in windows of rows: what validity alone answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windowkit::kernels::Function;
use windowkit_fuzz::{Bytes, Shape, Value};

fuzz_target!(|case: (Bytes, Shape, u8)| {
    let (bytes, shape, choice) = case;
    let (array, values) = bytes.column(true);
    let function = [Function::Count, Function::First, Function::Last][usize::from(choice % 3)];
    let of = |window: &[(usize, Value)]| {
        Ok(match function {
            Function::Count => Some(Value::Integer(window.len() as i128)),
            Function::First => window.first().map(|&(_, value)| value),
            _ => window.last().map(|&(_, value)| value),
        })
    };
    shape.compare(function, &array, &values, of, |got, want, _| got.is(want));
});
