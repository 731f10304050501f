//! First and last value by time; ties go by arrival: the first row of the earliest, the last row of the latest.
//!
//! Distributive. A state carries time and arrival number, which makes good that functions of order do not commute:
//! partials may be joined in any order. A state points at a value, so that every type has a first and a last.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Rows, cast_to, columns};
use super::properties::{Kind, Properties};
use super::store::{NOWHERE, Position, Store};
use crate::Result;
use crate::dictionary::{plain, widened};

/// First or last of any values.
#[derive(Clone)]
pub struct FirstLast {
    last: bool,
    skip_nulls: bool,
    output: DataType,
    store: Store,
}

/// The time of a row and where its value lies.
#[derive(Debug, Clone, Copy)]
pub struct Stamped {
    time: i64,
    at: Position,
}

impl Stamped {
    /// Its time, if there is a value.
    pub(super) fn time(self) -> Option<i64> {
        (self.at != NOWHERE).then_some(self.time)
    }
}

impl FirstLast {
    /// The earliest value.
    pub fn first(input: &DataType, skip_nulls: bool) -> Self {
        Self { last: false, skip_nulls, output: widened(input), store: Store::new(plain(input).clone()) }
    }

    /// The latest value.
    pub fn last(input: &DataType, skip_nulls: bool) -> Self {
        Self { last: true, skip_nulls, output: widened(input), store: Store::new(plain(input).clone()) }
    }
}

impl Monoid for FirstLast {
    type State = Stamped;

    fn identity(&self) -> Stamped {
        Stamped { time: 0, at: NOWHERE }
    }

    #[inline]
    fn combine(&self, earlier: Stamped, later: Stamped) -> Stamped {
        if earlier.at == NOWHERE {
            return later;
        }
        if later.at == NOWHERE {
            return earlier;
        }
        let in_order = (earlier.time, earlier.at) <= (later.time, later.at);
        if in_order == self.last { later } else { earlier }
    }

    fn is_plain(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.store.bytes()
    }

    fn emptied(&self) -> Self {
        Self { store: Store::new(self.store.data_type().clone()), ..self.clone() }
    }
}

impl Aggregate for FirstLast {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        let nulls = input.logical_nulls().filter(|_| column.monoid().skip_nulls);
        stamp(column, input, nulls.as_ref(), rows.times, rows, len)
    }

    /// The value, and its time: null where there was no row.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, times] = columns(state)?;
        let times = cast_to(times, &DataType::Int64)?;
        let times = times.as_primitive::<Int64Type>();
        stamp(column, values, times.nulls(), times.values(), rows, len)
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let base = column.monoid_mut().store.append(other.monoid().store.clone());
        for state in other.parts_mut().1.iter_mut().filter(|state| state.at != NOWHERE) {
            state.at += base;
        }
        column.append(other);
    }

    fn compact(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.compact(states.len(), states.iter_mut().map(|state| &mut state.at))
    }

    fn renumber(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.renumber(states.iter_mut().map(|state| &mut state.at))
    }

    fn shrink(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.squeeze(states.iter_mut().map(|state| &mut state.at))
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let times = column.states().iter().map(|state| state.time());
        Ok(vec![Self::lower(column)?, Arc::new(times.collect::<Int64Array>())])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let values = column.monoid().store.take(column.states().iter().map(|state| state.at))?;
        cast_to(&values, &column.monoid().output)
    }
}

/// Folds the values that `nulls` leaves, of these times.
fn stamp(
    column: &mut Column<FirstLast>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
    times: &[i64],
    rows: Rows<'_>,
    len: usize,
) -> Result<()> {
    let values = cast_to(values, column.monoid().store.data_type())?;
    let base = column.monoid_mut().store.push(values);
    column.fold(rows, nulls, len, |row| Stamped { time: times[row], at: base + row as Position });
    FirstLast::compact(column)
}
