//! What the benchmarks of the two papers have in common: options, rows, sides, and measuring these in turns.

pub mod options;
pub mod sides;

use std::time::{Duration, Instant};

pub use options::Options;

/// Numbers that look random, in a fixed sequence.
pub fn noise(i: u64) -> u64 {
    let mixed = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 31)
}

/// Measures all sides in one cell, in turns: a number in each of these units. A side without one is left out.
pub fn in_turns<M, const N: usize>(
    options: &Options,
    (figure, x): (&str, &str),
    units: [&str; N],
    sides: &[(&str, M)],
    mut measure: impl FnMut(&M) -> Option<[f64; N]>,
) {
    let mut all: Vec<[Vec<f64>; N]> = sides.iter().map(|_| [const { Vec::new() }; N]).collect();
    for _ in 0..options.repeats {
        for ((_, side), values) in
            sides.iter().zip(&mut all).filter(|((name, _), _)| options.wants_side(name, x))
        {
            let measured = measure(side).into_iter().flatten();
            values.iter_mut().zip(measured).for_each(|(values, value)| values.push(value));
        }
    }
    for ((side, _), values) in sides.iter().zip(all) {
        for (unit, values) in units.into_iter().zip(values).filter(|(_, values)| !values.is_empty()) {
            options.print(figure, x, side, unit, values);
        }
    }
}

/// Rows of steps that take so many seconds together, and how long they took.
pub fn timed(seconds: f64, mut step: impl FnMut() -> (usize, Duration)) -> (usize, Duration) {
    let (mut rows, mut time) = (0, Duration::ZERO);
    let began = Instant::now();
    // What lies between the steps is not the side's; where it is most of the time, three times as much is enough.
    while rows == 0 || time.as_secs_f64() < seconds && began.elapsed().as_secs_f64() < 3.0 * seconds {
        let (more, took) = step();
        rows += more;
        time += took;
    }
    (rows, time)
}
