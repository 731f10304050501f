//! Snapshots of the stream operator: queries' fingerprint, watermarks, keys, slices and their partials.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, cast::AsArray, types::*};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use xxhash_rust::xxh3::xxh3_64;

use super::engine::Engine;
use super::late::Late;
use super::options::{Options, Stats, StoreKind};
use super::queries::{Entry, Queries};
use super::ready::Reopened;
use super::tuples::Tuples;
use super::{Operator, is_sliced};
use crate::aggregate::{Partial, Partials, Rows};
use crate::operator::plan::Plan;
use crate::slice::strategy::Order;
use crate::slice::{Cell, Store, Timelines};
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

/// A query of a snapshot: its name, its fingerprint, and the time after which its windows begin.
type Known = (String, u64, Option<i64>);

/// The counters of [`Stats`], in a snapshot's order.
const DONE: usize = 6;

fn done(stats: &Stats) -> [u64; DONE] {
    let Stats { windows, updates, splits, merges, shifts, recomputations, .. } = *stats;
    [windows, updates, splits, merges, shifts, recomputations]
}

fn read_done(from: &mut Reader<'_>) -> Result<Stats> {
    let mut numbers = [0; DONE];
    for number in &mut numbers {
        *number = from.number()?;
    }
    let [windows, updates, splits, merges, shifts, recomputations] = numbers;
    Ok(Stats { windows, updates, splits, merges, shifts, recomputations, ..Stats::default() })
}

impl Operator {
    /// The whole state of the operator, as bytes for [`Operator::restore`]. O(slices + rows kept).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        write_head(&mut to, self.input(), self.options, &self.entries)?;
        to.number(u64::from(self.several));
        to.number(u64::from(self.closed));
        to.option(self.watermark);
        to.option(self.latest);
        to.number(self.late.count());
        to.batches(self.late.schema(), self.late.batches())?;
        to.number(self.past.rows);
        done(&self.past).into_iter().for_each(|count| to.number(count));
        self.engines().try_for_each(|engine| engine.save(&mut to))?;
        Ok(to.finish())
    }

    /// Describes the contents of a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, or is damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        let (schema, options, known) = head(&mut Reader::new(snapshot)?)?;
        Ok(Contents { schema, options, names: known.into_iter().map(|(name, ..)| name).collect() })
    }

    /// Restores the operator of a snapshot; `queries` are its queries, bound to the schema of [`Operator::contents`].
    ///
    /// # Errors
    /// `InvalidValue` if it is not a snapshot, has another version, is truncated, is damaged, or has other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (schema, options, known) = head(&mut from)?;
        let entries = bound(queries, known)?.into_iter().map(|(name, plan, since)| {
            let own = is_sliced(&plan, options.order)?;
            Ok(Entry { name, plan, since, own })
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = from.number()? != 0;
        let mut this = Self::with(entries, several, options)?;
        this.closed = from.number()? != 0;
        (this.watermark, this.latest) = (from.option()?, from.option()?);
        let late = from.number()?;
        let (late_schema, late_batches) = from.batches()?;
        this.late = Late::restore(&schema, late_batches, late);
        if late_schema.fields() != this.late.schema().fields() {
            return broken();
        }
        let rows = from.number()?;
        this.past = Stats { rows, ..read_done(&mut from)? };
        let watermark = this.watermark;
        this.engines.iter_mut().flatten().try_for_each(|engine| engine.load(&mut from, watermark))?;
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }
}

impl Engine {
    /// Writes everything it holds. O(slices + rows kept).
    fn save(&self, to: &mut Writer) -> Result<()> {
        done(&self.stats()).into_iter().for_each(|count| to.number(count));
        self.keys.save(to)?;
        let (mut keys, mut firsts, mut lasts, mut los) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for key in 0..self.slices.keys() as u32 {
            let spans = self.slices.of(key);
            keys.extend(std::iter::repeat_n(key, spans.len()));
            firsts.extend_from_slice(spans.firsts);
            lasts.extend_from_slice(spans.lasts);
            los.extend_from_slice(self.slices.los(key));
        }
        let count = keys.len();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(keys)),
            Arc::new(Int64Array::from(firsts)),
            Arc::new(Int64Array::from(lasts)),
        ];
        if self.tuples.is_some() {
            columns.push(Arc::new(UInt32Array::from(los)));
        }
        to.columns(columns, count)?;
        for partials in self.store.gather_all(&self.slices)? {
            to.columns(partials.state()?, count)?;
        }
        to.number(self.reopened.len() as u64);
        for Reopened { query, window, key, at } in &self.reopened {
            for number in [*query as u64, *window as u64, u64::from(*key), *at as u64] {
                to.number(number);
            }
        }
        self.tuples.as_ref().map_or(Ok(()), |tuples| tuples.save(to))
    }

    /// Reads what [`Engine::save`] wrote for the same queries.
    fn load(&mut self, from: &mut Reader<'_>, watermark: Option<i64>) -> Result<()> {
        self.watermark = watermark;
        self.counts = read_done(from)?;
        let key_count = self.keys.load(from)?;
        let (columns, slots) = from.columns()?;
        let [keys, firsts, lasts, los @ ..] = columns.as_slice() else { return broken() };
        let (Some(keys), Some(firsts), Some(lasts)) = (
            keys.as_primitive_opt::<UInt32Type>(),
            firsts.as_primitive_opt::<Int64Type>(),
            lasts.as_primitive_opt::<Int64Type>(),
        ) else {
            return broken();
        };
        let los = match (los, &self.tuples) {
            ([], None) => None,
            ([los], Some(_)) => los.as_primitive_opt::<UInt32Type>().map(|los| los.values().clone()),
            _ => return broken(),
        };
        let cells: Vec<Cell> = (0..slots)
            .map(|slot| Cell { key: keys.value(slot), first: firsts.value(slot), last: lasts.value(slot) })
            .collect();
        // Where rows are kept, a slice may end at the time when the next one begins.
        let follows = |a: &Cell, b: &Cell| match los {
            None => (a.key, a.last) < (b.key, b.first),
            Some(_) => (a.key, a.last) <= (b.key, b.first),
        };
        let is_one = |cell: &Cell| (cell.key as usize) < key_count && cell.first <= cell.last;
        let has_places = self.tuples.is_none() || los.is_some();
        if !has_places || !cells.is_sorted_by(follows) || !cells.iter().all(is_one) {
            return broken();
        }
        if let Some(los) = &los {
            let begins = |at: usize| at == 0 || cells[at - 1].key != cells[at].key;
            if !(0..slots).all(|at| if begins(at) { los[at] == 0 } else { los[at - 1] < los[at] }) {
                return broken();
            }
        }
        self.slices = Timelines::restore(cells.into_iter(), los.as_deref(), 0);
        let own: Vec<u32> = (0..slots as u32).collect();
        let rows = Rows { slots: &own, times: firsts.values(), sparse: self.tuples.is_some() };
        let mut partials = self.queries.columns(None, 0)?;
        for (partials, stored) in partials.iter_mut().zip(self.queries.stored()) {
            read_partials(from, &stored.partial, &mut **partials, rows)?;
        }
        let ordered = self.tuples.as_ref().map(Tuples::ordered).unwrap_or_default();
        self.store = Store::new(partials, &ordered, slots);
        self.plant();
        for _ in 0..from.count()? {
            let (query, window) = read_window(from, &self.queries)?;
            let (key, at) = (from.place(key_count)? as u32, from.number()? as i64);
            self.reopened.push(Reopened { query, window, key, at });
        }
        let call = self.call(watermark, false);
        let Some(mut tuples) = self.tuples.take() else { return Ok(()) };
        tuples.load(from, &self.queries, key_count)?;
        tuples.check(&self.queries, &self.slices, call)?;
        self.tuples = Some(tuples);
        Ok(())
    }
}

/// Reads the partials of slices, one per row of `rows`.
fn read_partials(
    from: &mut Reader<'_>,
    kind: &Partial,
    partials: &mut dyn Partials,
    rows: Rows<'_>,
) -> Result<()> {
    let (states, count) = from.columns()?;
    if count != rows.slots.len() || states.iter().any(|state| state.len() != count) {
        return broken();
    }
    // The states of a user-defined function have a format of its own, and it reports what is wrong with them.
    let is_own = matches!(kind, Partial::User(_));
    let types =
        |states: &[ArrayRef]| states.iter().map(|state| state.data_type().clone()).collect::<Vec<_>>();
    let known = partials.state()?;
    if states.len() != known.len() || !is_own && types(&states) != types(&known) {
        return broken();
    }
    if count == 0 {
        return Ok(());
    }
    partials.merge(&states, rows, count).map_err(|error| match error {
        Error::InvalidValue(why) | Error::InvalidType(why) => {
            Error::InvalidValue(format!("snapshot: it is damaged: {why}"))
        }
        other => other,
    })
}

/// Reads which window type of which query is meant.
pub(super) fn read_window(from: &mut Reader<'_>, queries: &Queries) -> Result<(usize, usize)> {
    let query = from.place(queries.registered().len())?;
    Ok((query, from.place(queries.registered()[query].plan.windows().len())?))
}

/// Writes what is needed to bind queries again: the schema, the options of the stream, names and fingerprints.
fn write_head(to: &mut Writer, input: &Schema, options: Options, queries: &[Entry]) -> Result<()> {
    to.batches(input, &[])?;
    to.number(u64::from(options.order == Order::OutOfOrder));
    to.number(options.allowed_lateness as u64);
    to.option(options.max_delay);
    to.number(match options.store {
        StoreKind::Auto => 0,
        StoreKind::Lazy => 1,
        StoreKind::Eager => 2,
    });
    to.number(queries.len() as u64);
    for Entry { name, plan, since, .. } in queries {
        to.text(name);
        to.number(fingerprint(plan));
        to.option(*since);
    }
    Ok(())
}

/// A query of a snapshot, bound again.
type Bound = (String, Arc<Plan>, Option<i64>);

/// The given queries, if they match those of a snapshot, with the times after which they begin.
fn bound(queries: Vec<(String, Arc<Plan>)>, known: Vec<Known>) -> Result<Vec<Bound>> {
    if known.len() != queries.len() {
        return Err(Error::InvalidValue(format!(
            "queries: {} given; the snapshot is of {}",
            queries.len(),
            known.len()
        )));
    }
    let bound = queries.into_iter().zip(known).map(|((name, plan), (own, print, since))| {
        if name != own || fingerprint(&plan) != print {
            return Err(Error::InvalidValue(format!(
                "queries: '{name}' differs from '{own}' of the snapshot; keys, time, windows and aggregates must be \
                 the same"
            )));
        }
        Ok((name, plan, since))
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
    let (allowed_lateness, max_delay) = (from.number()? as i64, from.option()?);
    if allowed_lateness < 0 || max_delay.is_some_and(|max_delay| max_delay < 0) {
        return broken();
    }
    let store = match from.number()? {
        0 => StoreKind::Auto,
        1 => StoreKind::Lazy,
        2 => StoreKind::Eager,
        _ => return broken(),
    };
    let options = Options { order, allowed_lateness, max_delay, store };
    let queries = (0..from.count()?).map(|_| Ok((from.text()?, from.number()?, from.option()?)));
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
