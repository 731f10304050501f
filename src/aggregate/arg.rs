//! Arg-min and arg-max: the value of one column where another is least or greatest. Distributive, commutative.
//!
//! Rows whose other column is null are skipped; the value may be null. Of several such rows it is the earliest, by time
//! and then by arrival, so that results depend neither on the order of slices nor on threads.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Partials, Rows, cast_to, columns};
use super::order::{Family, Keys, Texts, Wides, Words, family};
use super::properties::{Kind, Properties};
use super::store::{NOWHERE, Position, Store};
use crate::Result;
use crate::dictionary::{plain, widened};

/// An empty column of values of type `input` where values of type `by` are extreme, if those have an order.
pub(super) fn arg_extrema(input: &DataType, by: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    fn column<K: Keys>(input: &DataType, max: bool, by: K) -> Box<dyn Partials> {
        let store = Store::new(plain(input).clone());
        Box::new(Column::new(ArgExtremum { max, by, output: widened(input), store }))
    }
    Some(match family(by)? {
        Family::Word => column(input, max, Words::new(by)),
        Family::Wide => column(input, max, Wides::new(by)),
        Family::Text => column(input, max, Texts::new(by)),
    })
}

/// The value where another column is least or greatest.
#[derive(Clone)]
pub struct ArgExtremum<K> {
    max: bool,
    by: K,
    output: DataType,
    store: Store,
}

/// The other column's value, the time of the row, and where its value lies.
#[derive(Debug, Clone, Copy)]
pub struct Witness<K> {
    by: K,
    time: i64,
    at: Position,
}

impl<K: Keys> Monoid for ArgExtremum<K> {
    type State = Witness<K::Key>;

    fn identity(&self) -> Self::State {
        Witness { by: K::Key::default(), time: 0, at: NOWHERE }
    }

    #[inline]
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
        if earlier.at == NOWHERE {
            return later;
        }
        if later.at == NOWHERE {
            return earlier;
        }
        let later_wins = match self.by.compare(later.by, earlier.by) {
            Ordering::Less => !self.max,
            Ordering::Greater => self.max,
            Ordering::Equal => (later.time, later.at) < (earlier.time, earlier.at),
        };
        if later_wins { later } else { earlier }
    }

    fn is_plain(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.store.bytes() + self.by.held_bytes()
    }

    fn emptied(&self) -> Self {
        let store = Store::new(self.store.data_type().clone());
        Self { by: self.by.emptied(), store, ..self.clone() }
    }
}

impl<K: Keys> ArgExtremum<K> {
    fn fold(
        column: &mut Column<Self>,
        values: &ArrayRef,
        by: &ArrayRef,
        times: &[i64],
        rows: Rows<'_>,
        len: usize,
    ) -> Result<()> {
        let monoid = column.monoid_mut();
        let values = cast_to(values, monoid.store.data_type())?;
        let base = monoid.store.push(values);
        let keys = monoid.by.read(by)?;
        let witness = |row: usize| Witness { by: keys[row], time: times[row], at: base + row as Position };
        column.fold(rows, by.logical_nulls().as_ref(), len, witness);
        <Self as Aggregate>::compact(column)
    }
}

impl<K: Keys> Aggregate for ArgExtremum<K> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, by] = columns(inputs)?;
        Self::fold(column, values, by, rows.times, rows, len)
    }

    /// The value, the other column's, and the time of the row; the other column's is null where there was none.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, by, times] = columns(state)?;
        let times = cast_to(times, &DataType::Int64)?;
        Self::fold(column, values, by, times.as_primitive::<Int64Type>().values(), rows, len)
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let (monoid, states) = other.parts_mut();
        let (by, store) = (monoid.by.clone(), monoid.store.clone());
        let own = column.monoid_mut();
        own.by.adopt(by, states.iter_mut().filter(|state| state.at != NOWHERE).map(|state| &mut state.by));
        let base = own.store.append(store);
        states.iter_mut().filter(|state| state.at != NOWHERE).for_each(|state| state.at += base);
        column.append(other);
    }

    fn compact(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.compact(states.len(), states.iter_mut().map(|state| &mut state.at))?;
        let live = states.iter_mut().filter(|state| state.at != NOWHERE).map(|state| &mut state.by);
        monoid.by.compact(live.size_hint().1.unwrap_or(0), live)
    }

    fn renumber(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.renumber(states.iter_mut().map(|state| &mut state.at))
    }

    fn shrink(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.squeeze(states.iter_mut().map(|state| &mut state.at))?;
        let live = states.iter_mut().filter(|state| state.at != NOWHERE).map(|state| &mut state.by);
        monoid.by.squeeze(live)
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let states = column.states();
        let there = NullBuffer::from_iter(states.iter().map(|state| state.at != NOWHERE));
        let keys: Vec<K::Key> = states.iter().map(|state| state.by).collect();
        let times = Int64Array::new(states.iter().map(|state| state.time).collect(), Some(there.clone()));
        Ok(vec![Self::lower(column)?, column.monoid().by.values(&keys, Some(there))?, Arc::new(times)])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let values = column.monoid().store.take(column.states().iter().map(|state| state.at))?;
        cast_to(&values, &column.monoid().output)
    }
}
