//! Snapshots of a stream without its duplicates.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use serde::{Deserialize, Serialize};

use super::last::Last;
use super::{DistinctOptions, DistinctPlan, DistinctStream};
use crate::interrupt::check;
use crate::operator::held::{Entry, Store};
use crate::operator::progress::{Ahead, Delay};
use crate::operator::shedding::Shedding;
use crate::state::{Envelope, Reader, Writer, broken, tally};
use crate::{Error, Result};

/// The envelope of these snapshots.
const DISTINCT: Envelope = Envelope {
    magic: *b"WKUNIQUE",
    version: 4,
    since: 4,
    of: "an operator of windowkit.distinct; it is what op.snapshot() returned",
};

/// What is stored of the operator as a whole, besides rows and keys.
#[derive(Serialize, Deserialize)]
struct Common {
    closed: bool,
    progress: Option<Delay>,
    late_limit: Option<u64>,
    shedding: Option<Shedding>,
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
        let Self { closed, options, reached, next, rows, results, .. } = *self;
        let DistinctOptions { progress, late_limit, .. } = options;
        let shedding = self.shedding.clone();
        writer.value(&Common { closed, progress, late_limit, shedding, reached, next, rows, results });
        self.progress.as_ref().map_or(Ok(()), |progress| progress.save(&mut writer))?;
        writer.keys(&self.keys)?;
        self.ahead.save(&mut writer)?;
        self.last.save(self.keys.len(), &mut writer)?;
        self.late.save(&mut writer)?;
        self.open.write(&mut writer)?;
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
        let Common { closed, progress, late_limit, shedding, reached, next, rows, results } =
            reader.value()?;
        if !progress.is_none_or(|delay| delay.is_sound(plan.input.fields().len())) {
            return broken();
        }
        let kinds: Vec<DataType> =
            plan.output.fields().iter().map(|field| field.data_type().clone()).collect();
        let shed = shedding.as_ref().map(|shedding| shedding.shed);
        let options = DistinctOptions { progress, late_limit, shed };
        let mut stream = Self { closed, reached, next, rows, results, ..Self::new(plan, options)? };
        if let Some(shedding) = shedding {
            let Some(shedding) = shedding.with_schema_of(stream.shedding) else { return broken() };
            stream.shedding = Some(shedding);
        }
        stream.progress.as_mut().map_or(Ok(()), |progress| progress.load(&mut reader))?;
        reader.keys(&mut stream.keys, check)?;
        let keys = stream.keys.len();
        let keyed = if stream.plan.by.is_empty() { 0 } else { keys };
        stream.ahead = Ahead::load(&mut reader, keyed, reached)?;
        stream.last = Last::load(keys, &mut reader)?;
        stream.late.load(&mut reader)?;
        stream.open = Store::read(&mut reader, &kinds.iter().collect::<Vec<_>>(), keys, false)?;
        let is_open =
            |(key, entry): (u32, &Entry)| Some(entry.place) > stream.ahead.watermark_of(reached, key);
        if !stream.open.entries().all(is_open) {
            return broken();
        }
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

    use super::super::{DistinctStep, Per};
    use super::*;
    use crate::operator::held::forged;
    use crate::operator::{By, Keep, Length, Shed};

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
        let plan = Arc::new(
            DistinctPlan::new(rows.schema(), &["k".into()], "t", Length::Units(2), Per::First).unwrap(),
        );
        let mut stream = DistinctStream::new(plan.clone(), DistinctOptions::default()).unwrap();
        stream.call(DistinctStep::Push(&[rows])).unwrap();
        let forged = |keys: usize| {
            let mut writer = Writer::default();
            writer.value("it");
            writer.batches(&plan.input, &[]).unwrap();
            writer.value(&Common {
                closed: false,
                progress: None,
                late_limit: None,
                shedding: None,
                reached: None,
                next: 1,
                rows: 1,
                results: 0,
            });
            let none = arrow_array::new_null_array(&DataType::Null, keys);
            writer.columns(vec![none], keys).unwrap();
            stream.ahead.save(&mut writer).unwrap();
            stream.last.save(1, &mut writer).unwrap();
            stream.late.save(&mut writer).unwrap();
            stream.open.write(&mut writer).unwrap();
            DistinctStream::restore(&writer.sealed(&DISTINCT), "it", plan.clone())
        };
        assert_eq!(forged(1).unwrap().stats().held, 1);
        for keys in [2, 1 << 20, 1 << 31, 1 << 40] {
            assert!(forged(keys).is_err_and(|error| error.to_string().contains("damaged")));
        }
    }

    const OPTIONS: DistinctOptions = DistinctOptions {
        progress: Some(Delay {
            by: By::Time(1),
            source: Some(0),
            idle: Some(9),
            future: Some(100),
            heartbeat: None,
        }),
        late_limit: Some(2),
        shed: Some(Shed { bytes: 1500, keep: Keep::Keys, seed: 1 }),
    };

    proptest! {
        /// Whatever a snapshot with a valid checksum says, it is refused, or the operator goes on without a panic.
        #[test]
        fn forged_snapshots_are_refused_or_go_on(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let plan = DistinctPlan::new(rows(0).schema(), &["k".into()], "t", Length::Units(2), Per::First).unwrap();
            let plan = Arc::new(plan);
            let mut stream = DistinctStream::new(plan.clone(), OPTIONS).unwrap();
            let run = |stream: &mut DistinctStream, from| {
                let rows = [rows(from)];
                let key: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["b"]))];
                let steps = [
                    DistinctStep::Push(&rows),
                    DistinctStep::AdvanceKey(from + 7, &key),
                    DistinctStep::Follow,
                    DistinctStep::EndSource(&key[0]),
                    DistinctStep::Advance(from + 2),
                ];
                for step in steps {
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
