//! Snapshots of a stream without its duplicates.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use serde::{Deserialize, Serialize};

use super::{DistinctPlan, DistinctStream};
use crate::interrupt::check;
use crate::operator::held::{Item, Store};
use crate::poll::sort_unstable;
use crate::state::{Envelope, Reader, Writer, broken, tally};
use crate::{Error, Result};

/// The envelope of these snapshots.
const DISTINCT: Envelope = Envelope {
    magic: *b"WKUNIQUE",
    version: 3,
    since: 3,
    of: "an operator of windowkit.distinct; it is what op.snapshot() returned",
};

/// What is stored of the operator as a whole, besides rows and keys.
#[derive(Serialize, Deserialize)]
struct Common {
    closed: bool,
    late_limit: Option<u64>,
    reached: Option<i64>,
    #[serde(deserialize_with = "tally")]
    next: u64,
    #[serde(deserialize_with = "tally")]
    rows: u64,
    #[serde(deserialize_with = "tally")]
    results: u64,
}

impl DistinctStream {
    /// All that it holds, as bytes, for an operator that `identity` tells from others.
    ///
    /// # Errors
    /// Only those of Arrow.
    pub fn snapshot(&self, identity: &str) -> Result<Vec<u8>> {
        let mut writer = Writer::default();
        writer.value(identity);
        writer.batches(&self.plan.input, &[])?;
        let Self { closed, late_limit, reached, next, rows, results, .. } = *self;
        writer.value(&Common { closed, late_limit, reached, next, rows, results });
        writer.keys(&self.keys)?;
        self.late.save(&mut writer)?;
        self.store.write(&mut writer)?;
        Ok(writer.sealed(&DISTINCT))
    }

    /// The schema of the rows of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot of such an operator with this identity, or is damaged.
    pub fn contents(snapshot: &[u8], identity: &str) -> Result<Arc<Schema>> {
        Ok(opened(snapshot, identity)?.batches()?.0)
    }

    /// The operator that [`DistinctStream::snapshot`] was called of.
    ///
    /// # Errors
    /// As [`DistinctStream::contents`].
    pub fn restore(snapshot: &[u8], identity: &str, plan: Arc<DistinctPlan>) -> Result<Self> {
        let mut reader = opened(snapshot, identity)?;
        if *reader.batches()?.0 != *plan.input {
            return broken();
        }
        let Common { closed, late_limit, reached, next, rows, results } = reader.value()?;
        let kinds: Vec<DataType> =
            plan.output.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut stream = Self { closed, reached, next, rows, results, ..Self::new(plan, late_limit)? };
        reader.keys(&mut stream.keys, check)?;
        stream.late.load(&mut reader)?;
        stream.store = Store::read(&mut reader, &kinds.iter().collect::<Vec<_>>(), stream.keys.len(), false)?;
        // Those up to which the stream is complete were decided on.
        let open =
            stream.store.entries().filter(|(_, entry)| stream.reached.is_none_or(|at| entry.place > at));
        let mut open: Vec<Item> =
            open.map(|(key, entry)| Item { place: entry.place, order: entry.order, key }).collect();
        sort_unstable(&mut open, check)?;
        stream.open.reserve(open.iter());
        open.into_iter().for_each(|item| stream.open.push(item));
        if reader.is_empty() { Ok(stream) } else { broken() }
    }
}

fn opened<'a>(snapshot: &'a [u8], identity: &str) -> Result<Reader<'a>> {
    let mut reader = DISTINCT.open(snapshot)?;
    let found: String = reader.value()?;
    if found != identity {
        return Err(Error::InvalidValue(format!(
            "snapshot: it is of distinct rows {found}, and not {identity}; an operator is restored by what it was made of"
        )));
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use proptest::prelude::*;

    use super::super::DistinctStep;
    use super::*;
    use crate::operator::Length;
    use crate::operator::held::forged;

    fn rows(from: i64) -> RecordBatch {
        let times = (0..6).map(|row| (row != 3).then_some(from + row));
        let keys = (0..6).map(|row| (row != 4).then_some(["a", "b", "c"][row % 3]));
        let columns: [(&str, ArrayRef); 2] =
            [("k", Arc::new(StringArray::from_iter(keys))), ("t", Arc::new(Int64Array::from_iter(times)))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// Keys of a type with a single value take no bytes, however many a snapshot claims.
    #[test]
    fn a_snapshot_cannot_ask_for_more_memory_than_it_takes() {
        let key = || arrow_array::new_null_array(&DataType::Null, 1);
        let times: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let rows = RecordBatch::try_from_iter([("k", key()), ("t", times)]).unwrap();
        let plan = Arc::new(DistinctPlan::new(rows.schema(), &["k".into()], "t", Length::Units(2)).unwrap());
        let mut stream = DistinctStream::new(plan.clone(), None).unwrap();
        stream.call(DistinctStep::Push(&[rows])).unwrap();
        let forged = |keys: usize| {
            let mut writer = Writer::default();
            writer.value("it");
            writer.batches(&plan.input, &[]).unwrap();
            let common =
                Common { closed: false, late_limit: None, reached: None, next: 1, rows: 1, results: 0 };
            writer.value(&common);
            let none = arrow_array::new_null_array(&DataType::Null, keys);
            writer.columns(vec![none], keys).unwrap();
            stream.late.save(&mut writer).unwrap();
            stream.store.write(&mut writer).unwrap();
            DistinctStream::restore(&writer.sealed(&DISTINCT), "it", plan.clone())
        };
        assert_eq!(forged(1).unwrap().stats().held, 1);
        for keys in [2, 1 << 20, 1 << 31, 1 << 40] {
            assert!(forged(keys).is_err_and(|error| error.to_string().contains("damaged")));
        }
    }

    proptest! {
        /// Whatever a snapshot with a valid checksum says, it is refused, or the operator goes on without a panic.
        #[test]
        fn forged_snapshots_are_refused_or_go_on(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let plan = DistinctPlan::new(rows(0).schema(), &["k".into()], "t", Length::Units(2)).unwrap();
            let plan = Arc::new(plan);
            let mut stream = DistinctStream::new(plan.clone(), Some(2)).unwrap();
            let run = |stream: &mut DistinctStream, from| {
                let rows = [rows(from)];
                for step in [DistinctStep::Push(&rows), DistinctStep::Advance(from + 2)] {
                    if stream.call(step).is_err() {
                        return;
                    }
                }
            };
            run(&mut stream, 0);
            run(&mut stream, 1);
            let snapshot = forged(&DISTINCT, stream.snapshot("it").unwrap(), &damage);
            if let Ok(mut stream) = DistinctStream::restore(&snapshot, "it", plan) {
                run(&mut stream, 4);
                let _ = (stream.stats(), stream.watermark(), stream.snapshot("it"));
                let _ = (stream.call(DistinctStep::Close), stream.call(DistinctStep::TakeLate));
            }
        }
    }
}
