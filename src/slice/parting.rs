//! Folds rows some of which are in order: those by runs, at the speed of a vector pass, and only the others one by one.

use arrow_array::{Array, ArrayRef, UInt32Array};

use super::cells::Parted;
use crate::Result;
use crate::aggregate::{Input, Partials, Rows};
use crate::select::take;

/// Columns in two parts, each built once however many partials read it.
#[derive(Default)]
pub(super) struct Parts {
    rows: Option<(UInt32Array, UInt32Array)>,
    columns: Vec<Part>,
}

/// A column, and its rows in order and out of order.
struct Part {
    whole: ArrayRef,
    front: ArrayRef,
    late: ArrayRef,
}

impl Parts {
    /// Folds rows into their cells, of which there are `cells`, if the partial accepts runs; returns whether it does.
    pub(super) fn fold(
        &mut self,
        partial: &mut dyn Partials,
        input: &Input,
        parted: &Parted,
        cells: usize,
    ) -> Result<bool> {
        let no_rows: Vec<ArrayRef> = input.columns.iter().map(|column| column.slice(0, 0)).collect();
        let whole = input.taken.is_none() && input.columns.iter().all(|column| !column.is_nullable());
        if !whole || !partial.update_runs(&no_rows, &[], cells)? {
            return Ok(false);
        }
        let places = input.columns.iter().map(|column| self.place(column, parted));
        let places = places.collect::<Result<Vec<usize>>>()?;
        let part = |of: fn(&Part) -> &ArrayRef| -> Vec<ArrayRef> {
            places.iter().map(|&at| of(&self.columns[at]).clone()).collect()
        };
        if !partial.update_runs(&part(|own| &own.front), &parted.runs, cells)? {
            return Ok(false);
        }
        partial.update(&part(|own| &own.late), Rows::all(&parted.late_slots, &parted.late_times), cells)?;
        Ok(true)
    }

    /// Where a column's parts are stored.
    fn place(&mut self, column: &ArrayRef, parted: &Parted) -> Result<usize> {
        let same = |own: &Part| own.whole.to_data().ptr_eq(&column.to_data());
        if let Some(at) = self.columns.iter().position(same) {
            return Ok(at);
        }
        let (front, late) = self.rows.get_or_insert_with(|| {
            (UInt32Array::from(parted.front.clone()), UInt32Array::from(parted.late.clone()))
        });
        let (front, late) = (take(column, front, None)?, take(column, late, None)?);
        self.columns.push(Part { whole: column.clone(), front, late });
        Ok(self.columns.len() - 1)
    }
}
