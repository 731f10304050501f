//! The cells of each figure.

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::Int64Array;
use stats_alloc::{Region, StatsAlloc};

use crate::shared::sides::{Batch, Make, Worker, Workload, step};
use crate::shared::{Options, in_turns, noise, timed};
use crate::sides::{Paned, buffering, rows, slices, sliding, slow_flush, wid};

const SECOND: i64 = 1_000;

fn value(row: i64) -> i64 {
    (noise(row as u64 ^ 0xF00D) % 100_000) as i64
}

/// Rows `from..to` of a stream in order, one a unit of time, of one key.
fn in_order(from: i64, to: i64) -> Batch {
    Batch::new((from..to).collect(), (from..to).map(value))
}

/// A side at work.
fn made(make: Make, workload: &Workload) -> Box<dyn Worker> {
    make(workload).expect("a workload that all sides take")
}

/// Nanoseconds a row of a side: batches of so many rows, a row a unit of time, in order; those of the first `before` are
/// not in the clock.
fn per_row(make: Make, workload: &Workload, batch: i64, before: i64, seconds: f64) -> f64 {
    let mut worker = made(make, workload);
    let mut at = 0;
    let mut step = || {
        let took = step(&mut *worker, in_order(at, at + batch), at + batch);
        at += batch;
        (batch as usize, took)
    };
    for _ in 0..before / batch {
        step();
    }
    let (rows, time) = timed(seconds, step);
    time.as_nanos() as f64 / rows as f64
}

/// Fig. 6-10: execution time of maxima over the last 4,000 rows, by how often a window begins.
pub fn overlap(options: &Options) {
    if !options.wants("6-10") {
        return;
    }
    let slides: &[i64] =
        if options.quick { &[4000, 400] } else { &[4000, 2000, 1000, 400, 100, 40, 10, 4, 1] };
    let sides: [(&str, Make); 3] = [("slices", slices), ("wid", wid), ("rows kept", rows)];
    for &slide in slides {
        let workload = Workload::new(sliding(4000, slide)).function("max", &[]);
        in_turns(options, ("6-10", &slide.to_string()), ["ns a row"], &sides, |&make| {
            Some([per_row(make, &workload, 4000, 8000, options.seconds)])
        });
    }
}

/// Fig. 6-15: time with panes as a share of the time without, by rows a pane and panes a window.
pub fn panes(options: &Options) {
    if !options.wants("6-15") {
        return;
    }
    let (each, counts): (&[i64], &[i64]) =
        if options.quick { (&[20], &[5]) } else { (&[1, 5, 20, 100, 1000], &[1, 2, 5, 10, 20]) };
    for &rows_per_pane in each {
        for &count in counts {
            let size = rows_per_pane * count;
            let workload = Workload::new(sliding(size, rows_per_pane)).function("max", &[]);
            // Whole panes, and many at a time.
            let batch = (20_000 / rows_per_pane).max(1) * rows_per_pane;
            let measure = |make: Make| per_row(make, &workload, batch, 2 * size, options.seconds);
            let (mut paned, mut sliced) = (Vec::new(), Vec::new());
            for _ in 0..options.repeats {
                let (with, ours, without) = (measure(Paned::make), measure(slices), measure(wid));
                paned.push(with / without);
                sliced.push(ours / without);
            }
            let side = |what: &str| format!("{what}, {count} panes a window");
            options.print("6-15", &rows_per_pane.to_string(), &side("paned"), "of wid's time", paned);
            options.print("6-15", &rows_per_pane.to_string(), &side("slices"), "of wid's time", sliced);
        }
    }
}

/// Functions by how their partials grow: of constant size; values; sketches.
const FUNCTIONS: [(&str, &[f64]); 7] = [
    ("sum", &[]),
    ("m4", &[]),
    ("median", &[]),
    ("count_distinct", &[]),
    ("collect_list", &[]),
    ("approx_count_distinct", &[12.0]),
    ("approx_quantile", &[0.5]),
];

/// The groups of Li's data sets (Table 6-2): which percentage of the rows is in groups of 1, of about 15 and of about 300.
const SETS: [(&str, [i64; 3]); 5] = [
    ("DS1", [1, 20, 79]),
    ("DS2", [3, 20, 77]),
    ("DS3", [5, 20, 75]),
    ("DS4", [7, 20, 73]),
    ("DS5", [9, 20, 71]),
];
const SIZES: [i64; 3] = [1, 15, 300];

/// Rows of a data set.
const ROWS: i64 = 100_000;

/// Bytes that rows take in one buffer for all groups: a time, a value and the number of its group.
const BUFFERED: f64 = 20.0;

/// Fig. 6-19: bytes for the rows of one window, kept in slices, as window ids, or as rows; and with the better of slices and
/// rows for each group, as if it were known in advance.
pub fn groups(options: &Options, allocator: &StatsAlloc<System>) {
    if !options.wants("6-19") {
        return;
    }
    let sets = if options.quick { &SETS[..1] } else { &SETS[..] };
    let workload = |slide, (function, parameters)| {
        Workload::new(sliding(10 * SECOND, slide)).function(function, parameters).out_of_order().keyed()
    };
    // What a group costs by itself, and with a partial of one row: a count is 8 bytes.
    for (function, parameters) in [("count_all", &[][..])].into_iter().chain(FUNCTIONS) {
        for (side, make) in [("slices", slices as Make), ("wid", wid), ("rows, by group", rows)] {
            let groups = 1 << 16;
            let bytes = held(allocator, make, &workload(10 * SECOND, (function, parameters)), groups, 1);
            options.print("6-19c", function, side, "bytes a group", vec![bytes / groups as f64]);
        }
    }
    for (figure, slide) in [("6-19a", 10 * SECOND), ("6-19b", SECOND)] {
        for (function, parameters) in FUNCTIONS {
            let workload = workload(slide, (function, parameters));
            for (set, shares) in sets {
                // Of each kind of group by itself, since each is dense or sparse as a whole.
                let of_kind = |kind: usize, make: Make| {
                    held(allocator, make, &workload, shares[kind] * ROWS / 100, SIZES[kind])
                };
                let all = |make: Make| -> [f64; 3] { [0, 1, 2].map(|kind| of_kind(kind, make)) };
                let (sliced, hashed, kept) = (all(slices), all(wid), all(rows));
                let buffered = shares.map(|share| (share * ROWS / 100) as f64 * BUFFERED);
                let sum = |of: [f64; 3]| of.iter().sum::<f64>();
                let least = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|kind| a[kind].min(b[kind]));
                let x = format!("{set}, {function}");
                for (side, bytes) in [
                    ("slices", sum(sliced)),
                    ("wid", sum(hashed)),
                    ("rows, by group", sum(kept)),
                    ("rows, one buffer (calculated)", sum(buffered)),
                    ("wid or buffered rows, per group", sum(least(hashed, buffered))),
                    ("slices or buffered rows, per group", sum(least(sliced, buffered))),
                ] {
                    options.print(figure, &x, side, "bytes a row", vec![bytes / ROWS as f64]);
                }
            }
        }
    }
}

/// Bytes that a side holds of the allocator's for so many rows in groups of this size, spread over one window, none of which
/// is final.
fn held(allocator: &StatsAlloc<System>, make: Make, workload: &Workload, rows: i64, size: i64) -> f64 {
    let groups = (rows / size).max(1);
    let region = Region::new(allocator);
    let mut worker = made(make, workload);
    // A row of each group, and then the next of each.
    let span = 10 * SECOND;
    for from in (0..rows).step_by(4096) {
        let own = from..rows.min(from + 4096);
        let batch = Batch {
            keys: own.clone().map(|row| (row % groups) as u32).collect(),
            ..Batch::new(own.clone().map(|row| row * span / rows).collect(), own.map(value))
        };
        step(&mut *worker, batch, 0);
    }
    let change = region.change();
    let held = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    drop(worker);
    held as f64
}

/// Fig. 8-7: counts of ever more groups a minute: rows a second, and the longest call, in which rows that come must wait.
pub fn flushes(options: &Options) {
    if !options.wants("8-7") {
        return;
    }
    let groups: &[u64] = if options.quick { &[66_000] } else { &[66_000, 130_000, 260_000, 520_000] };
    let sides: [(&str, Make); 4] =
        [("slices", slices), ("slices, slow flush", slow_flush), ("wid", wid), ("buffering", buffering)];
    let workload =
        Workload::new(sliding(60 * SECOND, 60 * SECOND)).function("count_all", &[]).out_of_order().keyed();
    // Rows a minute, in batches of a quarter of a second of stream.
    let (rate, batches) = (2_000_000i64, 240);
    let batch = rate / batches;
    for &groups in groups {
        let units = ["rows/s", "ms, longest call"];
        in_turns(options, ("8-7", &groups.to_string()), units, &sides, |&make| {
            let mut worker = made(make, &workload);
            let (mut time, mut most) = (Duration::ZERO, Duration::ZERO);
            // The second of two minutes, at the beginning of which the first one is emitted.
            for number in 0..2 * batches {
                let own = number * batch..(number + 1) * batch;
                // Rows are up to a second late.
                let at = |row: i64| row * 60 * SECOND / rate - (noise(row as u64) % 1000) as i64;
                let times = own.clone().map(|row| at(row).max(0)).collect();
                let batch = Batch {
                    keys: own.clone().map(|row| (noise(row as u64 ^ 0xABC) % groups) as u32).collect(),
                    ..Batch::new(times, own.clone().map(|_| 0))
                };
                let took = step(&mut *worker, batch, (own.end * 60 * SECOND / rate - SECOND).max(0));
                if number >= batches {
                    (time, most) = (time + took, most.max(took));
                }
            }
            Some([rate as f64 / time.as_secs_f64(), most.as_secs_f64() * 1e3])
        });
    }
}

/// A stream of several sources: rows of each in order, one source behind the others.
struct Sources {
    /// Rows a second of all sources that are in time, and of the one that is behind.
    rates: (i64, i64),
    behind: i64,
    groups: u64,
    /// Milliseconds of stream.
    length: i64,
}

/// Figs. 8-8 and 8-11: bytes and the longest call, by how far one source is behind the others. The watermark is that of the
/// source that is behind.
pub fn sources(options: &Options, allocator: &StatsAlloc<System>) {
    let sides: [(&str, Make); 3] = [("slices", slices), ("wid", wid), ("buffering", buffering)];
    if options.wants("8-8") {
        // Li's links have 110,000 packets a second each.
        let skews: &[i64] = if options.quick { &[0, 10] } else { &[0, 5, 10, 20, 40] };
        let workload = Workload::new(sliding(60 * SECOND, 60 * SECOND)).function("count_all", &[]);
        let workload = workload.out_of_order().keyed();
        for &skew in skews {
            let stream = Sources {
                rates: (11_000, 11_000),
                behind: skew * SECOND,
                groups: 65_536,
                length: 150 * SECOND,
            };
            run(options, allocator, ("8-8", skew), &workload, &stream, &sides);
        }
    }
    if options.wants("8-11") {
        let skews: &[i64] = if options.quick { &[0, 10] } else { &[0, 1, 2, 5, 10] };
        let workload = Workload::new(sliding(300 * SECOND, 60 * SECOND)).function("count_all", &[]);
        let workload = workload.out_of_order();
        for &skew in skews {
            let stream =
                Sources { rates: (8_000, 1), behind: skew * SECOND, groups: 1, length: 400 * SECOND };
            run(options, allocator, ("8-11", skew), &workload, &stream, &sides);
        }
    }
}

fn run(
    options: &Options,
    allocator: &StatsAlloc<System>,
    (figure, x): (&str, i64),
    workload: &Workload,
    stream: &Sources,
    sides: &[(&str, Make)],
) {
    // Half a second of stream at a time.
    let half = SECOND / 2;
    let units = ["MB", "ms, longest call", "ns a row"];
    in_turns(options, (figure, &x.to_string()), units, sides, |&make| {
        let region = Region::new(allocator);
        let mut worker = made(make, workload);
        let (mut most, mut slowest, mut total, mut rows) = (0, Duration::ZERO, Duration::ZERO, 0);
        for now in (0..stream.length).step_by(half as usize) {
            let batch = stream.between(now, now + half);
            rows += batch.times.len();
            let took = step(&mut *worker, batch, (now + half - stream.behind).max(0));
            (slowest, total) = (slowest.max(took), total + took);
            let change = region.change();
            most = most.max(change.bytes_allocated as i64 - change.bytes_deallocated as i64);
        }
        Some([most as f64 / 1e6, slowest.as_secs_f64() * 1e3, total.as_nanos() as f64 / rows as f64])
    });
}

impl Sources {
    /// The rows that come from `now` to `until`: those of the source that is behind have earlier times.
    fn between(&self, now: i64, until: i64) -> Batch {
        let of = |rate: i64, behind: i64| {
            let (from, to) = ((now - behind).max(0), (until - behind).max(0));
            let at = move |time: i64| time * rate / SECOND;
            (at(from)..at(to)).map(move |row| row * SECOND / rate).map(move |time| (time + behind, time))
        };
        let mut rows: Vec<(i64, i64)> = of(self.rates.0, 0).chain(of(self.rates.1, self.behind)).collect();
        rows.sort_unstable();
        let times: Vec<i64> = rows.into_iter().map(|(_, time)| time).collect();
        let row = |at: usize| (now as u64) << 32 | at as u64;
        Batch {
            keys: (0..times.len()).map(|at| (noise(row(at)) % self.groups) as u32).collect(),
            values: Arc::new(Int64Array::from(vec![0; times.len()])),
            times,
        }
    }
}
