//! Kernels over a column of 2^20 partials: windows of 8 to 65,536 partials at slide 1.
//!
//! `cargo bench --bench kernels`; a window is one element.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::algebra::{ExactSum, Extremum, FloatSum, Twofold};
use windowkit::kernels::{Ranges, recalculate, subtract_on_evict, two_stacks};

const LEN: u32 = 1 << 20;

fn sliding(criterion: &mut Criterion) {
    let sums: Vec<Twofold> = (0..LEN).map(|i| Twofold::new(i.wrapping_mul(0x9E37_79B1).into())).collect();
    let integers: Vec<i64> = (0..LEN).map(|i| i64::from(i.wrapping_mul(0x9E37_79B1))).collect();
    let mut group = criterion.benchmark_group("slide 1");
    for size in [8, 64, 1024, 65_536] {
        let mut ranges = Ranges::with_capacity(LEN as usize);
        (0..=LEN - size).for_each(|lo| ranges.push(lo, lo + size));
        group.throughput(Throughput::Elements(ranges.len() as u64));
        group.bench_with_input(BenchmarkId::new("two_stacks sum f64", size), &ranges, |bencher, ranges| {
            bencher.iter(|| two_stacks(&sums, ranges, &FloatSum { vectors: false }));
        });
        group.bench_with_input(BenchmarkId::new("two_stacks max i64", size), &ranges, |bencher, ranges| {
            bencher.iter(|| two_stacks(&integers, ranges, &Extremum::<i64, true>::new(false)));
        });
        group.bench_with_input(
            BenchmarkId::new("subtract_on_evict sum i64", size),
            &ranges,
            |bencher, ranges| {
                bencher.iter(|| subtract_on_evict(&integers, ranges, &ExactSum::<i64>::new()));
            },
        );
    }
    group.finish();
    let mut group = criterion.benchmark_group("side by side");
    for size in [8, 1024] {
        let mut ranges = Ranges::with_capacity(LEN as usize);
        (0..LEN / size).for_each(|i| ranges.push(i * size, (i + 1) * size));
        group.throughput(Throughput::Elements(u64::from(LEN)));
        group.bench_with_input(BenchmarkId::new("recalculate max i64", size), &ranges, |bencher, ranges| {
            bencher.iter(|| recalculate(&integers, ranges, &Extremum::<i64, true>::new(false)));
        });
    }
    group.finish();
}

criterion_group!(benches, sliding);
criterion_main!(benches);
