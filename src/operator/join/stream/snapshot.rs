//! Snapshots of a join of two streams.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use serde::{Deserialize, Serialize};

use super::{JoinOptions, JoinStream, at};
use crate::interrupt::check;
use crate::operator::held::Store;
use crate::operator::join::kind::Which;
use crate::operator::join::plan::JoinPlan;
use crate::operator::outbox::Labelled;
use crate::operator::progress::Ahead;
#[cfg(test)]
use crate::operator::progress::Delay;
use crate::operator::shedding::Shedding;
use crate::operator::zone_rules::ZoneRules;
use crate::state::{Envelope, Reader, Writer, broken, tally};
use crate::{Error, Result};

/// The envelope of snapshots of joins.
const JOIN: Envelope =
    Envelope { magic: *b"WKJOINED", version: 4, since: 4, of: "a join; it is what op.snapshot() returned" };

/// What is stored of the join as a whole, besides rows and keys.
#[derive(Serialize, Deserialize)]
struct Common {
    closed: bool,
    options: JoinOptions,
    shedding: Option<Shedding>,
    #[serde(deserialize_with = "tally")]
    next: u64,
    #[serde(deserialize_with = "tally")]
    results: u64,
    /// How far the left side is complete, and the right one.
    reached: [Option<i64>; 2],
    rows: [u64; 2],
    /// The rules of the time zone by which held rows were assigned to windows.
    zone: Option<ZoneRules>,
}

/// What a plan needs to be that of a snapshot.
pub struct JoinContents {
    /// The schemas of both sides.
    pub sides: [Arc<Schema>; 2],
    /// Whether rows without a partner are in the result at once.
    pub early: bool,
    /// Whether keys may be dropped.
    pub sheds: bool,
}

impl JoinStream {
    /// All that it holds, as bytes, for a join that `identity` tells from others.
    ///
    /// # Errors
    /// Only those of Arrow.
    pub fn snapshot(&self, identity: &str) -> Result<Vec<u8>> {
        let mut writer = Writer::default();
        writer.value(identity);
        for which in [Which::Left, Which::Right] {
            writer.batches(&self.plan.side(which).input, &[])?;
        }
        writer.value(&(self.plan.early, self.plan.sheds));
        let Self { closed, options, next, results, reached, rows, .. } = *self;
        let shedding = self.shedding.clone();
        let zone = self.zone_rules()?;
        writer.value(&Common { closed, options, shedding, next, results, reached, rows, zone });
        for progress in self.progress.iter().flatten() {
            progress.save(&mut writer)?;
        }
        writer.keys(&self.keys)?;
        for which in [Which::Left, Which::Right] {
            self.late[at(which)].save(&mut writer)?;
            self.stores[at(which)].write(&mut writer)?;
            self.ahead[at(which)].save(&mut writer)?;
        }
        self.outbox.save(&mut writer, self.schema(), |results| Ok(results.batch.clone()))?;
        Ok(writer.sealed(&JOIN))
    }

    fn zone_rules(&self) -> Result<Option<ZoneRules>> {
        let Some(windows) = self.plan.condition.windows() else { return Ok(None) };
        let places = self.stores.iter().flat_map(Store::entries).map(|(_, entry)| entry.place);
        let held = places.fold(None, |held: Option<(i64, i64)>, place| {
            Some(held.map_or((place, place), |(first, last)| (first.min(place), last.max(place))))
        });
        held.map_or(Ok(None), |held| windows.zone_rules(held))
    }

    /// What a snapshot is of.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot of a join with this identity, or is damaged.
    pub fn contents(snapshot: &[u8], identity: &str) -> Result<JoinContents> {
        let mut reader = opened(snapshot, identity)?;
        let sides = [reader.batches()?.0, reader.batches()?.0];
        let (early, sheds) = reader.value()?;
        Ok(JoinContents { sides, early, sheds })
    }

    /// The join that [`JoinStream::snapshot`] was called of.
    ///
    /// # Errors
    /// As [`JoinStream::contents`].
    pub fn restore(snapshot: &[u8], identity: &str, plan: Arc<JoinPlan>) -> Result<Self> {
        let mut reader = opened(snapshot, identity)?;
        for which in [Which::Left, Which::Right] {
            let (schema, _) = reader.batches()?;
            if *schema != *plan.side(which).input {
                return broken();
            }
        }
        if reader.value::<(bool, bool)>()? != (plan.early, plan.sheds) {
            return broken();
        }
        let Common { closed, options, shedding, next, results, reached, rows, zone } = reader.value()?;
        let are_sound = [Which::Left, Which::Right].iter().all(|&which| {
            let columns = plan.side(which).input.fields().len();
            options.progress[at(which)].is_none_or(|delay| delay.is_sound(columns))
        });
        let of_shedding = shedding.as_ref().map(|shedding| shedding.shed);
        let is_shed =
            shedding.as_ref().is_none_or(|shedding| shedding.clone().with_schema_of(None).is_some());
        if !are_sound || !is_shed || of_shedding != options.shed || options.shed.is_some() != plan.sheds {
            return broken();
        }
        zone.map_or(Ok(()), |zone| zone.check())?;
        if rows.iter().any(|&rows| rows >= 1 << 62) {
            return broken();
        }
        let stream = Self::new(plan, options)?;
        let mut stream = Self { closed, shedding, next, results, reached, rows, ..stream };
        for progress in stream.progress.iter_mut().flatten() {
            progress.load(&mut reader)?;
        }
        reader.keys(&mut stream.keys, check)?;
        let keys = stream.keys.len();
        for which in [Which::Left, Which::Right] {
            stream.late[at(which)].load(&mut reader)?;
            let kinds: Vec<&DataType> = stream.plan.side(which).held.iter().map(|(_, kind)| kind).collect();
            let by_content = stream.plan.side(which).weight.is_some();
            stream.stores[at(which)] = Store::read(&mut reader, &kinds, keys, by_content)?;
            let keyed = if stream.plan.keys().is_empty() { 0 } else { keys };
            stream.ahead[at(which)] = Ahead::load(&mut reader, keyed, reached[at(which)])?;
        }
        let schema = stream.schema().clone();
        let read = |batch: &RecordBatch| Some(Labelled::all(batch.clone(), 0));
        stream.outbox.load(&mut reader, &schema, read)?;
        if reader.is_empty() { Ok(stream) } else { broken() }
    }
}

fn opened<'a>(snapshot: &'a [u8], identity: &str) -> Result<Reader<'a>> {
    let mut reader = JOIN.open(snapshot)?;
    let found: String = reader.value()?;
    if found != identity {
        return Err(Error::InvalidValue(format!(
            "snapshot: it is of the join {found}, and not of {identity}; an operator is restored by the join that it was \
             made by"
        )));
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::super::JoinStep;
    use super::*;
    use crate::kernels::Closed;
    use crate::operator::held::forged;
    use crate::operator::join::{ConditionSpec, JoinKind, JoinSpec, SideSpec};
    use crate::operator::policy::Flush;
    use crate::operator::progress::By;
    use crate::operator::{Length, WindowKind, WindowSpec};
    use crate::window::Partial;

    fn rows(from: i64) -> RecordBatch {
        let times = (0..6).map(|row| (row != 3).then_some(from + row));
        let keys = (0..6).map(|row| (row != 4).then_some(["a", "b", "c"][row % 3]));
        let columns: [(&str, ArrayRef); 3] = [
            ("k", Arc::new(StringArray::from_iter(keys))),
            ("t", Arc::new(Int64Array::from_iter(times))),
            ("w", Arc::new(Int64Array::from(vec![1; 6]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn plan(by_windows: bool, weighs: bool, early: bool) -> Arc<JoinPlan> {
        let length = Length::Units;
        let kind = WindowKind::Sliding {
            size: length(4),
            slide: length(2),
            start_time: None,
            partial: Partial::NONE,
        };
        let condition = match by_windows {
            true => ConditionSpec::Windows(WindowSpec { name: "w".into(), kind }),
            false => ConditionSpec::Band { before: length(2), after: length(3), closed: Closed::Both },
        };
        let weight = weighs.then(|| "w".to_owned());
        let (by, time) = (vec!["k".into()], "t".into());
        let side = || SideSpec {
            input: rows(0).schema(),
            by: by.clone(),
            time: String::clone(&time),
            columns: None,
            weight: weight.clone(),
        };
        let (left, right, kind, suffix) = (side(), side(), JoinKind::Full, "_right".into());
        Arc::new(
            JoinPlan::new(JoinSpec { left, right, condition, kind, suffix, early, sheds: false }).unwrap(),
        )
    }

    proptest! {
        /// Whatever a snapshot with a valid checksum says, it is refused, or the operator goes on without a panic.
        #[test]
        fn forged_snapshots_are_refused_or_go_on(
            by_windows: bool,
            (weighs, early, follows, holds) in any::<(bool, bool, bool, bool)>(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let plan = plan(by_windows, weighs, early);
            let delay = Delay { by: By::Time(1), source: None, idle: None, future: None, heartbeat: None };
            let progress = [follows.then_some(delay), None];
            let flush = Flush { at_most: holds.then_some(1), later: None };
            let options = JoinOptions { late_limit: Some(2), progress, flush, shed: None };
            let mut stream = JoinStream::new(plan.clone(), options).unwrap();
            let run = |stream: &mut JoinStream, from| {
                let rows = [rows(from)];
                let pushes = [Which::Left, Which::Right].map(|which| JoinStep::Push(which, &rows));
                let advances = [Which::Left, Which::Right].map(|which| JoinStep::Advance(which, from + 2));
                let key = [rows[0].column(0).slice(0, 1)];
                let ahead = [Which::Left, Which::Right].map(|which| JoinStep::AdvanceKey(which, from + 3, &key));
                for step in pushes.into_iter().chain(advances).chain(ahead) {
                    if stream.call(step).is_err() {
                        return;
                    }
                }
            };
            run(&mut stream, 0);
            run(&mut stream, 1);
            let snapshot = forged(&JOIN, stream.snapshot("it").unwrap(), &damage);
            if let Ok(mut stream) = JoinStream::restore(&snapshot, "it", plan) {
                run(&mut stream, 4);
                let _ = (stream.stats(), stream.joint(), stream.individual(Which::Left), stream.snapshot("it"));
                let _ = (stream.call(JoinStep::Close), stream.call(JoinStep::TakeLate(Which::Left)));
            }
        }
    }
}
