//! How the work of streams grows with their rows: counted in the steps by which work looks for interrupts, not in time.
//!
//! Nothing is final before the stream ends, so that all rows are held. Of twice as many, each may take a step or two more;
//! what is quadratic takes four times as many for all.
//!
//! The last ones are about keys: a call takes no more steps where more of them have nothing to do.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

use super::*;
use crate::interrupt::counted;
use crate::kernels::Closed;
use crate::slice::strategy::Order;
use crate::window::{Mark, Partial};

/// Rows of a call, and of the shortest stream.
const CALL: usize = 20;
const ROWS: usize = 1000;

/// How much more twice as many rows take at most: a heap or a search takes a step more for each.
const MOST: f64 = 2.5;

const LENGTH: fn(i128) -> Length = Length::Units;

const OPTIONS: Options = Options {
    order: Order::OutOfOrder,
    allowed_lateness: 0,
    progress: None,
    store: StoreKind::Auto,
    late_limit: None,
    shed: None,
    updates: true,
};

/// A row a unit of time, in an order. Of ten, one is marked.
fn rows(count: usize, order: &str) -> Vec<RecordBatch> {
    let mut times: Vec<i64> = (0..count as i64).collect();
    match order {
        "ascending" => {}
        "descending" => times.reverse(),
        "random" => times.sort_by_key(|time| (*time as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        // From both ends by turns.
        _ => times.sort_by_key(|time| (*time).min(count as i64 - 1 - time)),
    }
    let batch = |times: &[i64]| {
        let marks: BooleanArray = times.iter().map(|time| Some(time % 10 == 3)).collect();
        let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let columns: [(&str, ArrayRef); 4] = [
            ("k", column(vec![1; times.len()])),
            ("t", column(times.to_vec())),
            ("v", column(times.iter().map(|time| time % 7).collect())),
            ("mark", Arc::new(marks)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    times.chunks(CALL).map(batch).collect()
}

/// The steps of a stream, for ever more rows.
fn grows(name: &str, run: impl Fn(&[RecordBatch])) {
    for order in ["ascending", "descending", "random", "inwards"] {
        let steps = [1, 2, 4].map(|times| {
            let (rows, before) = (rows(times * ROWS, order), counted());
            run(&rows);
            counted() - before
        });
        assert!(steps[0] > ROWS as u64 / CALL as u64, "{name}, {order}: {steps:?} are not all");
        let is_little = |pair: &[u64]| (pair[1] as f64) < MOST * pair[0] as f64;
        assert!(steps.windows(2).all(is_little), "{name}, {order}: {steps:?}");
    }
}

fn plan(kind: WindowKind) -> Plan {
    let aggregates = ["sum", "max"].map(|function| AggregateSpec::new(function, &["v"], function));
    let windows = vec![WindowSpec { name: "w".into(), kind }];
    Plan::new(rows(1, "ascending")[0].schema(), vec!["k".into()], "t".into(), windows, aggregates.into())
        .unwrap()
}

fn of_windows(name: &str, plan: Plan) {
    let plan = Arc::new(plan);
    grows(name, |rows| {
        let mut operator = Operator::new(vec![("q".into(), plan.clone())], OPTIONS).unwrap();
        rows.iter().for_each(|batch| _ = operator.push(std::slice::from_ref(batch)).unwrap());
        operator.close().unwrap();
    });
}

fn sliding(size: Length, slide: Length) -> WindowKind {
    WindowKind::Sliding { size, slide, start_time: None, partial: Partial::NONE }
}

#[test]
fn windows_by_time_take_a_step_or_two_more_for_each_row() {
    let landmark =
        WindowKind::Landmark { every: LENGTH(50), start: None, period: Some(LENGTH(200)), start_time: None };
    of_windows("a slice a row", plan(sliding(LENGTH(1), LENGTH(1))));
    of_windows("sliding", plan(sliding(LENGTH(100), LENGTH(10))));
    of_windows("session", plan(WindowKind::Session { gap: LENGTH(3) }));
    of_windows("landmark", plan(landmark));
    of_windows("global", plan(WindowKind::Global));
}

#[test]
fn windows_that_need_rows_take_a_step_or_two_more_for_each_row() {
    let at_most = Some(LENGTH(1000));
    let mark = || "mark".to_owned();
    of_windows("by rows", plan(sliding(Length::Rows(10), Length::Rows(10))));
    of_windows("by rows, every 5", plan(sliding(Length::Rows(10), Length::Rows(5))));
    of_windows("of rows by time", plan(sliding(Length::Rows(10), LENGTH(50))));
    of_windows("of time by rows", plan(sliding(LENGTH(50), Length::Rows(10))));
    of_windows(
        "session of at most",
        plan(WindowKind::RowSession { gap: GapSpec::Length(LENGTH(3)), at_most }),
    );
    of_windows("punctuation", plan(WindowKind::Punctuation { column: mark(), mark: Mark::Start }));
    of_windows("between", plan(WindowKind::Between { enter: mark(), leave: mark(), exclusive: false }));
}

#[test]
fn early_results_take_a_step_or_two_more_for_each_row() {
    // Few windows have rows that no result contains yet, and of those of which streams have ever more.
    for (name, kind) in
        [("sliding", sliding(LENGTH(20), LENGTH(10))), ("session", WindowKind::Session { gap: LENGTH(3) })]
    {
        let plan = plan(kind);
        let term = Term { kind: "rows".into(), number: 10, share: 0.0, columns: Vec::new(), length: None };
        let policy =
            Policy::new(&[term], "retracting", Flush::default(), plan.input(), plan.measure()).unwrap();
        of_windows(&format!("{name}, early results"), plan.with_policy(Some(policy)).unwrap());
    }
}

#[test]
fn joins_take_a_step_or_two_more_for_each_row() {
    let side = || SideSpec {
        input: rows(1, "ascending")[0].schema(),
        by: vec!["k".into()],
        time: "t".into(),
        columns: None,
        weight: None,
    };
    let (left, right, kind) = (side(), side(), JoinKind::Full);
    let condition = ConditionSpec::Band { before: LENGTH(1), after: LENGTH(1), closed: Closed::Both };
    let spec = JoinSpec { left, right, condition, kind, suffix: "_right".into(), early: false, sheds: false };
    let plan = Arc::new(JoinPlan::new(spec).unwrap());
    let options = JoinOptions { late_limit: None, progress: [None; 2], flush: Flush::default(), shed: None };
    grows("join", |rows| {
        let mut stream = JoinStream::new(plan.clone(), options).unwrap();
        for batch in rows.iter().map(std::slice::from_ref) {
            for which in [Which::Left, Which::Right] {
                stream.call(JoinStep::Push(which, batch)).unwrap();
            }
        }
        stream.call(JoinStep::Close).unwrap();
    });
}

#[test]
fn distinct_rows_take_a_step_or_two_more_for_each_row() {
    let schema = rows(1, "ascending")[0].schema();
    let plan = Arc::new(DistinctPlan::new(schema, &["k".into()], "t", LENGTH(2), Per::First).unwrap());
    grows("distinct", |rows| {
        let mut stream = DistinctStream::new(plan.clone(), DistinctOptions::default()).unwrap();
        for batch in rows.iter().map(std::slice::from_ref) {
            stream.call(DistinctStep::Push(batch)).unwrap();
        }
        stream.call(DistinctStep::Close).unwrap();
    });
}

/// The steps of calls by which a session of a key ends each time, while so many others wait for a later end, and as many
/// have had theirs. Each call has a row of a busy key.
fn steps_beside(keys: i64, plan: &Arc<Plan>, options: Options) -> u64 {
    const GAP: i64 = 1000;
    let call = |operator: &mut Operator, rows: &[(i64, i64)], until: i64| {
        let column = |value: &dyn Fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int64Array>())
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("k", column(&|row| row.0)),
            ("t", column(&|row| row.1)),
            ("v", column(&|_| GAP)),
            ("mark", Arc::new(BooleanArray::from(vec![false; rows.len()]))),
        ];
        let mut results = operator.push(&[RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
        if options.order == Order::OutOfOrder {
            results.extend(operator.advance(until).unwrap());
        }
        results.iter().map(RecordBatch::num_rows).sum::<usize>() as i64
    };
    let (busy, calls) = (-1, 20);
    let mut operator = Operator::new(vec![("q".into(), plan.clone())], options).unwrap();
    let rows = |from: i64, time: i64| (from..from + keys).map(|key| (key, time)).collect::<Vec<_>>();
    call(&mut operator, &rows(0, -3000), -3000);
    for at in 0..calls {
        call(&mut operator, &[(2 * keys + at, 10 * at - GAP)], 10 * at - GAP);
    }
    call(&mut operator, &rows(keys, 0), 0);
    let before = counted();
    for at in 0..calls {
        assert_eq!(call(&mut operator, &[(busy, 10 * at + 5)], 10 * at + 5), 1, "a session ends");
    }
    counted() - before
}

#[test]
fn calls_take_no_more_steps_where_more_keys_have_nothing_to_do() {
    let at_most = Some(LENGTH(100_000));
    let kinds = [
        ("session", WindowKind::Session { gap: LENGTH(1000) }),
        ("at most", WindowKind::RowSession { gap: GapSpec::Length(LENGTH(1000)), at_most }),
        ("gaps of a column", WindowKind::RowSession { gap: GapSpec::Column("v".into()), at_most: None }),
    ];
    for (name, kind) in kinds {
        let plan = Arc::new(plan(kind));
        for (order, allowed_lateness) in
            [(Order::InOrder, 0), (Order::OutOfOrder, 0), (Order::OutOfOrder, 10_000)]
        {
            let options = Options { order, allowed_lateness, ..OPTIONS };
            let steps = [200, 800].map(|keys| steps_beside(keys, &plan, options));
            let is_little = 10 * steps[1] < 11 * steps[0];
            assert!(is_little, "{name}, {order:?}, late by {allowed_lateness}: {steps:?}");
        }
    }
}
