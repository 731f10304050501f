//! Latency of one row (insert, evict, query) of a window over a stream, as a distribution: DABA and Two-Stacks.
//!
//! `cargo bench --bench daba` prints a table, `cargo bench --bench daba -- --json` a JSON record a line. Criterion takes
//! means, and the point here is the worst; so each row is timed by itself. Reading the clock takes about as long as the
//! row, so the same loop without a window is measured as well: its median is taken off each percentile. An interrupt
//! takes longer than any row; but it does not come at the same row again, and all runs have the same rows. So each row
//! counts with the least of its runs, and what is slow in all of them is the window's own.

use std::time::Instant;

use windowkit::algebra::{Extremum, FloatSum, Monoid, Twofold};
use windowkit::kernels::streaming::{Daba, Fifo, TwoStacksLite};

const ROWS: usize = 4_000_000;
/// How often the same rows pass.
const RUNS: usize = 7;
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Nanoseconds of each row.
fn times(mut row: impl FnMut(usize)) -> Vec<u32> {
    let mut last = Instant::now();
    (0..ROWS)
        .map(|at| {
            row(at);
            let now = Instant::now();
            let nanos = (now - last).as_nanos().min(u128::from(u32::MAX)) as u32;
            last = now;
            nanos
        })
        .collect()
}

fn window<M: Monoid, F: Fifo<M>>(function: M, size: usize, value: impl Fn(usize) -> M::State) -> Vec<u32> {
    let mut window = F::new(function);
    (0..size).for_each(|at| window.insert(value(at)));
    times(|at| {
        window.insert(value(at));
        window.evict();
        std::hint::black_box(window.query());
    })
}

fn percentile(sorted: &[u32], share: f64) -> u32 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mixed = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64;
    let float = |at: usize| Twofold::new(mixed(at) as f64);
    let (min, sum) = (Extremum::<i64, false>::new(false), FloatSum { vectors: false });
    if !json {
        let heads: Vec<String> = PERCENTILES.iter().map(|(name, _)| format!("{name:>8}")).collect();
        println!(
            "{:24}{:>10}{}{:>10}   ns a row, the clock's taken off",
            "function",
            "window",
            heads.concat(),
            "max"
        );
    }
    for size in [64, 1024, 65_536, 1 << 20] {
        // In turns; each row's least so far.
        let mut all: Vec<(&str, Vec<u32>)> = Vec::new();
        for _ in 0..RUNS {
            let runs = [
                ("clock", times(|at| _ = std::hint::black_box(mixed(at)))),
                ("daba min int64", window::<_, Daba<_>>(min, size, mixed)),
                ("two_stacks min int64", window::<_, TwoStacksLite<_>>(min, size, mixed)),
                ("daba sum float64", window::<_, Daba<_>>(sum, size, float)),
                ("two_stacks sum float64", window::<_, TwoStacksLite<_>>(sum, size, float)),
            ];
            for (name, nanos) in runs {
                match all.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, least)) => least.iter_mut().zip(nanos).for_each(|(a, b)| *a = b.min(*a)),
                    None => all.push((name, nanos)),
                }
            }
        }
        for (_, nanos) in &mut all {
            nanos.sort_unstable();
            let shares = PERCENTILES.iter().map(|&(_, share)| share).chain([1.0]);
            *nanos = shares.map(|share| percentile(nanos, share)).collect();
        }
        let clock = all[0].1[0];
        for (name, figures) in &all {
            let own: Vec<u32> = match *name {
                "clock" => figures.clone(),
                _ => figures.iter().map(|nanos| nanos.saturating_sub(clock)).collect(),
            };
            if json {
                let fields = PERCENTILES.iter().map(|(name, _)| *name).chain(["max"]).zip(&own);
                let fields: String = fields.map(|(name, nanos)| format!(", \"{name}\": {nanos}")).collect();
                println!("{{\"what\": \"{name}\", \"window\": {size}, \"rows\": {ROWS}{fields}}}");
            } else {
                let figures: String = own[..4].iter().map(|nanos| format!("{nanos:8}")).collect();
                println!("{name:24}{size:>10}{figures}{:>10}", own[4]);
            }
        }
    }
}
