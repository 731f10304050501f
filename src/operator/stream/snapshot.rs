//! Snapshots of the stream operator: what distinguishes its queries, options, watermarks and late rows, and then its engines.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::Operator;
use super::emission::Emission;
use super::entry::{Entry, classes};
use super::options::{Options, Stats};
use super::sharing::ClassGroup;
use crate::operator::plan::{Identity, Plan};
use crate::operator::shedding::Shedding;
use crate::operator::zone_rules::ZoneRules;
use crate::slice::strategy::Order;
use crate::state::{Reader, Writer, broken};
use crate::{Error, Result};

/// What must be known to bind a snapshot's queries again.
#[derive(Debug)]
pub struct Contents {
    /// The schema of the stream.
    pub schema: SchemaRef,
    /// The names of its queries, in the order they were added.
    pub names: Vec<String>,
    /// The options of the stream.
    pub options: Options,
}

/// What is stored first: what must be known to bind the queries again.
#[derive(Serialize, Deserialize)]
struct Head {
    options: Options,
    queries: Vec<StoredQuery>,
}

/// A query of a snapshot.
#[derive(Serialize, Deserialize)]
struct StoredQuery {
    name: String,
    identity: Identity,
    /// Its windows begin after this.
    since: Option<i64>,
    lateness: i64,
    /// The rules of time zones by which the rows that it may still need were cut into windows.
    zones: Vec<ZoneRules>,
}

/// What is stored of the stream as a whole, besides what are columns.
#[derive(Serialize, Deserialize)]
struct Common {
    /// Whether there ever was more than one query.
    several: bool,
    closed: bool,
    /// The engine of each class of windows.
    places: Vec<usize>,
    watermark: Option<i64>,
    latest: Option<i64>,
    shedding: Option<Shedding>,
    past: Stats,
    has_emission: bool,
}

impl Operator {
    /// The whole state of the operator, as bytes for [`Operator::restore`]. O(slices + rows kept).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        to.batches(self.input(), &[])?;
        to.value(&Head {
            options: self.options,
            queries: self.entries.iter().map(|entry| self.stored(entry)).collect(),
        });
        let groups: Vec<&ClassGroup> = self.engines.iter().map(|(group, _)| group).collect();
        to.value(&Common {
            several: self.several,
            closed: self.closed,
            places: ClassGroup::places(classes(&self.entries), &groups),
            watermark: self.watermark,
            latest: self.latest,
            shedding: self.shedding.clone(),
            past: self.past,
            has_emission: self.emission.is_some(),
        });
        self.progress.as_ref().map_or(Ok(()), |progress| progress.save(&mut to))?;
        self.late.save(&mut to)?;
        self.keys.save(&mut to)?;
        self.engines().try_for_each(|engine| engine.save(&mut to))?;
        self.emission.as_ref().map_or(Ok(()), |emission| emission.save(&mut to))?;
        self.sparse.as_ref().map_or(Ok(()), |sparse| sparse.save(&mut to))?;
        Ok(to.finish())
    }

    fn stored(&self, entry: &Entry) -> StoredQuery {
        let Entry { name, plan, since, lateness, .. } = entry;
        // Nothing is left of windows that expired, and nothing is there yet of times to come.
        let from = entry.horizon(self.watermark).unwrap_or(i64::MIN);
        let windows = plan.windows().iter().map(|(_, window)| window);
        let zones = self
            .latest
            .max(self.watermark)
            .into_iter()
            .flat_map(|to| windows.clone().filter_map(move |window| ZoneRules::of(window, (from, to))));
        let (name, identity, zones) = (name.clone(), plan.identity(), zones.collect());
        StoredQuery { name, identity, since: *since, lateness: *lateness, zones }
    }

    /// Describes the contents of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, or is damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        let (schema, Head { options, queries }) = head(&mut Reader::new(snapshot)?)?;
        Ok(Contents { schema, options, names: queries.into_iter().map(|query| query.name).collect() })
    }

    /// Restores the operator of a snapshot; `queries` are its queries, bound to the schema of [`Operator::contents`].
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, is damaged, or has other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (_, Head { options, queries: stored }) = head(&mut from)?;
        let entries = bound(queries, stored, options)?;
        let common: Common = from.value()?;
        let Some(groups) = ClassGroup::at(classes(&entries), &common.places) else { return broken() };
        let mut this = Self::with(entries, groups, common.several, options)?;
        if common.shedding.as_ref().map(|shedding| shedding.shed) != options.shed {
            return broken();
        }
        if let Some(shedding) = common.shedding {
            let Some(shedding) = shedding.with_schema_of(this.shedding) else { return broken() };
            this.shedding = Some(shedding);
        }
        (this.closed, this.past) = (common.closed, common.past);
        (this.watermark, this.latest) = (common.watermark, common.latest);
        this.progress.as_mut().map_or(Ok(()), |progress| progress.load(&mut from))?;
        this.late.load(&mut from)?;
        let watermark = this.watermark;
        this.keys.load(&mut from, watermark)?;
        let Self { engines, keys, .. } = &mut this;
        engines.iter_mut().try_for_each(|(_, engine)| engine.load(&mut from, watermark, keys))?;
        if common.has_emission {
            let schema = this.plain_schema().clone();
            let mut emission = Emission::of(&this.entries, &schema, false)?;
            emission.load(&mut from, &schema, this.keys.len())?;
            this.emission = Some(emission);
        }
        this.sparse = this.sparse_rows();
        let bounds = this.bounds();
        this.sparse.as_mut().map_or(Ok(()), |sparse| sparse.load(&mut from, bounds))?;
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }
}

/// The given queries, if they match those of a snapshot.
fn bound(
    queries: Vec<(String, Arc<Plan>)>,
    stored: Vec<StoredQuery>,
    options: Options,
) -> Result<Vec<Entry>> {
    if stored.len() != queries.len() {
        return Err(Error::InvalidValue(format!(
            "queries: {} given; the snapshot is of {}",
            queries.len(),
            stored.len()
        )));
    }
    let bound = queries.into_iter().zip(stored).map(|((name, plan), stored)| {
        let mut differences = plan.identity().differences(&stored.identity);
        let other = if name == stored.name { "the one".to_owned() } else { format!("'{}'", stored.name) };
        if name != stored.name {
            differences.insert(0, "name");
        }
        if !differences.is_empty() {
            let given = match differences.contains(&"emission policy") {
                true => ": one with a policy of its operator is dataclasses.replace(query, emit=...)",
                false => "",
            };
            return Err(Error::InvalidValue(format!(
                "queries: query '{name}' differs from {other} in the snapshot by its {}; an operator is restored with the \
                 queries that it was made of{given}",
                differences.join(", ")
            )));
        }
        stored.zones.iter().try_for_each(ZoneRules::check)?;
        Entry::new(name, (options.bind(plan)?, stored.lateness), stored.since, options.order)
    });
    bound.collect()
}

/// Reads the schema of the stream and what follows it.
fn head(from: &mut Reader<'_>) -> Result<(SchemaRef, Head)> {
    let (schema, _) = from.batches()?;
    if !has_texts(&schema) {
        return broken();
    }
    let head: Head = from.value()?;
    let Options { order, allowed_lateness, progress, .. } = head.options;
    let is_sound = allowed_lateness >= 0
        && head.queries.iter().all(|query| query.lateness >= 0)
        && progress.is_none_or(|delay| order == Order::OutOfOrder && delay.is_sound(schema.fields().len()));
    if is_sound { Ok((schema, head)) } else { broken() }
}

/// Whether names and time zones in a schema contain no zero byte, which would end the text when Arrow exports it.
fn has_texts(schema: &Schema) -> bool {
    let zone = |field: &Field| match field.data_type() {
        DataType::Timestamp(_, zone) => zone.clone().unwrap_or_default(),
        _ => "".into(),
    };
    schema.flattened_fields().iter().all(|field| !field.name().contains('\0') && !zone(field).contains('\0'))
}
