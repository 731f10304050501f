//! Snapshots of the stream operator: queries' fingerprint, watermarks, keys, slices and their partials.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, cast::AsArray, types::*};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use xxhash_rust::xxh3::xxh3_64;

use super::Stream;
use super::due::Reopened;
use super::late::Late;
use super::options::{Options, Stats, StoreKind};
use super::queries::Queries;
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
    /// The names of its queries, in the order they came.
    pub names: Vec<String>,
    /// How the stream comes.
    pub options: Options,
}

/// A query of a snapshot: its name, its fingerprint, and the time after which its windows begin.
pub(in crate::operator) type Known = (String, u64, Option<i64>);

impl Stream {
    /// All that the operator holds, as bytes for [`Stream::restore`]. O(slices).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        let asked = self.queries.asked().iter();
        write_head(
            &mut to,
            self.input(),
            self.options,
            asked.map(|asked| (asked.name.as_str(), &*asked.plan, asked.since)),
        )?;
        to.number(u64::from(self.queries.several()));
        to.option(self.watermark);
        to.option(self.latest);
        to.number(u64::from(self.closed));
        let Stats { rows, windows, updates, splits, recomputations, .. } = self.counts;
        for count in [rows, windows, updates, splits, self.slices.merges(), recomputations] {
            to.number(count);
        }
        to.number(self.late.count());
        to.batches(self.late.schema(), self.late.batches())?;
        self.keys.save(&mut to)?;
        let (slots, groups) = self.slices.order();
        let each = || {
            (0..self.slices.keys() as u32).flat_map(|key| self.slices.of(key).iter().map(move |s| (key, s)))
        };
        let keys = UInt32Array::from_iter_values(each().map(|(key, _)| key));
        let firsts = Int64Array::from_iter_values(each().map(|(_, slice)| slice.first));
        let lasts = Int64Array::from_iter_values(each().map(|(_, slice)| slice.last));
        to.columns(vec![Arc::new(keys), Arc::new(firsts), Arc::new(lasts)], groups.len())?;
        for partials in self.store.partials() {
            let partials =
                if groups.is_empty() { partials.empty() } else { partials.regroup(&slots, &groups)? };
            to.columns(partials.state()?, groups.len())?;
        }
        to.number(self.reopened.len() as u64);
        for Reopened { query, window, key, at } in &self.reopened {
            for number in [*query as u64, *window as u64, u64::from(*key), *at as u64] {
                to.number(number);
            }
        }
        Ok(to.finish())
    }

    /// What a snapshot is of.
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, or damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        let (schema, options, known) = head(&mut Reader::new(snapshot)?)?;
        Ok(Contents { schema, options, names: known.into_iter().map(|(name, ..)| name).collect() })
    }

    /// The operator that a snapshot is of; `queries` are its queries, bound to the schema of [`Stream::contents`].
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, damaged, or of other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (schema, options, known) = head(&mut from)?;
        let bound = bound(queries, known)?;
        let several = from.number()? != 0;
        let mut this = Stream::with(Queries::new(bound, several)?, options)?;
        (this.watermark, this.latest) = (from.option()?, from.option()?);
        this.closed = from.number()? != 0;
        let counts: Vec<u64> = (0..6).map(|_| from.number()).collect::<Result<_>>()?;
        let [rows, windows, updates, splits, merges, recomputations] = counts[..] else { return broken() };
        this.counts = Stats { rows, windows, updates, splits, recomputations, ..Stats::default() };
        let late = from.number()?;
        let (late_schema, late_batches) = from.batches()?;
        this.late = Late::restore(&schema, late_batches, late);
        if late_schema.fields() != this.late.schema().fields() {
            return broken();
        }
        let key_count = this.keys.load(&mut from)?;
        let (slices, slots) = from.columns()?;
        let (keys, firsts, lasts) = match slices.as_slice() {
            [keys, firsts, lasts] => {
                let keys = keys.as_primitive_opt::<UInt32Type>();
                let times = [firsts, lasts].map(|times| times.as_primitive_opt::<Int64Type>());
                match (keys, times) {
                    (Some(keys), [Some(firsts), Some(lasts)]) => (keys, firsts, lasts),
                    _ => return broken(),
                }
            }
            _ => return broken(),
        };
        let cells: Vec<Cell> = (0..slots)
            .map(|slot| Cell { key: keys.value(slot), first: firsts.value(slot), last: lasts.value(slot) })
            .collect();
        let ascending = |a: &Cell, b: &Cell| (a.key, a.last) < (b.key, b.first);
        let is_one = |cell: &Cell| (cell.key as usize) < key_count && cell.first <= cell.last;
        if !cells.is_sorted_by(ascending) || !cells.iter().all(is_one) {
            return broken();
        }
        this.slices = Timelines::restore(cells.into_iter(), merges);
        let own: Vec<u32> = (0..slots as u32).collect();
        let mut partials = this.queries.columns(None, 0)?;
        for (partials, stored) in partials.iter_mut().zip(this.queries.stored()) {
            read_partials(&mut from, &stored.partial, &mut **partials, Rows::all(&own, firsts.values()))?;
        }
        this.store = Store::new(partials, slots);
        this.plant();
        for _ in 0..from.count()? {
            let (query, window) = read_window(&mut from, &this.queries)?;
            let (key, at) = (from.place(key_count)? as u32, from.number()? as i64);
            this.reopened.push(Reopened { query, window, key, at });
        }
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }
}

/// Reads the partials of slices, one per row of `rows`.
pub(in crate::operator) fn read_partials(
    from: &mut Reader<'_>,
    kind: &Partial,
    partials: &mut dyn Partials,
    rows: Rows<'_>,
) -> Result<()> {
    let (states, count) = from.columns()?;
    if count != rows.slots.len() || states.iter().any(|state| state.len() != count) {
        return broken();
    }
    // The states of a function of the user's own are what it makes them; it says itself what is wrong with them.
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

/// Reads which window of which query is meant.
pub(in crate::operator) fn read_window(from: &mut Reader<'_>, queries: &Queries) -> Result<(usize, usize)> {
    let query = from.place(queries.asked().len())?;
    Ok((query, from.place(queries.asked()[query].plan.windows().len())?))
}

/// Writes what must be known to bind queries again: the schema, how the stream comes, names and fingerprints.
pub(in crate::operator) fn write_head<'a>(
    to: &mut Writer,
    input: &Schema,
    options: Options,
    queries: impl ExactSizeIterator<Item = (&'a str, &'a Plan, Option<i64>)>,
) -> Result<()> {
    to.batches(input, &[])?;
    to.number(u64::from(options.order == Order::OutOfOrder));
    to.number(options.allowed_lateness as u64);
    to.option(options.disorder);
    to.number(match options.store {
        StoreKind::Auto => 0,
        StoreKind::Lazy => 1,
        StoreKind::Eager => 2,
    });
    to.number(queries.len() as u64);
    for (name, plan, since) in queries {
        to.text(name);
        to.number(fingerprint(plan));
        to.option(since);
    }
    Ok(())
}

/// A query of a snapshot, bound again.
type Bound = (String, Arc<Plan>, Option<i64>);

/// The queries that are given, if they are those that a snapshot is of; with the times after which they begin.
pub(in crate::operator) fn bound(queries: Vec<(String, Arc<Plan>)>, known: Vec<Known>) -> Result<Vec<Bound>> {
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
                "queries: '{name}' is not '{own}', which the snapshot is of; its keys, time, windows and aggregates \
                 must be the same"
            )));
        }
        Ok((name, plan, since))
    });
    bound.collect()
}

/// Reads what [`write_head`] wrote.
pub(in crate::operator) fn head(from: &mut Reader<'_>) -> Result<(SchemaRef, Options, Vec<Known>)> {
    let (schema, _) = from.batches()?;
    if !has_texts(&schema) {
        return broken();
    }
    let order = if from.number()? == 0 { Order::InOrder } else { Order::OutOfOrder };
    let (allowed_lateness, disorder) = (from.number()? as i64, from.option()?);
    if allowed_lateness < 0 || disorder.is_some_and(|disorder| disorder < 0) {
        return broken();
    }
    let store = match from.number()? {
        0 => StoreKind::Auto,
        1 => StoreKind::Lazy,
        2 => StoreKind::Eager,
        _ => return broken(),
    };
    let options = Options { order, allowed_lateness, disorder, store };
    let queries = (0..from.count()?).map(|_| Ok((from.text()?, from.number()?, from.option()?)));
    let queries = queries.collect::<Result<_>>()?;
    Ok((schema, options, queries))
}

/// Whether names and zones in a schema are such as Arrow can hand over: as texts that a zero ends.
fn has_texts(schema: &Schema) -> bool {
    let zone = |field: &Field| match field.data_type() {
        DataType::Timestamp(_, zone) => zone.clone().unwrap_or_default(),
        _ => "".into(),
    };
    schema.flattened_fields().iter().all(|field| !field.name().contains('\0') && !zone(field).contains('\0'))
}

/// A number that tells queries and schemas apart, and that no release changes.
fn fingerprint(plan: &Plan) -> u64 {
    let schema: &Schema = plan.input();
    let fields = schema.fields().iter().map(|field| format!("{:?}: {}", field.name(), field.data_type()));
    let fields: Vec<String> = fields.collect();
    xxh3_64(format!("{}\n{}", fields.join("\n"), plan.signature()).as_bytes())
}
