//! Snapshots of a stream without its duplicates.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use serde::{Deserialize, Serialize};

use super::{DistinctPlan, DistinctStream};
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::operator::held::{Item, Store, read_keys, write_keys};
use crate::poll::sort_unstable;
use crate::state::{Envelope, Reader, Writer, broken, tally};
use crate::{Error, Result};

/// The envelope of these snapshots.
const DISTINCT: Envelope = Envelope {
    magic: *b"WKUNIQUE",
    version: 2,
    since: 2,
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
        write_keys(&self.keys, &mut writer)?;
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
        let types: Vec<DataType> =
            plan.by.iter().map(|&key| plain(plan.input.field(key).data_type()).clone()).collect();
        let kinds: Vec<DataType> =
            plan.output.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut stream = Self { closed, reached, next, rows, results, ..Self::new(plan, late_limit)? };
        let keys = read_keys(&mut stream.keys, &mut reader, &types)?;
        stream.late.load(&mut reader)?;
        stream.store = Store::read(&mut reader, &kinds.iter().collect::<Vec<_>>(), keys)?;
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
