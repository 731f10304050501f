//! Arrow data that was changed, validated by Arrow or only checked as data from Python is, into everything that takes it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windowkit::bounds::check_columns;
use windowkit::kernels::{Algorithm, Frames, Function, Question, Rolling, Segments, answer};
use windowkit::operator::{Bounded, Operator};
use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner};
use windowkit::poll::never;
use windowkit::sketch::HyperLogLog;
use windowkit_fuzz::hostile::{Damage, Query, Row, is_bound, quiet, read, rows, written};

fuzz_target!(|case: (Query, Vec<Row>, Damage, Vec<Row>, u8, bool)| {
    quiet();
    let (query, before, damage, after, door, validated) = case;
    let mut bytes = written(&rows(&before));
    damage.apply(&mut bytes, 0);
    let Some(batches) = read(&bytes, validated) else { return };
    let sound = |batch: &_| check_columns("batch", batch, 0..batch.num_columns()).is_ok() && is_bound(batch);
    if !batches.iter().all(sound) {
        return;
    }
    match door % 5 {
        0 => {
            let named = || vec![("q".to_owned(), query.plan())];
            let mut operator = Operator::new(named(), query.options()).unwrap();
            let _ = operator.push(&batches);
            let _ = operator.push(&[rows(&after)]);
            if let Ok(snapshot) = operator.snapshot() {
                let _ = Operator::restore(&snapshot, named());
            }
            let _ = operator.close();
        }
        1 => {
            let mut engine = Bounded::new(query.plan()).unwrap();
            if engine.push(&batches, 1).is_ok()
                && engine.push(&[rows(&after)], 1).is_ok()
                && let Ok(output) = engine.finish()
            {
                let _ = output.collect(1);
            }
        }
        2 => {
            let mut sketch = HyperLogLog::new(6).unwrap();
            batches.iter().flat_map(|batch| batch.columns()).for_each(|column| drop(sketch.update(column)));
        }
        3 => {
            let parameters = Parameters {
                workers: 4,
                method: Method::parse("lm").unwrap(),
                candidates: 2,
                cardinality: CardinalityKind::Exact,
                bias: 0.5,
                window: None,
                seed: 1,
            };
            for column in batches.iter().flat_map(|batch| batch.columns()) {
                let mut partitioner = Partitioner::new(parameters.clone()).unwrap();
                let _ = partitioner.assign(&[(vec![column.clone()], None, column.len())], &mut Vec::new());
            }
        }
        _ => {
            for column in batches.iter().flat_map(|batch| batch.columns()) {
                for function in [Function::First, Function::Count, Function::Max, Function::Sum] {
                    let rolling = Rolling::new(3, 1, true, false).unwrap();
                    let frames = Frames::Rolling(rolling, Segments::whole(column.len()));
                    let question = Question { function, algorithm: Algorithm::Auto, min_periods: None };
                    let _ = answer(column, &frames, &question, never);
                }
            }
        }
    }
});
