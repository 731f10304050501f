//! Results of windows that are not final, and the columns that mark results as early, final, late, or retractions (Onyx:
//! triggers and refinement modes).
//!
//! Of all this, engines know only which rows no result of a query contains yet. Triggers are evaluated once per call, when
//! its rows and its watermark have taken effect. Early results join the other results of the call, and all results of
//! retracting queries go through their ledgers.

mod ledger;
mod outbox;
mod reached;
mod shape;
mod triggers;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::engine::Asked;
use super::intake::Accepted;
use super::keyed::Keyed;
use super::names::Names;
use super::queries::Entry;
use super::shedding::Sample;
use crate::operator::policy::{Moved, Refinement};
use crate::select::take;
use crate::state::{Reader, Writer};
use crate::{Error, Result};
use ledger::Ledger;
use outbox::{Outbox, Waiting};
pub(super) use reached::Reached;
use shape::Shape;
use triggers::Triggers;

/// Keys without any state that may accumulate before they are dropped.
const IDLE_KEYS: usize = 4096;

/// What results are, by number.
const LABELS: [&str; 4] = ["early", "final", "late", "retraction"];
const EARLY: u32 = 0;
const FINAL: u32 = 1;
const LATE: u32 = 2;
const RETRACTION: u32 = 3;

/// Results of windows that are final, of windows that are not, and of windows without a row left, with whether they are final;
/// each with the place of its query.
pub(super) type Emitted =
    (Vec<(usize, RecordBatch)>, Vec<(usize, RecordBatch)>, Vec<(usize, RecordBatch, bool)>);

/// The emission policies of an operator's queries.
pub(super) struct Emission {
    /// Of triggers and ledgers.
    keys: Keyed,
    /// One for each query of the operator.
    emitters: Vec<Emitter>,
    /// Whether results have weights, as there is or was a query that retracts.
    weighs: bool,
    labels: Names,
    schema: SchemaRef,
    /// The clock when triggers were last looked at, and in the current call.
    clock: (Option<i64>, Option<i64>),
}

/// A query that emits results.
struct Emitter {
    name: String,
    shape: Shape,
    /// If it has a policy.
    triggers: Option<Triggers>,
    /// If it retracts.
    ledger: Option<Ledger>,
    outbox: Outbox,
}

impl Emission {
    /// Of these queries, whose results have this schema; `old` is that of the queries before. `None` if no query has or had
    /// a policy.
    ///
    /// # Errors
    /// `InvalidValue` if a column of results has a name that one of its own has.
    pub(super) fn among(entries: &[Entry], schema: &SchemaRef, old: Option<&Self>) -> Result<Option<Self>> {
        let has_policy = entries.iter().any(|entry| entry.plan.policy().is_some());
        match has_policy || old.is_some() {
            false => Ok(None),
            true => {
                let mut emission = Self::of(entries, schema, old.is_some_and(|old| old.weighs))?;
                old.map_or(Ok(()), |old| emission.take_waiting(old))?;
                Ok(Some(emission))
            }
        }
    }

    /// Lets the results that wait have the columns of these queries.
    fn take_waiting(&mut self, old: &Self) -> Result<()> {
        for emitter in &mut self.emitters {
            let Some(known) = old.emitters.iter().find(|known| known.name == emitter.name) else { continue };
            let moved = |waiting: &Waiting| {
                let facts = known.shape.facts(&waiting.batch)?;
                let own = known.shape.own(&waiting.batch);
                let batch = emitter.shape.batch(own, &facts.which, facts.updates)?;
                let labels = waiting.batch.column(known.shape.width()).clone();
                let mut columns = [batch.columns(), &[labels]].concat();
                if self.weighs {
                    let weights = waiting.batch.columns().get(known.shape.width() + 1).cloned();
                    let ones = || Arc::new(Int8Array::from(vec![1; batch.num_rows()]));
                    columns.push(weights.unwrap_or_else(|| ones()));
                }
                Ok(waiting.with(RecordBatch::try_new(self.schema.clone(), columns)?))
            };
            emitter.outbox = Outbox::of(known.outbox.each().map(moved).collect::<Result<_>>()?);
        }
        Ok(())
    }

    /// Of these queries, of which at least one has or had a policy.
    ///
    /// # Errors
    /// As [`Emission::among`].
    pub(super) fn of(entries: &[Entry], schema: &SchemaRef, weighed: bool) -> Result<Self> {
        let mut policies = entries.iter().filter_map(|entry| entry.plan.policy());
        let weighs = weighed || policies.any(|policy| policy.refinement() == Refinement::Retracting);
        let emitters = entries.iter().map(|entry| Emitter::new(entry, schema));
        Ok(Self {
            keys: Keyed::new(&entries[0].plan)?,
            emitters: emitters.collect::<Result<_>>()?,
            weighs,
            labels: Names::new(LABELS.into_iter()),
            schema: extended(schema, weighs)?,
            clock: (None, None),
        })
    }

    /// Takes over what another one knows of the same queries.
    pub(super) fn take_over(&mut self, old: Self) {
        (self.keys, self.clock) = (old.keys, old.clock);
        for known in old.emitters {
            if let Some(own) = self.emitters.iter_mut().find(|own| own.name == known.name) {
                (own.triggers, own.ledger) = (known.triggers, known.ledger);
            }
        }
    }

    /// The schema of results.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether the clock matters.
    pub(super) fn has_clock(&self) -> bool {
        self.policies().any(|triggers| triggers.policy.has_clock())
    }

    /// Whether a query has a policy.
    pub(super) fn has_policies(&self) -> bool {
        self.policies().next().is_some()
    }

    fn policies(&self) -> impl Iterator<Item = &Triggers> {
        self.emitters.iter().filter_map(|emitter| emitter.triggers.as_ref())
    }

    /// Takes note of rows; `late` has, for each query, the rows that are late for it, if any are.
    pub(super) fn note(
        &mut self,
        rows: &Accepted,
        by: &[usize],
        late: &[Option<BooleanBuffer>],
    ) -> Result<()> {
        let keys: Vec<ArrayRef> = by.iter().map(|&column| rows.rows.column(column).clone()).collect();
        let mut ids = Vec::new();
        self.keys.assign(&keys, rows.times.len(), &mut ids)?;
        let known = self.keys.len();
        for (at, emitter) in self.emitters.iter_mut().enumerate() {
            if let Some(triggers) = &mut emitter.triggers {
                triggers.make_room(known);
                triggers.note(rows, &ids, late.get(at).and_then(Option::as_ref));
            }
        }
        Ok(())
    }

    /// What must be emitted early at the end of a call that emits these final windows.
    pub(super) fn ask(
        &mut self,
        moved: Moved,
        finals: &[(usize, RecordBatch)],
        reached: &mut Reached<'_>,
    ) -> Result<Vec<Asked>> {
        // A call that does not look leaves the clock as it was.
        self.clock.1 = moved.clock.1.max(self.clock.0);
        let moved = Moved { clock: (self.clock.0, self.clock.1), ..moved };
        for (entry, batch) in finals {
            let Emitter { shape, triggers: Some(triggers), .. } = &mut self.emitters[*entry] else {
                continue;
            };
            if triggers.policy.has_stages() {
                let facts = shape.facts(batch)?;
                let mut ids = Vec::new();
                self.keys.assign(shape.keys(batch), batch.num_rows(), &mut ids)?;
                triggers.make_room(self.keys.len());
                let is_new = |row: usize| !facts.updates.value(row);
                ids.iter().enumerate().filter(|&(row, _)| is_new(row)).for_each(|(_, &key)| {
                    triggers.begin_again(key);
                });
            }
        }
        let corrected = self.corrected(finals)?;
        let columns = self.keys.columns()?;
        // Nothing else depends on how far each key is complete.
        let of_keys = match self.policies().any(|triggers| triggers.policy.has_boundaries()) {
            true => reached.by_each(&columns, self.keys.len())?,
            false => None,
        };
        let mut asked = Vec::new();
        for (entry, emitter) in self.emitters.iter_mut().enumerate() {
            let Some(triggers) = &mut emitter.triggers else { continue };
            let (mut fired, shares) =
                (triggers.look(moved, of_keys.as_deref()), triggers.policy.shares().to_vec());
            fired.extend(corrected.iter().filter(|(of, _)| *of == entry).map(|(_, key)| key));
            fired.sort_unstable();
            fired.dedup();
            if !fired.is_empty() || !shares.is_empty() {
                let keys = these(&columns, fired)?;
                asked.push(Asked { entry, keys, shares, before: moved.watermark.0 });
            }
        }
        Ok(asked)
    }

    /// Queries and keys whose early results final windows may have overtaken: of later numbers than theirs.
    fn corrected(&mut self, finals: &[(usize, RecordBatch)]) -> Result<Vec<(usize, u32)>> {
        let mut corrected = Vec::new();
        for (entry, batch) in finals {
            let Emitter { shape, ledger: Some(ledger), .. } = &self.emitters[*entry] else { continue };
            if shape.may_vanish().next().is_some() {
                let mut ids = Vec::new();
                self.keys.assign(shape.keys(batch), batch.num_rows(), &mut ids)?;
                let last = shape.facts(batch)?.last_numbers(shape.windows(), &ids);
                let overtaken =
                    last.iter().filter(|&(&place, &last)| ledger.beyond(place, last).next().is_some());
                corrected.extend(overtaken.map(|(place, _)| (*entry, place.0)));
            }
        }
        Ok(corrected)
    }

    /// Retracts early results of windows that were there when a key fired before, and are not now that it fires again.
    fn retract_vanished(
        &mut self,
        asked: &[Asked],
        early: &[(usize, RecordBatch)],
    ) -> Result<Vec<(usize, RecordBatch)>> {
        let mut retractions = Vec::new();
        for Asked { entry, keys, .. } in asked {
            let Emitter { shape, ledger: Some(ledger), .. } = &mut self.emitters[*entry] else { continue };
            let (Some((columns, rows)), true) = (keys, shape.may_vanish().next().is_some()) else { continue };
            let mut last = HashMap::new();
            for (_, batch) in early.iter().filter(|(of, _)| of == entry) {
                let mut ids = Vec::new();
                self.keys.assign(shape.keys(batch), batch.num_rows(), &mut ids)?;
                last.extend(shape.facts(batch)?.last_numbers(shape.windows(), &ids));
            }
            let mut fired = Vec::new();
            self.keys.assign(columns, *rows, &mut fired)?;
            let places = fired.iter().flat_map(|&key| shape.may_vanish().map(move |window| (key, window)));
            let last = places.map(|place| (place, last.get(&place).copied().unwrap_or(i64::MIN)));
            retractions.extend(ledger.retract_beyond(shape, last)?.map(|batch| (*entry, batch)));
        }
        Ok(retractions)
    }

    /// The same for a key that is fired by hand, or for all keys.
    pub(super) fn ask_by_hand(&mut self, key: Option<&[ArrayRef]>) -> Result<Vec<Asked>> {
        self.clock.1 = self.clock.0;
        let mut ids = Vec::new();
        key.map_or(Ok(()), |key| self.keys.assign(key, 1, &mut ids))?;
        let columns = self.keys.columns()?;
        let mut asked = Vec::new();
        for (entry, emitter) in self.emitters.iter_mut().enumerate() {
            let Some(triggers) = &mut emitter.triggers else { continue };
            triggers.make_room(self.keys.len());
            let fired = triggers.fire_by_hand(ids.first().copied());
            let keys = these(&columns, fired)?;
            asked.push(Asked { entry, keys, shares: Vec::new(), before: None });
        }
        Ok(asked)
    }

    /// The results of a call that moves the watermark so: final windows, then early results, which were `asked` for, as far
    /// as they do not wait. `horizon` is the time up to which a query's windows no longer change.
    pub(super) fn emit(
        &mut self,
        (finals, early, vanished): Emitted,
        asked: &[Asked],
        horizon: impl Fn(usize) -> Option<i64>,
        (moved, is_closing): ((Option<i64>, Option<i64>), bool),
        reached: &mut Reached<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let mut results = Vec::new();
        for (entry, batch) in self.retract_vanished(asked, &early)? {
            results.push((entry, self.labelled(&batch, &vec![RETRACTION; batch.num_rows()])?));
        }
        let vanished = vanished.into_iter().map(|(entry, batch, is_final)| (entry, batch, (is_final, true)));
        let finals = finals.into_iter().map(|(entry, batch)| (entry, batch, (true, false)));
        let early = early.into_iter().map(|(entry, batch)| (entry, batch, (false, false)));
        for (entry, batch, (is_final, is_gone)) in finals.chain(vanished).chain(early) {
            let Emitter { shape, ledger, .. } = &mut self.emitters[entry];
            let mut emitted = batch;
            if let Some(ledger) = ledger {
                let mut ids = Vec::new();
                self.keys.assign(shape.keys(&emitted), emitted.num_rows(), &mut ids)?;
                let own = reached.by_each(shape.keys(&emitted), emitted.num_rows())?;
                let complete = |row: usize| own.as_ref().map_or(moved.1, |own| own[row].1);
                let is = (is_final, is_gone);
                let recorded = ledger.record(shape, emitted, &ids, is, (&complete, horizon(entry)))?;
                if let Some(batch) = recorded.retractions {
                    let labels = vec![RETRACTION; batch.num_rows()];
                    results.push((entry, self.labelled(&batch, &labels)?));
                }
                emitted = recorded.results;
            }
            if emitted.num_rows() > 0 {
                let updates = self.emitters[entry].shape.facts(&emitted)?.updates;
                let label = |late: bool| if late { LATE } else { FINAL };
                let labels: Vec<u32> = match is_final {
                    true => updates.values().iter().map(label).collect(),
                    false => vec![EARLY; emitted.num_rows()],
                };
                results.push((entry, self.labelled(&emitted, &labels)?));
            }
        }
        if is_closing {
            let mut rest = Vec::new();
            for (entry, Emitter { shape, ledger, .. }) in self.emitters.iter_mut().enumerate() {
                if let Some(ledger) = ledger {
                    rest.extend(ledger.retract_open(shape)?.map(|batch| (entry, batch)));
                }
            }
            for (entry, batch) in rest {
                results.push((entry, self.labelled(&batch, &vec![RETRACTION; batch.num_rows()])?));
            }
        }
        Ok(self.passed(results, moved, is_closing))
    }

    /// Those results that leave with a call, and those that have waited for it.
    fn passed(
        &mut self,
        results: Vec<(usize, RecordBatch)>,
        moved: (Option<i64>, Option<i64>),
        is_closing: bool,
    ) -> Vec<RecordBatch> {
        let (mut leaving, mut held) = (Vec::new(), vec![Vec::new(); self.emitters.len()]);
        for (entry, batch) in results {
            let policy = self.emitters[entry].triggers.as_ref().map(|triggers| &triggers.policy);
            match policy.is_some_and(|policy| policy.flush().holds()) {
                true => held[entry].push(batch),
                false => leaving.push(batch),
            }
        }
        for (Emitter { triggers, outbox, .. }, held) in self.emitters.iter_mut().zip(held) {
            let flush = triggers.as_ref().map(|triggers| triggers.policy.flush()).unwrap_or_default();
            if flush.holds() {
                leaving.extend(outbox.pass(flush, held, moved, is_closing));
            }
        }
        leaving
    }

    /// The watermark that holds of the results handed out, where that of the stream is this.
    pub(super) fn watermark_out(&self, watermark: Option<i64>) -> Option<i64> {
        let held = self.emitters.iter().filter_map(|emitter| emitter.outbox.since());
        // None is the least.
        held.fold(watermark, Option::min)
    }

    /// How many rows of a query wait.
    pub(super) fn waiting(&self, name: &str) -> usize {
        let own = self.emitters.iter().filter(|emitter| emitter.name == name);
        own.map(|emitter| emitter.outbox.rows()).sum()
    }

    /// A batch with the columns `emission` and, if there are weights, `weight`.
    fn labelled(&self, batch: &RecordBatch, labels: &[u32]) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        columns.push(self.labels.column(labels)?);
        if self.weighs {
            let weight = |&label: &u32| if label == RETRACTION { -1 } else { 1 };
            columns.push(Arc::new(Int8Array::from_iter_values(labels.iter().map(weight))));
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// The same for results that are only looked at.
    pub(super) fn plainly(&self, results: Vec<(usize, RecordBatch)>) -> Result<Vec<RecordBatch>> {
        results.iter().map(|(_, batch)| self.labelled(batch, &vec![EARLY; batch.num_rows()])).collect()
    }

    /// Commits the current call; `horizon` is as for [`Emission::emit`].
    pub(super) fn keep(&mut self, horizon: impl Fn(usize) -> Option<i64>) {
        if let (_, Some(now)) = self.clock {
            self.clock = (Some(now), None);
        }
        for (entry, Emitter { shape, triggers, ledger, outbox, .. }) in self.emitters.iter_mut().enumerate() {
            outbox.keep();
            triggers.iter_mut().for_each(Triggers::keep);
            ledger.iter_mut().for_each(|ledger| ledger.keep(shape, horizon(entry)));
        }
        if self.keys.len() > IDLE_KEYS {
            self.drop_keys();
        }
    }

    /// Which of its keys are in a sample.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(super) fn sampled(&self, sample: Sample) -> Result<BooleanBuffer> {
        sample.of_keys(&self.keys.plain_columns()?, self.keys.len())
    }

    /// Drops all keys but these, and what is known of them.
    pub(super) fn keep_only(&mut self, kept: &BooleanBuffer) {
        self.renumber_keys(&kept.set_indices_u32().collect::<Vec<u32>>());
    }

    /// Drops the keys of which nothing is known, if they are many.
    fn drop_keys(&mut self) {
        let mut live = vec![false; self.keys.len()];
        for Emitter { triggers, ledger, .. } in &self.emitters {
            for triggers in triggers.iter() {
                (0..).zip(&mut live).for_each(|(key, live)| *live |= triggers.knows(key));
            }
            ledger.iter().flat_map(Ledger::keys).for_each(|key| live[key as usize] = true);
        }
        let kept: Vec<u32> = (0..).zip(live).filter(|(_, live)| *live).map(|(key, _)| key).collect();
        if kept.len() <= self.keys.len() / 2 {
            self.renumber_keys(&kept);
        }
    }

    /// Keeps these keys, which ascend. If that fails, the others stay.
    fn renumber_keys(&mut self, kept: &[u32]) {
        if !self.keys.keep(kept) {
            return;
        }
        for Emitter { triggers, ledger, .. } in &mut self.emitters {
            triggers.iter_mut().for_each(|triggers| triggers.keep_keys(kept));
            ledger.iter_mut().for_each(|ledger| ledger.keep_keys(kept));
        }
    }

    /// Rolls the current call back.
    pub(super) fn take_back(&mut self) {
        self.clock.1 = None;
        for Emitter { triggers, ledger, outbox, .. } in &mut self.emitters {
            outbox.take_back();
            triggers.iter_mut().for_each(Triggers::take_back);
            ledger.iter_mut().for_each(Ledger::take_back);
        }
    }

    /// Forgets everything, as the stream has ended.
    pub(super) fn end(&mut self) {
        for emitter in &mut self.emitters {
            emitter.triggers = emitter.triggers.take().map(|triggers| Triggers::new(triggers.policy));
            emitter.ledger = emitter.ledger.is_some().then(Ledger::default);
        }
        self.keys.keep(&[]);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let each = self.emitters.iter().map(|Emitter { triggers, ledger, outbox, .. }| {
            let of_ledger = ledger.as_ref().map_or(0, Ledger::bytes);
            triggers.as_ref().map_or(0, Triggers::bytes) + of_ledger + outbox.bytes()
        });
        each.sum()
    }

    /// Writes what triggers and ledgers know.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        to.value(&(self.weighs, self.clock.0));
        self.keys.save(to)?;
        for Emitter { triggers, ledger, outbox, .. } in &self.emitters {
            triggers.as_ref().map_or(Ok(()), |triggers| triggers.save(to))?;
            ledger.as_ref().map_or(Ok(()), |ledger| ledger.save(to))?;
            outbox.save(to, &self.schema)?;
        }
        Ok(())
    }

    /// Reads what [`Emission::save`] wrote; `schema` is that of results without `emission` and `weight`.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, schema: &SchemaRef) -> Result<()> {
        let (weighs, clock): (bool, _) = from.value()?;
        self.weighs |= weighs;
        self.schema = extended(schema, self.weighs)?;
        let keys = self.keys.load(from)?;
        self.clock.0 = clock;
        for Emitter { shape, triggers, ledger, outbox, .. } in &mut self.emitters {
            triggers.as_mut().map_or(Ok(()), |triggers| triggers.load(from, keys))?;
            ledger.as_mut().map_or(Ok(()), |ledger| ledger.load(from, shape, keys))?;
            outbox.load(from, &self.schema)?;
        }
        Ok(())
    }
}

impl Emitter {
    fn new(entry: &Entry, schema: &SchemaRef) -> Result<Self> {
        let policy = entry.plan.policy();
        let retracts = policy.is_some_and(|policy| policy.refinement() == Refinement::Retracting);
        Ok(Self {
            name: entry.name.clone(),
            shape: Shape::new(entry, schema)?,
            triggers: policy.map(|policy| Triggers::new(policy.clone())),
            ledger: retracts.then(Ledger::default),
            outbox: Outbox::default(),
        })
    }
}

/// Keys that fire, by their numbers.
fn these(columns: &[ArrayRef], fired: Vec<u32>) -> Result<Option<(Vec<ArrayRef>, usize)>> {
    if fired.is_empty() {
        return Ok(None);
    }
    let (rows, ids) = (fired.len(), UInt32Array::from(fired));
    let keys = columns.iter().map(|values| Ok(take(values, &ids, None)?));
    Ok(Some((keys.collect::<Result<_>>()?, rows)))
}

/// The schema of results with `emission` and `weight`.
fn extended(schema: &SchemaRef, weighs: bool) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    let own = [("emission", DataType::Utf8, true), ("weight", DataType::Int8, weighs)];
    for (name, kind, _) in own.into_iter().filter(|(_, _, is_there)| *is_there) {
        if fields.iter().any(|field| field.name() == name) {
            return Err(Error::InvalidValue(format!(
                "emit: results would have two columns '{name}'; an emission policy adds it, so give the other one \
                 another name"
            )));
        }
        fields.push(Field::new(name, kind, false));
    }
    Ok(Arc::new(Schema::new(fields)))
}
