//! What threads of one call share: results are those of one thread. `make threads` runs this under ThreadSanitizer.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use windowkit::kernels::{Closed, Unit};
use windowkit::operator::{
    AggregateSpec, Bounded, ConditionSpec, FrameSpec, JoinKind, JoinPlan, JoinRows, JoinSpec, Length, Plan,
    Rolling, RollingRows, SideSpec, Which, WindowKind, WindowSpec,
};
use windowkit::window::Partial;

/// Enough for each of four threads to have a part of its own.
const ROWS: i64 = 4 * 4 * 8192;
const THREADS: usize = 4;

/// Rows in batches, so many after the others, of so many keys.
fn rows(keys: i64, first: i64) -> Vec<RecordBatch> {
    let all = (first..first + ROWS).collect::<Vec<_>>();
    let batch = |rows: &[i64]| {
        let number = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(rows.iter().map(|&row| of(row)).collect::<Int64Array>())
        };
        // Scattered, by a prime.
        let key = |row: i64| row * 7919 % keys;
        let text: StringArray = rows.iter().map(|&row| Some(format!("key {}", key(row)))).collect();
        let columns = [
            ("k", number(&key)),
            ("s", Arc::new(text) as ArrayRef),
            ("t", number(&|row| row / 4)),
            ("v", number(&|row| row % 1000)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    all.chunks(10_000).map(batch).collect()
}

fn schema() -> SchemaRef {
    rows(1, 0)[0].schema()
}

/// Rows as text, in an order of their own.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| format!("{:?}", column.slice(row, 1)));
            rows.push(values.collect());
        }
    }
    rows.sort();
    rows
}

fn aggregates() -> Vec<AggregateSpec> {
    let of = |function: &str, column: &'static str| AggregateSpec::new(function, &[column], function);
    vec![of("sum", "v"), of("max", "v"), of("count_distinct", "v")]
}

#[test]
fn windows_of_several_threads_are_those_of_one() {
    let time = |size, slide| WindowKind::Sliding {
        size: Length::Units(size),
        slide: Length::Units(slide),
        start_time: None,
        partial: Partial::NONE,
    };
    let by_rows = WindowKind::Tumbling { size: Length::Rows(1000), start_time: None, partial: Partial::END };
    let session = WindowKind::Session { gap: Length::Units(20) };
    let kinds = [("sliding", time(4000, 1000)), ("session", session), ("rows", by_rows)];
    for ((name, kind), key, keys) in kinds.iter().flat_map(|kind| [(kind, "k", 3), (kind, "s", 5000)]) {
        let windows = vec![WindowSpec { name: "w".into(), kind: kind.clone() }];
        let plan = Plan::new(schema(), vec![key.into()], "t".into(), windows, aggregates()).unwrap();
        let plan = Arc::new(plan);
        let run = |threads| {
            let mut bounded = Bounded::new(plan.clone()).unwrap();
            for first in [0, ROWS] {
                bounded.push(&rows(keys, first), threads).unwrap();
            }
            sorted(&bounded.finish().unwrap().collect(threads).unwrap())
        };
        assert!(run(THREADS) == run(1), "{name} by {key}");
    }
}

#[test]
fn frames_of_several_threads_are_those_of_one() {
    let frame = FrameSpec {
        unit: Unit::Time,
        before: Some(Length::Units(50)),
        after: None,
        tail: None,
        closed: Closed::Left,
    };
    let each = aggregates().into_iter().map(|aggregate| (aggregate, frame));
    let rolling = Arc::new(Rolling::new(schema(), vec!["s".into()], "t".into(), each.collect()).unwrap());
    let run = |threads| {
        let mut all = RollingRows::new(rolling.clone()).unwrap();
        all.push(&rows(50, 0), threads).unwrap();
        let results = all.finish(threads).unwrap();
        results.iter().map(|batch| format!("{batch:?}")).collect::<Vec<_>>()
    };
    assert!(run(THREADS) == run(1));
}

#[test]
fn joins_of_several_threads_are_those_of_one() {
    let side =
        || SideSpec { input: schema(), by: vec!["k".into()], time: "t".into(), columns: None, weight: None };
    let condition =
        ConditionSpec::Band { before: Length::Units(2), after: Length::Units(400), closed: Closed::Both };
    let (left, right, kind) = (side(), side(), JoinKind::Full);
    let join = JoinSpec { left, right, condition, kind, suffix: "_right".into(), early: false, sheds: false };
    let plan = Arc::new(JoinPlan::new(join).unwrap());
    let run = |threads| {
        let mut join = JoinRows::new(plan.clone()).unwrap();
        join.push(Which::Left, &rows(5000, 0), threads).unwrap();
        join.push(Which::Right, &rows(5000, ROWS / 2), threads).unwrap();
        let mut output = join.finish(threads).unwrap();
        let mut all = vec![];
        while let Some(batch) = output.next_batch(threads).unwrap() {
            all.push(batch);
        }
        sorted(&all)
    };
    assert!(run(THREADS) == run(1));
}

#[test]
fn calls_share_a_plan() {
    let windows = vec![WindowSpec { name: "w".into(), kind: WindowKind::Session { gap: Length::Units(20) } }];
    let plan = Plan::new(schema(), vec!["s".into()], "t".into(), windows, aggregates()).unwrap();
    let plan = Arc::new(plan);
    let batches = rows(500, 0);
    let run = || {
        let mut bounded = Bounded::new(plan.clone()).unwrap();
        bounded.push(&batches, 2).unwrap();
        sorted(&bounded.finish().unwrap().collect(2).unwrap())
    };
    let own = run();
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        assert!(others.into_iter().all(|other| other.join().unwrap() == own));
    });
}
