//! Snapshots of the stream operator: queries' fingerprint, watermarks, keys, slices and their partials.

use std::sync::Arc;

use arrow_array::{Array, Int64Array, UInt32Array, cast::AsArray, types::*};
use arrow_schema::{Schema, SchemaRef};
use xxhash_rust::xxh3::xxh3_64;

use super::Stream;
use super::due::Reopened;
use super::late::Late;
use super::options::{Options, Stats, StoreKind};
use super::queries::Queries;
use crate::aggregate::Rows;
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
        to.columns(self.plain_keys()?, self.keys.len())?;
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
        let (keys, key_count) = from.columns()?;
        let mut ids = Vec::new();
        this.keys.assign(&keys, key_count, &mut ids)?;
        if !ids.iter().copied().eq(0..key_count as u32) && !keys.is_empty() {
            return broken();
        }
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
        let ascending = |a: &Cell, b: &Cell| (a.key, a.first) <= (b.key, b.first);
        if !cells.is_sorted_by(ascending) || cells.iter().any(|cell| cell.key as usize >= key_count) {
            return broken();
        }
        this.slices = Timelines::restore(cells.into_iter(), merges);
        let own: Vec<u32> = (0..slots as u32).collect();
        let mut partials = this.queries.columns(None, 0)?;
        for partials in &mut partials {
            let (states, rows) = from.columns()?;
            if rows != slots || states.iter().any(|state| state.len() != slots) {
                return broken();
            }
            if slots > 0 {
                partials.merge(&states, Rows::all(&own, firsts.values()), slots)?;
            }
        }
        this.store = Store::new(partials, slots);
        this.plant();
        for _ in 0..from.count()? {
            let (query, window) = (from.count()?, from.count()?);
            let (Ok(key), at) = (u32::try_from(from.number()?), from.number()? as i64) else {
                return broken();
            };
            this.reopened.push(Reopened { query, window, key, at });
        }
        Ok(this)
    }
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
    let order = if from.number()? == 0 { Order::InOrder } else { Order::OutOfOrder };
    let (allowed_lateness, disorder) = (from.number()? as i64, from.option()?);
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

/// A number that tells queries and schemas apart, and that no release changes.
fn fingerprint(plan: &Plan) -> u64 {
    let schema: &Schema = plan.input();
    let fields = schema.fields().iter().map(|field| format!("{:?}: {}", field.name(), field.data_type()));
    let fields: Vec<String> = fields.collect();
    xxh3_64(format!("{}\n{}", fields.join("\n"), plan.signature()).as_bytes())
}
