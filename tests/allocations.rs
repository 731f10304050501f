//! Every allocation of every entry point fails: the call ends in an error of memory, or without one, and nothing that is
//! read afterwards has changed.
//!
//! As SQLite's tests do: from the n-th allocation of a call on there is no memory but the reserve for unwinding, for
//! n = 1, 2, ... until the call makes no n-th one.

#![allow(unsafe_code, reason = "an allocator is written in no other way")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use windowkit::kernels::{Algorithm, Closed, Frames, Function, Question, Rolling, Segments, answer};
use windowkit::memory::{self, Reserve};
use windowkit::operator::{
    AggregateSpec, Bounded, ConditionSpec, DistinctPlan, DistinctStep, DistinctStream, Flush, GapSpec,
    JoinKind, JoinOutput, JoinPlan, JoinRows, JoinSpec, JoinStep, JoinStream, Length, Operator, Options,
    Plan, Policy, SideSpec, Step, StoreKind, Which, WindowKind, WindowSpec, split_rows,
};
use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner};
use windowkit::sketch::HyperLogLog;
use windowkit::slice::strategy::Order;
use windowkit::window::Mark;
use windowkit::{Error, Result};

thread_local! {
    /// How many more allocations of this thread succeed.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, until it fails.
struct Failing;

impl Failing {
    /// Whether it does.
    fn fails() -> bool {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(u64::from(left < u64::MAX)));
        HAS_FAILED.set(HAS_FAILED.get() || left == 0);
        left == 0
    }
}

// SAFETY: each call is the system allocator's with the same arguments, or returns null, which says that it failed.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        if Self::fails() { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; every allocation is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        if Self::fails() { std::ptr::null_mut() } else { unsafe { System.realloc(at, layout, size) } }
    }
}

#[global_allocator]
static ALLOCATOR: Reserve<Failing> = Reserve::before(Failing);

/// Runs `call` on a new `subject` without memory from its n-th allocation on, for every n, and then `check`s the subject.
fn sweep<S, T>(
    name: &str,
    subject: impl Fn() -> S,
    call: impl Fn(&mut S) -> Result<T>,
    check: impl Fn(&mut S, Option<T>),
) {
    sweep_of(name, true, subject, call, check);
}

/// The same of a call that fails, or that never does.
fn sweep_of<S, T>(
    name: &str,
    fails: bool,
    subject: impl Fn() -> S,
    call: impl Fn(&mut S) -> Result<T>,
    check: impl Fn(&mut S, Option<T>),
) {
    let (mut failed, mut n) = (0, 0);
    loop {
        let mut subject = subject();
        HAS_FAILED.set(false);
        LEFT.set(n);
        let done = memory::caught(|| call(&mut subject));
        LEFT.set(u64::MAX);
        let is_over = !HAS_FAILED.get();
        failed += u64::from(done.is_err());
        match done {
            Ok(result) => check(&mut subject, Some(result)),
            Err(Error::Memory(_)) => check(&mut subject, None),
            Err(other) => panic!("{name}: allocation {n} failed, and the call said: {other}"),
        }
        if is_over {
            break;
        }
        n += 1;
    }
    println!("{name}: {n} allocations at the most, {failed} errors of memory");
    assert!(n == 0 || failed > 0 || !fails, "{name}: no allocation failed");
}

fn rows(from: i64) -> RecordBatch {
    let each = || from..from + 12;
    let columns: [(&str, ArrayRef); 6] = [
        ("k", Arc::new(StringArray::from_iter_values(each().map(|i| format!("key {}", i * 7 % 3))))),
        ("t", Arc::new(Int64Array::from_iter_values(each()))),
        ("v", Arc::new(Float64Array::from_iter(each().map(|i| (i % 5 > 0).then_some(i as f64 / 8.0))))),
        ("s", Arc::new(StringArray::from_iter_values(each().map(|i| "abc".repeat(i as usize % 9))))),
        ("m", Arc::new(BooleanArray::from_iter(each().map(|i| Some(i % 6 == 0))))),
        ("w", Arc::new(Int64Array::from_iter_values(each().map(|_| 1)))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn window(name: &str, kind: WindowKind) -> WindowSpec {
    WindowSpec { name: name.into(), kind }
}

fn bound(windows: Vec<WindowSpec>, aggregates: &[(&str, &[&str])]) -> Plan {
    let aggregates = aggregates.iter().map(|&(function, columns)| {
        AggregateSpec::new(function, columns, &format!("{function} {columns:?}"))
    });
    Plan::new(rows(0).schema(), vec!["k".into()], "t".into(), windows, aggregates.collect())
        .expect("a valid query")
}

fn plan(windows: Vec<WindowSpec>) -> Arc<Plan> {
    // One of each form of state: plain, of texts, of all values, of arrays.
    let aggregates: [(&str, &[&str]); 5] = [
        ("sum", &["v"]),
        ("min", &["s"]),
        ("median", &["v"]),
        ("collect_list", &["s"]),
        ("collect_rows", &["s", "v"]),
    ];
    Arc::new(bound(windows, &aggregates))
}

fn tumbling() -> WindowSpec {
    let kind = WindowKind::Tumbling { size: Length::Units(10), start_time: None, partial: false };
    window("tumbling", kind)
}

fn session() -> WindowSpec {
    window("session", WindowKind::Session { gap: Length::Units(4) })
}

fn by_marks() -> WindowSpec {
    window("marks", WindowKind::Punctuation { column: "m".into(), mark: Mark::Start })
}

fn by_time() -> Arc<Plan> {
    let size = Length::Units(10);
    plan(vec![
        window(
            "sliding",
            WindowKind::Sliding { size, slide: Length::Units(3), start_time: None, partial: false },
        ),
        session(),
    ])
}

fn by_rows() -> Arc<Plan> {
    plan(vec![
        window("rows", WindowKind::Tumbling { size: Length::Rows(3), start_time: None, partial: false }),
        by_marks(),
        window("between", WindowKind::Between { enter: "m".into(), leave: "m".into(), exclusive: true }),
        window(
            "long",
            WindowKind::RowSession {
                gap: GapSpec::Length(Length::Units(4)),
                at_most: Some(Length::Units(9)),
            },
        ),
    ])
}

/// A query whose keys fire after two rows or a marked one.
fn emitting(windows: Vec<WindowSpec>, refinement: &str, flush: Flush) -> Arc<Plan> {
    let plan = bound(windows, &[("sum", &["v"]), ("collect_list", &["s"])]);
    let term = |kind: &str, number: i128, name: &str| (kind.to_owned(), number, 0.0, name.to_owned());
    let trigger = [term("rows", 2, ""), term("on", 0, "m"), term("or", 2, "")];
    let policy = Policy::new(&trigger, refinement, flush, plan.input(), plan.measure());
    let policy = policy.expect("a valid policy");
    Arc::new(plan.with_policy(Some(policy)))
}

/// The same query without lists, where rows take back others.
fn weighed(plan: Arc<Plan>) -> Arc<Plan> {
    let policy = plan.policy().cloned();
    let plan = bound(vec![tumbling()], &[("sum", &["v"]), ("median", &["v"])]);
    let plan = plan.with_weight(Some("w".into())).expect("functions that take rows back");
    Arc::new(plan.with_policy(policy.map(|policy| (*policy).clone())))
}

const IN_ORDER: Options = Options {
    order: Order::InOrder,
    allowed_lateness: 0,
    progress: None,
    store: StoreKind::Auto,
    late_limit: None,
    shed: None,
};
const OUT_OF_ORDER: Options = Options { order: Order::OutOfOrder, allowed_lateness: 5, ..IN_ORDER };

fn operator(plan: &Arc<Plan>, options: Options) -> Operator {
    let mut operator = Operator::new(vec![("q".into(), plan.clone())], options).expect("valid options");
    operator.push(&[rows(0)]).expect("rows of its schema");
    operator
}

/// What a call leaves behind half-way can be dropped, and that is all.
fn dropped<S, T>(_: &mut S, _: Option<T>) {}

#[test]
fn batch_operators_run_out_of_memory() {
    memory::unwind_without();
    for (kind, plan) in [("time", by_time()), ("rows", by_rows())] {
        let new = || Bounded::new(plan.clone()).expect("a valid plan");
        let full = || {
            let mut bounded = new();
            bounded.push(&[rows(0), rows(6)], 1).expect("rows of its schema");
            bounded
        };
        sweep(&format!("bind, windows by {kind}"), || (), |()| Bounded::new(plan.clone()), dropped);
        sweep(&format!("batch push, windows by {kind}"), new, |bounded| bounded.push(&[rows(0)], 1), dropped);
        let finish = |bounded: &mut Option<Bounded>| bounded.take().expect("it is new").finish()?.collect(1);
        sweep(&format!("finish, windows by {kind}"), || Some(full()), finish, dropped);
    }
    let plan = by_time();
    let full = || {
        let mut bounded = Bounded::new(plan.clone()).expect("a valid plan");
        bounded.push(&[rows(0)], 1).expect("rows of its schema");
        bounded
    };
    sweep("slices", full, |bounded| bounded.slices(4), dropped);
    let slices = full().slices(1).expect("a query of slices").remove(0).1;
    sweep("push slices", full, |bounded| bounded.push_own_slices(&slices), dropped);
    sweep("split rows", || (), |()| split_rows(&plan, &rows(0), 4), dropped);
}

fn join(condition: ConditionSpec) -> JoinSpec {
    let side = || SideSpec { input: rows(0).schema(), by: vec!["k".into()], time: "t".into(), columns: None };
    JoinSpec { left: side(), right: side(), condition, kind: JoinKind::Full, suffix: "_right".into() }
}

fn joins() -> [(&'static str, JoinSpec); 2] {
    let band =
        ConditionSpec::Band { before: Length::Units(2), after: Length::Units(4), closed: Closed::Both };
    [("a band", join(band)), ("windows", join(ConditionSpec::Windows(tumbling())))]
}

#[test]
fn joins_run_out_of_memory() {
    memory::unwind_without();
    for (name, spec) in joins() {
        sweep(&format!("bind a join by {name}"), || (), |()| JoinPlan::new(spec.clone()), dropped);
        let plan = Arc::new(JoinPlan::new(spec).expect("a valid join"));
        let new = || JoinRows::new(plan.clone()).expect("no rows");
        let full = || {
            let mut rows = new();
            rows.push(Which::Left, &[self::rows(0), self::rows(4)], 1).expect("valid rows");
            rows.push(Which::Right, &[self::rows(8)], 1).expect("valid rows");
            rows
        };
        sweep(
            &format!("push into a join by {name}"),
            new,
            |join| join.push(Which::Right, &[rows(0)], 1),
            dropped,
        );
        let finish = |join: &mut Option<JoinRows>| join.take().expect("it is there once").finish(1);
        sweep(&format!("finish a join by {name}"), || Some(full()), finish, dropped);
        let output = || full().finish(1).expect("a valid result");
        let all = |output: &mut JoinOutput| {
            let mut rows = 0;
            while let Some(batch) = output.next_batch(1)? {
                rows += batch.num_rows();
            }
            Ok(rows)
        };
        let expected = all(&mut output()).expect("a valid result");
        sweep(&format!("read a join by {name}"), output, all, |_, rows| {
            assert!(rows.is_none_or(|rows| rows == expected));
        });
    }
}

#[test]
fn joins_of_streams_run_out_of_memory() {
    memory::unwind_without();
    for (name, spec) in joins() {
        let plan = Arc::new(JoinPlan::new(spec).expect("a valid join"));
        let new = || {
            let mut stream = JoinStream::new(plan.clone(), Some(3)).expect("no rows");
            let steps = [
                JoinStep::Push(Which::Left, &[rows(0), rows(20)]),
                JoinStep::Push(Which::Right, &[rows(4)]),
                JoinStep::Advance(Which::Left, 4),
            ];
            for step in steps {
                stream.attempt(step).expect("a valid step");
            }
            stream.settle(true);
            stream
        };
        let whole = new().snapshot("it").expect("a snapshot");
        let unchanged = |stream: &mut JoinStream, done: Option<Vec<RecordBatch>>| {
            stream.settle(false);
            let again = stream.snapshot("it").expect("a snapshot");
            assert!(again == whole, "{name}: a step that was not committed changed something");
            drop(done);
        };
        let late = [rows(0)];
        let steps = [
            ("push left", JoinStep::Push(Which::Left, &late)),
            ("push right", JoinStep::Push(Which::Right, &late)),
            ("advance left", JoinStep::Advance(Which::Left, 9)),
            ("advance right", JoinStep::Advance(Which::Right, 25)),
            ("take late rows", JoinStep::TakeLate(Which::Left)),
            ("close", JoinStep::Close),
        ];
        for (call, step) in steps {
            let of = |what: &str| format!("{what} of a join by {name}");
            sweep(&of(call), new, |stream| stream.attempt(step), unchanged);
            let attempted = || {
                let mut stream = new();
                stream.attempt(step).expect("a valid step");
                stream
            };
            let settle = |stream: &mut JoinStream| {
                stream.settle(true);
                Ok(())
            };
            sweep_of(&of(&format!("commit {call}")), false, attempted, settle, dropped);
        }
        sweep(&format!("snapshot of a join by {name}"), new, |stream| stream.snapshot("it"), dropped);
        let restore = |(): &mut ()| JoinStream::restore(&whole, "it", plan.clone());
        sweep(&format!("restore a join by {name}"), || (), restore, dropped);
    }
}

#[test]
fn distinct_rows_run_out_of_memory() {
    memory::unwind_without();
    let bind = || DistinctPlan::new(rows(0).schema(), &["k".into()], "t", Length::Units(3));
    sweep("bind distinct rows", || (), |()| bind(), dropped);
    let plan = Arc::new(bind().expect("valid columns"));
    let new = || {
        let mut stream = DistinctStream::new(plan.clone(), Some(3)).expect("no rows");
        for step in [DistinctStep::Push(&[rows(0), rows(20)]), DistinctStep::Advance(4)] {
            stream.attempt(step).expect("a valid step");
        }
        stream.settle(true);
        stream
    };
    let whole = new().snapshot("it").expect("a snapshot");
    let unchanged = |stream: &mut DistinctStream, done: Option<Vec<RecordBatch>>| {
        stream.settle(false);
        assert!(stream.snapshot("it").expect("a snapshot") == whole, "a step that was not committed");
        drop(done);
    };
    let more = [rows(0)];
    let steps = [
        ("push", DistinctStep::Push(&more)),
        ("advance", DistinctStep::Advance(25)),
        ("take late rows", DistinctStep::TakeLate),
        ("close", DistinctStep::Close),
    ];
    for (call, step) in steps {
        sweep(&format!("{call} of distinct rows"), new, |stream| stream.attempt(step), unchanged);
        let attempted = || {
            let mut stream = new();
            stream.attempt(step).expect("a valid step");
            stream
        };
        let settle = |stream: &mut DistinctStream| {
            stream.settle(true);
            Ok(())
        };
        sweep_of(&format!("commit {call} of distinct rows"), false, attempted, settle, dropped);
    }
    sweep("snapshot of distinct rows", new, |stream| stream.snapshot("it"), dropped);
    let restore = |(): &mut ()| DistinctStream::restore(&whole, "it", plan.clone());
    sweep("restore distinct rows", || (), restore, dropped);
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
            let Ok(results) = sound.attempt(step()) else {
                let only = "only with marks, with a policy, or where slices are enough";
                assert!(matches!(call, "punctuate" | "fire" | "push slices"), "{only}");
                continue;
            };
            let expected = (call != "close").then(|| rest(&mut sound));
            let unchanged = |operator: &mut Operator, done: Option<Vec<RecordBatch>>| {
                let done = done.unwrap_or_else(|| operator.attempt(step()).expect("there is memory"));
                assert_eq!(done, results);
                if let Some(expected) = &expected {
                    assert_eq!(&rest(operator), expected);
                }
            };
            sweep(&name(call), new, |operator| operator.attempt(step()), unchanged);
            let attempted = || {
                let mut operator = new();
                operator.attempt(step()).expect("there is memory");
                operator
            };
            // A commit cannot be rolled back, so the reserve is there for it. Where it needs more than that, Python's
            // operators report that they are lost.
            let name = name(&format!("commit of {call}"));
            sweep_of(&name, false, attempted, |operator| operator.settle(true), dropped);
        }
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
fn kernels_sketches_and_partitioners_run_out_of_memory() {
    memory::unwind_without();
    let batch = rows(0);
    let (numbers, texts) = (batch.column(2), batch.column(3));
    for function in
        [Function::Sum, Function::Max, Function::Variance { ddof: 1, root: true }, Function::Count]
    {
        let question = Question { function, algorithm: Algorithm::Auto, min_periods: None };
        let frames =
            Frames::Rolling(Rolling::new(5, 2, true, true).expect("a valid frame"), Segments::whole(12));
        sweep(&format!("kernel {function:?}"), || (), |()| answer(numbers, &frames, &question), dropped);
    }
    let sketch = || {
        let mut sketch = HyperLogLog::new(8).expect("a valid precision");
        sketch.update(texts).expect("a type with a hash");
        sketch
    };
    sweep("sketch update", sketch, |sketch| sketch.update(numbers), dropped);
    let bytes = sketch().to_bytes(8).expect("bits that fit");
    sweep(
        "sketch to bytes",
        sketch,
        |sketch| sketch.to_bytes(8),
        |sketch, _| {
            assert_eq!(sketch.to_bytes(8).expect("there is memory"), bytes);
        },
    );
    sweep("sketch from bytes", || (), |()| HyperLogLog::from_bytes(&bytes), dropped);
    for method in [Method::Waterfill, Method::CardinalityImbalance, Method::Hybrid] {
        let parameters = Parameters {
            workers: 4,
            method,
            candidates: 2,
            cardinality: CardinalityKind::Hll,
            bias: 0.5,
            window: None,
            seed: 0,
        };
        let partitioner = || {
            let mut partitioner = Partitioner::new(parameters.clone()).expect("valid parameters");
            partitioner
                .assign(&[(vec![texts.clone()], None, 12)], &mut Vec::new())
                .expect("strings are keys");
            partitioner
        };
        let name = |call: &str| format!("{} {call}", method.name());
        let assign = |partitioner: &mut Partitioner| {
            partitioner.assign(&[(vec![texts.clone()], None, 12)], &mut Vec::new())
        };
        sweep(&name("assign"), partitioner, assign, dropped);
        let bytes = partitioner().snapshot();
        sweep(
            &name("snapshot"),
            partitioner,
            |partitioner| Ok(partitioner.snapshot()),
            |partitioner, _| {
                assert_eq!(partitioner.snapshot(), bytes);
            },
        );
        sweep(&name("restore"), || (), |()| Partitioner::restore(&bytes), dropped);
    }
}
