//! One of the values of a slot: the first or last by time, and that where another column is least or greatest.
//! Distributive and commutative.
//!
//! States point at values, so that values of every type can be picked. They carry the time of their row and its arrival
//! number, which compensates for functions of order not commuting: partials may be combined in any order, and results
//! depend neither on the order of slices nor on threads. Ties are broken by arrival: the first row of the earliest
//! time, the last row of the latest; of several extrema the earliest.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::Column;
use super::lift::{Aggregate, cast_to};
use super::order::{Family, Keys, Texts, Wides, Words, family};
use super::partials::{Partials, Upkeep};
use super::properties::{Kind, Properties};
use super::rows::Rows;
use super::store::{Position, Store};
use crate::algebra::{Arg, End, Monoid, Order, Place, Placed, monoid_of};
use crate::dictionary::{plain, widened};
use crate::{Error, Result};

/// The time of a row, and where its value lies.
type Stamp = (i64, Position);

/// An empty column of first (or last) values of type `input`, including nulls unless `skip_nulls`.
pub(super) fn ends(input: &DataType, last: bool, skip_nulls: bool) -> Box<dyn Partials> {
    column(input, ByTime { end: End::new(last), skip_nulls })
}

/// An empty column of values of type `input` where values of type `by` are extreme, if `by` has an order.
pub(super) fn arg_extrema(input: &DataType, by: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    fn by_keys<K: Keys>(input: &DataType, max: bool, keys: K) -> Box<dyn Partials> {
        column(input, ByKey(Arg::new(ByKeys { keys, max })))
    }
    Some(match family(by)? {
        Family::Word => by_keys(input, max, Words::new(by)),
        Family::Wide => by_keys(input, max, Wides::new(by)),
        Family::Text => by_keys(input, max, Texts::new(by)),
    })
}

fn column<P: Pick>(input: &DataType, pick: P) -> Box<dyn Partials> {
    let output = widened(input);
    let store = Store::new(plain(&output).clone());
    Box::new(Column::new(Picked { pick, output, store }))
}

/// Values that states point at, and what picks one.
#[derive(Clone)]
struct Picked<P> {
    pick: P,
    output: DataType,
    store: Store,
}

/// The criterion that picks a value.
trait Pick: Monoid<State: Send + Sync> + Send + Sync + 'static {
    /// The data it reads besides the value's column: one entry per row.
    type Keys;
    /// Reads that data; with `times` of partials, where the input is partials. Also returns which rows have none.
    fn read(
        &mut self,
        columns: &[ArrayRef],
        times: Option<&NullBuffer>,
    ) -> Result<(Self::Keys, Option<NullBuffer>)>;
    /// The state of a row.
    fn lift(keys: &Self::Keys, row: usize, stamp: Stamp) -> Self::State;
    /// What a state points at.
    fn stamp(state: &mut Self::State) -> &mut Stamp;
    /// The columns of states between those of values and of times.
    fn columns(&self, states: &[Self::State], there: &NullBuffer) -> Result<Vec<ArrayRef>>;
    /// As [`Aggregate::adopt`], [`Aggregate::keep_up`], [`Aggregate::emptied`] and [`Aggregate::bytes`], for the data
    /// held besides the values.
    fn adopt(&mut self, _other: Self, _states: &mut [Self::State]) {}
    fn keep_up(&mut self, _states: &mut [Self::State], _what: Upkeep) -> Result<()> {
        Ok(())
    }
    fn emptied(&self) -> Self {
        self.clone()
    }
    fn bytes(&self) -> usize {
        0
    }
}

impl<P: Pick> Picked<P> {
    /// Folds the values of rows with these times, and the data read with them.
    fn fold(
        column: &mut Column<Self>,
        inputs: &[ArrayRef],
        (times, valid): (&[i64], Option<&NullBuffer>),
        rows: Rows<'_>,
        len: usize,
    ) -> Result<()> {
        let own = column.monoid_mut();
        let (keys, nulls) = own.pick.read(inputs, valid)?;
        let base = own.store.push(cast_to(&inputs[0], own.store.data_type())?);
        column
            .fold(rows, nulls.as_ref(), len, |row| P::lift(&keys, row, (times[row], base + row as Position)));
        Partials::keep_up(column, Upkeep::Compact)
    }
}

impl<P: Pick> Monoid for Picked<P> {
    type State = P::State;

    fn identity(&self) -> P::State {
        self.pick.identity()
    }

    #[inline]
    fn combine(&self, earlier: P::State, later: P::State) -> P::State {
        self.pick.combine(earlier, later)
    }
}

impl<P: Pick> Aggregate for Picked<P> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        Self::fold(column, inputs, (rows.times, None), rows, len)
    }

    /// The value, what picked it, and the time of its row.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let Some((times, inputs)) = state.split_last() else {
            return Err(Error::Internal("a picked value came without a time".into()));
        };
        let times = cast_to(times, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        let valid = times.nulls().cloned().unwrap_or_else(|| NullBuffer::new_valid(times.len()));
        Self::fold(column, inputs, (times.values(), Some(&valid)), rows, len)
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let mut states = column.states().to_vec();
        let stamps: Vec<Stamp> = states.iter_mut().map(|state| *P::stamp(state)).collect();
        let there = NullBuffer::from_iter(stamps.iter().map(|stamp| !stamp.is_nowhere()));
        let mut all = vec![Self::lower(column)?];
        all.extend(column.monoid().pick.columns(&states, &there)?);
        all.push(Arc::new(Int64Array::new(stamps.iter().map(|stamp| stamp.0).collect(), Some(there))));
        Ok(all)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let Self { store, output, .. } = column.monoid();
        let places = column.states().iter().map(|&state| {
            let mut state = state;
            P::stamp(&mut state).1
        });
        cast_to(&store.take(places)?, output)
    }

    fn is_plain(&self) -> bool {
        false
    }

    fn emptied(&self) -> Self {
        let store = Store::new(self.store.data_type().clone());
        Self { pick: self.pick.emptied(), output: self.output.clone(), store }
    }

    fn adopt(&mut self, other: Self, states: &mut [P::State]) {
        self.pick.adopt(other.pick, states);
        let base = self.store.append(other.store);
        let stamps = states.iter_mut().map(P::stamp).filter(|stamp| !stamp.is_nowhere());
        stamps.for_each(|stamp| stamp.1 += base);
    }

    fn keep_up(&mut self, states: &mut [P::State], what: Upkeep) -> Result<()> {
        let live = states.len();
        self.store.keep_up(what, live, states.iter_mut().map(|state| &mut P::stamp(state).1))?;
        self.pick.keep_up(states, what)
    }

    fn bytes(&self) -> usize {
        self.store.bytes() + self.pick.bytes()
    }
}

/// First or last.
#[derive(Clone)]
struct ByTime {
    end: End<Stamp>,
    skip_nulls: bool,
}

impl Monoid for ByTime {
    type State = Stamp;
    monoid_of!(end);
}

impl Pick for ByTime {
    type Keys = ();

    fn read(&mut self, columns: &[ArrayRef], times: Option<&NullBuffer>) -> Result<((), Option<NullBuffer>)> {
        // Partials of no row have no time.
        let of_rows = || columns[0].logical_nulls().filter(|_| self.skip_nulls);
        Ok(((), times.cloned().or_else(of_rows)))
    }

    fn lift((): &(), _: usize, stamp: Stamp) -> Stamp {
        stamp
    }

    fn stamp(state: &mut Stamp) -> &mut Stamp {
        state
    }

    fn columns(&self, _: &[Stamp], _: &NullBuffer) -> Result<Vec<ArrayRef>> {
        Ok(Vec::new())
    }
}

/// Where another column is extreme.
#[derive(Clone)]
struct ByKey<K: Keys>(Arg<ByKeys<K>, K::Key, Stamp>);

/// The order of keys in which the requested extremum comes first.
#[derive(Clone)]
struct ByKeys<K> {
    keys: K,
    max: bool,
}

impl<K: Keys> Order<K::Key> for ByKeys<K> {
    #[inline]
    fn compare(&self, a: K::Key, b: K::Key) -> Ordering {
        let order = self.keys.compare(a, b);
        if self.max { order.reverse() } else { order }
    }
}

impl<K: Keys> Monoid for ByKey<K> {
    type State = Placed<K::Key, Stamp>;
    monoid_of!(0);
}

impl<K: Keys> Pick for ByKey<K> {
    type Keys = Vec<K::Key>;

    fn read(
        &mut self,
        columns: &[ArrayRef],
        _: Option<&NullBuffer>,
    ) -> Result<(Vec<K::Key>, Option<NullBuffer>)> {
        let [_, by] = super::lift::columns(columns)?;
        Ok((self.0.order.keys.read(by)?, by.logical_nulls()))
    }

    #[inline]
    fn lift(keys: &Vec<K::Key>, row: usize, stamp: Stamp) -> Self::State {
        Placed { key: keys[row], place: stamp }
    }

    fn stamp(state: &mut Self::State) -> &mut Stamp {
        &mut state.place
    }

    fn columns(&self, states: &[Self::State], there: &NullBuffer) -> Result<Vec<ArrayRef>> {
        let keys: Vec<K::Key> = states.iter().map(|state| state.key).collect();
        Ok(vec![self.0.order.keys.values(&keys, Some(there.clone()))?])
    }

    fn adopt(&mut self, other: Self, states: &mut [Self::State]) {
        self.0.order.keys.adopt(other.0.order.keys, keys_of(states));
    }

    fn keep_up(&mut self, states: &mut [Self::State], what: Upkeep) -> Result<()> {
        let live = states.len();
        self.0.order.keys.keep_up(what, live, keys_of(states))
    }

    fn emptied(&self) -> Self {
        Self(Arg::new(ByKeys { keys: self.0.order.keys.emptied(), max: self.0.order.max }))
    }

    fn bytes(&self) -> usize {
        self.0.order.keys.held_bytes()
    }
}

fn keys_of<K>(states: &mut [Placed<K, Stamp>]) -> impl Iterator<Item = &mut K> {
    states.iter_mut().filter(|state| !state.place.is_nowhere()).map(|state| &mut state.key)
}
