//! Snapshots of operators and of partitioners whose contents were changed and whose checksums fit: refused, or restored
//! to something that can be used.
#![no_main]

use arrow_array::{Array, ArrayRef};
use libfuzzer_sys::fuzz_target;
use windowkit::operator::Operator;
use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner, WindowLength};
use windowkit_fuzz::hostile::{Damage, Query, Row, quiet, rows};

#[derive(arbitrary::Arbitrary, Debug)]
enum Case {
    Operator { query: Query, before: Vec<Row>, watermark: Option<u8>, damage: Damage, after: Vec<Row> },
    Partitioner { method: u8, cardinality: u8, workers: u8, window: bool, before: Vec<u8>, damage: Damage },
}

fuzz_target!(|case: Case| {
    quiet();
    match case {
        Case::Operator { query, before, watermark, damage, after } => {
            let named = || vec![("q".to_owned(), query.plan())];
            let mut operator = Operator::new(named(), query.options()).unwrap();
            let _ = operator.push(&[rows(&before)]);
            if let Some(watermark) = watermark {
                let _ = operator.advance(watermark.into());
            }
            let mut snapshot = operator.snapshot().unwrap();
            damage.apply_sealed(&mut snapshot);
            let _ = Operator::contents(&snapshot);
            let Ok(mut operator) = Operator::restore(&snapshot, named()) else { return };
            let _ = operator.stats();
            let _ = operator.push(&[rows(&after)]);
            let _ = operator.advance(200);
            if let Ok(snapshot) = operator.snapshot() {
                let _ = Operator::restore(&snapshot, named());
            }
            let _ = operator.close();
        }
        Case::Partitioner { method, cardinality, workers, window, before, damage } => {
            let methods: Vec<Method> = Method::all().collect();
            let kinds = [CardinalityKind::Exact, CardinalityKind::Hll, CardinalityKind::Filter];
            let workers = u32::from(workers % 8) + 1;
            let mut partitioner = Partitioner::new(Parameters {
                workers,
                method: methods[usize::from(method) % methods.len()],
                candidates: workers.min(2),
                cardinality: kinds[usize::from(cardinality) % 3],
                bias: 0.5,
                window: window.then_some(WindowLength::Rows(50)),
                seed: 7,
            })
            .unwrap();
            let keys: ArrayRef = std::sync::Arc::new(arrow_array::UInt8Array::from(before));
            let batches = [(vec![keys.clone()], None, keys.len())];
            let mut assigned = Vec::new();
            partitioner.assign(&batches, &mut assigned).unwrap();
            let mut snapshot = partitioner.snapshot();
            damage.apply_sealed(&mut snapshot);
            let Ok(mut partitioner) = Partitioner::restore(&snapshot) else { return };
            let workers = partitioner.parameters().workers as i32;
            assigned.clear();
            if partitioner.assign(&batches, &mut assigned).is_ok() {
                assert!(assigned.iter().all(|worker| (0..workers).contains(worker)));
            }
            let _ = (partitioner.loads(), partitioner.cardinalities(), partitioner.explain());
            let _ = Partitioner::restore(&partitioner.snapshot());
        }
    }
});
