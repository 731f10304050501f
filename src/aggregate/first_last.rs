//! First and last value by time; ties go by arrival: the first row of the earliest, the last row of the latest.
//!
//! Distributive and not commutative on ties, which the arrival number in the state makes good: partials may be joined
//! in any order. A state points at a value, so that every type has a first and a last.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Rows, cast_to, required};
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

    fn emptied(&self) -> Self {
        Self { store: Store::new(self.store.data_type().clone()), ..self.clone() }
    }
}

impl Aggregate for FirstLast {
    fn update(column: &mut Column<Self>, input: Option<&ArrayRef>, rows: Rows<'_>, len: usize) -> Result<()> {
        let input = required(input)?;
        let values = cast_to(input, plain(input.data_type()))?;
        let base = column.monoid_mut().store.push(values);
        let nulls = input.logical_nulls().filter(|_| column.monoid().skip_nulls);
        let stamped = |row: usize| Stamped { time: rows.times[row], at: base + row as Position };
        column.fold(rows.slots, nulls.as_ref(), len, stamped);
        let (monoid, states) = column.parts_mut();
        monoid.store.compact(states.len(), states.iter_mut().map(|state| &mut state.at))
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let base = column.monoid_mut().store.append(other.monoid().store.clone());
        for state in other.parts_mut().1.iter_mut().filter(|state| state.at != NOWHERE) {
            state.at += base;
        }
        column.append(other);
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let values = column.monoid().store.take(column.states().iter().map(|state| state.at))?;
        cast_to(&values, &column.monoid().output)
    }
}
