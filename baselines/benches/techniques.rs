//! The baselines, rows in and windows out: 20 concurrent windows, in order and with 20 % out of order.
//!
//! `cargo bench --package windowkit-baselines --bench techniques`; a row is one element, so that criterion prints rows per
//! second. The experiments of the paper are in `slicing`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use windowkit::aggregate::{Input, Partial};
use windowkit::poll::never;
use windowkit::slice::strategy::Order;
use windowkit::window::{Sliding, Window};
use windowkit_baselines::{Method, Setting};

const ROWS: usize = 1 << 15;
const BATCH: usize = 1 << 12;
/// Rows of a second.
const RATE: i64 = 2_000;

/// Times in rows; of one row in five up to two seconds earlier.
fn times(order: Order) -> Vec<i64> {
    let noise = |i: i64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 33) & 0xffff;
    let behind = |i: i64| if noise(i) % 5 == 0 { noise(i + 1) % (2 * RATE) } else { 0 };
    match order {
        Order::InOrder => (0..ROWS as i64).collect(),
        Order::OutOfOrder => (0..ROWS as i64).map(|i| i - behind(i)).collect(),
    }
}

fn setting(order: Order) -> Setting {
    let length = |at: i64| RATE * (1 + at);
    let windows = (0..20).map(length).map(|length| Window::Sliding(Sliding::new(length, length, 0)));
    let sum = Partial::Sum.column(&[DataType::Int64], never).expect("integers have sums");
    Setting { windows: windows.collect(), own: Vec::new(), order, lateness: 0, partials: vec![sum] }
}

fn techniques(criterion: &mut Criterion) {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..BATCH as i64));
    let inputs = [Input { columns: vec![values], taken: None }];
    for (name, order, slack) in
        [("in order", Order::InOrder, 0), ("20 % out of order", Order::OutOfOrder, 2 * RATE)]
    {
        let times = times(order);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
        for method in Method::ALL {
            if method.make(setting(order)).is_err() {
                continue;
            }
            group.bench_function(method.name(), |bencher| {
                bencher.iter_batched(
                    || method.make(setting(order)).expect("taken before"),
                    |mut technique| {
                        let mut emitted = 0;
                        for (at, times) in times.chunks(BATCH).enumerate() {
                            let keys = [0; BATCH];
                            emitted += technique.push(&keys, times, &inputs).expect("rows").len();
                            let watermark = ((at + 1) * BATCH) as i64 - slack;
                            emitted += technique.advance(watermark).expect("a watermark").len();
                        }
                        (technique, emitted)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, techniques);
criterion_main!(benches);
