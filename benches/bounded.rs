//! The bounded operator, rows in and windows out, one thread: the grid of docs/benchmarks/local.md without Python.
//!
//! `cargo bench --bench bounded`; a row is one element, so that criterion prints rows per second.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::operator::{AggregateSpec, Bounded, Length, Plan, WindowKind, WindowSpec};
use windowkit::window::Partial;

const ROWS: usize = 1 << 20;
const SECOND: i128 = 1_000_000_000;

/// `ROWS` rows, 10 ms apart, keys and values from a multiplicative sequence (no crate for random numbers needed).
fn rows(keys: u64) -> RecordBatch {
    let noise = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let key: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..ROWS as u64).map(|i| (noise(i) % keys) as i64)));
    let ts: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from_iter_values((0..ROWS as i64).map(|i| i * 10_000)));
    let v: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS as u64).map(|i| noise(i + 7) as f64)));
    RecordBatch::try_from_iter([("k", key), ("ts", ts), ("v", v)]).expect("columns of one length")
}

fn sliding(size: Length, slide: Length) -> WindowKind {
    WindowKind::Sliding { size, slide, start_time: None, partial: Partial::NONE }
}

fn plan(batch: &RecordBatch, kind: WindowKind) -> Arc<Plan> {
    let window = WindowSpec { kind, name: "w".into() };
    let aggregate = |function: &str| AggregateSpec::new(function, &["v"], function);
    let aggregates = vec![aggregate("sum"), aggregate("max")];
    Arc::new(
        Plan::new(batch.schema(), vec!["k".into()], "ts".into(), vec![window], aggregates)
            .expect("a valid query"),
    )
}

fn grid(criterion: &mut Criterion) {
    let time = |size, slide| sliding(Length::Nanoseconds(size * SECOND), Length::Nanoseconds(slide * SECOND));
    let rows_by = |size, slide| sliding(Length::Rows(size), Length::Rows(slide));
    let session = WindowKind::Session { gap: Length::Nanoseconds(30 * SECOND) };
    // And how many windows a row is in.
    let windows = [
        ("tumbling 10 min", time(600, 600), 1),
        ("10 min by 1 min", time(600, 60), 10),
        ("10 min by 10 s", time(600, 10), 60),
        ("10 min by 1 s", time(600, 1), 600),
        ("session 30 s", session, 1),
        ("tumbling 100 rows", rows_by(100, 100), 1),
        ("100 rows by 1 row", rows_by(100, 1), 1),
    ];
    for keys in [16, 1024, 1 << 18] {
        let batch = rows(keys);
        let mut group = criterion.benchmark_group(format!("{keys} keys"));
        group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
        for (name, kind, overlap) in windows.clone() {
            if keys > 16 && overlap > 60 || keys > 1024 && overlap > 10 {
                continue;
            }
            let plan = plan(&batch, kind);
            group.bench_with_input(BenchmarkId::new("push", name), &plan, |bencher, plan| {
                bencher.iter_batched(
                    || Bounded::new(plan.clone()).expect("a valid plan"),
                    |mut bounded| {
                        bounded.push(std::slice::from_ref(&batch), 1).expect("rows of the plan's schema");
                        bounded
                    },
                    BatchSize::PerIteration,
                );
            });
            group.bench_with_input(BenchmarkId::new("windows", name), &plan, |bencher, plan| {
                bencher.iter_batched(
                    || {
                        let mut bounded = Bounded::new(plan.clone()).expect("a valid plan");
                        bounded.push(std::slice::from_ref(&batch), 1).expect("rows of the plan's schema");
                        bounded
                    },
                    |bounded| {
                        bounded.finish().expect("keys").map(|b| b.expect("windows").num_rows()).sum::<usize>()
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, grid);
criterion_main!(benches);
