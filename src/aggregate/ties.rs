//! The least or greatest value, and how often it occurs: min-count and max-count, and minima and maxima of strings and
//! binaries, in the order of their bytes, as Spark has it. Algebraic, commutative.

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
use crate::algebra::Monoid;
use crate::{Error, Result};

/// An empty column of counts of the least (or greatest) of values of type `input`, if those have an order.
pub(super) fn ties(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    Some(match family(input)? {
        Family::Word => Box::new(Column::new(Ties { max, counted: true, keys: Words::new(input) })),
        Family::Wide => Box::new(Column::new(Ties { max, counted: true, keys: Wides::new(input) })),
        Family::Text => Box::new(Column::new(Ties { max, counted: true, keys: Texts::new(input) })),
    })
}

/// An empty column of minima (or maxima) over values of type `input`, if they are strings or binaries.
pub(super) fn bytes_extrema(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    let keys = (family(input)? == Family::Text).then(|| Texts::new(input))?;
    Some(Box::new(Column::new(Ties { max, counted: false, keys })))
}

/// The least or greatest value, and how often it occurs.
#[derive(Clone)]
struct Ties<K> {
    max: bool,
    /// Whether the count is the result, and not the value.
    counted: bool,
    keys: K,
}

/// An extremum and the number of its occurrences; 0 for no values.
#[derive(Debug, Clone, Copy)]
struct Tied<K> {
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
        let order = self.keys.compare(earlier.key, later.key);
        match if self.max { order.reverse() } else { order } {
            Ordering::Equal => Tied { key: earlier.key, count: earlier.count + later.count },
            Ordering::Less => earlier,
            Ordering::Greater => later,
        }
    }

    fn evict(&self, whole: Self::State, part: Self::State) -> Option<Self::State> {
        // Texts of two columns are stored in two places.
        let worse = if self.max { Ordering::Less } else { Ordering::Greater };
        let stays =
            part.count == 0 || self.keys.are_plain() && self.keys.compare(part.key, whole.key) == worse;
        stays.then_some(whole)
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
        Partials::keep_up(column, Upkeep::Compact)
    }

    /// The extrema of all slots; null for no values.
    fn extrema(column: &Column<Self>) -> Result<ArrayRef> {
        let there = NullBuffer::from_iter(column.states().iter().map(|state| state.count > 0));
        let keys: Vec<K::Key> = column.states().iter().map(|state| state.key).collect();
        column.monoid().keys.values(&keys, Some(there))
    }
}

impl<K: Keys> Aggregate for Ties<K> {
    fn properties(&self) -> Properties {
        Properties::commutative(if self.counted { Kind::Algebraic } else { Kind::Distributive })
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        Self::merge(column, inputs, rows, len)
    }

    /// The extremum, or null, and its count, where that is the result.
    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        match state {
            [values] => Self::fold(column, values, |_| 1, rows, len),
            [values, counts] => {
                let counts = cast_to(counts, &DataType::Int64)?;
                let counts = counts.as_primitive::<Int64Type>();
                Self::fold(column, values, |row| counts.value(row), rows, len)
            }
            _ => Err(Error::Internal(format!("an extremum and its count came as {} columns", state.len()))),
        }
    }

    fn state(column: &Column<Self>) -> Result<Vec<ArrayRef>> {
        let mut state = vec![Self::extrema(column)?];
        if column.monoid().counted {
            state.push(Self::lower(column)?);
        }
        Ok(state)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        if !column.monoid().counted {
            return Self::extrema(column);
        }
        let counts = column.states().iter().map(|state| (state.count > 0).then_some(state.count));
        Ok(Arc::new(counts.collect::<Int64Array>()))
    }

    fn is_plain(&self) -> bool {
        self.keys.are_plain()
    }

    fn emptied(&self) -> Self {
        Self { keys: self.keys.emptied(), ..*self }
    }

    fn adopt(&mut self, other: Self, states: &mut [Self::State]) {
        self.keys.adopt(other.keys, live(states));
    }

    fn keep_up(&mut self, states: &mut [Self::State], what: Upkeep) -> Result<()> {
        let slots = states.len();
        self.keys.keep_up(what, slots, live(states))
    }

    fn bytes(&self) -> usize {
        self.keys.held_bytes()
    }
}

fn live<K>(states: &mut [Tied<K>]) -> impl Iterator<Item = &mut K> {
    states.iter_mut().filter(|state| state.count > 0).map(|state| &mut state.key)
}
