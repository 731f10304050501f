//! Min and max of strings and binaries, in the order of their bytes, as Spark has it. Distributive, commutative.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use super::column::{Column, Monoid};
use super::lift::{Aggregate, Partials, Rows, cast_to, required};
use super::store::{NOWHERE, Position, Store};
use crate::Result;
use crate::dictionary::{plain, widened};

/// An empty column of minima (or maxima) over values of type `input`, if those are bytes.
pub(super) fn bytes_extrema(input: &DataType, max: bool) -> Option<Box<dyn Partials>> {
    use DataType::*;
    let physical = match plain(input) {
        Utf8 | LargeUtf8 | Utf8View => Utf8View,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => BinaryView,
        _ => return None,
    };
    let store = Store::new(physical.clone());
    Some(Box::new(Column::new(BytesExtremum { max, physical, output: widened(input), store })))
}

/// The least or greatest of byte strings, which states point at.
#[derive(Clone)]
pub struct BytesExtremum {
    max: bool,
    physical: DataType,
    output: DataType,
    store: Store,
}

impl BytesExtremum {
    fn bytes(&self, at: Position) -> &[u8] {
        let (chunk, row) = ((at >> 32) as usize, (at & 0xffff_ffff) as usize);
        let chunk = &self.store.chunks()[chunk];
        match self.physical {
            DataType::Utf8View => chunk.as_string_view().value(row).as_bytes(),
            _ => chunk.as_binary_view().value(row),
        }
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

    fn emptied(&self) -> Self {
        Self { store: Store::new(self.physical.clone()), ..self.clone() }
    }
}

impl Aggregate for BytesExtremum {
    fn update(column: &mut Column<Self>, input: Option<&ArrayRef>, rows: Rows<'_>, len: usize) -> Result<()> {
        let input = required(input)?;
        // Two steps: a dictionary of fixed-size binaries has no direct way to views.
        let values = cast_to(&cast_to(input, plain(input.data_type()))?, &column.monoid().physical)?;
        let base = column.monoid_mut().store.push(values.clone());
        column.fold(rows.slots, values.nulls(), len, |row| base + row as Position);
        let (monoid, states) = column.parts_mut();
        monoid.store.compact(states.len(), states.iter_mut())
    }

    fn append(column: &mut Column<Self>, mut other: Column<Self>) {
        let base = column.monoid_mut().store.append(other.monoid().store.clone());
        for state in other.parts_mut().1.iter_mut().filter(|state| **state != NOWHERE) {
            *state += base;
        }
        column.append(other);
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let mut values = column.monoid().store.take(column.states().iter().copied())?;
        let output = &column.monoid().output;
        if matches!(plain(output), DataType::FixedSizeBinary(_)) {
            values = cast_to(&cast_to(&values, &DataType::Binary)?, plain(output))?;
        }
        cast_to(&values, output)
    }
}
