//! Results of windows that are not final, and the columns that mark results as early, final, late, or retractions (Onyx:
//! triggers and refinement modes).
//!
//! Of all this, engines know only which rows no result of a query contains yet. Triggers are evaluated once per call, when
//! its rows and its watermark have taken effect. Early results join the other results of the call, and all results of
//! retracting queries go through their ledgers.

mod firing;
mod ledger;
mod panes;
mod shape;
mod triggers;

use std::sync::Arc;

use arrow_array::{Int8Array, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::ahead::{Ends, Reach};
use super::engine::EarlyRequest;
use super::entry::Entry;
use super::names::Names;
use super::outgoing::Answer;
use crate::operator::outbox::{Labelled, Outbox};
use crate::operator::policy::{Flush, Refinement};
use crate::state::{Reader, Writer};
use crate::window::Window;
use crate::{Error, Result};
use ledger::Ledger;
use panes::Panes;
use shape::Shape;
use triggers::Triggers;

/// What results are, by number.
const LABELS: [&str; 4] = ["early", "final", "late", "retraction"];
const EARLY: u32 = 0;
const FINAL: u32 = 1;
const LATE: u32 = 2;
const RETRACTION: u32 = 3;

/// What a call emits.
pub(super) struct Emitted {
    /// Windows that are final.
    pub(super) finals: Vec<Answer>,
    /// Windows that are not.
    pub(super) early: Vec<Answer>,
    /// Windows without a row left, with whether they are final.
    pub(super) vanished: Vec<(Answer, bool)>,
}

/// The emission policies of an operator's queries.
pub(super) struct Emission {
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
    /// Which keys fire, if the query has a policy.
    triggers: Option<Triggers>,
    /// What may be retracted, if the query retracts.
    ledger: Option<Ledger>,
    /// Which windows are open of which panes have come out, if the query discards and its triggers have stages.
    panes: Option<Panes>,
    outbox: Outbox,
}

impl Emission {
    /// The emission of these queries, whose results have this schema; `old` is that of the queries before. `None` if no
    /// query has or had a policy.
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
        for Emitter { name, shape, outbox, .. } in &mut self.emitters {
            let Some(known) = old.emitters.iter().find(|known| known.name == *name) else { continue };
            *outbox = known.outbox.with(|batch| shape.moved(&known.shape, batch))?;
        }
        Ok(())
    }

    /// The emission of these queries, at least one of which has or had a policy.
    ///
    /// # Errors
    /// As [`Emission::among`].
    pub(super) fn of(entries: &[Entry], schema: &SchemaRef, weighed: bool) -> Result<Self> {
        let mut policies = entries.iter().filter_map(|entry| entry.plan.policy());
        let weighs = weighed || policies.any(|policy| policy.refinement() == Refinement::Retracting);
        let emitters = entries.iter().map(|entry| Emitter::new(entry, schema));
        Ok(Self {
            emitters: emitters.collect::<Result<_>>()?,
            weighs,
            labels: Names::new(LABELS.into_iter()),
            schema: extended(schema, weighs)?,
            clock: (None, None),
        })
    }

    /// Takes over what another one knows of the same queries.
    pub(super) fn take_over(&mut self, old: Self) {
        self.clock = old.clock;
        for known in old.emitters {
            if let Some(own) = self.emitters.iter_mut().find(|own| own.name == known.name) {
                (own.triggers, own.ledger, own.panes) = (known.triggers, known.ledger, known.panes);
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

    /// The results of a call: final windows, then early results, which were `asked` for, as far as they do not wait.
    /// `horizon` is the time up to which a query's windows no longer change.
    pub(super) fn emit(
        &mut self,
        Emitted { finals, early, vanished }: Emitted,
        requests: &[EarlyRequest],
        horizon: impl Fn(usize) -> Option<i64>,
        reach: &Reach<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let mut results = self.retract_vanished(requests, &early)?;
        let vanished = vanished.into_iter().map(|(answer, is_final)| (answer, (is_final, true)));
        let finals = finals.into_iter().map(|answer| (answer, (true, false)));
        let early = early.into_iter().map(|answer| (answer, (false, false)));
        for (mut answer, (is_final, is_gone)) in finals.chain(vanished).chain(early) {
            let entry = answer.entry;
            if let Emitter { shape, ledger: Some(ledger), .. } = &mut self.emitters[entry] {
                let recorded = ledger.record(shape, answer, (is_final, is_gone), (reach, horizon(entry)))?;
                results.extend(recorded.retractions.map(|batch| (entry, retraction(batch))));
                answer = recorded.results;
            }
            if let (Emitter { shape, panes: Some(panes), .. }, false) = (&mut self.emitters[entry], is_final)
            {
                // The extent of all rows is that of those so far.
                let ends = |window: u32| !matches!(shape.windows()[window as usize].1, Window::Global(_));
                let ending = answer.windows.iter().filter(|answered| ends(answered.window));
                let of_each = ending.filter_map(|answered| Some((answered.extent?.1, answered.key)));
                of_each.for_each(|(end, key)| panes.add(end, key));
            }
            if answer.batch.num_rows() > 0 {
                let label = |late: bool| if late { LATE } else { FINAL };
                let labels = match is_final {
                    true => answer.updates.iter().map(label).collect(),
                    false => vec![EARLY; answer.batch.num_rows()],
                };
                results.push((entry, Labelled { batch: answer.batch, labels }));
            }
        }
        for (entry, Emitter { shape, ledger, .. }) in self.emitters.iter_mut().enumerate() {
            let of_key = match reach.ends {
                Ends::Nothing => continue,
                Ends::Key(key) => Some(key),
                Ends::Stream => None,
            };
            if let Some(ledger) = ledger {
                results.extend(ledger.retract_open(shape, of_key)?.map(|batch| (entry, retraction(batch))));
            }
        }
        self.passed(results, (reach.before, reach.after), reach.ends == Ends::Stream)
    }

    /// The results that leave with a call, and those that have waited for it.
    fn passed(
        &mut self,
        results: Vec<(usize, Labelled)>,
        moved: (Option<i64>, Option<i64>),
        is_closing: bool,
    ) -> Result<Vec<RecordBatch>> {
        let flush = |emitter: &Emitter| emitter.triggers.as_ref().map(|triggers| triggers.policy.flush());
        let (mut leaving, mut held) = (Vec::new(), vec![Vec::new(); self.emitters.len()]);
        for (entry, results) in results {
            match flush(&self.emitters[entry]).is_some_and(Flush::holds) {
                true => held[entry].push(results),
                false => leaving.push(results),
            }
        }
        for (emitter, held) in self.emitters.iter_mut().zip(held) {
            if let Some(flush) = flush(emitter).filter(|flush| flush.holds()) {
                leaving.extend(emitter.outbox.pass(flush, held, moved, is_closing));
            }
        }
        leaving.iter().map(|results| self.written(results)).collect()
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

    /// Results with the columns `emission` and, if there are weights, `weight`.
    fn written(&self, Labelled { batch, labels }: &Labelled) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        columns.push(self.labels.column(labels)?);
        if self.weighs {
            let weight = |&label: &u32| if label == RETRACTION { -1 } else { 1 };
            columns.push(Arc::new(Int8Array::from_iter_values(labels.iter().map(weight))));
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Results that are only looked at.
    pub(super) fn labelled_early(&self, results: Vec<Answer>) -> Result<Vec<RecordBatch>> {
        let written = |answer: Answer| self.written(&Labelled::all(answer.batch, EARLY));
        results.into_iter().map(written).collect()
    }

    /// Commits the current call; `horizon` is as for [`Emission::emit`].
    pub(super) fn keep(&mut self, horizon: impl Fn(usize) -> Option<i64>) {
        if let (_, Some(now)) = self.clock {
            self.clock = (Some(now), None);
        }
        for (entry, Emitter { shape, triggers, ledger, panes, outbox, .. }) in
            self.emitters.iter_mut().enumerate()
        {
            outbox.keep();
            panes.iter_mut().for_each(Panes::keep);
            triggers.iter_mut().for_each(Triggers::keep);
            ledger.iter_mut().for_each(|ledger| ledger.keep(shape, horizon(entry)));
        }
    }

    /// Sets the marks of the keys of which something is known.
    pub(super) fn mark_live(&self, is_live: &mut [bool]) {
        for Emitter { triggers, ledger, panes, .. } in &self.emitters {
            triggers.iter().for_each(|triggers| triggers.mark_live(is_live));
            let keys = ledger.iter().flat_map(Ledger::keys).chain(panes.iter().flat_map(Panes::keys));
            keys.for_each(|key| is_live[key as usize] = true);
        }
    }

    /// Keeps what is known of these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        for Emitter { triggers, ledger, panes, .. } in &mut self.emitters {
            triggers.iter_mut().for_each(|triggers| triggers.keep_keys(kept));
            panes.iter_mut().for_each(|panes| panes.keep_keys(kept));
            ledger.iter_mut().for_each(|ledger| ledger.keep_keys(kept));
        }
    }

    /// Rolls the current call back.
    pub(super) fn take_back(&mut self) {
        self.clock.1 = None;
        for Emitter { triggers, ledger, panes, outbox, .. } in &mut self.emitters {
            outbox.take_back();
            panes.iter_mut().for_each(Panes::take_back);
            triggers.iter_mut().for_each(Triggers::take_back);
            ledger.iter_mut().for_each(Ledger::take_back);
        }
    }

    /// Forgets what is known of a key, which has ended.
    pub(super) fn end_key(&mut self, key: u32) {
        for Emitter { triggers, ledger, panes, .. } in &mut self.emitters {
            triggers.iter_mut().for_each(|triggers| triggers.end_key(key));
            ledger.iter_mut().for_each(|ledger| ledger.end_key(key));
            panes.iter_mut().for_each(|panes| panes.end_key(key));
        }
    }

    /// Forgets everything, as the stream has ended.
    pub(super) fn end(&mut self) {
        for emitter in &mut self.emitters {
            emitter.triggers = emitter.triggers.take().map(|triggers| Triggers::new(triggers.policy));
            emitter.ledger = emitter.ledger.is_some().then(Ledger::default);
            emitter.panes = emitter.panes.is_some().then(Panes::default);
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let each = self.emitters.iter().map(|Emitter { triggers, ledger, panes, outbox, .. }| {
            let of_ledger = ledger.as_ref().map_or(0, Ledger::bytes);
            let of_panes = panes.as_ref().map_or(0, Panes::bytes);
            triggers.as_ref().map_or(0, Triggers::bytes) + of_ledger + of_panes + outbox.bytes()
        });
        each.sum()
    }

    /// Writes what triggers and ledgers know.
    pub(super) fn save(&self, to: &mut Writer) -> Result<()> {
        to.value(&(self.weighs, self.clock.0));
        for Emitter { triggers, ledger, panes, outbox, .. } in &self.emitters {
            triggers.as_ref().map_or(Ok(()), |triggers| triggers.save(to))?;
            ledger.as_ref().map_or(Ok(()), |ledger| ledger.save(to))?;
            panes.as_ref().map_or(Ok(()), |panes| panes.save(to))?;
            outbox.save(to, &self.schema, |results| self.written(results))?;
        }
        Ok(())
    }

    /// Reads what [`Emission::save`] wrote, where there are so many keys; `schema` is that of results without `emission` and
    /// `weight`.
    pub(super) fn load(&mut self, from: &mut Reader<'_>, schema: &SchemaRef, keys: usize) -> Result<()> {
        let (weighs, clock): (bool, _) = from.value()?;
        self.weighs |= weighs;
        self.schema = extended(schema, self.weighs)?;
        self.clock.0 = clock;
        for Emitter { shape, triggers, ledger, panes, outbox, .. } in &mut self.emitters {
            triggers.as_mut().map_or(Ok(()), |triggers| triggers.load(from, keys))?;
            ledger.as_mut().map_or(Ok(()), |ledger| ledger.load(from, shape, keys))?;
            panes.as_mut().map_or(Ok(()), |panes| panes.load(from, keys))?;
            outbox.load(from, &self.schema, |batch| read(shape, batch))?;
        }
        Ok(())
    }
}

impl Emitter {
    fn new(entry: &Entry, schema: &SchemaRef) -> Result<Self> {
        let policy = entry.plan.policy();
        let refines = |how| policy.is_some_and(|policy| policy.refinement() == how);
        let has_panes = refines(Refinement::Discarding) && policy.is_some_and(|policy| policy.has_stages());
        Ok(Self {
            name: entry.name.clone(),
            shape: Shape::new(entry, schema)?,
            triggers: policy.map(|policy| Triggers::new(policy.clone())),
            ledger: refines(Refinement::Retracting).then(Ledger::default),
            panes: has_panes.then(Panes::default),
            outbox: Outbox::default(),
        })
    }
}

/// Results of a query of which [`Emission::written`] made this batch.
fn read(shape: &Shape, batch: &RecordBatch) -> Option<Labelled> {
    let label = |text: Option<&str>| LABELS.iter().position(|label| Some(*label) == text);
    let labels = batch.column(shape.width()).as_string_opt::<i32>()?.iter();
    let labels = labels.map(|text| label(text).map(|at| at as u32)).collect::<Option<_>>()?;
    Some(Labelled { batch: shape.plain(batch).ok()?, labels })
}

/// Results that take earlier ones back.
fn retraction(batch: RecordBatch) -> Labelled {
    Labelled::all(batch, RETRACTION)
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
