//! Snapshots of the stream operator: queries' fingerprints, options, watermarks and late rows, and then its engines.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use xxhash_rust::xxh3::xxh3_64;

use super::emission::Emission;
use super::engine::{Engine, Marks};
use super::late::Late;
use super::options::{Options, Stats, StoreKind};
use super::queries::{Entry, classes};
use super::sharing::{Class, Shared};
use super::shedding::Shedding;
use super::{By, Delay, Operator};
use crate::dictionary::plain;
use crate::interrupt::within;
use crate::operator::plan::Plan;
use crate::slice::strategy::Order;
use crate::state::{Reader, Writer, broken};
use crate::{Error, Result};

/// The first version in which late rows have a limit.
const LIMITED: u16 = 4;

/// The first version in which windows share slices only if they accept the same rows, and late rows name their query.
const APART: u16 = 5;

/// Flags of an operator: there ever was more than one query; keys are ahead of the stream; state may be dropped.
const SEVERAL: u64 = 1;
const HAS_AHEAD: u64 = 2;
const SHEDS: u64 = 4;

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

/// A query of a snapshot.
struct Known {
    name: String,
    fingerprint: u64,
    /// Its windows begin after this.
    since: Option<i64>,
    lateness: i64,
    /// Whether it shares an engine with others whatever their windows are.
    is_shared: bool,
}

impl Operator {
    /// The whole state of the operator, as bytes for [`Operator::restore`]. O(slices + rows kept).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        write_head(&mut to, self.input(), self.options, &self.entries)?;
        let ahead = self.engines().next().map_or(Ok(None), Engine::marks)?;
        let sheds = if self.shedding.is_some() { SHEDS } else { 0 };
        to.number(u64::from(self.several) | if ahead.is_some() { HAS_AHEAD } else { 0 } | sheds);
        to.number(u64::from(self.closed));
        self.shedding.iter().for_each(|shedding| shedding.save(&mut to));
        let shared: Vec<&Shared> = self.engines.iter().map(|(shared, _)| shared).collect();
        let places = Shared::places(classes(&self.entries), &shared);
        to.number(places.len() as u64);
        places.iter().for_each(|&place| to.number(place as u64));
        to.option(self.watermark);
        to.option(self.latest);
        self.progress.as_ref().map_or(Ok(()), |progress| progress.save(&mut to))?;
        to.number(self.late.count());
        to.number(self.late.dropped());
        to.batches(self.late.schema(), self.late.batches())?;
        to.number(self.past.rows);
        self.past.save(&mut to);
        if let Some(Marks { keys, times }) = ahead {
            let count = times.len();
            to.columns(keys.into_iter().chain([Arc::new(times) as ArrayRef]).collect(), count)?;
        }
        within(|| {
            self.engines().try_for_each(|engine| engine.save(&mut to))?;
            to.number(u64::from(self.emission.is_some()));
            self.emission.as_ref().map_or(Ok(()), |emission| emission.save(&mut to))?;
            Ok(to.finish())
        })
    }

    /// Describes the contents of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, or is damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        let (schema, options, known) = head(&mut Reader::new(snapshot)?)?;
        Ok(Contents { schema, options, names: known.into_iter().map(|known| known.name).collect() })
    }

    /// Restores the operator of a snapshot; `queries` are its queries, bound to the schema of [`Operator::contents`].
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, is damaged, or has other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        within(|| Self::read(snapshot, queries))
    }

    fn read(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (schema, mut options, known) = head(&mut from)?;
        let mut entries = bound(queries, known, options.order)?;
        let flags = from.number()?;
        let several = flags & SEVERAL != 0;
        let closed = from.number()? != 0;
        let shedding = match flags & SHEDS {
            0 => None,
            _ => Some(Shedding::load(&mut from)?),
        };
        options.shed = shedding.as_ref().map(|shedding| shedding.shed);
        // Only now is it known what the plans are that queries are bound by.
        for entry in &mut entries {
            entry.plan = options.bind(entry.plan.clone())?;
        }
        let shared = match from.version() < APART {
            true => Shared::of(classes(&entries), &[]).into_iter().map(|(_, shared)| shared).collect(),
            false => {
                let count = from.count()?;
                let places = (0..count).map(|_| from.place(count)).collect::<Result<Vec<usize>>>()?;
                let Some(shared) = Shared::at(classes(&entries), &places) else { return broken() };
                shared
            }
        };
        let mut this = Self::with(entries, shared, several, options)?;
        this.closed = closed;
        this.shedding = shedding.map(|known| known.with_schema_of(this.shedding));
        (this.watermark, this.latest) = (from.option()?, from.option()?);
        let latest = this.latest;
        match &mut this.progress {
            Some(progress) if from.version() < APART => progress.seen.saw_until(latest)?,
            Some(progress) => progress.load(&mut from)?,
            None => {}
        }
        let late = from.number()?;
        let dropped = if from.version() < LIMITED { 0 } else { from.number()? };
        let (late_schema, mut batches) = from.batches()?;
        let held =
            if from.version() < APART { Late::new(&schema, false) } else { Late::new(&schema, several) };
        if late_schema.fields() != held.schema().fields() {
            return broken();
        }
        if several && from.version() < APART {
            // A row was late if it was late for all queries.
            let named =
                |name| batches.iter().map(|batch| this.late.naming(batch, name)).collect::<Result<Vec<_>>>();
            batches = this.names().map(named).collect::<Result<Vec<_>>>()?.concat();
        }
        this.late.restore(batches, late, dropped);
        let rows = from.number()?;
        this.past = Stats { rows, ..Stats::load(&mut from)? };
        let watermark = this.watermark;
        let ahead = match flags & HAS_AHEAD {
            0 => None,
            _ => Some(read_marks(&mut from, this.leader(), watermark)?),
        };
        this.engines_mut().try_for_each(|engine| engine.load(&mut from, watermark, ahead.as_ref()))?;
        if from.version() >= APART && from.number()? != 0 {
            let schema = this.plain_schema().clone();
            let mut emission = Emission::of(&this.entries, &schema, false)?;
            emission.load(&mut from, &schema)?;
            this.emission = Some(emission);
        }
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }
}

/// Reads the keys that are ahead of the stream.
fn read_marks(from: &mut Reader<'_>, plan: &Plan, watermark: Option<i64>) -> Result<Marks> {
    let (mut keys, _) = from.columns()?;
    let Some(times) = keys.pop() else { return broken() };
    let Some(times) = times.as_primitive_opt::<Int64Type>().cloned() else { return broken() };
    let types = plan.by().iter().map(|&column| plain(plan.input().field(column).data_type()));
    let is_ahead = times.null_count() == 0 && times.values().iter().all(|&mark| Some(mark) > watermark);
    let is_open = !keys.is_empty() && keys.iter().map(|key| key.data_type()).eq(types);
    if is_ahead && is_open { Ok(Marks { keys, times }) } else { broken() }
}

/// Writes what is needed to bind queries again: the schema, the options of the stream, names and fingerprints.
fn write_head(to: &mut Writer, input: &Schema, options: Options, queries: &[Entry]) -> Result<()> {
    to.batches(input, &[])?;
    to.number(u64::from(options.order == Order::OutOfOrder));
    to.number(options.allowed_lateness as u64);
    Delay::save(options.progress.as_ref(), to);
    to.number(match options.store {
        StoreKind::Auto => 0,
        StoreKind::Lazy => 1,
        StoreKind::Eager => 2,
    });
    // The greatest number stands for no limit.
    to.number(options.late_limit.unwrap_or(u64::MAX));
    to.number(queries.len() as u64);
    for Entry { name, plan, since, lateness, classes } in queries {
        to.text(name);
        to.number(fingerprint(plan));
        to.option(*since);
        to.number(*lateness as u64);
        to.number(u64::from(classes.iter().any(Class::is_shared)));
    }
    Ok(())
}

/// The given queries, if they match those of a snapshot.
fn bound(queries: Vec<(String, Arc<Plan>)>, known: Vec<Known>, order: Order) -> Result<Vec<Entry>> {
    if known.len() != queries.len() {
        return Err(Error::InvalidValue(format!(
            "queries: {} given; the snapshot is of {}",
            queries.len(),
            known.len()
        )));
    }
    let bound = queries.into_iter().zip(known).map(|((name, plan), known)| {
        if name != known.name || fingerprint(&plan) != known.fingerprint {
            let other = if name == known.name { "the one".to_owned() } else { format!("'{}'", known.name) };
            return Err(Error::InvalidValue(format!(
                "queries: query '{name}' differs from {other} in the snapshot; keys, time, windows and aggregates must be \
                 the same"
            )));
        }
        let mut entry = Entry::new(name, (plan, known.lateness), known.since, order)?;
        if known.is_shared {
            entry.classes = Class::shared(&entry.plan, order, entry.lateness)?;
        }
        Ok(entry)
    });
    bound.collect()
}

/// Reads what [`write_head`] wrote.
fn head(from: &mut Reader<'_>) -> Result<(SchemaRef, Options, Vec<Known>)> {
    let (schema, _) = from.batches()?;
    if !has_texts(&schema) {
        return broken();
    }
    let order = if from.number()? == 0 { Order::InOrder } else { Order::OutOfOrder };
    let allowed_lateness = from.number()? as i64;
    let progress = match from.version() < APART {
        true => {
            from.option()?.map(|delay| Delay { by: By::Time(delay), source: None, idle: None, future: None })
        }
        false => Delay::load(from, schema.fields().len())?,
    };
    let is_negative = matches!(progress, Some(Delay { by: By::Time(delay), .. }) if delay < 0);
    if allowed_lateness < 0 || is_negative || order == Order::InOrder && progress.is_some() {
        return broken();
    }
    let store = match from.number()? {
        0 => StoreKind::Auto,
        1 => StoreKind::Lazy,
        2 => StoreKind::Eager,
        _ => return broken(),
    };
    let late_limit = if from.version() < LIMITED { u64::MAX } else { from.number()? };
    let late_limit = Some(late_limit).filter(|&limit| limit < u64::MAX);
    let options = Options { order, allowed_lateness, progress, store, late_limit, shed: None };
    let queries = (0..from.count()?).map(|_| {
        let (name, fingerprint, since) = (from.text()?, from.number()?, from.option()?);
        let (lateness, is_shared) = match from.version() < APART {
            true => (allowed_lateness, true),
            false => (from.number()? as i64, from.number()? != 0),
        };
        match lateness < 0 {
            false => Ok(Known { name, fingerprint, since, lateness, is_shared }),
            true => broken(),
        }
    });
    let queries = queries.collect::<Result<_>>()?;
    Ok((schema, options, queries))
}

/// Whether names and time zones in a schema contain no zero byte, which would end the text when Arrow exports it.
fn has_texts(schema: &Schema) -> bool {
    let zone = |field: &Field| match field.data_type() {
        DataType::Timestamp(_, zone) => zone.clone().unwrap_or_default(),
        _ => "".into(),
    };
    schema.flattened_fields().iter().all(|field| !field.name().contains('\0') && !zone(field).contains('\0'))
}

/// A fingerprint that distinguishes queries and schemas and stays the same across releases.
fn fingerprint(plan: &Plan) -> u64 {
    let schema: &Schema = plan.input();
    let fields = schema.fields().iter().map(|field| format!("{:?}: {}", field.name(), field.data_type()));
    let fields: Vec<String> = fields.collect();
    xxh3_64(format!("{}\n{}", fields.join("\n"), plan.signature()).as_bytes())
}
