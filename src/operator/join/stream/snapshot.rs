//! Snapshots of a join of two streams.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};

use super::{JoinStream, at};
use crate::interrupt::within;
use crate::operator::held::{Store, read_keys, write_keys};
use crate::operator::join::kind::Which;
use crate::operator::join::plan::JoinPlan;
use crate::operator::stream::Late;
use crate::state::{Envelope, Reader, Writer, broken};
use crate::{Error, Result};

/// The envelope of snapshots of joins.
const JOIN: Envelope =
    Envelope { magic: *b"WKJOINED", version: 1, since: 1, of: "a join; it is what op.snapshot() returned" };

impl JoinStream {
    /// All that it holds, as bytes, for a join that `identity` tells from others. The step that was attempted last is
    /// committed.
    ///
    /// # Errors
    /// Only those of Arrow.
    pub fn snapshot(&mut self, identity: &str) -> Result<Vec<u8>> {
        self.settle(true);
        within(|| self.written(identity))
    }

    fn written(&self, identity: &str) -> Result<Vec<u8>> {
        let mut writer = Writer::default();
        writer.text(identity);
        for which in [Which::Left, Which::Right] {
            writer.batches(&self.plan.side(which).input, &[])?;
        }
        writer.number(u64::from(self.closed));
        writer.option(self.late_limit.map(|limit| limit as i64));
        writer.number(self.next);
        writer.number(self.results);
        write_keys(&self.keys, &mut writer)?;
        for which in [Which::Left, Which::Right] {
            let (late, store) = (&self.late[at(which)], &self.stores[at(which)]);
            writer.option(self.reached[at(which)]);
            writer.number(self.rows[at(which)]);
            writer.number(late.count());
            writer.number(late.dropped());
            writer.batches(late.schema(), late.batches())?;
            store.write(&mut writer)?;
        }
        Ok(writer.sealed(&JOIN))
    }

    /// The schemas of the two sides of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot of a join with this identity, or is damaged.
    pub fn contents(snapshot: &[u8], identity: &str) -> Result<[Arc<Schema>; 2]> {
        let mut reader = opened(snapshot, identity)?;
        Ok([reader.batches()?.0, reader.batches()?.0])
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
        let closed = reader.number()? != 0;
        let late_limit = reader.option()?.map(|limit| limit as u64);
        let mut stream = Self::new(plan, late_limit)?;
        stream.closed = closed;
        (stream.next, stream.results) = (reader.tally()?, reader.tally()?);
        let types = stream.plan.keys().to_vec();
        let keys = read_keys(&mut stream.keys, &mut reader, &types)?;
        for which in [Which::Left, Which::Right] {
            stream.reached[at(which)] = reader.option()?;
            stream.rows[at(which)] = reader.tally()?;
            let (count, dropped) = (reader.tally()?, reader.tally()?);
            let (schema, batches) = reader.batches()?;
            let late: &mut Late = &mut stream.late[at(which)];
            if *schema != **late.schema() {
                return broken();
            }
            late.restore(batches, count, dropped);
            let kinds: Vec<&DataType> = stream.plan.side(which).held.iter().map(|(_, kind)| kind).collect();
            stream.stores[at(which)] = Store::read(&mut reader, &kinds, keys)?;
        }
        if reader.is_empty() { Ok(stream) } else { broken() }
    }
}

fn opened<'a>(snapshot: &'a [u8], identity: &str) -> Result<Reader<'a>> {
    let mut reader = JOIN.open(snapshot)?;
    let found = reader.text()?;
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
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use proptest::prelude::*;

    use super::super::JoinStep;
    use super::*;
    use crate::kernels::Closed;
    use crate::operator::join::{ConditionSpec, JoinKind, JoinSpec, SideSpec};
    use crate::operator::{Length, WindowKind, WindowSpec};
    use crate::state::forged;

    fn rows(from: i64) -> RecordBatch {
        let times = (0..6).map(|row| (row != 3).then_some(from + row));
        let keys = (0..6).map(|row| (row != 4).then_some(["a", "b", "c"][row % 3]));
        let columns: [(&str, ArrayRef); 2] =
            [("k", Arc::new(StringArray::from_iter(keys))), ("t", Arc::new(Int64Array::from_iter(times)))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn plan(by_windows: bool) -> Arc<JoinPlan> {
        let length = Length::Units;
        let kind =
            WindowKind::Sliding { size: length(4), slide: length(2), start_time: None, partial: false };
        let condition = match by_windows {
            true => ConditionSpec::Windows(WindowSpec { name: "w".into(), kind }),
            false => ConditionSpec::Band { before: length(2), after: length(3), closed: Closed::Both },
        };
        let side =
            || SideSpec { input: rows(0).schema(), by: vec!["k".into()], time: "t".into(), columns: None };
        let (left, right, kind, suffix) = (side(), side(), JoinKind::Full, "_right".into());
        Arc::new(JoinPlan::new(JoinSpec { left, right, condition, kind, suffix }).unwrap())
    }

    proptest! {
        /// Whatever a snapshot with a valid checksum says, it is refused, or the operator goes on without a panic.
        #[test]
        fn forged_snapshots_are_refused_or_go_on(
            by_windows: bool,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let plan = plan(by_windows);
            let mut stream = JoinStream::new(plan.clone(), Some(2)).unwrap();
            let run = |stream: &mut JoinStream, from| {
                let rows = [rows(from)];
                let pushes = [Which::Left, Which::Right].map(|which| JoinStep::Push(which, &rows));
                let advances = [Which::Left, Which::Right].map(|which| JoinStep::Advance(which, from + 2));
                for step in pushes.into_iter().chain(advances) {
                    if stream.attempt(step).is_err() {
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
                let _ = (stream.attempt(JoinStep::Close), stream.attempt(JoinStep::TakeLate(Which::Left)));
                stream.settle(true);
            }
        }
    }
}
