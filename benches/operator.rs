//! The stream operator, one thread, rows in and windows out: the workloads of Traub et al. 2019, §6.
//!
//! `cargo bench --bench operator`; a row is one element, so that criterion prints rows per second. Concurrent windows are
//! tumbling ones of lengths spread evenly from 1 to 20 seconds, as in the paper. What it has no say in, as its rows carry the
//! clock's time, is how many rows there are between two edges: that is given as rows per second of event time.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::operator::{
    AggregateSpec, By, Delay, Length, Operator, Options, Plan, StoreKind, WindowKind, WindowSpec,
};
use windowkit::slice::strategy::Order;
use windowkit::window::Partial;

const ROWS: usize = 1 << 21;
const BATCH: usize = 1 << 16;
const MICROS: i64 = 1_000_000;

/// A sequence that looks random.
fn noise(i: u64) -> u64 {
    let mixed = (i ^ (i >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}

/// Batches of rows, `rate` of them a second; `late` of a hundred come up to two seconds late.
fn rows(rate: i64, keys: u64, late: u64) -> Vec<RecordBatch> {
    let batch = |from: u64| {
        let each = from..from + BATCH as u64;
        let time = |i: u64| {
            let delay =
                if noise(i + 3) % 100 < late { (noise(i + 5) % (2 * MICROS as u64)) as i64 } else { 0 };
            i as i64 * MICROS / rate - delay
        };
        let key: ArrayRef =
            Arc::new(Int64Array::from_iter_values(each.clone().map(|i| (noise(i) % keys) as i64)));
        let ts: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(each.clone().map(time)));
        let v: ArrayRef = Arc::new(Float64Array::from_iter_values(each.map(|i| noise(i + 7) as f64)));
        RecordBatch::try_from_iter([("k", key), ("ts", ts), ("v", v)]).expect("columns of one length")
    };
    (0..(ROWS / BATCH) as u64).map(|at| batch(at * BATCH as u64)).collect()
}

fn plan(batch: &RecordBatch, by: &[&str], windows: i128, session: bool, functions: &[&str]) -> Arc<Plan> {
    let (least, most) = (i128::from(MICROS), 20 * i128::from(MICROS));
    let size =
        |at: i128| Length::Nanoseconds((least + (most - least) * at / windows.max(2)) / 1000 * 1_000_000);
    let tumbling = |at| WindowKind::Sliding {
        size: size(at),
        slide: size(at),
        start_time: None,
        partial: Partial::NONE,
    };
    let mut specs: Vec<WindowSpec> =
        (0..windows).map(|at| WindowSpec { name: at.to_string(), kind: tumbling(at) }).collect();
    if session {
        let gap = Length::Nanoseconds(i128::from(MICROS) * 1000);
        specs.push(WindowSpec { name: "session".into(), kind: WindowKind::Session { gap } });
    }
    let aggregates =
        functions.iter().map(|function| AggregateSpec::new(function, &["v"], function)).collect();
    let by = by.iter().map(|&name| name.to_owned()).collect();
    Arc::new(Plan::new(batch.schema(), by, "ts".into(), specs, aggregates).expect("a valid query"))
}

fn stream(plan: &Arc<Plan>, options: Options) -> Operator {
    Operator::new(vec![("q".into(), plan.clone())], options).expect("a valid operator")
}

/// Pushes all batches; the operator is handed back, so that it is not dropped in the clock.
fn run(mut stream: Operator, batches: &[RecordBatch]) -> (Operator, usize) {
    let mut windows = 0;
    for batch in batches {
        let results = stream.push(std::slice::from_ref(batch)).expect("rows of its schema");
        windows += results.iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    (stream, windows)
}

const IN_ORDER: Options = Options {
    order: Order::InOrder,
    allowed_lateness: 0,
    progress: None,
    store: StoreKind::Auto,
    late_limit: None,
    shed: None,
    updates: true,
};
const DELAY: Delay =
    Delay { by: By::Time(2 * MICROS), source: None, idle: None, future: None, heartbeat: None };
const OUT_OF_ORDER: Options = Options { progress: Some(DELAY), order: Order::OutOfOrder, ..IN_ORDER };

fn in_order(criterion: &mut Criterion) {
    for rate in [2_000, 100_000, 10_000_000] {
        let batches = rows(rate, 1, 0);
        let mut group = criterion.benchmark_group(format!("in order, {rate} rows a second"));
        group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
        for windows in [1, 20, 100, 1000] {
            let plan = plan(&batches[0], &[], windows, false, &["sum"]);
            group.bench_function(BenchmarkId::new("windows", windows), |bencher| {
                bencher.iter_batched(
                    || stream(&plan, IN_ORDER),
                    |stream| black_box(run(stream, &batches)),
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

fn out_of_order(criterion: &mut Criterion) {
    for rate in [2_000, 100_000] {
        let batches = rows(rate, 1, 20);
        let mut group =
            criterion.benchmark_group(format!("20 % out of order, session, {rate} rows a second"));
        group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
        for windows in [1, 20, 1000] {
            let plan = plan(&batches[0], &[], windows, true, &["sum"]);
            group.bench_function(BenchmarkId::new("windows", windows), |bencher| {
                bencher.iter_batched(
                    || stream(&plan, OUT_OF_ORDER),
                    |stream| black_box(run(stream, &batches)),
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

fn many_keys(criterion: &mut Criterion) {
    let batches = rows(100_000, 10_000, 0);
    let plan = plan(&batches[0], &["k"], 1, false, &["sum"]);
    let mut group = criterion.benchmark_group("10,000 keys");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    group.bench_function("tumbling 1 s", |bencher| {
        bencher.iter_batched(
            || stream(&plan, IN_ORDER),
            |stream| black_box(run(stream, &batches)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, in_order, out_of_order, many_keys);
criterion_main!(benches);
