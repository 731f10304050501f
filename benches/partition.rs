//! Decisions per row, with hashing: skewed keys (Zipf 1.0 over a million values), every method, 8 to 1,024 workers.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner};

const ROWS: usize = 1 << 20;

/// Keys with p ∝ 1 / rank, by inversion of the logarithm that sums it.
fn zipf(rows: usize, distinct: f64) -> Vec<i64> {
    let mut state = 7_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..rows).map(|_| (distinct + 1.0).powf(uniform()) as i64).collect()
}

fn partitioner(method: Method, workers: u32, cardinality: CardinalityKind) -> Partitioner {
    let parameters =
        Parameters { workers, method, candidates: 2, cardinality, bias: 0.5, window: None, seed: 0 };
    Partitioner::new(parameters).expect("such parameters are allowed")
}

fn decisions(criterion: &mut Criterion) {
    let integers = zipf(ROWS, 1e6);
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(integers.iter().map(|k| format!("key {k:011}"))));
    let integers: ArrayRef = Arc::new(Int64Array::from(integers));
    let mut group = criterion.benchmark_group("decision");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    let mut bench = |name: &str, keys: &ArrayRef, method, workers, cardinality| {
        group.bench_function(BenchmarkId::new(name, workers), |bencher| {
            let mut out = Vec::with_capacity(ROWS);
            bencher.iter(|| {
                out.clear();
                let mut partitioner = partitioner(method, workers, cardinality);
                partitioner.assign(&[(vec![keys.clone()], None, ROWS)], &mut out).expect("integers are keys");
                black_box(out.len())
            });
        });
    };
    for workers in [8, 32, 128, 1024] {
        for method in [
            Method::Waterfill,
            Method::Shuffle,
            Method::Hash,
            Method::PartialKey,
            Method::CardinalityImbalance,
            Method::Affinity,
            Method::LoadAffinity,
            Method::Hybrid,
        ] {
            bench(method.name(), &integers, method, workers, CardinalityKind::Hll);
        }
    }
    bench("waterfill, strings of 15 bytes", &strings, Method::Waterfill, 32, CardinalityKind::Hll);
    bench("cam, exact", &integers, Method::LoadAffinity, 32, CardinalityKind::Exact);
    bench("cam, filter", &integers, Method::LoadAffinity, 32, CardinalityKind::Filter);
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
