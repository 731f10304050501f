//! Readings of a sensor at uneven times: the mean of the ten minutes before each, the greatest of each six, and the last
//! four as they come in.
//!
//! `cargo run --package windowkit-kernels --example readings`

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
use arrow_schema::DataType;
use windowkit_kernels::poll::never;
use windowkit_kernels::streaming::{self, StreamWindow};
use windowkit_kernels::{
    Algorithm, Closed, Frames, Function, Question, Result, Rolling, Segments, answer, by_time,
};

const MINUTE: i64 = 60;

fn main() -> Result<()> {
    let seconds: Vec<i64> = (0..24).map(|at| at * 2 * MINUTE + at * at % 50).collect();
    let values = (0..24).map(|at| (at != 9).then(|| f64::from(at * 37 % 11)));
    let readings: ArrayRef = Arc::new(Float64Array::from_iter(values));
    let all = Segments::whole(readings.len());

    let before = by_time::row_ending(&seconds, &all, 10 * MINUTE, Closed::Right)?;
    let means = evaluated(&readings, &Frames::Listed(before), Function::Mean)?;
    let sixes = Frames::Rolling(Rolling::new(6, 6, false, false)?, all);
    let greatest = evaluated(&readings, &sixes, Function::Max)?;

    let mut last = StreamWindow::new(Function::Sum, &DataType::Float64, streaming::Algorithm::Daba)?;
    for (at, &second) in seconds.iter().enumerate() {
        last.insert(&readings.slice(at, 1))?;
        last.evict(last.len().saturating_sub(4))?;
        let sum = last.query()?;
        println!(
            "{second:>5} s {:>4}   mean of 10 min {:>5}   sum of 4 {:>5}",
            shown(&readings, at),
            shown(&means, at),
            shown(&sum, 0),
        );
    }
    let greatest: Vec<String> = (0..greatest.len()).map(|at| shown(&greatest, at)).collect();
    println!("greatest of each six: {}", greatest.join(", "));
    Ok(())
}

fn evaluated(array: &ArrayRef, windows: &Frames, function: Function) -> Result<ArrayRef> {
    let question = Question { function, algorithm: Algorithm::Auto, min_periods: None };
    answer(array, windows, &question, never)
}

fn shown(array: &ArrayRef, at: usize) -> String {
    let numbers = array.as_primitive::<Float64Type>();
    if numbers.is_null(at) { "null".into() } else { format!("{:.1}", numbers.value(at)) }
}
