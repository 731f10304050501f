//! Min-count and max-count: how often the least or greatest value occurs. Algebraic, commutative.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Partials, Rows, cast_to, columns};
use super::order::{Family, Keys, Texts, Wides, Words, family};
use super::properties::{Kind, Properties};
use crate::Result;

/// An empty column of counts of the least (or greatest) of values of type `input`, if those have an order.
pub(super) fn ties(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    Some(match family(input)? {
        Family::Word => Box::new(Column::new(Ties { max, keys: Words::new(input) })),
        Family::Wide => Box::new(Column::new(Ties { max, keys: Wides::new(input) })),
        Family::Text => Box::new(Column::new(Ties { max, keys: Texts::new(input) })),
    })
}

/// How often the least or greatest value occurs.
#[derive(Clone)]
pub struct Ties<K> {
    max: bool,
    keys: K,
}

/// An extremum and the number of its occurrences; 0 of nothing.
#[derive(Debug, Clone, Copy)]
pub struct Tied<K> {
    key: K,
    count: i64,
}

impl<K: Keys> Monoid for Ties<K> {
    type State = Tied<K::Key>;

    fn identity(&self) -> Self::State {
        Tied { key: K::Key::default(), count: 0 }
    }

    #[inline]
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State {
        if earlier.count == 0 {
            return later;
        }
        if later.count == 0 {
            return earlier;
        }
        match self.keys.compare(earlier.key, later.key) {
            Ordering::Equal => Tied { key: earlier.key, count: earlier.count + later.count },
            order => {
                if (order == Ordering::Greater) == self.max {
                    earlier
                } else {
                    later
                }
            }
        }
    }

    fn is_plain(&self) -> bool {
        self.keys.are_plain()
    }

    fn outlasts(&self, whole: Self::State, part: Self::State) -> bool {
        // Texts of two columns lie in two places.
        let worse = if self.max { Ordering::Less } else { Ordering::Greater };
        part.count == 0 || self.keys.are_plain() && self.keys.compare(part.key, whole.key) == worse
    }

    fn bytes(&self) -> usize {
        self.keys.held_bytes()
    }

    fn emptied(&self) -> Self {
        Self { max: self.max, keys: self.keys.emptied() }
    }
}

impl<K: Keys> Ties<K> {
    fn fold(
        column: &mut Column<Self>,
        values: &ArrayRef,
        counts: impl Fn(usize) -> i64,
        rows: Rows<'_>,
        len: usize,
    ) -> Result<()> {
        let keys = column.monoid_mut().keys.read(values)?;
        let tied = |row: usize| Tied { key: keys[row], count: counts(row) };
        column.fold(rows, values.logical_nulls().as_ref(), len, tied);
        <Self as Aggregate>::compact(column)
    }
}

impl<K: Keys> Aggregate for Ties<K> {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values] = columns(inputs)?;
        Self::fold(column, values, |_| 1, rows, len)
    }

    /// The extremum, null if there is none, and its count.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, counts] = columns(state)?;
        let counts = cast_to(counts, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        Self::fold(column, values, |row| counts.value(row), rows, len)
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let (monoid, states) = other.parts_mut();
        let keys = monoid.keys.clone();
        let live = states.iter_mut().filter(|state| state.count > 0).map(|state| &mut state.key);
        column.monoid_mut().keys.adopt(keys, live);
        column.append(other);
    }

    fn compact(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        let live = states.iter_mut().filter(|state| state.count > 0).map(|state| &mut state.key);
        monoid.keys.compact(live.size_hint().1.unwrap_or(0), live)
    }

    fn shrink(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.keys.squeeze(states.iter_mut().filter(|state| state.count > 0).map(|state| &mut state.key))
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let there = NullBuffer::from_iter(column.states().iter().map(|state| state.count > 0));
        let keys: Vec<K::Key> = column.states().iter().map(|state| state.key).collect();
        Ok(vec![column.monoid().keys.values(&keys, Some(there))?, Self::lower(column)?])
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let counts = column.states().iter().map(|state| (state.count > 0).then_some(state.count));
        Ok(Arc::new(counts.collect::<Int64Array>()))
    }
}
