//! Operators: joins of streams, rows without duplicates, windows.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use windowkit::memory;
use windowkit::operator::{
    Bounded, By, Delay, DistinctOptions, DistinctPlan, DistinctStep, DistinctStream, Flush, JoinOptions,
    JoinPlan, JoinStep, JoinStream, Keep, Length, Operator, Options, Per, Plan, Policy, Shed, Step,
    StoreKind, Term, Which, WindowSpec,
};
use windowkit::slice::strategy::Order;

use crate::{bound, by_marks, by_rows, by_time, dropped, joins, rows, session, sweep, tumbling};

#[test]
fn joins_of_streams_run_out_of_memory() {
    memory::unwind_without();
    for (name, spec) in joins() {
        let plan = Arc::new(JoinPlan::new(spec).expect("a valid join"));
        let new = || {
            let mut stream = JoinStream::new(plan.clone(), JOIN).expect("no rows");
            let steps = [
                JoinStep::Push(Which::Left, &[rows(0), rows(20)]),
                JoinStep::Push(Which::Right, &[rows(4)]),
                JoinStep::Advance(Which::Left, 4),
            ];
            for step in steps {
                stream.call(step).expect("a valid step");
            }
            stream
        };
        let whole = new().snapshot("it").expect("a snapshot");
        let (late, key) = ([rows(0)], [rows(0).column(0).slice(0, 1)]);
        let steps = [
            ("push left", JoinStep::Push(Which::Left, &late)),
            ("push right", JoinStep::Push(Which::Right, &late)),
            ("advance left", JoinStep::Advance(Which::Left, 9)),
            ("advance right", JoinStep::Advance(Which::Right, 25)),
            ("advance a key", JoinStep::AdvanceKey(Which::Right, 25, &key)),
            ("take late rows", JoinStep::TakeLate(Which::Left)),
            ("close", JoinStep::Close),
        ];
        for (call, step) in steps {
            let of = |what: &str| format!("{what} of a join by {name}");
            let mut sound = new();
            let results = sound.call(step).expect("there is memory");
            let changed = sound.snapshot("it").expect("a snapshot");
            // It has taken effect as a whole, or can be made again.
            let all_or_nothing = |stream: &mut JoinStream, done: Option<Vec<RecordBatch>>| {
                let done = done.unwrap_or_else(|| {
                    let again = stream.snapshot("it").expect("a snapshot");
                    assert!(again == whole, "{name}: {call} failed and changed something");
                    stream.call(step).expect("there is memory")
                });
                assert_eq!(done, results);
                assert!(stream.snapshot("it").expect("a snapshot") == changed, "{name}: {call} changed less");
            };
            sweep(&of(call), new, |stream| stream.call(step), all_or_nothing);
        }
        sweep(&format!("snapshot of a join by {name}"), new, |stream| stream.snapshot("it"), dropped);
        let restore = |(): &mut ()| JoinStream::restore(&whole, "it", plan.clone());
        sweep(&format!("restore a join by {name}"), || (), restore, dropped);
    }
}

const JOIN: JoinOptions = JoinOptions {
    progress: [
        None,
        Some(Delay { by: By::Time(30), source: None, idle: None, future: None, heartbeat: None }),
    ],
    late_limit: Some(3),
    flush: Flush { at_most: Some(2), later: None },
    shed: None,
};

const DISTINCT: DistinctOptions = DistinctOptions {
    progress: Some(Delay { by: By::Time(30), source: Some(0), idle: None, future: None, heartbeat: None }),
    late_limit: Some(3),
    shed: None,
};

#[test]
fn distinct_rows_run_out_of_memory() {
    memory::unwind_without();
    let bind = || DistinctPlan::new(rows(0).schema(), &["k".into()], "t", Length::Units(3), Per::First);
    sweep("bind distinct rows", || (), |()| bind(), dropped);
    let plan = Arc::new(bind().expect("valid columns"));
    let new = || {
        let mut stream = DistinctStream::new(plan.clone(), DISTINCT).expect("no rows");
        for step in [DistinctStep::Push(&[rows(0), rows(20)]), DistinctStep::Advance(4)] {
            stream.call(step).expect("a valid step");
        }
        stream
    };
    let whole = new().snapshot("it").expect("a snapshot");
    let (more, later) = ([rows(0)], [rows(40), rows(30)]);
    let key = [rows(0).column(0).slice(0, 1)];
    let steps = [
        ("push", DistinctStep::Push(&more)),
        ("push what moves the watermark", DistinctStep::Push(&later)),
        ("advance", DistinctStep::Advance(25)),
        ("advance a key", DistinctStep::AdvanceKey(22, &key)),
        ("follow the sources", DistinctStep::Follow),
        ("take late rows", DistinctStep::TakeLate),
        ("close", DistinctStep::Close),
    ];
    for (call, step) in steps {
        let mut sound = new();
        let results = sound.call(step).expect("there is memory");
        let changed = sound.snapshot("it").expect("a snapshot");
        let all_or_nothing = |stream: &mut DistinctStream, done: Option<Vec<RecordBatch>>| {
            let done = done.unwrap_or_else(|| {
                let again = stream.snapshot("it").expect("a snapshot");
                assert!(again == whole, "{call} failed and changed something");
                stream.call(step).expect("there is memory")
            });
            assert_eq!(done, results);
            assert!(stream.snapshot("it").expect("a snapshot") == changed, "{call} changed less");
        };
        sweep(&format!("{call} of distinct rows"), new, |stream| stream.call(step), all_or_nothing);
    }
    sweep("snapshot of distinct rows", new, |stream| stream.snapshot("it"), dropped);
    let restore = |(): &mut ()| DistinctStream::restore(&whole, "it", plan.clone());
    sweep("restore distinct rows", || (), restore, dropped);
}

/// A query whose keys fire after two rows or a marked one.
fn emitting(windows: Vec<WindowSpec>, refinement: &str, flush: Flush) -> Arc<Plan> {
    let plan = bound(windows, &[("sum", &["v"]), ("collect_list", &["s"])]);
    let term = |kind: &str, number: i128, name: &str| Term {
        kind: kind.to_owned(),
        number,
        share: 0.0,
        columns: if name.is_empty() { vec![] } else { vec![name.to_owned()] },
        length: None,
    };
    let trigger = [term("rows", 2, ""), term("on", 0, "m"), term("or", 2, "")];
    let policy = Policy::new(&trigger, refinement, flush, plan.input(), plan.measure());
    let policy = policy.expect("a valid policy");
    Arc::new(plan.with_policy(Some(policy)).expect("a policy that may fire"))
}

/// The same query without lists, where rows take back others.
fn weighed(plan: Arc<Plan>) -> Arc<Plan> {
    let policy = plan.policy().cloned();
    let plan = bound(vec![tumbling()], &[("sum", &["v"]), ("median", &["v"])]);
    let plan = plan.with_weight(Some("w".into())).expect("functions that take rows back");
    Arc::new(plan.with_policy(policy.map(|policy| (*policy).clone())).expect("a policy that may fire"))
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
const OUT_OF_ORDER: Options = Options { order: Order::OutOfOrder, allowed_lateness: 5, ..IN_ORDER };

fn operator(plan: &Arc<Plan>, options: Options) -> Operator {
    let mut operator = Operator::new(vec![("q".into(), plan.clone())], options).expect("valid options");
    operator.push(&[rows(0)]).expect("rows of its schema");
    operator
}

#[test]
fn stream_operators_run_out_of_memory() {
    memory::unwind_without();
    let slowly = Flush { at_most: Some(1), later: Some(20) };
    let streams = [
        ("in order", by_time(), IN_ORDER),
        ("in order, by rows", by_rows(), IN_ORDER),
        ("out of order", by_time(), OUT_OF_ORDER),
        ("out of order, by rows", by_rows(), OUT_OF_ORDER),
        ("retracting slowly", emitting(vec![tumbling(), session()], "retracting", slowly), OUT_OF_ORDER),
        ("retracting, by rows", emitting(vec![by_marks()], "retracting", Flush::default()), IN_ORDER),
        ("discarding", emitting(vec![tumbling()], "discarding", Flush::default()), IN_ORDER),
        ("weighed", weighed(emitting(vec![tumbling()], "retracting", Flush::default())), OUT_OF_ORDER),
        ("ahead", by_time(), OUT_OF_ORDER),
        ("ahead, by rows", by_rows(), OUT_OF_ORDER),
    ];
    let late = [rows(12), rows(8)];
    let swept = |(kind, plan, options): (&str, Arc<Plan>, Options)| {
        let late = if options.order == Order::InOrder { &late[..1] } else { &late };
        let new = || {
            let mut operator = operator(&plan, options);
            if kind.starts_with("ahead") {
                let key: ArrayRef = Arc::new(StringArray::from(vec!["key 0"]));
                operator.advance_key(13, &[key]).expect("a key");
            }
            operator
        };
        let name = |call: &str| format!("{call}, {kind}");
        // A step that fails has changed nothing: made again, it and all later ones emit what they would have.
        let rest = |operator: &mut Operator| {
            let steps = [operator.push(&[rows(30)]), operator.advance(60), operator.close()];
            steps.map(|step| step.expect("there is memory"))
        };
        let key: [ArrayRef; 2] =
            ["key 1", "new"].map(|key| Arc::new(StringArray::from(vec![key])) as ArrayRef);
        let slices: Vec<RecordBatch> = Bounded::new(plan.clone())
            .and_then(|mut engine| {
                engine.push(late, 1)?;
                engine.slices(1)
            })
            .map_or(Vec::new(), |made| made.into_iter().map(|(_, slices)| slices).collect());
        let calls = [
            "push",
            "push slices",
            "advance",
            "advance key",
            "advance new key",
            "punctuate",
            "fire",
            "close",
            "take late",
        ];
        for call in calls {
            let step = || match call {
                "push" => Step::Push(late),
                "push slices" => Step::PushSlices(&slices),
                "advance" => Step::Advance(14),
                "advance key" => Step::AdvanceKey(14, &key[..1]),
                "advance new key" => Step::AdvanceKey(14, &key[1..]),
                "punctuate" => Step::Punctuate(14, None),
                "fire" => Step::Fire(None),
                "close" => Step::Close,
                _ => Step::TakeLate,
            };
            let mut sound = new();
            let Ok(results) = sound.call(step()) else {
                let only = "only with marks, with a policy, or where slices are enough";
                assert!(matches!(call, "punctuate" | "fire" | "push slices"), "{only}");
                continue;
            };
            let expected = (call != "close").then(|| rest(&mut sound));
            let unchanged = |operator: &mut Operator, done: Option<Vec<RecordBatch>>| {
                let done = done.unwrap_or_else(|| operator.call(step()).expect("there is memory"));
                assert_eq!(done, results);
                if let Some(expected) = &expected {
                    assert_eq!(&rest(operator), expected);
                }
            };
            // Its commit cannot be rolled back, so the reserve is there for it.
            sweep(&name(call), new, |operator| operator.call(step()), unchanged);
        }
        let expected = (new().peek(None).expect("there is memory"), rest(&mut new()));
        let unchanged = |operator: &mut Operator, peeked: Option<Vec<RecordBatch>>| {
            assert!(peeked.is_none_or(|peeked| peeked == expected.0));
            assert_eq!(rest(operator), expected.1);
        };
        sweep(&name("peek"), new, |operator| operator.peek(None), unchanged);
        sweep(&name("add"), new, |operator| operator.add("other".into(), plan.clone(), None), dropped);
        // A snapshot changes nothing, whether or not there is memory for it.
        let whole = new().snapshot().expect("there is memory");
        let unchanged = |operator: &mut Operator, made: Option<Vec<u8>>| {
            assert!(made.is_none_or(|made| made == whole), "another snapshot");
            assert_eq!(operator.snapshot().expect("there is memory"), whole);
        };
        sweep(&name("snapshot"), new, |operator| operator.snapshot(), unchanged);
        // A sound snapshot is never called damaged.
        let queries = || vec![("q".to_owned(), plan.clone())];
        let equal = |_: &mut (), restored: Option<Operator>| {
            if let Some(restored) = restored {
                assert_eq!(restored.snapshot().expect("there is memory"), whole);
            }
        };
        sweep(&name("restore"), || (), |()| Operator::restore(&whole, queries()), equal);
    };
    // Each thread has its own count of allocations.
    std::thread::scope(|scope| {
        for stream in streams {
            scope.spawn(|| swept(stream));
        }
    });
}

#[test]
fn slots_are_compacted_where_there_is_memory() {
    memory::unwind_without();
    // What is set aside for commits has no room for a number of each slice.
    const SLICES: i64 = 2400;
    let plan = Arc::new(bound(vec![tumbling()], &[("count", &["w"])]));
    // One key, and a slice a row.
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..SLICES).map(|_| "a")));
    let columns: Vec<ArrayRef> = vec![
        texts.clone(),
        Arc::new(Int64Array::from_iter_values((0..SLICES).map(|row| 1000 * row))),
        Arc::new(Float64Array::from_iter_values((0..SLICES).map(|_| 1.0))),
        texts,
        Arc::new(BooleanArray::from_iter((0..SLICES).map(|_| Some(false)))),
        Arc::new(Int64Array::from_iter_values((0..SLICES).map(|_| 1))),
    ];
    let many = [RecordBatch::try_new(rows(0).schema(), columns).expect("columns of its types")];
    for store in [StoreKind::Lazy, StoreKind::Eager] {
        let options = Options { store, ..OUT_OF_ORDER };
        // The next call has slots compacted.
        let loose = || {
            let mut operator =
                Operator::new(vec![("q".into(), plan.clone())], options).expect("valid options");
            (0..3).for_each(|_| _ = operator.call(Step::Push(&many)).expect("rows of its schema"));
            operator
        };
        let mut sound = loose();
        sound.push(&many).expect("there is memory");
        let expected = sound.close().expect("there is memory");
        let unchanged = |operator: &mut Operator, done: Option<Vec<RecordBatch>>| {
            done.unwrap_or_else(|| operator.push(&many).expect("there is memory"));
            assert_eq!(operator.close().expect("there is memory"), expected);
        };
        sweep("compact slots", loose, |operator| operator.call(Step::Push(&many)), unchanged);
    }
}

#[test]
fn shedding_runs_out_of_memory() {
    memory::unwind_without();
    let plan = Arc::new(bound(vec![tumbling()], &[("sum", &["v"]), ("count", &["s"])]));
    // A key a row.
    let keyed = |from: i64| {
        let rows = rows(from);
        let keys = (0..rows.num_rows()).map(|row| format!("key {row}"));
        let mut columns = rows.columns().to_vec();
        columns[0] = Arc::new(StringArray::from_iter_values(keys));
        RecordBatch::try_new(rows.schema(), columns).expect("columns of its types")
    };
    for (kind, keep) in [("keys", Keep::Keys), ("rows", Keep::Rows)] {
        let limited = |bytes: u64| Options { shed: Some(Shed { bytes, keep, seed: 3 }), ..OUT_OF_ORDER };
        // Enough for the first rows.
        let most = operator(&plan, limited(u64::MAX)).stats().bytes as u64;
        let options = limited(most);
        let of = |call: &str| format!("{call}, shedding {kind}");
        let full = || {
            let mut full = operator(&plan, options);
            full.call(Step::Push(&[keyed(0), keyed(12)])).expect("rows of its schema");
            full
        };
        let mut sound = full();
        sound.relieve().expect("there is memory");
        let level = sound.stats().shed.level;
        assert!(level > 0 && sound.stats().bytes as u64 <= most, "{kind}: {:?}", sound.stats());
        let (state, stats) = (sound.snapshot().expect("there is memory"), sound.stats().shed);
        let rest = sound.close().expect("there is memory");
        // What is left over is dropped before the next call.
        let same = |operator: &mut Operator, _: Option<()>| {
            operator.relieve().expect("there is memory");
            assert_eq!(operator.stats().shed, stats);
            assert_eq!(operator.close().expect("there is memory"), rest);
        };
        sweep(&of("relief"), full, Operator::relieve, same);
        let shed = || {
            let mut shed = full();
            shed.relieve().expect("there is memory");
            shed
        };
        let more = [keyed(5)];
        let mut sound = shed();
        let results = sound.call(Step::Push(&more)).expect("rows of its schema");
        let rest = sound.close().expect("there is memory");
        sweep(
            &of("push"),
            shed,
            |operator| operator.call(Step::Push(&more)),
            |operator, done| {
                let done = done.unwrap_or_else(|| operator.call(Step::Push(&more)).expect("there is memory"));
                assert_eq!(done, results);
                assert_eq!(operator.close().expect("there is memory"), rest);
            },
        );
        sweep(
            &of("snapshot"),
            shed,
            |operator| operator.snapshot(),
            |_, made| {
                assert!(made.is_none_or(|made| made == state));
            },
        );
        let queries = || vec![("q".to_owned(), plan.clone())];
        sweep(
            &of("restore"),
            || (),
            |()| Operator::restore(&state, queries()),
            |(), made| {
                assert!(made.is_none_or(|made| made.snapshot().expect("there is memory") == state));
            },
        );
    }
}
