//! Min and max of strings and binaries, in the order of their bytes, as Spark has it. Distributive, commutative.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Partials, Rows, columns};
use super::order::{Family, bytes_of, family, from_views, view_type, views};
use super::properties::{Kind, Properties};
use super::store::{NOWHERE, Position, Store};
use crate::Result;
use crate::dictionary::widened;

/// An empty column of minima (or maxima) over values of type `input`, if those are bytes.
pub(super) fn bytes_extrema(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    if family(input) != Some(Family::Text) {
        return None;
    }
    let store = Store::new(view_type(input));
    Some(Box::new(Column::new(BytesExtremum { max, output: widened(input), store })))
}

/// The least or greatest of byte strings, which states point at.
#[derive(Clone)]
pub struct BytesExtremum {
    max: bool,
    output: DataType,
    store: Store,
}

impl BytesExtremum {
    fn bytes(&self, at: Position) -> &[u8] {
        let (chunk, row) = ((at >> 32) as usize, (at & 0xffff_ffff) as usize);
        bytes_of(&self.store.chunks()[chunk], row)
    }
}

impl Monoid for BytesExtremum {
    type State = Position;

    fn identity(&self) -> Position {
        NOWHERE
    }

    #[inline]
    fn combine(&self, earlier: Position, later: Position) -> Position {
        if earlier == NOWHERE {
            return later;
        }
        if later == NOWHERE || earlier == later {
            return earlier;
        }
        let (a, b) = (self.bytes(earlier), self.bytes(later));
        let later_wins = if self.max { b > a } else { b < a };
        if later_wins { later } else { earlier }
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

impl Aggregate for BytesExtremum {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [input] = columns(inputs)?;
        let values = views(input)?;
        let base = column.monoid_mut().store.push(values.clone());
        column.fold(rows, values.nulls(), len, |row| base + row as Position);
        Self::compact(column)
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let base = column.monoid_mut().store.append(other.monoid().store.clone());
        for state in other.parts_mut().1.iter_mut().filter(|state| **state != NOWHERE) {
            *state += base;
        }
        column.append(other);
    }

    fn compact(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.compact(states.len(), states.iter_mut())
    }

    fn shrink(column: &mut Column<Self>) -> Result<()> {
        let (monoid, states) = column.parts_mut();
        monoid.store.squeeze(states.iter_mut())
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let values = column.monoid().store.take(column.states().iter().copied())?;
        from_views(&values, &column.monoid().output)
    }
}
