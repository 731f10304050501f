//! Sliding kernels over 2^23 values, compared with a copy of their input and a plain scalar Two-Stacks.
//!
//! `cargo bench --bench simd`; an element is a value read. Outputs are warm, as the copy's is, but for the two that are
//! named fresh: there every page is given by the system within the time measured, as for a caller's first result.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use windowkit::algebra::{Extremum, FloatSum, Twofold};
use windowkit::kernels::{Ranges, two_stacks};
use windowkit::simd::{
    Column, Validity, reduce_min, reduce_sum, sliding_arg_min, sliding_mean, sliding_min, sliding_std,
    sliding_sum,
};

const LEN: usize = 1 << 23;
const SIZES: [usize; 5] = [8, 64, 1024, 65_536, 1 << 21];

fn integers() -> Vec<i32> {
    (0..LEN as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) ^ i >> 7) as i32).collect()
}

fn floats() -> Vec<f64> {
    integers().into_iter().map(f64::from).collect()
}

/// One value in ten is null.
fn bits() -> Vec<u8> {
    let there = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 0xFFFF > 6553;
    (0..LEN / 8).map(|byte| (0..8).fold(0, |bits, i| bits | u8::from(there(byte * 8 + i)) << i)).collect()
}

fn slide_one(criterion: &mut Criterion) {
    let (integers, floats, bits) = (integers(), floats(), bits());
    let validity = Some(Validity::new(&bits, 0));
    let (i, f) = (Column::from(&integers[..]), Column::from(&floats[..]));
    let (i_null, f_null) = (Column::new(&integers, validity), Column::new(&floats, validity));
    let mut group = criterion.benchmark_group("simd, slide 1");
    group.throughput(Throughput::Elements(LEN as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    let (mut copy_i, mut copy_f) = (integers.clone(), floats.clone());
    group.bench_function("copy i32", |b| b.iter(|| copy_i.copy_from_slice(black_box(&integers))));
    group.bench_function("copy f64", |b| b.iter(|| copy_f.copy_from_slice(black_box(&floats))));
    let room = LEN + (1 << 14);
    let (mut min, mut sum) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut positions = Vec::with_capacity(room);
    for size in SIZES {
        macro_rules! bench {
            ($name:literal, $out:ident, $kernel:expr) => {
                group.bench_function(BenchmarkId::new($name, size), |bencher| {
                    bencher.iter(|| {
                        $out.clear();
                        $kernel(black_box(&mut $out));
                    });
                });
            };
        }
        bench!("min i32", min, |out| sliding_min(i, size, 1, out));
        bench!("min i32, 10 % nulls", min, |out| sliding_min(i_null, size, 1, out));
        bench!("sum f64", sum, |out| sliding_sum(f, size, 1, out).expect("floats do not overflow"));
        bench!("sum f64, 10 % nulls", sum, |out| sliding_sum(f_null, size, 1, out)
            .expect("floats do not overflow"));
        bench!("mean f64", sum, |out| sliding_mean(f, size, 1, out));
        bench!("mean i32", sum, |out| sliding_mean(i, size, 1, out));
        bench!("std f64", sum, |out| sliding_std(f, size, 1, 1, out));
        bench!("std f64, 10 % nulls", sum, |out| sliding_std(f_null, size, 1, 1, out));
        bench!("arg_min i32", positions, |out| sliding_arg_min(i, size, 1, out));
        bench!("arg_min f64", positions, |out| sliding_arg_min(f, size, 1, out));
        group.bench_function(BenchmarkId::new("min i32, fresh", size), |bencher| {
            bencher.iter(|| {
                let mut out = Vec::new();
                sliding_min(i, size, 1, &mut out);
                out
            });
        });
        group.bench_function(BenchmarkId::new("sum f64, fresh", size), |bencher| {
            bencher.iter(|| {
                let mut out = Vec::new();
                sliding_sum(f, size, 1, &mut out).expect("floats do not overflow");
                out
            });
        });
        let sums: Vec<Twofold> = floats.iter().map(|&value| Twofold::new(value)).collect();
        let mut ranges = Ranges::with_capacity(LEN);
        (0..=LEN - size).for_each(|lo| ranges.push(lo as u32, (lo + size) as u32));
        group.bench_function(BenchmarkId::new("two_stacks min i32", size), |bencher| {
            bencher.iter(|| two_stacks(&integers, &ranges, &Extremum::<i32, false>::new(false)));
        });
        group.bench_function(BenchmarkId::new("two_stacks sum f64", size), |bencher| {
            bencher.iter(|| two_stacks(&sums, &ranges, &FloatSum { vectors: false }));
        });
    }
    group.finish();
}

fn larger_slides(criterion: &mut Criterion) {
    let (integers, floats) = (integers(), floats());
    let (i, f) = (Column::from(&integers[..]), Column::from(&floats[..]));
    let mut group = criterion.benchmark_group("simd, windows of 1024");
    group.throughput(Throughput::Elements(LEN as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    // What a window as large as its column costs: tumbling windows should cost no more.
    group.bench_function("reduce_min i32", |b| b.iter(|| reduce_min(black_box(i))));
    group.bench_function("reduce_sum f64", |b| b.iter(|| reduce_sum(black_box(f))));
    group.bench_function("plain sum f64", |bencher| {
        bencher.iter(|| {
            let mut sums = [0.0; 32];
            for chunk in black_box(&floats).chunks_exact(32) {
                sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
            }
            sums.iter().sum::<f64>()
        });
    });
    let (mut min, mut sum) = (Vec::with_capacity(LEN + (1 << 14)), Vec::with_capacity(LEN + (1 << 14)));
    for slide in (0..=10).map(|power| 1 << power) {
        group.bench_function(BenchmarkId::new("min i32, slide", slide), |bencher| {
            bencher.iter(|| {
                min.clear();
                sliding_min(i, 1024, slide, black_box(&mut min));
            });
        });
        group.bench_function(BenchmarkId::new("sum f64, slide", slide), |bencher| {
            bencher.iter(|| {
                sum.clear();
                sliding_sum(f, 1024, slide, black_box(&mut sum)).expect("floats do not overflow");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, slide_one, larger_slides);
criterion_main!(benches);
