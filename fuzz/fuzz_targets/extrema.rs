//! min, max, argmin, argmax in windows of rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windowkit::kernels::Function;
use windowkit_fuzz::{Bytes, Shape, Value};

fuzz_target!(|case: (Bytes, Shape, u8)| {
    let (bytes, shape, choice) = case;
    let (array, values) = bytes.column(true);
    let function =
        [Function::Min, Function::Max, Function::ArgMin, Function::ArgMax][usize::from(choice % 4)];
    let (max, arg) = (choice % 2 == 1, choice % 4 >= 2);
    let best = |window: &[(usize, Value)]| {
        let wins = |a: Value, b: Value| if max { b.is_below(a) } else { a.is_below(b) };
        let found =
            window.iter().copied().reduce(|best, next| if wins(next.1, best.1) { next } else { best });
        Ok(found.map(|(row, value)| if arg { Value::Integer(row as i128) } else { value }))
    };
    shape.compare(function, &array, &values, best, |got, want, _| got.is(want));
});
