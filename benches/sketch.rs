//! Sketches over a million rows: HyperLogLog by type and by number of distinct values, and what partitioners use.
//!
//! `cargo bench --bench sketch`; an element is a row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::keys::{hash_rows, remix};
use windowkit::sketch::{Filter, HeavyHitters, HyperLogLog, Registers};

const ROWS: u64 = 1 << 20;

fn hyperloglog(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hyperloglog");
    group.throughput(Throughput::Elements(ROWS));
    let long =
        |distinct: u64| Int64Array::from_iter_values((0..ROWS).map(|row| (row * 7919 % distinct) as i64));
    let columns: [(&str, ArrayRef); 7] = [
        ("int64, 10 values", Arc::new(long(10))),
        ("int64, 1,000 values", Arc::new(long(1_000))),
        ("int64, 50,000 values", Arc::new(long(50_000))),
        ("int64, all distinct", Arc::new(long(ROWS))),
        ("int32, all distinct", Arc::new(Int32Array::from_iter_values(0..ROWS as i32))),
        ("float64, all distinct", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64)))),
        (
            "string, 50,000 values",
            Arc::new(StringArray::from_iter_values(
                (0..ROWS).map(|row| format!("user-{}", row * 7919 % 50_000)),
            )),
        ),
    ];
    for (name, column) in columns {
        group.bench_function(BenchmarkId::new("update", name), |bencher| {
            bencher.iter_batched_ref(
                || HyperLogLog::new(12).unwrap(),
                |sketch| sketch.update(&column).unwrap(),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Keys as skewed as 1 / rank, by inversion of the harmonic numbers' approximation.
fn zipf(rows: u64, keys: f64) -> Vec<u64> {
    let uniform = |row: u64| remix(row, 1) as f64 / u64::MAX as f64;
    (0..rows).map(|row| remix(keys.powf(uniform(row)) as u64, 0)).collect()
}

fn partitioners(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("for partitioners");
    group.throughput(Throughput::Elements(ROWS));
    let hashes = zipf(ROWS, 1e6);
    group.bench_function("Registers::update", |bencher| {
        bencher.iter_batched_ref(
            || Registers::new(12).unwrap(),
            |registers| hashes.iter().filter(|&&hash| registers.update(hash)).count(),
            BatchSize::LargeInput,
        );
    });
    group.bench_function("Registers::would_change and estimate", |bencher| {
        let mut registers = Registers::new(12).unwrap();
        hashes.iter().for_each(|&hash| {
            registers.update(hash);
        });
        bencher.iter(|| {
            hashes.iter().filter(|&&hash| registers.would_change(hash) || registers.estimate() < 0.0).count()
        });
    });
    for capacity in [256, 2048, 16_384] {
        group.bench_function(BenchmarkId::new("HeavyHitters::insert", capacity), |bencher| {
            bencher.iter_batched_ref(
                || HeavyHitters::new(capacity).unwrap(),
                |keys| hashes.iter().map(|&hash| u64::from(keys.insert(hash, 1).slot)).sum::<u64>(),
                BatchSize::LargeInput,
            );
        });
    }
    group.bench_function("Filter::insert", |bencher| {
        bencher.iter_batched_ref(
            || Filter::new(0.01).unwrap(),
            |filter| hashes.iter().filter(|&&hash| filter.insert(hash)).count(),
            BatchSize::LargeInput,
        );
    });
    let columns: [(&str, ArrayRef); 2] = [
        ("int64", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        (
            "string",
            Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("user-{}", row % 50_000)))),
        ),
    ];
    for (name, column) in columns {
        let columns = [column];
        let mut out = Vec::with_capacity(ROWS as usize);
        group.bench_function(BenchmarkId::new("hash_rows", name), |bencher| {
            bencher.iter(|| {
                out.clear();
                hash_rows(&columns, ROWS as usize, 0, &mut out).unwrap();
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hyperloglog, partitioners);
criterion_main!(benches);
