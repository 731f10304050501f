//! The cells of each figure.

use std::time::{Duration, Instant};

use stats_alloc::{Region, StatsAlloc};
use windowkit::aggregate::Rows;
use windowkit::kernels::Ranges;
use windowkit::window::{Counted, Partial, Sliding, Window};
use windowkit_baselines::SumWithoutInvert;

use crate::Given;
use crate::data::{RATE, SECOND, Stream, Values};
use crate::shared::sides::{Batch, Make, Worker, Workload, step};
use crate::shared::{Options, in_turns, noise, timed};
use crate::sides::{SIDES, Splitting, concurrent, counted, with_session};

/// Rows that a side has taken in before its time counts: what the longest window holds.
const BEFORE: usize = 20 * RATE as usize;

/// Latencies of which one is the median, at least.
const LATENCIES: usize = 9;

/// A side at work on a stream.
struct Run {
    worker: Box<dyn Worker>,
    stream: Stream,
}

impl Run {
    fn new(make: Make, workload: &Workload, stream: Stream) -> Option<Self> {
        Some(Self { worker: make(workload).ok()?, stream })
    }

    /// Hands in a batch and its watermark; its rows, and how long that took.
    fn step(&mut self, rows: usize) -> (usize, Duration) {
        let (batch, watermark) = self.stream.next(rows);
        let rows = batch.times.len();
        (rows, step(&mut *self.worker, batch, watermark))
    }

    /// Rows a second.
    fn rate(&mut self, given: &Given) -> f64 {
        self.step(BEFORE);
        let (rows, time) = timed(given.options.seconds, || self.step(given.batch));
        rows as f64 / time.as_secs_f64()
    }
}

/// Figs. 8, 9, 12, 13, 14 and 16: rows a second.
pub fn throughput(given: &Given) {
    let options = &given.options;
    let windows: &[usize] = if options.quick { &[1, 20] } else { &[1, 10, 20, 50, 100, 200, 500, 1000] };
    let cell = |figure: &str, x: &str, workload: &Workload, values: &Values, share: f64, delay: i64| {
        let stream = Stream::new(values, share, delay);
        in_turns(options, (figure, x), ["rows/s"], &SIDES, |&make| {
            Some([Run::new(make, workload, stream.clone())?.rate(given)])
        });
    };
    let two_seconds = 2 * SECOND;
    if options.wants("8") {
        for &n in windows {
            cell("8", &n.to_string(), &Workload::new(concurrent(n)), &Values::Football, 0.0, 0);
        }
    }
    if options.wants("9") {
        for &n in windows {
            let workload = Workload::new(with_session(n)).out_of_order();
            cell("9a", &n.to_string(), &workload, &Values::Football, 0.2, two_seconds);
            if let Some(machine) = &given.machine {
                cell("9b", &n.to_string(), &workload, machine, 0.2, two_seconds);
            }
        }
    }
    let twenty = || Workload::new(with_session(20)).out_of_order();
    if options.wants("12") {
        for percent in [0, 20, 40, 60, 80, 100] {
            let share = f64::from(percent) / 100.0;
            cell("12a", &percent.to_string(), &twenty(), &Values::Football, share, two_seconds);
        }
        for tenths in [0, 5, 10, 20, 40, 80] {
            let x = format!("{}", tenths as f64 / 10.0);
            cell("12b", &x, &twenty(), &Values::Football, 0.2, SECOND * tenths / 10);
        }
    }
    if options.wants("13") {
        let functions: [(&str, &[f64]); 19] = [
            ("count", &[]),
            ("sum", &[]),
            (SumWithoutInvert::NAME, &[]),
            ("mean", &[]),
            ("geometric_mean", &[]),
            ("stddev_samp", &[]),
            ("stddev_pop", &[]),
            ("min", &[]),
            ("max", &[]),
            ("min_count", &[]),
            ("max_count", &[]),
            ("arg_min", &[]),
            ("arg_max", &[]),
            ("first", &[]),
            ("last", &[]),
            ("m4", &[]),
            ("count_distinct", &[]),
            ("median", &[]),
            ("quantile", &[0.9]),
        ];
        // Invertible, not, an extremum, and holistic.
        let some = ["sum", SumWithoutInvert::NAME, "max", "median"];
        for (function, parameters) in functions {
            if options.quick && !some.contains(&function) {
                continue;
            }
            let [by_time, by_rows] = [twenty(), Workload::new(counted(20)).out_of_order()]
                .map(|workload| workload.function(function, parameters));
            cell("13a", function, &by_time, &Values::Football, 0.2, two_seconds);
            cell("13b", function, &by_rows, &Values::Football, 0.2, two_seconds);
        }
    }
    if options.wants("14") {
        let machine = given.machine.clone().map(|machine| ("machine", machine));
        let football = [("football", Values::Football), ("80,000 values", Values::Distinct(80_000))];
        for (name, values) in football.into_iter().chain(machine) {
            for &n in windows.iter().filter(|&&n| n <= 100) {
                let workload = Workload::new(with_session(n)).out_of_order().function("median", &[]);
                cell("14", &format!("{name}: {n}"), &workload, &values, 0.2, two_seconds);
            }
        }
    }
    if options.wants("16") {
        for &n in windows {
            for (figure, windows) in [("16a", concurrent(n)), ("16b", counted(n))] {
                let workload = Workload::new(windows).out_of_order();
                cell(figure, &n.to_string(), &workload, &Values::Football, 0.2, two_seconds);
            }
        }
    }
}

/// Fig. 10: bytes, by what sides say of themselves and by what they have from the allocator.
pub fn bytes(given: &Given, allocator: &StatsAlloc<std::alloc::System>) {
    let options = &given.options;
    if !options.wants("10") {
        return;
    }
    let most = if options.quick { 10_000 } else { 1_000_000 };
    // Figure, what varies, slices, rows, and whether slices are of so many rows, and not of a time.
    let cells =
        [("10a", "10b", false), ("10c", "10d", true)].into_iter().flat_map(|(first, second, by_rows)| {
            let slices = [10, 100, 1_000, 10_000].map(|slices| (first, slices, slices, 50_000, by_rows));
            let rows = [500, 5_000, 50_000, 500_000].map(|rows| (second, rows, 500, rows, by_rows));
            slices.into_iter().chain(rows)
        });
    for (figure, x, slices, rows, by_rows) in cells {
        if rows.max(slices) > most {
            continue;
        }
        for (side, make) in SIDES {
            // All of the slices, one a window, are within the allowed lateness.
            let span = 1_000_000_000i64;
            let (size, counts) = (span / slices as i64, rows / slices);
            let window = match by_rows {
                true => Window::Counted(Counted::new(counts, counts, Partial::NONE)),
                false => Window::Sliding(Sliding::new(size, size, 0)),
            };
            let mut workload = Workload::new(vec![window]).out_of_order();
            workload.lateness = 2 * span;
            let region = Region::new(allocator);
            let Ok(mut worker) = make(&workload) else { continue };
            for from in (0..rows).step_by(given.batch) {
                let row = from..rows.min(from + given.batch);
                // One row in five is earlier than those around it.
                let time = |row: usize| {
                    let behind =
                        if noise(row as u64).is_multiple_of(5) { noise(row as u64) % 1000 } else { 0 };
                    (row as i64 - (behind as i64).min(row as i64)) * (span / rows as i64)
                };
                let times: Vec<i64> = row.clone().map(time).collect();
                let values = row.map(|row| noise(row as u64) as i64 >> 20);
                worker.load(Batch::new(times, values)).expect("columns of the workload");
                worker.push().expect("rows");
            }
            let own = worker.bytes();
            let change = region.change();
            let held = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
            options.print(figure, &x.to_string(), side, "bytes, own count", vec![own as f64]);
            options.print(figure, &x.to_string(), side, "bytes, allocator", vec![held as f64]);
        }
    }
}

/// Fig. 11: how long one window takes, over so many entries: rows, slices or buckets.
pub fn latency(options: &Options) {
    if !options.wants("11") {
        return;
    }
    // A run is one call.
    let mut options = options.clone();
    options.repeats = options.repeats.max(LATENCIES);
    let most = if options.quick { 1_000 } else { 100_000 };
    for (figure, function) in [("11a", "sum"), ("11c", "median")] {
        for entries in [10, 100, 1_000, 10_000, 100_000].into_iter().filter(|&entries| entries <= most) {
            in_turns(&options, (figure, &entries.to_string()), ["ns"], &SIDES, |make| {
                let entries = entries as i64;
                // A window over all, and one per row, so that each row is a slice, or bucket, by itself.
                let windows = [entries, 1].map(|size| Window::Sliding(Sliding::new(size, size, 0)));
                let mut workload = Workload::new(windows.into()).out_of_order().function(function, &[]);
                // Nothing is dropped, so that only answering is timed.
                workload.lateness = 1 << 60;
                let mut worker = make(&workload).ok()?;
                let values = (0..entries as u64).map(|at| (noise(at) % 84_232) as i64);
                let batch = Batch::new((0..entries).collect(), values);
                worker.load(batch).expect("columns of the workload");
                worker.push().expect("rows");
                // The last steps are like the one that is timed, so that it finds the code where a stream has it.
                for at in entries - 8..entries {
                    worker.advance(at).expect("a watermark");
                }
                let start = Instant::now();
                let windows = worker.advance(entries).expect("a watermark");
                let took = start.elapsed();
                assert_eq!(windows, 2, "the last row's own window, and that of all");
                Some([took.as_nanos() as f64])
            });
        }
    }
}

/// Fig. 15: how long it takes to compute a slice's aggregate anew, and to split a slice in the operator, where what is
/// computed anew is one half of it.
pub fn recomputation(options: &Options) {
    if !options.wants("15") {
        return;
    }
    let most = if options.quick { 10_000 } else { 1_000_000 };
    for function in ["sum", "median"] {
        for rows in [10usize, 100, 1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&rows| rows <= most)
        {
            let workload = Workload::new(concurrent(1)).function(function, &[]);
            let values = (0..rows as u64).map(|at| (noise(at) % 84_232) as i64);
            let values: Vec<i64> = values.collect();
            let times: Vec<i64> = (0..rows as i64).collect();
            let rows_of = || Batch::new(times.clone(), values.iter().copied());
            let batch = rows_of();
            let slots = vec![0; rows];
            let mut one = Ranges::default();
            one.push(0, 1);
            let run = || {
                let partials = workload.partials().expect("a function of one column");
                let inputs = workload.inputs(&batch).expect("a function of one column");
                let start = Instant::now();
                for (mut partials, input) in partials.into_iter().zip(inputs) {
                    input.feed(&mut *partials, Rows::all(&slots, &times), 1).expect("rows");
                    // In order, as slices are before windows are made of them.
                    std::hint::black_box(partials.regroup(&[0], &[0]).expect("one slot"));
                }
                start.elapsed().as_nanos() as f64
            };
            let repeats = options.repeats.max(5);
            let runs = (0..repeats).map(|_| run()).collect();
            options.print("15", &rows.to_string(), function, "ns", runs);
            let split = || {
                let mut slicing = Splitting::of(&workload, rows_of()).expect("rows of one slice");
                let start = Instant::now();
                let splits = slicing.split(rows as i64 / 2).expect("a time among them");
                let took = start.elapsed();
                assert_eq!(splits, 1, "the slice was cut in two");
                took.as_nanos() as f64
            };
            let runs = (0..repeats).map(|_| split()).collect();
            options.print("15", &rows.to_string(), &format!("{function}, a split"), "ns", runs);
        }
    }
}

/// Fig. 17: M4 over 80 concurrent windows, by so many instances at a time.
pub fn parallel(given: &Given) {
    let options = &given.options;
    if !options.wants("17") {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for degree in (1..=2 * cores).filter(|&degree| degree <= cores || degree == 2 * cores) {
        in_turns(options, ("17", &degree.to_string()), ["rows/s"], &SIDES, |&make| {
            let workload = Workload::new(concurrent(80)).out_of_order().function("m4", &[]);
            let stream = Stream::new(&Values::Football, 0.2, 2 * SECOND);
            let runs: Option<Vec<Run>> =
                (0..degree).map(|_| Run::new(make, &workload, stream.clone())).collect();
            let runs = runs?;
            let began = Instant::now();
            let rows: usize = std::thread::scope(|scope| {
                let instance = |mut run: Run| {
                    let mut rows = 0;
                    while began.elapsed().as_secs_f64() < 2.0 * options.seconds {
                        rows += run.step(given.batch).0;
                    }
                    rows
                };
                let all: Vec<_> = runs.into_iter().map(|run| scope.spawn(move || instance(run))).collect();
                all.into_iter().map(|one| one.join().expect("no instance fails")).sum()
            });
            Some([rows as f64 / began.elapsed().as_secs_f64()])
        });
    }
}
