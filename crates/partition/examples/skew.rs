//! A stream of which every other row has the same key, dealt out to eight workers by each method: what the fullest
//! worker has more than the mean, and how many partial results there are to aggregate.
//!
//! `cargo run --package windowkit-partition --example skew`

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use windowkit_partition::keys::remix;
use windowkit_partition::{CardinalityKind, Method, Parameters, Partitioner, Result, cost};

const ROWS: u64 = 100_000;
const WORKERS: u32 = 8;

fn main() -> Result<()> {
    let key = |row: u64| if row.is_multiple_of(2) { 0 } else { (remix(row, 1) % 1000) as u32 };
    let keys: Vec<u32> = (0..ROWS).map(key).collect();
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(keys.iter().map(|&key| key.into())));
    println!("{:<12} {:>16} {:>18}", "method", "rows above mean", "partial results");
    for method in [Method::Hash, Method::PartialKey, Method::LoadAffinity, Method::Waterfill, Method::Shuffle]
    {
        let mut partitioner = Partitioner::new(Parameters {
            workers: WORKERS,
            method,
            candidates: if method.has_candidates() { 2 } else { 1 },
            cardinality: CardinalityKind::Hll,
            bias: 0.5,
            window: None,
            seed: 0,
        })?;
        let mut workers = Vec::new();
        partitioner.assign(&[(vec![column.clone()], None, keys.len())], &mut workers)?;
        for costs in cost(&keys, &workers, None, WORKERS, 0.5)? {
            println!("{:<12} {:>16.0} {:>18}", method.name(), costs.imbalance, costs.aggregation);
        }
    }
    Ok(())
}
