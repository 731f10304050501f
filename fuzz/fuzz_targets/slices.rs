//! Packed slices, as they cross Spark's shuffle, into engines and operators: the Arrow inside was changed, and its checksum
//! fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windowkit::bounds::check_columns;
use windowkit::operator::{Bounded, Operator};
use windowkit_fuzz::hostile::{Damage, Query, Row, quiet, read, rows, written};

fuzz_target!(|case: (Query, Vec<Row>, Damage, Vec<Row>, bool)| {
    quiet();
    let (query, before, damage, after, validated) = case;
    let plan = query.plan();
    if plan.needs_rows() {
        return;
    }
    let mut engine = Bounded::new(plan.clone()).unwrap();
    if engine.push(&[rows(&before)], 1).is_err() {
        return;
    }
    let Ok(buckets) = engine.slices(2) else { return };
    let mut engine = Bounded::new(plan.clone()).unwrap();
    let mut operator = Operator::new(vec![("q".to_owned(), plan.clone())], query.options()).unwrap();
    for (_, slices) in buckets {
        let mut bytes = written(&slices);
        damage.apply(&mut bytes, 0);
        for batch in read(&bytes, validated).unwrap_or_default() {
            if check_columns("batch", &batch, 0..batch.num_columns()).is_err() {
                continue;
            }
            // An engine that refused something is not used again.
            if engine.push_own_slices(&batch).is_err() {
                engine = Bounded::new(plan.clone()).unwrap();
            }
            // An operator is as it was.
            let _ = operator.push_slices(&[batch]);
        }
    }
    let _ = operator.push(&[rows(&after)]);
    let _ = operator.close();
    if engine.push(&[rows(&after)], 1).is_ok()
        && let Ok(output) = engine.finish()
    {
        let _ = output.collect(1);
    }
});
