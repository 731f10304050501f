//! Kernels, sketches, partitioners and ids of windows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, TimestampSecondArray};
use arrow_schema::DataType;
use windowkit::kernels::streaming::{self, Change, Number, StreamWindow};
use windowkit::kernels::{Algorithm, Frames, Function, Question, Rolling, Segments, answer};
use windowkit::memory;
use windowkit::operator::{Length, LocalTime, Wids, WindowKind};
use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner};
use windowkit::poll::never;
use windowkit::sketch::HyperLogLog;

use crate::{dropped, rows, sweep, sweep_of, tumbling, window};

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
        sweep(
            &format!("kernel {function:?}"),
            || (),
            |()| answer(numbers, &frames, &question, never),
            dropped,
        );
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
    for count in [1, 900] {
        let mut other = HyperLogLog::new(7).expect("a valid precision");
        other.update(&Int64Array::from_iter_values(0..count)).expect("a type with a hash");
        let mut both = sketch();
        both.merge(&other);
        let both = both.to_bytes(8).expect("bits that fit");
        let merge = |sketch: &mut HyperLogLog| {
            sketch.merge(&other);
            Ok(())
        };
        sweep(&format!("sketch merge of {count} values"), sketch, merge, |sketch, done| {
            let now = sketch.to_bytes(8).expect("there is memory");
            assert_eq!(now, if done.is_some() { both.clone() } else { bytes.clone() });
        });
    }
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

#[test]
fn windows_over_streams_run_out_of_memory() {
    memory::unwind_without();
    let values: ArrayRef =
        Arc::new(Float64Array::from_iter((0..700).map(|i| (i % 7 > 0).then_some(f64::from(i % 11)))));
    for (name, algorithm) in
        [("DABA", streaming::Algorithm::Daba), ("two stacks", streaming::Algorithm::TwoStacks)]
    {
        for function in [Function::Max, Function::Variance { ddof: 1, root: true }] {
            let new = || StreamWindow::new(function, &DataType::Float64, algorithm);
            let of = |call: &str| format!("{call} a window, {function:?} by {name}");
            sweep(&of("bind"), || (), |()| new(), dropped);
            let full = || {
                let mut window = new().expect("a type with this function");
                window.insert(&values).expect("values of its type");
                window.evict(90).expect("there are as many");
                window
            };
            let changes = [
                ("insert into", Change::Insert(&values)),
                ("insert a number into", Change::InsertNumber(Number::Signed(3))),
                ("evict from", Change::Evict(600)),
                ("slide", Change::Slide(&values, 300, 2)),
                ("clear", Change::Clear),
            ];
            let state = |window: &StreamWindow| {
                (window.len(), window.null_count(), window.query().expect("there is memory"))
            };
            let before = state(&full());
            for (call, change) in changes {
                let mut sound = full();
                let answers = sound.change(change, never).expect("a valid change");
                let after = state(&sound);
                // Where it failed, it can be made again.
                let all_or_nothing = |window: &mut StreamWindow, done: Option<Option<ArrayRef>>| {
                    let done = done.unwrap_or_else(|| {
                        assert_eq!(state(window), before);
                        window.change(change, never).expect("there is memory")
                    });
                    assert_eq!(done, answers);
                    assert_eq!(state(window), after);
                };
                sweep_of(&of(call), false, full, |window| window.change(change, never), all_or_nothing);
            }
            sweep(&of("query"), full, |window| window.query(), |window, _| assert_eq!(state(window), before));
        }
    }
}

#[test]
fn ids_of_windows_run_out_of_memory() {
    memory::unwind_without();
    let (day, calendar) = (Length::Nanoseconds(86_400_000_000_000), LocalTime::default());
    let calendar = LocalTime { zone: Some("Europe/Berlin".into()), ..calendar };
    let local = WindowKind::Local { size: day, slide: day, start_time: None, calendar };
    let hours: ArrayRef =
        Arc::new(TimestampSecondArray::from_iter_values((0..99).map(|i| i * 3600)).with_timezone("UTC"));
    for (spec, times) in [(tumbling(), rows(0).column(1).clone()), (window("local", local), hours)] {
        let new = || Wids::new(&spec, times.data_type());
        let of = |call: &str| format!("{call}, {}", spec.name);
        sweep(&of("bind ids"), || (), |()| new(), dropped);
        let wids = new().expect("windows with ids");
        sweep(&of("ids of times"), || (), |()| wids.of_times(&times), dropped);
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), None, Some(3), Some(-1)]));
        sweep(&of("extents of ids"), || (), |()| wids.extents(&ids), dropped);
    }
}
