//! What is sent through a shuffle, by bucket of keys: slices made by this task, or rows as they arrived.
//!
//! | | |
//! |---|---|
//! | needs | keys that can be hashed; partials whose parts may be merged in any order |
//! | time | O(slices + keys) to emit slices, and a sort where they are out of order; O(rows) for rows |
//! | space | a second copy of what is emitted |
//! | first appeared | partial aggregation before the exchange: Larson, *Grouping and Duplicate Elimination*, 1997; rows instead where it reduces little: Larson, *Data Reduction by Partial Preaggregation*, ICDE 2002 |
//!
//! A bucket is determined by the hash of a key alone, so that all slices and all rows of one key end up in the same
//! bucket, whichever task produced them and whether it made slices or passed rows on.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType, Field, Schema};

use super::plan::Plan;
use crate::interrupt::check;
use crate::keys::{KeyIndex, hash_rows, remix};
use crate::select::{take, take_record_batch};
use crate::slice::SliceTable;
use crate::{Error, Result};

/// Separates the bucket of a key from everything else its hash determines. Never changes: the tasks of one job must
/// agree.
const SALT: u64 = 0x51_1CE5;

/// Rows by bucket: those of bucket `b` are `order[bounds[b]..bounds[b + 1]]`, in the order they came.
pub(super) struct Sorted {
    order: Vec<u32>,
    bounds: Vec<usize>,
}

impl Sorted {
    /// Sorts `rows` rows of key columns by bucket: a counting sort.
    pub(super) fn new(keys: &[ArrayRef], rows: usize, buckets: u32) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::InvalidValue("buckets: 0 is given; at least one is needed".into()));
        }
        let mut hashes = Vec::with_capacity(rows);
        hash_rows(keys, rows, 0, &mut hashes)?;
        // The upper half of the product scales the hash to the range: no bucket is favoured, and nothing is divided.
        let bucket = |hash: u64| ((u128::from(remix(hash, SALT)) * u128::from(buckets)) >> 64) as u32;
        let of_row: Vec<u32> = hashes.into_iter().map(bucket).collect();
        let mut bounds = vec![0; buckets as usize + 1];
        for &bucket in &of_row {
            bounds[bucket as usize + 1] += 1;
        }
        for bucket in 0..buckets as usize {
            bounds[bucket + 1] += bounds[bucket];
        }
        let mut next = bounds.clone();
        let mut order = vec![0; rows];
        for (row, &bucket) in of_row.iter().enumerate() {
            order[next[bucket as usize]] = row as u32;
            next[bucket as usize] += 1;
        }
        Ok(Self { order, bounds })
    }

    /// The rows, bucket by bucket.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Non-empty buckets, with where each begins and ends in the order.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u32, usize, usize)> + '_ {
        let each = self.bounds.windows(2).enumerate();
        each.map(|(bucket, bound)| (bucket as u32, bound[0], bound[1])).filter(|&(_, from, to)| from < to)
    }
}

/// Rows by bucket, each row in order of arrival. The columns are those of the plan's input.
///
/// # Errors
/// `InvalidValue` without buckets or for a batch of another schema, `InvalidType` for keys that cannot be hashed.
pub fn split_rows(plan: &Plan, batch: &RecordBatch, buckets: u32) -> Result<Vec<(u32, RecordBatch)>> {
    if batch.num_columns() != plan.input().fields().len() {
        return Err(Error::InvalidValue(
            "batch: its schema is not the one that the query was bound to".into(),
        ));
    }
    let keys: Vec<ArrayRef> = plan.by().iter().map(|&position| batch.column(position).clone()).collect();
    let sorted = Sorted::new(&keys, batch.num_rows(), buckets)?;
    let rows = take_record_batch(batch, &UInt32Array::from(sorted.order.clone()))?;
    Ok(sorted.buckets().map(|(bucket, from, to)| (bucket, rows.slice(from, to - from))).collect())
}

/// Slices by bucket, sorted by key and time, those of one slice (or fragment) merged.
pub(super) fn split_slices(
    plan: &Plan,
    keys: &KeyIndex,
    mut table: SliceTable,
    buckets: u32,
) -> Result<Vec<(u32, RecordBatch)>> {
    let count = keys.len();
    let sorted = Sorted::new(&keys.values()?, count, buckets)?;
    let mut names = vec![0; count];
    for (name, &key) in sorted.order.iter().enumerate() {
        names[key as usize] = name as u32;
    }
    table.rename_keys(&names);
    let order = UInt32Array::from(sorted.order.clone());
    let keys = keys.values()?;
    let keys = keys.iter().map(|key| take(key, &order, None)).collect::<std::result::Result<Vec<_>, _>>()?;
    let by_key = table.order_by_key(count, check)?;
    sorted
        .buckets()
        .map(|(bucket, from, to)| {
            let slices = table.regroup(&by_key, (from, to), plan.edges(), check)?;
            Ok((bucket, batch(plan, &keys, &slices)?))
        })
        .collect()
}

/// Rejects slices whose columns have other types than these, which are those of a query's slices.
pub(super) fn check_types(slices: &RecordBatch, known: &[DataType]) -> Result<()> {
    let given = types(slices.schema_ref());
    if given != known {
        return Err(Error::InvalidValue(format!(
            "slices: columns of types {given:?} are given; slices of this query have {known:?}"
        )));
    }
    Ok(())
}

/// The types of the columns of a schema.
pub(super) fn types(schema: &Schema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// The columns of emitted slices: keys, start, with sessions last, then each partial's state.
///
/// # Errors
/// What a user-defined function raises.
pub fn schema(plan: &Plan) -> Result<Arc<Schema>> {
    let types = plan.by().iter().map(|&column| plan.input().field(column).data_type().clone());
    let keys = KeyIndex::new(types.collect())?.values()?;
    let none = SliceTable::new(plan.empty_partials()?, plan.edges().gap().is_some());
    Ok(batch(plan, &keys, &none)?.schema())
}

fn batch(plan: &Plan, keys: &[ArrayRef], slices: &SliceTable) -> Result<RecordBatch> {
    let ids = UInt32Array::from(slices.keys().to_vec());
    let mut columns = Vec::new();
    let mut push = |name: String, column: ArrayRef| {
        columns.push((Field::new(name, column.data_type().clone(), true), column));
    };
    for (at, key) in keys.iter().enumerate() {
        push(format!("key{at}"), take(key, &ids, None)?);
    }
    push("start".into(), plan.measure().array(slices.starts().to_vec())?);
    if let Some(lasts) = slices.lasts() {
        push("last".into(), plan.measure().array(lasts.to_vec())?);
    }
    for (at, partials) in slices.partials().iter().enumerate() {
        for (part, state) in partials.state()?.into_iter().enumerate() {
            push(format!("state{at}.{part}"), state);
        }
    }
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(slices.len()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{AggregateSpec, Bounded, Length, WindowKind, WindowSpec};
    use crate::window::Partial;
    use arrow_array::{Array, Float64Array, Int64Array, StringArray, cast::AsArray, types::Int64Type};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashMap};

    /// Key, time, value.
    type Row = (Option<u8>, Option<i64>, Option<i64>);

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let key = prop::option::of(0u8..6);
        prop::collection::vec(
            (key, prop::option::weighted(0.9, -30i64..30), prop::option::of(-9i64..9)),
            0..60,
        )
    }

    fn batch_of(rows: &[Row]) -> RecordBatch {
        let keys: StringArray = rows.iter().map(|row| row.0.map(|key| key.to_string())).collect();
        let times: Int64Array = rows.iter().map(|row| row.1).collect();
        let values: Int64Array = rows.iter().map(|row| row.2).collect();
        let floats: Float64Array = rows.iter().map(|row| row.2.map(|value| value as f64 / 4.0)).collect();
        let columns: [(&str, ArrayRef); 4] =
            [("k", Arc::new(keys)), ("t", Arc::new(times)), ("v", Arc::new(values)), ("f", Arc::new(floats))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    fn plan(sessions: bool) -> Arc<Plan> {
        let units = Length::Units;
        let sliding = WindowKind::Sliding {
            size: units(10),
            slide: units(3),
            start_time: None,
            partial: Partial::NONE,
        };
        let tumbling = WindowKind::Tumbling { size: units(8), start_time: None, partial: Partial::NONE };
        let mut kinds = vec![("0", sliding), ("1", tumbling)];
        if sessions {
            kinds.push(("2", WindowKind::Session { gap: units(4) }));
        }
        let windows = kinds.into_iter().map(|(name, kind)| WindowSpec { name: name.into(), kind }).collect();
        let functions = ["sum", "min", "mean", "first_valid", "median", "collect_list", "count"];
        let mut aggregates: Vec<AggregateSpec> =
            functions.map(|function| AggregateSpec::new(function, &["v"], function)).into();
        aggregates.push(AggregateSpec::new("stddev_samp", &["f"], "stddev_samp"));
        aggregates.push(AggregateSpec::new("max", &["k"], "max"));
        let schema = batch_of(&[]).schema();
        Arc::new(Plan::new(schema, vec!["k".into()], "t".into(), windows, aggregates).unwrap())
    }

    /// Windows as text, with floats rounded.
    fn windows(bounded: Bounded) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for batch in bounded.finish().unwrap().collect(1).unwrap() {
            for row in 0..batch.num_rows() {
                let text =
                    |column: &ArrayRef| match column.as_primitive_opt::<arrow_array::types::Float64Type>() {
                        Some(floats) if floats.is_valid(row) => format!("{:.6}", floats.value(row)),
                        _ => format!("{:?}", column.slice(row, 1)),
                    };
                let texts: Vec<String> = batch.columns().iter().map(text).collect();
                assert_eq!(all.insert(texts[..3].join(" "), texts[3..].join(" ")), None);
            }
        }
        all
    }

    proptest! {
        /// Rows distributed to tasks, each of which emits slices from time to time or passes its rows on, give the
        /// windows that a single task gives: per bucket, and no key in two buckets.
        #[test]
        fn buckets_are_parts_of_the_whole(
            tasks in prop::collection::vec((rows(), any::<bool>(), 1usize..40), 1..4),
            buckets in 1u32..5, sessions in any::<bool>(),
        ) {
            let plan = plan(sessions);
            let mut whole = Bounded::new(plan.clone()).unwrap();
            let mut stage_2: HashMap<u32, Bounded> = HashMap::new();
            let mut of_key: HashMap<Option<String>, u32> = HashMap::new();
            for (rows, slices, round) in &tasks {
                whole.push(&[batch_of(rows)], 1).unwrap();
                let mut engine = Bounded::new(plan.clone()).unwrap();
                for part in rows.chunks(*round).map(batch_of) {
                    let out = if *slices {
                        engine.push(&[part], 1).unwrap();
                        engine.slices(buckets).unwrap()
                    } else {
                        split_rows(&plan, &part, buckets).unwrap()
                    };
                    for (bucket, batch) in out {
                        prop_assert!(bucket < buckets);
                        for key in batch.column(0).as_string::<i32>() {
                            prop_assert_eq!(*of_key.entry(key.map(str::to_owned)).or_insert(bucket), bucket);
                        }
                        let there = stage_2.entry(bucket).or_insert_with(|| Bounded::new(plan.clone()).unwrap());
                        if *slices {
                            there.push_own_slices(&batch).unwrap();
                        } else {
                            there.push(&[batch], 1).unwrap();
                        }
                    }
                }
            }
            let joined: BTreeMap<String, String> = stage_2.into_values().flat_map(windows).collect();
            prop_assert_eq!(joined, windows(whole));
        }
    }

    #[test]
    fn slices_are_sorted_and_merged() {
        let plan = plan(false);
        let mut engine = Bounded::new(plan.clone()).unwrap();
        let times = [7, 1, 9, 1, 7, 1];
        let rows: Vec<Row> = times.iter().map(|&t| (Some(1), Some(t), Some(t))).collect();
        engine.push(&[batch_of(&rows)], 1).unwrap();
        let out = engine.slices(3).unwrap();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].1.schema(), schema(&plan).unwrap());
        let starts = out[0].1.column(1).as_primitive::<Int64Type>();
        assert_eq!(starts.values(), &[1, 7, 9]);
        assert_eq!(engine.slots(), 0);
        assert!(engine.slices(3).unwrap().is_empty());
    }

    #[test]
    fn slices_of_another_query_are_refused() {
        let mut engine = Bounded::new(plan(true)).unwrap();
        engine.push(&[batch_of(&[(Some(1), Some(1), Some(1))])], 1).unwrap();
        let slices = engine.slices(1).unwrap().remove(0).1;
        let error = Bounded::new(plan(false)).unwrap().push_own_slices(&slices).unwrap_err();
        assert!(error.to_string().contains("slices of this query"), "{error}");
        assert!(matches!(engine.slices(0), Err(Error::InvalidValue(_))));
    }
}
