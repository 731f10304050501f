//! Queries, joins and rolling aggregates over tables.

use std::sync::Arc;

use windowkit::kernels::{Closed, Unit};
use windowkit::memory;
use windowkit::operator::{
    AggregateSpec, Bounded, FrameSpec, JoinOutput, JoinPlan, JoinRows, Length, Rolling, RollingRows, Which,
    split_rows,
};

use crate::{by_rows, by_time, dropped, joins, rows, sweep};

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
fn rolling_aggregates_run_out_of_memory() {
    memory::unwind_without();
    let frame = |unit: Unit, before: Length, tail: Option<Length>| FrameSpec {
        unit,
        before: Some(before),
        after: None,
        tail,
        closed: Closed::Left,
    };
    let frames = [
        frame(Unit::Time, Length::Units(4), None),
        frame(Unit::Time, Length::Units(4), Some(Length::Units(3))),
        frame(Unit::Rows, Length::Rows(2), None),
    ];
    let functions: [(&str, &[&str]); 3] = [("sum", &["v"]), ("min", &["s"]), ("collect_list", &["s"])];
    let bind = |has_labels: bool| {
        let each = functions.iter().zip(frames.iter().cycle()).map(|(&(function, columns), &frame)| {
            (AggregateSpec::new(function, columns, &format!("{function} {columns:?}")), frame)
        });
        let (schema, by, time) = (rows(0).schema(), vec!["k".to_owned()], "t".to_owned());
        let labels = (schema.clone(), by.clone(), time.clone());
        match has_labels {
            true => Rolling::at(schema, by, time, each.collect(), labels),
            false => Rolling::new(schema, by, time, each.collect()),
        }
    };
    for has_labels in [false, true] {
        let name = |call: &str| format!("{call}{}", if has_labels { " for labels" } else { "" });
        sweep(&name("bind rolling aggregates"), || (), |()| bind(has_labels), dropped);
        let rolling = Arc::new(bind(has_labels).expect("valid aggregates"));
        let new = || RollingRows::new(rolling.clone()).expect("no rows");
        let push = |rolling: &mut RollingRows| rolling.push(&[rows(0)], 1);
        sweep(&name("push into rolling aggregates"), new, push, dropped);
        let labels = |rolling: &mut RollingRows| rolling.push_labels(&[rows(3)], 1);
        if has_labels {
            sweep("push labels", new, labels, dropped);
        }
        let full = || {
            let mut full = new();
            push(&mut full).expect("valid rows");
            if has_labels {
                labels(&mut full).expect("valid labels");
            }
            Some(full)
        };
        let finish = |full: &mut Option<RollingRows>| full.take().expect("it is there once").finish(1);
        let expected = finish(&mut full()).expect("valid results");
        sweep(&name("finish rolling aggregates"), full, finish, |_, results| {
            assert!(results.is_none_or(|results| results == expected));
        });
    }
}
