//! Every allocation of every entry point fails: the call ends in an error of memory, or without one, and nothing that is
//! read afterwards has changed.
//!
//! As SQLite's tests do: from the n-th allocation of a call on there is no memory but the reserve for unwinding, for
//! n = 1, 2, ... until the call makes no n-th one.

#![allow(unsafe_code, reason = "an allocator is written in no other way")]

mod batch;
mod columns;
mod streams;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use windowkit::kernels::Closed;
use windowkit::memory::{self, Reserve};
use windowkit::operator::{
    AggregateSpec, ConditionSpec, GapSpec, JoinKind, JoinSpec, Length, Plan, SideSpec, WindowKind, WindowSpec,
};
use windowkit::window::{Mark, Partial};
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
    let kind = WindowKind::Tumbling { size: Length::Units(10), start_time: None, partial: Partial::NONE };
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
            WindowKind::Sliding { size, slide: Length::Units(3), start_time: None, partial: Partial::NONE },
        ),
        session(),
    ])
}

fn by_rows() -> Arc<Plan> {
    plan(vec![
        window(
            "rows",
            WindowKind::Tumbling { size: Length::Rows(3), start_time: None, partial: Partial::NONE },
        ),
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

/// What a call leaves behind half-way can be dropped, and that is all.
fn dropped<S, T>(_: &mut S, _: Option<T>) {}

fn join(condition: ConditionSpec) -> JoinSpec {
    let side = || SideSpec {
        input: rows(0).schema(),
        by: vec!["k".into()],
        time: "t".into(),
        columns: None,
        weight: None,
    };
    let (left, right, kind) = (side(), side(), JoinKind::Full);
    JoinSpec { left, right, condition, kind, suffix: "_right".into(), early: false, sheds: false }
}

/// The join of sides whose rows have weights.
fn weighed(join: JoinSpec) -> JoinSpec {
    let of = |side| SideSpec { weight: Some("w".into()), ..side };
    JoinSpec { left: of(join.left), right: of(join.right), ..join }
}

fn joins() -> [(&'static str, JoinSpec); 3] {
    let band =
        ConditionSpec::Band { before: Length::Units(2), after: Length::Units(4), closed: Closed::Both };
    let windows = join(ConditionSpec::Windows(tumbling()));
    [("a band", join(band)), ("weights", weighed(windows.clone())), ("windows", windows)]
}
